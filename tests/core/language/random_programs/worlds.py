"""Random worlds for random programs: texts, days, numbers, and facts of every schema there is.

Facts fit their schemas, in every way a document may say them: members missing or null, numbers as integers or texts,
a zero with a sign, members no schema knows, keys beyond ASCII.
"""

import json
from random import Random  # noqa: TID251 (seeded)

from bpc.core.canon import Json
from bpc.core.facts import SnapshotFact
from bpc.core.rules.types import BOOL, DATE, INT, TEXT, Dec, Fact, List, Map, Opt, Record, Type
from bpc.core.schemas import SCHEMAS

PREFIXES = {"Battery": "battery:", "Component": "component:", "PCF": "pcf:", "DueDiligence": "dd:", "Sample": "sample:"}
_LETTERS = ["a", "b", "Z", "0", " ", "/", '"', "\\", "ß", "é", "Ω", "\u2028", "\x7f", "𝄞", "😀", "\uffff", "\n", "\t"]

# A schema with what the published ones do not have; a test adds it to the table to see maps and lists in facts.
SAMPLE = Fact("Sample", 1)
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


def any_text(rng: Random, longest: int = 12) -> str:
    if rng.random() < 0.04:
        return "".join(rng.choice("abcdefghij") for _ in range(rng.choice([63, 64, 65, 127, 128, 200])))
    return "".join(rng.choice(_LETTERS) for _ in range(rng.randint(0, longest)))


def any_day(rng: Random) -> str:
    if rng.random() < 0.1:
        return rng.choice(["0001-01-01", "9999-12-31", "2024-02-29", "2027-02-18"])
    return f"{rng.randint(1990, 2040):04}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"


def any_digits(rng: Random, decimals: int, *, wild: bool) -> str:
    """A number without sign and with at most `decimals` decimals: mostly small, sometimes as large as can be."""
    largest = 36 if wild and rng.random() < 0.1 else rng.choice([1, 1, 2, 3, 5, 9])
    whole = str(rng.randrange(10**largest))
    if rng.random() < 0.05:
        whole = rng.choice(["0", "00", "007"])
    places = rng.randint(0, decimals)
    return whole if places == 0 else f"{whole}.{str(rng.randrange(10**places)).rjust(places, '0')}"


def any_facts(rng: Random, *, wild: bool) -> list[SnapshotFact]:
    """Facts of every type; only now and then a type has none."""
    facts = []
    for fact in SCHEMAS:
        for key in _keys(rng, fact, wild=wild):
            missing = 0.0 if fact == SAMPLE else rng.choice([0.1, 0.4, 0.7])
            said = [(name, kind) for name, kind in SCHEMAS[fact].items() if rng.random() >= missing]
            payload = {name: _payload(rng, kind, wild=wild) for name, kind in said}
            if rng.random() < 0.1:
                payload["remark"] = any_text(rng)
            facts.append(SnapshotFact(fact_type=fact.name, fact_key=key, schema_version=fact.version, payload=payload))
    rng.shuffle(facts)
    return facts


def keys_of(facts: list[SnapshotFact], fact: Fact) -> list[str]:
    return sorted(found.fact_key for found in facts if found.fact_type == fact.name)


def quoted(rng: Random, text: str) -> str:
    """`text` as a literal of the language, escaped in one of the ways there are."""
    return '"' + "".join(_escaped(rng, letter) for letter in text) + '"'


def _escaped(rng: Random, letter: str) -> str:
    must = letter in '"\\' or letter < " "
    if letter == "/" and rng.random() < 0.3:
        return "\\/"
    if not must and rng.random() >= (0.02 if letter.isascii() else 0.3):
        return letter
    if must and rng.random() < 0.7:
        return json.dumps(letter)[1:-1]
    escape = json.dumps(letter)[1:-1] if letter > "\x7f" else f"\\u{ord(letter):04x}"
    return escape[:2] + escape[2:].upper().replace("\\U", "\\u") if rng.random() < 0.5 else escape


def _keys(rng: Random, fact: Fact, *, wild: bool) -> list[str]:
    prefix = PREFIXES[fact.name]
    count = 0 if wild and rng.random() < 0.07 else rng.choice([1, 1, 2, 3])
    if fact.name == "Component":
        count = 120 if rng.random() < 0.02 else rng.choice([1, 1, 2, 3, 5, 8, 8, 12, 40])
    keys = {f"{prefix}SKU-{number}" for number in range(1, count + 1)}
    if count and rng.random() < 0.2:
        keys.add(prefix + any_text(rng))
    return sorted(keys)


def _payload(rng: Random, kind: Type, *, wild: bool) -> Json:
    made: Json
    match kind:
        case Dec(scale):
            made = _number(rng, scale, wild=wild)
        case Opt(item):
            made = None if rng.random() < 0.3 else _payload(rng, item, wild=wild)
        case List(item):
            made = [_payload(rng, item, wild=wild) for _ in range(rng.randint(0, 4))]
        case Map(item):
            made = {
                rng.choice(["a", "b", "ß", "😀", ""]): _payload(rng, item, wild=wild) for _ in range(rng.randint(0, 4))
            }
        case Record(members):
            made = {name: _payload(rng, item, wild=wild) for name, item in members}
        case _:
            made = _scalar(rng, kind)
    return made


def _number(rng: Random, scale: int, *, wild: bool) -> Json:
    if rng.random() < 0.2:
        return rng.randint(-1000, 1000)
    if rng.random() < 0.05:
        return rng.choice(["0", "-0", "0.0" if scale else "0", "-0.0" if scale else "-0"])
    return ("-" if rng.random() < 0.15 else "") + any_digits(rng, scale, wild=wild)


def _scalar(rng: Random, kind: Type) -> Json:
    if kind == BOOL:
        return rng.random() < 0.5
    if kind == INT:
        return rng.choice([0, 1, -1, rng.randint(-(10**6), 10**6)])
    return any_day(rng) if kind == DATE else any_text(rng)
