"""A page that has all that a page may have, also with words that are half as long again."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bpc.core.catalogue.product_texts import list_product_texts
from bpc.core.catalogue.wording import Wording, build_catalogue
from bpc.core.exports.disclosure import disclose_opened, open_for_export
from bpc.core.exports.field_origins import trace_origins
from bpc.core.exports.field_sources import FieldSources
from bpc.core.exports.page_completeness import count_filled_points
from bpc.core.exports.page_state import BatteryOnPage, OwnVersion, PageState, VersionLine
from bpc.core.exports.public_page import build_page
from bpc.printing.web_page import PAGE_LANGUAGES, PageLinks, render_passport
from tests.core.exports.example_bundles import compile_bundle
from tests.core.sample_passports import make_fact

HOST = "passports.example"
ADDRESS = f"https://{HOST}/p/1"
# What is seldom on one page: a state of health, a change since the version before, values of each origin.
EVERYTHING = """language 2;
def battery = requireSome(Battery for productSku(), "NO_BATTERY", "no battery");
field state.health_pct @public: Dec(2) = 91.50 about "State of health" unit "%";
field state.health_history @public: List(Record(on: Date, share_pct: Dec(2))) =
  [{on: date("2027-01-01"), share_pct: 100.00}, {on: date("2029-01-01"), share_pct: 91.50}] about "History";
field battery.mass_kg @public: Opt(Dec(6)) = battery.mass_kg about DP10 "Mass" unit "kg";
field battery.chemistry @public: Opt(Text) = battery.chemistry about DP12 "Chemistry";
field battery.category @public: Opt(Text) = battery.category about DP6 "Category";
"""


def render_everything(wording: Wording) -> bytes:
    """A page with all that a page may have."""
    opened_bundles = []
    for mass in ("410", "412.5"):
        battery = make_fact("Battery", "battery:SKU-1", mass_kg=mass, chemistry="NMC", category="ev")
        opened_bundles.append(open_for_export(compile_bundle(EVERYTHING, battery)))
    before, passport = (disclose_opened(opened_bundle, "public") for opened_bundle in opened_bundles)
    sources = FieldSources(opened_bundles[1])
    own = OwnVersion(passport_version_id="0" * 8, receipt_hash="0" * 64, is_newest=True)
    state = PageState(
        state="in_force",
        issuer="Issuer",
        host=HOST,
        address=ADDRESS,
        versions=[
            VersionLine(passport_version_id="1", state="in_force", day="2027-05-01", href="#", start="2027-05-01"),
            VersionLine(passport_version_id="2", state="superseded", day="2027-05-01", href="#", start="2027-03-01"),
        ],
        keys={"keys": []},
        battery=BatteryOnPage(serial_number="A1", address=ADDRESS, model_address="index.html", own=own),
        origins=trace_origins(sources, passport),
        completeness=count_filled_points(opened_bundles[1], passport, sources),
        before=before,
    )
    links = PageLinks(ADDRESS, "", "", "linkset.json", "keys.json", "", "verify.html", "")
    page = build_page(passport, wording, state)
    assert page["health"]["dial"]["part"] == 91
    assert page["health"]["line"]
    assert [row["after"] for row in page["changes"]["rows"]] == [find_mass(page)]
    assert page["completeness"]["groups"]
    assert all(row["origin"] for section in page["sections"] for row in section["rows"])
    html = render_passport(page, links, dict.fromkeys(PAGE_LANGUAGES, "index.html"))
    return re.sub(rb"<script[^>]*>.*?</script>", b"", html, flags=re.DOTALL)


def find_mass(page: Mapping[str, Any]) -> str:
    """How the page writes the mass."""
    rows = [row for section in page["sections"] for row in section["rows"]]
    return str(next(row["values"][0]["text"] for row in rows if row["path"] == "battery.mass_kg"))


def make_pseudo_wording() -> Wording:
    """Every text of the product half as long again, without a blank to break at in what is added."""
    entries = [
        replace(entry, translation=f"[{entry.source}{'é' * (len(entry.source) // 2)}]")
        for entry in list_product_texts()
    ]
    return Wording("de", (build_catalogue("de", entries),))
