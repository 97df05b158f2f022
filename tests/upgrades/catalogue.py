"""What a migration does to the version that still serves, told by PostgreSQL's own catalogue before and after it.

    before, after ──► found(before, after) ──► what an old version would not survive, each by its name

The catalogue knows what a parser of SQL does not: what a DO block or a function did, and what really was rewritten.
What it cannot tell is what code means: whether a trigger refuses what the old version writes, or a function answers
otherwise.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import asyncpg

from bpc.db.connection import Connection

# Ours, with `public` left out of names, as everywhere.
TABLES = """
    SELECT c.oid, CASE n.nspname WHEN 'public' THEN '' ELSE n.nspname || '.' END || c.relname AS name,
           pg_relation_filenode(c.oid) AS file, c.relrowsecurity AS secured
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname IN ('public', 'jobs') AND c.relkind IN ('r', 'p', 'v')
"""
COLUMNS = """
    SELECT attrelid AS oid, attname AS name, format_type(atttypid, atttypmod) AS type, attnotnull AS required,
           atthasdef OR attidentity <> '' AS filled
      FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped
"""
CONSTRAINTS = """
    SELECT conrelid AS oid, conname AS name, contype::text AS kind, pg_get_constraintdef(oid) AS says,
           ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = conrelid AND attnum = ANY (conkey)) AS columns
      FROM pg_constraint WHERE conrelid <> 0 AND contype <> 'n'
"""
INDEXES = """
    SELECT i.indrelid AS oid, c.relname AS name, i.indisunique AS is_unique, pg_get_indexdef(i.indexrelid) AS says,
           ARRAY(SELECT attname::text FROM pg_attribute
                  WHERE attrelid = i.indrelid AND attnum = ANY (i.indkey::int[])) AS columns
      FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
"""
TRIGGERS = (
    "SELECT tgrelid AS oid, tgname AS name, pg_get_triggerdef(oid) AS says FROM pg_trigger WHERE NOT tgisinternal"
)
POLICIES = """
    SELECT polrelid AS oid, polname AS name, polpermissive AS permissive,
           concat_ws(' | ', polcmd::text, polroles::regrole[]::text, pg_get_expr(polqual, polrelid),
                     pg_get_expr(polwithcheck, polrelid)) AS says
      FROM pg_policy
"""
FUNCTIONS = """
    SELECT CASE n.nspname WHEN 'public' THEN '' ELSE n.nspname || '.' END || p.proname
             || '(' || pg_get_function_identity_arguments(p.oid) || ')' AS name,
           coalesce(pg_get_function_result(p.oid), '') AS result
      FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname IN ('public', 'jobs')
"""
TYPES = """
    SELECT t.typname AS name, coalesce(
             (SELECT string_agg(enumlabel, ', ' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid),
             (SELECT string_agg(pg_get_constraintdef(oid), ', ' ORDER BY conname) FROM pg_constraint
               WHERE contypid = t.oid),
             '') AS says, t.typtype = 'e' AS is_enum
      FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
     WHERE n.nspname IN ('public', 'jobs') AND t.typtype IN ('e', 'd')
"""
RIGHTS = """
    SELECT CASE grantee WHEN 0 THEN 'everybody' ELSE grantee::regrole::text END AS holder, privilege_type AS privilege,
           CASE n.nspname WHEN 'public' THEN '' ELSE n.nspname || '.' END || what AS what
      FROM (
        SELECT a.grantee, a.privilege_type, relnamespace AS namespace, relname AS what
          FROM pg_class, aclexplode(relacl) a WHERE relkind IN ('r', 'p', 'v')
        UNION ALL
        SELECT a.grantee, a.privilege_type, c.relnamespace, c.relname || '.' || t.attname
          FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid, aclexplode(t.attacl) a
        UNION ALL
        SELECT a.grantee, a.privilege_type, p.pronamespace,
               p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')'
          FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
      ) AS rights JOIN pg_namespace n ON n.oid = rights.namespace
     WHERE n.nspname IN ('public', 'jobs') AND grantee <> 'bpc_owner'::regrole
"""
EXCLUSIVE = """
    SELECT DISTINCT relation AS oid FROM pg_locks
     WHERE pid = pg_backend_pid() AND mode = 'AccessExclusiveLock' AND relation IS NOT NULL
"""

CONTRACT = re.compile(r"^-- contract: nobody needs (?P<what>.+) since (?P<version>\d+\.\d+\.\d+)$", re.MULTILINE)
LOCKS = re.compile(r"^-- locks: (?P<table>\S+): \S.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything there is, by its name, with what matters about it."""

    tables: Mapping[str, asyncpg.Record]
    columns: Mapping[str, asyncpg.Record]
    constraints: Mapping[str, asyncpg.Record]
    indexes: Mapping[str, asyncpg.Record]
    triggers: Mapping[str, asyncpg.Record]
    policies: Mapping[str, asyncpg.Record]
    functions: Mapping[str, asyncpg.Record]
    types: Mapping[str, asyncpg.Record]
    rights: frozenset[tuple[str, str, str]]
    locked: frozenset[str]


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """Something an old version does not survive, or, with `locks`, something everybody has to wait for."""

    what: str
    why: str
    locks: bool = False


async def read(conn: Connection) -> Catalogue:
    """The catalogue as this transaction sees it, with the locks that it holds."""
    tables = {row["name"]: row for row in await conn.fetch(TABLES)}
    name_of = {row["oid"]: name for name, row in tables.items()}

    async def of_tables(query: str) -> dict[str, asyncpg.Record]:
        rows = await conn.fetch(query)
        return {f"{name_of[row['oid']]}.{row['name']}": row for row in rows if row["oid"] in name_of}

    async def named(query: str) -> dict[str, asyncpg.Record]:
        return {row["name"]: row for row in await conn.fetch(query)}

    return Catalogue(
        tables=tables,
        columns=await of_tables(COLUMNS),
        constraints=await of_tables(CONSTRAINTS),
        indexes=await of_tables(INDEXES),
        triggers=await of_tables(TRIGGERS),
        policies=await of_tables(POLICIES),
        functions=await named(FUNCTIONS),
        types=await named(TYPES),
        rights=frozenset((row["holder"], row["privilege"], row["what"]) for row in await conn.fetch(RIGHTS)),
        locked=frozenset(name_of[row["oid"]] for row in await conn.fetch(EXCLUSIVE) if row["oid"] in name_of),
    )


def found(before: Catalogue, after: Catalogue) -> set[Finding]:
    """What between the two an old version does not survive."""
    return {*_gone(before, after), *_changed(before, after), *_narrowed(before, after), *_locked(before, after)}


def _gone(before: Catalogue, after: Catalogue) -> Iterable[Finding]:
    for kind in ("table", "column", "constraint", "trigger", "policy", "function", "type"):
        then, now = _all(before, kind), _all(after, kind)
        for name in then.keys() - now.keys():
            if kind in {"table", "function", "type"} or _table_of(name) in after.tables:  # once is enough
                yield Finding(f"{kind} {name}", "it is gone")
    for name in before.indexes.keys() - after.indexes.keys():
        if _table_of(name) in after.tables and name not in before.constraints:
            yield Finding(f"index {name}", "it is gone, and what it made fast with it")
    there = after.tables.keys() | after.columns.keys() | after.functions.keys()
    for holder, privilege, what in before.rights - after.rights:
        if what in there:
            yield Finding(f"right of {holder} to {privilege} {what}", "it is gone")


def _changed(before: Catalogue, after: Catalogue) -> Iterable[Finding]:
    for name in before.columns.keys() & after.columns.keys():
        then, now = before.columns[name], after.columns[name]
        if then["type"] != now["type"]:
            yield Finding(f"column {name}", "it has another type")
        if now["required"] and not then["required"]:
            yield Finding(f"column {name}", "it must not be null any more")
        if then["filled"] and not now["filled"]:
            yield Finding(f"column {name}", "it has no default any more")
    for name in before.functions.keys() & after.functions.keys():
        if before.functions[name]["result"] != after.functions[name]["result"]:
            yield Finding(f"function {name}", "it returns something else")
    for kind in ("constraint", "policy"):
        then_all, now_all = _all(before, kind), _all(after, kind)
        for name in then_all.keys() & now_all.keys():
            if then_all[name]["says"] != now_all[name]["says"]:
                yield Finding(f"{kind} {name}", "it says something else")
    for name in before.types.keys() & after.types.keys():
        then, now = before.types[name], after.types[name]
        more = then["is_enum"] and now["says"].startswith(then["says"] + ", ")
        if then["says"] != now["says"] and not more:
            yield Finding(f"type {name}", "it allows something else")


def _narrowed(before: Catalogue, after: Catalogue) -> Iterable[Finding]:
    """What is new on old tables, and in the way of whoever does not know it."""
    old = before.tables.keys() & after.tables.keys()
    for name in after.columns.keys() - before.columns.keys():
        column = after.columns[name]
        if _table_of(name) in old and column["required"] and not column["filled"]:
            yield Finding(f"column {name}", "an old version writes rows without it")
    for name in after.constraints.keys() - before.constraints.keys():
        if _table_of(name) in old and not _about_new_columns(name, after.constraints[name], before):
            yield Finding(f"constraint {name}", "an old version may write what it forbids")
    for name in after.indexes.keys() - before.indexes.keys() - after.constraints.keys():
        index = after.indexes[name]
        if _table_of(name) in old and index["is_unique"] and not _new_columns(name, index, before):
            yield Finding(f"index {name}", "an old version may write what it forbids")
    for name in after.policies.keys() - before.policies.keys():
        if _table_of(name) in old and not after.policies[name]["permissive"]:
            yield Finding(f"policy {name}", "it hides rows from an old version")
    for name in old:
        if after.tables[name]["secured"] and not before.tables[name]["secured"]:
            yield Finding(f"table {name}", "row-level security hides its rows from an old version")


def _locked(before: Catalogue, after: Catalogue) -> Iterable[Finding]:
    """What keeps others from a table for as long as it takes, however many rows it has."""
    old = before.tables.keys() & after.tables.keys()
    for name in old:
        if before.tables[name]["file"] != after.tables[name]["file"]:
            yield Finding(name, "it is rewritten", locks=True)
    for name in after.indexes.keys() - before.indexes.keys():
        if _table_of(name) in old:
            yield Finding(_table_of(name), "nobody writes to it while an index is built", locks=True)
    held = old & (after.locked - before.locked)
    if len(held) > 1:
        for name in held:
            yield Finding(name, "it is locked together with others, which may end in a deadlock", locks=True)


def _about_new_columns(name: str, constraint: asyncpg.Record, before: Catalogue) -> bool:
    """Whether rows written without the new columns cannot break it."""
    new = _new_columns(name, constraint, before)
    return bool(new) and (constraint["kind"] in {"f", "u"} or len(new) == len(constraint["columns"]))


def _new_columns(name: str, on: asyncpg.Record, before: Catalogue) -> set[str]:
    return {column for column in on["columns"] if f"{_table_of(name)}.{column}" not in before.columns}


def _all(catalogue: Catalogue, kind: str) -> Mapping[str, asyncpg.Record]:
    kept: Mapping[str, asyncpg.Record] = getattr(catalogue, {"policy": "policies"}.get(kind, f"{kind}s"))
    return kept


def _table_of(name: str) -> str:
    return name.rpartition(".")[0]


def not_said(sql: str, findings: set[Finding]) -> list[str]:
    """What the head of a migration does not own up to, and what it says without doing it."""
    contracted = {match["what"] for match in CONTRACT.finditer(sql)}
    locked = {match["table"] for match in LOCKS.finditer(sql)}
    silent = [each for each in findings if each.what not in (locked if each.locks else contracted)]
    idle = (contracted | locked) - {each.what for each in findings}
    return sorted([f"{each.what}: {each.why}" for each in silent] + [f"{what}: nothing happens to it" for what in idle])
