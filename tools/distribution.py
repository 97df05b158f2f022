"""Prove that every table can be spread over the nodes of Citus by tenant, and write the statements that do it.

    migrations ─► a database ─► its catalog ─► deploy/citus/distribute.sql, or what stands in the way

A table with a tenant in each row is distributed by it; which ones are not, and why, is said here. What Citus asks of
keys is proved on the catalog: the tenant is never NULL, and it is part of every primary key, unique constraint, unique
index and exclusion constraint, and on both sides of every foreign key between distributed tables. The statements are
not run here, because they need Citus.

`python tools/distribution.py` proves and writes; it exits 1 and names every problem if there is one.
"""

import asyncio
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncpg

from bpc.runtime import postgres
from bpc.storage.database import prepare_embedded_server
from bpc.storage.migrate import list_migrations, migrate

STATEMENTS: Final = Path(__file__).parent.parent / "deploy" / "citus" / "distribute.sql"
COLUMN: Final = "tenant_id"

# Small, read by everybody, and with keys that hold over all tenants: a copy on every node.
REFERENCE: Final[Mapping[str, str]] = {
    "public.tenants": "every table refers to it, and a slug is there once among all tenants",
    "public.api_key_prefixes": "whoever calls is found by the prefix alone, before a tenant is known",
    "public.permissions": "the same for all tenants",
    "public.signing_keys": "of the installation, not of a tenant; every version refers to one",
}
# On the coordinator only.
LOCAL: Final[Mapping[str, str]] = {
    "public.schema_migrations": "says what was done to this database; the coordinator is where migrations run",
    "public.log_checkpoints": "of the log, which is one for all tenants",
    "public.log_entries": "of the log, which is one for all tenants",
    **dict.fromkeys(
        ("public.log_openings", "public.log_outbox", "public.log_proofs"),
        "the sequencer takes the rows of all tenants in one order",
    ),
    "public.log_state": "of the log, which is one for all tenants",
    "jobs.job_worker": "workers serve all tenants",
    **dict.fromkeys(
        (
            "jobs.batch",
            "jobs.job",
            "jobs.job_dependency",
            "jobs.job_later",
            "jobs.job_lease",
            "jobs.job_ready",
            "jobs.job_slot",
            "jobs.schedule",
        ),
        "a worker claims for all tenants in one statement, with SKIP LOCKED, which Citus does on one shard only",
    ),
}
# Policies that look into another table, and what goes with them.
DROPPED: Final[Mapping[tuple[str, str], str]] = {
    ("public.events", "without_a_tenant"): "`bpc audit verify` no longer sees events of tenants that do not exist",
}

TABLES: Final = """
    SELECT n.nspname || '.' || c.relname AS name, a.attnotnull, c.relkind::text AS kind
      FROM pg_class c
      JOIN pg_namespace n ON n.oid = c.relnamespace
      LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = $1 AND NOT a.attisdropped
     WHERE n.nspname IN ('public', 'jobs') AND c.relkind IN ('r', 'p', 'f', 'm') AND NOT c.relispartition
     ORDER BY name
"""
# Unique indexes stand behind primary keys and unique constraints too, so that every kind of key is here, also partial.
# A column that is only included, or part of an expression, does not make rows of one tenant different.
KEYS: Final = """
    SELECT n.nspname || '.' || c.relname AS table, i.relname AS key, x.indisexclusion AS exclusion,
           ARRAY(SELECT a.attname::text FROM unnest(x.indkey::int2[]) WITH ORDINALITY AS k (number, place)
                   JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number
                  WHERE k.place <= x.indnkeyatts ORDER BY k.place) AS columns,
           ARRAY(SELECT a.attname::text FROM pg_constraint o, unnest(o.conkey, o.conexclop) AS e (number, operator)
                   JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = e.number
                   JOIN pg_operator p ON p.oid = e.operator
                  WHERE o.conindid = x.indexrelid AND o.contype = 'x' AND p.oprname = '=') AS equal
      FROM pg_index x
      JOIN pg_class c ON c.oid = x.indrelid
      JOIN pg_class i ON i.oid = x.indexrelid
      JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname IN ('public', 'jobs') AND c.relkind IN ('r', 'p') AND NOT c.relispartition
       AND (x.indisunique OR x.indisexclusion)
     ORDER BY 1, 2
"""
FOREIGN_KEYS: Final = """
    SELECT o.conname AS key, pg_get_constraintdef(o.oid) AS definition,
           n.nspname || '.' || c.relname AS table, m.nspname || '.' || d.relname AS target,
           ARRAY(SELECT a.attname::text FROM unnest(o.conkey) WITH ORDINALITY AS k (number, place)
                   JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number ORDER BY k.place) AS columns,
           ARRAY(SELECT a.attname::text FROM unnest(o.confkey) WITH ORDINALITY AS k (number, place)
                   JOIN pg_attribute a ON a.attrelid = d.oid AND a.attnum = k.number ORDER BY k.place) AS targets
      FROM pg_constraint o
      JOIN pg_class c ON c.oid = o.conrelid
      JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_class d ON d.oid = o.confrelid
      JOIN pg_namespace m ON m.oid = d.relnamespace
     WHERE o.contype = 'f' AND NOT c.relispartition AND n.nspname IN ('public', 'jobs')
     ORDER BY 3, 1
"""
POLICIES: Final = """
    SELECT n.nspname || '.' || c.relname AS table, p.polname AS name,
           pg_get_expr(p.polqual, c.oid) AS shown, pg_get_expr(p.polwithcheck, c.oid) AS taken
      FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname IN ('public', 'jobs')
     ORDER BY 1, 2
"""
# As PostgreSQL writes it down. Citus takes no subquery in a policy; without it the function is the same.
OF_TENANT: Final = "( SELECT current_tenant() AS current_tenant)"

NAMED: Final = re.compile(
    r"^(?:SELECT create_(?P<how>distributed|reference)_table\('(?P<table>[a-z_.]+)'"
    r"(?:, '(?P<column>[a-z_]+)', colocate_with => '[a-z_.]+')?\);|-- local: (?P<local>[a-z_.]+))$"
)
HEAD: Final = (Path(__file__).parent / "distribution_head.sql").read_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKey:
    name: str
    table: str
    target: str
    columns: tuple[str, ...]
    targets: tuple[str, ...]
    definition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """`columns` are those by which rows are told apart: of an exclusion constraint those that are compared by `=`."""

    name: str
    table: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    name: str
    table: str
    using_expression: str | None
    check_expression: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """What is proved about. `tables` says of each whether its tenant is never NULL; None where it has none."""

    tables: Mapping[str, bool | None]
    odd: Sequence[str]
    keys: Sequence[Key]
    foreign_keys: Sequence[ForeignKey]
    policies: Sequence[Policy]


TablePlacement = Mapping[str, str]  # of each table: distributed, reference or local


async def load_catalog(conn: "asyncpg.Connection[asyncpg.Record]") -> Catalog:
    """The tables of a migrated database, with all their keys."""
    tables = await conn.fetch(TABLES, COLUMN)
    return Catalog(
        tables={row["name"]: row["attnotnull"] for row in tables},
        odd=[row["name"] for row in tables if row["kind"] not in {"r", "p"}],
        keys=[
            Key(name=row["key"], table=row["table"], columns=tuple(row["equal" if row["exclusion"] else "columns"]))
            for row in await conn.fetch(KEYS)
        ],
        foreign_keys=[
            ForeignKey(
                name=row["key"],
                table=row["table"],
                target=row["target"],
                columns=tuple(row["columns"]),
                targets=tuple(row["targets"]),
                definition=row["definition"],
            )
            for row in await conn.fetch(FOREIGN_KEYS)
        ],
        policies=[
            Policy(name=row["name"], table=row["table"], using_expression=row["shown"], check_expression=row["taken"])
            for row in await conn.fetch(POLICIES)
        ],
    )


def plan_placement(catalog: Catalog) -> TablePlacement:
    """Where each table goes: what is not said otherwise is distributed."""
    return {
        table: "reference" if table in REFERENCE else "local" if table in LOCAL else "distributed"
        for table in catalog.tables
    }


def parse_statements(statements: str) -> list[tuple[str, str]]:
    """The tables that a file of statements names, and where each goes; as often as they are named."""
    matches = [match for line in statements.split("\n") if (match := NAMED.match(line))]
    return [
        (match["table"] or match["local"], match["how"] or "local")
        for match in matches
        if match["how"] != "distributed" or match["column"] == COLUMN
    ]


def list_problems(catalog: Catalog, named: Sequence[tuple[str, str]]) -> list[str]:
    """Everything for which Citus would refuse the statements, or that they forget."""
    places = dict(named)
    times = [table for table, _ in named]
    return [
        *(f"{table} is named {times.count(table)} times" for table in catalog.tables if times.count(table) != 1),
        *(f"{table} is named and does not exist" for table in sorted(set(times) - set(catalog.tables))),
        *(f"{table} is not an ordinary table" for table in catalog.odd if places.get(table) != "local"),
        *_find_missing_tenants(catalog, places),
        *_find_loose_keys(catalog, places),
        *(problem for key in catalog.foreign_keys for problem in _find_loose_references(key, places)),
        *_find_policy_subqueries(catalog, places),
    ]


def _find_missing_tenants(catalog: Catalog, places: TablePlacement) -> Iterable[str]:
    for table, never_null in catalog.tables.items():
        if places.get(table) == "distributed" and not never_null:
            how = "has no" if never_null is None else "may have no value in"
            yield f"{table} is distributed and {how} {COLUMN}"


def _find_loose_keys(catalog: Catalog, places: TablePlacement) -> Iterable[str]:
    keyed = set()
    for key in catalog.keys:
        keyed.add(key.table)
        if places.get(key.table) == "distributed" and COLUMN not in key.columns:
            yield f"{key.name} of {key.table} does not contain {COLUMN}"
    for table in catalog.tables:
        if places.get(table) == "distributed" and table not in keyed:
            yield f"{table} is distributed and has no key"


def _find_loose_references(key: ForeignKey, places: TablePlacement) -> Iterable[str]:
    source, target = places.get(key.table), places.get(key.target)
    if source == "distributed" and target == "distributed":
        pairs = zip(key.columns, key.targets, strict=True)
        if (COLUMN, COLUMN) not in pairs:
            yield f"{key.name} of {key.table} does not take {COLUMN} to {COLUMN} of {key.target}"
    elif target == "distributed":
        yield f"{key.name}: {key.table} is {source} and refers to {key.target}, which is distributed"
    elif target == "local" and source != "local":
        yield f"{key.name}: {key.table} is {source} and refers to {key.target}, which is only on the coordinator"


def _find_policy_subqueries(catalog: Catalog, places: TablePlacement) -> Iterable[str]:
    for policy in catalog.policies:
        if places.get(policy.table) == "local" or (policy.table, policy.name) in DROPPED:
            continue
        if (
            "SELECT"
            in f"{_simplify_expression(policy.using_expression)} {_simplify_expression(policy.check_expression)}"
        ):
            yield f"policy {policy.name} of {policy.table} has a subquery"


def _simplify_expression(expression: str | None) -> str | None:
    return None if expression is None else expression.replace(OF_TENANT, "current_tenant()")


def write_statements(catalog: Catalog) -> str:
    """The statements. A table comes after those it refers to; what closes a circle is taken off and put on again."""
    places = plan_placement(catalog)
    order, circular = _order_tables(catalog, places)
    references = [table for table in order if places[table] == "reference"]
    distributed = [table for table in order if places[table] == "distributed"]
    return "\n".join(
        [
            HEAD,
            "-- Citus takes no subquery in a policy. Ours has the tenant computed once, and can be left out.",
            *(
                _alter_policy(policy)
                for policy in catalog.policies
                if places[policy.table] != "local" and _differs(policy)
            ),
            *(f"DROP POLICY {name} ON {table};  -- {then}" for (table, name), then in DROPPED.items()),
            "",
            "-- Tables that refer to each other: one of the references comes last.",
            *(f"ALTER TABLE {key.table} DROP CONSTRAINT {key.name};" for key in circular),
            "",
            "-- A copy on every node.",
            *(line for table in references for line in _create_reference(table)),
            "",
            "-- By tenant; all in one group, so that whatever belongs to a tenant is on one node.",
            *(_create_distributed(table, distributed[0]) for table in distributed),
            "",
            *(f"ALTER TABLE {key.table} ADD CONSTRAINT {key.name} {key.definition};" for key in circular),
            "",
            "-- On the coordinator only, as they are.",
            *(line for reason in dict.fromkeys(LOCAL.values()) for line in _list_local(reason, catalog)),
            "",
            "COMMIT;",
            "",
        ]
    )


def _differs(policy: Policy) -> bool:
    return (_simplify_expression(policy.using_expression), _simplify_expression(policy.check_expression)) != (
        policy.using_expression,
        policy.check_expression,
    )


def _alter_policy(policy: Policy) -> str:
    check = "" if policy.check_expression is None else f" WITH CHECK ({_simplify_expression(policy.check_expression)})"
    return (
        f"ALTER POLICY {policy.name} ON {policy.table} USING ({_simplify_expression(policy.using_expression)}){check};"
    )


def _create_reference(table: str) -> tuple[str, str]:
    return f"-- {REFERENCE[table]}", f"SELECT create_reference_table('{table}');"


def _create_distributed(table: str, first: str) -> str:
    beside = "none" if table == first else first
    return f"SELECT create_distributed_table('{table}', '{COLUMN}', colocate_with => '{beside}');"


def _list_local(reason: str, catalog: Catalog) -> Iterable[str]:
    yield f"-- {reason}"
    yield from (
        f"-- local: {table}" for table, its in sorted(LOCAL.items()) if its == reason and table in catalog.tables
    )


def _order_tables(catalog: Catalog, places: TablePlacement) -> tuple[list[str], list[ForeignKey]]:
    """All tables, each behind those it refers to, and the references for which that cannot be."""
    waiting = {
        table: [key for key in catalog.foreign_keys if key.table == table and key.target != table]
        for table in sorted(catalog.tables, key=lambda table: (places[table] != "reference", table))
    }
    order: list[str] = []
    circular: list[ForeignKey] = []
    while waiting:
        free = [table for table, keys in waiting.items() if all(key.target not in waiting for key in keys)]
        if not free:  # one of a circle goes first, and what it waits for in there comes last
            table = next(table for table in waiting if table in _find_referenced(table, waiting))
            circular += [key for key in waiting[table] if table in _find_referenced(key.target, waiting)]
            waiting[table] = [key for key in waiting[table] if key not in circular]
            continue
        order += free
        for table in free:
            del waiting[table]
    return order, circular


def _find_referenced(table: str, waiting: Mapping[str, Sequence[ForeignKey]]) -> set[str]:
    """All tables that one refers to, and those that they refer to, as far as they wait."""
    referenced: set[str] = set()
    todo = [table]
    while todo:
        new = {key.target for key in waiting.get(todo.pop(), ())} - referenced
        referenced |= new
        todo += new
    return referenced


async def _load_migrated_catalog(server: postgres.EmbeddedServer) -> Catalog:
    await prepare_embedded_server(server, "bpc")
    conn = await asyncpg.connect(**server.address("bpc").connect_arguments())
    try:
        await migrate(conn, list_migrations())
        return await load_catalog(conn)
    finally:
        await conn.close()


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="bpc-distribution-", dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        server = postgres.use_server(Path(folder))
        try:
            catalog = asyncio.run(_load_migrated_catalog(server))
        finally:
            server.release_and_wait()
    text = write_statements(catalog)
    if problem_lines := list_problems(catalog, parse_statements(text)):
        print("\n".join(problem_lines), file=sys.stderr)
        return 1
    changed = not STATEMENTS.exists() or STATEMENTS.read_text() != text
    STATEMENTS.write_text(text)
    keys = sum(plan_placement(catalog)[key.table] == "distributed" for key in catalog.keys)
    print(
        f"{len(catalog.tables)} tables, {keys} keys and {len(catalog.foreign_keys)} foreign keys hold;"
        f" {STATEMENTS.name}: {'rewritten, read the diff' if changed else 'unchanged'}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
