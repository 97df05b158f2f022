"""Four eyes around a route: a request is tried and stored, and done when a second person confirms it.

request ─► try it, roll back ─► store it ─► 202 {approval_id}
stored request, second person ─► the same route, in the second person's transaction and name ─► its answer
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

import orjson
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Message

from bpc.api.http.request_context import RequestContext
from bpc.core.errors import Conflict
from bpc.core.formats.timestamps import format_time
from bpc.core.four_eyes import FourEyesAction, needs_two
from bpc.storage.access import approvals
from bpc.storage.access.approvals import ApprovalRow

RouteHandler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]


class _TrialEnded(Exception):
    """The trial went well, and must leave nothing behind."""


async def answer_or_ask(
    ctx: RequestContext, request: Request, action: FourEyesAction, permission: str, answer: RouteHandler
) -> Response:
    """Run the route; where its action needs two, try it, store the request and answer 202."""
    if not needs_two(action, await approvals.load_four_eyes(ctx.conn, ctx.tenant)):
        return await answer(request)
    refusal = await _try_route(ctx, request, answer)
    if refusal is not None:
        return refusal
    row = await approvals.request_approval(
        ctx.conn,
        ctx.tenant,
        action=action,
        permission=permission,
        method=request.method,
        path=request.url.path,
        content_type=request.headers.get("content-type", ""),
        body=await request.body(),
        requested_by=ctx.caller.actor_id,
        act=ctx.act,
    )
    members = {
        "approval_id": str(row.approval_id),
        "status": row.status,
        "action": row.action,
        "permission": row.permission,
        "expires_at": format_time(row.expires_at),
    }
    return Response(orjson.dumps(members), status_code=202, media_type="application/json")


async def _try_route(ctx: RequestContext, request: Request, answer: RouteHandler) -> Response | None:
    """Run the route and roll it back, so that what cannot be done is refused at once; return such an answer."""
    request.state.is_trial = True
    try:
        async with ctx.conn.transaction():
            response = await answer(request)
            if response.status_code < 300:
                _end_trial()
    except _TrialEnded:
        ctx.submitted.clear()
        return None
    finally:
        request.state.is_trial = False
    return response


def is_trial(request: Request) -> bool:
    """Whether the route is only tried: what cannot be rolled back must not be done."""
    return getattr(request.state, "is_trial", False)


def _end_trial() -> None:
    raise _TrialEnded


async def answer_stored_request(
    request: Request, row: ApprovalRow, authorise: Callable[[Request, Any], Awaitable[None]]
) -> Response:
    """Run the route of a stored request inside of `request`, whose caller confirms it."""
    scope = {
        **request.scope,
        "method": row.method,
        "path": row.path,
        "raw_path": row.path.encode(),
        "query_string": b"",
        "path_params": {},  # or the id of the approval would be taken for that of what it is about
        "headers": [(b"content-type", row.content_type.encode()), (b"content-length", str(len(row.body)).encode())],
    }
    for route in request.app.router.routes:
        match, child_scope = route.matches(scope)
        if match == Match.FULL and isinstance(route, APIRoute):
            stored_request = Request({**scope, **child_scope, "route": route}, _replay_body(row.body))
            await authorise(stored_request, route)
            return await APIRoute.get_route_handler(route)(stored_request)
    raise Conflict("this release no longer has the route of this request", fix="reject it, and send a new request")


def _replay_body(body: bytes) -> Callable[[], Awaitable[Message]]:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
