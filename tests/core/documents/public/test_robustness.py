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

from bpc.core.documents.reader import DocumentFacts, DocumentProblems, read_document
from bpc.core.facts.fact_table import read_members
from bpc.core.formats import canonical_json
from bpc.core.language.types import FactRecordType
from tests.core.documents.public_files import PUBLISHED_FOLDER, list_example_names, read_example, read_published_file
from tests.measurements import RecordMeasurement, choose_effort

KINDS = ("BOM", "PCF", "DUE_DILIGENCE")
VARIANTS = choose_effort(test=200, shown=20_000, campaign=200_000)

PUBLISHED = sorted(file.name for file in PUBLISHED_FOLDER.iterdir()) if PUBLISHED_FOLDER.is_dir() else []

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


def list_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything in a document but itself."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield (*path, key)
        yield from list_paths(part, (*path, key))


def make_variant(chance: random.Random, document: Any) -> Any:
    """A variant: one to four things are dropped, replaced, copied to elsewhere or repeated."""
    variant = copy.deepcopy(document)
    for _ in range(chance.randint(1, 4)):
        paths = list(list_paths(variant))
        if not paths:
            return variant
        *path, key = chance.choice(paths)
        holder = variant
        for name in path:
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
                for name in chance.choice(paths):
                    if isinstance(other, dict | list) and (isinstance(other, list) or name in other):
                        other = other[name] if isinstance(other, dict) or name < len(other) else other
                holder[key] = copy.deepcopy(other)
            case _ if isinstance(holder, list):
                holder.extend(copy.deepcopy(holder[:3]))
            case _:
                holder[chance.choice(["part", "gtin", "item", "pcf", "", "a.b", "ö", "@id"])] = holder.pop(key)
    return variant


def require_sound(outcome: DocumentFacts | DocumentProblems) -> None:
    """Facts fit their schema and stand somewhere; problems are sentences with a place."""
    if isinstance(outcome, DocumentProblems):
        assert outcome.problems.total > 0
        assert all(note.at and len(note.says) > 5 for note in outcome.problems.first)
        return
    assert outcome.facts
    for fact in outcome.facts:
        payload = canonical_json.decode(fact.payload_canonical)
        assert isinstance(payload, dict)
        read_members(FactRecordType(fact.fact_type, 1), fact.fact_key, payload)
        assert fact.source_path.startswith("$")
        assert ":" not in str(payload["sku"])


def load_sources() -> list[bytes]:
    return [read_example(name) for name in list_example_names()] + [
        read_published_file(name) for name in PUBLISHED if "schema" not in name and "guidance" not in name
    ]


@pytest.mark.repeats
def test_every_variant_of_a_document_gets_an_answer(record_measurement: RecordMeasurement) -> None:
    chance = random.Random(11)
    documents = [json.loads(content) for content in load_sources()]
    read_count = 0

    for _ in range(VARIANTS):
        content = json.dumps(make_variant(chance, chance.choice(documents))).encode()
        outcome = read_document(chance.choice(KINDS), "application/json", content)
        require_sound(outcome)
        read_count += isinstance(outcome, DocumentFacts)

    assert VARIANTS // 20 < read_count < VARIANTS
    record_measurement("public-formats-variants", variants=VARIANTS, read=read_count, refused=VARIANTS - read_count)


def make_valid(chance: random.Random, schema: Any, root: Any, name: str = "") -> Any:
    """A value that the published schema accepts."""
    while "$ref" in schema or "allOf" in schema:
        schema = schema["allOf"][0] if "allOf" in schema else follow_pointer(root, schema["$ref"])
    if "enum" in schema:
        return chance.choice(schema["enum"])
    match schema.get("type"):
        case "object":
            chosen = [key for key in schema.get("properties", {}) if is_chosen(chance, key, schema)]
            return {key: make_valid(chance, schema["properties"][key], root, key) for key in chosen}
        case "array":
            return [make_valid(chance, schema["items"], root, name) for _ in range(chance.randint(1, 3))]
        case "boolean":
            return chance.random() < 0.5
        case "number" | "integer":
            low, high = max(schema.get("minimum", 0), 0), min(schema.get("maximum", 100_000), 100_000)
            return chance.choice([low, high, round(low + (high - low) * 0.7)])
        case _:
            pass
    return FREE.get(name) or make_text(chance, schema.get("pattern", ""), name)


def follow_pointer(root: Any, pointer: str) -> Any:
    for step in pointer.removeprefix("#/").split("/"):
        root = root[step]
    return root


def is_chosen(chance: random.Random, key: str, schema: Any) -> bool:
    # Without the first two a Pcf is about nothing, though its schema lets them out.
    return key in ("productInformation", "productionStage", *schema.get("required", ())) or chance.random() < 0.6


# Members whose schema takes any text though their description names what goes there.
FREE = {"unit": "kg CO2 / kWh", "lifecycle": "distribution", "declaredUnitOfMeasurement": "piece"}


def make_text(chance: random.Random, pattern: str, name: str) -> str:
    number = chance.randint(1, 10**9)
    for part, text in (
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
            return text
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
    published = json.loads(read_published_file(f"{schema}-schema.json"))

    for _ in range(choose_effort(test=40, shown=400, campaign=4_000)):
        document = {"productIdentifier": "EX-75", **make_valid(chance, published, published)}
        outcome = read_document(kind, "application/json", json.dumps(document).encode())
        assert isinstance(outcome, DocumentFacts), (document, outcome)
        require_sound(outcome)
