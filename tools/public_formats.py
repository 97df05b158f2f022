"""Rewrite the tables of docs/formats/public-documents.md from the tables the documents are read by.

    python tools/public_formats.py

The words of the page are written by hand; what stands between `<!-- table: … -->` and `<!-- end -->` is made here.
"""

import re
from itertools import groupby
from pathlib import Path

from bpc.core.documents.public import (
    Format,
    aspects,
    battery_pass,
    catena_pcf,
    component_pcf,
    events,
    product_passport,
    ready_passport,
    specified_bom,
)

PAGE = Path(__file__).parents[1] / "docs" / "formats" / "public-documents.md"
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

FORMATS: dict[str, Format] = {
    "battery_pass": battery_pass.FORMAT,
    "catena_pcf_9": catena_pcf.NESTED,
    "catena_pcf_7": catena_pcf.FLAT,
    "component_pcf": component_pcf.FORMAT,
    "specified_bom": specified_bom.FORMAT,
    "product_passport": product_passport.FORMAT,
    "ready_passport": ready_passport.FORMAT,
    "aspects": aspects.FORMAT,
    "events": events.FORMAT,
}


def table(found: Format) -> str:
    """The members a format gives, each with where it comes from."""
    lines = ["| fact | member | from |", "|---|---|---|"]
    for fact_type, rows in found.tables:
        for member, same in groupby(rows, key=lambda row: row.member):
            sources = ", else ".join(dict.fromkeys(f"`{row.source or '.'}`" for row in same))
            lines.append(f"| {fact_type} | `{member}` | {sources} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with its tables as they are now."""
    return BLOCK.sub(lambda block: f"{block[1]}{table(FORMATS[block[2]])}\n{block[3]}", text)


def readings() -> str:
    """What a sensor may report, as the page's table of readings has it."""
    rows = [f"| `{name}` | `{reading.member}` |" for name, reading in events.READINGS.items()]
    return "\n".join(["| `type` | member |", "|---|---|", *rows, "| `Temperature` | `temperature_records` |"])


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
