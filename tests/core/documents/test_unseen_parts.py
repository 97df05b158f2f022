"""What a person does not see in a table, or sees otherwise, is named: nothing of it is read or left out silently."""

from io import BytesIO
from typing import Any

import openpyxl  # type: ignore[import-untyped]
import pytest
import xlsxwriter  # type: ignore[import-untyped]

from bpc.core.documents.column_mapping import ColumnMapping, MappedColumn, MappedSheet
from bpc.core.documents.read_options import ReadOptions
from bpc.core.documents.reader import DocumentFacts, DocumentProblems, read_document
from bpc.core.formats import canonical_json
from bpc.core.formats.file_types import CSV, JSON, XLSX

TABLE: list[list[Any]] = [["sku", "mass_kg", "model"], ["A", 10, "x"], ["B", 20, "y"], ["C", 30, "z"], ["D", 40, "w"]]


def write_with_openpyxl(rows: list[list[Any]], *, hidden_rows: tuple[int, ...] = (), hidden_columns: str = "") -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Battery"
    for row in rows:
        sheet.append(row)
    for number in hidden_rows:
        sheet.row_dimensions[number].hidden = True
    for letter in hidden_columns:
        sheet.column_dimensions[letter].hidden = True
    buffer = BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def write_with_xlsxwriter(
    rows: list[list[Any]], *, hidden_rows: tuple[int, ...] = (), hidden_columns: str = "", merge: str = ""
) -> bytes:
    buffer = BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True}) as book:
        sheet = book.add_worksheet("Battery")
        for number, row in enumerate(rows):
            sheet.write_row(number, 0, row)
        for number in hidden_rows:
            sheet.set_row(number - 1, None, None, {"hidden": True})
        for letter in hidden_columns:
            sheet.set_column(f"{letter}:{letter}", None, None, {"hidden": True})
        if merge:
            sheet.merge_range(merge, "merged")
    return buffer.getvalue()


def read(content: bytes, mime_type: str = XLSX) -> tuple[list[Any], list[tuple[str, str]]]:
    """The payloads, and the warnings; the document must be accepted."""
    outcome = read_document("BOM", mime_type, content)
    assert isinstance(outcome, DocumentFacts), outcome
    payloads = [canonical_json.decode(fact.payload_canonical) for fact in outcome.facts]
    return payloads, [(note.at, note.says) for note in outcome.warnings.first]


def list_problems(content: bytes, mime_type: str = CSV) -> list[tuple[str, str]]:
    outcome = read_document("BOM", mime_type, content)
    assert isinstance(outcome, DocumentProblems), outcome
    return [(note.at, note.says) for note in outcome.problems.first]


# Hidden and merged cells ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [write_with_openpyxl, write_with_xlsxwriter])
def test_hidden_rows_and_columns_are_read_and_named(write: Any) -> None:
    payloads, warnings = read(write(TABLE, hidden_rows=(3, 4), hidden_columns="C"))

    assert [(payload["sku"], payload["model"]) for payload in payloads] == [
        ("A", "x"),
        ("B", "y"),
        ("C", "z"),
        ("D", "w"),
    ]
    assert warnings == [
        ("Battery!3:4", "are hidden rows and were read; delete them if they are not meant"),
        ("Battery!C", "is a hidden column and was read; delete it if it is not meant"),
    ]


def test_a_hidden_sheet_that_was_mapped_is_read_and_named() -> None:
    book = openpyxl.load_workbook(BytesIO(write_with_openpyxl(TABLE)))
    book.create_sheet("Notes")
    book["Battery"].sheet_state = "hidden"
    book.active = 1
    buffer = BytesIO()
    book.save(buffer)
    columns = tuple(MappedColumn(header=name, member=name) for name in TABLE[0])
    mapping = ColumnMapping((MappedSheet(name="Battery", fact_types=("Battery",), header_row=1, columns=columns),))

    outcome = read_document("BOM", XLSX, buffer.getvalue(), ReadOptions(mapping=mapping))

    assert isinstance(outcome, DocumentFacts)
    assert len(outcome.facts) == 4
    assert ("Battery", "is a hidden sheet and was read, because the column mapping has it") in outcome.warnings.first


def test_what_is_hidden_but_not_read_needs_no_word() -> None:
    rows: list[list[Any]] = [["Declaration"], ["sku", "mass_kg", "our own column"], ["A", 10, "q"]]

    _, warnings = read(write_with_xlsxwriter(rows, hidden_rows=(1, 9), hidden_columns="CE"))

    assert [at for at, _ in warnings] == ["Battery!1", "Battery!C2"]  # the title and the unknown column, as ever


def test_a_merged_cell_below_the_header_is_named() -> None:
    rows: list[list[Any]] = [*TABLE[:3], ["C", 30], *TABLE[4:]]

    payloads, warnings = read(write_with_xlsxwriter(rows, merge="C3:C4"))

    assert [payload.get("model") for payload in payloads] == ["x", "merged", None, "w"]
    [(at, says)] = warnings
    assert at == "Battery!C3:C4"
    assert says.startswith("is one merged cell: a person sees one value for all of it")


def test_what_is_struck_through_is_not_read() -> None:
    buffer = BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True}) as book:
        struck, raised = book.add_format({"font_strikeout": True}), book.add_format({"font_script": 1})
        sheet = book.add_worksheet("Battery")
        sheet.write_row(0, 0, ["sku", "mass_kg", "model", "nominal_voltage_v"])
        sheet.write_string(1, 0, "A")
        sheet.write_number(1, 1, 10, struck)
        sheet.write_rich_string(1, 2, struck, "old", "new")
        sheet.write_rich_string(1, 3, "75", raised, "1")  # with a footnote: not 751

    payloads, warnings = read(buffer.getvalue())

    assert payloads == [{"sku": "A"}]
    assert [(at, says[:20]) for at, says in warnings] == [
        ("Battery!B2", "is struck through; d"),
        ("Battery!C2", "is struck through; d"),
        ("Battery!D2", 'is "75\\u00b9", but `'),
    ]


def test_a_zero_that_its_sheet_does_not_show_is_not_read() -> None:
    book = openpyxl.load_workbook(BytesIO(write_with_openpyxl([["sku", "mass_kg", "cell_count"], ["A", 0, 5]])))
    book.active.sheet_view.showZeros = False
    buffer = BytesIO()
    book.save(buffer)

    payloads, warnings = read(buffer.getvalue())

    assert payloads == [{"sku": "A", "cell_count": 5}]
    assert [at for at, _ in warnings] == ["Battery!B2"]


# Data sheets ----------------------------------------------------------------------------------------------------


def test_a_column_of_remarks_in_a_data_sheet_is_left_out_and_named() -> None:
    rows: list[list[Any]] = [
        ["sku", "A", None],
        ["model", "x", "see drawing"],
        ["mass_kg", 10, "weighed"],
        [None, "?", None],
    ]

    payloads, warnings = read(write_with_openpyxl(rows))

    assert payloads == [{"sku": "A", "model": "x", "mass_kg": "10.000000"}]
    assert warnings == [
        ("Battery!C", "has no `sku` and was left out; fill in the SKU if the column is a product"),
        ("Battery!4", "has no name in the first column and was left out"),
    ]


def test_a_column_of_values_without_a_product_rejects_a_data_sheet() -> None:
    says = "has values but no `sku`; fill in the SKU, or delete the column"

    assert list_problems(b"sku;A;\nmodel;x;y\nmass_kg;10;20\n") == [("column 3", says)]


def test_a_column_of_units_counts_even_if_one_of_them_is_not_known() -> None:
    payloads, warnings = read(b"sku;;A\nmodel;-;x\nmass_kg;stone;10\nnominal_voltage_v;V;48\n", CSV)

    assert payloads == [{"sku": "A", "model": "x", "nominal_voltage_v": "48.000"}]
    assert [says[:45] for _, says in warnings] == ["is in a column with the unit `stone`, but `ma"]


# Rows that are no data ------------------------------------------------------------------------------------------


def test_a_row_that_begins_with_a_hash_and_looks_like_data_is_named() -> None:
    payloads, warnings = read(b"sku;mass_kg;model\n# old numbers\n# A;10;x\nB;20;y\n", CSV)

    assert [payload["sku"] for payload in payloads] == ["B"]
    assert warnings == [
        ("line 3", "begins with `#`, so it is a comment and was not read; remove the `#` if it is data")
    ]


@pytest.mark.parametrize(
    "name", ["Total", "Grand total", "Gesamtsumme:", "Somme", "Totale parziale", "Łącznie", "Sous-total"]
)
def test_a_sum_is_no_part(name: str) -> None:
    content = f"sku;part;mass_g\nA;cell;10\nA;housing;20\nA;{name};30\n".encode()

    payloads, warnings = read(content, CSV)

    assert [payload["part"] for payload in payloads] == ["cell", "housing"]
    assert warnings == [("line 4", "is a sum of other rows and was not read")]


def test_a_product_may_be_called_total() -> None:
    payloads, warnings = read(b"sku;mass_kg\nTOTAL-48V;10\nGrand total;10\n", CSV)

    assert [payload["sku"] for payload in payloads] == ["TOTAL-48V"]
    assert warnings == [("line 3", "is a sum of other rows and was not read")]


@pytest.mark.parametrize(
    "remark",
    [
        "* estimated",
        "1) measured at 25 °C",
        "Hinweis: Werte vorläufig",
        "All values without liability and subject to change",
    ],
)
def test_a_footnote_is_no_product(remark: str) -> None:
    payloads, warnings = read(f"sku;mass_kg\nA;10\n{remark};\n".encode(), CSV)

    assert [payload["sku"] for payload in payloads] == ["A"]
    assert warnings == [("line 3", "is a remark below the table and was not read")]


# Readings -------------------------------------------------------------------------------------------------------


def test_two_readings_of_one_time_that_differ_are_both_named() -> None:
    record = "state_of_charge_records[1]"
    header = f"sku;state_recorded_on;state_of_charge_pct;{record}.recorded_at;{record}.state_of_charge_pct"

    payloads, warnings = read(f"{header}\nA;2027-02-18;80;2027-02-18;75\n".encode(), CSV)

    assert [payload["number"] for payload in payloads if "kind" in payload] == ["80.000000", "75.000000"]
    [(at, says)] = warnings
    assert "state_of_charge_records" in at
    assert "than `line 2, column state_of_charge_pct`" in says
    _, warnings = read(f"{header}\nA;2027-02-18;80;2027-02-18;80.0\n".encode(), CSV)
    assert warnings == []


def test_two_records_of_one_time_that_differ_are_both_named() -> None:
    records = (
        '[{"recorded_at":"2027-02-18","temperature_degc":20},{"recorded_at":"2027-02-18T00:00Z","temperature_degc":21}]'
    )

    _, warnings = read(f'{{"battery":{{"sku":"A","temperature_records":{records}}}}}'.encode(), JSON)

    [(at, says)] = warnings
    assert at == "$.battery.temperature_records[1]"
    assert "than `$.battery.temperature_records[0]`" in says


# Lists and what says nothing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "items"),
    [("Co,Li,Ni", ["Co", "Li", "Ni"]), ("Cobalt, Lithium", ["Cobalt", "Lithium"]), ("keine", [])],
)
def test_a_list_of_names_is_split_at_commas(cell: str, items: list[str]) -> None:
    payloads, warnings = read(f"sku;critical_raw_materials\nA;{cell}\n".encode(), CSV)

    assert (payloads, warnings) == ([{"sku": "A", "critical_raw_materials": items}], [])


def test_a_text_that_may_be_a_list_is_read_as_one_and_named() -> None:
    payloads, warnings = read(b"sku;fastenings\nA;12 screws M6,4 clips\n", CSV)

    assert payloads == [{"sku": "A", "fastenings": ["12 screws M6,4 clips"]}]
    [(at, says)] = warnings
    assert at == "line 2, column fastenings"
    assert says.endswith("write `;` between texts if it lists several")


@pytest.mark.parametrize("cell", ["-", "n/a", "k. A.", "TBD", "?", "—"])
def test_what_stands_for_nothing_is_no_text(cell: str) -> None:
    payloads, warnings = read(f"sku;manufacturer_name;critical_raw_materials\nA;{cell};{cell}\n".encode(), CSV)

    assert payloads == [{"sku": "A"}]
    assert [says.partition("; ")[2] for _, says in warnings] == [
        "leave the cell empty; the value was left out",
        "write `none` if there are none, or leave the cell empty; the value was left out",
    ]


@pytest.mark.parametrize("cell", [".", "•", "...", "|"])
def test_a_sign_in_a_list_of_names_does_not_say_that_there_are_none(cell: str) -> None:
    payloads, warnings = read(f"sku;critical_raw_materials\nA;{cell}\n".encode(), CSV)

    assert payloads == [{"sku": "A"}]
    assert [says.partition("; ")[2] for _, says in warnings] == [
        "write `none` if there are none, or leave the cell empty; the value was left out"
    ]


def test_a_mass_beside_a_number_of_pieces_is_read_as_that_of_all() -> None:
    payloads, warnings = read(b"sku;Bauteil;Menge;Gewicht [g]\nA;cell;96;70\nA;case;1;9\n", CSV)

    assert [payload["mass_g"] for payload in payloads] == ["70.000000", "9.000000"]
    [(at, says)] = warnings
    assert at == "line 1, column Gewicht [g]"
    assert says.startswith("was read as the mass of all pieces of a part, not of one; write `mass_g` or `total mass`")
    _, warnings = read(b"sku;part;quantity;mass_g\nA;cell;96;70\n", CSV)
    assert warnings == []
