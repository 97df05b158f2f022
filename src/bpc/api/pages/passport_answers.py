"""A public passport as an answer: page, view, JSON-LD or linkset, with its links, its ETag and how long it is kept."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from bpc.api.access.signing_key_routes import PublishedKeys
from bpc.api.http.etag import serve_bytes
from bpc.api.pages.negotiation import (
    LINKSET_CONTEXT,
    MEDIA_TYPES,
    LinkContext,
    LinkTarget,
    PassportForm,
    encode_linkset,
    read_accepted_languages,
)
from bpc.api.pages.own_passports import OwnPassport
from bpc.api.pages.page_settings import PageSettingsCache, describe_brand
from bpc.api.pages.public_site import FOR_SECONDS, HTML_HEADERS, OPEN_TO_ALL, PublicSite
from bpc.api.pages.public_versions import STATES, RequestedPassport
from bpc.core.catalogue.number_format import Language
from bpc.core.errors import NotFound
from bpc.core.exports.page_state import BatteryOnPage, OwnVersion, PageState, VersionLine, VersionState
from bpc.core.exports.public_page import build_page
from bpc.core.formats.hashes import to_hex
from bpc.core.status.statements import read_statement
from bpc.core.view_grants import may_have_bundle
from bpc.printing.catalogues import load_wording
from bpc.printing.web_page import PAGE_LANGUAGES, PageLinks, choose_page_language, render_passport

KEYS_PATH: Final = "/.well-known/bpc-keys.json"
ASSETS_PATH: Final = "/page-assets/"


async def answer_passport(
    request: Request,
    site: PublicSite,
    passport: RequestedPassport,
    form: PassportForm,
    language: Language,
    if_none_match: str | None,
    battery: BatteryOnPage | None = None,
    own: OwnPassport | None = None,
) -> Response:
    """The passport in a form, as that of a `battery` if one was asked for, with its `own` below if it has one.

    What its address shows may change, so it is kept for seconds.
    """
    links = make_links(site, passport, battery)
    if battery is not None and own is not None:
        links = links._replace(
            address=battery.address,
            view=f"{battery.address}/v/{own.row.passport_version_id}/view.json",
            linkset=f"{battery.address}?linkType=linkset",
            print=f"{battery.address}/v/{own.row.passport_version_id}/passport.pdf",
        )
    beside = make_link_headers(links.linkset)
    if form == "html":
        page = await build_passport_page(request, site, passport, links, language, battery, own)
        html = render_passport(page, links, list_translations(request))
        return serve_html(html, language, if_none_match, beside)
    if form == "linkset":
        content: bytes | None = encode_linkset([make_link_context(links.address, passport, links)])
    elif form == "view":
        content = passport.version.view if own is None else own.view
    else:
        content = passport.version.json_ld
    if content is None:
        raise NotFound("this version has no view for the public", fix="ask for the page or for JSON-LD")
    return serve_bytes(content, MEDIA_TYPES[form], if_none_match, cache=FOR_SECONDS, headers_beside=beside)


def make_links(site: PublicSite, passport: RequestedPassport, battery: BatteryOnPage | None = None) -> PageLinks:
    """Where the parts of the page of a passport are."""
    receipt = passport.version.passport.receipt
    address = f"{site.root}/p/{receipt.passport_id}"
    files = f"{address}/v/{passport.row.passport_version_id}"
    return PageLinks(
        address=address,
        view=f"{files}/view.json",
        json_ld=f"{files}/passport.jsonld",
        linkset=f"{address}?linkType=linkset",
        keys=KEYS_PATH,
        log_proof=f"{files}/passport.tlog-proof",
        verify="/verify",
        assets=ASSETS_PATH,
        access=f"{address if battery is None else battery.address}/access",
        print=f"{files}/passport.pdf",
        bundle=f"{files}/bundle.zip",
    )


def make_link_headers(linkset_url: str) -> dict[str, str]:
    """What every answer about an address has: where its linkset is, and what makes that readable as JSON-LD."""
    links = (
        f'<{linkset_url}>; rel="linkset"; type="{MEDIA_TYPES["linkset"]}"',
        f'<{LINKSET_CONTEXT}>; rel="http://www.w3.org/ns/json-ld#context"; type="application/ld+json"',
    )
    return {**OPEN_TO_ALL, "Vary": "Accept, Accept-Language", "Link": ", ".join(links)}


def make_link_context(anchor: str, passport: RequestedPassport, links: PageLinks) -> LinkContext:
    """What is linked from an address of a passport."""
    title = passport.version.passport.product["name"]
    page = [LinkTarget(links.address, MEDIA_TYPES["html"], title, tuple(PAGE_LANGUAGES))]
    data = LinkTarget(links.json_ld, MEDIA_TYPES["json_ld"], title)
    view = [LinkTarget(links.view, MEDIA_TYPES["view"], title)] if passport.version.view is not None else []
    return LinkContext(
        anchor,
        title,
        {
            "defaultLink": page,
            "pip": page,
            "sustainabilityInfo": page,
            "masterData": [data],
            "alternate": [*view, data],
        },
    )


async def build_passport_page(
    request: Request,
    site: PublicSite,
    passport: RequestedPassport,
    links: PageLinks,
    language: Language,
    battery: BatteryOnPage | None,
    own: OwnPassport | None = None,
) -> Mapping[str, Any]:
    """What the page of a passport says; with `own`, that of one battery."""
    version = passport.version
    page_passport = version.passport if own is None else own.disclose(version)
    if battery is not None and own is not None:
        battery = replace(battery, own=_describe_own(own))
    settings_of_pages: PageSettingsCache = request.app.state.page_settings
    settings = await settings_of_pages.load(request.app.state.service, version.passport.receipt.tenant_id)
    state = PageState(
        state=_find_state(passport, own),
        issuer=passport.issuer,
        host=site.host,
        address=links.address,
        versions=_list_versions(passport, links.address) if own is None else _list_own_versions(own, links.address),
        keys=json.loads(await load_keys(request)),
        log_proof=passport.version.log_proof,
        policy=passport.log_policy,
        statements=[statement.decode() for statement in passport.statements],
        status_list=_find_status_list(passport),
        has_view=passport.version.view is not None,
        battery=battery,
        origins=version.origins if own is None else own.select_origins(version),
        completeness=version.completeness if own is None else version.completeness.add_fields(page_passport),
        before=passport.before,
        brand=describe_brand(settings, make_links(site, passport).view.rpartition("/")[0]),
        has_bundle=own is None and may_have_bundle(settings.bundles_for, None),
        has_print=True,
    )
    catalogues = () if passport.catalogue is None else (passport.catalogue,)
    return build_page(page_passport, load_wording(language, catalogues), state)


def _find_state(passport: RequestedPassport, own: OwnPassport | None) -> VersionState:
    """The state of the version that is asked for; an older one of a battery is superseded by its newest."""
    is_replaced = own is not None and not own.is_newest and passport.state == "in_force"
    return "superseded" if is_replaced else passport.state


def _describe_own(own: OwnPassport) -> OwnVersion:
    return OwnVersion(
        passport_version_id=str(own.row.passport_version_id),
        receipt_hash=to_hex(own.row.receipt_hash),
        is_newest=own.is_newest,
    )


def _list_own_versions(own: OwnPassport, address: str) -> Sequence[VersionLine]:
    """The newest is at the address of the battery; of each other, the day is that of the one after it."""
    lines = []
    end: str | None = None
    for row in own.rows:
        version, day = str(row.passport_version_id), row.issued_at.date().isoformat()
        lines.append(
            VersionLine(
                passport_version_id=version,
                state="in_force" if end is None else "superseded",
                day=end or day,
                href=address if end is None else f"{address}/v/{version}",
                start=day,
            )
        )
        end = day
    return lines


def _list_versions(passport: RequestedPassport, address: str) -> Sequence[VersionLine]:
    return [
        VersionLine(
            passport_version_id=str(row.passport_version_id),
            state=STATES[row.status],
            day=row.changed_at.date().isoformat(),
            href=address if row.status == "ACTIVE" else f"{address}/v/{row.passport_version_id}",
            start=row.activated_at.date().isoformat(),
        )
        for row in passport.versions
    ]


def _find_status_list(passport: RequestedPassport) -> str | None:
    """Where this host has the list that the statements name."""
    if not passport.statements:
        return None
    place = read_statement(passport.statements[0]).place
    return f"/status/lists/{place.list_url.rpartition('/')[2]}"


def list_translations(request: Request) -> dict[Language, str]:
    """The same page in every language."""
    return {code: f"{request.url.path}?lang={code}" for code in PAGE_LANGUAGES}


async def load_keys(request: Request) -> bytes:
    """The keys that this installation publishes."""
    published_keys: PublishedKeys = request.app.state.public_keys
    return await published_keys.get_all(request.app.state.service)


def choose_language(request: Request, lang: str | None) -> Language:
    return choose_page_language(lang, read_accepted_languages(request.headers.get("accept-language")))


def serve_html(
    html: bytes, language: str, if_none_match: str | None, beside: dict[str, str] | None = None, status: int = 200
) -> Response:
    """A page, with what keeps other programs out of it."""
    headers = {"Vary": "Accept, Accept-Language", **(beside or {}), **HTML_HEADERS, "Content-Language": language}
    answer = serve_bytes(html, "text/html; charset=utf-8", if_none_match, cache=FOR_SECONDS, headers_beside=headers)
    if answer.status_code == 200:
        answer.status_code = status
    return answer
