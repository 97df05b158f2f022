"""Specification of replicas: another installation follows a tenant, part by part, and misses nothing."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.runtime.settings import Settings
from bpc.storage.access import tenants_and_actors
from bpc.storage.archive.replica_export import ReplicaOutdated, ReplicaPart, replicate_tenant
from bpc.storage.archive.replica_import import FollowOutcome, TakenOver, follow_replica
from bpc.storage.archive.tenant_export import TABLES_FOLDER, export_tenant
from bpc.storage.audit.verification import verify_audit
from bpc.storage.backup import BackupDamaged
from bpc.storage.database import Database, freeze_view
from bpc.storage.items import versions
from bpc.storage.items.pack_bucket import locate_packs, open_packs
from bpc.storage.passports.products import create_product
from tests.api.conftest import Api
from tests.api.recorded_tenant import record_everything
from tests.api.test_tenant_archive import BUILD, back_up  # noqa: F401 (a fixture)


class Replica:
    """A tenant here, its replica in a folder, and the installation that follows."""

    def __init__(self, service: Service, tenant: TenantId, folder: Path, other: Database, settings: Settings) -> None:
        self.service, self.tenant, self.folder = service, tenant, folder
        self.other, self.settings = other, settings

    async def write(self) -> ReplicaPart:
        row = await find_row(self.service.database, self.tenant)
        packs, act = open_packs(locate_packs(self.service.settings)), Act(None, clock.now())
        return await replicate_tenant(self.service.database, row, self.folder, packs, act=act, build=BUILD)

    async def follow(self) -> FollowOutcome:
        packs, act = open_packs(locate_packs(self.settings)), Act(None, clock.now())
        return await follow_replica(self.other, self.folder, packs, self.settings.data_dir, act=act)


async def find_row(database: Database, tenant: TenantId) -> Any:
    async with database.system() as conn:
        return next(each for each in await tenants_and_actors.list_tenants(conn) if each.tenant_id == tenant)


@pytest.fixture
def replica(
    service: Service,
    tenant: TenantId,
    back_up: tuple[Database, Settings],  # noqa: F811
    tmp_path: Path,
) -> Replica:
    return Replica(service, tenant, tmp_path / "replica", *back_up)


async def export_tables(database: Database, settings: Settings, tenant: TenantId, folder: Path) -> dict[str, bytes]:
    row = await find_row(database, tenant)
    packs, act = open_packs(locate_packs(settings)), Act(None, clock.now())
    await export_tenant(database, row, folder, packs, act=act, build=BUILD)
    return {path.stem: path.read_bytes() for path in (folder / TABLES_FOLDER).iterdir()}


async def test_who_follows_has_every_row_as_it_is_there(
    admin: Api, service: Service, tenant: TenantId, replica: Replica, tmp_path: Path
) -> None:
    parts = [await replica.write()]
    outcomes = [await replica.follow()]
    await record_everything(admin, service, tenant)
    parts += [await replica.write(), await replica.write()]
    outcomes += [await replica.follow(), await replica.follow()]

    assert [(part.number, part.packs) for part in parts] == [(0, 0), (1, 1), (1, 0)]
    assert parts[2].rows == 0
    assert [(outcome.number, outcome.parts) for outcome in outcomes] == [(0, 1), (1, 1), (1, 0)]
    there = await export_tables(replica.other, replica.settings, tenant, tmp_path / "there")
    here = await export_tables(service.database, service.settings, tenant, tmp_path / "here")
    for name in sorted(here.keys() - {"events", "tenants"}):  # the export is an event, and the tenant inactive there
        assert there[name] == here[name], name
    async with replica.other.tenant(tenant) as conn:
        await freeze_view(conn)
        verification = await verify_audit(conn, tenant)
        battery = await conn.fetchval("SELECT battery_id FROM item_passport_versions LIMIT 1")
        version = await versions.get_version(conn, tenant, battery)
        is_active = await conn.fetchval("SELECT is_active FROM tenants WHERE tenant_id = $1", tenant)
    assert verification.chains.faults == ()
    assert not is_active
    packs = open_packs(locate_packs(replica.settings))
    assert packs.read_item(version.pack_sha256, version.place, version.receipt_hash).payload


async def test_rows_that_are_removed_and_changed_are_so_there(
    service: Service, tenant: TenantId, replica: Replica, act: Act
) -> None:
    async with service.database.tenant(tenant) as conn:
        await create_product(conn, tenant, sku="ONE", name="One", act=act)
        actor = await conn.fetchval("SELECT actor_id FROM actor_roles LIMIT 1")
    await replica.write()
    await replica.follow()
    async with service.database.system(tenant) as conn:
        await conn.execute("UPDATE battery_products SET name = 'Uno' WHERE sku = 'ONE'")
    async with service.database.tenant(tenant) as conn:
        await conn.execute("DELETE FROM actor_roles WHERE actor_id = $1", actor)

    await replica.write()
    await replica.follow()

    async with replica.other.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT name FROM battery_products WHERE sku = 'ONE'") == "Uno"
        assert await conn.fetchval("SELECT count(*) FROM actor_roles WHERE actor_id = $1", actor) == 0


async def test_a_row_of_an_open_transaction_comes_with_the_next_part(
    service: Service, tenant: TenantId, replica: Replica, act: Act
) -> None:
    async with service.database.tenant(tenant) as conn, conn.transaction():  # a savepoint has a number of its own
        await create_product(conn, tenant, sku="LATE", name="Late", act=act)
        await replica.write()
    await replica.write()
    await replica.follow()

    async with replica.other.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM battery_products WHERE sku = 'LATE'") == 1


async def test_a_part_that_was_not_finished_is_begun_anew_and_taking_one_in_twice_changes_nothing(
    service: Service, tenant: TenantId, replica: Replica, act: Act
) -> None:
    await replica.write()
    await replica.follow()
    async with service.database.tenant(tenant) as conn:
        await create_product(conn, tenant, sku="TWO", name="Two", act=act)
    unfinished = replica.folder / ".new-000001"
    unfinished.mkdir()
    (unfinished / "half").write_text("of a round that was killed")
    [progress] = (replica.settings.data_dir / "replicas").iterdir()
    before = progress.read_bytes()

    part = await replica.write()
    await replica.follow()
    progress.write_bytes(before)  # as if it was killed before it was noted
    again = await replica.follow()

    assert (part.number, again.parts, unfinished.exists()) == (1, 1, False)
    async with replica.other.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM battery_products WHERE sku = 'TWO'") == 1


async def test_what_does_not_follow_is_refused(
    service: Service, tenant: TenantId, replica: Replica, act: Act, tmp_path: Path
) -> None:
    await replica.write()
    await replica.follow()
    for sku in ("A", "B", "C"):
        async with service.database.tenant(tenant) as conn:
            await create_product(conn, tenant, sku=sku, name=sku, act=act)
        await replica.write()
    shutil.copytree(replica.folder, tmp_path / "kept")

    shutil.rmtree(replica.folder / "000001")  # a part is missing: the next one does not follow
    (replica.folder / "000002").rename(replica.folder / "000001")
    with pytest.raises(BackupDamaged, match="does not follow the part before"):
        await replica.follow()
    replica.folder = tmp_path / "kept"
    (replica.folder / "000001" / TABLES_FOLDER / "battery_products.jsonl").write_text("{}\n")
    with pytest.raises(BackupDamaged, match="was changed"):
        await replica.follow()
    document = replica.folder / "000003" / "tenant.json"
    document.write_bytes(document.read_bytes().replace(b'"server":"', b'"server":"9'))
    with pytest.raises(ReplicaOutdated, match="another one, or was restored"):
        await replica.write()


async def test_a_tenant_that_was_taken_over_does_not_follow_any_more(
    service: Service, tenant: TenantId, replica: Replica, act: Act
) -> None:
    await replica.write()
    await replica.follow()
    async with replica.other.system(tenant) as conn:
        await conn.execute("UPDATE tenants SET is_active = true WHERE tenant_id = $1", tenant)
    async with service.database.tenant(tenant) as conn:
        await create_product(conn, tenant, sku="A", name="A", act=act)
    await replica.write()

    with pytest.raises(TakenOver):
        await replica.follow()
