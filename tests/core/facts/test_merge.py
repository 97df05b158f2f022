"""What several documents say about one thing: members complete each other, and differences are listed."""

from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID

from hypothesis import given, strategies

from bpc.core.facts.merge import FactStatement, UnreadableValue, merge_statements
from bpc.core.facts.provenance import DocumentOrigin
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import DocumentId, DocumentVersionId, FactId

FIRST, SECOND, THIRD = (DocumentId(UUID(int=number)) for number in (1, 2, 3))


def say(document: DocumentId, **members: Json) -> FactStatement:
    return make_statement(document, members)


def make_statement(
    document: DocumentId, payload: Mapping[str, Json], *, unreadable: Mapping[str, UnreadableValue] | None = None
) -> FactStatement:
    origin = DocumentOrigin(
        document_id=document,
        document_version_id=DocumentVersionId(UUID(int=0)),
        kind="BOM",
        sha256=sha256(b""),
        file_name="bom.xlsx",
        supplier=None,
        stated_at=datetime(2027, 2, 18, tzinfo=UTC),
    )
    return FactStatement(
        fact_id=FactId(UUID(int=0)), document=origin, source_path="$", payload=payload, unreadable=unreadable or {}
    )


def test_members_of_several_documents_complete_each_other() -> None:
    merged = merge_statements([say(FIRST, sku="A", mass_kg="4.0"), say(SECOND, sku="A", chemistry="NMC")], {})

    assert merged.payload == {"chemistry": "NMC", "mass_kg": "4.0", "sku": "A"}
    assert {member: source.document_id for member, source in merged.sources.items()} == {
        "chemistry": SECOND,
        "mass_kg": FIRST,
        "sku": FIRST,
    }
    assert merged.conflicts == ()


def test_where_they_differ_the_first_counts_and_all_are_listed() -> None:
    statements = [say(FIRST, mass_kg="4.0"), say(SECOND, mass_kg="4.1"), say(THIRD, mass_kg="4.0")]

    merged = merge_statements(statements, {})

    assert merged.payload == {"mass_kg": "4.0"}
    [conflict] = merged.conflicts
    assert (conflict.member, conflict.is_decided) == ("mass_kg", False)
    assert [statement.document_id for statement in conflict.statements] == [FIRST, SECOND, THIRD]


def test_a_decision_counts_for_its_member_while_the_document_names_it() -> None:
    statements = [say(FIRST, mass_kg="4.0", model="X"), say(SECOND, mass_kg="4.1", model="Y")]

    decided = merge_statements(statements, {"mass_kg": SECOND})
    silent = merge_statements([statements[0], say(SECOND, model="Y")], {"mass_kg": SECOND})

    assert decided.payload == {"mass_kg": "4.1", "model": "X"}
    assert [(conflict.member, conflict.is_decided) for conflict in decided.conflicts] == [
        ("mass_kg", True),
        ("model", False),
    ]
    assert silent.payload == {"mass_kg": "4.0", "model": "X"}


def test_a_list_is_taken_whole_from_one_document() -> None:
    merged = merge_statements([say(FIRST, labels=["a"]), say(SECOND, labels=["a", "b"])], {})

    assert merged.payload == {"labels": ["a"]}
    assert len(merged.conflicts) == 1


MEMBERS = strategies.dictionaries(strategies.sampled_from("abcd"), strategies.integers(0, 2), min_size=1)


@given(
    strategies.lists(MEMBERS, min_size=1, max_size=3),
    strategies.dictionaries(strategies.sampled_from("abcd"), strategies.integers(0, 2)),
)
def test_every_member_is_what_a_document_says_and_every_difference_is_listed(
    payloads: list[Mapping[str, Json]], decided: dict[str, int]
) -> None:
    documents = [FIRST, SECOND, THIRD]
    statements = [make_statement(d, p) for d, p in zip(documents, payloads, strict=False)]

    merged = merge_statements(statements, {member: documents[index] for member, index in decided.items()})

    assert merged.payload.keys() == {member for payload in payloads for member in payload}
    for member, value in merged.payload.items():
        assert merged.sources[member].payload[member] == value
    differing = {m for m in merged.payload if len({p[m] for p in payloads if m in p}) > 1}
    assert {conflict.member for conflict in merged.conflicts} == differing


def test_a_value_that_could_not_be_read_is_neither_absent_nor_what_another_document_says() -> None:
    unreadable = make_statement(SECOND, {"sku": "A"}, unreadable={"mass_kg": UnreadableValue("B!C2", "is #REF!")})

    merged = merge_statements([unreadable, say(FIRST, sku="A", mass_kg="4.0")], {})
    older = merge_statements([say(FIRST, sku="A", mass_kg="4.0"), unreadable], {})
    decided = merge_statements([unreadable, say(FIRST, sku="A", mass_kg="4.0")], {"mass_kg": FIRST})

    assert "mass_kg" not in merged.payload
    assert merged.unreadable["mass_kg"].locate_member("mass_kg").place == "B!C2"
    assert [conflict.member for conflict in merged.conflicts] == ["mass_kg"]
    assert (older.payload["mass_kg"], decided.payload["mass_kg"]) == ("4.0", "4.0")


def test_of_two_states_the_one_recorded_later_counts_and_they_do_not_differ() -> None:
    late = say(FIRST, state_recorded_on="2027-06-01", capacity_fade_pct="5.00", model="X")
    early = say(SECOND, state_recorded_on="2027-05-01", capacity_fade_pct="4.00", model="Y")

    merged = merge_statements([early, late], {}, state_members=frozenset({"capacity_fade_pct"}))

    assert merged.payload == {"capacity_fade_pct": "5.00", "model": "Y", "state_recorded_on": "2027-06-01"}
    assert [conflict.member for conflict in merged.conflicts] == ["model"]
