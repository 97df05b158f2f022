"""/v1/roles, /v1/permissions: names for sets of permissions, and all permissions there are."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from bpc.api.models import Answer, Id, Moment, Page, Request, Text
from bpc.api.paging import Paged
from bpc.api.routing import Routes
from bpc.api.work import Work
from bpc.core.access import PERMISSIONS
from bpc.core.cursor import Place
from bpc.core.ids import RoleId
from bpc.db import access_roles

routes = Routes("Access")


def _known(permission: str) -> str:
    if permission not in PERMISSIONS:
        raise ValueError(f"`{permission[:80]}` is not a permission; GET /v1/permissions lists them")
    return permission


ENUM: dict[str, Any] = {"enum": list(PERMISSIONS)}
Permission = Annotated[str, AfterValidator(_known), Field(json_schema_extra=ENUM)]
Granted = Annotated[
    list[Permission],
    Field(max_length=len(PERMISSIONS), description="What whoever has the role may do.", examples=[["audit:read"]]),
]


class NewRole(Request):
    name: Text = Field(examples=["Intern"])
    permissions: Granted


class RolePermissions(Request):
    permissions: Granted


class Role(Answer):
    role_id: Id
    name: str
    permissions: list[str] = Field(examples=[["audit:read"]])
    created_at: Moment


class Permissions(Answer):
    """All there are; they come with the release."""

    items: list[str] = Field(examples=[["passport:read"]])


@routes.write("/v1/roles", permission="access:admin", resource="Role", status=201)
async def create_role(work: Work, body: NewRole) -> Role:
    """Create a role."""
    made = await access_roles.create(work.conn, work.tenant, name=body.name, permissions=body.permissions, act=work.act)
    return Role.model_validate(made)


@routes.read("/v1/roles", permission="access:admin", resource="Role")
async def list_roles(work: Work, paged: Paged) -> Page[Role]:
    """List roles, newest first."""
    rows = await access_roles.page(work.conn, work.tenant, paged.ask)
    return paged.page(rows, lambda row: Place(row.created_at, row.role_id), Role.model_validate)


@routes.read("/v1/roles/{role_id}", permission="access:admin", resource="Role")
async def get_role(work: Work, role_id: Id) -> Role:
    """Get a role."""
    return Role.model_validate(await access_roles.get(work.conn, work.tenant, RoleId(role_id)))


@routes.write("/v1/roles/{role_id}/permissions", permission="access:admin", resource="Role", method="PUT")
async def set_role_permissions(work: Work, role_id: Id, body: RolePermissions) -> Role:
    """Give a role these permissions and no others. The last administrator stays one."""
    changed = await access_roles.set_permissions(
        work.conn, work.tenant, RoleId(role_id), body.permissions, act=work.act
    )
    return Role.model_validate(changed)


@routes.read("/v1/permissions", permission="access:admin", resource="Role")
async def list_permissions(_: Work) -> Permissions:
    """List all permissions a role can have."""
    return Permissions(items=list(PERMISSIONS))
