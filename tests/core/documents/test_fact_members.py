"""The JSON Schemas of documents: what they accept is read completely, and what they refuse is not."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.documents.elements import FACT_TYPES
from bpc.core.documents.fact_members import build_document_schema
from bpc.core.documents.reader import DocumentFacts, read_document
from bpc.core.facts.schemas import SCHEMA_MEMBERS, SCHEMAS
from bpc.core.language.types import FactRecordType

EXAMPLES = Path(__file__).parents[3] / "examples" / "documents"


def accepts(kind: str, document: Any) -> bool:
    return jsonschema.Draft202012Validator(build_document_schema(kind)).is_valid(document)


def is_read(kind: str, document: Any) -> bool:
    """Whether a document is read completely: it is accepted, and every value of it can be read."""
    outcome = read_document(kind, "application/json", json.dumps(document).encode())
    return isinstance(outcome, DocumentFacts) and not any(fact.unreadable for fact in outcome.facts)


@pytest.mark.parametrize("kind", FACT_TYPES)
def test_they_are_schemas_of_2020_12_with_every_member(kind: str) -> None:
    schema: Any = build_document_schema(kind)

    jsonschema.Draft202012Validator.check_schema(schema)

    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    for fact_type, described in schema["$defs"].items():
        assert set(described["properties"]) == set(SCHEMAS[FactRecordType(fact_type, 1)])
        says = {name: member["description"] for name, member in described["properties"].items()}
        assert says == {
            name: member.description for name, member in SCHEMA_MEMBERS[FactRecordType(fact_type, 1)].items()
        }


@pytest.mark.parametrize("kind", FACT_TYPES)
def test_our_examples_fit(kind: str) -> None:
    example = EXAMPLES / f"{kind.lower().replace('_', '-')}.json"

    assert accepts(kind, json.loads(example.read_bytes()))


AGREED_CASES: list[tuple[str, Any, bool]] = [
    ("BOM", {"battery": {"sku": "A"}}, True),
    ("BOM", {"battery": {"sku": "A", "name": None, "colour": 1}, "author": "me"}, True),
    ("BOM", {"battery": {"sku": "A"}, "components": [{"part": "cell", "mass_g": 1.5}]}, True),
    ("BOM", {"components": [{"sku": "A"}]}, True),
    ("BOM", {"batteries": [{"sku": "A"}], "components": None}, True),
    ("BOM", {"battery": {"sku": "A", "labels": [{"url": None}]}}, True),
    ("BOM", {"battery": {"sku": "A", "mass_kg": "1.5000000"}}, True),
    ("BOM", {}, False),
    ("BOM", [], False),
    ("BOM", {"battery": None, "components": []}, False),
    ("BOM", {"battery": []}, False),
    ("BOM", {"battery": {"sku": "A:B"}}, False),
    ("BOM", {"battery": {"sku": ""}}, False),
    ("BOM", {"battery": {"sku": "x" * 201}}, False),
    ("BOM", {"battery": {}}, False),
    ("BOM", {"battery": {"sku": "A", "mass_kg": "1,5"}}, False),
    ("BOM", {"battery": {"sku": "A", "mass_kg": "1.1234567"}}, False),
    ("BOM", {"battery": {"sku": "A", "has_bms": "yes"}}, False),
    ("BOM", {"battery": {"sku": "A", "expected_cycles": 1.5}}, False),
    ("BOM", {"battery": {"sku": "A", "manufactured_on": "18.02.2027"}}, False),
    ("BOM", {"battery": {"sku": "A", "fastenings": ["x", None]}}, False),
    ("BOM", {"battery": {"sku": "A", "labels": [None]}}, False),
    ("BOM", {"battery": {"sku": "A"}, "components": [{"part": 7}]}, False),
    ("PCF", {"sku": "A", "total_gco2e": 1.5}, True),
    ("PCF", [{"sku": "A"}, {"sku": "B"}], True),
    ("PCF", [], False),
    ("PCF", None, False),
    ("PCF", [None], False),
    ("PCF", {"total_gco2e": 1}, False),
    ("DUE_DILIGENCE", {"sku": "A", "materials": ["cobalt"], "conforms": True}, True),
    ("DUE_DILIGENCE", {"sku": "A", "materials": "cobalt"}, False),
]


@pytest.mark.parametrize(("kind", "document", "good"), AGREED_CASES)
def test_schema_and_reader_agree(kind: str, document: Any, good: bool) -> None:
    assert (accepts(kind, document), is_read(kind, document)) == (good, good)


VALUES = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.sampled_from(["75.5", "2027-02-18", "x", "1"])


@given(st.dictionaries(st.sampled_from(sorted(SCHEMAS[FactRecordType("PCF", 1)])), VALUES, max_size=4))
def test_they_agree_on_any_footprint(members: dict[str, Any]) -> None:
    assert accepts("PCF", members) == is_read("PCF", members)


def test_the_reader_finds_what_no_schema_can_express() -> None:
    document = {"sku": "A", "verified_on": "2027-02-30"}

    assert accepts("PCF", document)
    assert not is_read("PCF", document)
