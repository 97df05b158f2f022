"""Policies: versioned words about who may do what, tried before the roles are.

Pure. Policies are tried by priority (lower first), then DENY before ALLOW, then by id; the first that matches decides.
DENY refuses whatever the roles say. ALLOW grants, except what would let somebody hand out rights: `access:admin` and
`tenant:admin` come from roles alone, so there the roles decide what an ALLOW reached first. Where none matches, they
decide too.

    Asked(actor, permission, resource, now) ─┐
    policies of the tenant ──────────────────┼─► decide ─► Decision(allowed, policy, reason)
    permissions of the actor's roles ────────┘

`always_allowed` is the same question for all times from now on: what keeps policies from locking out whoever could
take them back.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from bpc.core import canon
from bpc.core.access import PERMISSIONS
from bpc.core.digest import Digest, sha256
from bpc.core.errors import Invalid
from bpc.core.ids import ActorId, parse_uuid
from bpc.core.timestamps import parse_time

Effect = Literal["ALLOW", "DENY"]

NEVER_GRANTED: Final = frozenset({"access:admin", "tenant:admin"})
ACTOR_TYPES: Final = ("USER", "API_CLIENT", "SERVICE")
# What a condition may name; each is the resource of a route.
RESOURCE_TYPES: Final = (
    "Document",
    "DocumentVersion",
    "Fact",
    "DataSnapshot",
    "RulePackage",
    "RulePackageVersion",
    "BatteryProduct",
    "Passport",
    "PassportVersion",
    "CompileRun",
    "Job",
    "Event",
    "Actor",
    "Role",
    "ApiKey",
    "Policy",
    "SigningKey",
    "WebhookEndpoint",
    "WebhookSubscription",
    "WebhookDelivery",
)
WITH_SKU: Final = frozenset({"BatteryProduct", "Passport", "PassportVersion"})
MEMBERS: Final = ("actor_ids", "actor_types", "not_after", "not_before", "resource", "roles")
RESOURCE_MEMBERS: Final = ("ids", "sku", "type")
# Every request reads all policies in force: together they stay small.
MOST_LISTED: Final = 200
MOST_IN_FORCE: Final = 100
MOST_BYTES_IN_FORCE: Final = 262_144  # of their canonical bytes: they are read on every request
LONGEST_TEXT: Final = 200
LARGEST_PRIORITY: Final = 1_000_000


class BadPolicy(Invalid):
    """A policy that says nothing that could be decided by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """What is asked for: its type, and where one is named, its id and the SKU it belongs to."""

    type: str
    id: UUID | None = None
    sku: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Who wants to do what, and when."""

    actor_id: ActorId
    actor_type: str
    roles: Collection[str]
    permission: str
    resource: Resource | None
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceCondition:
    """Which resources; one without an id or SKU, such as a list, is none of those that are named by it."""

    type: str
    ids: frozenset[UUID] | None = None
    sku: str | None = None  # `*` allowed at its end

    def misses(self, resource: Resource | None) -> str | None:
        if resource is None or resource.type != self.type:
            return "it is about another type of resource"
        if self.ids is not None and resource.id not in self.ids:
            return "it does not name this resource"
        if self.sku is not None and (resource.sku is None or not _fits(self.sku, resource.sku)):
            return "it is about another SKU"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """All that are present must hold."""

    actor_ids: frozenset[UUID] | None = None
    actor_types: frozenset[str] | None = None
    roles: frozenset[str] | None = None
    resource: ResourceCondition | None = None
    not_before: datetime | None = None
    not_after: datetime | None = None

    def misses(self, asked: Asked) -> str | None:
        """The first condition that does not hold; None where all do."""
        if about_actor := self.misses_actor(asked):
            return about_actor
        if self.resource is not None and (about_resource := self.resource.misses(asked.resource)):
            return about_resource
        if self.not_before is not None and asked.now < self.not_before:
            return "its time has not come"
        if self.not_after is not None and asked.now > self.not_after:
            return "its time is over"
        return None

    def misses_actor(self, asked: Asked) -> str | None:
        if self.actor_ids is not None and asked.actor_id not in self.actor_ids:
            return "it does not name this actor"
        if self.actor_types is not None and asked.actor_type not in self.actor_types:
            return "it is about another type of actor"
        if self.roles is not None and self.roles.isdisjoint(asked.roles):
            return "the actor has none of its roles"
        return None

    def may_hold(self, asked: Asked) -> bool:
        """Whether they hold now or may hold later, for one resource or another of the type that is asked for."""
        about_type = self.resource is None or (asked.resource is not None and asked.resource.type == self.resource.type)
        over = self.not_after is not None and asked.now > self.not_after
        return self.misses_actor(asked) is None and about_type and not over

    def always_hold(self, asked: Asked) -> bool:
        """Whether they hold from now on, whatever the resource."""
        begun = self.not_before is None or asked.now >= self.not_before
        return self.misses_actor(asked) is None and self.resource is None and begun and self.not_after is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One version of a policy, in force."""

    policy_id: UUID
    policy_version_id: UUID
    version: int
    effect: Effect
    target: str
    priority: int
    conditions: Conditions = field(default_factory=Conditions)

    def misses(self, asked: Asked) -> str | None:
        """Why it does not apply; None where it does."""
        if not self.concerns(asked.permission):
            return "its target is another permission"
        return self.conditions.misses(asked)

    def concerns(self, permission: str) -> bool:
        return _fits(self.target, permission)

    @property
    def order(self) -> tuple[int, bool, UUID]:
        return self.priority, self.effect == "ALLOW", self.policy_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether it is allowed, what decided it and why, in words. `policy` is None where the roles decided."""

    allowed: bool
    policy: Policy | None
    reason: str


def decide(asked: Asked, permissions: Collection[str], policies: Iterable[Policy]) -> Decision:
    """The decision; `policies` in any order."""
    for policy in in_order(policies):
        if policy.misses(asked) is not None:
            continue
        if policy.effect == "DENY":
            return Decision(allowed=False, policy=policy, reason=f"a policy denies `{policy.target}`")
        if asked.permission not in NEVER_GRANTED:
            return Decision(allowed=True, policy=policy, reason=f"a policy allows `{policy.target}`")
        break  # it was the first to match, but such a permission only comes from a role
    if asked.permission in permissions:
        return Decision(allowed=True, policy=None, reason=f"a role of the actor has `{asked.permission}`")
    return Decision(allowed=False, policy=None, reason=f"no role of the actor has `{asked.permission}`")


def in_order(policies: Iterable[Policy]) -> list[Policy]:
    """As they are tried."""
    return sorted(policies, key=lambda policy: policy.order)


def always_allowed(asked: Asked, policies: Iterable[Policy]) -> bool:
    """Whether no policy denies it, now or later, for any resource of its type; what a role gives is not looked at."""
    for policy in in_order(policies):
        if not policy.concerns(asked.permission) or not policy.conditions.may_hold(asked):
            continue
        if policy.effect == "DENY":
            return False
        if policy.conditions.always_hold(asked):
            return True  # nothing behind it is ever reached
    return True


def asks_for_sku(policies: Iterable[Policy]) -> bool:
    """Whether a decision may depend on the SKU, so that it has to be looked up."""
    return any(policy.conditions.resource is not None and policy.conditions.resource.sku for policy in policies)


def read_target(text: str) -> str:
    """A permission, or the start of some with `*` at its end."""
    known = text in PERMISSIONS
    wild = text.endswith("*") and any(permission.startswith(text[:-1]) for permission in PERMISSIONS)
    if not known and not wild:
        raise BadPolicy(
            f"`{text[:80]}` is no permission and the start of none",
            fix="name one as the roles do, such as `passport:read`, or a group such as `passport:*` or `*`",
        )
    return text


def read_conditions(found: Mapping[str, Any]) -> Conditions:
    """What a policy's JSON says; `BadPolicy` names the member that is wrong."""
    _check_members(found, MEMBERS, "")
    resource = found.get("resource")
    not_before, not_after = _time(found, "not_before"), _time(found, "not_after")
    if not_before is not None and not_after is not None and not_before > not_after:
        raise BadPolicy("`not_before` is later than `not_after`, so it would never apply")
    return Conditions(
        actor_ids=_ids(found, "actor_ids"),
        actor_types=_texts(found, "actor_types", ACTOR_TYPES),
        roles=_texts(found, "roles", None),
        resource=None if resource is None else _resource(resource),
        not_before=not_before,
        not_after=not_after,
    )


def canonical_policy(effect: Effect, policy_json: Mapping[str, Any], priority: int, target: str) -> bytes:
    """The bytes whose hash is a policy's."""
    return canon.encode({"effect": effect, "policy_json": policy_json, "priority": priority, "target": target})


def policy_hash(effect: Effect, policy_json: Mapping[str, Any], priority: int, target: str) -> Digest:
    return sha256(canonical_policy(effect, policy_json, priority, target))


def _fits(pattern: str, text: str) -> bool:
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


def _check_members(found: object, known: Sequence[str], at: str) -> None:
    if not isinstance(found, Mapping):
        raise BadPolicy(f"`{at.rstrip('.') or 'policy_json'}` is not an object")
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise BadPolicy(f"`{at}{unknown[0][:80]}` is not a member", fix=f"its members are {', '.join(known)}")


def _resource(found: Any) -> ResourceCondition:
    _check_members(found, RESOURCE_MEMBERS, "resource.")
    kind, sku = found.get("type"), found.get("sku")
    if kind not in RESOURCE_TYPES:
        raise BadPolicy("`resource.type` is not a type of resource", fix=f"they are {', '.join(RESOURCE_TYPES)}")
    if sku is not None and (not _is_text(sku) or kind not in WITH_SKU):
        raise BadPolicy("`resource.sku` is a text, for products, passports and their versions")
    return ResourceCondition(type=kind, ids=_ids(found, "ids", "resource."), sku=sku)


def _ids(found: Mapping[str, Any], name: str, at: str = "") -> frozenset[UUID] | None:
    texts = _texts(found, name, None, at)
    try:
        return None if texts is None else frozenset(parse_uuid(text) for text in texts)
    except Invalid as wrong:
        raise BadPolicy(f"`{at}{name}`: {wrong.says}") from None


def _texts(found: Mapping[str, Any], name: str, known: Sequence[str] | None, at: str = "") -> frozenset[str] | None:
    given = found.get(name)
    if given is None:
        return None
    if not isinstance(given, list) or not 1 <= len(given) <= MOST_LISTED or not all(map(_is_text, given)):
        raise BadPolicy(f"`{at}{name}` is not a list of 1 to {MOST_LISTED:,} texts")
    wrong = next((text for text in given if known is not None and text not in known), None)
    if wrong is not None and known is not None:
        raise BadPolicy(f"`{wrong[:80]}` in `{at}{name}` is not known", fix=f"they are {', '.join(known)}")
    return frozenset(given)


def _time(found: Mapping[str, Any], name: str) -> datetime | None:
    given = found.get(name)
    if given is None:
        return None
    if not isinstance(given, str):
        raise BadPolicy(f"`{name}` is not a time")
    try:
        return parse_time(given)
    except Invalid as wrong:
        raise BadPolicy(f"`{name}`: {wrong.says}") from None


def _is_text(given: object) -> bool:
    return isinstance(given, str) and 1 <= len(given) <= LONGEST_TEXT and "\0" not in given
