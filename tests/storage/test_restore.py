"""A dump comes back as it was, whatever the versions of servers and programs; a broken one leaves nothing."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from bpc import fresh
from bpc.core.errors import Refusal
from bpc.core.events import Act
from bpc.db import tenants
from bpc.db.address import Address
from bpc.db.backup.manifest import Manifest
from bpc.db.backup.restoring import TABLES, NotEmpty, restore_dump
from bpc.db.backup.script import LEFT_OUT, Lines
from bpc.db.backup.taking import take
from bpc.db.connection import connected
from bpc.db.database import Database
from tests.conftest import TestServer

pytestmark = pytest.mark.external
AWKWARD = "tab\there, \\. alone, \\N, ünï\u2028code, 'quote' \"double\""


async def contents(address: Address) -> dict[str, list[str]]:
    """Every row of every table, as text."""
    async with connected(address) as conn:
        tables = await conn.fetch(
            "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables"
            " WHERE schemaname IN ('public', 'jobs') ORDER BY 1"
        )
        return {
            table["name"]: [row["t"] for row in await conn.fetch(f"SELECT t::text FROM {table['name']} t ORDER BY 1")]
            for table in tables
        }


@pytest.fixture
async def dumped(server: TestServer, database: Database, tmp_path: Path) -> tuple[Path, Manifest, Address]:
    """A backup of a database, and the address of that database."""
    for slug in ("acme", "other"):
        await tenants.create(database, slug=slug, name=AWKWARD, act=Act(None, fresh.now()))
    source = server.admin.at(database.address.database)
    made, found = await take(tmp_path, source, None, keys=None, build="test", at=fresh.now())
    return made, found, source


async def test_a_dump_comes_back_row_for_row(
    server: TestServer, dumped: tuple[Path, Manifest, Address], empty_address: Address
) -> None:
    made, found, source = dumped
    target = server.admin.at(empty_address.database)

    await restore_dump(made, found, target)

    before = await contents(source)
    assert len(before) > 40
    assert await contents(target) == before
    async with connected(target) as conn:
        assert await conn.fetchval("SELECT name FROM tenants WHERE slug = 'acme'") == AWKWARD
    with pytest.raises(NotEmpty):
        await restore_dump(made, found, target)


@pytest.mark.parametrize("ends", [b"", b"\n"])
async def test_lines_are_as_long_as_they_are(ends: bytes) -> None:
    script = asyncio.StreamReader(limit=1 << 16)
    wanted = [b"a\n", b"\n", b"x" * (5 << 20) + b"\n", b"b" + ends]
    script.feed_data(b"".join(wanted))
    script.feed_eof()
    lines = Lines(script)

    assert [await lines.next() for _ in wanted] == wanted
    assert await lines.next() == b""


async def test_half_a_dump_leaves_nothing(
    server: TestServer, dumped: tuple[Path, Manifest, Address], empty_address: Address
) -> None:
    made, found, _ = dumped
    whole = (made / "bpc.dump").read_bytes()
    (made / "bpc.dump").write_bytes(whole[: len(whole) * 9 // 10])
    target = server.admin.at(empty_address.database)

    with pytest.raises((Refusal, asyncpg.PostgresError)):
        await restore_dump(made, found, target)

    async with connected(target) as conn:
        assert await conn.fetchval(TABLES) == 0


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
def test_only_what_concerns_neither_data_nor_schema_is_left_out(line: bytes, goes: bool) -> None:
    assert bool(LEFT_OUT.fullmatch(line)) is goes
