"""How labels lie on paper: sizes, places, and what fits on one label. Every measure is in millimetres.

paper ─┬─ margin
       └─ columns × rows of labels, with a gap between them
label ─┬─ the code, with the four light modules around it that ISO/IEC 18004 asks for
       └─ the words beside the code or, where there is more room, below it
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from bpc.core.errors import Invalid
from bpc.core.passport.qr import CorrectionLevel

Paper = Literal["A4", "LETTER", "ROLL"]
PAPERS: Final[tuple[Paper, ...]] = get_args(Paper)
# Of a roll each label is a page of its own.
PAPER_SIZES: Final[dict[Paper, tuple[float, float]]] = {"A4": (210.0, 297.0), "LETTER": (215.9, 279.4)}

MIN_MODULE: Final = 0.25  # smaller ones are lost in printing, or by the camera of a phone
MAX_MODULE: Final = 2.0
MIN_SIDE, MAX_SIDE = 10.0, 400.0
MAX_SPACE: Final = 50.0

PADDING: Final = 1.5
LINE_HEIGHT: Final = 4.4
SMALL_LINE_HEIGHT: Final = 3.0
CHARACTER_WIDTH: Final = 2.55  # of OCR-B at 10 points, ten to the inch; every character is as wide as every other
SMALL_CHARACTER_WIDTH: Final = 1.6  # of the small lines; few characters are wider
MIN_LINE_CHARS: Final = 6

_SIZE: Final = re.compile(r"([0-9]{1,3}(?:[.][0-9]{1,2})?)x([0-9]{1,3}(?:[.][0-9]{1,2})?)")


class LabelRefused(Invalid):
    """A label or a sheet that cannot be printed so that it is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelLayout:
    """How labels are to be printed."""

    paper: Paper = "A4"
    width: float = 62.0
    height: float = 33.0
    module: float = 0.5
    level: CorrectionLevel = "M"
    margin: float = 7.0
    gap: float = 2.0

    def __post_init__(self) -> None:
        _require_between("the module", self.module, MIN_MODULE, MAX_MODULE)
        _require_between("the width of a label", self.width, MIN_SIDE, MAX_SIDE)
        _require_between("the height of a label", self.height, MIN_SIDE, MAX_SIDE)
        _require_between("the margin", self.margin, 0, MAX_SPACE)
        _require_between("the gap", self.gap, 0, MAX_SPACE)
        if self.columns < 1 or self.rows < 1:
            raise LabelRefused(
                f"a label of {self.width:g} x {self.height:g} mm does not fit on {self.paper} "
                f"with a margin of {self.margin:g} mm",
                fix="choose a smaller label or a smaller margin, or print on a roll",
            )

    @property
    def page_size(self) -> tuple[float, float]:
        return PAPER_SIZES.get(self.paper, (self.width, self.height))

    @property
    def columns(self) -> int:
        return 1 if self.paper == "ROLL" else self._count(self.page_size[0], self.width)

    @property
    def rows(self) -> int:
        return 1 if self.paper == "ROLL" else self._count(self.page_size[1], self.height)

    def place_labels(self, count: int) -> Iterator[list[tuple[float, float]]]:
        """Where the labels of each page have their upper left corner; in the middle of the paper, row by row."""
        page_width, page_height = self.page_size
        left = (page_width - self.columns * (self.width + self.gap) + self.gap) / 2
        top = (page_height - self.rows * (self.height + self.gap) + self.gap) / 2
        places = [
            (left + column * (self.width + self.gap), top + row * (self.height + self.gap))
            for row in range(self.rows)
            for column in range(self.columns)
        ]
        for first in range(0, count, len(places)):
            yield places[: count - first]

    def _count(self, room: float, side: float) -> int:
        return int((room - 2 * self.margin + self.gap + 1e-6) // (side + self.gap))


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRoom:
    """Where the words of a label are, from its upper left corner, and how many characters a line of them takes."""

    x: float
    y: float
    line_chars: int


def find_text_room(layout: LabelLayout, code_side: float, serial: str, small_lines: Sequence[str]) -> TextRoom:
    """The room for the words: beside the code if a line is long enough there, otherwise below it."""
    if code_side > min(layout.width, layout.height):
        module = _shrink_module(layout, code_side)
        or_smaller = f", or modules of at most {module:g} mm" if module >= MIN_MODULE else ""
        raise LabelRefused(
            f"a code of {code_side:g} x {code_side:g} mm does not fit on a label of "
            f"{layout.width:g} x {layout.height:g} mm",
            fix=f"choose a larger label{or_smaller}",
            details={"serial_number": serial},
        )
    beside = TextRoom(x=code_side, y=PADDING, line_chars=int((layout.width - code_side - PADDING) / CHARACTER_WIDTH))
    below = TextRoom(x=PADDING, y=code_side, line_chars=int((layout.width - 2 * PADDING) / CHARACTER_WIDTH))
    for room in (beside, below):
        if room.line_chars < MIN_LINE_CHARS:
            continue
        lines = -(-len(serial) // room.line_chars)
        if room.y + lines * LINE_HEIGHT + len(small_lines) * SMALL_LINE_HEIGHT <= layout.height:
            return room
    raise LabelRefused(
        f"the words do not fit beside or below the code of {code_side:g} mm on a label of "
        f"{layout.width:g} x {layout.height:g} mm",
        fix="choose a larger label or a smaller module",
        details={"serial_number": serial},
    )


def read_label_size(text: str) -> tuple[float, float]:
    """Width and height from a text like `62x33`."""
    parts = _SIZE.fullmatch(text)
    if parts is None:
        raise LabelRefused(f"`{text[:40]}` is not the size of a label", fix="write width x height, like 62x33")
    return float(parts[1]), float(parts[2])


def _shrink_module(layout: LabelLayout, code_side: float) -> float:
    """The largest module, in hundredths of a millimetre, of which the code fits on the label."""
    return int(min(layout.width, layout.height) / code_side * layout.module * 100) / 100


def _require_between(what: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:  # also not a number
        raise LabelRefused(f"{what} is {value:g} mm", fix=f"choose between {least:g} and {most:g} mm")
