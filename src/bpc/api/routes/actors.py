"""/v1/actors: the people and programs of a tenant, and the roles they have."""

from typing import Annotated

from pydantic import Field, StrictBool, StringConstraints

from bpc.api.models import Answer, Id, Moment, Page, Request, Text
from bpc.api.paging import Paged
from bpc.api.routing import Routes
from bpc.api.work import Work
from bpc.core.cursor import Place
from bpc.core.errors import Invalid
from bpc.core.ids import ActorId
from bpc.db import actors
from bpc.db.actors import ActorType

routes = Routes("Access")

Email = Annotated[
    str, StringConstraints(min_length=3, max_length=254, pattern=r"^[^@\s\x00-\x1f\x7f]+@[^@\s\x00-\x1f\x7f]+$")
]
RoleNames = Annotated[
    list[Text], Field(max_length=50, description="Names of roles of the tenant.", examples=[["Auditor"]])
]


class NewActor(Request):
    type: ActorType = Field(description="A person, a program of somebody else, or a service of ours.")
    display_name: Text = Field(examples=["Yearly audit"])
    email: Email | None = Field(None, description="One actor of a tenant has it.", examples=["audit@example.com"])
    roles: RoleNames


class ActorChange(Request):
    """What is left out stays as it is."""

    display_name: Text = Field(default_factory=str, examples=["Line 4 gateway"])
    email: Email | None = Field(None, description="null removes it.")
    is_active: StrictBool = Field(
        default_factory=bool, description="While it is false, none of the actor's keys opens anything."
    )


class ActorRoles(Request):
    roles: RoleNames


class Actor(Answer):
    actor_id: Id
    type: ActorType
    display_name: str
    email: str | None
    is_active: bool = Field(description="While it is false, none of the actor's keys opens anything.")
    roles: list[str] = Field(description="Names of its roles.", examples=[["Auditor"]])
    created_at: Moment


@routes.write("/v1/actors", permission="access:admin", resource="Actor", status=201, errors=("NOT_FOUND",))
async def create_actor(work: Work, body: NewActor) -> Actor:
    """Create an actor with roles. It needs an API key to call."""
    made = await actors.create(
        work.conn,
        work.tenant,
        kind=body.type,
        display_name=body.display_name,
        email=body.email,
        roles=body.roles,
        act=work.act,
    )
    return Actor.model_validate(await actors.get(work.conn, work.tenant, made))


@routes.read("/v1/actors", permission="access:admin", resource="Actor")
async def list_actors(work: Work, paged: Paged) -> Page[Actor]:
    """List actors, newest first."""
    rows = await actors.page(work.conn, work.tenant, paged.ask)
    return paged.page(rows, lambda row: Place(row.created_at, row.actor_id), Actor.model_validate)


@routes.read("/v1/actors/{actor_id}", permission="access:admin", resource="Actor")
async def get_actor(work: Work, actor_id: Id) -> Actor:
    """Get an actor."""
    return Actor.model_validate(await actors.get(work.conn, work.tenant, ActorId(actor_id)))


@routes.write("/v1/actors/{actor_id}", permission="access:admin", resource="Actor", method="PATCH")
async def change_actor(work: Work, actor_id: Id, body: ActorChange) -> Actor:
    """Change what an actor is called, or deactivate it. Nobody deactivates themselves or the last administrator."""
    changes = body.model_dump(exclude_unset=True)
    if not changes:
        raise Invalid("there is nothing to change", fix="send `display_name`, `email` or `is_active`")
    changed = await actors.change(work.conn, work.tenant, ActorId(actor_id), changes, act=work.act)
    return Actor.model_validate(changed)


@routes.write("/v1/actors/{actor_id}/roles", permission="access:admin", resource="Actor", method="PUT")
async def set_actor_roles(work: Work, actor_id: Id, body: ActorRoles) -> Actor:
    """Give an actor these roles and no others. The last administrator stays one."""
    changed = await actors.set_roles(work.conn, work.tenant, ActorId(actor_id), body.roles, act=work.act)
    return Actor.model_validate(changed)
