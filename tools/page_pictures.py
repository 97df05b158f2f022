"""Take the pictures of the public page for the documentation: every state, light and dark, on a desk and on a phone.

    python -m tools.page_pictures     writes docs/screenshots; needs Chromium and Node.js

Pages are those of the shipped example for an electric vehicle, signed for today, so that the browser itself computes
what each of them says. Two sheets show all states beside each other; look at them before you commit them.
"""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from bpc.core.audit.signing import Signer
from bpc.core.exports.disclosure import disclose_opened, open_for_export
from bpc.core.exports.field_origins import trace_origins
from bpc.core.exports.field_sources import FieldSources
from bpc.core.exports.page_completeness import count_filled_points
from bpc.core.exports.page_state import BatteryOnPage, PageState, VersionLine
from bpc.core.exports.public_page import build_battery_page, build_page
from bpc.core.passport.bundle import Bundle, read_bundle, write_bundle
from bpc.core.passport.compile import compile_passport, issue_passport
from bpc.core.passport.payload import make_blinding_fact
from bpc.core.status.status_list import PassportState
from bpc.printing.catalogues import load_wording
from bpc.printing.web_page import PAGE_LANGUAGES, PageLinks, render_battery, render_passport
from bpc.printing.web_page.static_twin import STATUS_LIST_FILE, build_static_pages
from bpc.runtime import clock
from tests.core.status.sample_status import INDEX, SUCCESSOR, make_list, make_statement, rebuild_bundle
from tests.printing.page_server import serve_folder
from tests.printing.test_web_page import browse
from tests.rules import shipped_package
from tools.golden import SEED

PICTURES: Final = Path(__file__).resolve().parents[1] / "docs" / "screenshots"
HOST: Final = "passports.example"
LOOKS: Final = {
    "desk-light": {"width": 1180, "scheme": "light"},
    "desk-dark": {"width": 1180, "scheme": "dark"},
    "phone-light": {"width": 390, "scheme": "light"},
    "phone-dark": {"width": 390, "scheme": "dark"},
}
SNAPSHOT: Final = UUID("c386bbc4-0000-4000-8000-3c5f414c343c")
ALTERED: Final = re.compile(rb'data-path="[^"]*capacity[^"]*" data-signed="[^0-9"]*([0-9])')
STYLE: Final = "body{margin:0;font:600 15px sans-serif;background:#888;display:grid;gap:10px;padding:10px}"


def make_bundle() -> Bundle:
    """The passport of the electric vehicle among the examples, under the shipped rules."""
    facts = shipped_package.read_facts((shipped_package.EXAMPLES / "eu-battery" / "ev.json").read_bytes())
    secret = make_blinding_fact(SNAPSHOT, bytes(32))
    compile_input = shipped_package.build_input([*facts, secret], None, "2027-02-18", shipped_package.make_machine())
    data = write_bundle(issue_passport(compile_input, compile_passport(compile_input), Signer(SEED)))
    return read_bundle(rebuild_bundle(data, status=make_statement(data, seed=SEED)))


def list_files(bundle: Bundle, keys: Any, twin: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Each state as a page. What the issuer signed decides; the last three are batteries without a passport to show."""
    data = write_bundle(bundle)
    now = clock.now()

    def sign_list(state: PassportState, days_ago: int = 0) -> bytes:
        start = now - timedelta(days=days_ago, hours=1)
        end = start + timedelta(hours=24)
        return make_list(data, {INDEX: state}, seed=SEED, valid_from=start, valid_until=end)

    yield from twin.items()
    yield STATUS_LIST_FILE, sign_list(PassportState.IN_FORCE)
    yield "list-old.json", sign_list(PassportState.IN_FORCE, days_ago=3)
    yield "list-ceased.json", sign_list(PassportState.CEASED)
    bound = make_statement(data, seed=SEED)
    ends: dict[str, dict[str, Any]] = {
        "superseded": {"successor": SUCCESSOR, "reason": None},
        "revoked": {"successor": None, "reason": "The cathode was declared wrongly."},
        "ceased": {"successor": None, "reason": None},
    }
    yield "verified.html", render_state(bundle, keys, "in_force", [bound])
    for name, details in ends.items():
        end = make_statement(data, seed=SEED, status=name, since=now - timedelta(days=12), **details)
        yield f"{name}.html", render_state(bundle, keys, name, [bound, end])
    signed = ALTERED.search(render_state(bundle, keys, "in_force", [bound]))
    if signed is None:
        raise ValueError("the page shows no capacity to alter")
    yield "altered.html", signed.string[: signed.start(1)] + b"9" + signed.string[signed.start(1) :]
    batteries = {
        "battery-ceased": BatteryOnPage(
            serial_number="A0000001", address="/p/1", ceased_day="2036-05-04", model_address="verified.html"
        ),
        "battery-moved": BatteryOnPage(serial_number="A0000001", address="/p/1", successor="verified.html"),
        "battery-pending": BatteryOnPage(serial_number="A0000001", address="/p/1"),
    }
    links = PageLinks("/p/1", "", "", "linkset.json", "", "", "verify.html", "")
    for name, battery in batteries.items():
        page = build_battery_page(battery, load_wording("en"))
        yield f"{name}.html", render_battery(page, links, dict.fromkeys(PAGE_LANGUAGES, f"{name}.html"))


def render_state(bundle: Bundle, keys: Any, state: Any, statements: list[bytes]) -> bytes:
    opened_bundle = open_for_export(bundle)
    passport, sources = disclose_opened(opened_bundle, "public"), FieldSources(opened_bundle)
    version = str(passport.receipt.passport_version_id)
    address = f"https://{HOST}/p/{passport.receipt.passport_id}"
    lines = [VersionLine(passport_version_id=version, state=state, day="2027-03-01", href="verified.html")]
    if state == "superseded":
        newer = VersionLine(
            passport_version_id=str(SUCCESSOR), state="in_force", day="2027-09-01", href="verified.html"
        )
        lines.insert(0, newer)
    page_state = PageState(
        state=state,
        issuer="Example SE",
        host=HOST,
        address=address,
        versions=lines,
        keys=keys,
        statements=[statement.decode() for statement in statements],
        status_list=STATUS_LIST_FILE,
        origins=trace_origins(sources, passport),
        completeness=count_filled_points(opened_bundle, passport, sources),
        has_print=True,
    )
    links = PageLinks(address, "view.json", "passport.jsonld", "linkset.json", "keys.json", "", "verify.html", "")
    page = build_page(passport, load_wording("en"), page_state)
    return render_passport(page, links, dict.fromkeys(PAGE_LANGUAGES, "verified.html"))


def take_pictures(folder: Path, shots: Path) -> list[dict[str, Any]]:
    """What a person sees of each state, in each look."""
    states: dict[str, dict[str, Any]] = {
        "verified": {},
        "genuine": {"page": "verified", "replace": {f"**/{STATUS_LIST_FILE}": str(folder / "list-old.json")}},
        "superseded": {},
        "revoked": {},
        "ceased": {},
        "altered": {},
        "no-script": {"page": "verified", "script": False},
        "battery-ceased": {"script": False},
        "battery-moved": {"script": False},
        "battery-pending": {"script": False},
    }
    with serve_folder(folder) as url:
        visits = [
            {
                "name": f"{state}-{look}",
                "url": f"{url}/{options.get('page', state)}.html",
                "screenshot": str(shots / f"{state}-{look}.png"),
                **{name: value for name, value in options.items() if name != "page"},
                **size,
            }
            for state, options in states.items()
            for look, size in LOOKS.items()
        ]
        results: list[dict[str, Any]] = browse({"visits": visits}, shots)["visits"]
        for sheet, kind, width in (("page-states", "desk", 470), ("page-states-phone", "phone", 232)):
            images = "".join(
                f'<img width="{width}" height="{round(width * 0.62) if kind == "desk" else 420}" '
                f'style="object-fit:cover;object-position:top" src="{state}-{kind}-{scheme}.png">'
                for scheme in ("light", "dark")
                for state in states
            )
            columns = 5 if kind == "desk" else 10
            body = f"<style>{STYLE}body{{grid-template-columns:repeat({columns},{width}px)}}</style>{images}"
            (shots / f"{sheet}.html").write_text(f"<!doctype html><title>{sheet}</title>{body}")
    with serve_folder(shots) as url:
        (shots / "page.html").write_text(
            f"<!doctype html><title>page</title><style>{STYLE}body{{grid-template-columns:1100px 390px}}</style>"
            '<img width="1100" height="840" style="object-fit:cover;object-position:top" src="verified-desk-light.png">'
            '<img width="390" height="840" style="object-fit:cover;object-position:top" src="verified-phone-dark.png">'
        )
        wide = {"page": 1520, "page-states": 2410, "page-states-phone": 2430}
        plan = [
            {
                "name": sheet,
                "url": f"{url}/{sheet}.html",
                "script": False,
                "width": width,
                "whole": True,
                "screenshot": str(PICTURES / f"{sheet}.png"),
            }
            for sheet, width in wide.items()
        ]
        browse({"visits": plan}, shots)
    return results


def main() -> None:
    bundle = make_bundle()
    with tempfile.TemporaryDirectory() as place:
        folder, shots = Path(place) / "site", Path(place) / "shots"
        folder.mkdir()
        shots.mkdir()
        options: dict[str, Any] = {"address": f"https://{HOST}/p/1", "issuer": "Example SE", "keys": None}
        twin = build_static_pages(bundle, host=HOST, exported_day="2027-03-01", policy=None, **options)
        keys = json.loads(twin["keys.json"])
        for name, content in list_files(bundle, keys, twin):
            (folder / name).write_bytes(content)
        for result in take_pictures(folder, shots):
            print(result["name"], result.get("state", ""), result["sentence"], result.get("overflow", ""))


if __name__ == "__main__":
    main()
