"""A filled tenant: its ids by name, and a client for each role."""

from dataclasses import dataclass, field
from typing import TypedDict
from uuid import UUID

import httpx2

from bpc.core.formats.ids import (
    TenantId,
)
from bpc.runtime import clock
from tests.api.conftest import Api

PAST_TIME = "2020-01-01T00:00:00.000000Z"


@dataclass(frozen=True, slots=True)
class FilledTenant:
    """One tenant: its ids by the names routes and bodies use for them, and a client for each role."""

    tenant: TenantId
    mark: str
    clients: dict[str, Api]
    ids: dict[str, str] = field(default_factory=dict)


class StoredTenant(TypedDict):
    """What is known of a filled tenant, as JSON holds it: its clients are the keys of its roles."""

    tenant: str
    mark: str
    keys: dict[str, str]
    ids: dict[str, str]


def store_tenant(tenant_data: FilledTenant, keys: dict[str, str]) -> StoredTenant:
    return StoredTenant(tenant=str(tenant_data.tenant), mark=tenant_data.mark, keys=keys, ids=tenant_data.ids)


def open_tenant(stored: StoredTenant, http: httpx2.AsyncClient) -> FilledTenant:
    """The tenant, with a client for each role."""
    clients = {role: Api(http, key) for role, key in stored["keys"].items()}
    return FilledTenant(TenantId(UUID(stored["tenant"])), stored["mark"], clients, dict(stored["ids"]))


def add_id(tenant_data: FilledTenant, name: str) -> UUID:
    """Return a new id, which is known by `name`."""
    new_id = clock.new_id()
    tenant_data.ids[name] = str(new_id)
    return new_id


def get_id(tenant_data: FilledTenant, name: str) -> UUID:
    return UUID(tenant_data.ids[name])
