"""Authentication, the rate limit and authorisation: in this order, before the body is read. Then what a body names.

1. a key in `Authorization: Bearer …`, well formed                            else UNAUTHORIZED
2. a key we know: known prefix, equal hash (any pepper, in constant time)     else UNAUTHORIZED
3. not revoked                                                                else API_KEY_REVOKED, recorded
4. not expired, its actor and tenant active                                   else UNAUTHORIZED
5. a token in its bucket, where the limit is on                               else RATE_LIMITED
6. a policy or a role allows the permission of the route                      else FORBIDDEN, recorded

The first check needs no database: a caller without a key takes no connection.

A page of the console calls routes as the actor of its session (bpc.api.console.calls): then the session is checked in
place of the key. No request from outside can name a session here: it stands beside the request, in its scope.

Denials are collected on the request. `write_denials` writes them when the request's transaction has ended: a request
that waits for a connection must not hold one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from math import ceil
from typing import Any, ClassVar, Final
from uuid import UUID

from starlette.requests import HTTPConnection, Request

from bpc.api.access.admission import find_address
from bpc.api.access.caller_memory import Credential
from bpc.api.access.tenant_limits import RateLimited
from bpc.api.http.request_context import RequestContext, Service
from bpc.core.api_keys import ApiKeySecret, Peppers, Unauthorized, compute_pepper_id
from bpc.core.console_access import SessionOver, SessionSecret
from bpc.core.errors import Refusal
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import PassportVersionId
from bpc.core.policies import AccessRequest, Decision, Resource, decide_access, depends_on_sku
from bpc.runtime.logs import get_logger
from bpc.storage.access import api_requests, console_sessions
from bpc.storage.access.api_requests import Caller, PepperedHash, TokenBucketState
from bpc.storage.access.console_sessions import SessionCaller
from bpc.storage.connection import Connection
from bpc.storage.database import begin_tenant_transaction
from bpc.storage.passports import passport_sources, passports

NO_KEY_HASH: Final = sha256(b"")
SESSION_IN_SCOPE: Final = "console_session"
OTHER_KEY: Final = "use another, or ask an administrator for a new one"
log = get_logger(__name__)


class KeyRevoked(Refusal):
    """The key is known, but it was revoked."""

    code = "API_KEY_REVOKED"

    def __init__(self) -> None:
        super().__init__("this API key was revoked", fix=OTHER_KEY)


class Forbidden(Refusal):
    """The caller is known but not allowed."""

    code: ClassVar[str] = "FORBIDDEN"

    def __init__(self, permission: str, decision: Decision) -> None:
        details: dict[str, object] = {"permission": permission, "reason": decision.reason}
        if decision.policy is not None:
            details["policy_id"] = str(decision.policy.policy_id)
            details["policy_version"] = decision.policy.version
        super().__init__(
            f"this needs `{permission}`, and {decision.reason}", fix="ask an administrator", details=details
        )


def read_credential(service: Service, request: Request) -> Credential:
    """Read the API key, or take the session of the page that calls. Whether it exists is checked later."""
    session: SessionSecret | None = request.scope["state"].get(SESSION_IN_SCOPE)
    if session is not None:
        return session
    with _count_unauthorized(service):
        values = request.headers.getlist("authorization")
        scheme, _, text = (values[0] if len(values) == 1 else "").partition(" ")
        if scheme.lower() != "bearer" or not text:
            raise Unauthorized("the request has no API key", fix="send it in the header `Authorization: Bearer bpc_…`")
        return ApiKeySecret.parse(text)


async def authenticate(service: Service, conn: Connection, request: Request, key: Credential, now: datetime) -> Caller:
    """Return the caller; raise the first thing that is wrong with the key or the session."""
    if isinstance(key, SessionSecret):
        return await authenticate_session(service, conn, request, key, now)
    caller = await api_requests.find_caller(conn, key.prefix)
    # An unknown key is compared too, so that the answer takes as long as for a known one.
    pepper = service.peppers.find_matching(key, NO_KEY_HASH if caller is None else caller.key_hash)
    with _count_unauthorized(service):
        if caller is None or pepper is None:
            service.admission.addresses.note_failure(find_address(request.scope))
            raise Unauthorized("this API key is unknown", fix=OTHER_KEY)
        service.admission.remember_key(key, caller.tenant_id)
        request.state.meter.bill(caller.tenant_id)
        if caller.revoked_at is not None:
            permission = request.scope["route"].permission
            _queue_denial(request, caller, _describe_request(request, permission, "API_KEY_REVOKED"))
            raise KeyRevoked
        if not caller.is_active or caller.has_expired(now):
            raise Unauthorized("this API key is no longer valid", fix=OTHER_KEY)
    return replace(caller, new_hash=_rehash_key(service.peppers, key, pepper))


async def authenticate_session(
    service: Service,
    conn: Connection,
    request: HTTPConnection,
    secret: SessionSecret,
    now: datetime,
    *,
    with_old_roles: bool = False,
) -> SessionCaller:
    """Return the caller of a session. Raises `SessionOver`.

    Who signed in with a provider has roles for five minutes, until the provider is asked again for their groups;
    `with_old_roles` returns them after that, too, for whoever asks it then.
    """
    caller = await console_sessions.find_session_caller(conn, secret)
    with _count_unauthorized(service):
        if caller is None or not secret.matches(caller.key_hash):
            service.admission.addresses.note_failure(find_address(request.scope))
            raise SessionOver
        service.admission.remember_key(secret, caller.tenant_id)
        request.state.meter.bill(caller.tenant_id)
        idle = timedelta(minutes=service.settings.console_idle_minutes)
        if not caller.is_active or console_sessions.is_caller_over(caller, idle=idle, now=now):
            raise SessionOver
        if not with_old_roles and console_sessions.has_old_roles(caller, now):
            raise SessionOver
    return caller


async def record_use(conn: Connection, caller: Caller, now: datetime) -> None:
    """Write when the key or the session was last used, at most once a minute."""
    if isinstance(caller, SessionCaller):
        await console_sessions.record_session_use(conn, caller, now)
    else:
        await api_requests.record_key_use(conn, caller, now)


@contextmanager
def _count_unauthorized(service: Service) -> Iterator[None]:
    try:
        yield
    except Unauthorized as error:
        service.metrics.unauthorized.inc()
        log.warning("not authenticated", reason=error.says)
        raise


def _rehash_key(peppers: Peppers, key: ApiKeySecret, pepper: bytes) -> PepperedHash | None:
    """Return the hash with the current pepper; None if the row has the hash with the next pepper already."""
    if pepper == peppers.next:
        return None
    return PepperedHash(key.hash(peppers.in_use), compute_pepper_id(peppers.in_use))


async def take_rate_token(service: Service, conn: Connection, caller: Caller, request: Request) -> None:
    """Take a token from the key's bucket, if the limit is on. Headers of the answer say how many are left."""
    if not service.settings.rate_limit_enabled:
        return
    token = await service.rate_slices.take(conn, caller)
    _tell_rate(service, request, token)
    if token.wait > 0:
        service.metrics.limited.inc()
        raise RateLimited("requests with this key", max(1, ceil(token.wait)))


def try_take_rate_token(service: Service, caller: Caller, request: Request) -> bool:
    """Take a token that this process has, without the database; False if it has none and the limit is on."""
    if not service.settings.rate_limit_enabled:
        return True
    token = service.rate_slices.try_take(caller)
    if token is not None:
        _tell_rate(service, request, token)
    return token is not None


def _tell_rate(service: Service, request: Request, token: TokenBucketState) -> None:
    burst, rate = service.rate_slices.burst, service.rate_slices.rate
    request.state.answer_headers = {
        "RateLimit-Limit": str(burst),
        "RateLimit-Remaining": str(int(token.left)),
        "RateLimit-Reset": str(ceil((burst - token.left) / rate)),
    }


async def authorise(
    conn: Connection,
    caller: Caller,
    request: Request,
    permission: str,
    resource: str | None,
    alternatives: Sequence[str] = (),
) -> None:
    """Raise `Forbidden` unless the caller may do this. The denial will be recorded.

    One of the `alternatives` opens the route too, unless a policy denies the permission itself. `conn` is not in a
    transaction; one is opened only if a policy depends on a SKU.
    """
    named_resource = None if resource is None else await _find_resource(conn, caller, resource, request.path_params)
    denial = _find_denial(caller, request, permission, named_resource, alternatives)
    if denial is not None:
        raise note_denial(caller, request, permission, denial)


def may_from_memory(
    caller: Caller, request: Request, permission: str, resource: str | None, alternatives: Sequence[str] = ()
) -> bool:
    """Whether a caller who is known may do this, as far as that can be told without the database."""
    named_resource = None
    if resource is not None:
        if depends_on_sku(caller.policies):
            return False
        named_resource = Resource(type=resource, id=_find_resource_id(request.path_params))
    return _find_denial(caller, request, permission, named_resource, alternatives) is None


def _find_denial(
    caller: Caller, request: Request, permission: str, resource: Resource | None, alternatives: Sequence[str]
) -> Decision | None:
    decision = decide_for(caller, permission, resource, request.state.now)
    if decision.allowed:
        return None
    if decision.policy is None:
        for alternative in alternatives:
            if decide_for(caller, alternative, resource, request.state.now).allowed:
                return None
    return decision


async def is_authorised(
    conn: Connection, caller: Caller, request: Request, permission: str, resource: str | None
) -> bool:
    """Whether an actor may do this who does not ask for it now. Nothing is recorded."""
    named_resource = None if resource is None else await _find_resource(conn, caller, resource, request.path_params)
    return decide_for(caller, permission, named_resource, request.state.now).allowed


def note_denial(caller: Caller, request: Request, permission: str, decision: Decision) -> Forbidden:
    """Return the refusal to raise, and note it to be recorded."""
    payload = _describe_request(request, permission, decision.reason)
    if (policy := decision.policy) is not None:
        payload |= {
            "policy_id": str(policy.policy_id),
            "policy_version_id": str(policy.policy_version_id),
            "policy_version": policy.version,
        }
    _queue_denial(request, caller, payload)
    return Forbidden(permission, decision)


def queue_refusal(caller: Caller, request: Request, refusal: Refusal) -> None:
    """Note a refusal to be recorded as a denial. Its details name the permission and the reason."""
    permission, reason = str(refusal.details["permission"]), str(refusal.details["reason"])
    _queue_denial(request, caller, {**_describe_request(request, permission, reason), **refusal.details})


def _queue_denial(request: Request, caller: Caller, payload: Mapping[str, object]) -> None:
    denials: list[tuple[Caller, Mapping[str, object]]] = request.scope["state"].setdefault("denied", [])
    denials.append((caller, payload))


async def write_denials(service: Service, request: Request) -> None:
    """Write the denials of a request. Call it while the request holds no connection."""
    for caller, payload in request.scope["state"].pop("denied", ()):
        await service.denials.record(service.database, caller.tenant_id, caller.actor_id, request.state.now, payload)


def decide_for(caller: Caller, permission: str, resource: Resource | None, now: datetime) -> Decision:
    """Decide by the policies, then by the roles of the caller."""
    question = AccessRequest(
        actor_id=caller.actor_id,
        actor_type=caller.actor_type,
        roles=caller.roles,
        permission=permission,
        resource=resource,
        now=now,
    )
    return decide_access(question, caller.permissions, caller.policies)


async def _find_resource(conn: Connection, caller: Caller, kind: str, path: Mapping[str, Any]) -> Resource:
    """Return the resource that the path names first; with its SKU if a policy depends on one."""
    resource_id = _find_resource_id(path)
    sku = None
    if resource_id is not None and depends_on_sku(caller.policies):
        async with begin_tenant_transaction(conn, caller.tenant_id):
            sku = await passports.find_sku(conn, caller.tenant_id, kind, resource_id)
    return Resource(type=kind, id=resource_id, sku=sku)


def _find_resource_id(path: Mapping[str, Any]) -> UUID | None:
    # A name in another system may look like an id, and must not be taken for one.
    ids = (text for name, text in path.items() if name.endswith("_id") and _is_id(text))
    return next((UUID(text) for text in ids), None)


def _is_id(text: object) -> bool:
    try:
        return isinstance(text, str) and UUID(text) is not None
    except ValueError:
        return False


def _describe_request(request: Request, permission: str, reason: str) -> dict[str, object]:
    return {"method": request.method, "route": request.scope["route"].path, "permission": permission, "reason": reason}


# Policies about resources that a body names. Access to the route is decided before its body is read. These resources
# need no grant of their own, but a DENY policy about one of them refuses the request.


def require_not_denied(ctx: RequestContext, request: Request, resources: Iterable[Resource], *permissions: str) -> None:
    """Raise `Forbidden` if a policy denies one of the permissions for one of the resources."""
    policies = tuple(
        policy for policy in ctx.caller.policies if policy.effect == "ALLOW" or policy.conditions.resource is not None
    )
    if all(policy.effect == "ALLOW" for policy in policies):
        return
    caller = replace(ctx.caller, policies=policies)
    for resource in resources:
        for permission in permissions:
            decision = decide_for(caller, permission, resource, ctx.act.at)
            if decision.policy is not None and not decision.allowed:
                raise note_denial(ctx.caller, request, permission, decision)


def require_allowed(ctx: RequestContext, request: Request, permission: str, resource: Resource) -> None:
    """Raise `Forbidden` unless the caller also has this permission."""
    decision = decide_for(ctx.caller, permission, resource, ctx.act.at)
    if not decision.allowed:
        raise note_denial(ctx.caller, request, permission, decision)


async def load_resource(ctx: RequestContext, kind: str, resource_id: UUID) -> Resource:
    """Return a resource; with its SKU if a policy depends on one."""
    sku = None
    if depends_on_sku(ctx.caller.policies):
        sku = await passports.find_sku(ctx.conn, ctx.tenant, kind, resource_id)
    return Resource(type=kind, id=resource_id, sku=sku)


SOURCE_PERMISSIONS: Final[Mapping[str, str]] = {
    "Fact": "docs:read",
    "Document": "docs:read",
    "DocumentVersion": "docs:read",
    "DataSnapshot": "snapshot:build",
    "RulePackage": "rules:read",
    "RulePackageVersion": "rules:read",
}


async def require_sources_not_denied(
    ctx: RequestContext, request: Request, version: PassportVersionId, *, read: Callable[..., Any] | None = None
) -> None:
    """Raise `Forbidden` if a policy denies a fact, document, snapshot or rule that a version was made of.

    A proof and a bundle contain all of them. They are shown whole or not at all. `read` runs a query where the
    connection is shared.
    """
    if all(policy.effect == "ALLOW" for policy in ctx.caller.policies):
        return
    sources = [Resource(type=kind) for kind in SOURCE_PERMISSIONS]
    if any(policy.conditions.resource is not None for policy in ctx.caller.policies):
        if read is None:
            source_ids = await passport_sources.list_sources(ctx.conn, ctx.tenant, version)
        else:
            source_ids = await read(passport_sources.list_sources, version)
        sources += [Resource(type=kind, id=source_id) for kind, source_id in source_ids]
    for source in sources:
        permission = SOURCE_PERMISSIONS[source.type]
        decision = decide_for(ctx.caller, permission, source, ctx.act.at)
        if decision.policy is not None and not decision.allowed:
            raise note_denial(ctx.caller, request, permission, decision)


def list_fact_resources(ctx: RequestContext) -> list[Resource]:
    """Facts in general, and each fact that a policy names."""
    conditions = [policy.conditions.resource for policy in ctx.caller.policies]
    fact_conditions = [each for each in conditions if each is not None and each.type == "Fact"]
    ids = {fact for condition in fact_conditions for fact in condition.ids or ()}
    return [Resource(type="Fact"), *(Resource(type="Fact", id=fact) for fact in ids)]
