"""`bpc check`: a supplier learns what is wrong in which cell, without any service."""

import io
import json
from pathlib import Path

import openpyxl  # type: ignore[import-untyped]
import pytest

from bpc.core.documents.forms.template_plan import build_template
from tests.cli.program import Program
from tests.core.documents.forms.filled_templates import fill_template

SHEET = "'1 Identity and label data'"
COMPLETE = Path(__file__).parents[3] / "examples" / "documents" / "due-diligence.csv"


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A template with a number that two locales read differently, and voltages in the wrong order."""
    content = fill_template(
        build_template("ev", "en"),
        {
            "1": [{"sku": "A", "category": "ev", "mass_kg": "1.000"}],
            "3": [{"sku": "A", "minimum_voltage_v": 420, "nominal_voltage_v": 400}],
        },
    )
    file = tmp_path / "battery.xlsx"
    file.write_bytes(content)
    return file


def test_a_file_without_errors_exits_0(bpc: Program) -> None:
    result = bpc.run_ok("check", COMPLETE)

    assert result.out == f"{COMPLETE}: read as DUE_DILIGENCE, 1 fact\n0 errors, 0 warnings\n"


def test_every_error_is_named_with_its_cell_and_exits_1(bpc: Program, filled: Path) -> None:
    result = bpc.run("check", filled)

    assert result.code == 1
    lines = result.out.splitlines()
    assert lines[0] == f"{filled}: read as BOM, 1 fact"
    errors = [line.split(maxsplit=2) for line in lines if line.startswith("error")]
    assert [error[1] for error in errors] == ["unreadable", "implausible"]
    assert f"{SHEET}!AB7" in errors[0][2]
    assert "which is 1 in English and 1000 in German" in errors[0][2]
    assert "'3 Performance and lifetime'!E7" in errors[1][2]
    assert lines[-1].startswith("2 errors, ")


def test_a_declared_locale_is_used(bpc: Program, filled: Path) -> None:
    answer = json.loads(bpc.run("check", filled, "--locale", "comma", "--json").out)

    assert [note["kind"] for note in answer["files"][0]["notes"] if note["severity"] == "error"] == ["implausible"]


def test_json_has_every_note_with_place_members_and_data_points(bpc: Program, filled: Path) -> None:
    result = bpc.run("check", filled, "--json")

    [file] = result.json()["files"]
    assert (result.code, file["kinds"], file["fact_count"]) == (1, ["BOM"], 1)
    unreadable = next(note for note in file["notes"] if note["kind"] == "unreadable")
    assert (unreadable["place"], unreadable["members"], unreadable["points"]) == (f"{SHEET}!AB7", ["mass_kg"], [10])
    implausible = next(note for note in file["notes"] if note["kind"] == "implausible")
    assert implausible["code"] == "VOLTAGE_ORDER"
    assert implausible["other_places"] == ["'3 Performance and lifetime'!H7"]


def test_missing_mandatory_points_are_warnings_and_errors_if_the_file_must_be_complete(
    bpc: Program, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("sku;category;chemistry\nA;ev;\n")

    result = bpc.run_ok("check", tmp_path / "a.csv")
    complete = bpc.run("check", tmp_path / "a.csv", "--complete")

    [chemistry] = [line for line in result.out.splitlines() if "`chemistry`" in line]
    assert chemistry.split()[:6] == ["warning", "missing", "line", "2,", "column", "chemistry"]
    assert complete.code == 1
    assert result.out.splitlines()[-1].startswith("0 errors, ")


def test_files_are_compared_with_each_other(bpc: Program, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"battery": {"sku": "A", "category": "ev", "capacity_kwh": 75}}')
    (tmp_path / "b.csv").write_text("sku,total_gco2e,raw_material_gco2e,production_gco2e\nA,100,300,400\n")

    answer = json.loads(bpc.run("check", tmp_path / "a.json", tmp_path / "b.csv", "--json").out)

    assert [file["kinds"] for file in answer["files"]] == [["BOM"], ["PCF"]]
    assert any(note["kind"] == "implausible" for note in answer["files"][1]["notes"])


def test_the_annotated_copy_has_coloured_cells_with_comments(bpc: Program, filled: Path, tmp_path: Path) -> None:
    result = bpc.run("check", filled, "--annotate", tmp_path / "copy.xlsx")

    assert (result.code, result.out.splitlines()[-1]) == (1, f"wrote {tmp_path}/copy.xlsx")
    book = openpyxl.load_workbook(tmp_path / "copy.xlsx")
    cell = book["1 Identity and label data"]["AB7"]
    assert cell.value == "1.000"
    assert cell.fill.fgColor.rgb == "FFFFC7CE"
    assert cell.comment.text.startswith('error: is "1.000", which is 1 in English')
    assert book["3 Performance and lifetime"]["H7"].comment is not None
    assert book["# bpc check"].max_row > 10


def test_the_annotated_copy_says_the_same_once_it_is_corrected(bpc: Program, filled: Path, tmp_path: Path) -> None:
    bpc.run("check", filled, "--annotate", tmp_path / "copy.xlsx")
    book = openpyxl.load_workbook(tmp_path / "copy.xlsx")
    book["1 Identity and label data"]["AB7"] = 450
    book["3 Performance and lifetime"]["E7"] = 300
    book.save(tmp_path / "corrected.xlsx")

    bpc.run_ok("check", tmp_path / "corrected.xlsx")


def test_the_copy_of_a_csv_file_is_a_workbook(bpc: Program, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("sku;Masse [kg]\nA;schwer\n")

    bpc.run("check", tmp_path / "a.csv", "--annotate", tmp_path / "copy.xlsx")

    sheet = openpyxl.load_workbook(tmp_path / "copy.xlsx")["Table"]
    assert sheet["B2"].value == "schwer"
    assert "schwer" in sheet["B2"].comment.text


def test_a_file_that_is_no_table_has_no_annotated_copy(bpc: Program, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"battery": {"sku": "A"}}')

    refused = bpc.run("check", tmp_path / "a.json", "--annotate", tmp_path / "copy.xlsx")

    assert refused.code == 1
    assert refused.err.startswith(f"VALIDATION_ERROR: `{tmp_path}/a.json` is not a table")
    assert not (tmp_path / "copy.xlsx").exists()


def test_a_copy_that_exists_is_not_overwritten(bpc: Program, filled: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.xlsx").write_bytes(b"mine")

    assert bpc.run("check", filled, "--annotate", tmp_path / "copy.xlsx").err.startswith("CONFLICT: ")
    assert (tmp_path / "copy.xlsx").read_bytes() == b"mine"


def test_a_copy_of_several_files_is_wrong_usage(bpc: Program, filled: Path, tmp_path: Path) -> None:
    assert bpc.run("check", filled, filled, "--annotate", tmp_path / "copy.xlsx").code == 2


def test_a_damaged_workbook_is_a_problem(bpc: Program, filled: Path) -> None:
    filled.write_bytes(filled.read_bytes()[:2000])

    result = bpc.run("check", filled)

    assert result.code == 1
    assert "is damaged or not an XLSX file" in result.out


def test_a_workbook_that_unpacks_to_too_much_is_refused(bpc: Program, tmp_path: Path) -> None:
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", bytes(80_000_000))
    (tmp_path / "bomb.xlsx").write_bytes(buffer.getvalue())

    result = bpc.run("check", tmp_path / "bomb.xlsx", "--annotate", tmp_path / "copy.xlsx")

    assert result.code == 1
    assert not (tmp_path / "copy.xlsx").exists()
