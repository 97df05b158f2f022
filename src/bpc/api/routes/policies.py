"""/v1/policies: versioned words about who may do what, tried before the roles are; and what they would decide."""

from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, Field, SerializerFunctionWrapHandler, StrictInt, model_serializer
from starlette.requests import Request as HttpRequest

from bpc.api.deciding import require_undenied
from bpc.api.models import Answer, Hash, Id, Moment, Page, Request, Text
from bpc.api.paging import Paged
from bpc.api.routes.roles import Permission
from bpc.api.routing import Routes
from bpc.api.work import Doing, Work
from bpc.core.cursor import Place
from bpc.core.errors import Invalid
from bpc.core.ids import ActorId, PolicyId
from bpc.core.policies import (
    LARGEST_PRIORITY,
    MOST_LISTED,
    RESOURCE_TYPES,
    Asked,
    Effect,
    Resource,
    decide,
    in_order,
    read_conditions,
    read_target,
)
from bpc.core.policies import (
    Policy as Deciding,
)
from bpc.db import actors, policies, policies_in_force, products
from bpc.db.actors import ActorType
from bpc.db.policies import Words

routes = Routes("Access")


def _checked_target(text: str) -> str:
    try:
        return read_target(text)
    except Invalid as wrong:
        raise ValueError(f"{wrong.says}; {wrong.fix}") from None


def _known_type(text: str) -> str:
    if text not in RESOURCE_TYPES:
        raise ValueError(f"`{text[:80]}` is not a type of resource")
    return text


TYPES: dict[str, Any] = {"enum": list(RESOURCE_TYPES)}
Target = Annotated[
    Text,
    AfterValidator(_checked_target),
    Field(description="A permission; `*` may stand at its end.", examples=["passport:*"]),
]
Priority = Annotated[
    StrictInt, Field(ge=0, le=LARGEST_PRIORITY, description="Lower ones are tried first.", examples=[100])
]
ResourceType = Annotated[Text, AfterValidator(_known_type), Field(json_schema_extra=TYPES, examples=["Passport"])]
Ids = Annotated[list[Id], Field(min_length=1, max_length=MOST_LISTED)]


class ResourceCondition(Request):
    type: ResourceType
    ids: Ids | None = Field(None, description="Only these.")
    sku: Text | None = Field(
        None,
        description="For products, passports and their versions: only of this SKU; `*` may stand at its end.",
        examples=["SKU-1*"],
    )


class Conditions(Request):
    """All that are there must hold."""

    actor_ids: Ids | None = None
    actor_types: Annotated[list[ActorType], Field(min_length=1, max_length=3)] | None = None
    roles: Annotated[list[Text], Field(min_length=1, max_length=MOST_LISTED)] | None = Field(
        None, description="Names of roles, of which the actor has at least one.", examples=[["Auditor"]]
    )
    resource: ResourceCondition | None = None
    not_before: Moment | None = None
    not_after: Moment | None = None


class ShownConditions(Conditions):
    """What is not there was not said: these are the members that are hashed."""

    # Annotated, its schema would be the annotation's.
    @model_serializer(mode="wrap")
    def _without_nulls(self, shown: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]
        return _said(shown(self))


def _said(shown: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _said(value) if isinstance(value, dict) else value for name, value in shown.items() if value is not None
    }


class NewPolicyVersion(Request):
    effect: Effect = Field(
        description="DENY refuses whatever the roles say; ALLOW grants all but the two admin rights."
    )
    target: Target
    priority: Priority = 100
    policy_json: Conditions = Field(default_factory=Conditions, description="When it applies; left out, always.")


class NewPolicy(NewPolicyVersion):
    name: Text = Field(examples=["No uploads by interns"])


class PolicyVersion(Answer):
    policy_version_id: Id
    policy_id: Id
    version: int
    is_active: bool = Field(description="Whether it is in force; at most one version of a policy is.")
    effect: Effect
    target: str
    priority: int
    policy_json: ShownConditions = Field(
        description="Its conditions, as they are hashed.", examples=[{"roles": ["Intern"]}]
    )
    policy_hash: Hash = Field(description="SHA-256 of canonical `{effect, policy_json, priority, target}`.")
    created_at: Moment


class Policy(Answer):
    policy_id: Id
    name: str
    created_at: Moment
    created_by: Id | None
    active: PolicyVersion | None = Field(description="The version in force; null where none is.")


class AskedResource(Request):
    type: ResourceType
    id: Id | None = None
    sku: Text | None = Field(None, description="Left out, it is looked up by the id.")


class DryRun(Request):
    actor_id: Id
    permission: Permission
    resource: AskedResource | None = None
    at: Moment | None = Field(None, description="When it would be asked; left out, now.")


class Decider(Answer):
    policy_id: Id
    policy_version_id: Id
    name: str
    version: int
    effect: Effect
    priority: int


class Considered(Decider):
    matches: bool
    why_not: str | None = Field(description="The first thing that keeps it from applying.")


class DryRunAnswer(Answer):
    allowed: bool
    reason: str
    decided_by: Decider | None = Field(description="The policy that decides; null where the actor's roles do.")
    considered: list[Considered] = Field(description="All policies in force, in the order they are tried.")


@routes.write("/v1/policies", permission="access:admin", resource="Policy", status=201)
async def create_policy(work: Work, body: NewPolicy) -> Policy:
    """Create a policy; its version 1 is in force from the next request on."""
    made = await policies.create(work.conn, work.tenant, name=body.name, words=_words(body), act=work.act)
    return Policy.model_validate(made)


@routes.read("/v1/policies", permission="access:admin", resource="Policy")
async def list_policies(work: Work, paged: Paged) -> Page[Policy]:
    """List policies with the version in force, newest first."""
    rows = await policies.page(work.conn, work.tenant, paged.ask)
    return paged.page(rows, lambda row: Place(row.created_at, row.policy_id), Policy.model_validate)


@routes.ask("/v1/policies:dry-run", permission="access:admin", resource="Policy", errors=("NOT_FOUND",))
async def dry_run_policies(work: Work, request: HttpRequest, body: DryRun) -> DryRunAnswer:
    """Say what would be decided, by which policy and why. Nothing changes and nothing is put on record."""
    require_undenied(work, request, [Resource(type="Actor", id=body.actor_id)], "access:admin")
    asked, permissions = await _asked(work, body)
    found = await policies_in_force.all_of(work.conn, work.tenant)
    decision = decide(asked, permissions, [one.policy for one in found])
    names = {one.policy.policy_id: one.name for one in found}
    tried = in_order(one.policy for one in found)
    return DryRunAnswer(
        allowed=decision.allowed,
        reason=decision.reason,
        decided_by=None if decision.policy is None else Decider.model_validate(_shown(decision.policy, names)),
        considered=[_considered(policy, names, policy.misses(asked)) for policy in tried],
    )


@routes.read("/v1/policies/{policy_id}", permission="access:admin", resource="Policy")
async def get_policy(work: Work, policy_id: Id) -> Policy:
    """Get a policy with the version in force."""
    return Policy.model_validate(await policies.get(work.conn, work.tenant, PolicyId(policy_id)))


@routes.write("/v1/policies/{policy_id}/versions", permission="access:admin", resource="Policy", status=201)
async def create_policy_version(work: Work, policy_id: Id, body: NewPolicyVersion) -> PolicyVersion:
    """Add a version, which is in force instead of the one before from the next request on."""
    made = await policies.add_version(work.conn, work.tenant, PolicyId(policy_id), _words(body), act=work.act)
    return PolicyVersion.model_validate(made)


@routes.read("/v1/policies/{policy_id}/versions", permission="access:admin", resource="Policy")
async def list_policy_versions(work: Work, policy_id: Id, paged: Paged) -> Page[PolicyVersion]:
    """List the versions of a policy, newest first."""
    policy = (await policies.get(work.conn, work.tenant, PolicyId(policy_id))).policy_id
    rows = await policies.versions(work.conn, work.tenant, policy, paged.ask)
    return paged.page(rows, lambda row: Place(row.created_at, row.policy_version_id), PolicyVersion.model_validate)


@routes.write("/v1/policies/{policy_id}:deactivate", permission="access:admin", resource="Policy")
async def deactivate_policy(work: Work, policy_id: Id) -> Policy:
    """Leave no version of a policy in force. A new version puts it in force again."""
    return Policy.model_validate(await policies.deactivate(work.conn, work.tenant, PolicyId(policy_id), act=work.act))


def _words(body: NewPolicyVersion) -> Words:
    conditions = body.policy_json.model_dump(mode="json", exclude_none=True)
    read_conditions(conditions)
    return Words(effect=body.effect, target=body.target, priority=body.priority, policy_json=conditions)


async def _asked(work: Doing, body: DryRun) -> tuple[Asked, frozenset[str]]:
    """What the dry run is about, and what the actor's roles give it."""
    actor = await actors.get(work.conn, work.tenant, ActorId(body.actor_id))
    resource = None
    if (named := body.resource) is not None:
        sku = named.sku
        if sku is None and named.id is not None:
            sku = await products.sku_of(work.conn, work.tenant, named.type, named.id)
        resource = Resource(type=named.type, id=named.id, sku=sku)
    asked = Asked(
        actor_id=actor.actor_id,
        actor_type=actor.type,
        roles=actor.roles,
        permission=body.permission,
        resource=resource,
        now=body.at or work.act.at,
    )
    return asked, await actors.permissions_of(work.conn, work.tenant, actor.actor_id)


def _considered(policy: Deciding, names: dict[UUID, str], why_not: str | None) -> Considered:
    return Considered.model_validate({**_shown(policy, names), "matches": why_not is None, "why_not": why_not})


def _shown(policy: Deciding, names: dict[UUID, str]) -> dict[str, object]:
    return {
        "policy_id": policy.policy_id,
        "policy_version_id": policy.policy_version_id,
        "name": names[policy.policy_id],
        "version": policy.version,
        "effect": policy.effect,
        "priority": policy.priority,
    }
