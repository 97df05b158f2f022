"""/v1/approvals, /v1/tenant/four-eyes: actions that a second person confirms, where a tenant says so."""

import json
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import Field
from starlette.requests import Request

from bpc.api.access.auth import authorise, is_authorised, require_allowed
from bpc.api.http.approval_requests import answer_stored_request
from bpc.api.http.models import Id, IdOf, LongText, Moment, Page, Paging, RequestBody, ResponseBody
from bpc.api.http.request_context import Context, RequestContext
from bpc.api.http.routing import RouteFamily
from bpc.core.errors import Conflict
from bpc.core.formats.ids import ApprovalId
from bpc.core.four_eyes import PERMISSION_BY_ACTION, SWITCHABLE_ACTIONS, SwitchableAction
from bpc.core.policies import Resource
from bpc.storage.access import approvals, tenants_and_actors
from bpc.storage.access.api_requests import Caller
from bpc.storage.access.approvals import ApprovalRow, ApprovalStatus

routes = RouteFamily("Approvals", resource="Approval")

DECIDE: Final = "approval:decide"
# Whoever could do it may also confirm it.
OTHERS: Final = tuple(sorted(set(PERMISSION_BY_ACTION.values())))


class Approval(ResponseBody):
    approval_id: Id
    action: str = Field(examples=["revoke"])
    permission: str = Field(description="Who decides needs it too.", examples=["passport:revoke"])
    method: str = Field(examples=["POST"])
    path: str = Field(description="The request that waits.")
    requested_by: Id
    requested_at: Moment
    expires_at: Moment
    status: ApprovalStatus = Field(description="PENDING until somebody decides.")
    decided_by: Id | None
    decided_at: Moment | None


class ApprovedRequest(ResponseBody):
    approval_id: Id
    status: Literal["APPROVED"] = "APPROVED"
    answer_status: int = Field(description="The status of the answer of the request.", examples=[200])
    answer: Any = Field(description="The answer of the request. A secret in it is shown only here.", examples=[{}])


class ApprovalRejection(RequestBody):
    reason: LongText = Field(examples=["The supplier has sent a correction."])


class RequesterUnable(Conflict):
    """Who made the request could not make it any more."""

    def __init__(self, permission: str) -> None:
        super().__init__(
            f"who made this request is no longer active, or may no longer do what needs `{permission}`",
            fix="reject it, and have somebody else make the request",
        )


@routes.read("/v1/approvals", permission=DECIDE, alternatives=OTHERS)
async def list_approvals(ctx: Context, page: Paging) -> Page[Approval]:
    """List requests that wait for a second person or were decided, newest first."""
    rows = await approvals.list_approvals(ctx.conn, ctx.tenant, page.query)
    return page.build_page(rows, Approval)


@routes.read("/v1/approvals/{approval_id}", permission=DECIDE, alternatives=OTHERS)
async def get_approval(ctx: Context, approval_id: IdOf[ApprovalId]) -> Approval:
    """Get a request that waits for a second person or was decided."""
    return Approval.model_validate(await approvals.get_approval(ctx.conn, ctx.tenant, approval_id))


@routes.write("/v1/approvals/{approval_id}:approve", permission=DECIDE, alternatives=OTHERS, errors=("CONFLICT",))
async def approve_request(ctx: Context, request: Request, approval_id: IdOf[ApprovalId]) -> ApprovedRequest:
    """Confirm a request: it is done now, in your name and with your permissions. Nobody confirms their own request.

    Who made it must still be active and have the permission.
    """
    row = await approvals.lock_pending(ctx.conn, ctx.tenant, approval_id, ctx.act.at)
    if row.requested_by == ctx.caller.actor_id:
        raise Conflict("you made this request yourself", fix="ask another holder of the permission to confirm it")
    require_allowed(ctx, request, row.permission, Resource(type="Approval", id=approval_id))
    requester = await _load_requester(ctx, row)
    response = await answer_stored_request(request, row, lambda each, route: _authorise(ctx, requester, each, route))
    await approvals.record_approved(ctx.conn, ctx.tenant, row, status=response.status_code, act=ctx.act)
    answer = json.loads(bytes(response.body)) if response.body else None
    return ApprovedRequest(approval_id=approval_id, answer_status=response.status_code, answer=answer)


@routes.write("/v1/approvals/{approval_id}:reject", permission=DECIDE, alternatives=OTHERS, errors=("CONFLICT",))
async def reject_request(
    ctx: Context, request: Request, approval_id: IdOf[ApprovalId], body: ApprovalRejection
) -> Approval:
    """Refuse a request, or take your own back. It is never done then."""
    row = await approvals.lock_pending(ctx.conn, ctx.tenant, approval_id, ctx.act.at)
    require_allowed(ctx, request, row.permission, Resource(type="Approval", id=approval_id))
    await approvals.record_rejected(ctx.conn, ctx.tenant, row, reason=body.reason, act=ctx.act)
    return Approval.model_validate(await approvals.get_approval(ctx.conn, ctx.tenant, approval_id))


async def _authorise(ctx: RequestContext, requester: Caller, request: Request, route: Any) -> None:
    """Ask what the route itself asks, for both: a policy may have denied it since to who made the request."""
    await authorise(ctx.conn, ctx.caller, request, route.permission, route.resource)
    if not await is_authorised(ctx.conn, requester, request, route.permission, route.resource):
        raise RequesterUnable(route.permission)


async def _load_requester(ctx: RequestContext, row: ApprovalRow) -> Caller:
    """Who made the request, as a caller of now. Raises `RequesterUnable` if they are no longer active."""
    actor = await tenants_and_actors.get_actor(ctx.conn, ctx.tenant, row.requested_by)
    if not actor.is_active:
        raise RequesterUnable(row.permission)
    permissions = await tenants_and_actors.load_permissions(ctx.conn, ctx.tenant, actor.actor_id)
    return replace(
        ctx.caller,
        actor_id=actor.actor_id,
        actor_type=actor.type,
        roles=tuple(actor.roles),
        permissions=permissions,
    )


four_eyes_routes = RouteFamily("Approvals")


class FourEyes(ResponseBody):
    actions: list[str] = Field(description="Actions that wait for a second person.", examples=[["revoke"]])


class NewFourEyes(RequestBody):
    actions: Annotated[list[SwitchableAction], Field(max_length=len(SWITCHABLE_ACTIONS))] = Field(
        description="All actions that wait for a second person; an empty list switches it off.", examples=[["revoke"]]
    )


@four_eyes_routes.read("/v1/tenant/four-eyes", permission=DECIDE, alternatives=OTHERS)
async def get_four_eyes(ctx: Context) -> FourEyes:
    """Get which actions wait for a second person."""
    return FourEyes(actions=await approvals.load_four_eyes(ctx.conn, ctx.tenant))


@four_eyes_routes.write(
    "/v1/tenant/four-eyes", permission="tenant:admin", method="PUT", four_eyes="settings", errors=("CONFLICT",)
)
async def set_four_eyes(ctx: Context, body: NewFourEyes) -> FourEyes:
    """Say which actions wait for a second person. There must be two holders of each permission.

    While any is on, grants of roles, new actors and keys, policies and this setting itself need two as well.
    """
    actions = sorted(set(body.actions))
    await approvals.change_four_eyes(ctx.conn, ctx.tenant, actions, act=ctx.act)
    return FourEyes(actions=actions)
