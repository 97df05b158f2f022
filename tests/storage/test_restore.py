"""A dump comes back as it was, whatever the versions of servers and programs; a broken one leaves nothing."""

import asyncio
import re
from pathlib import Path

import asyncpg
import pytest

from bpc.core.audit.events import Act
from bpc.core.errors import Refusal
from bpc.runtime import clock
from bpc.runtime.postgres.address import Address
from bpc.storage.access import tenants_and_actors
from bpc.storage.backup import BackupManifest, take_backup
from bpc.storage.connection import open_connection
from bpc.storage.database import Database
from bpc.storage.restore import COUNT_TABLES, SKIPPED_LINE, RestoreTargetNotEmpty, ScriptLines, restore_dump
from tests.fixtures import TestServer
from tests.storage import evidence_rows

pytestmark = pytest.mark.external
RECORDED_IN = re.compile(r",[0-9]+\)$")
AWKWARD = "tab\there, \\. alone, \\N, ünï\u2028code, 'quote' \"double\""


async def read_all_tables(address: Address) -> dict[str, list[str]]:
    """Every row of every table, as text."""
    async with open_connection(address) as conn:
        tables = await conn.fetch(
            "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables"
            " WHERE schemaname IN ('public', 'jobs') ORDER BY 1"
        )
        return {
            table["name"]: [row["t"] for row in await conn.fetch(f"SELECT t::text FROM {table['name']} t ORDER BY 1")]
            for table in tables
        }


@pytest.fixture
async def dump_backup(server: TestServer, database: Database, tmp_path: Path) -> tuple[Path, BackupManifest, Address]:
    """A backup of a database, and the address of that database."""
    for slug in ("acme", "other"):
        act = Act(None, clock.now())
        tenant = await tenants_and_actors.create_tenant(database, slug=slug, name=AWKWARD, act=act)
        async with database.tenant(tenant) as conn:
            await evidence_rows.insert_attachment(conn, tenant)
    source = server.admin.with_database(database.address.database)
    backup_folder, manifest = await take_backup(tmp_path, source, None, keys=None, build="test", at=clock.now())
    return backup_folder, manifest, source


async def test_a_restored_dump_has_the_same_rows(
    server: TestServer, dump_backup: tuple[Path, BackupManifest, Address], empty_address: Address
) -> None:
    backup_folder, manifest, source = dump_backup
    target = server.admin.with_database(empty_address.database)

    await restore_dump(backup_folder, manifest, target)

    before, restored = await read_all_tables(source), await read_all_tables(target)
    assert len(before) > 40
    for tables in (before, restored):  # the number of a transaction means nothing on another server
        tables["public.events"] = [RECORDED_IN.sub(")", row) for row in tables["public.events"]]
    assert restored == before
    async with open_connection(target) as conn:
        assert await conn.fetchval("SELECT count(DISTINCT recorded_in) FROM events") == 1
    async with open_connection(target) as conn:
        assert await conn.fetchval("SELECT name FROM tenants WHERE slug = 'acme'") == AWKWARD
        attached_files = "SELECT count(content) FROM attachments JOIN document_versions USING (document_version_id)"
        assert await conn.fetchval(attached_files) == 2
    with pytest.raises(RestoreTargetNotEmpty):
        await restore_dump(backup_folder, manifest, target)


@pytest.mark.parametrize("ends", [b"", b"\n"])
async def test_lines_of_any_length_are_read_whole(ends: bytes) -> None:
    script = asyncio.StreamReader(limit=1 << 16)
    expected = [b"a\n", b"\n", b"x" * (5 << 20) + b"\n", b"b" + ends]
    script.feed_data(b"".join(expected))
    script.feed_eof()
    lines = ScriptLines(script)

    assert [await lines.read_line() for _ in expected] == expected
    assert await lines.read_line() == b""


async def test_a_truncated_dump_restores_nothing(
    server: TestServer, dump_backup: tuple[Path, BackupManifest, Address], empty_address: Address
) -> None:
    backup_folder, manifest, _ = dump_backup
    original = (backup_folder / "bpc.dump").read_bytes()
    (backup_folder / "bpc.dump").write_bytes(original[: len(original) * 9 // 10])
    target = server.admin.with_database(empty_address.database)

    with pytest.raises((Refusal, asyncpg.PostgresError)):
        await restore_dump(backup_folder, manifest, target)

    async with open_connection(target) as conn:
        assert await conn.fetchval(COUNT_TABLES) == 0


@pytest.mark.parametrize(
    ("line", "goes"),
    [
        (rb"\restrict qjTx0", True),
        (rb"\unrestrict qjTx0", True),
        (b"SET transaction_timeout = 0;", True),
        (b"ALTER TABLE ONLY jobs.batch ALTER COLUMN tenant_id SET (pg_attver=226958336);", True),
        (b"SET statement_timeout = 0;", False),
        (b"ALTER TABLE ONLY public.facts ALTER COLUMN payload SET STORAGE EXTERNAL;", False),
        (b"ALTER TABLE ONLY public.facts ALTER COLUMN fact_id SET NOT NULL;", False),
        (b"  PERFORM set_config('transaction_timeout', '0', true);", False),
    ],
)
def test_only_lines_without_data_or_schema_are_skipped(line: bytes, goes: bool) -> None:
    assert bool(SKIPPED_LINE.fullmatch(line)) is goes
