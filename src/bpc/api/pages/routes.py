"""/p/…, /verify: the public pages, and the same passports in other forms.

    GET /p/{passport_id}                     the version in force, as page, view, JSON-LD or linkset
    GET /p/{battery_id}                      the same for a single battery: the passport of its model, or that it ended
    GET /p/{passport_id}/v/{version}         one version as a page; superseded and revoked ones say so
    GET /p/{passport_id}/v/{version}/{file}  its files, which never change

Nothing here writes, needs a key or sets a cookie. The address of a passport is for its label: it never changes.
"""

import json
from datetime import date
from typing import Annotated, Literal
from uuid import UUID

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from bpc.api.http.etag import IfNoneMatch, serve_bytes
from bpc.api.http.models import IdOf
from bpc.api.http.request_context import Service
from bpc.api.http.routing import RouteFamily
from bpc.api.pages.battery_answers import (
    PassportNotPublic,
    answer_battery,
    answer_own_passport,
    load_model_passport,
    load_own_passport,
)
from bpc.api.pages.negotiation import LINK_TYPES, MEDIA_TYPES, choose_form, require_form
from bpc.api.pages.own_passports import OwnPassport
from bpc.api.pages.page_settings import load_logo, load_open_bundle
from bpc.api.pages.passport_answers import (
    ASSETS_PATH,
    KEYS_PATH,
    answer_passport,
    choose_language,
    list_translations,
    load_keys,
    serve_html,
)
from bpc.api.pages.printed_passports import PrintedPassports, PrintKey
from bpc.api.pages.public_site import FOR_EVER, FOR_SECONDS, METHOD_HEADERS, OPEN_TO_ALL, PublicSite, find_site
from bpc.api.pages.public_versions import PublicVersions, RequestedPassport, get_end_of_day
from bpc.core.catalogue.number_format import Language
from bpc.core.errors import NotFound
from bpc.core.formats.ids import PassportId, PassportVersionId
from bpc.printing.web_page import PageLinks, find_asset, render_verifier
from bpc.storage.passports import public_passports
from bpc.storage.passports.public_passports import PublicItem

routes = RouteFamily("Public pages")

PassportFile = Literal["view.json", "passport.jsonld", "passport.tlog-proof", "passport.pdf", "bundle.zip", "logo.png"]
Lang = Annotated[
    Literal["en", "de", "fr", "es", "it", "pl"] | None,
    Query(description="The language of the page; without it, the first of `Accept-Language` that there is."),
]
OnDay = Annotated[date | None, Query(description="A day, such as 2027-05-01: the version that was in force then.")]
LinkType = Annotated[
    str | None,
    Query(alias="linkType", max_length=200, description=f"A type of link of GS1: {', '.join(LINK_TYPES)}."),
]


@routes.open("/p/{passport_id}", include_in_schema=False, response_class=Response, takes_any_query=True)
async def get_public_passport(
    request: Request,
    passport_id: IdOf[PassportId],
    lang: Lang = None,
    link_type: LinkType = None,
    at: OnDay = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Get the version of a passport that is in force: as a page, a view, JSON-LD or a linkset.

    `linkType` or `Accept` say in which form. If none is in force, the last one that was, with the reason. The id may be
    that of a single battery, which has an address of the same form. With `at`, it leads to the version of that day.
    """
    form = choose_form(request.headers.get("accept")) if link_type is None else require_form(link_type)
    site, language = find_site(request), choose_language(request, lang)
    if at is not None:
        return await _redirect_to_day(request, site, passport_id, at, lang)
    passport = await _find(request, passport_id, None, language, with_before=form == "html")
    if passport is not None:
        return await answer_passport(request, site, passport, form, language, if_none_match)
    battery = await _load_battery(request, passport_id)
    return await answer_battery(request, site, battery, form, language, if_none_match)


@routes.open("/p/{passport_id}/v/{passport_version_id}", include_in_schema=False, response_class=Response)
async def get_public_version(
    request: Request,
    passport_id: IdOf[PassportId],
    passport_version_id: IdOf[PassportVersionId],
    lang: Lang = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Get the page of one version, also of one that is superseded or revoked."""
    form, language = choose_form(request.headers.get("accept")), choose_language(request, lang)
    site = find_site(request)
    passport = await _find(request, passport_id, passport_version_id, language, with_before=form == "html")
    if passport is not None:
        return await answer_passport(request, site, passport, form, language, if_none_match)
    battery = await _load_battery(request, passport_id)
    own = await _load_own(request, battery, passport_version_id)
    return await answer_own_passport(request, site, battery, own, form, language, if_none_match)


@routes.open("/p/{passport_id}/v/{passport_version_id}/{file}", include_in_schema=False, response_class=Response)
async def get_public_file(
    request: Request,
    passport_id: IdOf[PassportId],
    passport_version_id: IdOf[PassportVersionId],
    file: PassportFile,
    lang: Lang = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Get a file of a version: its public view, JSON-LD, proof of logging or a print; the bundle, if it is open to all.

    View, JSON-LD and proof never change. The logo is that of its tenant.
    """
    language = choose_language(request, lang)
    passport = await _find(request, passport_id, passport_version_id, language)
    if file == "logo.png":
        logo = await load_logo(request, passport_id, find_site(request).tenant)
        return serve_bytes(logo, "image/png", if_none_match, cache=FOR_SECONDS)
    if file == "bundle.zip":
        content = await load_open_bundle(request, passport_id, passport_version_id, find_site(request).tenant)
        return serve_bytes(content, "application/zip", if_none_match, cache=FOR_SECONDS, headers_beside=OPEN_TO_ALL)
    if passport is None:
        battery = await _load_battery(request, passport_id)
        own = await _load_own(request, battery, passport_version_id)
        if file == "passport.pdf":
            model = await load_model_passport(request, battery, language, own.row.model_version_id)
            if model is None:
                raise PassportNotPublic
            return await _answer_print(request, model, own, language, if_none_match)
        if file != "view.json":
            raise NotFound("a battery has this file at its model", fix="ask for it at the address of the model")
        return serve_bytes(own.view, MEDIA_TYPES["view"], if_none_match, cache=FOR_EVER, headers_beside=OPEN_TO_ALL)
    if file == "passport.pdf":
        return await _answer_print(request, passport, None, language, if_none_match)
    version = passport.version
    stored, media_type = {
        "view.json": (version.view, MEDIA_TYPES["view"]),
        "passport.jsonld": (version.json_ld, MEDIA_TYPES["json_ld"]),
        "passport.tlog-proof": (
            None if version.log_proof is None else version.log_proof.encode(),
            "text/plain; charset=utf-8",
        ),
    }[file]
    if stored is None:
        raise NotFound(f"this version has no {file} yet", fix="ask again in a few seconds")
    return serve_bytes(stored, media_type, if_none_match, cache=FOR_EVER, headers_beside=OPEN_TO_ALL)


@routes.open("/p/{passport_id}", method="OPTIONS", include_in_schema=False, status=204)
async def list_public_methods(passport_id: IdOf[PassportId]) -> Response:  # noqa: ARG001 (part of the path)
    """Say which methods and headers other pages may use."""
    return Response(status_code=204, headers=METHOD_HEADERS)


@routes.open("/page-assets/{name}", include_in_schema=False, response_class=Response)
async def get_page_asset(name: str, if_none_match: IfNoneMatch = None) -> Response:
    """Get a file that pages load. Its name has its hash, so it never changes."""
    asset = find_asset(name)
    if asset is None:
        raise NotFound("there is no such file", fix="load the page again")
    return serve_bytes(asset.content, asset.media_type, if_none_match, cache=FOR_EVER)


@routes.open("/verify", include_in_schema=False, response_class=Response)
async def get_verifier(request: Request, lang: Lang = None, if_none_match: IfNoneMatch = None) -> Response:
    """Get the page on which anyone checks a view or a bundle. Nothing is uploaded."""
    language = choose_language(request, lang)
    keys = json.dumps(json.loads(await load_keys(request)), indent=1)
    links = PageLinks("/verify", "", "", "", KEYS_PATH, "", "/verify", ASSETS_PATH)
    return serve_html(render_verifier(language, links, list_translations(request), keys), language, if_none_match)


async def _find(
    request: Request,
    passport_id: PassportId,
    version: PassportVersionId | None,
    language: str,
    *,
    with_before: bool = False,
) -> RequestedPassport | None:
    versions: PublicVersions = request.app.state.public_versions
    service: Service = request.app.state.service
    tenant = find_site(request).tenant
    return await versions.load(service, passport_id, version, language, only_tenant=tenant, with_before=with_before)


async def _answer_print(
    request: Request,
    passport: RequestedPassport,
    own: OwnPassport | None,
    language: Language,
    if_none_match: str | None,
) -> Response:
    """The passport as a PDF. What became of it may change, so it is kept for seconds."""
    prints: PrintedPassports = request.app.state.printed_passports
    shown, version, revoked_at = passport.version.passport, passport.row.passport_version_id, passport.row.revoked_at
    if own is not None:
        shown, version, revoked_at = own.disclose(passport.version), own.row.passport_version_id, None
    key = PrintKey(version, language, shown.waived, revoked_at)
    content = await prints.print(key, shown, passport.catalogue)
    return serve_bytes(content, "application/pdf", if_none_match, cache=FOR_SECONDS, headers_beside=OPEN_TO_ALL)


async def _load_battery(request: Request, battery_id: UUID) -> PublicItem:
    service: Service = request.app.state.service
    async with service.database.plain() as conn:
        battery = await public_passports.find_battery(conn, battery_id, find_site(request).tenant)
    if battery is None:
        raise PassportNotPublic
    return battery


async def _load_own(request: Request, battery: PublicItem, version: PassportVersionId) -> OwnPassport:
    own = await load_own_passport(request, battery, version)
    if own is None:
        raise PassportNotPublic
    return own


async def _redirect_to_day(
    request: Request, site: PublicSite, passport_id: PassportId, day: date, lang: str | None
) -> Response:
    """Lead to the version of a passport, or of a battery's, that counted when a day ended."""
    versions: PublicVersions = request.app.state.public_versions
    service: Service = request.app.state.service
    version = await versions.find_version_on(service, passport_id, day, only_tenant=site.tenant)
    if version is None:
        async with service.database.plain() as conn:
            battery = await public_passports.find_battery(conn, passport_id, site.tenant)
        own = None if battery is None else await load_own_passport(request, battery)
        moment = get_end_of_day(day)
        version = next((row.passport_version_id for row in own.rows if row.issued_at <= moment), None) if own else None
    if version is None:
        raise NotFound("no version of this passport was in force on that day", fix="choose a later day")
    query = "" if lang is None else f"?lang={lang}"
    headers = {"Location": f"{site.root}/p/{passport_id}/v/{version}{query}", "Cache-Control": FOR_SECONDS}
    return Response(status_code=307, headers={**OPEN_TO_ALL, **headers})
