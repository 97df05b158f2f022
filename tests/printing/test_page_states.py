"""Every state of a page in every language and look: no barrier, no overflow, and branding leaves the verdict alone."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from bpc.core.branding import PALETTES, Palette
from bpc.core.catalogue.wording import Wording
from bpc.core.exports.disclosure import disclose
from bpc.core.exports.page_state import PageBrand, PageState, VersionLine, VersionState
from bpc.core.exports.public_page import build_page
from bpc.printing.catalogues import load_wording
from bpc.printing.web_page import PAGE_LANGUAGES, PageLinks, render_passport
from tests.core.sample_passports import make_rich_bundle
from tests.core.status.sample_status import REVOKED_AT, make_statement
from tests.measurements import RecordMeasurement, choose_effort
from tests.printing.full_page import make_pseudo_wording
from tests.printing.page_server import serve_folder
from tests.printing.test_web_page import (
    ADDRESS,
    HOST,
    browse,
    build_twin,
    load_rich_bundle,
    make_current_list,
)

STATES: dict[VersionState, str] = {
    "in_force": "verified",
    "issued": "verified",
    "superseded": "superseded",
    "revoked": "revoked",
    "ceased": "ceased",
}
LOOKS: dict[str, dict[str, Any]] = {
    "small phone, dark": {"width": 320, "scheme": "dark"},
    "phone": {"width": 390},
    "desk": {"width": 1280},
    "desk, dark": {"width": 1280, "scheme": "dark"},
    "large text": {"width": 640, "text": "200%"},
}
LONG_NAME = "Internationale Batteriegesellschaft für Fahrzeuge AG & Söhne"


def render_in(state: VersionState, wording: Wording, palette: Palette, keys: Any) -> bytes:
    passport = disclose(load_rich_bundle(), "public")
    version = str(passport.receipt.passport_version_id)
    statements = [make_statement(make_rich_bundle())]
    if state in {"superseded", "revoked", "ceased"}:
        statements.append(make_statement(make_rich_bundle(), status=state, since=REVOKED_AT))
    page_state = PageState(
        state=state,
        issuer="Issuer",
        host=HOST,
        address=ADDRESS,
        versions=[VersionLine(passport_version_id=version, state=state, day="2027-04-01", href="index.html")],
        keys=keys,
        statements=[statement.decode() for statement in statements],
        status_list="status-list.json",
        brand=PageBrand(name="" if palette == "standard" else LONG_NAME, palette=palette),
        has_print=True,
        has_bundle=True,
    )
    links = PageLinks(ADDRESS, "view.json", "passport.jsonld", "linkset.json", "keys.json", "", "verify.html", "")
    return render_passport(build_page(passport, wording, page_state), links, dict.fromkeys(PAGE_LANGUAGES, "x.html"))


@pytest.mark.slow
def test_no_state_in_no_language_and_no_look_has_a_barrier_or_an_overflow(
    tmp_path: Path, record_measurement: RecordMeasurement
) -> None:
    every = choose_effort(test=41, shown=1, campaign=1)
    files = build_twin(load_rich_bundle(), status_list=make_current_list())
    keys = json.loads(files["keys.json"])
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    wordings = {code: load_wording(code) for code in PAGE_LANGUAGES} | {"pseudo": make_pseudo_wording()}
    cases = list(product(STATES, wordings, LOOKS))[::every]
    with serve_folder(tmp_path) as url:
        plan = []
        for number, (state, language, look) in enumerate(cases):
            palette = PALETTES[number % len(PALETTES)]
            name = f"case-{number}.html"
            (tmp_path / name).write_bytes(render_in(state, wordings[language], palette, keys))
            plan.append({"name": f"{state}, {language}, {look}", "url": f"{url}/{name}", "axe": True, **LOOKS[look]})
        visits = browse({"visits": plan}, tmp_path)["visits"]

    assert {visit["name"]: visit["violations"] for visit in visits if visit["violations"]} == {}
    assert [visit["name"] for visit in visits if visit["overflow"] > 0] == []
    assert [(visit["name"], visit["complaints"]) for visit in visits if visit["complaints"]] == []
    assert [visit["name"] for visit in visits if visit["verdict"]["isCovered"]] == []
    states = [STATES[state] for state, _, _ in cases]
    assert [visit["state"] for visit in visits] == states
    record_measurement("page-states", pages=len(visits), violations=0)


@pytest.mark.slow
def test_branding_changes_no_colour_and_no_size_of_the_verdict(tmp_path: Path) -> None:
    files = build_twin(load_rich_bundle(), status_list=make_current_list())
    keys = json.loads(files["keys.json"])
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    palettes = choose_effort(test=PALETTES[:2], shown=PALETTES, campaign=PALETTES)
    with serve_folder(tmp_path) as url:
        plan = []
        for palette, scheme in product(palettes, ("light", "dark")):
            (tmp_path / f"{palette}.html").write_bytes(render_in("in_force", load_wording("en"), palette, keys))
            plan.append({"name": palette, "url": f"{url}/{palette}.html", "scheme": scheme})
        visits = browse({"visits": plan}, tmp_path)["visits"]

    looks = {tuple(visit["verdict"][name] for name in ("color", "background", "size")) for visit in visits}
    assert len(looks) == 2, "one for light and one for dark"
    assert {visit["verdict"]["isCovered"] for visit in visits} == {False}
    assert max(visit["verdict"]["top"] for visit in visits) < 200, "the verdict stays the first thing on the page"
