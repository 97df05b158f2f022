"""The annotated copy: marked cells are coloured and explained, and nothing else of the workbook is another."""

import io
import re
import zipfile
from contextlib import suppress
from random import Random  # noqa: TID251 (seeded)
from typing import Any

import openpyxl  # type: ignore[import-untyped]
import pytest
import xlsxwriter  # type: ignore[import-untyped]
from openpyxl.comments import Comment  # type: ignore[import-untyped]

from bpc.core.documents.forms.xlsx_annotation import MAX_MARKS, CellMark, annotate_workbook
from bpc.core.documents.xlsx.package import WorkbookUnreadable
from tests.measurements import choose_effort

ROWS = [("SEVERITY", "SAYS"), ("error", 'is <wrong> & "bad" – 5 Ω\x01')]
RED, YELLOW = "FFFFC7CE", "FFFFEB9C"


def write_book(*, comment: bool = False) -> bytes:
    """A workbook with a formula, a chart, a picture of a table, number formats and a merged title."""
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True}) as book:
        sheet = book.add_worksheet("Battery")
        other = book.add_worksheet("Due diligence")
        percent, bold = book.add_format({"num_format": "0.0%"}), book.add_format({"bold": True})
        sheet.set_column(3, 3, 12, book.add_format({"num_format": "@", "italic": True}))
        sheet.merge_range("A1:C1", "Title", bold)
        sheet.write_row(1, 0, ["sku", "mass_kg", "share", "model"], bold)
        sheet.write_row(2, 0, ["A", 10])
        sheet.write_number(2, 2, 0.25, percent)
        sheet.write_formula(3, 1, "=B3*2", None, 20)
        sheet.add_table("F1:G3", {"columns": [{"header": "x"}, {"header": "y"}]})
        chart = book.add_chart({"type": "line"})
        chart.add_series({"values": "=Battery!$B$3:$B$4"})
        sheet.insert_chart("J2", chart)
        other.write_string(0, 0, "sku")
        if comment:
            sheet.write_comment("B3", "ours", {"author": "Somebody"})
            sheet.write_comment("A3", "another")
    return buffer.getvalue()


def annotate(content: bytes, *marks: CellMark) -> Any:
    return openpyxl.load_workbook(io.BytesIO(annotate_workbook(content, marks, ROWS)))


def read_parts(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_marked_cell_is_coloured_and_explained_and_keeps_its_value_and_format() -> None:
    book = annotate(write_book(), CellMark("Battery!C3", "error", "is too high"))

    cell = book["Battery"]["C3"]
    assert (cell.value, cell.number_format, cell.fill.fgColor.rgb) == (0.25, "0.0%", RED)
    assert cell.comment.text == "error: is too high"
    assert book["Battery"]["B3"].comment is None


def test_a_cell_that_is_empty_is_marked_with_the_format_of_its_column() -> None:
    book = annotate(write_book(), CellMark("Battery!D3", "warning", "is missing"))

    cell = book["Battery"]["D3"]
    assert (cell.value, cell.number_format, cell.font.italic) == (None, "@", True)
    assert (cell.fill.fgColor.rgb, cell.comment.text) == (YELLOW, "warning: is missing")


def test_two_notes_of_one_cell_are_one_comment_with_the_worse_colour() -> None:
    book = annotate(
        write_book(), CellMark("Battery!B3", "warning", "looks odd"), CellMark("Battery!B3", "error", "is wrong")
    )

    cell = book["Battery"]["B3"]
    assert (cell.fill.fgColor.rgb, cell.comment.text) == (RED, "error: looks odd\nis wrong")


def test_a_note_about_a_row_marks_its_first_cell() -> None:
    book = annotate(write_book(), CellMark("Battery!3, column mass", "error", "has no such column"))

    assert book["Battery"]["A3"].comment.text == "error: has no such column"


def test_a_sheet_whose_name_needs_quotes_is_marked() -> None:
    book = annotate(write_book(), CellMark("'Due diligence'!A1", "error", "is wrong"))

    assert book["Due diligence"]["A1"].fill.fgColor.rgb == RED


def test_comments_that_are_there_stay_and_get_more_text() -> None:
    book = annotate(
        write_book(comment=True), CellMark("Battery!B3", "error", "is wrong"), CellMark("Battery!C3", "note", "hm")
    )

    sheet = book["Battery"]
    assert sheet["A3"].comment.text == "another"
    assert sheet["B3"].comment.text == "ours\n\nerror: is wrong"
    assert sheet["C3"].comment.text == "note: hm"
    assert (sheet["B3"].comment.author, sheet["C3"].comment.author) == ("Somebody", "bpc check")


def test_parts_that_say_nothing_about_marked_cells_are_the_same_bytes() -> None:
    content = write_book()

    before = read_parts(content)
    after = read_parts(annotate_workbook(content, [CellMark("Battery!B3", "error", "is wrong")], ROWS))

    changed = {name for name in before if before[name] != after[name]}
    assert changed == {
        "[Content_Types].xml",
        "xl/workbook.xml",
        "xl/styles.xml",
        "xl/_rels/workbook.xml.rels",
        "xl/worksheets/sheet1.xml",
        "xl/worksheets/_rels/sheet1.xml.rels",
    }
    assert {"xl/charts/chart1.xml", "xl/tables/table1.xml"} <= before.keys() - changed
    assert b"<f>B3*2</f><v>20</v>" in after["xl/worksheets/sheet1.xml"]


def test_a_list_of_all_notes_is_the_last_sheet() -> None:
    book = annotate(write_book(), CellMark("$", "error", "is rejected"))

    assert book.sheetnames == ["Battery", "Due diligence", "# bpc check"]
    assert [[cell.value for cell in row] for row in book["# bpc check"].rows] == [
        ["SEVERITY", "SAYS"],
        ["error", 'is <wrong> & "bad" – 5 Ω'],
    ]


def test_a_copy_can_be_annotated_again() -> None:
    mark = CellMark("Battery!B3", "error", "is wrong")
    once = annotate_workbook(write_book(), [mark], ROWS)

    book = annotate(once, mark, CellMark("Battery!A3", "note", "once more"))

    assert book.sheetnames[-2:] == ["# bpc check", "# bpc check 2"]
    assert book["Battery"]["A3"].comment.text == "note: once more"


def test_a_workbook_of_another_program_is_annotated() -> None:
    source = openpyxl.Workbook()
    source.active.title = "Battery"
    source.active.append(["sku", "mass_kg"])
    source.active["A1"].comment = Comment("theirs", "Somebody")
    buffer = io.BytesIO()
    source.save(buffer)

    book = annotate(buffer.getvalue(), CellMark("Battery!B1", "error", "is wrong"))

    assert (book["Battery"]["A1"].comment.text, book["Battery"]["B1"].comment.text) == ("theirs", "error: is wrong")


def test_elements_with_a_prefix_are_understood() -> None:
    parts = read_parts(write_book())
    for name in ("xl/worksheets/sheet2.xml", "xl/styles.xml", "xl/workbook.xml"):
        parts[name] = prefix_elements(parts[name])

    book = annotate(write_zip(parts), CellMark("'Due diligence'!A1", "error", "is wrong"))

    assert book["Due diligence"]["A1"].fill.fgColor.rgb == RED


def prefix_elements(xml: bytes) -> bytes:
    text = re.sub(rb"<(/?)([A-Za-z])", rb"<\1x:\2", xml)
    return text.replace(b' xmlns="', b' xmlns:x="')


def write_zip(parts: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_marks_beyond_the_limit_and_marks_of_nothing_are_left_out() -> None:
    marks = [
        CellMark("Battery!B3", "error", "is wrong"),
        CellMark("Nowhere!B3", "error", "is wrong"),
        CellMark("Battery!C", "error", "is a column"),
        CellMark("Battery!B9999", "error", "is no row"),
        *[CellMark("$", "note", "says little")] * MAX_MARKS,
        CellMark("Battery!A3", "error", "is one too many"),
    ]

    book = annotate(write_book(), *marks)

    assert book["Battery"]["B3"].comment is not None
    assert book["Battery"]["A3"].comment is None


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600)])
def test_what_is_no_workbook_is_refused(content: bytes) -> None:
    with pytest.raises(WorkbookUnreadable):
        annotate_workbook(content, [], ROWS)


def test_a_part_in_an_encoding_that_cannot_be_extended_is_refused() -> None:
    parts = read_parts(write_book())
    text = parts["xl/worksheets/sheet1.xml"].decode().replace("UTF-8", "UTF-16")
    parts["xl/worksheets/sheet1.xml"] = text.encode("utf-16")

    with pytest.raises(WorkbookUnreadable, match="UTF-16"):
        annotate_workbook(write_zip(parts), [CellMark("Battery!B3", "error", "is wrong")], ROWS)


def test_a_document_type_declaration_is_refused() -> None:
    parts = read_parts(write_book(comment=True))
    comments = next(name for name in parts if "comments" in name)
    parts[comments] = b'<!DOCTYPE a [<!ENTITY b "c">]>' + parts[comments].partition(b"?>")[2]

    with pytest.raises(WorkbookUnreadable, match="document type"):
        annotate_workbook(write_zip(parts), [CellMark("Battery!B3", "error", "is wrong")], ROWS)


@pytest.mark.repeats
def test_a_damaged_part_is_refused_or_copied_and_never_a_crash() -> None:
    draw = Random("damaged parts")
    original = read_parts(write_book(comment=True))
    names = [name for name in original if name.endswith((".xml", ".rels"))]
    marks = [CellMark("Battery!B3", "error", "is wrong"), CellMark("Battery!D3", "warning", "is missing")]

    for _ in range(choose_effort(test=200, shown=3_000, campaign=30_000)):
        parts = dict(original)
        name = draw.choice(names)
        content = bytearray(parts[name])
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(content))
            content[at : at + draw.randrange(4)] = bytes(draw.choices(b'<>/"= ab19!&;x:', k=draw.randrange(4)))
        parts[name] = bytes(content)

        with suppress(WorkbookUnreadable):
            annotate_workbook(write_zip(parts), marks, ROWS)
