"""The styles of a workbook, and coloured copies of them: a marked cell keeps its font, borders and number format."""

import re
from collections.abc import Mapping
from typing import Final

from bpc.core.documents.forms.xlsx_parts import PartFile, find_main_part, find_relationship
from bpc.core.documents.forms.xlsx_scan import TAG_NAME, PartEdit, PartScanner, apply_edits, find_tag_end, get_prefix
from bpc.core.facts.findings import Severity

_FILLS: Final[Mapping[Severity, str]] = {"error": "FFFFC7CE", "warning": "FFFFEB9C", "note": "FFDDEBF7"}
_COUNT_ATTRIBUTE: Final = re.compile(rb"""(\scount\s*=\s*)(["'])[0-9]+\2""")
_FILL_ATTRIBUTES: Final = re.compile(rb"""\s(?:fillId|applyFill)\s*=\s*(["'])[^"']*\1""")


class _StyleScanner(PartScanner):
    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.fills: list[int] = [-1, -1, 0]  # offsets of both tags, and how many there are
        self.formats: list[int] = [-1, -1]
        self.format_spans: list[tuple[int, int]] = []
        self._inside = ""
        self._start = -1

    def start_element(self, name: str, space: str, attributes: Mapping[str, str], at: int) -> None:  # noqa: ARG002
        if name == "fills":
            self.fills[0] = at
        elif name == "fill" and self._inside == "":
            self.fills[2] += self.fills[0] >= 0 and self.fills[1] < 0
        elif name == "cellXfs":
            self.formats[0] = at
            self._inside = name
        elif name == "xf" and self._inside:
            self._start = at

    def end_element(self, name: str, at: int | None) -> None:
        if name == "fills" and at is not None:
            self.fills[1] = at
        elif name == "cellXfs" and at is not None:
            self.formats[1] = at
            self._inside = ""
        elif name == "xf" and self._inside:
            self.format_spans.append((self._start, find_tag_end(self.content, self._start if at is None else at)))


class StyleSheet:
    """The styles of a workbook; coloured copies of them are added as they are asked for."""

    def __init__(self, part: str, content: bytes, scanner: _StyleScanner | None) -> None:
        self._part, self._content, self._scanner = part, content, scanner
        self._added: dict[tuple[int, Severity], int] = {}

    @classmethod
    def from_parts(cls, parts: Mapping[str, PartFile]) -> "StyleSheet":
        part = find_relationship(parts, find_main_part(parts), "styles") or ""
        if part not in parts:
            return cls("", b"", None)
        scanner = _StyleScanner(parts[part].content)
        scanner.scan()
        usable = min(scanner.fills[:2]) >= 0 and min(scanner.formats) >= 0 and bool(scanner.format_spans)
        return cls(part, parts[part].content, scanner if usable else None)

    def colour_style(self, style: int, severity: Severity) -> int | None:
        """The number of the style `style` with the colour of a severity; None if the workbook has no styles."""
        if self._scanner is None:
            return None
        style = style if style < len(self._scanner.format_spans) else 0
        return self._added.setdefault((style, severity), len(self._scanner.format_spans) + len(self._added))

    def write(self, parts: dict[str, PartFile]) -> None:
        scanner = self._scanner
        if scanner is None or not self._added:
            return
        prefix = get_prefix(self._content[scanner.fills[0] :])
        fills = "".join(
            f'<{prefix}fill><{prefix}patternFill patternType="solid"><{prefix}fgColor rgb="{colour}"/>'
            f'<{prefix}bgColor indexed="64"/></{prefix}patternFill></{prefix}fill>'
            for colour in _FILLS.values()
        )
        formats = b"".join(
            self._copy_format(style, scanner.fills[2] + list(_FILLS).index(severity)) for style, severity in self._added
        )
        edits = [
            self._set_count(scanner.fills[0], scanner.fills[2] + len(_FILLS)),
            self._set_count(scanner.formats[0], len(scanner.format_spans) + len(self._added)),
            PartEdit(scanner.fills[1], scanner.fills[1], fills.encode()),
            PartEdit(scanner.formats[1], scanner.formats[1], formats),
        ]
        parts[self._part].content = apply_edits(self._content, edits)

    def _copy_format(self, style: int, fill: int) -> bytes:
        start, end = (self._scanner.format_spans if self._scanner else [(0, 0)])[style]
        xml = self._content[start:end]
        tag_end = find_tag_end(xml, 0)
        tag = _FILL_ATTRIBUTES.sub(b"", xml[:tag_end])
        name_end = TAG_NAME.match(tag)
        at = name_end.end() if name_end else 3
        return tag[:at] + f' fillId="{fill}" applyFill="1"'.encode() + tag[at:] + xml[tag_end:]

    def _set_count(self, start: int, count: int) -> PartEdit:
        end = find_tag_end(self._content, start)
        tag = _COUNT_ATTRIBUTE.sub(rb"\g<1>\g<2>%d\g<2>" % count, self._content[start:end])
        return PartEdit(start, end, tag)
