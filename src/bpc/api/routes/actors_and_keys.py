"""/v1/actors, /v1/roles, /v1/permissions, /v1/api-keys: who may call the API, and what they may do."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, StrictBool, StringConstraints
from starlette.requests import Request

from bpc.api.access.grants import (
    add_roles,
    list_named_roles,
    load_holder,
    require_actor_not_denied,
    require_held,
    require_held_by_role,
    require_roles_not_denied,
)
from bpc.api.http.models import (
    Id,
    IdOf,
    Moment,
    NothingToChange,
    Page,
    Paging,
    RequestBody,
    ResponseBody,
    SentMoment,
    Text,
)
from bpc.api.http.request_context import Context, RequestContext
from bpc.api.http.routing import RouteFamily
from bpc.core.errors import Conflict
from bpc.core.formats.ids import ActorId, ApiKeyId, RoleId
from bpc.core.grants import Holder
from bpc.core.policies import PERMISSIONS
from bpc.storage.access import api_keys, policies, tenants_and_actors
from bpc.storage.access.api_keys import IssuedApiKey, TimeNotInFuture
from bpc.storage.access.tenants_and_actors import ActorType

actor_routes = RouteFamily("Access", resource="Actor")

Email = Annotated[
    str, StringConstraints(min_length=3, max_length=254, pattern=r"^[^@\s\x00-\x1f\x7f]+@[^@\s\x00-\x1f\x7f]+$")
]
RoleNames = Annotated[
    list[Text], Field(max_length=50, description="Names of roles of the tenant.", examples=[["Auditor"]])
]


class NewActor(RequestBody):
    type: ActorType = Field(description="A person, an external program, or an internal service.")
    display_name: Text = Field(examples=["Yearly audit"])
    email: Email | None = Field(None, description="Unique within the tenant.", examples=["audit@example.com"])
    roles: RoleNames


class ActorChange(RequestBody):
    """Members that are left out do not change."""

    display_name: Text = Field(default_factory=str, examples=["Line 4 gateway"])
    email: Email | None = Field(None, description="null removes it.")
    is_active: StrictBool = Field(
        default_factory=bool, description="While it is false, none of the actor's keys is accepted."
    )


class ActorRoles(RequestBody):
    roles: RoleNames


class Actor(ResponseBody):
    actor_id: Id
    type: ActorType
    display_name: str
    email: str | None
    is_active: bool = Field(description="While it is false, none of the actor's keys is accepted.")
    roles: list[str] = Field(description="Names of its roles.", examples=[["Auditor"]])
    created_at: Moment


@actor_routes.write("/v1/actors", permission="access:admin", status=201, errors=("NOT_FOUND",), four_eyes="role_grants")
async def create_actor(ctx: Context, request: Request, body: NewActor) -> Actor:
    """Create an actor with roles. It needs an API key to call. Nobody gives a role with more than they have."""
    roles = await list_named_roles(ctx, body.roles)
    require_roles_not_denied(ctx, request, roles)
    newcomer = Holder(actor_id=None, actor_type=body.type, roles=(), permissions=())
    require_held(ctx, request, add_roles(newcomer, roles), before=newcomer)
    actor_id = await tenants_and_actors.create_actor(
        ctx.conn,
        ctx.tenant,
        kind=body.type,
        display_name=body.display_name,
        email=body.email,
        roles=body.roles,
        act=ctx.act,
    )
    return Actor.model_validate(await tenants_and_actors.get_actor(ctx.conn, ctx.tenant, actor_id))


@actor_routes.read("/v1/actors", permission="access:admin")
async def list_actors(ctx: Context, page: Paging) -> Page[Actor]:
    """List actors, newest first."""
    return page.build_page(await tenants_and_actors.list_actors(ctx.conn, ctx.tenant, page.query), Actor)


@actor_routes.read("/v1/actors/{actor_id}", permission="access:admin")
async def get_actor(ctx: Context, actor_id: IdOf[ActorId]) -> Actor:
    """Get an actor."""
    return Actor.model_validate(await tenants_and_actors.get_actor(ctx.conn, ctx.tenant, actor_id))


@actor_routes.write("/v1/actors/{actor_id}", permission="access:admin", method="PATCH", four_eyes="role_grants")
async def change_actor(ctx: Context, request: Request, actor_id: IdOf[ActorId], body: ActorChange) -> Actor:
    """Change an actor, or deactivate it. Nobody can deactivate themselves or the last administrator.

    Reactivating an actor gives back what its roles give: nobody gives back more than they have.
    """
    changes = body.model_dump(exclude_unset=True)
    if not changes:
        raise NothingToChange(body)
    if changes.get("is_active"):
        before = await tenants_and_actors.get_actor(ctx.conn, ctx.tenant, actor_id)
        if not before.is_active:
            require_held(ctx, request, await load_holder(ctx, before))
    actor = await tenants_and_actors.change_actor(ctx.conn, ctx.tenant, actor_id, changes, act=ctx.act)
    return Actor.model_validate(actor)


@actor_routes.write("/v1/actors/{actor_id}/roles", permission="access:admin", method="PUT", four_eyes="role_grants")
async def set_actor_roles(ctx: Context, request: Request, actor_id: IdOf[ActorId], body: ActorRoles) -> Actor:
    """Replace the roles of an actor. The last administrator cannot lose that role.

    Nobody gives a role with more than they have, nor takes one away that keeps a policy in force for the actor.
    """
    await policies.lock_access(ctx.conn, ctx.tenant)
    before = await load_holder(ctx, await tenants_and_actors.get_actor(ctx.conn, ctx.tenant, actor_id))
    roles = await list_named_roles(ctx, {*body.roles, *before.roles})
    require_roles_not_denied(
        ctx, request, [role for role in roles if (role.name in body.roles) != (role.name in before.roles)]
    )
    after = add_roles(before, [role for role in roles if role.name in body.roles])
    require_held(ctx, request, after, before=before)
    actor = await tenants_and_actors.set_actor_roles(ctx.conn, ctx.tenant, actor_id, body.roles, act=ctx.act)
    return Actor.model_validate(actor)


role_routes = RouteFamily("Access", resource="Role")


def _require_known_permission(permission: str) -> str:
    if permission not in PERMISSIONS:
        raise ValueError(f"`{permission[:80]}` is not a permission; GET /v1/permissions lists them")
    return permission


PERMISSION_ENUM: dict[str, Any] = {"enum": list(PERMISSIONS)}
Permission = Annotated[str, AfterValidator(_require_known_permission), Field(json_schema_extra=PERMISSION_ENUM)]
PermissionNames = Annotated[
    list[Permission],
    Field(max_length=len(PERMISSIONS), description="What actors with this role may do.", examples=[["audit:read"]]),
]


class NewRole(RequestBody):
    name: Text = Field(examples=["Intern"])
    permissions: PermissionNames


class RolePermissions(RequestBody):
    permissions: PermissionNames


class Role(ResponseBody):
    role_id: Id
    name: str
    permissions: list[str] = Field(examples=[["audit:read"]])
    created_at: Moment


class Permissions(ResponseBody):
    """All permissions of this release."""

    items: list[str] = Field(examples=[["passport:read"]])


@role_routes.write("/v1/roles", permission="access:admin", status=201, four_eyes="role_grants")
async def create_role(ctx: Context, request: Request, body: NewRole) -> Role:
    """Create a role. Nobody puts a permission into a role that they do not have."""
    require_held_by_role(ctx, request, body.name, body.permissions)
    role = await tenants_and_actors.create_role(
        ctx.conn, ctx.tenant, name=body.name, permissions=body.permissions, act=ctx.act
    )
    return Role.model_validate(role)


@role_routes.read("/v1/roles", permission="access:admin")
async def list_roles(ctx: Context, page: Paging) -> Page[Role]:
    """List roles, newest first."""
    return page.build_page(await tenants_and_actors.list_roles(ctx.conn, ctx.tenant, page.query), Role)


@role_routes.read("/v1/roles/{role_id}", permission="access:admin")
async def get_role(ctx: Context, role_id: IdOf[RoleId]) -> Role:
    """Get a role."""
    return Role.model_validate(await tenants_and_actors.get_role(ctx.conn, ctx.tenant, role_id))


@role_routes.write("/v1/roles/{role_id}/permissions", permission="access:admin", method="PUT", four_eyes="role_grants")
async def set_role_permissions(ctx: Context, request: Request, role_id: IdOf[RoleId], body: RolePermissions) -> Role:
    """Replace the permissions of a role. The last administrator cannot lose theirs.

    Nobody adds a permission that they do not have.
    """
    await policies.lock_access(ctx.conn, ctx.tenant)
    before = await tenants_and_actors.get_role(ctx.conn, ctx.tenant, role_id)
    require_held_by_role(ctx, request, before.name, sorted(set(body.permissions) - set(before.permissions)))
    role = await tenants_and_actors.set_role_permissions(ctx.conn, ctx.tenant, role_id, body.permissions, act=ctx.act)
    return Role.model_validate(role)


@role_routes.read("/v1/permissions", permission="access:admin")
async def list_permissions(_: Context) -> Permissions:
    """List all permissions that a role can have."""
    return Permissions(items=list(PERMISSIONS))


api_key_routes = RouteFamily("Access", resource="ApiKey")


class NewApiKey(RequestBody):
    actor_id: IdOf[ActorId] = Field(description="The owner of the key; the key may do what this actor may.")
    label: Text | None = Field(None, description="What it is for.", examples=["ci"])
    expires_at: SentMoment | None = Field(None, description="When the key expires; left out, it does not expire.")


class ApiKeyRotation(RequestBody):
    expires_at: SentMoment | None = Field(None, description="When the new key expires; left out, it does not expire.")
    old_expires_at: SentMoment | None = Field(
        None, description="When the old key expires, unless it expires sooner; left out, it does not change."
    )


class ApiKeyMade(ResponseBody):
    api_key_id: Id
    api_key: str = Field(
        description="The key. It is shown only once; only its hash is stored.", examples=["bpc_4fTzQ0aLw9_…"]
    )
    key_prefix: str = Field(examples=["4fTzQ0aLw9"])
    actor_id: Id
    label: str | None
    created_at: Moment
    expires_at: Moment | None


class ApiKey(ResponseBody):
    api_key_id: Id
    key_prefix: str = Field(
        description="The part between `bpc_` and the second `_`; it identifies the key and is not secret.",
        examples=["4fTzQ0aLw9"],
    )
    actor_id: Id
    display_name: str = Field(description="The name of its actor.")
    roles: list[str] = Field(description="Names of its actor's roles.", examples=[["Auditor"]])
    label: str | None
    created_at: Moment
    expires_at: Moment | None
    revoked_at: Moment | None
    last_used_at: Moment | None = Field(description="When it was last used, to the minute.")


@api_key_routes.write(
    "/v1/api-keys",
    permission="access:admin",
    four_eyes="key_changes",
    status=201,
    secret="api_key_id",  # noqa: S106 (which member says whose secret it is)
    errors=("NOT_FOUND",),
)
async def create_api_key(ctx: Context, request: Request, body: NewApiKey) -> ApiKeyMade:
    """Create a key for an active actor, who has no more than you. The answer is the only place where it is shown."""
    require_actor_not_denied(ctx, request, body.actor_id)
    _require_future(ctx, expires_at=body.expires_at)
    actor = await tenants_and_actors.get_actor(ctx.conn, ctx.tenant, body.actor_id)
    if not actor.is_active:
        raise Conflict("this actor is deactivated", fix="reactivate it first")
    require_held(ctx, request, await load_holder(ctx, actor))
    new_key = await api_keys.create_key(
        ctx.conn,
        ctx.tenant,
        actor.actor_id,
        pepper=ctx.service.pepper,
        act=ctx.act,
        label=body.label,
        expires_at=body.expires_at,
    )
    return _to_created_key(new_key)


@api_key_routes.read("/v1/api-keys", permission="access:admin")
async def list_api_keys(ctx: Context, page: Paging) -> Page[ApiKey]:
    """List keys, newest first, without their secrets."""
    return page.build_page(await api_keys.list_keys(ctx.conn, ctx.tenant, page.query), ApiKey)


@api_key_routes.read("/v1/api-keys/{api_key_id}", permission="access:admin")
async def get_api_key(ctx: Context, api_key_id: IdOf[ApiKeyId]) -> ApiKey:
    """Get a key without its secret."""
    return ApiKey.model_validate(await api_keys.get_key(ctx.conn, ctx.tenant, api_key_id))


@api_key_routes.write("/v1/api-keys/{api_key_id}:revoke", permission="access:admin")
async def revoke_api_key(ctx: Context, request: Request, api_key_id: IdOf[ApiKeyId]) -> ApiKey:
    """Revoke a key for good. The next request with it is refused."""
    require_actor_not_denied(ctx, request, (await api_keys.get_key(ctx.conn, ctx.tenant, api_key_id)).actor_id)
    return ApiKey.model_validate(await api_keys.revoke_key_by_id(ctx.conn, ctx.tenant, api_key_id, act=ctx.act))


@api_key_routes.write(
    "/v1/api-keys/{api_key_id}:rotate",
    permission="access:admin",
    four_eyes="key_changes",
    status=201,
    secret="api_key_id",  # noqa: S106 (as above)
)
async def rotate_api_key(
    ctx: Context, request: Request, api_key_id: IdOf[ApiKeyId], body: ApiKeyRotation
) -> ApiKeyMade:
    """Create a second key for the same actor. Both are valid until the old key expires or is revoked.

    The actor must have no more than you.
    """
    _require_future(ctx, expires_at=body.expires_at, old_expires_at=body.old_expires_at)
    old_key = await api_keys.get_key(ctx.conn, ctx.tenant, api_key_id)
    require_actor_not_denied(ctx, request, old_key.actor_id)
    actor = await tenants_and_actors.get_actor(ctx.conn, ctx.tenant, old_key.actor_id)
    require_held(ctx, request, await load_holder(ctx, actor))
    new_key = await api_keys.rotate_key(
        ctx.conn,
        ctx.tenant,
        api_key_id,
        pepper=ctx.service.pepper,
        act=ctx.act,
        expires_at=body.expires_at,
        old_expires_at=body.old_expires_at,
    )
    return _to_created_key(new_key)


def _require_future(ctx: RequestContext, **moments: Moment | None) -> None:
    for name, moment in moments.items():
        if moment is not None and moment <= ctx.act.at:
            raise TimeNotInFuture(name)


def _to_created_key(new_key: IssuedApiKey) -> ApiKeyMade:
    return ApiKeyMade(
        api_key_id=new_key.api_key_id,
        api_key=new_key.api_key.text,
        key_prefix=new_key.api_key.prefix,
        actor_id=new_key.actor_id,
        label=new_key.label,
        created_at=new_key.created_at,
        expires_at=new_key.expires_at,
    )
