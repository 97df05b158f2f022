"""The address of a single battery as an answer: the passport of its model, or that the battery ended, and the way on.

Everybody may know that there is such a battery, its serial number, that its passport has ceased, and where it lives on.
"""

from starlette.requests import Request
from starlette.responses import Response

from bpc.api.http.etag import serve_bytes
from bpc.api.http.request_context import Service
from bpc.api.pages.negotiation import MEDIA_TYPES, LinkContext, LinkTarget, PassportForm, encode_linkset
from bpc.api.pages.own_passports import OwnPassport, OwnPassports
from bpc.api.pages.passport_answers import (
    ASSETS_PATH,
    answer_passport,
    list_translations,
    make_link_context,
    make_link_headers,
    make_links,
    serve_html,
)
from bpc.api.pages.public_site import FOR_SECONDS, PublicSite
from bpc.api.pages.public_versions import PublicVersions, RequestedPassport
from bpc.api.routes.batteries.registration import PublicAddress
from bpc.core.catalogue.number_format import Language
from bpc.core.errors import NotFound
from bpc.core.exports.page_state import BatteryOnPage
from bpc.core.exports.public_page import build_battery_page
from bpc.core.formats.ids import PassportVersionId
from bpc.core.identifiers.gs1 import build_digital_link
from bpc.printing.catalogues import load_wording
from bpc.printing.web_page import PAGE_LANGUAGES, PageLinks, render_battery
from bpc.storage.passports.public_passports import PublicItem


class PassportNotPublic(NotFound):
    def __init__(self) -> None:
        super().__init__(
            "there is no public passport with this id", fix="scan the code again, or ask whoever sold the battery"
        )


async def answer_battery(
    request: Request,
    site: PublicSite,
    item: PublicItem,
    form: PassportForm,
    language: Language,
    if_none_match: str | None,
) -> Response:
    """What there is at the address of a battery. A page of a battery that has no passport is no success."""
    address = f"{site.root}/p/{item.battery_id}"
    headers = make_link_headers(f"{address}?linkType=linkset")
    if form in {"html", "view"} and not item.has_ended:
        own = await load_own_passport(request, item)
        if own is not None:
            return await answer_own_passport(request, site, item, own, form, language, if_none_match)
    passport = await load_model_passport(request, item, language)
    if form == "linkset":
        content = encode_linkset(list_contexts(site, item, passport))
        return serve_bytes(content, MEDIA_TYPES["linkset"], if_none_match, cache=FOR_SECONDS, headers_beside=headers)
    if passport is not None and not item.has_ended:
        battery = BatteryOnPage(serial_number=item.serial_number or "", address=address)
        return await answer_passport(request, site, passport, form, language, if_none_match, battery=battery)
    if form == "html":
        status = 200 if item.has_ended else 404
        html = _render(request, site, item, passport, language, address)
        return serve_html(html, language, if_none_match, headers, status)
    body = PublicAddress(ceased=item.ceased_at is not None, ceased_at=item.ceased_at, successor=item.successor)
    content = body.model_dump_json().encode()
    return serve_bytes(content, MEDIA_TYPES["view"], if_none_match, cache=FOR_SECONDS, headers_beside=headers)


async def answer_own_passport(
    request: Request,
    site: PublicSite,
    item: PublicItem,
    own: OwnPassport,
    form: PassportForm,
    language: Language,
    if_none_match: str | None,
) -> Response:
    """The passport of a battery itself, with that of its batch and its model, as one."""
    address = f"{site.root}/p/{item.battery_id}"
    if form == "view":
        headers = make_link_headers(f"{address}?linkType=linkset")
        return serve_bytes(own.view, MEDIA_TYPES["view"], if_none_match, cache=FOR_SECONDS, headers_beside=headers)
    passport = await load_model_passport(request, item, language, own.row.model_version_id)
    if passport is None:
        raise PassportNotPublic
    model_address = make_links(site, passport).address
    battery = BatteryOnPage(serial_number=item.serial_number or "", address=address, model_address=model_address)
    return await answer_passport(request, site, passport, form, language, if_none_match, battery=battery, own=own)


async def load_own_passport(
    request: Request, item: PublicItem, version: PassportVersionId | None = None
) -> OwnPassport | None:
    """The passport of the battery itself, if it has one."""
    own_passports: OwnPassports = request.app.state.own_passports
    return await own_passports.load(request.app.state.service, item, version)


async def load_model_passport(
    request: Request, item: PublicItem, language: str, version: PassportVersionId | None = None
) -> RequestedPassport | None:
    """The passport of the model, if it is public."""
    if item.passport_id is None:
        return None
    versions: PublicVersions = request.app.state.public_versions
    service: Service = request.app.state.service
    return await versions.load(service, item.passport_id, version, language, only_tenant=item.tenant_id)


def list_contexts(site: PublicSite, item: PublicItem, passport: RequestedPassport | None) -> list[LinkContext]:
    """The links of a battery, of its batch and of its model, each at its own address, the lowest level first."""
    contexts = []
    if item.battery_id is not None:
        address = f"{site.root}/p/{item.battery_id}"
        anchor = address
        if item.gtin is not None:
            anchor = site.root + build_digital_link(item.gtin, serial=item.serial_number)
        title = "Battery passport" if passport is None else passport.version.passport.product["name"]
        page = [LinkTarget(address, MEDIA_TYPES["html"], f"{title}, {item.serial_number}", tuple(PAGE_LANGUAGES))]
        contexts.append(LinkContext(anchor, page[0].title, {"defaultLink": page, "pip": page}))
    if passport is not None:
        links = make_links(site, passport)
        anchors = [links.address]
        if item.gtin is not None:
            lots = [] if item.batch_number is None else [item.batch_number]
            anchors = [site.root + build_digital_link(item.gtin, lot=lot) for lot in (*lots, None)]
        contexts += [make_link_context(anchor, passport, links) for anchor in anchors]
    return contexts


def _render(
    request: Request,
    site: PublicSite,
    item: PublicItem,
    passport: RequestedPassport | None,
    language: Language,
    address: str,
) -> bytes:
    model = "" if passport is None else make_links(site, passport).address
    battery = BatteryOnPage(
        serial_number=item.serial_number or "",
        address=address,
        ceased_day=None if item.ceased_at is None else item.ceased_at.date().isoformat(),
        successor=item.successor,
        model_address=model,
    )
    links = PageLinks(address, "", "", f"{address}?linkType=linkset", "", "", "/verify", ASSETS_PATH)
    page = build_battery_page(battery, load_wording(language))
    return render_battery(page, links, list_translations(request))
