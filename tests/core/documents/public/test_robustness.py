"""Whatever is in a document that looks like a public format: facts or problems with a place, never a crash.

Variants of our examples, and of the published files where they are: members dropped, moved, given other types, lists
made longer, numbers made long. Documents made from the published schemas, and valid by them, become facts.
"""

import copy
import json
import random  # noqa: TID251 seeded, so that a run can be repeated
from collections.abc import Iterator
from typing import Any

import pytest

from bpc.core import canon
from bpc.core.documents import Read, Rejected, read_document
from bpc.core.facts import read_members
from bpc.core.rules.types import Fact
from tests.core.documents.public_data import FOLDER, example, example_names, public_file
from tests.measuring import Measured, effort

KINDS = ("BOM", "PCF", "DUE_DILIGENCE")
VARIANTS = effort(test=500, shown=20_000, campaign=200_000)

PUBLISHED = sorted(file.name for file in FOLDER.iterdir()) if FOLDER.is_dir() else []

STRANGE: list[Any] = [
    None,
    True,
    "",
    "ü\u2028\U0001f50b",
    "\x00",
    "\ud800",
    "unit:furlong",
    "7172-75-08",
    "2027-02-30T00:00:00Z",
    ":::",
    "https://",
    "https://id.example/01/123456789012345678/21/",
    "x" * 5_000,
    0,
    -1,
    10**40,
    1.110778709024233,
    1e-30,
    [],
    {},
    [[]],
    [None],
    {"": {}},
    [{"value": {"value": []}}],
]


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything in a document but itself."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield (*way, key)
        yield from places(part, (*way, key))


def changed(chance: random.Random, document: Any) -> Any:
    """A variant: one to four things are dropped, replaced, copied to elsewhere or repeated."""
    variant = copy.deepcopy(document)
    for _ in range(chance.randint(1, 4)):
        ways = list(places(variant))
        if not ways:
            return variant
        *way, key = chance.choice(ways)
        holder = variant
        for name in way:
            holder = holder[name]
        match chance.randint(0, 4):
            case 0:
                del holder[key]
            case 1:
                holder[key] = copy.deepcopy(chance.choice(STRANGE))
            case 2:
                holder[key] = [holder[key]] * chance.randint(1, 4)
            case 3:
                other = variant
                for name in chance.choice(ways):
                    if isinstance(other, dict | list) and (isinstance(other, list) or name in other):
                        other = other[name] if isinstance(other, dict) or name < len(other) else other
                holder[key] = copy.deepcopy(other)
            case _ if isinstance(holder, list):
                holder.extend(copy.deepcopy(holder[:3]))
            case _:
                holder[chance.choice(["part", "gtin", "item", "pcf", "", "a.b", "ö", "@id"])] = holder.pop(key)
    return variant


def is_sound(outcome: Read | Rejected) -> None:
    """Facts fit their schema and stand somewhere; problems are sentences with a place."""
    if isinstance(outcome, Rejected):
        assert outcome.problems.total > 0
        assert all(note.at and len(note.says) > 5 for note in outcome.problems.first)
        return
    assert outcome.facts
    for fact in outcome.facts:
        payload = canon.decode(fact.payload_canonical)
        assert isinstance(payload, dict)
        read_members(Fact(fact.fact_type, 1), fact.fact_key, payload)
        assert fact.source_path.startswith("$")
        assert ":" not in str(payload["sku"])


def sources() -> list[bytes]:
    return [example(name) for name in example_names()] + [
        public_file(name) for name in PUBLISHED if "schema" not in name and "guidance" not in name
    ]


@pytest.mark.repeats
def test_no_variant_of_a_document_is_too_strange_to_answer(measured: Measured) -> None:
    chance = random.Random(11)
    documents = [json.loads(content) for content in sources()]
    read = 0

    for _ in range(VARIANTS):
        content = json.dumps(changed(chance, chance.choice(documents))).encode()
        outcome = read_document(chance.choice(KINDS), "application/json", content)
        is_sound(outcome)
        read += isinstance(outcome, Read)

    assert VARIANTS // 20 < read < VARIANTS
    measured("public-formats-variants", variants=VARIANTS, read=read, refused=VARIANTS - read)


def valid(chance: random.Random, schema: Any, root: Any, name: str = "") -> Any:
    """A value that the published schema accepts."""
    while "$ref" in schema or "allOf" in schema:
        schema = schema["allOf"][0] if "allOf" in schema else pointed(root, schema["$ref"])
    if "enum" in schema:
        return chance.choice(schema["enum"])
    match schema.get("type"):
        case "object":
            made = [key for key in schema.get("properties", {}) if is_made(chance, key, schema)]
            return {key: valid(chance, schema["properties"][key], root, key) for key in made}
        case "array":
            return [valid(chance, schema["items"], root, name) for _ in range(chance.randint(1, 3))]
        case "boolean":
            return chance.random() < 0.5
        case "number" | "integer":
            low, high = max(schema.get("minimum", 0), 0), min(schema.get("maximum", 100_000), 100_000)
            return chance.choice([low, high, round(low + (high - low) * 0.7)])
        case _:
            pass
    return FREE.get(name) or text_for(chance, schema.get("pattern", ""), name)


def pointed(root: Any, pointer: str) -> Any:
    for step in pointer.removeprefix("#/").split("/"):
        root = root[step]
    return root


def is_made(chance: random.Random, key: str, schema: Any) -> bool:
    # Without the first two a Pcf is about nothing, though its schema lets them out.
    return key in ("productInformation", "productionStage", *schema.get("required", ())) or chance.random() < 0.6


# Members whose schema takes any text though their description names what goes there.
FREE = {"unit": "kg CO2 / kWh", "lifecycle": "distribution", "declaredUnitOfMeasurement": "piece"}


def text_for(chance: random.Random, pattern: str, name: str) -> str:
    number = chance.randint(1, 10**9)
    for part, made in (
        ("T(", "2027-03-01T10:20:30.5+01:00"),
        (r"\d{4}-\d{2}-\d{2}", "2027-03-01"),
        ("--(0", "--08"),
        ("BPN", f"{pattern[1:5]}{number:012d}"),
        ("uuid", "urn:uuid:6f1f3a52-6f53-4a30-9f0e-4c9b5a1e7d10"),
        ("urn:[a-z0-9]+", f"urn:example:{number}"),
        (r"-\d{2}-\d{1}", "7440-48-4"),
        ("[a-zA-Z]*:[a-zA-Z]+", chance.choice(["unit:piece", "unit:kilogram", "unit:litre"])),
        ("[A-Z]{2}-", "DE-BY"),
        ("[A-Z]{2}", "DE"),
        ("customKey", "partInstanceId" if name == "key" else "x"),
        ("@", "a@cells.example"),
    ):
        if part in pattern:
            return made
    return "2027-03-01T10:20:30+01:00" if "Date" in name else f"Ünïted {number}"


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ("BatteryPass-6.1.0", "BOM"),
        ("BomAsSpecified-1.0.1", "BOM"),
        ("Pcf-9.0.0", "PCF"),
        ("PcfForBatteryComponentSupplier-1.0.0", "PCF"),
        ("CarbonFootprintForBatteries-1.2.0", "PCF"),
        ("Circularity-1.2.0", "BOM"),
        ("GeneralProductInformation-1.2.0", "BOM"),
        ("Labeling-1.2.0", "BOM"),
        ("MaterialComposition-1.2.0", "BOM"),
        ("PerformanceAndDurability-1.2.1", "BOM"),
        ("SupplyChainDueDiligence-1.2.0", "DUE_DILIGENCE"),
    ],
)
def test_whatever_a_published_schema_accepts_becomes_facts(schema: str, kind: str) -> None:
    chance = random.Random(schema)
    published = json.loads(public_file(f"{schema}-schema.json"))

    for _ in range(effort(test=40, shown=400, campaign=4_000)):
        document = {"productIdentifier": "EX-75", **valid(chance, published, published)}
        outcome = read_document(kind, "application/json", json.dumps(document).encode())
        assert isinstance(outcome, Read), (document, outcome)
        is_sound(outcome)
