"""Who calls and whether they may: authentication, the rate limit, authorisation; in this order, before anything else.

1. a key in `Authorization: Bearer …`, well formed                            else UNAUTHORIZED
2. a key we know: prefix found, hash equal (any pepper, in constant time)     else UNAUTHORIZED
3. not revoked                                                                else API_KEY_REVOKED, on record
4. not expired, its actor and tenant active                                   else UNAUTHORIZED
5. a token in its bucket, where the limit is on                               else RATE_LIMITED
6. a policy or a role allows the permission of the route                      else FORBIDDEN, on record

The first needs no database: who has no key takes no connection. All of it comes before the body is read.

What is to be on record is noted on the request and written by `on_record` once its transaction has ended: whoever
waits for a connection must not hold one.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from math import ceil
from typing import Any, ClassVar
from uuid import UUID

from starlette.requests import Request

from bpc.api.service import Service
from bpc.core.apikeys import ApiKey, Unauthorized
from bpc.core.digest import sha256
from bpc.core.errors import Refusal
from bpc.core.peppers import Peppers, pepper_id
from bpc.core.policies import Asked, Decision, Resource, asks_for_sku, decide
from bpc.db import callers, products, rate_limits
from bpc.db.callers import Caller, Peppered
from bpc.db.connection import Connection
from bpc.db.database import bound
from bpc.logs import logger

NOBODY = sha256(b"")
log = logger(__name__)


class KeyRevoked(Refusal):
    """The key was right once."""

    code = "API_KEY_REVOKED"

    def __init__(self) -> None:
        super().__init__("this API key was revoked", fix="use another, or ask an administrator for a new one")


class RateLimited(Refusal):
    """Too many requests with one key."""

    code = "RATE_LIMITED"

    def __init__(self, seconds: int) -> None:
        super().__init__(
            "too many requests with this key",
            fix="wait as long as Retry-After says, then send it again",
            details={"retry_after": seconds},
        )


class Forbidden(Refusal):
    """The caller is known, and may not."""

    code: ClassVar[str] = "FORBIDDEN"

    def __init__(self, permission: str, decision: Decision) -> None:
        details: dict[str, object] = {"permission": permission, "reason": decision.reason}
        if decision.policy is not None:
            details["policy_id"] = str(decision.policy.policy_id)
            details["policy_version"] = decision.policy.version
        super().__init__(
            f"this needs `{permission}`, and {decision.reason}", fix="ask an administrator", details=details
        )


def presented(service: Service, request: Request) -> ApiKey:
    """The key that the request carries; whether it is anybody's is not known yet."""
    try:
        return _key(request)
    except Unauthorized as refused:
        _count(service, refused)
        raise


async def authenticated(service: Service, conn: Connection, request: Request, key: ApiKey, now: datetime) -> Caller:
    """The caller, or the refusal of the first thing that is wrong with its key."""
    caller = await callers.find(conn, key.prefix)
    # For a key that nobody has, comparing takes as long as for one that is known.
    pepper = service.peppers.behind(key, NOBODY if caller is None else caller.key_hash)
    if caller is None or pepper is None:
        unknown = _unknown()
        _count(service, unknown)
        raise unknown
    if caller.revoked_at is not None:
        _to_be_on_record(request, caller, _about(request, request.scope["route"].permission, "API_KEY_REVOKED"))
        raise KeyRevoked
    if not caller.is_active or (caller.expires_at is not None and caller.expires_at <= now):
        ended = Unauthorized(
            "this API key is no longer valid", fix="use another, or ask an administrator for a new one"
        )
        _count(service, ended)
        raise ended
    return replace(caller, to_store=_to_store(service.peppers, key, pepper))


def _to_store(peppers: Peppers, key: ApiKey, pepper: bytes) -> Peppered | None:
    """What the key's row should say. What hangs on the pepper to come was written by those who use it already."""
    if pepper == peppers.next:
        return None
    return Peppered(key.hash(peppers.in_use), pepper_id(peppers.in_use))


def _count(service: Service, refused: Unauthorized) -> None:
    service.metrics.unauthorized.inc()
    log.warning("not authenticated", reason=refused.says)


def _key(request: Request) -> ApiKey:
    given = request.headers.getlist("authorization")
    scheme, _, text = (given[0] if len(given) == 1 else "").partition(" ")
    if scheme.lower() != "bearer" or not text:
        raise Unauthorized("there is no API key", fix="send it in the header `Authorization: Bearer bpc_…`")
    return ApiKey.parse(text)


def _unknown() -> Unauthorized:
    return Unauthorized("this API key is not known", fix="use another, or ask an administrator for a new one")


async def within_limit(service: Service, conn: Connection, caller: Caller, request: Request) -> None:
    """Take a token from the key's bucket, where the limit is on. The answer's headers say how many are left."""
    if not service.settings.rate_limit_enabled:
        return
    burst, rate = service.settings.rate_limit_burst, service.settings.rate_limit_rps
    taken = await rate_limits.take(conn, caller.tenant_id, caller.key_hash, burst=burst, rate=rate)
    request.state.answer_headers = {
        "RateLimit-Limit": str(burst),
        "RateLimit-Remaining": str(int(taken.left)),
        "RateLimit-Reset": str(ceil((burst - taken.left) / rate)),
    }
    if taken.wait > 0:
        service.metrics.limited.inc()
        raise RateLimited(max(1, ceil(taken.wait)))


async def authorised(conn: Connection, caller: Caller, request: Request, permission: str, resource: str | None) -> None:
    """Return if the caller may; otherwise `Forbidden` is raised, and the denial will be on record.

    `conn` is not in a transaction: only where a policy asks for a SKU, one is opened to look it up.
    """
    asked_for = None if resource is None else await named(conn, caller, resource, request.path_params)
    decision = decision_on(caller, permission, asked_for, request.state.now)
    if not decision.allowed:
        raise denied(caller, request, permission, decision)


def denied(caller: Caller, request: Request, permission: str, decision: Decision) -> Forbidden:
    """The refusal to raise; it will be on record."""
    about = _about(request, permission, decision.reason)
    if (policy := decision.policy) is not None:
        about |= {
            "policy_id": str(policy.policy_id),
            "policy_version_id": str(policy.policy_version_id),
            "policy_version": policy.version,
        }
    _to_be_on_record(request, caller, about)
    return Forbidden(permission, decision)


def _to_be_on_record(request: Request, caller: Caller, about: Mapping[str, object]) -> None:
    noted: list[tuple[Caller, Mapping[str, object]]] = request.scope["state"].setdefault("denied", [])
    noted.append((caller, about))


async def on_record(service: Service, request: Request) -> None:
    """Write the denials that were noted; to be called while the request holds no connection."""
    for caller, about in request.scope["state"].pop("denied", ()):
        await service.denials.note(service.database, caller.tenant_id, caller.actor_id, request.state.now, about)


def decision_on(caller: Caller, permission: str, resource: Resource | None, now: datetime) -> Decision:
    """Whether a policy or a role of the caller allows it."""
    asked = Asked(
        actor_id=caller.actor_id,
        actor_type=caller.actor_type,
        roles=caller.roles,
        permission=permission,
        resource=resource,
        now=now,
    )
    return decide(asked, caller.permissions, caller.policies)


async def named(conn: Connection, caller: Caller, kind: str, path: Mapping[str, Any]) -> Resource:
    """The resource a route names by its first id, with its SKU where a policy asks for that."""
    found = next((UUID(text) for text in path.values() if _is_id(text)), None)
    sku = None
    if found is not None and asks_for_sku(caller.policies):
        async with bound(conn, caller.tenant_id):
            sku = await products.sku_of(conn, caller.tenant_id, kind, found)
    return Resource(type=kind, id=found, sku=sku)


def _is_id(text: object) -> bool:
    try:
        return isinstance(text, str) and UUID(text) is not None
    except ValueError:
        return False


def _about(request: Request, permission: str, reason: str) -> dict[str, object]:
    return {
        "method": request.method,
        "route": request.scope["route"].path,
        "permission": permission,
        "reason": reason,
    }
