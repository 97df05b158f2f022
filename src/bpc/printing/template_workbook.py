"""The workbook of a template: what `build_template` plans, as an XLSX file that suppliers like to fill in.

The same plan gives the same content. The file is read by the row of technical names; every row above it has a `#` in
its first cell, which makes it a comment for the reader. Sheets whose names begin with `#` are comments as well.
"""

import io
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import xlsxwriter  # type: ignore[import-untyped]

from bpc.core.documents.forms.template_plan import SheetPlan, Template, TemplateColumn, TemplateRow
from bpc.core.documents.forms.template_words import MARK_SIGNS, Mark
from bpc.core.documents.xlsx.sheet_rows import format_column_letters
from bpc.core.language.types import DATE, TEXT, List

Workbook: TypeAlias = Any  # the library that writes spreadsheets has no types
Worksheet: TypeAlias = Any
CellFormat: TypeAlias = Any

# A fixed creation time, so that the same template has the same bytes.
CREATED_AT: Final = datetime(2027, 1, 1, tzinfo=UTC)
MAX_FILLED_ROWS: Final = 1_000  # with drop-down lists
MAX_LIST_CHARACTERS: Final = 255  # of a drop-down list that stands in its cell; longer ones are on a sheet
LIST_SHEET: Final = "#lists"

# The rows of a sheet, from 0.
TITLE_ROW, SOURCE_ROW, POINT_ROW, LABEL_ROW, MARK_ROW, NAME_ROW, FIRST_ROW = range(7)
FIRST_COLUMN: Final = 1  # beside the column with `#`

_INK: Final = "#1F3864"
_MARK_COLOURS: Final[dict[Mark, tuple[str, str]]] = {  # of the background and of the text
    "mandatory": ("#1F4E79", "#FFFFFF"),
    "alternative": ("#9DC3E6", "#1F3864"),
    "conditional": ("#FFE699", "#594300"),
    "optional": ("#EDEDED", "#404040"),
}


def write_template_workbook(template: Template) -> bytes:
    """The bytes of the workbook."""
    buffer = io.BytesIO()
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    with xlsxwriter.Workbook(buffer, options) as book:
        words = template.words
        title = words.title_missing if template.is_of_missing else words.title
        book.set_properties({"title": title, "subject": words.categories[template.category], "created": CREATED_AT})
        _TemplateWriter(book, template, title).write()
    return buffer.getvalue()


class _TemplateWriter:
    def __init__(self, book: Workbook, template: Template, title: str) -> None:
        self._book, self._template, self._title = book, template, title
        self._words = template.words
        self._lists: dict[tuple[str, ...], str] = {}
        add = book.add_format
        self._hash = add({"font_color": "#BFBFBF", "font_size": 8})
        self._big = add({"bold": True, "font_size": 16, "font_color": _INK})
        self._small = add({"font_color": "#595959"})
        self._heading = add({"bold": True, "font_size": 12, "font_color": _INK, "bottom": 1, "bottom_color": "#9DC3E6"})
        self._wrapped = add({"text_wrap": True, "valign": "top"})
        self._count = add({"align": "center", "valign": "top"})
        self._name = add(
            {"font_size": 8, "font_color": "#7F7F7F", "bg_color": "#F7F7F7", "bottom": 2, "bottom_color": _INK}
        )
        self._point = add({"align": "center", "font_color": "#595959", "font_size": 9})
        border = {"border": 1, "border_color": "#FFFFFF"}
        self._labels = {
            mark: add(
                {"bold": True, "text_wrap": True, "valign": "top", "bg_color": ground, "font_color": ink, **border}
            )
            for mark, (ground, ink) in _MARK_COLOURS.items()
        }
        self._marks = {
            mark: add({"font_size": 9, "align": "center", "bg_color": ground, "font_color": ink, **border})
            for mark, (ground, ink) in _MARK_COLOURS.items()
        }
        self._plain = {number_format: add({"num_format": number_format}) for number_format in _NUMBER_FORMATS}
        asked_format = {"border": 2, "border_color": "#C55A11", "bg_color": "#FFF8E5"}
        self._asked = {
            number_format: add({"num_format": number_format, **asked_format}) for number_format in _NUMBER_FORMATS
        }
        self._known = add({"bg_color": "#E7E6E6"})
        self._key = add({"num_format": "@", "bold": True})

    def write(self) -> None:
        self._write_cover()
        first = self._template.sheets[0] if self._template.sheets else None
        for sheet in self._template.sheets:
            self._write_sheet(sheet, None if sheet is first or first is None else first)
        self._write_lists()

    # The first sheet --------------------------------------------------------------------------------------------

    def _write_cover(self) -> None:
        words, template = self._words, self._template
        sheet = self._book.add_worksheet(words.cover_sheet)
        sheet.hide_gridlines(2)
        sheet.set_tab_color(_INK)
        sheet.set_column(0, 0, 3)
        sheet.set_column(1, 1, 34)
        sheet.set_column(2, 3, 11)
        sheet.set_column(4, 4, 62)
        sheet.write_string(0, 1, self._title, self._big)
        sheet.write_string(1, 1, f"{words.categories[template.category]} · {words.regulation}", self._small)
        steps = [words.step_missing, *words.steps] if template.is_of_missing else list(words.steps)
        row = 3
        for number, step in enumerate(steps, 1):
            sheet.write_number(row, 0, number, self._count)
            sheet.merge_range(row, 1, row, 4, step, self._wrapped)
            sheet.set_row(row, 30 if len(step) > 115 else 16)
            row += 1
        row = self._write_legend(sheet, row + 1)
        self._write_contents(sheet, row + 1)
        _set_page(sheet)
        sheet.fit_to_pages(1, 1)

    def _write_legend(self, sheet: Worksheet, row: int) -> int:
        for column, text in ((1, self._words.legend), (2, ""), (3, ""), (4, "")):
            sheet.write_string(row, column, text, self._heading)
        used_marks = {column.mark for each in self._template.sheets for column in each.columns}
        for mark, says in self._words.marks.items():
            if mark in used_marks:
                row += 1
                sheet.write_string(row, 1, _join_mark(mark, says), self._labels[mark])
                sheet.merge_range(row, 2, row, 4, self._words.mark_help[mark], self._wrapped)
                sheet.set_row(row, 18)
        return row + 1

    def _write_contents(self, sheet: Worksheet, row: int) -> None:
        for column, text in enumerate(self._words.contents, 1):
            sheet.write_string(row, column, text, self._heading)
        for each in self._template.sheets:
            row += 1
            sheet.write_url(row, 1, f"internal:'{each.label}'!B{FIRST_ROW + 1}", string=each.label)
            sheet.write_number(row, 2, len(each.columns), self._count)
            sheet.write_number(row, 3, sum(column.mark == "mandatory" for column in each.columns), self._count)
            sheet.write_string(row, 4, each.source, self._wrapped)

    # A sheet to fill in -----------------------------------------------------------------------------------------

    def _write_sheet(self, plan: SheetPlan, first: SheetPlan | None) -> None:
        sheet = self._book.add_worksheet(plan.label)
        words = self._words
        keys = 2 if plan.fact_type == "Component" else 1
        sheet.freeze_panes(FIRST_ROW, FIRST_COLUMN + keys)
        sheet.set_column(0, 0, 2.5)
        for row in range(NAME_ROW):
            sheet.write_string(row, 0, "#", self._hash)
        sheet.write_string(TITLE_ROW, FIRST_COLUMN, plan.title, self._big)
        subtitle = f"{words.categories[self._template.category]} · {words.regulation}, {plan.source}"
        sheet.write_string(SOURCE_ROW, FIRST_COLUMN, subtitle, self._small)
        sheet.set_row(TITLE_ROW, 24)
        sheet.set_row(LABEL_ROW, 64)
        sheet.write_string(POINT_ROW, FIRST_COLUMN, words.data_point, self._point)
        for index, column in enumerate(plan.columns, FIRST_COLUMN):
            self._write_column(sheet, index, column)
        for number, product in enumerate(plan.rows, FIRST_ROW):
            self._write_row(sheet, number, product, plan.columns)
        if first is not None:
            _offer_products(sheet, first)
        _set_page(sheet)
        sheet.repeat_rows(POINT_ROW, NAME_ROW)

    def _write_column(self, sheet: Worksheet, index: int, column: TemplateColumn) -> None:
        width = 22 if len(column.label) > 40 or column.kind == TEXT else 20
        sheet.set_column(index, index, max(width, len(column.name) * 0.82), self._plain[_choose_number_format(column)])
        if column.points:
            sheet.write_string(POINT_ROW, index, ", ".join(map(str, column.points)), self._point)
        label = f"{column.label} [{column.unit}]" if column.unit else column.label
        sheet.write_string(LABEL_ROW, index, label, self._labels[column.mark])
        sheet.write_comment(
            LABEL_ROW,
            index,
            column.comment,
            {"author": "bpc", "width": 330, "height": 34 + 17 * _count_lines(column.comment), "font_size": 9},
        )
        sheet.write_string(
            MARK_ROW, index, _join_mark(column.mark, self._words.marks[column.mark]), self._marks[column.mark]
        )
        sheet.write_string(NAME_ROW, index, column.name, self._name)
        if column.choices:
            self._offer_choices(sheet, index, column)

    def _offer_choices(self, sheet: Worksheet, index: int, column: TemplateColumn) -> None:
        source: object = list(column.choices)
        if len(",".join(column.choices)) > MAX_LIST_CHARACTERS:
            letters = format_column_letters(len(self._lists))
            source = self._lists.setdefault(
                column.choices, f"='{LIST_SHEET}'!${letters}$1:${letters}${len(column.choices)}"
            )
        sheet.data_validation(
            FIRST_ROW,
            index,
            FIRST_ROW + MAX_FILLED_ROWS - 1,
            index,
            {"validate": "list", "source": source, "show_error": not column.is_open, "error_type": "warning"},
        )

    def _write_row(self, sheet: Worksheet, number: int, row: TemplateRow, columns: Sequence[TemplateColumn]) -> None:
        for index, column in enumerate(columns, FIRST_COLUMN):
            if column.name == "sku":
                sheet.write_string(number, index, row.sku, self._key)
            elif column.name in row.asked:
                sheet.write_blank(number, index, None, self._asked[_choose_number_format(column)])
            else:
                sheet.write_blank(number, index, None, self._known)

    def _write_lists(self) -> None:
        """The values of long drop-down lists, on a sheet that nobody needs to see."""
        if not self._lists:
            return
        sheet = self._book.add_worksheet(LIST_SHEET)
        sheet.hide()
        for index, choices in enumerate(self._lists):
            sheet.write_column(0, index, choices)


_NUMBER_FORMATS: Final = ("@", "yyyy-mm-dd", "General")


def _choose_number_format(column: TemplateColumn) -> str:
    """Text stays as it was typed, a date looks like a date."""
    if isinstance(column.kind, List) or column.kind == TEXT:
        return "@"
    return "yyyy-mm-dd" if column.kind == DATE else "General"


def _offer_products(sheet: Worksheet, first: SheetPlan) -> None:
    """A drop-down list of the article numbers that stand on the first sheet."""
    letters = format_column_letters(FIRST_COLUMN)
    source = f"='{first.label}'!${letters}${FIRST_ROW + 1}:${letters}${FIRST_ROW + MAX_FILLED_ROWS}"
    sheet.data_validation(
        FIRST_ROW,
        FIRST_COLUMN,
        FIRST_ROW + MAX_FILLED_ROWS - 1,
        FIRST_COLUMN,
        {"validate": "list", "source": source, "show_error": False},
    )


def _set_page(sheet: Worksheet) -> None:
    sheet.set_landscape()
    sheet.set_paper(9)
    sheet.set_margins(left=0.4, right=0.4, top=0.5, bottom=0.5)


def _join_mark(mark: Mark, says: str) -> str:
    return f"{MARK_SIGNS[mark]} {says}".strip()


def _count_lines(text: str) -> int:
    return sum(1 + len(line) // 52 for line in text.split("\n"))
