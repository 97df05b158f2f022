"""Timings of SQL: at the level `debug` each statement has a line without its parameters; at others there is none."""

import io
import json
from typing import Any

import pytest

from bpc.core.formats.ids import TenantId
from bpc.runtime import logs
from bpc.storage.connection import PooledConnection
from bpc.storage.database import Database, open_database

SECRET = "a value of a battery"


async def _run_statements(database: Database, tenant: TenantId, level: logs.Level) -> tuple[list[dict[str, Any]], type]:
    out = io.StringIO()
    logs.configure(level=level, json=True, component="test", stream=out)
    try:
        timed = await open_database(database.address, pool_size=1)
        try:
            async with timed.tenant(tenant) as conn:
                connection_class = type(getattr(conn, "_con", conn))
                await conn.fetch("SELECT n, $1::text FROM generate_series(1, 3) AS n", SECRET)
                await conn.fetchval("SELECT $1::text", SECRET)
        finally:
            await timed.close()
    finally:
        logs.configure(level="info", json=None, component="test")
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    return [line for line in lines if line["msg"] == "statement"], connection_class


async def test_each_statement_has_its_time_and_rows_and_no_parameter(database: Database, tenant: TenantId) -> None:
    lines, _ = await _run_statements(database, tenant, "debug")

    [series] = [line for line in lines if "generate_series" in line["sql"]]
    assert series["rows"] == 3
    assert series["ms"] > 0
    assert [line["rows"] for line in lines if line["sql"] == "SELECT $1::text"] == [1]
    text = json.dumps(lines)
    assert SECRET not in text
    assert str(tenant) not in text


@pytest.mark.parametrize("level", ["info", "warn"])
async def test_at_other_levels_nothing_is_measured(database: Database, tenant: TenantId, level: logs.Level) -> None:
    lines, connection_class = await _run_statements(database, tenant, level)

    assert lines == []
    assert connection_class is PooledConnection
