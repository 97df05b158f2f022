"""Specification of archives of tenants: everything comes out of one installation, and into another, as it was."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bpc.api.http.app import create_app
from bpc.api.http.request_context import Service
from bpc.api.http.server import open_service
from bpc.core.audit.events import Act
from bpc.core.audit.signing import derive_public_key, parse_seed
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.settings import Settings
from bpc.storage.access import tenants_and_actors
from bpc.storage.archive.tenant_export import TABLES_FOLDER, TenantExport, export_tenant
from bpc.storage.archive.tenant_import import KeyNameTaken, TenantThere, import_tenant, open_archive
from bpc.storage.archive.tenant_tables import list_tables
from bpc.storage.audit import signing_keys
from bpc.storage.audit.verification import verify_audit
from bpc.storage.backup import BackupDamaged
from bpc.storage.database import Database, freeze_view, open_database
from bpc.storage.items import versions
from bpc.storage.items.pack_bucket import locate_packs, open_packs
from tests.api.conftest import KEY_ID, PEPPERS, Api
from tests.api.recorded_tenant import record_everything
from tests.fixtures import TestServer, create_test_database

BUILD = "bpc-test"
# What an import adds to the tenant's own chain, and changes in its row.
CHANGED_TABLES = {"events", "tenants"}


@pytest.fixture
async def back_up(server: TestServer, template_name: str, tmp_path: Path) -> AsyncIterator[tuple[Database, Settings]]:
    """Another installation, without tenants, whose signing key has another name."""
    settings = Settings(env="test", data_dir=tmp_path / "back-up", signing_key_id="key-of-the-back-up")
    async for address in create_test_database(server, f"bpc_test_{clock.new_id().hex}", template_name):
        database = await open_database(address, pool_size=5)
        yield database, settings
        await database.close()


async def export(service: Service, tenant: TenantId, folder: Path, act: Act) -> TenantExport:
    async with service.database.system() as conn:
        row = next(each for each in await tenants_and_actors.list_tenants(conn) if each.tenant_id == tenant)
    packs = open_packs(locate_packs(service.settings))
    return await export_tenant(service.database, row, folder, packs, act=act, build=BUILD)


async def test_a_tenant_is_served_by_another_installation_as_it_was(
    admin: Api,
    service: Service,
    database: Database,
    tenant: TenantId,
    act: Act,
    back_up: tuple[Database, Settings],
    tmp_path: Path,
) -> None:
    ids = await record_everything(admin, service, tenant)
    other, settings = back_up
    first, second = tmp_path / "first", tmp_path / "second"

    outcome = await export(service, tenant, first, act)
    packs = open_packs(locate_packs(settings))
    rows = await import_tenant(other, open_archive(first), packs, act=act)

    assert (rows, outcome.packs, outcome.waiting) == (outcome.rows, 1, 0)
    async with other.tenant(tenant) as conn:
        await freeze_view(conn)
        verification = await verify_audit(conn, tenant)
        battery = await conn.fetchval("SELECT battery_id FROM item_passport_versions LIMIT 1")
        version = await versions.get_version(conn, tenant, battery)
    assert verification.state is not None
    assert (verification.chains.faults, verification.state.faults, verification.state.gaps) == ((), (), ())
    assert packs.read_item(version.pack_sha256, version.place, version.receipt_hash).payload
    await _compare_tables(other, tenant, packs, second, first, act)
    await _look_at_public_pages(other, settings, admin, ids["second"])


async def _compare_tables(other: Database, tenant: TenantId, packs: Any, second: Path, first: Path, act: Act) -> None:
    """What the other installation exports is what came in, byte for byte."""
    async with other.system() as conn:
        [row] = [each for each in await tenants_and_actors.list_tenants(conn) if each.tenant_id == tenant]
        tables = {table.name for table in await list_tables(conn)}
    await export_tenant(other, row, second, packs, act=act, build=BUILD)
    for name in sorted(tables - CHANGED_TABLES):
        path = Path(TABLES_FOLDER, f"{name}.jsonl")
        assert (second / path).read_bytes() == (first / path).read_bytes(), name
    events = [(folder / TABLES_FOLDER / "events.jsonl").read_text().splitlines() for folder in (first, second)]
    assert set(events[0]) < set(events[1])
    assert len(events[1]) == len(events[0]) + 3  # imported, deactivated, exported


async def _look_at_public_pages(other: Database, settings: Settings, admin: Api, model: str) -> None:
    version = await admin.get_json(f"/v1/passport-versions/{model}")
    address = f"/p/{version['passport_id']}"
    headers = {"Accept": "application/json"}
    async with open_service(settings, other, peppers=PEPPERS, key_ring=KeyRing({}, settings)) as service:
        app = create_app(service)
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        client = httpx2.AsyncClient(transport=transport, base_url="http://bpc.test")
        async with app.router.lifespan_context(app), client:
            view = await client.get(address, headers=headers)
            keys = (await client.get("/.well-known/bpc-keys.json")).json()
            refused = await client.get("/v1/passports", headers={"Authorization": f"Bearer {admin.key}"})
    assert view.content == (await admin.http.get(address, headers=headers)).content
    assert {key["key_id"]: key["status"] for key in keys["keys"]} == {KEY_ID: "RETIRED"}
    assert refused.status_code == 401


async def test_an_archive_is_refused_where_it_cannot_be_served_as_it_was(
    service: Service, tenant: TenantId, act: Act, back_up: tuple[Database, Settings], tmp_path: Path
) -> None:
    folder, (other, settings) = tmp_path / "archive", back_up
    await export(service, tenant, folder, act)
    archive, packs = open_archive(folder), open_packs(locate_packs(settings))

    with pytest.raises(TenantThere):
        await import_tenant(service.database, archive, packs, act=act)
    await signing_keys.register_key(other, KEY_ID, derive_public_key(parse_seed(bytes(32))), act=act)
    with pytest.raises(KeyNameTaken):
        await import_tenant(other, archive, packs, act=act)
    (folder / TABLES_FOLDER / "actors.jsonl").write_text("{}\n")
    with pytest.raises(BackupDamaged, match=r"actors\.jsonl` was changed"):
        open_archive(folder)
