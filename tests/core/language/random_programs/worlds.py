"""Random worlds for random programs: texts, days, numbers, and facts of every schema there is.

Facts fit their schemas, in every way a document may say them: members missing or null, numbers as integers or texts,
a zero with a sign, members no schema knows, keys beyond ASCII.
"""

import json
from random import Random  # noqa: TID251 (seeded)

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.schemas import SCHEMAS
from bpc.core.formats.canonical_json import Json
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, FactRecordType, List, Map, Opt, Record, Type

PREFIXES = {
    "Battery": "battery:",
    "Component": "component:",
    "PCF": "pcf:",
    "DueDiligence": "dd:",
    "Reading": "reading:",
    "ReadingSeries": "series:",
    "Finding": "finding:",
    "Attachment": "attachment:",
    "Item": "item:",
    "Batch": "batch:",
    "Sample": "sample:",
}
_LETTERS = ["a", "b", "Z", "0", " ", "/", '"', "\\", "ß", "é", "Ω", "\u2028", "\x7f", "𝄞", "😀", "\uffff", "\n", "\t"]

# A schema with what the published ones do not have; a test adds it to the table to see maps and lists in facts.
SAMPLE = FactRecordType("Sample", 1)
SAMPLE_MEMBERS: dict[str, Type] = {
    "whole": INT,
    "fine": Dec(18),
    "coarse": Dec(0),
    "shares": Map(Dec(2)),
    "labels": Map(TEXT),
    "masses": List(Dec(6)),
    "parts": List(Record((("name", TEXT), ("mass", Opt(Dec(2)))))),
    "origin": Record((("place", TEXT), ("day", Opt(DATE)), ("checked", BOOL))),
}


def draw_text(rng: Random, longest: int = 12) -> str:
    if rng.random() < 0.04:
        return "".join(rng.choice("abcdefghij") for _ in range(rng.choice([63, 64, 65, 127, 128, 200])))
    return "".join(rng.choice(_LETTERS) for _ in range(rng.randint(0, longest)))


def draw_day(rng: Random) -> str:
    if rng.random() < 0.1:
        return rng.choice(["0001-01-01", "9999-12-31", "2024-02-29", "2027-02-18"])
    return f"{rng.randint(1990, 2040):04}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"


def draw_digits(rng: Random, decimals: int, *, wild: bool) -> str:
    """A number without sign and with at most `decimals` decimals: mostly small, sometimes as large as can be."""
    largest = 36 if wild and rng.random() < 0.1 else rng.choice([1, 1, 2, 3, 5, 9])
    integer_digits = str(rng.randrange(10**largest))
    if rng.random() < 0.05:
        integer_digits = rng.choice(["0", "00", "007"])
    places = rng.randint(0, decimals)
    return integer_digits if places == 0 else f"{integer_digits}.{str(rng.randrange(10**places)).rjust(places, '0')}"


def draw_facts(rng: Random, *, wild: bool) -> list[SnapshotFact]:
    """Facts of every type; only now and then a type has none."""
    facts = []
    for fact in SCHEMAS:
        for key in _draw_keys(rng, fact, wild=wild):
            missing = 0.0 if fact == SAMPLE else rng.choice([0.1, 0.4, 0.7])
            members = [(name, kind) for name, kind in SCHEMAS[fact].items() if rng.random() >= missing]
            payload = {name: _draw_payload(rng, kind, wild=wild) for name, kind in members}
            if rng.random() < 0.1:
                payload["remark"] = draw_text(rng)
            facts.append(SnapshotFact(fact_type=fact.name, fact_key=key, schema_version=fact.version, payload=payload))
    rng.shuffle(facts)
    return facts


def list_keys(facts: list[SnapshotFact], fact: FactRecordType) -> list[str]:
    return sorted(known_fact.fact_key for known_fact in facts if known_fact.fact_type == fact.name)


def quote_text(rng: Random, text: str) -> str:
    """`text` as a literal of the language, escaped in one of the ways there are."""
    return '"' + "".join(_escape_letter(rng, letter) for letter in text) + '"'


def _escape_letter(rng: Random, letter: str) -> str:
    must = letter in '"\\' or letter < " "
    if letter == "/" and rng.random() < 0.3:
        return "\\/"
    if not must and rng.random() >= (0.02 if letter.isascii() else 0.3):
        return letter
    if must and rng.random() < 0.7:
        return json.dumps(letter)[1:-1]
    escape = json.dumps(letter)[1:-1] if letter > "\x7f" else f"\\u{ord(letter):04x}"
    return escape[:2] + escape[2:].upper().replace("\\U", "\\u") if rng.random() < 0.5 else escape


def _draw_keys(rng: Random, fact: FactRecordType, *, wild: bool) -> list[str]:
    prefix = PREFIXES[fact.name]
    count = 0 if wild and rng.random() < 0.07 else rng.choice([1, 1, 2, 3])
    if fact.name == "Component":
        count = 120 if rng.random() < 0.02 else rng.choice([1, 1, 2, 3, 5, 8, 8, 12, 40])
    keys = {f"{prefix}SKU-{number}" for number in range(1, count + 1)}
    if count and rng.random() < 0.2:
        keys.add(prefix + draw_text(rng))
    return sorted(keys)


def _draw_payload(rng: Random, kind: Type, *, wild: bool) -> Json:
    value: Json
    match kind:
        case Dec(scale):
            value = _draw_number(rng, scale, wild=wild)
        case Opt(item):
            value = None if rng.random() < 0.3 else _draw_payload(rng, item, wild=wild)
        case List(item):
            value = [_draw_payload(rng, item, wild=wild) for _ in range(rng.randint(0, 4))]
        case Map(item):
            value = {
                rng.choice(["a", "b", "ß", "😀", ""]): _draw_payload(rng, item, wild=wild)
                for _ in range(rng.randint(0, 4))
            }
        case Record(members):
            value = {name: _draw_payload(rng, item, wild=wild) for name, item in members}
        case _:
            value = _draw_scalar(rng, kind)
    return value


def _draw_number(rng: Random, scale: int, *, wild: bool) -> Json:
    if rng.random() < 0.2:
        return rng.randint(-1000, 1000)
    if rng.random() < 0.05:
        return rng.choice(["0", "-0", "0.0" if scale else "0", "-0.0" if scale else "-0"])
    return ("-" if rng.random() < 0.15 else "") + draw_digits(rng, scale, wild=wild)


def _draw_scalar(rng: Random, kind: Type) -> Json:
    if kind == BOOL:
        return rng.random() < 0.5
    if kind == INT:
        return rng.choice([0, 1, -1, rng.randint(-(10**6), 10**6)])
    return draw_day(rng) if kind == DATE else draw_text(rng)
