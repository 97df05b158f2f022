"""Grants: nobody gives away what they do not have.

Pure. Whoever creates a role, an actor, a key or a policy hands out permissions. Each of them must be one that the
granter has by a role, and no policy may deny it to the granter unless it denies it to the receiver as well.

    granter, receiver before and after, policies ─► find_unheld ─► the permissions that must not be handed out
    granter, permissions of a role, policies ─────► find_unheld_by_role
    granter, an ALLOW policy, policies ───────────► find_unheld_by_policy

An actor has a permission by a role, or by a policy that allows it. Policies are looked at for all times from now on
and for all resources: what is denied for one passport only is not handed out either.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from bpc.core.policies import (
    PERMISSIONS,
    ROLE_ONLY_PERMISSIONS,
    PolicyConditions,
    PolicyInForce,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """An actor with what its roles give it. A new actor has no id yet."""

    actor_id: UUID | None
    actor_type: str
    roles: Collection[str]
    permissions: Collection[str]


def find_unheld(
    granter: Holder,
    after: Holder,
    policies: Sequence[PolicyInForce],
    now: datetime,
    *,
    before: Holder | None = None,
) -> list[str]:
    """The permissions that `after` has and the granter may not hand out; those it had `before` are not counted."""
    current = [policy for policy in policies if not _is_over(policy, now)]
    return [
        permission
        for permission in PERMISSIONS
        if _gains(before, after, permission, current) and not _may_hand_out(granter, after, permission, current)
    ]


def find_unheld_by_role(
    granter: Holder, name: str, permissions: Iterable[str], policies: Sequence[PolicyInForce], now: datetime
) -> list[str]:
    """The permissions of a role that the granter may not hand out. Who will have the role is not known."""
    unheld = []
    for permission in permissions:
        denials = _list_applying(granter, permission, policies, "DENY", now)
        if permission not in granter.permissions or not all(_binds_role(policy, name) for policy in denials):
            unheld.append(permission)
    return unheld


def find_unheld_by_policy(
    granter: Holder, target: PolicyInForce, policies: Sequence[PolicyInForce], now: datetime
) -> list[str]:
    """The permissions that a policy allows and the granter does not have. `policies` are the denials that count."""
    return [
        permission
        for permission in PERMISSIONS
        if target.effect == "ALLOW"
        and target.applies_to(permission)
        and (permission not in granter.permissions or list(_list_applying(granter, permission, policies, "DENY", now)))
    ]


def is_about(policy: PolicyInForce, actor: Holder, now: datetime) -> bool:
    """Whether a policy is about this actor, now or later."""
    return not _is_over(policy, now) and _matches_actor(policy.conditions, actor)


def _gains(before: Holder | None, after: Holder, permission: str, policies: Sequence[PolicyInForce]) -> bool:
    sources = _list_sources(after, permission, policies)
    if not sources:
        return False
    if before is None:
        return True
    denials_before = {policy.policy_id for policy in _list_applying(before, permission, policies, "DENY")}
    denials_after = {policy.policy_id for policy in _list_applying(after, permission, policies, "DENY")}
    return not sources <= _list_sources(before, permission, policies) or not denials_before <= denials_after


def _may_hand_out(granter: Holder, receiver: Holder, permission: str, policies: Sequence[PolicyInForce]) -> bool:
    denials = {policy.policy_id for policy in _list_applying(granter, permission, policies, "DENY")}
    if not denials <= {policy.policy_id for policy in _list_applying(receiver, permission, policies, "DENY")}:
        return False
    if permission in granter.permissions:
        return True
    return _list_sources(receiver, permission, policies) <= _list_sources(granter, permission, policies)


def _list_sources(actor: Holder, permission: str, policies: Sequence[PolicyInForce]) -> set[UUID | None]:
    """Where the actor has a permission from: None stands for its roles, an id for a policy that allows it."""
    sources: set[UUID | None] = {None} if permission in actor.permissions else set()
    if permission not in ROLE_ONLY_PERMISSIONS:
        sources |= {policy.policy_id for policy in _list_applying(actor, permission, policies, "ALLOW")}
    return sources


def _list_applying(
    actor: Holder,
    permission: str,
    policies: Iterable[PolicyInForce],
    effect: str,
    now: datetime | None = None,
) -> Iterator[PolicyInForce]:
    for policy in policies:
        is_current = policy.effect == effect and (now is None or not _is_over(policy, now))
        if is_current and policy.applies_to(permission) and _matches_actor(policy.conditions, actor):
            yield policy


def _matches_actor(conditions: PolicyConditions, actor: Holder) -> bool:
    if conditions.actor_ids is not None and actor.actor_id not in conditions.actor_ids:
        return False
    if conditions.actor_types is not None and actor.actor_type not in conditions.actor_types:
        return False
    return conditions.roles is None or not conditions.roles.isdisjoint(actor.roles)


def _binds_role(policy: PolicyInForce, role: str) -> bool:
    """Whether a policy is about everybody who will have the role."""
    conditions = policy.conditions
    if conditions.actor_ids is not None or conditions.actor_types is not None:
        return False
    return conditions.roles is None or role in conditions.roles


def _is_over(policy: PolicyInForce, now: datetime) -> bool:
    return policy.conditions.not_after is not None and now > policy.conditions.not_after
