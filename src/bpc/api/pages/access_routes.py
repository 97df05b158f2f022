"""/p/{id}/access: where people ask to see more of a passport, and open it with a code that they were sent.

    GET  /p/{id}/access            both forms; the link that a person is sent has the code behind `#`
    POST /p/{id}/access            open the passport with a code, without a script
    GET  /p/{id}/access/page       the same for the page's script, which sends the code as Authorization
    POST /p/{id}/access/terms      accept the terms, for the script
    POST /p/{id}/access/requests   ask to see more

The code never stands in an address that a server sees. What shows restricted data, or may, is `private, no-store`.
"""

from collections.abc import Mapping
from typing import Final, get_args
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response

from bpc.api.access.admission import find_address
from bpc.api.access.grantees import (
    NO_STORE,
    STANDARD_TERMS,
    Grantee,
    TermsNotAccepted,
    accept_terms,
    admit_grantee,
)
from bpc.api.access.tenant_limits import RateLimited
from bpc.api.http.models import Id
from bpc.api.http.request_context import Service
from bpc.api.http.routing import RouteFamily
from bpc.api.pages.granted_routes import CurrentGrantee
from bpc.api.pages.granted_versions import AddressedPassport, find_addressed, load_granted, record_shown
from bpc.api.pages.passport_answers import (
    ASSETS_PATH,
    build_passport_page,
    choose_language,
    make_links,
)
from bpc.api.pages.public_site import HTML_HEADERS, find_site
from bpc.api.pages.routes import Lang
from bpc.core.catalogue.number_format import Language
from bpc.core.errors import CODES, Invalid, Refusal
from bpc.core.exports.access_page import AccessForm, build_access_page, mark_as_granted
from bpc.core.formats.timestamps import format_time
from bpc.core.view_grants import GrantAudience, GrantCode, RequestWords
from bpc.printing.catalogues import load_wording
from bpc.printing.web_page import PAGE_LANGUAGES, PageLinks, render_access, render_granted
from bpc.storage.access import view_requests
from bpc.storage.passports import public_passports

routes = RouteFamily("Public pages")

MOST_FIELDS: Final = 20
AUDIENCES: Final[tuple[GrantAudience, ...]] = get_args(GrantAudience)
# What a person without a script is told, by the reason of a refusal; the script shows the same.
PROBLEMS: Final[Mapping[str, str]] = {
    "unknown": "access_unknown",
    "ended": "access_over",
    "elsewhere": "access_elsewhere",
}


@routes.open("/p/{passport_id}/access", include_in_schema=False, response_class=Response)
async def get_access_page(request: Request, passport_id: Id, lang: Lang = None) -> Response:
    """Get the page where people ask to see more of a passport, or open it with a code."""
    language = choose_language(request, lang)
    return await _serve_access(request, passport_id, language, AccessForm())


@routes.open("/p/{passport_id}/access", method="POST", include_in_schema=False, response_class=Response)
async def open_with_code(request: Request, passport_id: Id, lang: Lang = None) -> Response:
    """Open a passport with the code of a grant, from a form."""
    language, form = choose_language(request, lang), _read_form(await request.body())
    code = form.get("code", "").strip()
    terms: str | None = None
    problem: Refusal
    try:
        grantee = await admit_grantee(request, GrantCode.parse(code))
        if form.get("accept_terms") == "yes":
            grantee = Grantee(tenant_id=grantee.tenant_id, grant=await accept_terms(request, grantee))
        return await _serve_granted(request, passport_id, grantee, language)
    except TermsNotAccepted as refusal:
        terms, problem = str(refusal.details["terms"]), refusal
    except Refusal as refusal:
        problem = refusal
    access_form = AccessForm(code=code if terms is not None else "", terms=_choose_terms(terms), problem=_name(problem))
    return await _serve_access(request, passport_id, language, access_form, status=CODES[problem.code].http)


@routes.granted("/p/{passport_id}/access/page", include_in_schema=False, response_class=Response)
async def get_granted_page(request: Request, passport_id: Id, grantee: CurrentGrantee, lang: Lang = None) -> Response:
    """Get the page of a passport as a grantee sees it. The read is recorded before it is sent."""
    return await _serve_granted(request, passport_id, grantee, choose_language(request, lang))


@routes.granted(
    "/p/{passport_id}/access/terms", method="POST", include_in_schema=False, status=204, response_class=Response
)
async def accept_terms_on_page(
    request: Request,
    passport_id: Id,  # noqa: ARG001 (part of the path)
    grantee: CurrentGrantee,
) -> Response:
    """Accept the terms of a grant, from its page."""
    await accept_terms(request, grantee)
    return Response(status_code=204, headers=NO_STORE)


@routes.open("/p/{passport_id}/access/requests", method="POST", include_in_schema=False, response_class=Response)
async def ask_for_access(request: Request, passport_id: Id, lang: Lang = None) -> Response:
    """Ask to see more of a passport. The issuer is told, and answers to the contact that was given."""
    service: Service = request.app.state.service
    language, form = choose_language(request, lang), _read_form(await request.body())
    label_target = await find_addressed(request, passport_id, language)
    address, askers = find_address(request.scope), service.admission.askers
    try:
        askers.require_attempt_left(address)
        words = RequestWords(
            name=form.get("name", "").strip(),
            contact=form.get("contact", "").strip(),
            purpose=form.get("purpose", "").strip(),
            evidence=form.get("evidence", "").strip(),
        )
        audience = next((each for each in AUDIENCES if each == form.get("audience")), None)
        if audience is None:
            raise Invalid("the kind of reader is missing", fix="choose one")
        askers.note_failure(address)
        await _store_request(service, label_target, audience, words, request)
    except Refusal as refusal:
        access_form = AccessForm(sent_form=form, ask_problem=_name(refusal, is_code=False))
        return await _serve_access(request, passport_id, language, access_form, status=CODES[refusal.code].http)
    return await _serve_access(request, passport_id, language, AccessForm(is_sent=True))


async def _store_request(
    service: Service, label_target: AddressedPassport, audience: GrantAudience, words: RequestWords, request: Request
) -> None:
    async with service.database.plain() as conn:
        owner = await public_passports.find_passport_owner(conn, label_target.subject.passport_id)
    if owner is not None:
        async with service.database.tenant(owner.tenant_id) as conn:
            await view_requests.ask(conn, owner.tenant_id, label_target.subject, audience, words, now=request.state.now)


async def _serve_granted(request: Request, passport_id: Id, grantee: Grantee, language: Language) -> Response:
    granted_passport = await load_granted(request, grantee, passport_id, language)
    site = find_site(request)
    links = make_links(site, granted_passport.passport, granted_passport.battery)
    passport, battery = granted_passport.passport, granted_passport.battery
    page = await build_passport_page(request, site, passport, links, language, battery)
    marked_page = mark_as_granted(
        page,
        load_wording(language),
        view=granted_passport.view,
        audience=grantee.grant.audience,
        last_day=format_time(grantee.grant.expires_at)[:10],
        is_of_battery=granted_passport.version_id != passport.row.passport_version_id,
    )
    html = render_granted(marked_page, links._replace(access=""), _list_access_translations(passport_id))
    await record_shown(request, grantee, granted_passport, "page")
    return Response(
        html,
        media_type="text/html; charset=utf-8",
        headers={**HTML_HEADERS, **NO_STORE, "Content-Language": language},
    )


async def _serve_access(
    request: Request, passport_id: Id, language: Language, form: AccessForm, *, status: int = 200
) -> Response:
    label_target = await find_addressed(request, passport_id, language)
    site = find_site(request)
    battery = label_target.describe_battery(site.root)
    links = make_links(site, label_target.passport, battery)
    links = PageLinks(links.address, "", "", "", "", "", "/verify", ASSETS_PATH, f"/p/{passport_id}/access")
    title = label_target.passport.version.passport.product["name"]
    page = build_access_page(
        load_wording(language),
        form,
        title=title if battery is None else f"{title}, {battery.serial_number}",
        issuer=label_target.passport.issuer,
    )
    html = render_access(page, links, _list_access_translations(passport_id))
    headers = {
        **HTML_HEADERS,
        **NO_STORE,
        "Content-Language": language,
    }
    return Response(html, status, media_type="text/html; charset=utf-8", headers=headers)


def _list_access_translations(passport_id: Id) -> dict[Language, str]:
    return {code: f"/p/{passport_id}/access?lang={code}" for code in PAGE_LANGUAGES}


def _read_form(body: bytes) -> Mapping[str, str]:
    """The fields of a form."""
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise Invalid("this is not a filled in form", fix="open the page again") from None


def _choose_terms(terms: str | None) -> str | None:
    """What the page shows: the standard terms are in its own language, so they are left out."""
    return "" if terms == STANDARD_TERMS else terms


def _name(refusal: Refusal, *, is_code: bool = True) -> str:
    """What the page says of a refusal, by the name of its words."""
    if isinstance(refusal, RateLimited) or refusal.code == "RATE_LIMITED":
        return "access_wait"
    if not is_code:
        return "access_incomplete"
    if isinstance(refusal, TermsNotAccepted):
        return "access_terms_first"
    return PROBLEMS.get(str(refusal.details.get("reason")), "access_unknown")
