"""A sheet of labels, as `bpc batteries labels` prints it."""

import tempfile
from pathlib import Path
from typing import Final

import typst

from bpc.printing.labels.layout import LabelLayout
from bpc.printing.labels.sheets import LabelText, print_label_svgs

DPI: Final = 110
LAYOUT: Final = LabelLayout(paper="ROLL", width=62, height=26)
PICTURE: Final = """
#set page(width: auto, height: auto, margin: 3mm)
#grid(columns: 2, gutter: 3mm, ..range(1, 5).map(n => box(stroke: 0.3pt + gray, image(str(n) + ".svg"))))
"""


def draw_label_sheet() -> bytes:
    labels = [
        LabelText(
            code=f"https://id.example.com/01/09521234000013/21/{serial}",
            serial=serial,
            small_lines=("PACK-48", "batch 2027-03"),
        )
        for serial in ("P48-000412", "P48-000413", "P48-000414", "P48-000415")
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, page in enumerate(print_label_svgs(labels, LAYOUT), start=1):
            (folder / f"{number}.svg").write_bytes(page)
        (folder / "sheet.typ").write_text(PICTURE)
        picture = typst.compile(folder / "sheet.typ", format="png", ppi=DPI)
    if not isinstance(picture, bytes):
        raise TypeError("the typesetter returned no picture")
    return picture
