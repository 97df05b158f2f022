"""Policies and roles: who may do what. Policies are versioned, and tried before the roles.

Pure. Policies are tried by priority (lower first), then DENY before ALLOW, then by id; the first that matches decides.
DENY refuses whatever the roles say. ALLOW grants, except what would let somebody hand out rights: `access:admin` and
`tenant:admin` come from roles alone, so there the roles decide what an ALLOW reached first. Where none matches, they
decide too.

    AccessRequest(actor, permission, resource, now) ─┐
    policies of the tenant ──────────────────────────┼─► decide_access ─► Decision(allowed, policy, reason)
    permissions of the actor's roles ────────────────┘

`is_always_allowed` asks the same for all times from now on, so that policies cannot lock out the people who could take
them back.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.ids import ActorId, parse_uuid
from bpc.core.formats.timestamps import parse_time

# The published matrix, which does not change.
MATRIX_ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "Admin": (
        "passport:read",
        "passport:compile",
        "passport:sign",
        "passport:replay",
        "passport:revoke",
        "rules:read",
        "rules:write",
        "rules:publish",
        "rules:test",
        "docs:upload",
        "docs:read",
        "snapshot:build",
        "snapshot:seal",
        "audit:read",
        "access:admin",
        "tenant:admin",
    ),
    "ComplianceOfficer": (
        "passport:read",
        "passport:compile",
        "passport:replay",
        "rules:read",
        "docs:read",
        "snapshot:build",
        "snapshot:seal",
    ),
    "Auditor": ("passport:read", "rules:read", "audit:read"),
}
# Permissions that the matrix does not have, and the roles that start with them. docs/api.md shows the same table.
ADDED_PERMISSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "passport:bundle": ("Admin", "ComplianceOfficer", "Auditor"),
    "passport:waive": ("Admin",),
    "approval:decide": ("Admin", "ComplianceOfficer", "Auditor"),
    "view:interest": ("Admin",),
    "view:authority": ("Admin",),
    "jobs:read": ("Admin", "ComplianceOfficer"),
    "jobs:admin": ("Admin",),
    "battery:register": ("Admin", "ComplianceOfficer"),
    "battery:readings": ("Admin", "ComplianceOfficer"),
    "battery:status": ("Admin", "ComplianceOfficer"),
    "battery:transfer": ("Admin", "ComplianceOfficer"),
}
# Tenants that are older than such a migration get the additions that came with it, once.
_FIRST_ADDITIONS: Final = "added_permissions"
_LATER_ADDITIONS: Final[Mapping[str, str]] = {
    "battery:register": "battery_added_permissions",
    "battery:readings": "battery_added_permissions",
    "battery:status": "battery_added_permissions",
    "battery:transfer": "transfer_added_permissions",
}
MIGRATION_OF_PERMISSION: Final[Mapping[str, str]] = {
    permission: _LATER_ADDITIONS.get(permission, _FIRST_ADDITIONS) for permission in ADDED_PERMISSIONS
}
PERMISSIONS: Final = (*MATRIX_ROLES["Admin"], *ADDED_PERMISSIONS)
# The three roles every tenant starts with.
ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    role: (*permissions, *(added for added, roles in ADDED_PERMISSIONS.items() if role in roles))
    for role, permissions in MATRIX_ROLES.items()
}

Effect = Literal["ALLOW", "DENY"]

ROLE_ONLY_PERMISSIONS: Final = frozenset({"access:admin", "tenant:admin"})
ACTOR_TYPES: Final = ("USER", "API_CLIENT", "SERVICE")
# What a condition may name; each is the resource of a route.
RESOURCE_TYPES: Final = (
    "Document",
    "DocumentVersion",
    "Supplier",
    "Fact",
    "DataSnapshot",
    "RulePackage",
    "RulePackageVersion",
    "BatteryProduct",
    "Battery",
    "BatteryBatch",
    "BatteryTransfer",
    "Passport",
    "PassportVersion",
    "CompileRun",
    "ItemRun",
    "Job",
    "Schedule",
    "Event",
    "Actor",
    "Role",
    "ApiKey",
    "Policy",
    "SigningKey",
    "Approval",
    "ViewRequest",
    "ViewGrant",
    "WebhookEndpoint",
    "WebhookSubscription",
    "WebhookDelivery",
)
RESOURCES_WITH_SKU: Final = frozenset({"BatteryProduct", "Passport", "PassportVersion"})
CONDITION_MEMBERS: Final = ("actor_ids", "actor_types", "not_after", "not_before", "resource", "roles")
RESOURCE_MEMBERS: Final = ("ids", "sku", "type")
# Every request reads all policies in force: together they stay small.
MAX_LISTED: Final = 200
MAX_POLICIES_IN_FORCE: Final = 100
MAX_BYTES_IN_FORCE: Final = 262_144  # of their canonical bytes: they are read on every request
MAX_TEXT_LENGTH: Final = 200
MAX_PRIORITY: Final = 1_000_000


class BadPolicy(Invalid):
    """A policy that says nothing that could be decided by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """What is asked for: its type, and where one is named, its id and the SKU it belongs to."""

    type: str
    id: UUID | None = None
    sku: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequest:
    """Who wants to do what, and when."""

    actor_id: ActorId
    actor_type: str
    roles: Collection[str]
    permission: str
    resource: Resource | None
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceFilter:
    """Which resources; one without an id or SKU, such as a list, is none of those that are named by it."""

    type: str
    ids: frozenset[UUID] | None = None
    sku: str | None = None  # `*` allowed at its end

    def explain_mismatch(self, resource: Resource | None) -> str | None:
        if resource is None or resource.type != self.type:
            return "it is about another type of resource"
        if self.ids is not None and resource.id not in self.ids:
            return "it does not name this resource"
        if self.sku is not None and (resource.sku is None or not _matches_pattern(self.sku, resource.sku)):
            return "it is about another SKU"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyConditions:
    """All that are present must hold."""

    actor_ids: frozenset[UUID] | None = None
    actor_types: frozenset[str] | None = None
    roles: frozenset[str] | None = None
    resource: ResourceFilter | None = None
    not_before: datetime | None = None
    not_after: datetime | None = None

    def explain_mismatch(self, request: AccessRequest) -> str | None:
        """The first condition that does not hold; None where all do."""
        if about_actor := self.explain_actor_mismatch(request):
            return about_actor
        if self.resource is not None and (about_resource := self.resource.explain_mismatch(request.resource)):
            return about_resource
        if self.not_before is not None and request.now < self.not_before:
            return "its time has not come"
        if self.not_after is not None and request.now > self.not_after:
            return "its time is over"
        return None

    def explain_actor_mismatch(self, request: AccessRequest) -> str | None:
        if self.actor_ids is not None and request.actor_id not in self.actor_ids:
            return "it does not name this actor"
        if self.actor_types is not None and request.actor_type not in self.actor_types:
            return "it is about another type of actor"
        if self.roles is not None and self.roles.isdisjoint(request.roles):
            return "the actor has none of its roles"
        return None

    def may_hold(self, request: AccessRequest) -> bool:
        """Whether they hold now or may hold later, for one resource or another of the type that is asked for."""
        matches_type = self.resource is None or (
            request.resource is not None and request.resource.type == self.resource.type
        )
        has_expired = self.not_after is not None and request.now > self.not_after
        return self.explain_actor_mismatch(request) is None and matches_type and not has_expired

    def always_hold(self, request: AccessRequest) -> bool:
        """Whether they hold from now on, whatever the resource."""
        has_started = self.not_before is None or request.now >= self.not_before
        return (
            self.explain_actor_mismatch(request) is None
            and self.resource is None
            and has_started
            and self.not_after is None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInForce:
    """One version of a policy, in force."""

    policy_id: UUID
    policy_version_id: UUID
    version: int
    effect: Effect
    target: str
    priority: int
    conditions: PolicyConditions = field(default_factory=PolicyConditions)

    def explain_mismatch(self, request: AccessRequest) -> str | None:
        """Why it does not apply; None where it does."""
        if not self.applies_to(request.permission):
            return "its target is another permission"
        return self.conditions.explain_mismatch(request)

    def applies_to(self, permission: str) -> bool:
        return _matches_pattern(self.target, permission)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether it is allowed, what decided it and why, in words. `policy` is None where the roles decided."""

    allowed: bool
    policy: PolicyInForce | None
    reason: str


def decide_access(request: AccessRequest, permissions: Collection[str], policies: Iterable[PolicyInForce]) -> Decision:
    """The decision; `policies` in any order."""
    for policy in sort_policies(policies):
        if policy.explain_mismatch(request) is not None:
            continue
        if policy.effect == "DENY":
            return Decision(allowed=False, policy=policy, reason=f"a policy denies `{policy.target}`")
        if request.permission not in ROLE_ONLY_PERMISSIONS:
            return Decision(allowed=True, policy=policy, reason=f"a policy allows `{policy.target}`")
        break  # it was the first to match, but such a permission only comes from a role
    if request.permission in permissions:
        return Decision(allowed=True, policy=None, reason=f"a role of the actor has `{request.permission}`")
    return Decision(allowed=False, policy=None, reason=f"no role of the actor has `{request.permission}`")


def sort_policies(policies: Iterable[PolicyInForce]) -> list[PolicyInForce]:
    """The policies as they are tried: by priority, DENY before ALLOW, then by id."""
    return sorted(policies, key=lambda policy: (policy.priority, policy.effect == "ALLOW", policy.policy_id))


def is_always_allowed(request: AccessRequest, policies: Iterable[PolicyInForce]) -> bool:
    """Whether no policy denies it, now or later, for any resource of its type; what a role gives is not looked at."""
    for policy in sort_policies(policies):
        if not policy.applies_to(request.permission) or not policy.conditions.may_hold(request):
            continue
        if policy.effect == "DENY":
            return False
        if policy.conditions.always_hold(request):
            return True  # nothing behind it is ever reached
    return True


def depends_on_sku(policies: Iterable[PolicyInForce]) -> bool:
    """Whether a decision may depend on the SKU, so that it has to be looked up."""
    return any(policy.conditions.resource is not None and policy.conditions.resource.sku for policy in policies)


def parse_target(text: str) -> str:
    """A permission, or the start of some with `*` at its end."""
    is_permission = text in PERMISSIONS
    is_group = text.endswith("*") and any(permission.startswith(text[:-1]) for permission in PERMISSIONS)
    if not is_permission and not is_group:
        raise BadPolicy(
            f"`{text[:80]}` is not a permission, nor the start of one",
            fix="name one as the roles do, such as `passport:read`, or a group such as `passport:*` or `*`",
        )
    return text


def parse_conditions(document: Mapping[str, Any]) -> PolicyConditions:
    """What a policy's JSON says; `BadPolicy` names the member that is wrong."""
    _check_members(document, CONDITION_MEMBERS, "")
    resource = document.get("resource")
    not_before, not_after = _parse_moment(document, "not_before"), _parse_moment(document, "not_after")
    if not_before is not None and not_after is not None and not_before > not_after:
        raise BadPolicy("`not_before` is later than `not_after`, so it would never apply")
    return PolicyConditions(
        actor_ids=_parse_ids(document, "actor_ids"),
        actor_types=_parse_texts(document, "actor_types", ACTOR_TYPES),
        roles=_parse_texts(document, "roles", None),
        resource=None if resource is None else _parse_resource(resource),
        not_before=not_before,
        not_after=not_after,
    )


def encode_policy(effect: Effect, policy_json: Mapping[str, Any], priority: int, target: str) -> bytes:
    """The bytes whose hash is a policy's."""
    return canonical_json.encode({"effect": effect, "policy_json": policy_json, "priority": priority, "target": target})


def _matches_pattern(pattern: str, text: str) -> bool:
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


def _check_members(document: object, known_members: Sequence[str], at: str) -> None:
    if not isinstance(document, Mapping):
        raise BadPolicy(f"`{at.rstrip('.') or 'policy_json'}` is not an object")
    unknown = sorted(set(document) - set(known_members))
    if unknown:
        raise BadPolicy(f"`{at}{unknown[0][:80]}` is not a member", fix=f"its members are {', '.join(known_members)}")


def _parse_resource(document: Any) -> ResourceFilter:
    _check_members(document, RESOURCE_MEMBERS, "resource.")
    kind, sku = document.get("type"), document.get("sku")
    if kind not in RESOURCE_TYPES:
        raise BadPolicy("`resource.type` is not a type of resource", fix=f"they are {', '.join(RESOURCE_TYPES)}")
    if sku is not None and (not _is_text(sku) or kind not in RESOURCES_WITH_SKU):
        raise BadPolicy("`resource.sku` is a text, for products, passports and their versions")
    return ResourceFilter(type=kind, ids=_parse_ids(document, "ids", "resource."), sku=sku)


def _parse_ids(document: Mapping[str, Any], name: str, at: str = "") -> frozenset[UUID] | None:
    texts = _parse_texts(document, name, None, at)
    try:
        return None if texts is None else frozenset(parse_uuid(text) for text in texts)
    except Invalid as wrong:
        raise BadPolicy(f"`{at}{name}`: {wrong.says}") from None


def _parse_texts(
    document: Mapping[str, Any], name: str, known_values: Sequence[str] | None, at: str = ""
) -> frozenset[str] | None:
    values = document.get(name)
    if values is None:
        return None
    if not isinstance(values, list) or not 1 <= len(values) <= MAX_LISTED or not all(map(_is_text, values)):
        raise BadPolicy(f"`{at}{name}` is not a list of 1 to {MAX_LISTED:,} texts")
    wrong = next((text for text in values if known_values is not None and text not in known_values), None)
    if wrong is not None and known_values is not None:
        raise BadPolicy(f"`{wrong[:80]}` in `{at}{name}` is not known", fix=f"they are {', '.join(known_values)}")
    return frozenset(values)


def _parse_moment(document: Mapping[str, Any], name: str) -> datetime | None:
    text = document.get(name)
    if text is None:
        return None
    if not isinstance(text, str):
        raise BadPolicy(f"`{name}` is not a time")
    try:
        return parse_time(text)
    except Invalid as wrong:
        raise BadPolicy(f"`{name}`: {wrong.says}") from None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= MAX_TEXT_LENGTH and "\0" not in value
