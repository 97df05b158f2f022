"""/p/…, /verify: the public pages, and the same passports in other forms.

    GET /p/{passport_id}                     the version in force, as page, view, JSON-LD or linkset
    GET /p/{battery_id}                      the same for a single battery: the passport of its model, or that it ended
    GET /p/{passport_id}/v/{version}         one version as a page; superseded and revoked ones say so
    GET /p/{passport_id}/v/{version}/{file}  its files, which never change

Nothing here writes, needs a key or sets a cookie. The address of a passport is for its label: it never changes.
"""

import json
from typing import Annotated, Literal

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from bpc.api.http.etag import IfNoneMatch, serve_bytes
from bpc.api.http.models import IdOf
from bpc.api.http.request_context import Service
from bpc.api.http.routing import RouteFamily
from bpc.api.pages.battery_answers import answer_battery
from bpc.api.pages.negotiation import LINK_TYPES, MEDIA_TYPES, choose_form, require_form
from bpc.api.pages.passport_answers import (
    ASSETS_PATH,
    KEYS_PATH,
    answer_passport,
    choose_language,
    list_translations,
    load_keys,
    serve_html,
)
from bpc.api.pages.public_site import FOR_EVER, METHOD_HEADERS, OPEN_TO_ALL, find_site
from bpc.api.pages.public_versions import PublicVersions, RequestedPassport
from bpc.core.errors import NotFound
from bpc.core.formats.ids import PassportId, PassportVersionId
from bpc.printing.web_page import PageLinks, find_asset, render_verifier
from bpc.storage.passports import public_passports

routes = RouteFamily("Public pages")

PassportFile = Literal["view.json", "passport.jsonld", "passport.tlog-proof"]
Lang = Annotated[
    Literal["en", "de", "fr", "es", "it", "pl"] | None,
    Query(description="The language of the page; without it, the first of `Accept-Language` that there is."),
]
LinkType = Annotated[
    str | None,
    Query(alias="linkType", max_length=200, description=f"A type of link of GS1: {', '.join(LINK_TYPES)}."),
]


class PassportNotPublic(NotFound):
    def __init__(self) -> None:
        super().__init__(
            "there is no public passport with this id", fix="scan the code again, or ask whoever sold the battery"
        )


@routes.open("/p/{passport_id}", include_in_schema=False, response_class=Response, takes_any_query=True)
async def get_public_passport(
    request: Request,
    passport_id: IdOf[PassportId],
    lang: Lang = None,
    link_type: LinkType = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Get the version of a passport that is in force: as a page, a view, JSON-LD or a linkset.

    `linkType` or `Accept` say in which form. If none is in force, the last one that was, with the reason. The id may be
    that of a single battery, which has an address of the same form.
    """
    form = choose_form(request.headers.get("accept")) if link_type is None else require_form(link_type)
    site, language = find_site(request), choose_language(request, lang)
    passport = await _find(request, passport_id, None, language)
    if passport is not None:
        return await answer_passport(request, site, passport, form, language, if_none_match)
    service: Service = request.app.state.service
    async with service.database.plain() as conn:
        battery = await public_passports.find_battery(conn, passport_id, site.tenant)
    if battery is None:
        raise PassportNotPublic
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
    passport = await _load(request, passport_id, passport_version_id, language)
    return await answer_passport(request, find_site(request), passport, form, language, if_none_match)


@routes.open("/p/{passport_id}/v/{passport_version_id}/{file}", include_in_schema=False, response_class=Response)
async def get_public_file(
    request: Request,
    passport_id: IdOf[PassportId],
    passport_version_id: IdOf[PassportVersionId],
    file: PassportFile,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Get a file of a version: its public view, its JSON-LD or its proof of logging. It never changes."""
    passport = await _load(request, passport_id, passport_version_id, "en")
    version = passport.version
    content, media_type = {
        "view.json": (version.view, MEDIA_TYPES["view"]),
        "passport.jsonld": (version.json_ld, MEDIA_TYPES["json_ld"]),
        "passport.tlog-proof": (
            None if version.log_proof is None else version.log_proof.encode(),
            "text/plain; charset=utf-8",
        ),
    }[file]
    if content is None:
        raise NotFound(f"this version has no {file} yet", fix="ask again in a few seconds")
    return serve_bytes(content, media_type, if_none_match, cache=FOR_EVER, headers_beside=OPEN_TO_ALL)


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
    request: Request, passport_id: PassportId, version: PassportVersionId | None, language: str
) -> RequestedPassport | None:
    versions: PublicVersions = request.app.state.public_versions
    return await versions.load(
        request.app.state.service, passport_id, version, language, only_tenant=find_site(request).tenant
    )


async def _load(
    request: Request, passport_id: PassportId, version: PassportVersionId | None, language: str
) -> RequestedPassport:
    passport = await _find(request, passport_id, version, language)
    if passport is None:
        raise PassportNotPublic
    return passport
