"""/v1/policies: versioned rules about who may do what, applied before the roles. `dry-run` shows a decision."""

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, Field, SerializerFunctionWrapHandler, StrictInt, model_serializer
from starlette.requests import Request

from bpc.api.access.auth import require_not_denied
from bpc.api.access.grants import require_conditions_not_denied, require_may_allow, require_may_lift
from bpc.api.http.models import Hash, Id, IdOf, Moment, Page, Paging, RequestBody, ResponseBody, SentMoment, Text
from bpc.api.http.request_context import Context, RequestContext
from bpc.api.http.routing import RouteFamily
from bpc.api.routes.actors_and_keys import Permission
from bpc.core.errors import Invalid
from bpc.core.formats.ids import ActorId, PolicyId
from bpc.core.policies import (
    MAX_LISTED,
    MAX_PRIORITY,
    RESOURCE_TYPES,
    AccessRequest,
    Effect,
    PolicyInForce,
    Resource,
    decide_access,
    parse_conditions,
    parse_target,
    sort_policies,
)
from bpc.runtime import clock
from bpc.storage.access import policies, tenants_and_actors
from bpc.storage.access.policies import PolicyText
from bpc.storage.access.tenants_and_actors import ActorType
from bpc.storage.passports import passports

routes = RouteFamily("Access", resource="Policy")


def _require_target(text: str) -> str:
    try:
        return parse_target(text)
    except Invalid as error:
        raise ValueError(f"{error.says}; {error.fix}") from None


def _require_known_type(text: str) -> str:
    if text not in RESOURCE_TYPES:
        raise ValueError(f"`{text[:80]}` is not a type of resource")
    return text


RESOURCE_TYPE_ENUM: dict[str, Any] = {"enum": list(RESOURCE_TYPES)}
Target = Annotated[
    Text,
    AfterValidator(_require_target),
    Field(description="A permission; it may end with `*`.", examples=["passport:*"]),
]
Priority = Annotated[
    StrictInt,
    Field(ge=0, le=MAX_PRIORITY, description="Policies with a lower number are applied first.", examples=[100]),
]
ResourceType = Annotated[
    Text, AfterValidator(_require_known_type), Field(json_schema_extra=RESOURCE_TYPE_ENUM, examples=["Passport"])
]
Ids = Annotated[list[Id], Field(min_length=1, max_length=MAX_LISTED)]


class ResourceCondition(RequestBody):
    type: ResourceType
    ids: Ids | None = Field(None, description="Only resources with these ids.")
    sku: Text | None = Field(
        None,
        description="For products, passports and their versions: only those of this SKU; it may end with `*`.",
        examples=["SKU-1*"],
    )


class Conditions(RequestBody):
    """All conditions that are set must be true."""

    actor_ids: Ids | None = None
    actor_types: Annotated[list[ActorType], Field(min_length=1, max_length=3)] | None = None
    roles: Annotated[list[Text], Field(min_length=1, max_length=MAX_LISTED)] | None = Field(
        None, description="Names of roles; the actor must have at least one.", examples=[["Auditor"]]
    )
    resource: ResourceCondition | None = None
    not_before: SentMoment | None = None
    not_after: SentMoment | None = None


class StoredConditions(Conditions):
    """The conditions as they are hashed: members that were not set are left out."""

    # With a return annotation, the schema would be that of the annotation.
    @model_serializer(mode="wrap")
    def _drop_nulls(self, serialize: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]
        return _drop_null_members(serialize(self))


def _drop_null_members(members: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _drop_null_members(value) if isinstance(value, dict) else value
        for name, value in members.items()
        if value is not None
    }


class NewPolicyVersion(RequestBody):
    effect: Effect = Field(
        description="DENY overrides the roles; ALLOW can grant everything except the two admin permissions."
    )
    target: Target
    priority: Priority = 100
    policy_json: Conditions = Field(
        default_factory=Conditions, description="When the policy applies; left out, always."
    )


class NewPolicy(NewPolicyVersion):
    name: Text = Field(examples=["No uploads by interns"])


class PolicyVersion(ResponseBody):
    policy_version_id: Id
    policy_id: Id
    version: int
    is_active: bool = Field(description="True for the version in force; a policy has at most one.")
    effect: Effect
    target: str
    priority: int
    policy_json: StoredConditions = Field(
        description="The conditions as they are hashed.", examples=[{"roles": ["Intern"]}]
    )
    policy_hash: Hash = Field(
        description="SHA-256 of `{effect, policy_json, priority, target}` as canonical JSON (sorted, byte-exact)."
    )
    created_at: Moment


class Policy(ResponseBody):
    policy_id: Id
    name: str
    created_at: Moment
    created_by: Id | None
    active: PolicyVersion | None = Field(description="The version in force; null if there is none.")


class DryRunResource(RequestBody):
    type: ResourceType
    id: Id | None = None
    sku: Text | None = Field(None, description="Left out, it is looked up by the id.")


class DryRun(RequestBody):
    actor_id: IdOf[ActorId]
    permission: Permission
    resource: DryRunResource | None = None
    at: SentMoment | None = Field(None, description="The time of the assumed request; left out, now.")


class DecidingPolicy(ResponseBody):
    policy_id: Id
    policy_version_id: Id
    name: str
    version: int
    effect: Effect
    priority: int


class ConsideredPolicy(DecidingPolicy):
    matches: bool
    why_not: str | None = Field(description="The first condition that does not match.")


class DryRunAnswer(ResponseBody):
    allowed: bool
    reason: str
    decided_by: DecidingPolicy | None = Field(description="The policy that decides; null if the actor's roles decide.")
    considered: list[ConsideredPolicy] = Field(
        description="All policies in force, in the order in which they are applied."
    )


@routes.write("/v1/policies", permission="access:admin", status=201, four_eyes="role_grants")
async def create_policy(ctx: Context, request: Request, body: NewPolicy) -> Policy:
    """Create a policy. Its version 1 is in force from the next request on. Nobody allows what they do not have."""
    text = _to_policy_text(body)
    await _require_grantable(ctx, request, text)
    policy = await policies.create_policy(ctx.conn, ctx.tenant, name=body.name, text=text, act=ctx.act)
    return Policy.model_validate(policy)


@routes.read("/v1/policies", permission="access:admin")
async def list_policies(ctx: Context, page: Paging) -> Page[Policy]:
    """List policies with the version in force, newest first."""
    return page.build_page(await policies.list_policies(ctx.conn, ctx.tenant, page.query), Policy)


@routes.ask("/v1/policies:dry-run", permission="access:admin", errors=("NOT_FOUND",))
async def dry_run_policies(ctx: Context, request: Request, body: DryRun) -> DryRunAnswer:
    """Show the decision, the deciding policy and the reason. Nothing is changed or recorded."""
    require_not_denied(ctx, request, [Resource(type="Actor", id=body.actor_id)], "access:admin")
    question, permissions = await _build_question(ctx, body)
    in_force = await policies.list_active_policies(ctx.conn, ctx.tenant)
    decision = decide_access(question, permissions, [row.policy for row in in_force])
    names = {row.policy.policy_id: row.name for row in in_force}
    policies_in_order: list[dict[str, object]] = []
    for policy in sort_policies(row.policy for row in in_force):
        why_not = policy.explain_mismatch(question)
        policies_in_order.append({**_to_members(policy, names), "matches": why_not is None, "why_not": why_not})
    decided_by = None if decision.policy is None else _to_members(decision.policy, names)
    return DryRunAnswer.model_validate(
        {
            "allowed": decision.allowed,
            "reason": decision.reason,
            "decided_by": decided_by,
            "considered": policies_in_order,
        }
    )


@routes.read("/v1/policies/{policy_id}", permission="access:admin")
async def get_policy(ctx: Context, policy_id: IdOf[PolicyId]) -> Policy:
    """Get a policy with the version in force."""
    return Policy.model_validate(await policies.get_policy(ctx.conn, ctx.tenant, policy_id))


@routes.write("/v1/policies/{policy_id}/versions", permission="access:admin", status=201, four_eyes="role_grants")
async def create_policy_version(
    ctx: Context, request: Request, policy_id: IdOf[PolicyId], body: NewPolicyVersion
) -> PolicyVersion:
    """Add a version. It replaces the version in force from the next request on.

    Nobody allows what they do not have. A policy that denies you something is changed by another administrator.
    """
    text = _to_policy_text(body)
    await require_may_lift(ctx, request, policy_id)
    await _require_grantable(ctx, request, text)
    version = await policies.insert_policy_version(ctx.conn, ctx.tenant, policy_id, text, act=ctx.act)
    return PolicyVersion.model_validate(version)


@routes.read("/v1/policies/{policy_id}/versions", permission="access:admin")
async def list_policy_versions(ctx: Context, policy_id: IdOf[PolicyId], page: Paging) -> Page[PolicyVersion]:
    """List the versions of a policy, newest first."""
    policy = (await policies.get_policy(ctx.conn, ctx.tenant, policy_id)).policy_id
    return page.build_page(await policies.list_policy_versions(ctx.conn, ctx.tenant, policy, page.query), PolicyVersion)


@routes.write("/v1/policies/{policy_id}:deactivate", permission="access:admin", four_eyes="role_grants")
async def deactivate_policy(ctx: Context, request: Request, policy_id: IdOf[PolicyId]) -> Policy:
    """Deactivate a policy: none of its versions is in force. A new version activates it again.

    A policy that denies you something is deactivated by another administrator.
    """
    await require_may_lift(ctx, request, policy_id)
    return Policy.model_validate(await policies.deactivate_policy(ctx.conn, ctx.tenant, policy_id, act=ctx.act))


def _to_policy_text(body: NewPolicyVersion) -> PolicyText:
    conditions = body.policy_json.model_dump(mode="json", exclude_none=True)
    parse_conditions(conditions)
    return PolicyText(effect=body.effect, target=body.target, priority=body.priority, policy_json=conditions)


async def _require_grantable(ctx: RequestContext, request: Request, text: PolicyText) -> None:
    """Refuse a policy that names what the caller is denied, or allows what the caller does not have."""
    policy = PolicyInForce(
        policy_id=clock.new_id(),
        policy_version_id=clock.new_id(),
        version=1,
        effect=text.effect,
        target=text.target,
        priority=text.priority,
        conditions=parse_conditions(text.policy_json),
    )
    await require_conditions_not_denied(ctx, request, policy.conditions)
    await require_may_allow(ctx, request, policy)


async def _build_question(ctx: RequestContext, body: DryRun) -> tuple[AccessRequest, frozenset[str]]:
    """Return the assumed request, and the permissions from the actor's roles."""
    actor = await tenants_and_actors.get_actor(ctx.conn, ctx.tenant, body.actor_id)
    resource = None
    if (named_resource := body.resource) is not None:
        sku = named_resource.sku
        if sku is None and named_resource.id is not None:
            sku = await passports.find_sku(ctx.conn, ctx.tenant, named_resource.type, named_resource.id)
        resource = Resource(type=named_resource.type, id=named_resource.id, sku=sku)
    question = AccessRequest(
        actor_id=actor.actor_id,
        actor_type=actor.type,
        roles=actor.roles,
        permission=body.permission,
        resource=resource,
        now=body.at or ctx.act.at,
    )
    return question, await tenants_and_actors.load_permissions(ctx.conn, ctx.tenant, actor.actor_id)


def _to_members(policy: PolicyInForce, names: Mapping[UUID, str]) -> dict[str, object]:
    return {
        "policy_id": policy.policy_id,
        "policy_version_id": policy.policy_version_id,
        "name": names[policy.policy_id],
        "version": policy.version,
        "effect": policy.effect,
        "priority": policy.priority,
    }
