"""The static twin of a public page: a folder that any web server can serve, made from a bundle alone.

Public data only, in every language that pages have, with the files that it is checked with. It says of which day it is,
and that the passport is in force only while the status list beside it is valid.

    Bundle, address, day ─► build_static_pages ─► {"index.html": …, "index.de.html": …, "view.json": …, …}
"""

import json
from collections.abc import Mapping
from typing import Final

from bpc.core.audit.signing import PinnedKey, key_to_json
from bpc.core.branding import Branding
from bpc.core.catalogue.number_format import SOURCE_LANGUAGE, Language
from bpc.core.exports.disclosure import ViewImpossible, disclose_opened, make_view, open_for_export
from bpc.core.exports.field_origins import trace_origins
from bpc.core.exports.field_sources import FieldSources
from bpc.core.exports.json_ld import export_json_ld
from bpc.core.exports.page_completeness import count_filled_points
from bpc.core.exports.page_state import PageBrand, PageState, VersionLine
from bpc.core.exports.public_page import build_page
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.timestamps import parse_time
from bpc.core.passport.bundle import LOG_PROOF_ENTRY, STATUS_ENTRY, Bundle
from bpc.printing.catalogues import load_wording
from bpc.printing.web_page import PAGE_LANGUAGES, PageLinks, load_assets, render_passport, render_verifier

_LINKS: Final = {
    "view": "view.json",
    "json_ld": "passport.jsonld",
    "linkset": "linkset.json",
    "keys": "keys.json",
    "log_proof": LOG_PROOF_ENTRY,
    "verify": "verify.html",
    "assets": "",
}
STATUS_LIST_FILE: Final = "status-list.json"
LOGO_FILE: Final = "logo.png"
NO_BRAND: Final = Branding()


def build_static_pages(
    bundle: Bundle,
    *,
    host: str,
    address: str,
    issuer: str,
    exported_day: str,
    keys: Json,
    policy: str | None,
    status_list: bytes | None = None,
    brand: Branding = NO_BRAND,
    logo: bytes | None = None,
) -> Mapping[str, bytes]:
    """The files of a passport's static page by name. Without `keys`, it is checked with its own key.

    `status_list` is a signed list; whoever serves the copy may put a newer one in its place. `logo` is a PNG that was
    drawn anew.
    """
    opened_bundle = open_for_export(bundle)
    passport = disclose_opened(opened_bundle, "public")
    manifest = opened_bundle.manifest
    issue_time = passport.issued_at
    own_key = key_to_json(
        PinnedKey(manifest.public_key, manifest.signing_key_id),
        status="ACTIVE",
        created_at=parse_time(issue_time),
        retired_at=None,
    )
    key_set: Json = {"keys": [own_key]} if keys is None else keys
    log_proof, statement = bundle.entries.get(LOG_PROOF_ENTRY), bundle.entries.get(STATUS_ENTRY)
    try:
        view = make_view(bundle, "public")
    except ViewImpossible:
        view = None
    version, sources = str(passport.receipt.passport_version_id), FieldSources(opened_bundle)
    state = PageState(
        state="issued",
        issuer=issuer,
        host=host,
        address=address,
        versions=[VersionLine(passport_version_id=version, state="issued", day=issue_time[:10], href="index.html")],
        keys=key_set,
        log_proof=None if log_proof is None else log_proof.decode(),
        policy=policy,
        statements=[] if statement is None else [statement.decode()],
        status_list=None if status_list is None or statement is None else STATUS_LIST_FILE,
        has_view=view is not None,
        exported_day=exported_day,
        origins=trace_origins(sources, passport),
        completeness=count_filled_points(opened_bundle, passport, sources),
        brand=PageBrand(name=brand.name or "", palette=brand.palette, logo="" if logo is None else LOGO_FILE),
    )
    links = PageLinks(address=address, **_LINKS)
    pages = {language: _name_page("index", language) for language in PAGE_LANGUAGES}
    verifiers = {language: _name_page("verify", language) for language in PAGE_LANGUAGES}
    shown_keys = json.dumps(key_set, indent=1)
    files: dict[str, bytes | None] = {
        "view.json": view,
        "passport.jsonld": export_json_ld(passport),
        "keys.json": json.dumps(key_set).encode(),
        LOG_PROOF_ENTRY: log_proof,
        STATUS_LIST_FILE: status_list,
        LOGO_FILE: logo,
        "linkset.json": _encode_links(address),
        **{asset.name: asset.content for asset in load_assets().values()},
    }
    for language, name in pages.items():
        page = build_page(passport, load_wording(language), state)
        files[name] = render_passport(page, links._replace(verify=verifiers[language]), pages)
        files[verifiers[language]] = render_verifier(language, links, verifiers, shown_keys)
    return {name: content for name, content in files.items() if content is not None}


def _name_page(stem: str, language: Language) -> str:
    return f"{stem}.html" if language == SOURCE_LANGUAGE else f"{stem}.{language}.html"


def _encode_links(address: str) -> bytes:
    """The links of the copy as RFC 9264 writes them."""
    alternates = [
        {"href": "view.json", "type": "application/json"},
        {"href": "passport.jsonld", "type": "application/ld+json"},
    ]
    return json.dumps({"linkset": [{"anchor": address, "alternate": alternates}]}).encode()
