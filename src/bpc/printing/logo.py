"""Draw a logo anew: a picture from a stranger in, a small PNG of our own out.

The typesetter decodes the picture and draws its pixels, so nothing else of the file is left: no metadata, no profile,
no second picture. It runs in a child process with limits, because decoders are what strangers attack.
"""

import tempfile
from pathlib import Path
from typing import Final

import typst

from bpc.core.branding import BrandingRefused, measure_picture

# In points, each of three pixels, for displays with small ones.
HEIGHT: Final = 36
MAX_WIDTH: Final = 180
PIXELS_PER_POINT: Final = 3
POINTS_PER_INCH: Final = 72
MAX_DRAWN_BYTES: Final = 250_000
TEMPLATE: Final = """#set page(width: {width}pt, height: {height}pt, margin: 0pt, fill: none)
#image("/picture", format: "{format}", width: 100%, height: 100%, fit: "contain")
"""


def draw_logo(content: bytes) -> bytes:
    """The picture as a PNG of at most 540 by 108 pixels. Raises `BrandingRefused` if it is not one."""
    size = measure_picture(content)
    scale = min(HEIGHT / size.height, MAX_WIDTH / size.width)
    width, height = max(1, round(size.width * scale)), max(1, round(size.height * scale))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "picture").write_bytes(content)
        (folder / "logo.typ").write_text(TEMPLATE.format(width=width, height=height, format=size.format))
        try:
            png = typst.compile(
                folder / "logo.typ", root=folder, format="png", ppi=float(POINTS_PER_INCH * PIXELS_PER_POINT)
            )
        except (typst.TypstError, RuntimeError, ValueError):
            raise BrandingRefused("the logo cannot be decoded", fix="save it again as PNG, JPEG or WebP") from None
    if not isinstance(png, bytes):
        raise TypeError("the typesetter returned no picture")
    if len(png) > MAX_DRAWN_BYTES:
        raise BrandingRefused("the logo has too many colours to be small", fix="use a picture with plain areas")
    return png
