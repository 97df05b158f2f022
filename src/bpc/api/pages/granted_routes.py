"""/v1/granted: what programs do with the code of a view grant. It is sent where others send an API key.

GET  /v1/granted                          what the grant says
POST /v1/granted:accept-terms             accept its terms, which comes before the first read
GET  /v1/granted/passports/{id}/view      the view of a passport or a battery; each read goes on record
GET  /v1/granted/passports/{id}/pdf       the same for people
GET  /v1/granted/passports/{id}/bundle    all that a passport was made of, where its issuer opened bundles to grantees
POST /v1/granted:delegate                 hand on a part of it, if it says so
"""

import asyncio
from typing import Annotated, Final, Literal

from fastapi import Depends, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bpc.api.access.grantees import NO_STORE, Grantee, accept_terms
from bpc.api.http.etag import JSON
from bpc.api.http.models import TIME_FORMS, Id, IdOf, Moment, RequestBody, ResponseBody, SentMoment, Text
from bpc.api.http.request_context import Service
from bpc.api.http.routing import RouteFamily
from bpc.api.pages.granted_versions import load_granted, record_shown
from bpc.api.pages.page_settings import BundleNotOpen, load_bundle_for
from bpc.api.pages.printed_passports import print_passport
from bpc.core.formats.ids import BatteryId, PassportId, PassportVersionId, ViewGrantId
from bpc.core.view_grants import GrantAudience, GrantBounds, GrantScope
from bpc.printing.web_page import choose_page_language
from bpc.storage.access import view_grants
from bpc.storage.access.view_grants import ViewGrantRow

routes = RouteFamily("Granted views")

PDF: Final = "application/pdf"
ZIP: Final = "application/zip"
Lang = Annotated[
    Literal["en", "de", "fr", "es", "it", "pl"] | None, Query(description="The language of the PDF; English without.")
]
OlderVersion = Annotated[
    IdOf[PassportVersionId] | None, Query(description="A version that was in force; without it, the one that is.")
]


class OwnGrant(ResponseBody):
    """What a grant says to who has its code."""

    view_grant_id: Id
    grantee: str = Field(examples=["Example Recycling"])
    audience: GrantAudience = Field(examples=["interest"])
    scope: GrantScope = Field(description="ITEM: one battery. MODEL: a passport and its batteries. ALL: everything.")
    passport_id: Id | None
    battery_id: Id | None
    terms: str = Field(description="To be accepted before the first read.")
    terms_accepted_at: Moment | None
    may_delegate: bool
    expires_at: Moment


class NewDelegate(RequestBody):
    grantee: Text = Field(description="Who gets it.", examples=["Example Dismantling, hall 2"])
    scope: GrantScope = Field(description="As far as your own grant, or less.")
    passport_id: IdOf[PassportId] | None = Field(None, description="With the scope MODEL: its passport.")
    battery_id: IdOf[BatteryId] | None = Field(None, description="With the scope ITEM: the battery.")
    expires_at: SentMoment = Field(description=f"When it ends: not later than your own grant. {TIME_FORMS}")


class IssuedDelegate(OwnGrant):
    """A new delegate with its code, which is shown only once."""

    code: str = Field(description="Shown only once; only its hash is stored.", examples=["bpg_4fTzQ0aLw9_…"])


async def _get_grantee(request: Request) -> Grantee:  # async: FastAPI runs other dependencies in threads
    grantee: Grantee = request.state.grantee
    return grantee


CurrentGrantee = Annotated[Grantee, Depends(_get_grantee)]


@routes.granted("/v1/granted")
async def get_own_grant(grantee: CurrentGrantee, response: Response) -> OwnGrant:
    """Get what the grant of this code says."""
    response.headers.update(NO_STORE)
    return OwnGrant(**_list_members(grantee, grantee.grant))


@routes.granted("/v1/granted:accept-terms", method="POST")
async def accept_grant_terms(request: Request, grantee: CurrentGrantee, response: Response) -> OwnGrant:
    """Accept the terms of the grant of this code. Doing it again changes nothing."""
    response.headers.update(NO_STORE)
    return OwnGrant(**_list_members(grantee, await accept_terms(request, grantee)))


@routes.granted("/v1/granted/passports/{passport_id}/view", media_type=JSON)
async def get_granted_view(
    request: Request, passport_id: Id, grantee: CurrentGrantee, version: OlderVersion = None
) -> Response:
    """Get what the grantee may see of a passport, or of a battery with this id, as canonical JSON.

    It is a BPC-VIEW-1, or a BPC-ITEM-VIEW-1 of a battery, which `bpc verify` checks. The read is recorded before the
    answer is sent, and the issuer sees it.
    """
    granted_passport = await load_granted(request, grantee, passport_id, "en", version)
    await record_shown(request, grantee, granted_passport, "view")
    return Response(granted_passport.view, media_type=JSON, headers=NO_STORE)


@routes.granted("/v1/granted/passports/{passport_id}/pdf", media_type=PDF)
async def get_granted_print(
    request: Request, passport_id: Id, grantee: CurrentGrantee, version: OlderVersion = None, lang: Lang = None
) -> Response:
    """Get the same as a PDF. The read is recorded before the answer is sent."""
    language = choose_page_language(lang, ())
    granted_passport = await load_granted(request, grantee, passport_id, language, version)
    service: Service = request.app.state.service
    passport = granted_passport.passport
    async with service.heavy_slots.take(grantee.tenant_id):
        content = await asyncio.to_thread(
            print_passport, passport.version.passport, language, passport.catalogue, passport.row.revoked_at
        )
    await record_shown(request, grantee, granted_passport, "pdf", content)
    return Response(content, media_type=PDF, headers=NO_STORE)


@routes.granted("/v1/granted/passports/{passport_id}/bundle", media_type=ZIP)
async def get_granted_bundle(
    request: Request, passport_id: Id, grantee: CurrentGrantee, version: OlderVersion = None
) -> Response:
    """Get the bundle of a model's passport, if its issuer opened bundles to grantees of this audience.

    It holds all that the passport was made of, more than the audience of the grant sees. The read is recorded first.
    """
    granted_passport = await load_granted(request, grantee, passport_id, "en", version)
    service: Service = request.app.state.service
    if granted_passport.subject.battery_id is not None:
        raise BundleNotOpen
    content = await load_bundle_for(
        service,
        grantee.tenant_id,
        granted_passport.subject.passport_id,
        granted_passport.version_id,
        grantee.grant.audience,
        slots=service.heavy_slots,
    )
    await record_shown(request, grantee, granted_passport, "bundle", content)
    return Response(content, media_type=ZIP, headers=NO_STORE)


@routes.granted("/v1/granted:delegate", method="POST", status=201)
async def delegate_own_grant(
    request: Request, grantee: CurrentGrantee, response: Response, body: NewDelegate
) -> IssuedDelegate:
    """Hand on a part of the grant of this code, if it may be delegated. A delegate ends with the grant at the latest.

    The issuer sees it, and revokes it together with yours.
    """
    service: Service = request.app.state.service
    bounds = GrantBounds(
        scope=body.scope, expires_at=body.expires_at, passport_id=body.passport_id, battery_id=body.battery_id
    )
    async with service.database.tenant(grantee.tenant_id) as conn:
        new_grant = await view_grants.delegate_grant(
            conn,
            grantee.tenant_id,
            ViewGrantId(grantee.grant.view_grant_id),
            bounds,
            grantee=body.grantee,
            pepper=service.pepper,
            now=request.state.now,
        )
    response.headers.update(NO_STORE)
    return IssuedDelegate(**_list_members(grantee, new_grant.grant), code=new_grant.code.text)


def _list_members(grantee: Grantee, grant: ViewGrantRow) -> dict[str, object]:
    names = [name for name in OwnGrant.model_fields if name != "terms"]
    return {"terms": grantee.terms, **{name: getattr(grant, name) for name in names}}
