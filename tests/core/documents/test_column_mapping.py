"""Column mappings: proposed with reasons, kept as data, and used instead of guessing."""

import json
from dataclasses import replace
from typing import Any

import pytest

from bpc.core.documents.column_mapping import (
    ColumnMapping,
    MappedColumn,
    MappedSheet,
    MappingProblems,
    parse_mapping,
)
from bpc.core.documents.mapping_proposal import MappingProposal, propose_mapping
from bpc.core.documents.read_options import ReadOptions
from bpc.core.documents.reader import DocumentFacts, DocumentProblems, read_document
from bpc.core.formats import canonical_json
from tests.core.documents.render_facts import XLSX
from tests.core.documents.supplier_tables import LANGUAGE_TABLES, SupplierTable
from tests.core.documents.table_traps import TABLE_TRAPS

TABLE = """\
Lieferantendaten 2027;;;;
Teil-ID;Gewicht;Masze [kg];Farbe;Nennspannung [V]
P-1;1.000;5,5;rot;48
P-2;2.500;6,5;blau;48
"""
MAPPING = ColumnMapping(
    (
        MappedSheet(
            name="",
            fact_types=("Battery",),
            header_row=2,
            columns=(
                MappedColumn(header="Teil-ID", member="sku"),
                MappedColumn(header="Gewicht", member="mass_kg", unit="g", locale="comma"),
                MappedColumn(header="Farbe", member=None),
            ),
        ),
    )
)


def read_mapped(text: str, mapping: ColumnMapping = MAPPING) -> DocumentFacts | DocumentProblems:
    return read_document("BOM", "text/csv", text.encode(), ReadOptions(mapping=mapping))


def decode_payloads(outcome: DocumentFacts | DocumentProblems) -> list[Any]:
    assert isinstance(outcome, DocumentFacts), outcome
    return [canonical_json.decode(fact.payload_canonical) for fact in outcome.facts]


def list_warnings(outcome: DocumentFacts | DocumentProblems) -> list[tuple[str, str]]:
    return [(note.at, note.says) for note in outcome.warnings.first]


@pytest.mark.parametrize(
    ("header", "mass"), [("Masse [g]", "0.400000"), ("Masse [kg]", "400.000000"), ("Masse", "400.000000")]
)
def test_a_mapping_without_a_unit_takes_the_unit_of_the_header(header: str, mass: str) -> None:
    columns = (MappedColumn(header="Nr", member="sku"), MappedColumn(header=header, member="mass_kg"))
    sheet = MappedSheet(name="", fact_types=("Battery",), header_row=1, columns=columns)

    assert decode_payloads(read_mapped(f"Nr;{header}\nA;400\n", ColumnMapping((sheet,)))) == [
        {"sku": "A", "mass_kg": mass}
    ]


def test_a_proposal_has_a_member_with_examples_and_a_reason_for_each_column() -> None:
    [sheet] = propose_mapping("BOM", "text/csv", TABLE.encode()).sheets

    assert (sheet.name, sheet.header_row, sheet.orientation) == ("", 2, "rows")
    assert [(column.header, column.member, column.unit, column.confidence) for column in sheet.columns] == [
        ("Teil-ID", None, None, "none"),
        ("Gewicht", "mass_kg", None, "synonym"),
        ("Masze [kg]", "mass_kg", "kg", "similar"),
        ("Farbe", None, None, "none"),
        ("Nennspannung [V]", "nominal_voltage_v", "V", "synonym"),
    ]
    assert [column.examples for column in sheet.columns][:2] == [("P-1", "P-2"), ("1.000", "2.500")]
    assert [column.why for column in sheet.columns][1:3] == [
        "is what people call `mass_kg`; the header does not say the unit",
        "is written nearly like a name of `mass_kg`",
    ]
    assert sheet.columns[1].place == "line 2, column Gewicht"


def test_only_what_is_certain_is_taken_over_from_a_proposal() -> None:
    proposal = propose_mapping("BOM", "text/csv", TABLE.encode())

    assert [(column.header, column.member) for column in proposal.to_mapping().sheets[0].columns] == [
        ("Teil-ID", None),
        ("Gewicht", None),
        ("Masze [kg]", None),
        ("Farbe", None),
        ("Nennspannung [V]", "nominal_voltage_v"),
    ]


def test_a_mapping_is_used_instead_of_guessing() -> None:
    outcome = read_mapped(TABLE)

    assert decode_payloads(outcome) == [{"sku": "P-1", "mass_kg": "1.000000"}, {"sku": "P-2", "mass_kg": "2.500000"}]
    assert (
        "line 2, column Nennspannung [V]",
        '("Nennspannung [V]") is not in the column mapping and was left out',
    ) in (list_warnings(outcome))
    assert not any("Farbe" in at for at, _ in list_warnings(outcome))


def test_a_file_that_no_longer_fits_its_mapping_says_where() -> None:
    moved = read_mapped("one\ntwo\n" + TABLE)
    renamed = MappedColumn(header="Farbe", member="name")
    named = ColumnMapping((replace(MAPPING.sheets[0], columns=(*MAPPING.sheets[0].columns[:2], renamed)),))
    less = read_mapped(TABLE.replace("Gewicht", "Gewicht neu"), named)
    other = read_mapped("a;b\n1;2\n")

    assert decode_payloads(moved) == decode_payloads(read_mapped(TABLE))
    assert ("line 4", "is the header, which the column mapping has in row 2") in list_warnings(moved)
    assert decode_payloads(less) == [{"sku": "P-1", "name": "rot"}, {"sku": "P-2", "name": "blau"}]
    assert ("line 2", 'has no column "Gewicht", which the column mapping has') in list_warnings(less)
    assert isinstance(other, DocumentProblems)
    assert "no longer fits its column mapping" in other.problems.first[0].says


def test_a_workbook_without_a_mapped_sheet_is_rejected() -> None:
    table = SupplierTable(name="", kind="BOM", sheets={"Battery": [["sku", "name"], ["A", "x"]]})

    outcome = read_document("BOM", XLSX, table.write(), ReadOptions(mapping=MAPPING))

    assert isinstance(outcome, DocumentProblems)
    assert outcome.problems.first[0].says.startswith('has no sheet "", which its column mapping has')


def test_a_mapped_column_serves_batteries_and_components_alike() -> None:
    sheet = MappedSheet(
        name="",
        fact_types=("Battery", "Component"),
        header_row=1,
        columns=(
            MappedColumn(header="a", member="sku"),
            MappedColumn(header="b", member="part"),
            MappedColumn(header="c", member="mass_kg"),
        ),
    )

    assert decode_payloads(read_mapped("a,b,c\nA,,5\nA,cell,0.5\n", ColumnMapping((sheet,)))) == [
        {"sku": "A", "mass_kg": "5.000000"},
        {"sku": "A", "part": "cell", "mass_g": "500.000000"},
    ]


def test_a_mapping_is_the_same_after_it_was_stored() -> None:
    assert parse_mapping(json.loads(json.dumps(MAPPING.as_json()))) == MAPPING


@pytest.mark.parametrize(
    ("change", "at"),
    [
        ({"sheets": []}, "$.sheets"),
        ({"name": 5}, "$.sheets[0].name"),
        ({"fact_types": ["Engine"]}, "$.sheets[0].fact_types"),
        ({"header_row": 0}, "$.sheets[0].header_row"),
        ({"header_rows": 3}, "$.sheets[0].header_rows"),
        ({"orientation": "up"}, "$.sheets[0].orientation"),
        ({"columns": []}, "$.sheets[0].columns"),
        ({"columns": [{"member": "sku"}]}, "$.sheets[0].columns[0]"),
        ({"columns": [{"header": "a", "member": "masss"}]}, "$.sheets[0].columns[0].member"),
        ({"columns": [{"header": "a", "member": "labels"}]}, "$.sheets[0].columns[0].member"),
        ({"columns": [{"header": "a", "member": "mass_kg", "unit": "V"}]}, "$.sheets[0].columns[0].unit"),
        ({"columns": [{"header": "a", "member": None, "locale": "dot"}]}, "$.sheets[0].columns[0].locale"),
        ({"columns": [{"header": "a", "member": "sku"}, {"header": "b", "member": "sku"}]}, "$.sheets[0].columns"),
    ],
)
def test_what_is_no_mapping_is_refused_at_its_place(change: dict[str, Any], at: str) -> None:
    value: Any = MAPPING.as_json()
    if "sheets" in change:
        value |= change
    else:
        value["sheets"][0] |= change

    outcome = parse_mapping(value)

    assert isinstance(outcome, MappingProblems)
    assert [path for path, _ in outcome.problems] == [at]


def propose_for(table: SupplierTable) -> MappingProposal:
    return propose_mapping(table.kind, XLSX, table.write())


TABLES = [table for table in (*LANGUAGE_TABLES, *TABLE_TRAPS) if table.problems is None]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_what_is_certain_is_read_the_same_with_the_mapping_that_was_proposed(table: SupplierTable) -> None:
    content, proposal = table.write(), propose_for(table)

    outcome = read_document(table.kind, XLSX, content, ReadOptions(locale=table.locale, mapping=proposal.to_mapping()))

    assert decode_payloads(outcome) == list(table.facts)
    assert parse_mapping(proposal.to_mapping().as_json()) == proposal.to_mapping()


@pytest.mark.parametrize(
    ("kind", "mime_type", "content", "says"),
    [
        ("BOM", "application/json", b"{}", "only tables have columns"),
        ("OTHER", "text/csv", b"sku\nA\n", "have no facts"),
        ("BOM", "text/csv", b"", "has no table"),
        ("BOM", XLSX, b"PK\x03\x04 and so on", "is damaged"),
    ],
)
def test_what_is_no_table_has_no_proposal(kind: str, mime_type: str, content: bytes, says: str) -> None:
    proposal = propose_mapping(kind, mime_type, content)

    assert proposal.sheets == ()
    assert says in proposal.problems.first[0].says
