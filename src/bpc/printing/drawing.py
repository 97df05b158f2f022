"""Drawings: boxes, lines and words in, the text of an SVG out, readable on light and on dark pages.

The same calls give the same bytes. Colours follow the reader's preference (prefers-color-scheme); the background is
part of the drawing, so it is readable wherever it is put. Words are measured by a table of widths that is a little too
wide for every usual font, so that nothing is cut off with any of them.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape, quoteattr

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
SANS: Final = "Inter, system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
MONO: Final = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
# Each colour on a light page and on a dark one.
COLOURS: Final = {
    "page": ("#ffffff", "#0d1117"),
    "panel": ("#f3f5f8", "#171d26"),
    "line": ("#c3ccd6", "#3b4552"),
    "text": ("#1f2328", "#e6edf3"),
    "muted": ("#57606a", "#9aa4b0"),
    "blue": ("#0b5cad", "#58a6ff"),
    "green": ("#1a7f37", "#3fb950"),
    "amber": ("#9a6700", "#d8a127"),
    "blue-panel": ("#e6f1fc", "#12253c"),
    "green-panel": ("#e7f6ea", "#112a1a"),
    "amber-panel": ("#fff4d6", "#33270c"),
}
_NARROW: Final = frozenset("iIjlt.,:;'|!()[]{}/ ")
_WIDE: Final = frozenset("mwMW@%—…")
# XML 1.0, 2.2: what no document may contain, not even escaped.
_NOT_XML: Final = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
MONO_WIDTH: Final = 0.61  # of the size


def measure_text(text: str, size: float, *, mono: bool = False) -> float:
    """How wide the text is at most."""
    if mono:
        return len(text) * MONO_WIDTH * size
    units = sum(0.36 if c in _NARROW else 0.98 if c in _WIDE else 0.74 if c.isupper() else 0.62 for c in text)
    return units * size


def wrap_text(text: str, size: float, width: float) -> list[str]:
    """Lines that fit into `width`; a word that is longer than a line is divided."""
    lines = [""]
    for word in text.split():
        candidate = f"{lines[-1]} {word}".strip()
        if measure_text(candidate, size) <= width:
            lines[-1] = candidate
            continue
        if lines[-1]:
            lines.append("")
        while measure_text(word, size) > width:
            fitting = _count_fitting(word, size, width)
            lines[-1], word = word[:fitting], word[fitting:]  # noqa: PLW2901 (the rest of it)
            lines.append("")
        lines[-1] = word
    return lines


def _count_fitting(word: str, size: float, width: float) -> int:
    """How many letters of the word fit into `width`; at least one, or it would never end."""
    return max(1, bisect_right(range(1, len(word)), width, key=lambda count: measure_text(word[:count], size)))


class Drawing:
    """What is drawn so far; later parts lie above earlier ones."""

    def __init__(self, width: float, height: float, *, title: str, description: str) -> None:
        self.width = width
        self.height = height
        self.title = title
        self.description = description
        self._parts: list[str] = []
        self._extra_style = ""

    def add_style(self, css: str) -> None:
        self._extra_style += css

    def add(self, part: str) -> None:
        """A part that is SVG already."""
        self._parts.append(part)

    def draw_box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        fill: str = "panel",
        stroke: str = "line",
        radius: float = 8,
    ) -> None:
        place = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" rx="{_n(radius)}"'
        self.add(f'<rect {place} class="f-{fill} s-{stroke}" stroke-width="1.5"/>')

    def draw_text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 15,
        anchor: str = "start",
        fill: str = "text",
        bold: bool = False,
        mono: bool = False,
    ) -> None:
        """`y` is the base line."""
        look = f'font-size="{_n(size)}" class="f-{fill}{" mono" if mono else ""}"'
        look += "" if anchor == "start" else f' text-anchor="{anchor}"'
        look += ' font-weight="600"' if bold else ""
        self.add(f'<text x="{_n(x)}" y="{_n(y)}" {look}>{_escape(text)}</text>')

    def draw_line(
        self, points: Sequence[tuple[float, float]], *, stroke: str = "line", arrow: bool = False, dashed: bool = False
    ) -> None:
        path = "M" + " L".join(f"{_n(x)} {_n(y)}" for x, y in points)
        look = f'fill="none" class="s-{stroke}" stroke-width="2"'
        look += ' stroke-dasharray="5 5"' if dashed else ""
        look += ' marker-end="url(#arrow)"' if arrow else ""
        self.add(f'<path d="{path}" {look}/>')

    def draw_dot(self, x: float, y: float, radius: float, *, fill: str) -> None:
        self.add(f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}" class="f-{fill}"/>')

    def render(self) -> str:
        light, dark = (
            "".join(f".f-{name}{{fill:{pair[at]}}}.s-{name}{{stroke:{pair[at]}}}" for name, pair in COLOURS.items())
            for at in (0, 1)
        )
        style = (
            f"{light}@media (prefers-color-scheme:dark){{{dark}}}"
            f"text{{font-family:{SANS}}}.mono{{font-family:{MONO}}}{self._extra_style}"
        )
        label = quoteattr(_NOT_XML.sub(REPLACEMENT, self.title))
        marker = (
            '<marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            'orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 z" class="f-muted"/></marker>'
        )
        size = f'viewBox="0 0 {_n(self.width)} {_n(self.height)}" width="{_n(self.width)}" height="{_n(self.height)}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={label}>',
                f"<title>{_escape(self.title)}</title><desc>{_escape(self.description)}</desc>",
                f"<style>{style}</style>",
                f"<defs>{marker}</defs>",
                f'<rect width="{_n(self.width)}" height="{_n(self.height)}" rx="10" class="f-page"/>',
                *self._parts,
                "</svg>\n",
            ]
        )


def _escape(text: str) -> str:
    return escape(_NOT_XML.sub(REPLACEMENT, text))


def _n(value: float) -> str:
    """A number as short as it can be, the same on every machine."""
    return f"{value:.1f}".removesuffix(".0")
