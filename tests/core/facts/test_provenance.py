"""Where each value of a snapshot is from: sealed as facts, and read back by whoever has the bundle."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given, strategies

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.provenance import (
    DocumentOrigin,
    MemberOrigin,
    ProvenanceIndex,
    build_provenance_facts,
    describe_place,
)
from bpc.core.facts.snapshot import order_facts, read_facts
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import DocumentId, DocumentVersionId


def make_origin(
    number: int = 1, *, file_name: str | None = "pcf.xlsx", supplier: str | None = "Example Cells GmbH"
) -> DocumentOrigin:
    return DocumentOrigin(
        document_id=DocumentId(UUID(int=number)),
        document_version_id=DocumentVersionId(UUID(int=number + 100)),
        kind="PCF",
        sha256=sha256(b"%d" % number),
        file_name=file_name,
        supplier=supplier,
        stated_at=datetime(2026, 11, 16, 9, tzinfo=UTC),
    )


def test_a_place_reads_as_a_person_would_say_it() -> None:
    facts = build_provenance_facts({("PCF", "pcf:A"): {"total_gco2e": MemberOrigin(make_origin(), "PCF!C2")}})

    origin = ProvenanceIndex(facts).find_origin("PCF", "pcf:A", "total_gco2e")

    assert origin is not None
    assert origin.describe() == "pcf.xlsx, sheet PCF, cell C2, uploaded on 16 November 2026 by Example Cells GmbH"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("PCF!C2", "sheet PCF, cell C2"),
        ("Bill of materials!AB17", "sheet Bill of materials, cell AB17"),
        ("Battery!7", "sheet Battery, row 7"),
        ("line 4, column mass_g", "line 4, column mass_g"),
        ("$.battery.mass_kg", "$.battery.mass_kg"),
    ],
)
def test_a_place_of_any_format_is_told_in_words(place: str, words: str) -> None:
    assert describe_place(place) == words


def test_without_file_name_and_supplier_the_document_is_named() -> None:
    document = make_origin(file_name=None, supplier=None)
    facts = build_provenance_facts({("PCF", "pcf:A"): {"sku": MemberOrigin(document, "$.sku")}})

    origin = ProvenanceIndex(facts).find_origin("PCF", "pcf:A", "sku")

    assert origin is not None
    assert origin.describe() == f"document {document.document_id}, $.sku, uploaded on 16 November 2026"


def test_members_of_one_fact_may_be_from_several_documents() -> None:
    first, second = make_origin(1), make_origin(2, file_name="bom.json")
    members = {"sku": MemberOrigin(first, "$.battery.sku"), "mass_kg": MemberOrigin(second, "B!C2")}

    index = ProvenanceIndex(build_provenance_facts({("Battery", "battery:A"): members}))

    names = {member: index.find_origin("Battery", "battery:A", member) for member in members}
    assert {member: origin and origin.file_name for member, origin in names.items()} == {
        "sku": "pcf.xlsx",
        "mass_kg": "bom.json",
    }
    assert index.find_origin("Battery", "battery:A", "chemistry") is None
    assert index.find_origin("Battery", "battery:B", "sku") is None


names = strategies.sampled_from(["sku", "mass_kg", "part", "total_gco2e"])
places = strategies.sampled_from(["$.battery", "PCF!C2", "line 4", "$"])


@given(
    strategies.dictionaries(
        strategies.tuples(strategies.sampled_from(["Battery", "PCF"]), strategies.sampled_from(["a:1", "b:2"])),
        strategies.dictionaries(names, strategies.tuples(strategies.integers(1, 3), places, strategies.booleans())),
    )
)
def test_every_place_that_is_sealed_is_read_back(
    drawn: dict[tuple[str, str], dict[str, tuple[int, str, bool]]],
) -> None:
    origins = {
        name: {
            member: MemberOrigin(make_origin(number), f"{place}.{member}" if regular else place)
            for member, (number, place, regular) in members.items()
        }
        for name, members in drawn.items()
    }

    sealed = read_facts(order_facts(build_provenance_facts(origins)).lines)
    index = ProvenanceIndex(sealed)

    for (fact_type, key), members in origins.items():
        for member, origin in members.items():
            read_back = index.find_origin(fact_type, key, member)
            assert read_back is not None
            assert (read_back.place, read_back.document_id) == (origin.place, str(origin.document.document_id))


def test_facts_of_another_form_tell_nothing() -> None:
    strange = SnapshotFact(fact_type="Provenance", fact_key="provenance:x", schema_version=1, payload={"facts": [1]})

    assert ProvenanceIndex([strange]).find_origin("Battery", "battery:A", "sku") is None
