"""/v1/view-requests, /v1/view-grants: who outside of the tenant may see more of its passports, and what they read.

A grant hands out a view, so whoever makes one must have the permission for that view. Where four eyes are on, a grant
waits for a second person like a grant of a role. Revoking never waits.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, Self

from fastapi import Query
from pydantic import Field
from starlette.requests import Request

from bpc.api.access.auth import require_allowed
from bpc.api.access.battery_policies import require_grant_not_denied
from bpc.api.http.models import (
    Hash,
    Id,
    IdOf,
    LongText,
    Moment,
    Page,
    Paging,
    RequestBody,
    ResponseBody,
    SentMoment,
    Text,
)
from bpc.api.http.request_context import Context, RequestContext
from bpc.api.http.routing import RouteFamily
from bpc.core.formats.ids import BatteryId, PassportId, ViewGrantId, ViewRequestId
from bpc.core.policies import Resource
from bpc.core.view_grants import DEFAULT_VALIDITY, GrantAudience, GrantBounds, GrantScope, GrantSubject
from bpc.storage.access import tenants_and_actors, view_grants, view_requests
from bpc.storage.access.view_grants import IssuedViewGrant, NewViewGrant, ViewGrantRow
from bpc.storage.access.view_requests import ViewRequestRow, ViewRequestStatus
from bpc.storage.audit.event_search import EventRow

request_routes = RouteFamily("View grants", resource="ViewRequest")
grant_routes = RouteFamily("View grants", resource="ViewGrant")
ADMIN: Final = "access:admin"

AudienceMember = Annotated[
    GrantAudience,
    Field(
        description="Whose view it is: of persons with a legitimate interest, or of authorities.", examples=["interest"]
    ),
]
GrantState = Literal["ACTIVE", "EXPIRED", "REVOKED"]
StatusFilter = Annotated[ViewRequestStatus | None, Query(description="Only requests with this status.")]


class ViewRequest(ResponseBody):
    """What a person asked for on a public page. Their words are null if they were removed."""

    ordered_by = "requested_at"

    view_request_id: Id
    passport_id: Id
    battery_id: Id | None = Field(description="The battery, if its page was open; null for the model's.")
    audience: AudienceMember
    name: str | None = Field(description="Who asks, in their own words.", examples=["Example Recycling"])
    contact: str | None = Field(description="How to answer.", examples=["ask@recycling.example"])
    purpose: str | None = Field(description="What for.", examples=["dismantling"])
    evidence: str | None = Field(description="What shows their right to it; may be empty.", examples=["licence R-17"])
    requested_at: Moment
    status: ViewRequestStatus
    decided_by: Id | None
    decided_at: Moment | None
    reason: str | None = Field(description="Why it was rejected; for the record, the person does not see it.")

    @classmethod
    def from_row(cls, row: ViewRequestRow) -> Self:
        words = row.words
        return cls(
            view_request_id=row.view_request_id,
            passport_id=row.passport_id,
            battery_id=row.battery_id,
            audience=row.audience,
            name=None if words is None else words.name,
            contact=None if words is None else words.contact,
            purpose=None if words is None else words.purpose,
            evidence=None if words is None else words.evidence,
            requested_at=row.requested_at,
            status=row.status,
            decided_by=row.decided_by,
            decided_at=row.decided_at,
            reason=row.reason,
        )


class GrantTerms(RequestBody):
    """What every new grant says beside its scope."""

    expires_at: SentMoment | None = Field(None, description="When it ends; 90 days without it, three years at most.")
    may_delegate: bool = Field(False, description="Whether the grantee may hand on a part of it.")
    terms: LongText | None = Field(
        None, description="What the grantee must accept before the first read; without it, a standard sentence."
    )


class RequestApproval(GrantTerms):
    audience: AudienceMember | None = Field(None, description="Another audience than was asked for.")
    scope: GrantScope | None = Field(
        None, description="Without it, what was asked for: the battery, or the model with its batteries."
    )


class RequestRejection(RequestBody):
    reason: LongText = Field(examples=["No licence."])


class NewGrant(GrantTerms):
    grantee: Text = Field(description="Who gets it.", examples=["Example Recycling"])
    audience: AudienceMember
    scope: GrantScope = Field(description="ITEM: one battery. MODEL: a passport and its batteries. ALL: everything.")
    passport_id: IdOf[PassportId] | None = Field(None, description="With the scope MODEL: its passport.")
    battery_id: IdOf[BatteryId] | None = Field(None, description="With the scope ITEM: the battery.")


class GrantRevocation(RequestBody):
    reason: LongText = Field(examples=["The order has ended."])


class ViewGrant(ResponseBody):
    """Who may see the view of an audience, of what, and until when."""

    view_grant_id: Id
    grantee: str = Field(examples=["Example Recycling"])
    audience: AudienceMember
    scope: GrantScope
    passport_id: Id | None
    battery_id: Id | None
    state: GrantState
    terms: str | None = Field(description="Null: the standard sentence.")
    terms_accepted_at: Moment | None = Field(description="Null: nothing was read yet.")
    may_delegate: bool
    parent_id: Id | None = Field(description="The grant that it was delegated from.")
    view_request_id: Id | None = Field(description="The request that was approved with it.")
    code_prefix: str = Field(description="The part of its code that is not secret.", examples=["4fTzQ0aLw9"])
    created_at: Moment
    created_by: Id | None = Field(description="Null if a grantee delegated it.")
    expires_at: Moment
    revoked_at: Moment | None
    revoked_by: Id | None
    reason: str | None = Field(description="Why it was revoked.")

    @classmethod
    def from_grant(cls, grant: ViewGrantRow, ctx: RequestContext) -> Self:
        return cls(**_list_members(grant, ctx))


class IssuedGrant(ViewGrant):
    """A new grant with its code, which is shown only once."""

    code: str = Field(description="Shown only once; only its hash is stored.", examples=["bpg_4fTzQ0aLw9_…"])
    link: str | None = Field(
        description="The page that the code opens, with the code behind `#`, where no server sees it. Null for the "
        "scope ALL: the code works on the page of every passport.",
        examples=["https://passports.example/p/b3a4fefe-7d3f-4e88-9a0f-7d1c2fa0b4e4/access#bpg_…"],
    )


class GrantedView(ResponseBody):
    """A read that is on record."""

    ordered_by = "occurred_at"

    event_id: Id
    occurred_at: Moment
    passport_id: Id
    battery_id: Id | None
    passport_version_id: Id
    audience: AudienceMember
    view_sha256: Hash = Field(description="The hash of what was sent: of a page, of the view in it.")
    form: str = Field(description="`page`, `view`, `pdf` or `bundle`.", examples=["page"])

    @classmethod
    def from_event(cls, event: EventRow) -> Self:
        return cls(event_id=event.event_id, occurred_at=event.occurred_at, **event.payload)


@request_routes.read("/v1/view-requests", permission=ADMIN)
async def list_view_requests(ctx: Context, page: Paging, status: StatusFilter = None) -> Page[ViewRequest]:
    """List what people asked for on public pages, newest first."""
    rows = await view_requests.list_requests(ctx.conn, ctx.tenant, page.query, status=status)
    items, cursor = page.cut_page(rows, ViewRequest.get_position)
    return Page(items=[ViewRequest.from_row(row) for row in items], next_cursor=cursor)


@request_routes.read("/v1/view-requests/{view_request_id}", permission=ADMIN)
async def get_view_request(ctx: Context, view_request_id: IdOf[ViewRequestId]) -> ViewRequest:
    """Get what a person asked for on a public page."""
    return ViewRequest.from_row(await view_requests.get_request(ctx.conn, ctx.tenant, view_request_id))


@request_routes.write(
    "/v1/view-requests/{view_request_id}:approve",
    permission=ADMIN,
    status=201,
    four_eyes="role_grants",
    secret="view_grant_id",  # noqa: S106 (which member says whose secret it is)
    errors=("CONFLICT",),
)
async def approve_view_request(
    ctx: Context, request: Request, view_request_id: IdOf[ViewRequestId], body: RequestApproval
) -> IssuedGrant:
    """Approve a request: make a grant for who asked. Send them the link yourself: it is shown only here.

    You need the permission for the view that you grant.
    """
    row = await view_requests.lock_pending_request(ctx.conn, ctx.tenant, view_request_id)
    audience = body.audience or row.audience
    bounds = _choose_bounds(ctx, row.subject, body)
    await _require_view_permission(ctx, request, audience, None if bounds.scope == "ALL" else row.subject)
    words = row.words
    grant = NewViewGrant(
        grantee="" if words is None else words.name,
        audience=audience,
        bounds=bounds,
        terms=body.terms,
        may_delegate=body.may_delegate,
        view_request_id=view_request_id,
    )
    await view_requests.record_approved_request(ctx.conn, ctx.tenant, view_request_id, act=ctx.act)
    return await _issue(ctx, request, grant, row.subject)


@request_routes.write("/v1/view-requests/{view_request_id}:reject", permission=ADMIN, errors=("CONFLICT",))
async def reject_view_request(
    ctx: Context, view_request_id: IdOf[ViewRequestId], body: RequestRejection
) -> ViewRequest:
    """Reject a request. Nobody is told: answer the person yourself if you want to."""
    row = await view_requests.reject_view_request(
        ctx.conn, ctx.tenant, view_request_id, reason=body.reason, act=ctx.act
    )
    return ViewRequest.from_row(row)


@request_routes.write("/v1/view-requests/{view_request_id}:remove-words", permission=ADMIN, errors=("CONFLICT",))
async def remove_view_request_words(ctx: Context, view_request_id: IdOf[ViewRequestId]) -> ViewRequest:
    """Remove what a person wrote, of a request that was decided. The name in a grant stays."""
    return ViewRequest.from_row(await view_requests.remove_words(ctx.conn, ctx.tenant, view_request_id, act=ctx.act))


@grant_routes.write(
    "/v1/view-grants",
    permission=ADMIN,
    status=201,
    four_eyes="role_grants",
    secret="view_grant_id",  # noqa: S106 (as above)
)
async def create_view_grant(ctx: Context, request: Request, body: NewGrant) -> IssuedGrant:
    """Grant somebody the view of an audience. The answer is the only place where the code is shown.

    You need the permission for the view that you grant.
    """
    bounds = GrantBounds(
        scope=body.scope,
        expires_at=body.expires_at or ctx.act.at + DEFAULT_VALIDITY,
        passport_id=body.passport_id,
        battery_id=body.battery_id,
    )
    subject = await view_grants.load_subject(ctx.conn, ctx.tenant, bounds)
    await _require_view_permission(ctx, request, body.audience, subject)
    grant = NewViewGrant(
        grantee=body.grantee,
        audience=body.audience,
        bounds=bounds,
        terms=body.terms,
        may_delegate=body.may_delegate,
    )
    return await _issue(ctx, request, grant, subject)


@grant_routes.read("/v1/view-grants", permission=ADMIN)
async def list_view_grants(ctx: Context, page: Paging) -> Page[ViewGrant]:
    """List grants, newest first, without their codes."""
    rows = await view_grants.list_grants(ctx.conn, ctx.tenant, page.query)
    items, cursor = page.cut_page(rows, ViewGrant.get_position)
    return Page(items=[ViewGrant.from_grant(row, ctx) for row in items], next_cursor=cursor)


@grant_routes.read("/v1/view-grants/{view_grant_id}", permission=ADMIN)
async def get_view_grant(ctx: Context, view_grant_id: IdOf[ViewGrantId]) -> ViewGrant:
    """Get a grant without its code."""
    return ViewGrant.from_grant(await view_grants.get_grant(ctx.conn, ctx.tenant, view_grant_id), ctx)


@grant_routes.read("/v1/view-grants/{view_grant_id}/reads", permission=ADMIN)
async def list_granted_reads(ctx: Context, page: Paging, view_grant_id: IdOf[ViewGrantId]) -> Page[GrantedView]:
    """List what was read under a grant, newest first. Each read was recorded before it was answered."""
    rows: Sequence[EventRow] = await view_grants.list_reads(ctx.conn, ctx.tenant, view_grant_id, page.query)
    items, cursor = page.cut_page(rows, GrantedView.get_position)
    return Page(items=[GrantedView.from_event(row) for row in items], next_cursor=cursor)


@grant_routes.write("/v1/view-grants/{view_grant_id}:revoke", permission=ADMIN, errors=("CONFLICT",))
async def revoke_view_grant(ctx: Context, view_grant_id: IdOf[ViewGrantId], body: GrantRevocation) -> ViewGrant:
    """Revoke a grant and what was delegated from it. The next read is refused."""
    row = await view_grants.revoke_grant(ctx.conn, ctx.tenant, view_grant_id, reason=body.reason, act=ctx.act)
    return ViewGrant.from_grant(row, ctx)


async def _require_view_permission(
    ctx: RequestContext, request: Request, audience: GrantAudience, subject: GrantSubject | None
) -> None:
    """Nobody hands out a view that they may not see, or that a policy keeps from them; without a subject, all views."""
    require_allowed(ctx, request, f"view:{audience}", Resource(type="ViewGrant"))
    await require_grant_not_denied(ctx, request, subject, f"view:{audience}", "passport:read")


def _choose_bounds(ctx: RequestContext, subject: GrantSubject, body: RequestApproval) -> GrantBounds:
    scope = body.scope or ("MODEL" if subject.battery_id is None else "ITEM")
    return GrantBounds(
        scope=scope,
        expires_at=body.expires_at or ctx.act.at + DEFAULT_VALIDITY,
        passport_id=subject.passport_id if scope == "MODEL" else None,
        battery_id=subject.battery_id if scope == "ITEM" else None,
    )


async def _issue(
    ctx: RequestContext, request: Request, grant: NewViewGrant, subject: GrantSubject | None
) -> IssuedGrant:
    new_grant = await view_grants.create_grant(ctx.conn, ctx.tenant, grant, pepper=ctx.service.pepper, act=ctx.act)
    host = await tenants_and_actors.find_public_host(ctx.conn, ctx.tenant)
    return show_issued(new_grant, ctx, locate_page(request, ctx, host, subject))


def locate_page(request: Request, ctx: RequestContext, host: str | None, subject: GrantSubject | None) -> str | None:
    """The page where a code is used: under the tenant's own domain, if it has one."""
    if subject is None:
        return None
    root = ctx.service.settings.public_url or f"{request.url.scheme}://{request.url.netloc}"
    if host is not None:
        root = f"{root.partition('://')[0]}://{host}"
    return f"{root}/p/{subject.battery_id or subject.passport_id}/access"


def show_issued(new_grant: IssuedViewGrant, ctx: RequestContext, page: str | None) -> IssuedGrant:
    code = new_grant.code.text
    link = None if page is None else f"{page}#{code}"
    return IssuedGrant(**_list_members(new_grant.grant, ctx), code=code, link=link)


def _list_members(grant: ViewGrantRow, ctx: RequestContext) -> dict[str, Any]:
    state: GrantState = "ACTIVE"
    if grant.revoked_at is not None:
        state = "REVOKED"
    elif grant.expires_at <= ctx.act.at:
        state = "EXPIRED"
    names = [name for name in ViewGrant.model_fields if name != "state"]
    return {"state": state, **{name: getattr(grant, name) for name in names}}
