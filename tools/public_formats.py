"""Rewrite the tables of docs/formats/public-documents.md from the tables the documents are read by.

    python tools/public_formats.py

The words of the page are written by hand; what stands between `<!-- table: … -->` and `<!-- end -->` is made here.
"""

import re
from itertools import groupby
from pathlib import Path

from bpc.core.documents.public import (
    battery_pass_aspects,
    catena_certificate,
    catena_chemical_passport,
    catena_passport,
    catena_pcf_and_bom,
    catena_single_level_bom,
    epcis_events,
    gefeg_passport,
    openepcis_passport,
    pact_footprint,
)
from bpc.core.documents.public.mapping import PublicFormat

PAGE = Path(__file__).parents[1] / "docs" / "formats" / "public-documents.md"
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

FORMATS: dict[str, PublicFormat] = {
    "battery_pass": catena_passport.FORMAT,
    "catena_pcf_9": catena_pcf_and_bom.PCF_9,
    "catena_pcf_7": catena_pcf_and_bom.PCF_7,
    "pact_footprint": pact_footprint.FORMAT,
    "component_pcf": catena_pcf_and_bom.COMPONENT_PCF,
    "specified_bom": catena_pcf_and_bom.BOM_AS_SPECIFIED,
    "single_level_bom": catena_single_level_bom.FORMAT,
    "certificate": catena_certificate.FORMAT,
    "chemical_passport": catena_chemical_passport.FORMAT,
    "product_passport": openepcis_passport.FORMAT,
    "ready_passport": gefeg_passport.FORMAT,
    "aspects": battery_pass_aspects.FORMAT,
    "events": epcis_events.FORMAT,
}


def format_table(public_format: PublicFormat) -> str:
    """The members a format gives, each with where it comes from."""
    lines = ["| fact | member | from |", "|---|---|---|"]
    for fact_type, rows in public_format.tables:
        for member, same in groupby(rows, key=lambda row: row.member):
            sources = ", else ".join(dict.fromkeys(f"`{row.source or '.'}`" for row in same))
            lines.append(f"| {fact_type} | `{member}` | {sources} |")
    return "\n".join(lines)


def rewrite_page(text: str) -> str:
    """The page with its tables as they are now."""
    return BLOCK.sub(lambda block: f"{block[1]}{format_table(FORMATS[block[2]])}\n{block[3]}", text)


def format_sensor_members() -> str:
    """What a sensor may report, as the page's table of readings has it."""
    rows = [f"| `{name}` | `{sensor_member.member}` |" for name, sensor_member in epcis_events.SENSOR_MEMBERS.items()]
    return "\n".join(["| `type` | member |", "|---|---|", *rows, "| `Temperature` | `temperature_records` |"])


if __name__ == "__main__":
    PAGE.write_text(rewrite_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
