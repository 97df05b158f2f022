"""The workbook of a template: what a supplier opens, and that what is filled in is read back, value by value."""

import io
import os
import shutil
import subprocess
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)

import openpyxl  # type: ignore[import-untyped]
import pytest

from bpc.core.documents.forms.template_plan import AskedMember, build_template
from bpc.core.documents.forms.template_words import LANGUAGES, Language
from bpc.core.documents.reader import DocumentFacts, DocumentProblems, read_document
from bpc.core.exports.data_points import CATEGORIES, Category
from bpc.core.formats import canonical_json
from bpc.core.formats.file_types import XLSX
from bpc.printing.table_workbook import write_text_workbook
from bpc.printing.template_workbook import FIRST_ROW, LABEL_ROW, NAME_ROW, write_template_workbook
from tests.core.documents.forms.filled_templates import FilledTemplate, fill_randomly, find_differences
from tests.measurements import RecordMeasurement, choose_effort

EACH = [(category, language) for category in CATEGORIES for language in LANGUAGES]


@pytest.mark.parametrize(("category", "language"), EACH)
def test_an_empty_template_is_understood_and_has_no_rows(category: Category, language: Language) -> None:
    outcome = read_document("BOM", XLSX, write_template_workbook(build_template(category, language)))

    assert isinstance(outcome, DocumentProblems)
    assert [problem.says for problem in outcome.problems.first] == [
        "has no rows; fill in at least one below the header"
    ]
    assert outcome.warnings.total == 0


def test_the_same_template_has_the_same_bytes() -> None:
    one, other = (write_template_workbook(build_template("ev", "de")) for _ in range(2))

    assert one == other


def test_a_column_has_its_number_name_mark_and_comment() -> None:
    book = openpyxl.load_workbook(io.BytesIO(write_template_workbook(build_template("ev", "de"))))

    sheet = book["3 Leistung und Lebensdauer"]
    [column] = [cell.column for cell in sheet[NAME_ROW + 1] if cell.value == "minimum_voltage_v"]
    assert [sheet.cell(row, column).value for row in range(3, 7)] == [
        "26",
        "Mindestspannung [V]",
        "* Pflichtangabe",
        "minimum_voltage_v",
    ]
    assert "Anhang XIII Nr. 1 Buchst. h" in sheet.cell(LABEL_ROW + 1, column).comment.text


def test_values_to_choose_from_are_drop_down_lists() -> None:
    book = openpyxl.load_workbook(io.BytesIO(write_template_workbook(build_template("ev", "en"))))

    sheet = book["1 Identity and label data"]
    letters = {cell.value: cell.column_letter for cell in sheet[NAME_ROW + 1] if cell.value}
    lists = {str(each.sqref).partition("7:")[0]: each.formula1 for each in sheet.data_validations.dataValidation}
    assert lists[letters["has_bms"]] == '"yes,no"'
    assert lists[letters["manufacturing_country"]].startswith("'#lists'!$")
    assert book["#lists"].sheet_state == "hidden"
    others = book["2 Recycled content"].data_validations.dataValidation
    assert [each.formula1 for each in others] == ["'1 Identity and label data'!$B$7:$B$1006"]


def test_a_template_of_what_is_missing_names_the_products_and_frames_the_cells() -> None:
    wanted = {"A": [AskedMember("Battery", "mass_kg")], "B": [AskedMember("Battery", "chemistry")]}
    book = openpyxl.load_workbook(io.BytesIO(write_template_workbook(build_template("ev", "en", wanted))))

    sheet = book["1 Identity and label data"]
    assert [[cell.value for cell in row] for row in sheet.iter_rows(min_row=FIRST_ROW, min_col=2)] == [
        ["sku", "mass_kg", "chemistry"],
        ["A", None, None],
        ["B", None, None],
    ]
    assert [sheet.cell(7, column).border.left.style for column in (3, 4)] == ["medium", None]
    assert "Only the cells with a frame" in book["# Instructions"]["B4"].value


def test_a_table_of_texts_stays_as_it_is_written() -> None:
    rows = [["sku", "=1+1"], ["0042", "1.000"]]

    sheet = openpyxl.load_workbook(io.BytesIO(write_text_workbook("Table", rows)))["Table"]

    assert [[cell.value for cell in row] for row in sheet.rows] == rows
    assert all(cell.data_type == "s" for row in sheet.rows for cell in row)


def test_the_reader_sees_every_row_above_the_names_as_a_comment() -> None:
    book = openpyxl.load_workbook(io.BytesIO(write_template_workbook(build_template("lmt", "en"))))

    for sheet in book.worksheets[1:-1]:
        assert [sheet.cell(row, 1).value for row in range(1, NAME_ROW + 2)] == ["#"] * NAME_ROW + [None]


# The random round trip ------------------------------------------------------------------------------------------------


def draw_templates(seed: str, values: int) -> list[FilledTemplate]:
    """Filled templates of all categories and languages, with at least so many values together."""
    draw = Random(seed)
    filled: list[FilledTemplate] = []
    while sum(each.count_values() for each in filled) < values:
        category, language = EACH[len(filled) % len(EACH)]
        products = [f"P-{len(filled)}-{number}" for number in range(choose_effort(test=2, shown=4, campaign=4))]
        filled.append(fill_randomly(draw, build_template(category, language), products))
    return filled


def list_wrong(filled: FilledTemplate, content: bytes) -> list[str]:
    """What was not read as it was written. Facts that nobody wrote, and warnings, count too."""
    outcome = read_document("BOM", XLSX, content)
    assert isinstance(outcome, DocumentFacts), outcome
    facts = {
        (fact.fact_type, fact.fact_key): canonical_json.decode(fact.payload_canonical)
        for fact in outcome.facts
        if fact.fact_type != "Reading"
    }
    wrong = [*find_differences(filled.expected, facts), *(str(note) for note in outcome.warnings.first)]
    return wrong + [str(key) for key in facts.keys() - filled.expected.keys()]


def test_random_values_saved_by_openpyxl_are_read_back_unchanged(record_measurement: RecordMeasurement) -> None:
    templates = draw_templates("openpyxl", choose_effort(test=300, shown=10_000, campaign=100_000))

    wrong = [fault for filled in templates for fault in list_wrong(filled, filled.content)]

    count = sum(filled.count_values() for filled in templates)
    record_measurement("template-round-trip-openpyxl", values=count, wrong=len(wrong))
    assert wrong == []


def find_libreoffice() -> str:
    """The program, installed if that is allowed; else the test is skipped and says why."""
    program = shutil.which("soffice")
    if program is None and os.geteuid() == 0 and shutil.which("apt-get"):
        install = ["apt-get", "install", "-qy", "--no-install-recommends", "libreoffice-calc"]
        subprocess.run(["apt-get", "update", "-q"], check=False, capture_output=True)
        subprocess.run(install, check=False, capture_output=True)
        program = shutil.which("soffice")
    if program is None:
        pytest.skip("LibreOffice is not installed, and apt-get could not install libreoffice-calc")
    return program


@pytest.mark.long
def test_random_values_saved_by_libreoffice_are_read_back_unchanged(
    tmp_path: Path, record_measurement: RecordMeasurement
) -> None:
    program = find_libreoffice()
    templates = draw_templates("libreoffice", choose_effort(test=300, shown=10_000, campaign=50_000))
    (tmp_path / "saved").mkdir()
    for number, filled in enumerate(templates):
        (tmp_path / f"{number}.xlsx").write_bytes(filled.content)
    subprocess.run(
        [
            program,
            "--headless",
            f"-env:UserInstallation=file://{tmp_path}/profile",
            "--convert-to",
            "xlsx",
            "--outdir",
            tmp_path / "saved",
            *(tmp_path / f"{number}.xlsx" for number in range(len(templates))),
        ],
        check=True,
        capture_output=True,
        timeout=1200,
    )

    wrong = [
        fault
        for number, filled in enumerate(templates)
        for fault in list_wrong(filled, (tmp_path / "saved" / f"{number}.xlsx").read_bytes())
    ]

    count = sum(filled.count_values() for filled in templates)
    record_measurement("template-round-trip-libreoffice", values=count, wrong=len(wrong))
    assert wrong == []
