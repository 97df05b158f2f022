"""Plans of statements, and a database that is filled once to ask for them."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
from service_jobs.context import Connection

from bpc.runtime import clock
from bpc.runtime.postgres.address import Address
from tests.fixtures import TestServer


@dataclass(frozen=True, slots=True)
class Node:
    """One step of a plan."""

    kind: str
    relation: str | None
    index: str | None
    condition: str
    filter: str
    raw: Mapping[str, Any]


def flatten_nodes(plan: Mapping[str, Any]) -> Iterator[Node]:
    condition = plan.get("Index Cond") or plan.get("TID Cond") or ""
    yield Node(
        plan["Node Type"], plan.get("Relation Name"), plan.get("Index Name"), condition, plan.get("Filter", ""), plan
    )
    for below in plan.get("Plans", ()):
        yield from flatten_nodes(below)


async def explain_plan(conn: Connection, statement: str, count: int | None = None) -> list[Node]:
    """The generic plan of `statement`, as a session that prepares it has it."""
    count = count or max(int(number) for number in re.findall(r"\$(\d+)", statement))
    await conn.execute(f"PREPARE asked AS {statement}")
    try:
        nulls = ", ".join(["NULL"] * count)
        [[text]] = await conn.fetch(f"EXPLAIN (FORMAT JSON) EXECUTE asked ({nulls})")
    finally:
        await conn.execute("DEALLOCATE asked")
    return list(flatten_nodes(json.loads(text)[0]["Plan"]))


def list_nodes_on(nodes: Sequence[Node], relation: str) -> list[Node]:
    """The scans of a table; what changes it is none."""
    return [node for node in nodes if node.relation == relation and node.kind != "ModifyTable"]


def require_no_full_scan(nodes: Sequence[Node]) -> None:
    """Nothing reads a whole table, or an index from one end to the other."""
    for node in nodes:
        assert "Seq Scan" not in node.kind, node
        assert "Bitmap" not in node.kind, node
        if node.kind in {"Index Scan", "Index Only Scan"}:
            assert node.condition, node


def require_read_from_index(nodes: Sequence[Node], table: str, *indexes: str) -> None:
    """A list comes out of these indexes in its order: nothing is sorted, and nothing reads everything."""
    require_no_full_scan(nodes)
    assert {scan.index for scan in list_nodes_on(nodes, table)} == set(indexes)
    assert not [node for node in nodes if "Sort" in node.kind], indexes


@contextmanager
def copy_database(
    server: TestServer, template: str, fill: "Callable[[asyncpg.Connection[asyncpg.Record]], Awaitable[None]]"
) -> Iterator[Address]:
    """A copy of the template that `fill` has filled as superuser: for tests that change nothing in it."""
    name = f"bpc_test_{clock.new_id().hex}"

    async def create() -> None:
        await _execute_as_admin(server, f'CREATE DATABASE "{name}" TEMPLATE "{template}" OWNER bpc_owner')
        conn = await asyncpg.connect(**server.admin.with_database(name).connect_arguments())
        await fill(conn)
        await conn.close()

    asyncio.run(create())
    yield server.login.with_database(name)
    asyncio.run(_execute_as_admin(server, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'))


async def _execute_as_admin(server: TestServer, statement: str) -> None:
    admin = await asyncpg.connect(**server.admin.connect_arguments())
    await admin.execute(statement)
    await admin.close()
