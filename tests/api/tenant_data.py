"""A filled tenant: its ids by name, and a client for each role."""

from dataclasses import dataclass, field
from uuid import UUID

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


def add_id(tenant_data: FilledTenant, name: str) -> UUID:
    """Return a new id, which is known by `name`."""
    new_id = clock.new_id()
    tenant_data.ids[name] = str(new_id)
    return new_id


def get_id(tenant_data: FilledTenant, name: str) -> UUID:
    return UUID(tenant_data.ids[name])
