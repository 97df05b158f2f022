"""The pictures of the documentation are what would be made now, can be read, and are shown somewhere."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bpc.core.passport.bundle import read_bundle
from bpc.core.passport.why import Reason
from bpc.core.verify.bundle import verify_bundle
from bpc.printing.drawing import Drawing, measure_text, wrap_text
from bpc.printing.proof_picture import MAX_STEPS, draw_proof
from tools.pictures import demo, diagrams, plots
from tools.pictures.__main__ import FOLDER, PICTURES, find_differences, make_picture

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"
DRAWINGS = sorted(name for name in PICTURES if name.endswith(".svg"))
STEP_MODULES = {"upload", "facts", "snapshot", "compile", "sign", "qr", "activate", "replay"}


def test_every_picture_is_what_is_made_now() -> None:
    assert find_differences() == []


def test_every_picture_is_shown_on_a_page() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = {name for page in pages for name in re.findall(r"pictures/([\w.-]+\.(?:svg|png))", page.read_text())}

    assert shown == set(PICTURES)


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_has_a_title_colours_for_dark_pages_and_no_word_outside(name: str) -> None:
    drawing = ET.fromstring((FOLDER / name).read_text())
    width, height = float(drawing.attrib["width"]), float(drawing.attrib["height"])

    assert drawing.findtext(f"{SVG}title")
    assert "prefers-color-scheme:dark" in (drawing.findtext(f"{SVG}style") or "")
    assert "http" not in (drawing.findtext(f"{SVG}style") or "")  # nothing is fetched
    for text in drawing.iter(f"{SVG}text"):
        x, y, size = (float(text.attrib[name]) for name in ("x", "y", "font-size"))
        room = measure_text(text.text or "", size, mono="mono" in text.attrib["class"])
        left = x - {"start": 0.0, "middle": room / 2, "end": room}[text.attrib.get("text-anchor", "start")]
        assert size >= 13, text.text
        assert left >= 0, text.text
        assert left + room <= width, text.text
        assert size < y < height, text.text


def test_diagrams_show_the_steps_and_layers_that_there_are() -> None:
    modules = {path.stem for path in (ROOT / "src" / "bpc" / "pipeline").glob("*.py")}

    assert set(diagrams.STEPS) == STEP_MODULES <= modules
    assert {name for layer in diagrams.list_layers() for name in layer} == set(diagrams.LAYERS)


def test_plots_show_what_the_tables_say() -> None:
    bars = {bar.label: bar.figure for bar in plots.list_queue_bars("drain, 1 worker (/s)")}
    table = (ROOT / "docs" / "measurements" / "jobs.md").read_text()

    assert f"| bpc | {bars['service-jobs (ours)']:,.0f} (" in table
    assert len(bars) >= 8
    assert all(
        bar.text in make_picture("throughput.svg").decode() for bar in plots.list_queue_bars("single enqueue (/s)")
    )


def test_the_recorded_passport_is_genuine_and_of_the_demo_of_today() -> None:
    data = (demo.RECORDINGS / "demo.zip").read_bytes()

    assert verify_bundle(data).ok
    rules = ROOT / "src" / "bpc" / "cli" / "run" / "demo_battery" / "rules.bpc"
    assert read_bundle(data)["rules.bpc"] == rules.read_bytes()


def test_long_words_and_long_proofs_stay_inside() -> None:
    deep = Reason("the end", None)
    for number in range(MAX_STEPS + 50):
        deep = Reason(f"step {number} " + "x" * 300, "rules.bpc:1:1", (deep,))

    drawing = ET.fromstring(draw_proof(deep, title="<&\x00"))

    assert any("51 more steps" in (text.text or "") for text in drawing.iter(f"{SVG}text"))
    assert drawing.findtext(f"{SVG}title") == "<&\N{REPLACEMENT CHARACTER}"
    assert all(measure_text(line, 15, mono=False) <= 200 for line in wrap_text("y" * 200 + " and more", 15, 200))
    assert Drawing(10, 10, title="a", description="b").render() == Drawing(10, 10, title="a", description="b").render()
