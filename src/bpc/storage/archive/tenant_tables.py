"""Which tables have a tenant's rows, in an order in which they can be filled.

    catalog of the database ── list_tables ──► TenantTable(name, columns, key), each after those that it refers to

What belongs to the installation and not to the tenant is left out: its log, its queue, and what is kept for days only.
"""

from collections import defaultdict
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Final, LiteralString

from bpc.storage.connection import Connection

# The log is that of the installation; the others are about requests and deliveries, and end within days.
LEFT_OUT: Final = frozenset(
    {
        *("idempotency_keys", "log_openings", "log_outbox", "log_proofs", "rate_limit_buckets"),
        "webhook_deliveries",
    }
)
# The number of a transaction means nothing on another server.
LEFT_OUT_COLUMNS: Final = frozenset({("events", "recorded_in")})
# A passport names its version in force, and each version its passport: the first is set when both are there.
LATE_REFERENCE: Final = ("passports", "passport_versions")
LATE_COLUMN: Final = "current_passport_version_id"
SELECT_COLUMNS: Final[LiteralString] = """
    SELECT c.relname AS name, o.attname AS owner_column, a.attname AS column_name,
           coalesce(a.attnum = ANY (k.indkey), false) AS is_key
      FROM pg_class c
      JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'public'
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
      JOIN pg_attribute o ON o.attrelid = c.oid AND o.attname IN ('tenant_id', 'owner_tenant_id')
      LEFT JOIN pg_index k ON k.indrelid = c.oid AND k.indisprimary
     WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
     ORDER BY c.relname, a.attnum
"""
SELECT_REFERENCES: Final[LiteralString] = """
    SELECT DISTINCT conrelid::regclass::text AS source, confrelid::regclass::text AS target
      FROM pg_constraint WHERE contype = 'f' AND connamespace = 'public'::regnamespace
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantTable:
    """A table with rows of tenants: the column that says whose, the columns that are kept, and its primary key."""

    name: str
    owner_column: str
    columns: tuple[str, ...]
    key: tuple[str, ...]


async def list_tables(conn: Connection) -> list[TenantTable]:
    """The tables, each after those that it refers to."""
    columns, keys = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    owner_columns = dict[str, str]()
    for row in await conn.fetch(SELECT_COLUMNS):
        if row["name"] in LEFT_OUT or (row["name"], row["column_name"]) in LEFT_OUT_COLUMNS:
            continue
        owner_columns[row["name"]] = row["owner_column"]
        columns[row["name"]].append(row["column_name"])
        if row["is_key"]:
            keys[row["name"]].append(row["column_name"])
    graph: dict[str, set[str]] = {name: set() for name in columns}
    for row in await conn.fetch(SELECT_REFERENCES):
        source, target = row["source"], row["target"]
        if source in graph and target in graph and source != target and (source, target) != LATE_REFERENCE:
            graph[source].add(target)
    order = TopologicalSorter({name: sorted(graph[name]) for name in sorted(graph)}).static_order()
    return [
        TenantTable(name=name, owner_column=owner_columns[name], columns=tuple(columns[name]), key=tuple(keys[name]))
        for name in order
    ]


def quote_columns(columns: tuple[str, ...]) -> str:
    """Columns of a table in SQL."""
    return ", ".join(f'"{column}"' for column in columns)
