"""A new last sheet of a workbook with a list of texts; its name begins with `#`, so that it is read as a comment."""

from collections.abc import Mapping, Sequence
from typing import Final

from bpc.core.documents.forms.xlsx_parts import (
    PartFile,
    add_content_type,
    add_relationship,
    escape_xml,
    find_main_part,
)
from bpc.core.documents.forms.xlsx_scan import (
    CONTENT_TYPES,
    LINKS,
    MAIN,
    NUMBER,
    STRICT_LINKS,
    STRICT_MAIN,
    PartEdit,
    PartScanner,
    apply_edits,
    get_prefix,
)
from bpc.core.documents.xlsx.sheet_rows import format_column_letters

LIST_SHEET: Final = "# bpc check"
MAX_CELL_LENGTH: Final = 32_000
COLUMN_WIDTHS: Final = (10, 14, 34, 18, 30, 12, 120)


class _WorkbookScanner(PartScanner):
    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.namespace = MAIN
        self.sheets_end = -1
        self.numbers: list[int] = [0]
        self.names: set[str] = set()

    def start_element(self, name: str, space: str, attributes: Mapping[str, str], at: int) -> None:  # noqa: ARG002
        if name == "workbook":
            self.namespace = space
        elif name == "sheet":
            number = attributes.get("sheetId", "")
            self.numbers.append(int(number) if NUMBER.fullmatch(number) else 0)
            self.names.add(attributes.get("name", ""))

    def end_element(self, name: str, at: int | None) -> None:
        if name == "sheets" and at is not None:
            self.sheets_end = at


def add_list_sheet(parts: dict[str, PartFile], rows: Sequence[Sequence[str]]) -> None:
    main = find_main_part(parts)
    if main not in parts:
        return
    content = parts[main].content
    scanner = _WorkbookScanner(content)
    scanner.scan()
    if scanner.sheets_end < 0:
        return
    links = STRICT_LINKS if scanner.namespace == STRICT_MAIN else LINKS
    names = (LIST_SHEET, *(f"{LIST_SHEET} {number}" for number in range(2, len(scanner.names) + 3)))
    label = next(name for name in names if name not in scanner.names)
    part = f"xl/worksheets/sheetBpc{max(scanner.numbers) + 1}.xml"
    parts[part] = PartFile(part, _build_list(rows, scanner.namespace))
    link = add_relationship(parts, main, f"{links}/worksheet", f"/{part}")
    add_content_type(parts, f"/{part}", f"{CONTENT_TYPES}.worksheet+xml")
    prefix = get_prefix(content[scanner.sheets_end :])
    element = (
        f'<{prefix}sheet xmlns:rel="{links}" name="{escape_xml(label)}" sheetId="{max(scanner.numbers) + 1}"'
        f' rel:id="{link}"/>'
    )
    edit = PartEdit(scanner.sheets_end, scanner.sheets_end, element.encode())
    parts[main].content = apply_edits(content, [edit])


def _build_list(rows: Sequence[Sequence[str]], namespace: str) -> bytes:
    columns = "".join(
        f'<col min="{number}" max="{number}" width="{width}" customWidth="1"/>'
        for number, width in enumerate(COLUMN_WIDTHS, 1)
    )
    lines = "".join(
        f'<row r="{number}">'
        + "".join(
            f'<c r="{format_column_letters(index)}{number}" t="inlineStr"><is><t xml:space="preserve">'
            f"{escape_xml(text[:MAX_CELL_LENGTH])}</t></is></c>"
            for index, text in enumerate(row)
        )
        + "</row>"
        for number, row in enumerate(rows, 1)
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n<worksheet xmlns="{namespace}">'
        f"<cols>{columns}</cols><sheetData>{lines}</sheetData></worksheet>"
    ).encode()
