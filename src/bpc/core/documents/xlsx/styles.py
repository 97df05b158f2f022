"""What the cells of a workbook refer to: texts that are stored once, and styles with a number format or a font."""

import re
from collections.abc import Mapping
from typing import Final

from bpc.core.documents.xlsx.number_formats import BUILT_IN_FORMATS, NumberFormat, parse_number_format
from bpc.core.documents.xlsx.package import WorkbookUnreadable, XmlReader

MAX_TEXTS: Final = 300_000
MAX_STYLES: Final = 65_536

_ESCAPE: Final = re.compile("_x([0-9A-Fa-f]{4})_")


def unescape_text(text: str) -> str:
    """Replace the escapes of a stored text: `_x000A_` is a line break."""
    if "_x" not in text:
        return text
    plain_text = _ESCAPE.sub(lambda code: chr(int(code[1], 16)), text)
    return plain_text.replace("\r\n", "\n")


class RichText:
    """What a part of a text looks like: struck through, raised, or only how the text is pronounced (`rPh`).

    Digits that are raised are a footnote mark or an exponent: 75 with a raised 1 is not 751.
    """

    element_names = frozenset({"r", "rPh", "strike", "vertAlign"})

    def __init__(self) -> None:
        self.is_struck = False
        self.in_phonetic = False
        self._is_raised = False

    def start_element(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "r":
            self._is_raised = False
        elif name == "rPh":
            self.in_phonetic = True
        elif name == "strike":
            self.is_struck |= attributes.get("val", "1") in {"1", "true"}
        elif name == "vertAlign":
            self._is_raised = attributes.get("val") == "superscript"

    def end_element(self, name: str) -> None:
        if name == "rPh":
            self.in_phonetic = False

    def show(self, text: str) -> str:
        return text.translate(_RAISED_DIGITS) if self._is_raised else text


_RAISED_DIGITS: Final = str.maketrans("0123456789", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")


class SharedStrings(XmlReader):
    """The texts that cells refer to by number; `struck` are those of which a part is struck through."""

    element_names = frozenset({"si", "t", *RichText.element_names})

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.struck: set[int] = set()
        self._rich_text = RichText()
        self._parts: list[str] = []
        self._in_text = False

    def start_element(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "si":
            if len(self.texts) == MAX_TEXTS:
                raise WorkbookUnreadable(f"has more than {MAX_TEXTS:,} texts; split the document")
            self._parts = []
            self._rich_text = RichText()
        elif name == "t":
            self._in_text = not self._rich_text.in_phonetic
        else:
            self._rich_text.start_element(name, attributes)

    def end_element(self, name: str) -> None:
        if name == "si":
            if self._rich_text.is_struck:
                self.struck.add(len(self.texts))
            self.texts.append(unescape_text("".join(self._parts)))
        elif name == "t":
            self._in_text = False
        else:
            self._rich_text.end_element(name)

    def add_text(self, text: str) -> None:
        if self._in_text:
            self._parts.append(self._rich_text.show(text))


class CellStyles(XmlReader):
    """The number formats of styles that may show something else than the number, and the styles that strike through.

    Both by the number of the style, as cells write it.
    """

    element_names = frozenset({"numFmt", "fonts", "font", "strike", "cellXfs", "xf"})

    def __init__(self) -> None:
        self.formats: dict[str, NumberFormat] = {}
        self.struck_styles: set[str] = set()
        self._struck_fonts: set[str] = set()
        self._fonts = 0
        self._in_fonts = False
        self._count = 0
        self._codes: dict[str, str] = {}
        self._in_cell_formats = False

    def start_element(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "numFmt":
            self._codes[attributes.get("numFmtId", "")] = attributes.get("formatCode", "")
        elif name == "fonts":
            self._in_fonts = True
        elif name == "font":
            self._fonts += self._in_fonts
        elif name == "strike":
            if self._in_fonts and attributes.get("val", "1") in {"1", "true"}:
                self._struck_fonts.add(str(self._fonts - 1))
        elif name == "cellXfs":
            self._in_cell_formats = True
        elif self._in_cell_formats:
            if self._count == MAX_STYLES:
                raise WorkbookUnreadable(f"has more than {MAX_STYLES:,} styles, which no workbook has")
            number = attributes.get("numFmtId", "0")
            number_format = parse_number_format(self._codes.get(number, BUILT_IN_FORMATS.get(number, "")))
            if number_format is not None:
                self.formats[str(self._count)] = number_format
            if attributes.get("fontId") in self._struck_fonts:
                self.struck_styles.add(str(self._count))
            self._count += 1

    def end_element(self, name: str) -> None:
        if name == "cellXfs":
            self._in_cell_formats = False
        elif name == "fonts":
            self._in_fonts = False
