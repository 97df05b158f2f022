"""Checks of every route that hands out rights: roles, actors, keys and policies.

    require_held          what an actor would have afterwards, the caller must have
    require_held_by_role  the same of the permissions of a role
    require_may_allow     the same of a policy that allows
    require_may_lift      a denial that is about the caller is lifted by another administrator

A caller who hands out less than all of it still gets FORBIDDEN: nothing is handed out in part. The denial is recorded.
`bpc.core.grants` decides.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import ClassVar
from uuid import UUID

from starlette.requests import Request

from bpc.api.access.auth import queue_refusal, require_not_denied
from bpc.api.http.request_context import RequestContext
from bpc.core.errors import Refusal
from bpc.core.formats.ids import ActorId
from bpc.core.grants import Holder, find_unheld, find_unheld_by_policy, find_unheld_by_role, is_about
from bpc.core.policies import PolicyConditions, PolicyInForce, Resource
from bpc.storage.access import policies, tenants_and_actors
from bpc.storage.access.tenants_and_actors import ActorRow, RoleRow

ADMIN_PERMISSION = policies.ADMIN_PERMISSION


class NotHeld(Refusal):
    """The caller would hand out something that the caller does not have."""

    code: ClassVar[str] = "FORBIDDEN"

    def __init__(self, permissions: Sequence[str]) -> None:
        names = ", ".join(f"`{permission}`" for permission in permissions)
        super().__init__(
            f"this would hand out {names}, which you do not have without restriction",
            fix="ask an administrator who has it",
            details={"permission": permissions[0], "permissions": list(permissions), "reason": "not held"},
        )


class DenialOfCaller(Refusal):
    """The caller would lift a denial that is about the caller."""

    code: ClassVar[str] = "FORBIDDEN"

    def __init__(self, policy: PolicyInForce) -> None:
        super().__init__(
            "this policy denies something to you, so another administrator must change it",
            fix="ask an administrator whom it does not deny anything",
            details={
                "permission": ADMIN_PERMISSION,
                "reason": "a policy about the caller",
                "policy_id": str(policy.policy_id),
                "policy_version": policy.version,
            },
        )


async def load_holder(ctx: RequestContext, actor: ActorRow) -> Holder:
    permissions = await tenants_and_actors.load_permissions(ctx.conn, ctx.tenant, actor.actor_id)
    return Holder(actor_id=actor.actor_id, actor_type=actor.type, roles=tuple(actor.roles), permissions=permissions)


def require_held(ctx: RequestContext, request: Request, after: Holder, *, before: Holder | None = None) -> None:
    """Raise `NotHeld` if `after` has more than the caller and more than it had `before`."""
    if before is None and after.actor_id == ctx.caller.actor_id:
        return  # a further key of one's own
    _refuse_unheld(
        ctx, request, find_unheld(_describe_caller(ctx), after, ctx.caller.policies, ctx.act.at, before=before)
    )


def require_held_by_role(ctx: RequestContext, request: Request, name: str, permissions: Iterable[str]) -> None:
    """Raise `NotHeld` if a role would have more than the caller."""
    unheld = find_unheld_by_role(_describe_caller(ctx), name, permissions, ctx.caller.policies, ctx.act.at)
    _refuse_unheld(ctx, request, unheld)


async def require_may_allow(ctx: RequestContext, request: Request, policy: PolicyInForce) -> None:
    """Raise `NotHeld` if a policy would allow more than the caller may."""
    denials = [each for each in ctx.caller.policies if await _counts_against_caller(ctx, each)]
    _refuse_unheld(ctx, request, find_unheld_by_policy(_describe_caller(ctx), policy, denials, ctx.act.at))


async def require_may_lift(ctx: RequestContext, request: Request, policy_id: UUID) -> None:
    """Raise `DenialOfCaller` if this policy denies something to the caller, and not to all administrators."""
    for policy in ctx.caller.policies:
        if policy.policy_id == policy_id and await _counts_against_caller(ctx, policy):
            refusal = DenialOfCaller(policy)
            queue_refusal(ctx.caller, request, refusal)
            raise refusal


async def list_named_roles(ctx: RequestContext, names: Collection[str]) -> list[RoleRow]:
    """The roles with these names; a name that no role has is left out."""
    return await tenants_and_actors.find_roles(ctx.conn, ctx.tenant, names)


def require_roles_not_denied(ctx: RequestContext, request: Request, roles: Iterable[RoleRow]) -> None:
    resources = [Resource(type="Role", id=role.role_id) for role in roles]
    require_not_denied(ctx, request, resources, ADMIN_PERMISSION)


def require_actor_not_denied(ctx: RequestContext, request: Request, actor_id: ActorId) -> None:
    require_not_denied(ctx, request, [Resource(type="Actor", id=actor_id)], ADMIN_PERMISSION)


async def require_conditions_not_denied(ctx: RequestContext, request: Request, conditions: PolicyConditions) -> None:
    """Raise `Forbidden` if a policy denies one of the actors, roles, keys or policies that conditions name."""
    named = [Resource(type="Actor", id=actor_id) for actor_id in sorted(conditions.actor_ids or ())]
    if (about := conditions.resource) is not None and about.type in {"Actor", "Role", "ApiKey", "Policy"}:
        named += [Resource(type=about.type, id=resource_id) for resource_id in sorted(about.ids or ())]
    require_not_denied(ctx, request, named, ADMIN_PERMISSION)
    require_roles_not_denied(ctx, request, await list_named_roles(ctx, conditions.roles or ()))


def add_roles(holder: Holder, roles: Sequence[RoleRow]) -> Holder:
    """The holder with exactly these roles."""
    permissions = frozenset(permission for role in roles for permission in role.permissions)
    return replace(holder, roles=tuple(role.name for role in roles), permissions=permissions)


async def _counts_against_caller(ctx: RequestContext, policy: PolicyInForce) -> bool:
    """Whether a policy denies something to the caller that it does not deny to every administrator."""
    if policy.effect != "DENY" or not is_about(policy, _describe_caller(ctx), ctx.act.at):
        return False
    administrators = await policies.list_administrators(ctx.conn, ctx.tenant)
    return any(not is_about(policy, administrator, ctx.act.at) for administrator in administrators)


def _describe_caller(ctx: RequestContext) -> Holder:
    caller = ctx.caller
    return Holder(
        actor_id=caller.actor_id, actor_type=caller.actor_type, roles=caller.roles, permissions=caller.permissions
    )


def _refuse_unheld(ctx: RequestContext, request: Request, unheld: Sequence[str]) -> None:
    if unheld:
        refusal = NotHeld(unheld)
        queue_refusal(ctx.caller, request, refusal)
        raise refusal
