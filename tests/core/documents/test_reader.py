"""Documents become facts: typed, exact, keyed, with their place; and what is wrong is named, all of it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.documents import MAX_UNREADABLE
from bpc.core.documents.reader import MAX_FACTS, DocumentFacts, DocumentProblems, ExtractedFact, read_document
from bpc.core.facts.fact_table import read_members
from bpc.core.facts.schemas import SCHEMAS
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256
from bpc.core.language.types import FactRecordType


def read_facts(kind: str, document: Any) -> DocumentFacts:
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    outcome = read_document(kind, "application/json", content)
    assert isinstance(outcome, DocumentFacts), outcome
    return outcome


def list_problems(kind: str, document: Any) -> list[tuple[str, str]]:
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    outcome = read_document(kind, "application/json", content)
    assert isinstance(outcome, DocumentProblems), outcome
    return [(note.at, note.says) for note in outcome.problems.first]


def list_unreadable(outcome: DocumentFacts) -> list[tuple[str, str, str]]:
    return [(lost.member, lost.place, lost.says) for fact in outcome.facts for lost in fact.unreadable]


def list_warnings(outcome: DocumentFacts) -> list[tuple[str, str]]:
    return [(note.at, note.says) for note in outcome.warnings.first]


def decode_payload(fact: ExtractedFact) -> Any:
    return canonical_json.decode(fact.payload_canonical)


def test_a_bill_of_materials_is_a_battery_and_its_components() -> None:
    outcome = read_facts(
        "BOM",
        b'{"battery": {"sku": "SKU-1", "capacity_kwh": 75.5, "nominal_voltage_v": "400", "manufactured_on":'
        b' "2027-02-18", "has_bms": true, "expected_cycles": 1500, "name": null},'
        b' "components": [{"sku": "SKU-1", "part": "cell", "mass_g": 1.2e2, "critical": false}]}',
    )

    assert [(fact.fact_type, fact.fact_key, fact.source_path, decode_payload(fact)) for fact in outcome.facts] == [
        (
            "Battery",
            "battery:SKU-1",
            "$.battery",
            {
                "sku": "SKU-1",
                "capacity_kwh": "75.500000",
                "nominal_voltage_v": "400.000",
                "manufactured_on": "2027-02-18",
                "has_bms": True,
                "expected_cycles": 1500,
            },
        ),
        (
            "Component",
            "component:SKU-1:cell",
            "$.components[0]",
            {"sku": "SKU-1", "part": "cell", "mass_g": "120.000000", "critical": False},
        ),
    ]
    assert all(fact.payload_hash == sha256(fact.payload_canonical) for fact in outcome.facts)
    assert outcome.warnings.total == 0


def test_several_batteries_and_components_without_a_part_are_batteries() -> None:
    outcome = read_facts(
        "BOM",
        {"batteries": [{"sku": "A"}, {"sku": "B"}], "components": [{"sku": "C"}, {"sku": "A", "part": "cell"}]},
    )

    assert [(fact.fact_key, fact.source_path) for fact in outcome.facts] == [
        ("battery:A", "$.batteries[0]"),
        ("battery:B", "$.batteries[1]"),
        ("battery:C", "$.components[0]"),
        ("component:A:cell", "$.components[1]"),
    ]


def test_a_component_belongs_to_the_one_battery_of_its_document() -> None:
    outcome = read_facts("BOM", {"battery": {"sku": "A"}, "components": [{"part": "cell"}]})

    assert outcome.facts[1].fact_key == "component:A:cell"
    assert decode_payload(outcome.facts[1]) == {"part": "cell", "sku": "A"}
    assert list_problems("BOM", {"batteries": [{"sku": "A"}, {"sku": "B"}], "components": [{"part": "cell"}]}) == [
        ("$.components[0].sku", "is missing; it identifies the product")
    ]


@pytest.mark.parametrize(("kind", "prefix"), [("PCF", "pcf"), ("DUE_DILIGENCE", "dd")])
def test_footprints_and_due_diligence_come_alone_or_as_a_list(kind: str, prefix: str) -> None:
    one = read_facts(kind, {"sku": "A"})
    several = read_facts(kind, [{"sku": "A"}, {"sku": "B"}])

    assert [(fact.fact_key, fact.source_path) for fact in one.facts] == [(f"{prefix}:A", "$")]
    assert [(fact.fact_key, fact.source_path) for fact in several.facts] == [
        (f"{prefix}:A", "$[0]"),
        (f"{prefix}:B", "$[1]"),
    ]


def test_the_same_bytes_give_the_same_facts_and_the_spelling_of_a_number_does_not_matter() -> None:
    spellings = [b"75.5", b"75.50", b"7.55e1", b'"75.5"', b'"075.500"', b"755E-1", b"75.5000000000"]

    hashes = {
        read_facts("BOM", b'{"battery":{"sku":"A","capacity_kwh":%s}}' % spelling).facts[0].payload_hash
        for spelling in spellings
    }

    assert len(hashes) == 1


def test_no_number_passes_through_a_binary_fraction() -> None:
    written = b"100000000000000000.123456"

    outcome = read_facts("BOM", b'{"battery":{"sku":"A","capacity_kwh":%s,"mass_kg":0.1}}' % written)

    assert decode_payload(outcome.facts[0])["capacity_kwh"] == written.decode()
    assert decode_payload(outcome.facts[0])["mass_kg"] == "0.100000"


def test_lists_and_records_are_typed_to_their_last_member() -> None:
    substances = [{"name": "x", "concentration_pct": 0.1, "location": None, "smell": "bad"}]
    outcome = read_facts("BOM", {"battery": {"sku": "A", "hazardous_substances": substances, "fastenings": ["4 × M4"]}})

    assert decode_payload(outcome.facts[0]) == {
        "sku": "A",
        "hazardous_substances": [{"name": "x", "concentration_pct": "0.1000"}],
        "fastenings": ["4 × M4"],
    }
    assert list_warnings(outcome) == [
        ("$.battery.hazardous_substances[0].smell", "is not a member of this object and was left out")
    ]


def test_unknown_members_are_left_out_and_named() -> None:
    outcome = read_facts("BOM", {"battery": {"sku": "A", "masss_kg": 1, "ü": {"deep": [1]}}, "author": "me"})

    assert decode_payload(outcome.facts[0]) == {"sku": "A"}
    assert list_warnings(outcome) == [
        ("$.author", "is not part of a bill of materials and was left out"),
        ("$.battery.masss_kg", "is not a member of Battery and was left out; did you mean `mass_kg`?"),
        ('$.battery["\\u00fc"]', "is not a member of Battery and was left out"),
    ]


def test_two_different_facts_with_one_key_are_warned_about() -> None:
    outcome = read_facts("PCF", [{"sku": "A", "year": 2026}, {"sku": "A", "year": 2026}, {"sku": "A", "year": 2027}])

    assert len(outcome.facts) == 3
    assert list_warnings(outcome) == [
        ("$[2]", "has the same key as `$[0]` but different values; a snapshot can hold only one")
    ]


BAD_VALUES: list[tuple[str, Any, str, str]] = [
    ("capacity_kwh", "much", "", 'is "much", not a decimal number such as 75.5'),
    ("mass_kg", 1.1234567, "", "has more than 6 decimals"),
    ("rated_capacity_ah", True, "", "is a boolean (true or false), not a decimal number"),
    ("expected_cycles", 1.5, "", "is not a whole number"),
    ("cell_count", "1e3", "", 'is "1e3", not a whole number such as 12'),
    ("manufactured_on", "20270218", "", 'is "20270218", not a date written like 2027-02-18'),
    ("warranty_until_on", "2027-02-30", "", 'is "2027-02-30", not a date written like 2027-02-18'),
    ("put_into_service_on", 20270218, "", "is a number, not a date written like 2027-02-18"),
    ("has_bms", "yes", "", "is a text, not true or false"),
    ("fastenings", "4", "", "is a text, not a list"),
    ("disassembly_tools", ["saw", None, 3], "[1]", "is null; leave it out of the list"),
    ("labels", [{"url": "u"}, {"url": False}], "[1].url", "is a boolean (true or false), not a text"),
    ("usable_energy_kwh", 10**36, "", "is not below 10^36"),
    ("model", "a\0b", "", "contains an invalid character: U+0000 or half of a surrogate pair"),
    ("cathode", "\ud800", "", "contains an invalid character: U+0000 or half of a surrogate pair"),
]


def test_a_bad_value_loses_its_member_and_not_the_document() -> None:
    battery = {"sku": "A", "name": "Pack", **{member: value for member, value, _, _ in BAD_VALUES}}

    outcome = read_facts("BOM", {"battery": battery})

    assert decode_payload(outcome.facts[0]) == {"sku": "A", "name": "Pack"}
    assert list_unreadable(outcome) == [
        (member, f"$.battery.{member}{below}", says) for member, _, below, says in BAD_VALUES
    ]
    second_tool = (
        "$.battery.disassembly_tools[2]",
        "is a number, not a text; put it in quotes; the value was left out",
    )
    assert second_tool in list_warnings(outcome)
    assert outcome.warnings.total == len(BAD_VALUES) + 1


def test_more_unreadable_values_than_can_be_listed_reject_the_document() -> None:
    footprints = [{"sku": str(number), "year": "x"} for number in range(MAX_UNREADABLE + 1)]

    assert len(read_facts("PCF", footprints[:-1]).warnings.first) == MAX_UNREADABLE
    assert list_problems("PCF", footprints) == [
        (
            "$[10000].year",
            'is "x", not a whole number such as 12; it is one of more than 10,000 values that cannot be read',
        )
    ]


def test_every_problem_of_keys_is_named_at_once() -> None:
    document = {
        "battery": {"sku": 5, "mass_kg": "x"},
        "components": [{"sku": "A", "part": True}, {"sku": "A:B", "part": "x"}],
    }

    assert list_problems("BOM", document) == [
        ("$.battery.sku", "is a number, not a text; put it in quotes"),
        ("$.components[0].part", "is a boolean (true or false), not a text"),
        ("$.components[1].sku", "has a colon, which separates the parts of a fact's key"),
    ]


@pytest.mark.parametrize(
    ("sku", "says"),
    [
        (None, "is missing; it identifies the product"),
        ("", "does not have 1 to 200 characters"),
        ("x" * 201, "does not have 1 to 200 characters"),
        ("A:B", "has a colon, which separates the parts of a fact's key"),
    ],
)
def test_a_fact_needs_to_say_what_it_is_about(sku: str | None, says: str) -> None:
    assert list_problems("PCF", {"sku": sku}) == [("$.sku", says)]


@pytest.mark.parametrize(
    ("kind", "document", "at"),
    [
        ("BOM", [], "$"),
        ("BOM", {}, "$"),
        ("BOM", {"battery": None, "components": []}, "$"),
        ("BOM", {"battery": []}, "$.battery"),
        ("BOM", {"batteries": {"sku": "A"}}, "$.batteries"),
        ("BOM", {"components": [None]}, "$.components[0]"),
        ("PCF", None, "$"),
        ("PCF", [], "$"),
        ("PCF", [1], "$[0]"),
        ("DUE_DILIGENCE", "text", "$"),
        ("OTHER", {"sku": "A"}, "$"),
    ],
)
def test_a_document_of_another_shape_is_rejected(kind: str, document: Any, at: str) -> None:
    assert [problem_at for problem_at, _ in list_problems(kind, document)] == [at]


def test_an_unknown_mime_type_is_refused_with_the_list_of_known_ones() -> None:
    outcome = read_document("BOM", "application/pdf", b"%PDF")

    assert isinstance(outcome, DocumentProblems)
    assert outcome.problems.first[0] == (
        "mime_type",
        (
            "is `application/pdf`, which is not supported; supported types: application/json, application/ld+json,"
            " application/vnd.openxmlformats-officedocument.spreadsheetml.sheet, text/csv, text/json"
        ),
    )


@pytest.mark.slow
def test_a_document_and_a_fact_have_a_largest_size() -> None:
    many = [{"sku": str(number)} for number in range(MAX_FACTS + 1)]

    assert list_problems("PCF", many)[0][1].startswith("has 50,001 facts")
    assert list_problems("PCF", {"sku": "A", "method": "x" * 300_000})[0][1].startswith("has 300,023 bytes")


@pytest.mark.parametrize("number", [b"1e3000000", b"1e999", b"9" * 80, b"-1e36", b'"' + b"9" * 5000 + b'"'])
def test_a_number_that_fits_nowhere_is_refused_at_once(number: bytes) -> None:
    outcome = read_document("PCF", "application/json", b'{"sku":"A","total_gco2e":%s}' % number)

    if isinstance(outcome, DocumentProblems):
        assert [note.at for note in outcome.problems.first] == ["$.total_gco2e"]
    else:
        assert [at for _, at, _ in list_unreadable(outcome)] == ["$.total_gco2e"]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["75.5", "2027-02-18", "x", ""]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "url", "power_w"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(sorted(SCHEMAS[FactRecordType("Battery", 1)])), VALUES, max_size=6))
def test_what_is_accepted_is_what_rules_can_read(members: dict[str, Any]) -> None:
    content = json.dumps({"battery": {**members, "sku": "A"}}).encode()

    outcome = read_document("BOM", "application/json", content)

    if isinstance(outcome, DocumentFacts):
        for fact in outcome.facts:
            decoded = decode_payload(fact)
            read_members(FactRecordType(fact.fact_type, fact.schema_version), fact.fact_key, decoded)
            lost = {member for member, _, _ in fact.unreadable}
            assert set(decoded) | lost == {name for name, value in members.items() if value is not None} | {"sku"}
            assert not set(decoded) & lost
