"""Views are made once: the same bytes at every request, for the tenant whose version it is, and bounded in memory."""

from uuid import UUID

import asyncpg
import pytest

from bpc.api.http.request_context import Service
from bpc.api.http.view_cache import ViewCache
from bpc.core.audit.events import Act
from bpc.core.errors import NotFound
from bpc.core.formats.ids import PassportVersionId, TenantId
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.api.passport_fixtures import create_passport_inputs, issue_version

AUDIENCES = ("public", "interest", "authority")


@pytest.fixture
async def version(admin: Api, service: Service, database: Database, tenant: TenantId, act: Act) -> PassportVersionId:
    inputs = await create_passport_inputs(admin, database, tenant, act)
    return PassportVersionId(UUID(await issue_version(admin, service, inputs)))


async def load_views(cache: ViewCache, database: Database, tenant: TenantId, version: PassportVersionId) -> list[bytes]:
    async with database.tenant(tenant) as conn:
        return [await cache.load_view(conn, tenant, version, audience) for audience in AUDIENCES]


async def test_a_view_is_made_once_for_each_audience_and_for_its_tenant_only(
    database: Database, tenant: TenantId, other_tenant: TenantId, version: PassportVersionId
) -> None:
    cache = ViewCache()

    first = await load_views(cache, database, tenant, version)
    again = await load_views(cache, database, tenant, version)

    assert len(set(first)) == len(AUDIENCES)
    assert [view is kept for view, kept in zip(first, again, strict=True)] == [True, True, True]
    with pytest.raises(NotFound):
        await load_views(cache, database, other_tenant, version)


async def test_a_version_that_was_removed_has_no_view_any_more(
    database: Database,
    tenant: TenantId,
    version: PassportVersionId,
    superuser: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    cache = ViewCache()
    await load_views(cache, database, tenant, version)

    await superuser.execute("SET session_replication_role = replica")  # as retention may, past the guards
    await superuser.execute("DELETE FROM passport_versions WHERE passport_version_id = $1", version)

    with pytest.raises(NotFound):
        await load_views(cache, database, tenant, version)


async def test_views_that_do_not_fit_make_room_and_are_made_again(
    database: Database, tenant: TenantId, version: PassportVersionId
) -> None:
    first = await load_views(ViewCache(), database, tenant, version)
    cache = ViewCache(max_bytes=max(map(len, first)))

    for _ in range(2):
        assert await load_views(cache, database, tenant, version) == first
        assert cache.size <= max(map(len, first))
