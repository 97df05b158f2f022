"""CSV as spreadsheets export it: read exactly, with every problem at its line and column."""

from typing import Any

import pytest

from bpc.core.documents.cells import MAX_COLUMNS
from bpc.core.documents.csv_table import MAX_LINES, MAX_ROW_LENGTH
from bpc.core.documents.reader import DocumentFacts, DocumentProblems, read_document
from bpc.core.documents.tables import MAX_ROWS
from bpc.core.formats import canonical_json


def read_csv_facts(text: str | bytes, kind: str = "BOM") -> DocumentFacts:
    outcome = read_document(kind, "text/csv", text if isinstance(text, bytes) else text.encode())
    assert isinstance(outcome, DocumentFacts), outcome
    return outcome


def list_problems(text: str | bytes, kind: str = "BOM") -> list[tuple[str, str]]:
    outcome = read_document(kind, "text/csv", text if isinstance(text, bytes) else text.encode())
    assert isinstance(outcome, DocumentProblems), outcome
    return [(note.at, note.says) for note in outcome.problems.first]


def list_unreadable(outcome: DocumentFacts) -> list[tuple[str, str]]:
    return [(lost.place, lost.says) for fact in outcome.facts for lost in fact.unreadable]


def decode_payloads(outcome: DocumentFacts) -> list[Any]:
    return [canonical_json.decode(fact.payload_canonical) for fact in outcome.facts]


BOM_TABLE = """\
sku,part,capacity_kwh,manufactured_on,has_bms,mass_g,critical,fastenings
SKU-1,,75.50,2027-02-18,yes,,,4 × M4; 2 × M6

,cell,,,,1.5,TRUE,
,lid,,,,2,0,
"""


def test_a_row_with_a_part_is_a_component_and_any_other_a_battery() -> None:
    outcome = read_csv_facts(BOM_TABLE)

    assert [(fact.fact_key, fact.source_path) for fact in outcome.facts] == [
        ("battery:SKU-1", "line 2"),
        ("component:SKU-1:cell", "line 4"),
        ("component:SKU-1:lid", "line 5"),
    ]
    assert decode_payloads(outcome)[0] == {
        "sku": "SKU-1",
        "capacity_kwh": "75.500000",
        "manufactured_on": "2027-02-18",
        "has_bms": True,
        "fastenings": ["4 × M4", "2 × M6"],
    }
    assert decode_payloads(outcome)[1:] == [
        {"sku": "SKU-1", "part": "cell", "mass_g": "1.500000", "critical": True},
        {"sku": "SKU-1", "part": "lid", "mass_g": "2.000000", "critical": False},
    ]
    assert outcome.warnings.total == 0


@pytest.mark.parametrize(
    "written",
    [
        BOM_TABLE.replace(",", ";").replace("M4; 2", "M4\n2").replace("4 × M4\n2 × M6", '"4 × M4\n2 × M6"'),
        BOM_TABLE.replace(",", "\t"),
        BOM_TABLE.replace("\n", "\r\n"),
        BOM_TABLE.replace("\n", "\r"),
        "\ufeff" + BOM_TABLE,
        "sep=,\r\n" + BOM_TABLE,
        "\n,,,\n# written by hand\n" + BOM_TABLE,
        BOM_TABLE.replace("\n", ",,\n"),
        BOM_TABLE.replace("capacity_kwh", '" Capacity kWh "').replace("has_bms", "Has-BMS"),
        BOM_TABLE + ",,,,,,,\n\n",
    ],
)
def test_it_may_be_written_as_spreadsheets_write_it(written: str) -> None:
    assert decode_payloads(read_csv_facts(written)) == decode_payloads(read_csv_facts(BOM_TABLE))


def test_excel_calls_utf_16_with_tabs_unicode_text() -> None:
    assert decode_payloads(read_csv_facts(BOM_TABLE.replace(",", "\t").encode("utf-16"))) == decode_payloads(
        read_csv_facts(BOM_TABLE)
    )


def test_lines_are_counted_as_an_editor_counts_them() -> None:
    outcome = read_csv_facts('sku,name\nA,"two\nlines"\nB,one\n')

    assert [fact.source_path for fact in outcome.facts] == ["line 2", "line 4"]
    assert decode_payloads(outcome)[0]["name"] == "two\nlines"
    assert read_csv_facts("sep=;\nsku;name\nA;x\n").facts[0].source_path == "line 3"


def test_records_and_texts_with_semicolons_have_columns_of_their_own() -> None:
    outcome = read_csv_facts(
        "sku,labels[1].url,labels[1].subject,labels[2].url,fastenings[1],fastenings[2],"
        "spare_part_sources[1].part_numbers,spare_part_sources[1].name\n"
        "A,u,s,v,a;b,c,1;2,x\n"
    )

    assert decode_payloads(outcome) == [
        {
            "sku": "A",
            "labels": [{"url": "u", "subject": "s"}, {"url": "v"}],
            "fastenings": ["a;b", "c"],
            "spare_part_sources": [{"part_numbers": ["1", "2"], "name": "x"}],
        }
    ]


SHORTENED = "which is in scientific notation; format the column as a number with all its digits"
GAP = "is empty but a later one is filled; fill them in order, starting with 1"


def test_every_value_that_cannot_be_read_is_at_its_line_and_column() -> None:
    header = "sku,capacity_kwh,mass_kg,manufactured_on,has_bms,expected_cycles,labels[1].url,labels[2].url,power_w\n"

    outcome = read_csv_facts(
        header + "A,much,1.1234567,18.02.27,perhaps,1.5,,v,#REF!\n" + "B,1.2E+05,5,2027-02-30,,12 000,,,=A1\n"
    )

    assert list_unreadable(outcome) == [
        ("line 2, column capacity_kwh", 'is "much", not a number'),
        ("line 2, column manufactured_on", 'is "18.02.27", not a date written like 2027-02-18'),
        ("line 2, column has_bms", 'is "perhaps", not true or false, yes or no, 1 or 0'),
        ("line 2, column power_w", "is #REF!; correct the formula"),
        ("line 2, column labels[1]", GAP),
        ("line 2, column mass_kg", "has more than 6 decimals"),
        ("line 2, column expected_cycles", "is not a whole number"),
        ("line 3, column capacity_kwh", f'is "1.2E+05", {SHORTENED}'),
        ("line 3, column manufactured_on", 'is "2027-02-30", not a date written like 2027-02-18'),
        ("line 3, column power_w", 'is "=A1", a formula written as text; enter its result'),
    ]
    assert decode_payloads(outcome) == [{"sku": "A"}, {"sku": "B", "mass_kg": "5.000000", "expected_cycles": 12000}]
    assert [
        (note.at, note.says.removesuffix("; the value was left out"))
        for note in outcome.warnings.first
        if "line 2" in note.at
    ] == [note for note in list_unreadable(outcome) if "line 2" in note[0]]


def test_every_problem_of_a_key_is_at_its_line_and_column() -> None:
    assert list_problems("sku,part,mass_g\nA:B,cell,1\n,lid,2\n#REF!,x,3\n") == [
        ("line 4, column sku", "is #REF!; correct the formula"),
        ("line 2, column sku", "has a colon, which separates the parts of a fact's key"),
        ("line 3, column sku", "is missing; it identifies the product"),
    ]


def test_unknown_columns_are_left_out_and_named_once() -> None:
    outcome = read_csv_facts("sku,masss_kg,part,mass_g,,colour\nA,1,,3,note,\nA,2,cell,3,note,red\n")

    left_out = "is not a member of Battery or Component and was left out"
    assert [(note.at, note.says) for note in outcome.warnings.first] == [
        ("line 1, column masss_kg", f'("masss_kg") {left_out}; did you mean `mass_kg`?'),
        ("line 1, column colour", f'("colour") {left_out}'),
        ("line 2, column 5", "has no name in the header and was left out"),
        ("line 2, column mass_g", "is not a member of Battery and was left out; did you mean `mass_kg`?"),
    ]


NO_ROWS = "has no rows; fill in at least one below the header"
OWN_COLUMN = "is part of `fastenings`, which has a column of its own; keep one of the two"
RECORDS = "is a list of records; use one column for each value, such as `labels[1].meaning`"
SHIFTED = "has 3 cells but the header has 2; put a cell that contains a `,` in quotes"
LONG_ROW = "has more than 1,000,000 characters; is a closing quote missing?"
LONG_CELL = "has a cell longer than 131,072 characters; is a closing quote missing?"


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("", "$", "is empty: it has no header and no rows"),
        ("sku,name\n", "line 1", NO_ROWS),
        ("sku,name\n# the battery,its name\n,\n", "line 1", NO_ROWS),
        ("sku,SKU\nA,B\n", "line 1, column sku", "occurs twice in the header"),
        ("sku,fastenings,fastenings[1]\nA,,\n", "line 1, column fastenings[1]", OWN_COLUMN),
        ("sku,labels\nA,x\n", "line 1, column labels", RECORDS),
        ("sku,capacity_kwh\nA,75,5\n", "line 2", SHIFTED),
        ('sku,name\nA,"x\n', "line 2", "has no closing quote"),
        ('sku,name\nA,"x"y\n', "line 2", "has a quote inside a cell; double it, and put the whole cell in quotes"),
        (b"sku,name\nA,B\xe4r\n", "line 2", "is not UTF-8; in Excel, save as `CSV UTF-8`"),
        ("sku,name\nA,\0\n", "line 2", "contains U+0000; is this a text file?"),
        ("sku\n" + "\n" * (MAX_LINES + 1), "$", f"has more than {MAX_LINES:,} lines; split the document"),
        ("sku," + ",".join("a" * MAX_COLUMNS), "line 1", "has 2,001 cells; the limit is 2,000"),
        ("sku\n" + "x" * (MAX_ROW_LENGTH + 1), "line 2", LONG_ROW),
        ('sku\n"' + "x" * 200_000, "line 2", LONG_CELL),
    ],
    ids=range(15),
)
def test_a_table_that_cannot_be_read_says_why(text: str | bytes, at: str, says: str) -> None:
    assert list_problems(text)[0] == (at, says)


def test_a_table_has_a_maximum_number_of_rows() -> None:
    assert list_problems("sku\n" + "A\n" * (MAX_ROWS + 1), "PCF") == [
        ("line 50002", "is more than 50,000 rows below the header; split the document")
    ]


def test_a_part_without_a_sku_is_given_to_no_battery_if_another_part_is_of_another() -> None:
    text = "sku,part,mass_g\nA,,\n,cell,5\nB,cell,6\n"

    assert list_problems(text) == [("line 3, column sku", "is missing; it identifies the product")]
    assert len(read_csv_facts(text.replace("B,", "A,").replace("cell,6", "case,6")).facts) == 3


def test_a_column_of_row_numbers_may_be_called_by_the_sign_of_a_comment() -> None:
    outcome = read_csv_facts("#,sku,mass_kg\n1,A,400\n#,a comment,5\n2,B,500\n")

    assert [payload["sku"] for payload in decode_payloads(outcome)] == ["A", "B"]


def test_the_number_of_a_material_is_a_sku_only_where_there_are_no_parts() -> None:
    [battery] = decode_payloads(read_csv_facts("Materialnummer,mass_kg\nA,400\n"))
    problems = list_problems("Materialnummer,part,mass_g\nM-1,cell,5\n")

    assert battery["sku"] == "A"
    assert problems == [("line 2, column sku", "is missing; it identifies the product")]


@pytest.mark.parametrize("total", ["A,Summe,11", "A,TOTAL:,11", "Gesamt,,11", "Razem,x,11", "A,Zwischensumme,11"])
def test_a_sum_of_rows_is_no_part(total: str) -> None:
    outcome = read_csv_facts(f"sku,part,mass_g\nA,cell,5\nA,case,6\n{total}\n")

    assert [payload["part"] for payload in decode_payloads(outcome)] == ["cell", "case"]
    assert [(note.at, note.says) for note in outcome.warnings.first] == [
        ("line 4", "is a sum of other rows and was not read")
    ]


def test_commas_separate_the_names_in_a_list_of_names_and_not_sentences() -> None:
    text = 'sku,critical_raw_materials,fastenings\nA,"cobalt, lithium; nickel","8 screws, M6"\n'

    [battery] = decode_payloads(read_csv_facts(text))

    assert battery["critical_raw_materials"] == ["cobalt", "lithium", "nickel"]
    assert battery["fastenings"] == ["8 screws, M6"]


ANOTHER_TABLE = "begins another table; put each table on its own sheet"


@pytest.mark.parametrize(
    "header",
    [
        "sku,nominal_voltage_v,mass_kg",
        "mass_kg,nominal_voltage_v,sku",
        "Artikelnummer,Masse [g],Nennspannung [V]",
        "sku,mass_kg,nominal_voltage_v,model",
    ],
)
def test_a_second_table_with_other_columns_below_the_first_is_a_problem(header: str) -> None:
    text = f"sku,mass_kg,nominal_voltage_v\nA,400,48\n{header}\nB,51,500\n"

    assert list_problems(text) == [("line 3", ANOTHER_TABLE)]


@pytest.mark.parametrize("header", ["sku,mass_kg", "SKU,Mass kg", "Artikelnummer,Masse [kg]", "Artikelnummer,Gewicht"])
def test_a_header_that_stands_there_again_is_left_out_with_a_warning(header: str) -> None:
    outcome = read_csv_facts(f"sku,mass_kg\nA,400\n{header}\nB,500\n")

    assert [payload["sku"] for payload in decode_payloads(outcome)] == ["A", "B"]
    assert [(note.at, note.says) for note in outcome.warnings.first] == [
        ("line 3", "repeats the header and was not read")
    ]


def test_footprints_and_due_diligence_are_a_row_each() -> None:
    footprints = read_csv_facts("sku,total_gco2e\nA,1.50\nB,2\n", "PCF")
    reports = read_csv_facts("sku;materials;conforms\nA;cobalt;nein\n".replace("nein", "no"), "DUE_DILIGENCE")

    assert [(fact.fact_type, fact.fact_key) for fact in footprints.facts] == [("PCF", "pcf:A"), ("PCF", "pcf:B")]
    assert decode_payloads(reports) == [{"sku": "A", "materials": ["cobalt"], "conforms": False}]


def test_numbers_stay_as_exact_as_they_are_written() -> None:
    written = "100000000000000000.123456"

    assert decode_payloads(read_csv_facts(f"sku,capacity_kwh\nA,{written}\n"))[0]["capacity_kwh"] == written


def test_a_kind_without_facts_is_not_read() -> None:
    assert list_problems("sku\nA\n", "OTHER") == [("$", "cannot be read: documents of kind OTHER have no facts")]


@pytest.mark.parametrize("declared", ["application/octet-stream", "text/plain", "application/vnd.ms-excel"])
def test_the_first_bytes_tell_the_format_where_the_sender_does_not(declared: str) -> None:
    assert isinstance(read_document("PCF", declared, b"sku\nA\n"), DocumentFacts)
    assert isinstance(read_document("PCF", declared, b' {"sku":"A"}'), DocumentFacts)
    assert isinstance(read_document("PCF", "text/csv", b'[{"sku":"A"}]'), DocumentFacts)
    pdf = read_document("PCF", declared, b"%PDF-1.7")
    assert isinstance(pdf, DocumentProblems)
    assert pdf.problems.first[0].at == "mime_type"


def test_a_table_without_columns_of_its_kind_is_rejected() -> None:
    outcome = read_document("BOM", "text/csv", b"sku,total_gco2e\nSKU-1,6040\n")

    assert isinstance(outcome, DocumentProblems)
    assert [note.says for note in outcome.problems.first] == [
        "has no column for a Battery or Component except `sku`; is the document of another kind?"
    ]
