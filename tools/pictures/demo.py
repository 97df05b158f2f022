"""Pictures of a recorded `bpc demo`: a cast of its terminal, the page of its passport, the proof of one of its fields.

    recordings/demo.txt   what it printed, without times and addresses, which differ from run to run
    recordings/demo.zip   the bundle it wrote; anybody can verify it

`make pictures RECORD=yes` records anew. A test compares the recording with what the demo prints today.
"""

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from bpc.core.exports.disclosure import disclose_opened, open_for_export
from bpc.core.exports.sheet import build_sheet
from bpc.core.passport.bundle import read_bundle
from bpc.core.passport.why_bundle import explain_bundle
from bpc.printing import print_pictures
from bpc.printing.catalogues import load_wording
from bpc.printing.drawing import MONO_WIDTH, Drawing
from bpc.printing.proof_picture import draw_proof

RECORDINGS: Final = Path(__file__).parent / "recordings"
PASSPORT_DPI: Final = 100
FIELD: Final = "carbon.gco2e_per_kwh"
TIME: Final = re.compile(r"  \(\d+ ms\)$")
OF_THIS_MACHINE: Final = re.compile(r"^    https?://")
SIZE: Final = 14.0
LINE_HEIGHT: Final = 20.0
COLUMNS: Final = 101
SECONDS_A_STEP: Final = 0.6


def clean_output(text: str) -> list[str]:
    """What a run of the demo printed, without what is another in the next."""
    steps = text.partition("\nDone in ")[0].rstrip()
    return [TIME.sub("", line) for line in steps.splitlines() if not OF_THIS_MACHINE.match(line)]


def record_demo(program: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="bpc-record-") as name:
        done = subprocess.run([program, "demo"], cwd=name, check=True, capture_output=True, text=True)
        RECORDINGS.mkdir(exist_ok=True)
        (RECORDINGS / "demo.txt").write_text("\n".join(clean_output(done.stdout)) + "\n")
        (RECORDINGS / "demo.zip").write_bytes((Path(name) / "bpc-demo" / "bundle.zip").read_bytes())


def draw_cast() -> str:
    """The terminal, its lines appearing step by step; all at once for readers who want no movement."""
    lines = ["$ make demo", *_shorten_lines((RECORDINGS / "demo.txt").read_text().splitlines())]
    height = 54 + len(lines) * LINE_HEIGHT
    drawing = Drawing(900, height, title="make demo, in a terminal", description="\n".join(lines))
    drawing.add_style(
        "@keyframes show{from{opacity:0}to{opacity:1}}.step{animation:show .25s backwards}"
        "@media (prefers-reduced-motion:reduce){.step{animation:none}}"
    )
    drawing.add('<rect x="1" y="1" width="898" height="34" rx="9" class="f-panel"/>')
    for at, fill in enumerate(("line", "line", "line")):
        drawing.draw_dot(22 + 20 * at, 18, 6, fill=fill)
    drawing.draw_text(450, 23, "make demo", size=13, anchor="middle", fill="muted")
    step = 0
    for number, line in enumerate(lines):
        step += line.startswith("✓")
        drawing.add(f'<g class="step" style="animation-delay:{step * SECONDS_A_STEP:.1f}s">')
        _draw_line(drawing, line, 56 + number * LINE_HEIGHT)
        drawing.add("</g>")
    return drawing.render()


def _shorten_lines(lines: list[str]) -> list[str]:
    return [line if len(line) <= COLUMNS else line[: COLUMNS - 1] + "…" for line in lines]


def _draw_line(drawing: Drawing, line: str, y: float) -> None:
    advance = SIZE * MONO_WIDTH
    if line.startswith("✓"):
        drawing.draw_text(20, y, "✓", size=SIZE, fill="green", bold=True, mono=True)
        drawing.draw_text(20 + 2 * advance, y, line[2:], size=SIZE, mono=True)
    elif line.startswith("    "):
        depth = len(line) - len(line.lstrip())
        fill = "amber" if "caught:" in line else "muted"
        drawing.draw_text(20 + depth * advance, y, line.lstrip(), size=SIZE, fill=fill, mono=True)
    elif line:
        drawing.draw_text(20, y, line, size=SIZE, bold=line.startswith("$"), mono=True)


def draw_field_proof() -> str:
    _, reason = explain_bundle((RECORDINGS / "demo.zip").read_bytes(), FIELD)
    return draw_proof(reason, title=f"How {FIELD} got its value")


def draw_passport() -> bytes:
    """The first page of the PDF that everybody may see."""
    opened = open_for_export(read_bundle((RECORDINGS / "demo.zip").read_bytes()))
    return print_pictures(
        build_sheet(disclose_opened(opened, "public"), load_wording("en")), dots_per_inch=PASSPORT_DPI
    )[0]
