"""Spreadsheets: what people see in a cell is what is read from it, and every problem names the cell."""

import io
import zipfile
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import pytest
import python_calamine
import xlsxwriter  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core.documents import Notes
from bpc.core.documents.cells import DateCell
from bpc.core.documents.elements import NumberText
from bpc.core.documents.reader import DocumentFacts, DocumentProblems, read_document
from bpc.core.documents.xlsx.package import XlsxParts
from bpc.core.documents.xlsx.sheet_rows import format_column_letters, parse_column_letters
from bpc.core.documents.xlsx.workbook import Workbook
from bpc.core.formats import canonical_json
from tests.core.documents.render_facts import XLSX
from tests.measurements import choose_effort
from tests.pipeline.document_bombs import workbook


def make_workbook(**sheets: Callable[[Any, Any], None]) -> bytes:
    """A workbook, each sheet filled by a function of the sheet and the workbook."""
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True}) as workbook_writer:
        workbook_writer.set_properties(
            {"created": datetime(2027, 1, 1)}
        )  # or the same workbook has other bytes a second later
        for name, fill in sheets.items():
            fill(workbook_writer.add_worksheet(name.replace("_", " ")), workbook_writer)
    return buffer.getvalue()


def fill_rows(*table: tuple[Any, ...]) -> Callable[[Any, Any], None]:
    def fill(sheet: Any, workbook_writer: Any) -> None:
        day = workbook_writer.add_format({"num_format": "dd.mm.yy"})
        for number, row in enumerate(table):
            for index, value in enumerate(row):
                if isinstance(value, date):
                    sheet.write_datetime(number, index, value, day)
                elif value is not None:
                    sheet.write(number, index, value)

    return fill


def read_facts(content: bytes, kind: str = "BOM") -> DocumentFacts:
    outcome = read_document(kind, XLSX, content)
    assert isinstance(outcome, DocumentFacts), outcome
    return outcome


def list_problems(content: bytes, kind: str = "BOM") -> list[tuple[str, str]]:
    outcome = read_document(kind, XLSX, content)
    assert isinstance(outcome, DocumentProblems), outcome
    return [(note.at, note.says) for note in outcome.problems.first]


def list_unreadable(content: bytes, kind: str = "BOM") -> list[tuple[str, str]]:
    return [(lost.place, lost.says) for fact in read_facts(content, kind).facts for lost in fact.unreadable]


def decode_payloads(outcome: DocumentFacts) -> list[Any]:
    return [canonical_json.decode(fact.payload_canonical) for fact in outcome.facts]


def test_a_bill_of_materials_has_a_sheet_for_the_battery_and_one_for_its_components() -> None:
    outcome = read_facts(
        make_workbook(
            Battery=fill_rows(
                ("sku", "capacity_kwh", "manufactured_on", "has_bms"), ("SKU-1", 75.5, date(2027, 2, 18), True)
            ),
            Components=fill_rows((), (), (None, "part", "Mass g", "critical"), (), (None, "cell", 0.29, "no")),
        )
    )

    assert [(fact.fact_key, fact.source_path) for fact in outcome.facts] == [
        ("battery:SKU-1", "Battery!2"),
        ("component:SKU-1:cell", "Components!5"),
    ]
    assert decode_payloads(outcome) == [
        {"sku": "SKU-1", "capacity_kwh": "75.500000", "manufactured_on": "2027-02-18", "has_bms": True},
        {"sku": "SKU-1", "part": "cell", "mass_g": "0.290000", "critical": False},
    ]


def test_one_sheet_of_any_name_will_do_and_comments_are_left_alone() -> None:
    table = fill_rows(("# fill in below",), ("sku", "part", "mass_g"), ("A", None, None), (None, "cell", 1))

    outcome = read_facts(make_workbook(**{"Tabelle1": table, "# notes": fill_rows(("hello",))}))

    assert [(fact.fact_key, fact.source_path) for fact in outcome.facts] == [
        ("battery:A", "Tabelle1!3"),
        ("component:A:cell", "Tabelle1!4"),
    ]


def test_a_sheet_may_be_called_as_people_write_it_and_others_are_named() -> None:
    outcome = read_facts(
        make_workbook(due_diligence=fill_rows(("sku",), ("A",)), Other=fill_rows(("x",))), "DUE_DILIGENCE"
    )

    assert outcome.facts[0].source_path == "'due diligence'!2"
    assert [note.at for note in outcome.warnings.first] == ["Other"]
    assert list_problems(make_workbook(One=fill_rows(("sku",)), Two=fill_rows()), "PCF") == [
        ("$", 'has no sheet `PCF`; its sheets are "One", "Two"')
    ]


def test_every_value_that_cannot_be_read_names_its_cell() -> None:
    def fill(sheet: Any, workbook_writer: Any) -> None:
        fill_rows(
            ("sku", "part", "mass_g", "critical", "supplier", "quantity", "cas_number"),
            ("A", "cell", "1.500", 2, 12.5, 1.5, date(2027, 2, 18)),
            ("A", "box", date(2027, 2, 18), None, True),
        )(sheet, workbook_writer)
        sheet.write_formula("C4", "=1/0", None, "#DIV/0!")
        sheet.write_formula("D4", "=A1", None, "yes")
        sheet.write_string("B4", "lid")
        sheet.write_string("A4", "A")

    assert list_unreadable(make_workbook(Components=fill)) == [
        (
            "Components!C2",
            (
                'is "1.500", which is 1.5 in English and 1500 in German; declare whether the document has decimal'
                " commas or points, or store it as a number"
            ),
        ),
        ("Components!D2", "is the number 2, not true or false, yes or no, 1 or 0"),
        ("Components!E2", "is the number 12.5, not a text; format the cell as text and write it again"),
        ("Components!G2", "is the date 2027-02-18, not a text; format the cell as text and write it again"),
        ("Components!F2", "is not a whole number"),
        ("Components!C3", "is the date 2027-02-18, not a number"),
        ("Components!E3", "is a boolean (true or false), not a text; format the cell as text and write it again"),
        ("Components!C4", "is #DIV/0!; correct the formula"),
    ]


def test_a_row_that_does_not_say_what_it_is_about_names_the_cell() -> None:
    table = fill_rows(("sku", "part", "mass_g"), ("A", None, 1), (None, "lid", 1))

    assert list_problems(make_workbook(Components=table)) == [
        ("Components!B2", "is missing; it identifies the product"),
        ("Components!A3", "is missing; it identifies the product"),
    ]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (
            '<row r="2"><c r="2A"><v>1</v></c></row>',
            'a cell in row 2 of sheet PCF with the reference "2A", which is not valid',
        ),
        (
            '<row r="2"><c r=""><v>1</v></c></row>',
            'a cell in row 2 of sheet PCF with the reference "", which is not valid',
        ),
        (
            '<row r="2"><c r="A3"><v>1</v></c></row>',
            'a cell in row 2 of sheet PCF with the reference "A3", which belongs to',
        ),
        ('<row r="two"><c r="A2"><v>1</v></c></row>', 'a row in sheet PCF whose number "two" is not valid'),
    ],
    ids=["no cell", "empty", "another row", "no row"],
)
def test_a_cell_or_row_in_no_place_is_a_problem_and_never_guessed(row: str, says: str) -> None:
    [(at, problem)] = list_problems(workbook(row), "PCF")

    assert at == "$"
    assert problem.startswith(f"has {says}")
    assert problem.endswith("; open the file in a spreadsheet and save it again as .xlsx")


def test_cells_and_rows_without_a_place_come_one_after_the_other() -> None:
    first = '<row><c t="str"><v>sku</v></c><c t="str"><v>year</v></c></row>'
    content = workbook(f'{first}<row><c t="str"><v>A</v></c><c><v>2</v></c></row>')

    assert decode_payloads(read_facts(content, "PCF")) == [{"sku": "A", "year": 2}]


def test_a_formula_is_its_stored_result_and_one_without_cannot_be_read() -> None:
    cell = '<row r="1"><c r="A1" t="inlineStr"><is><t>sku</t></is></c><c r="B1" t="str"><v>year</v></c></row>'

    good = workbook(f'{cell}<row r="2"><c r="A2" t="str"><f>X</f><v>A</v></c><c r="B2"><f>1+1</f><v>2</v></c></row>')
    start = f'{cell}<row r="2"><c r="A2" t="str"><v>A</v></c>'
    bad = [workbook(f'{start}<c r="B2"><f>1+1</f>{result}</c></row>') for result in ("", "<v></v>", "<v/>")]
    empty = workbook(f'{start}<c r="B2" t="str"><f>T(C2)</f><v></v></c></row>')

    assert decode_payloads(read_facts(good, "PCF")) == [{"sku": "A", "year": 2}]
    assert decode_payloads(read_facts(empty, "PCF")) == [{"sku": "A"}]
    assert list_unreadable(empty, "PCF") == []
    for content in bad:
        assert list_unreadable(content, "PCF") == [
            ("PCF!B2", "is a formula whose result is not stored; open the file in a spreadsheet and save it")
        ]


def test_a_zero_that_stands_for_a_formula_not_computed_yet_cannot_be_read() -> None:
    def fill(sheet: Any, _: Any) -> None:
        sheet.write_row(0, 0, ["sku", "total_gco2e", "year", "distribution_gco2e"])
        sheet.write_row(1, 0, ["A"])
        sheet.write_formula("B2", "=2*3")
        sheet.write_formula("C2", "=2000+27", value=2027)
        sheet.write_number("D2", 0)

    content = make_workbook(PCF=fill)
    computed = _replace_bytes(content, b' fullCalcOnLoad="1"', b"")

    assert list_unreadable(content, "PCF") == [
        ("PCF!B2", "is a formula whose result is not stored; open the file in a spreadsheet and save it")
    ]
    assert decode_payloads(read_facts(content, "PCF")) == [{"sku": "A", "year": 2027, "distribution_gco2e": "0.00"}]
    assert decode_payloads(read_facts(computed, "PCF"))[0]["total_gco2e"] == "0.00"


@pytest.mark.parametrize(
    ("stored", "is_read"),
    [
        ("0.28999999999999998", "0.29"),
        ("0.30000000000000004", "0.3"),
        ("75.5", "75.5"),
        ("1E-2", "0.01"),
        ("1.0000000000000001E-2", "0.01"),
        ("1.5E+3", "1500"),
        ("-0", "0"),
        ("999999999999999", "999999999999999"),
        ("1E+20", "100000000000000000000"),
        ("1.2345678901234567E+16", None),
        ("NaN", None),
        ("1e999", None),
        ("9" * 100, None),
    ],
)
def test_a_number_is_what_a_spreadsheet_shows(stored: str, is_read: str | None) -> None:
    header = '<row r="1"><c t="inlineStr"><is><t>sku</t></is></c><c t="inlineStr"><is><t>total_gco2e</t></is></c></row>'
    content = workbook(f'{header}<row r="2"><c t="s"><v>0</v></c><c><v>{stored}</v></c></row>')

    if is_read is None:
        [(at, _)] = list_unreadable(content, "PCF")
        assert at == "PCF!B2"
    else:
        expected = read_document("PCF", "text/csv", f"sku,total_gco2e\nx,{is_read}\n".encode())
        assert isinstance(expected, DocumentFacts)
        assert decode_payloads(read_facts(content, "PCF")) == decode_payloads(expected)


@pytest.mark.parametrize(
    ("serial", "from_1904", "day"),
    [
        ("1", False, "1900-01-01"),
        ("59", False, "1900-02-28"),
        ("60", False, None),
        ("61", False, "1900-03-01"),
        ("46436", False, "2027-02-18"),
        ("46436.0", False, "2027-02-18"),
        ("46436.5", False, None),
        ("-1", False, None),
        ("2958465", False, "9999-12-31"),
        ("2958466", False, None),
        ("44974", True, "2027-02-18"),
        ("0", True, "1904-01-01"),
        ("99999999", True, None),
    ],
)
def test_a_day_is_counted_as_the_workbook_counts(serial: str, from_1904: bool, day: str | None) -> None:
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True, "date_1904": from_1904}) as workbook_writer:
        sheet = workbook_writer.add_worksheet("PCF")
        sheet.write_row(0, 0, ["sku", "verified_on"])
        sheet.write_row(1, 0, ["A"])
        sheet.write_number(1, 1, 777, workbook_writer.add_format({"num_format": '[$-407]d. "month" mmmm yyyy'}))
    content = _replace_bytes(buffer.getvalue(), b"<v>777</v>", f"<v>{serial}</v>".encode())

    if day is None:
        assert [at for at, _ in list_unreadable(content, "PCF")] == ["PCF!B2"]
    else:
        assert decode_payloads(read_facts(content, "PCF"))[0]["verified_on"] == day


def _replace_bytes(content: bytes, old: bytes, new: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as before, zipfile.ZipFile(buffer, "w") as after:
        for name in before.namelist():
            after.writestr(name, before.read(name).replace(old, new))
    return buffer.getvalue()


def test_article_numbers_that_became_numbers_are_texts_again() -> None:
    assert read_facts(make_workbook(PCF=fill_rows(("sku",), (1001,))), "PCF").facts[0].fact_key == "pcf:1001"


def test_what_is_no_workbook_says_what_to_do() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("content.xml", "<x/>")

    assert list_problems(buffer.getvalue()) == [("$", "is an OpenDocument spreadsheet; save it as .xlsx")]
    assert list_problems(b"PK\x03\x04 and so on") == [("$", "is damaged or not an XLSX file; save it again as .xlsx")]
    assert list_problems(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1") == [
        ("$", "is an old .xls file or has a password; save it as .xlsx without a password")
    ]
    assert list_problems(make_workbook(Battery=fill_rows(("sku", "name")), Components=fill_rows(("sku", "part")))) == [
        ("Battery!1", "has no rows; fill in at least one below the header")
    ]


@settings(max_examples=choose_effort(test=40, shown=500, campaign=5_000))
@given(st.data())
def test_any_damage_is_a_problem_and_never_an_exception(data: st.DataObject) -> None:
    content = make_workbook(
        PCF=fill_rows(("sku", "total_gco2e", "verified_on"), ("A", 1.5, date(2027, 2, 18)), ("B", "x"))
    )
    at = data.draw(st.integers(0, len(content) - 1))
    length = data.draw(st.integers(0, 20))
    damaged = content[:at] + data.draw(st.binary(max_size=20)) + content[at + length :]

    outcome = read_document("PCF", XLSX, damaged)

    assert isinstance(outcome, DocumentFacts | DocumentProblems)


CELLS = (
    st.booleans()
    | st.integers(-(10**14), 10**14)
    | st.decimals(-(10**8), 10**8, places=3).map(float)
    | st.dates(date(1900, 3, 1))
    | st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=8).filter(
        lambda text: text == text.strip() and not text.startswith(("=", "{="))  # the writer makes formulas of those
    )
)


@settings(max_examples=choose_effort(test=40, shown=500, campaign=5_000))
@given(st.lists(st.lists(st.none() | CELLS, max_size=5), max_size=5))
def test_cells_are_what_another_reader_finds(drawn_rows: list[list[Any]]) -> None:
    content = make_workbook(S=fill_rows(*[tuple(row) for row in drawn_rows]))

    sheet = Workbook.from_parts(XlsxParts(content)).sheets[0]
    own_cells = {
        (int(row.place.rpartition("!")[2]), index): cell
        for row in sheet.read_rows(Notes())
        for index, cell in row.cells.items()
    }

    peer_rows = (
        python_calamine.load_workbook(io.BytesIO(content)).get_sheet_by_index(0).to_python(skip_empty_area=False)
    )
    peer_cells = {(n, i): cell for n, row in enumerate(peer_rows, 1) for i, cell in enumerate(row) if cell != ""}
    assert {place: _to_plain_value(cell) for place, cell in own_cells.items()} == {
        p: _to_plain_value(cell) for p, cell in peer_cells.items()
    }


def _to_plain_value(cell: Any) -> Any:
    match cell:
        case NumberText(text):
            return float(text)
        case DateCell(text):
            return date.fromisoformat(text)
        case datetime():
            return cell.date()
        case str():
            return cell.strip()
        case _:
            return cell


@given(st.integers(0, 16_383))
def test_columns_are_counted_in_letters(number: int) -> None:
    assert parse_column_letters(format_column_letters(number)) == number
    assert (
        format_column_letters(0),
        format_column_letters(25),
        format_column_letters(26),
        format_column_letters(16_383),
    ) == (
        "A",
        "Z",
        "AA",
        "XFD",
    )
