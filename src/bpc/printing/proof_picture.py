"""A picture of the proof of one field: its value above, and below it every step down to the facts.

    Reason ─► draw_proof ─► the text of an SVG

What a step rests on is indented below it. Facts are green, the field is blue; the place in the rules is to the right.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bpc.core.passport.why import Reason
from bpc.printing.drawing import Drawing, measure_text, wrap_text

WIDTH: Final = 900.0
MARGIN: Final = 24.0
INDENT: Final = 26.0
TEXT_SIZE: Final = 15.0
PLACE_SIZE: Final = 13.0
LINE_HEIGHT: Final = 20.0
PADDING: Final = 9.0
GAP: Final = 8.0
HEAD: Final = 52.0
NARROWEST: Final = 240.0  # of a box: deeper steps are no longer indented
MAX_STEPS: Final = 400
FACT: Final = re.compile(r"\b(line|fact) \d+ of the (facts|input)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBox:
    """One step, and where it is drawn."""

    lines: list[str]
    place: str
    kind: str
    depth: int
    x: float
    y: float
    height: float


def draw_proof(reason: Reason, *, title: str) -> str:
    """Draw every step; of a proof with more than `MAX_STEPS`, the first ones, and say how many are left out."""
    steps = list(reason.iterate_lines())
    boxes = list(_place_boxes(steps[:MAX_STEPS]))
    left_out = len(steps) - len(boxes)
    height = boxes[-1].y + boxes[-1].height + MARGIN + (LINE_HEIGHT if left_out else 0)
    drawing = Drawing(WIDTH, height, title=title, description=f"{reason.says}: {len(steps)} steps")
    drawing.draw_text(MARGIN, 34, title, size=18, bold=True)
    _draw_legend(drawing)
    for at, box in enumerate(boxes):
        parent = next((other for other in reversed(boxes[:at]) if other.depth < box.depth), None)
        if parent is not None:
            _connect(drawing, parent, box)
    for box in boxes:
        _draw_box(drawing, box)
    if left_out:
        drawing.draw_text(MARGIN, height - MARGIN + 4, f"… and {left_out:,} more steps", fill="muted")
    return drawing.render()


def _place_boxes(steps: list[tuple[int, str, str | None]]) -> Iterator[StepBox]:
    y = HEAD
    for depth, says, place in steps:
        x = min(MARGIN + depth * INDENT, WIDTH - MARGIN - NARROWEST)
        place_width = measure_text(place, PLACE_SIZE, mono=True) + 16 if place else 0.0
        lines = wrap_text(says, TEXT_SIZE, WIDTH - MARGIN - x - 2 * PADDING - 8 - place_width)
        height = len(lines) * LINE_HEIGHT + 2 * PADDING - 4
        kind = "blue" if depth == 0 or says.startswith("field ") else "green" if FACT.search(says) else ""
        yield StepBox(lines=lines, place=place or "", kind=kind, depth=depth, x=x, y=y, height=height)
        y += height + GAP


def _connect(drawing: Drawing, parent: StepBox, box: StepBox) -> None:
    x, y = min(parent.x + 12, box.x - 6), box.y + box.height / 2
    drawing.draw_line([(x, parent.y + parent.height), (x, y), (box.x, y)])


def _draw_box(drawing: Drawing, box: StepBox) -> None:
    fill, stroke = (f"{box.kind}-panel", box.kind) if box.kind else ("panel", "line")
    drawing.draw_box(box.x, box.y, WIDTH - MARGIN - box.x, box.height, fill=fill, stroke=stroke, radius=6)
    for number, line in enumerate(box.lines):
        base = box.y + PADDING + 13 + number * LINE_HEIGHT
        drawing.draw_text(box.x + PADDING + 4, base, line, size=TEXT_SIZE, bold=box.depth == 0)
    if box.place:
        base = box.y + PADDING + 12
        right = WIDTH - MARGIN - PADDING
        drawing.draw_text(right, base, box.place, size=PLACE_SIZE, anchor="end", fill="muted", mono=True)


def _draw_legend(drawing: Drawing) -> None:
    x = WIDTH - MARGIN
    for text, fill in (("fact of a document", "green"), ("field of the passport", "blue")):
        x -= measure_text(text, PLACE_SIZE)
        drawing.draw_text(x, 33, text, size=PLACE_SIZE, fill="muted")
        drawing.draw_dot(x - 12, 28.5, 5, fill=fill)
        x -= 30
