"""Labels: where they lie, what they say, and that a camera reads them from a printed page."""

import io
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader

from bpc.printing.labels.layout import LabelLayout, LabelRefused, find_text_room, read_label_size
from bpc.printing.labels.sheets import LabelText, print_label_pdf, print_label_svgs
from tests.printing.label_pictures import blur, measure_millimetres, photograph, read_codes

AT = datetime(2027, 2, 18, tzinfo=UTC)
ROLL = LabelLayout(paper="ROLL", width=50, height=25, module=0.5)


def make_labels(count: int) -> list[LabelText]:
    return [
        LabelText(
            code=f"https://id.example.com/01/09521234000013/21/A{number:05d}",
            serial=f"A{number:05d}",
            small_lines=("PACK-48", "batch 2027-03"),
        )
        for number in range(count)
    ]


def test_a_sheet_holds_as_many_labels_as_fit_and_the_last_page_the_rest() -> None:
    layout = LabelLayout()
    pages = list(layout.place_labels(50))

    assert (layout.columns, layout.rows) == (3, 8)
    assert [len(places) for places in pages] == [24, 24, 2]
    for x, y in pages[0]:
        assert x >= layout.margin - 1e-6
        assert x + layout.width <= 210 - layout.margin + 1e-6
        assert y >= layout.margin - 1e-6
        assert y + layout.height <= 297 - layout.margin + 1e-6
    across = sorted({x for x, _ in pages[0]})
    assert across[1] - across[0] == pytest.approx(layout.width + layout.gap)


def test_a_pdf_has_every_serial_number_in_ocr_b_and_the_same_bytes_each_time() -> None:
    labels = make_labels(30)
    document = print_label_pdf(labels, LabelLayout(), at=AT)
    pages = PdfReader(io.BytesIO(document)).pages

    assert print_label_pdf(labels, LabelLayout(), at=AT) == document
    assert len(pages) == 2
    text = "".join(page.extract_text() for page in pages)
    assert set(re.findall(r"A[0-9]{5}", text)) == {label.serial for label in labels}
    resources: Any = pages[0]["/Resources"]
    assert any("OCRB" in str(font.get_object()["/BaseFont"]) for font in resources["/Font"].values())
    assert [round(float(side) / 72 * 25.4) for side in pages[0].mediabox[2:]] == [210, 297]


@pytest.mark.parametrize(
    ("dots_per_inch", "turned", "blurred"),
    [
        (300, 0, False),
        (120, 0, False),
        (150, 0, True),
        (200, 7, False),
        (200, 45, False),
        (200, 90, True),
        (200, 181, True),
    ],
)
def test_a_camera_reads_the_code_at_any_size_turned_and_out_of_focus(
    tmp_path: Path, dots_per_inch: int, turned: float, blurred: bool
) -> None:
    [label] = make_labels(1)
    [page] = print_label_svgs([label], ROLL)

    rows = photograph(page, tmp_path, dots_per_inch=dots_per_inch, turned=turned)

    assert read_codes(blur(rows) if blurred else rows) == {label.code}


@pytest.mark.parametrize("level", ["L", "Q", "H"])
def test_the_code_is_read_at_every_level(tmp_path: Path, level: Any) -> None:
    [label] = make_labels(1)
    [page] = print_label_svgs([label], replace(ROLL, level=level))

    assert read_codes(photograph(page, tmp_path, dots_per_inch=150)) == {label.code}


@pytest.mark.long
def test_all_codes_of_a_sheet_are_read(tmp_path: Path) -> None:
    labels = make_labels(4)
    [page] = print_label_svgs(labels, LabelLayout(module=1, width=90, height=60, paper="LETTER"))

    assert read_codes(photograph(page, tmp_path, dots_per_inch=75)) == {label.code for label in labels}


def test_an_svg_is_as_large_as_the_label_and_needs_no_font_and_no_picture() -> None:
    [page] = print_label_svgs(make_labels(1), ROLL)

    assert measure_millimetres(page) == pytest.approx((50, 25))
    assert b"<image" not in page
    assert b"<text" not in page
    assert b"data:" not in page


def test_words_stand_beside_the_code_or_below_it() -> None:
    beside = find_text_room(LabelLayout(paper="ROLL", width=50, height=25), 20.5, "A00001", ["PACK-48"])
    below = find_text_room(LabelLayout(paper="ROLL", width=25, height=40), 20.5, "A00001", ["PACK-48"])

    assert (beside.x, below.y) == (20.5, 20.5)
    assert beside.line_chars == 10


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"module": 0.1}, "the module is 0.1 mm"),
        ({"module": float("nan")}, "the module is nan mm"),
        ({"width": 5}, "the width of a label is 5 mm"),
        ({"height": 300}, "does not fit on A4"),
        ({"margin": -1}, "the margin is -1 mm"),
        ({"gap": 99}, "the gap is 99 mm"),
    ],
)
def test_a_sheet_that_cannot_be_printed_is_refused(change: dict[str, float], says: str) -> None:
    with pytest.raises(LabelRefused, match=re.escape(says)):
        LabelLayout(**change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("label", "layout", "says", "fix"),
    [
        (
            make_labels(1)[0],
            LabelLayout(paper="ROLL", width=15, height=15),
            "a code of 18.5 x 18.5 mm does not fit",
            "at most 0.4 mm",
        ),
        (make_labels(1)[0], LabelLayout(paper="ROLL", width=21, height=21), "the words do not fit", "larger label"),
        (LabelText(code="/p/1", serial="A1"), LabelLayout(), "is no link", "base_url"),
        (LabelText(code="https://a.example/" + "x" * 1000, serial="A1"), LabelLayout(), "too long", ""),
    ],
)
def test_a_label_that_nobody_could_read_is_refused(label: LabelText, layout: LabelLayout, says: str, fix: str) -> None:
    with pytest.raises(LabelRefused, match=says) as refused:
        print_label_svgs([label], layout)

    assert fix in (refused.value.fix or "")


def test_no_label_and_too_many_are_refused() -> None:
    with pytest.raises(LabelRefused, match="no battery"):
        print_label_svgs([], LabelLayout())
    with pytest.raises(LabelRefused, match="too many"):
        print_label_svgs(make_labels(1) * 20_001, LabelLayout())


def test_a_serial_number_that_ocr_b_does_not_have_is_printed_all_the_same() -> None:
    label = LabelText(code="https://a.example/p/1", serial="Ω-Größe-\u202e7", small_lines=("Ä",))

    [text] = [page.extract_text() for page in PdfReader(io.BytesIO(print_label_pdf([label], ROLL, at=AT))).pages]

    assert "Ω-Größe" in text.replace("\n", "")


@pytest.mark.parametrize("text", ["", "63.5", "0x0x0", "-1x5", "63,5x33", "1e2x5", "٣x٤"])
def test_a_size_is_width_x_height(text: str) -> None:
    assert read_label_size("63.5x33") == (63.5, 33)
    with pytest.raises(LabelRefused, match="is not the size of a label"):
        read_label_size(text)
