"""What suppliers in six countries send is read as they mean it, or named where it has no one meaning."""

import pytest

from bpc.core.documents import DocumentNote
from bpc.core.documents.read_options import ReadOptions
from bpc.core.documents.reader import DocumentFacts, DocumentProblems, read_document
from bpc.core.formats import canonical_json
from tests.core.documents.render_facts import XLSX
from tests.core.documents.supplier_tables import LANGUAGE_TABLES, SupplierTable
from tests.core.documents.supplier_words import LANGUAGES
from tests.core.documents.table_traps import CELL_TRAPS, TABLE_TRAPS

TABLES = (*LANGUAGE_TABLES, *CELL_TRAPS, *TABLE_TRAPS)


def read_table(table: SupplierTable) -> DocumentFacts | DocumentProblems:
    return read_document(table.kind, XLSX, table.write(), ReadOptions(locale=table.locale))


def is_said(notes: tuple[DocumentNote, ...], place: str, part: str) -> bool:
    return any(note.at.rpartition("!")[2] == place.rpartition("!")[2] and part in note.says for note in notes)


def test_there_are_sixty_spreadsheets_and_more_in_six_languages_and_two_locales() -> None:
    assert len(TABLES) >= 60
    assert len({table.name for table in TABLES}) == len(TABLES)
    assert {table.locale for table in TABLES} == {None, "comma", "point"}
    assert all(sum(f"({language})" in table.name for table in TABLES) >= 6 for language in LANGUAGES)


@pytest.mark.parametrize("table", [table for table in TABLES if table.problems is None], ids=lambda table: table.name)
def test_a_spreadsheet_is_read_as_it_is_meant(table: SupplierTable) -> None:
    outcome = read_table(table)

    assert isinstance(outcome, DocumentFacts), outcome
    assert [canonical_json.decode(fact.payload_canonical) for fact in outcome.facts] == list(table.facts)
    unreadable = {lost.place: lost.says for fact in outcome.facts for lost in fact.unreadable}
    assert unreadable.keys() == (table.unreadable or {}).keys()
    assert all(part in unreadable[place] for place, part in (table.unreadable or {}).items()), unreadable
    for place, part in (table.warnings or {}).items():
        assert is_said(outcome.warnings.first, place, part), (place, outcome.warnings.first)
    for member, place in (table.places or {}).items():
        assert outcome.facts[0].member_places[member].rpartition("!")[2] == place


@pytest.mark.parametrize("table", [table for table in TABLES if table.problems], ids=lambda table: table.name)
def test_a_spreadsheet_that_has_no_one_meaning_is_rejected(table: SupplierTable) -> None:
    outcome = read_table(table)

    assert isinstance(outcome, DocumentProblems), outcome
    for place, part in (table.problems or {}).items():
        assert is_said(outcome.problems.first, place, part), outcome.problems.first


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_member_of_a_fact_has_a_place_in_the_file(table: SupplierTable) -> None:
    outcome = read_table(table)

    if isinstance(outcome, DocumentFacts):
        for fact in outcome.facts:
            members = canonical_json.decode(fact.payload_canonical)
            assert isinstance(members, dict)
            assert set(members) <= set(fact.member_places)
            assert all("!" in place for place in fact.member_places.values())
