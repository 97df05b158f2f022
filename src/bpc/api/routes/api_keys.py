"""/v1/api-keys: keys to the API. A key is shown once, when it is made."""

from pydantic import Field
from starlette.requests import Request as HttpRequest

from bpc.api.deciding import require_undenied
from bpc.api.models import Answer, Id, Moment, Page, Request, Text
from bpc.api.paging import Paged
from bpc.api.routing import Routes
from bpc.api.work import Doing, Work
from bpc.core.cursor import Place
from bpc.core.errors import Conflict
from bpc.core.ids import ActorId, ApiKeyId
from bpc.core.policies import Resource
from bpc.db import actors, apikeys
from bpc.db.apikeys import Issued, TimeOver

routes = Routes("Access")


class NewApiKey(Request):
    actor_id: Id = Field(description="Whose key it is; it may do what this actor may.")
    label: Text | None = Field(None, description="What it is for.", examples=["ci"])
    expires_at: Moment | None = Field(None, description="When it ends by itself; left out, it does not.")


class ApiKeyRotation(Request):
    expires_at: Moment | None = Field(None, description="When the new key ends by itself; left out, it does not.")
    old_expires_at: Moment | None = Field(
        None, description="When the old key ends, unless it ends sooner; left out, it stays as it is."
    )


class ApiKeyMade(Answer):
    api_key_id: Id
    api_key: str = Field(
        description="The key, shown this once: only its hash is kept.",
        examples=["bpc_4fTzQ0aLw9_…"],
    )
    key_prefix: str = Field(examples=["4fTzQ0aLw9"])
    actor_id: Id
    label: str | None
    created_at: Moment
    expires_at: Moment | None


class ApiKey(Answer):
    api_key_id: Id
    key_prefix: str = Field(
        description="The part between `bpc_` and the second `_`: names the key, opens nothing.",
        examples=["4fTzQ0aLw9"],
    )
    actor_id: Id
    display_name: str = Field(description="What its actor is called.")
    roles: list[str] = Field(description="Names of its actor's roles.", examples=[["Auditor"]])
    label: str | None
    created_at: Moment
    expires_at: Moment | None
    revoked_at: Moment | None
    last_used_at: Moment | None = Field(description="To the minute.")


@routes.write(
    "/v1/api-keys",
    permission="access:admin",
    resource="ApiKey",
    status=201,
    secret="api_key_id",  # noqa: S106 (which member says whose secret it is)
    errors=("NOT_FOUND",),
)
async def create_api_key(work: Work, request: HttpRequest, body: NewApiKey) -> ApiKeyMade:
    """Create a key for an active actor. The answer is the only place where it is ever shown."""
    require_undenied(work, request, [Resource(type="Actor", id=body.actor_id)], "access:admin")
    _check_future(work, expires_at=body.expires_at)
    actor = await actors.get(work.conn, work.tenant, ActorId(body.actor_id))
    if not actor.is_active:
        raise Conflict("this actor is deactivated", fix="reactivate it first")
    issued = await apikeys.create(
        work.conn,
        work.tenant,
        actor.actor_id,
        pepper=work.service.pepper,
        act=work.act,
        label=body.label,
        expires_at=body.expires_at,
    )
    return _made(issued)


@routes.read("/v1/api-keys", permission="access:admin", resource="ApiKey")
async def list_api_keys(work: Work, paged: Paged) -> Page[ApiKey]:
    """List keys, newest first, without what would open a door."""
    rows = await apikeys.page(work.conn, work.tenant, paged.ask)
    return paged.page(rows, lambda row: Place(row.created_at, row.api_key_id), ApiKey.model_validate)


@routes.read("/v1/api-keys/{api_key_id}", permission="access:admin", resource="ApiKey")
async def get_api_key(work: Work, api_key_id: Id) -> ApiKey:
    """Get what is known of a key."""
    return ApiKey.model_validate(await apikeys.get(work.conn, work.tenant, ApiKeyId(api_key_id)))


@routes.write("/v1/api-keys/{api_key_id}:revoke", permission="access:admin", resource="ApiKey")
async def revoke_api_key(work: Work, api_key_id: Id) -> ApiKey:
    """End a key for good, from the next request on."""
    return ApiKey.model_validate(await apikeys.revoke_id(work.conn, work.tenant, ApiKeyId(api_key_id), act=work.act))


@routes.write(
    "/v1/api-keys/{api_key_id}:rotate",
    permission="access:admin",
    resource="ApiKey",
    status=201,
    secret="api_key_id",  # noqa: S106 (as above)
)
async def rotate_api_key(work: Work, api_key_id: Id, body: ApiKeyRotation) -> ApiKeyMade:
    """Create a second key for the same actor. Both are valid until the old one ends or is revoked."""
    _check_future(work, expires_at=body.expires_at, old_expires_at=body.old_expires_at)
    issued = await apikeys.rotate(
        work.conn,
        work.tenant,
        ApiKeyId(api_key_id),
        pepper=work.service.pepper,
        act=work.act,
        expires_at=body.expires_at,
        old_expires_at=body.old_expires_at,
    )
    return _made(issued)


def _check_future(work: Doing, **moments: Moment | None) -> None:
    for name, moment in moments.items():
        if moment is not None and moment <= work.act.at:
            raise TimeOver(name)


def _made(issued: Issued) -> ApiKeyMade:
    return ApiKeyMade(
        api_key_id=issued.api_key_id,
        api_key=issued.api_key.text,
        key_prefix=issued.api_key.prefix,
        actor_id=issued.actor_id,
        label=issued.label,
        created_at=issued.created_at,
        expires_at=issued.expires_at,
    )
