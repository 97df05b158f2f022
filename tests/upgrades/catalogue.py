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

from bpc.storage.connection import Connection

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
# A constraint trigger is a trigger: as with others, the reviewer asks what the old version writes.
CONSTRAINTS = """
    SELECT conrelid AS oid, conname AS name, contype::text AS kind, pg_get_constraintdef(oid) AS says,
           ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = conrelid AND attnum = ANY (conkey)) AS columns
      FROM pg_constraint WHERE conrelid <> 0 AND contype NOT IN ('n', 't')
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

CONTRACT_COMMENT = re.compile(
    r"^-- contract: nobody needs (?P<what>.+) since (?P<version>\d+\.\d+\.\d+)$", re.MULTILINE
)
LOCKS_COMMENT = re.compile(r"^-- locks: (?P<table>\S+): \S.*$", re.MULTILINE)


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


async def read_catalogue(conn: Connection) -> Catalogue:
    """The catalogue as this transaction sees it, with the locks that it holds."""
    tables = {row["name"]: row for row in await conn.fetch(TABLES)}
    name_of = {row["oid"]: name for name, row in tables.items()}

    async def fetch_by_table(query: str) -> dict[str, asyncpg.Record]:
        rows = await conn.fetch(query)
        return {f"{name_of[row['oid']]}.{row['name']}": row for row in rows if row["oid"] in name_of}

    async def fetch_by_name(query: str) -> dict[str, asyncpg.Record]:
        return {row["name"]: row for row in await conn.fetch(query)}

    return Catalogue(
        tables=tables,
        columns=await fetch_by_table(COLUMNS),
        constraints=await fetch_by_table(CONSTRAINTS),
        indexes=await fetch_by_table(INDEXES),
        triggers=await fetch_by_table(TRIGGERS),
        policies=await fetch_by_table(POLICIES),
        functions=await fetch_by_name(FUNCTIONS),
        types=await fetch_by_name(TYPES),
        rights=frozenset((row["holder"], row["privilege"], row["what"]) for row in await conn.fetch(RIGHTS)),
        locked=frozenset(name_of[row["oid"]] for row in await conn.fetch(EXCLUSIVE) if row["oid"] in name_of),
    )


def find_breaking_changes(before: Catalogue, after: Catalogue) -> set[Finding]:
    """What between the two an old version does not survive."""
    return {
        *_find_dropped(before, after),
        *_find_changed(before, after),
        *_find_narrowed(before, after),
        *_find_locked(before, after),
    }


def _find_dropped(before: Catalogue, after: Catalogue) -> Iterable[Finding]:
    for kind in ("table", "column", "constraint", "trigger", "policy", "function", "type"):
        then, now = _get_kind(before, kind), _get_kind(after, kind)
        for name in then.keys() - now.keys():
            if kind in {"table", "function", "type"} or _get_table(name) in after.tables:  # once is enough
                yield Finding(f"{kind} {name}", "it is gone")
    for name in before.indexes.keys() - after.indexes.keys():
        if _get_table(name) in after.tables and name not in before.constraints:
            yield Finding(f"index {name}", "it is gone, and what it made fast with it")
    remaining = after.tables.keys() | after.columns.keys() | after.functions.keys()
    for holder, privilege, what in before.rights - after.rights:
        if what in remaining:
            yield Finding(f"right of {holder} to {privilege} {what}", "it is gone")


def _find_changed(before: Catalogue, after: Catalogue) -> Iterable[Finding]:
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
        then_all, now_all = _get_kind(before, kind), _get_kind(after, kind)
        for name in then_all.keys() & now_all.keys():
            if then_all[name]["says"] != now_all[name]["says"]:
                yield Finding(f"{kind} {name}", "it says something else")
    for name in before.types.keys() & after.types.keys():
        then, now = before.types[name], after.types[name]
        more = then["is_enum"] and now["says"].startswith(then["says"] + ", ")
        if then["says"] != now["says"] and not more:
            yield Finding(f"type {name}", "it allows something else")


def _find_narrowed(before: Catalogue, after: Catalogue) -> Iterable[Finding]:
    """What is new on old tables, and in the way of whoever does not know it."""
    old = before.tables.keys() & after.tables.keys()
    for name in after.columns.keys() - before.columns.keys():
        column = after.columns[name]
        if _get_table(name) in old and column["required"] and not column["filled"]:
            yield Finding(f"column {name}", "an old version writes rows without it")
    for name in after.constraints.keys() - before.constraints.keys():
        if _get_table(name) in old and not _covers_only_new_columns(name, after.constraints[name], before):
            yield Finding(f"constraint {name}", "an old version may write what it forbids")
    for name in after.indexes.keys() - before.indexes.keys() - after.constraints.keys():
        index = after.indexes[name]
        if _get_table(name) in old and index["is_unique"] and not _list_new_columns(name, index, before):
            yield Finding(f"index {name}", "an old version may write what it forbids")
    for name in after.policies.keys() - before.policies.keys():
        if _get_table(name) in old and not after.policies[name]["permissive"]:
            yield Finding(f"policy {name}", "it hides rows from an old version")
    for name in old:
        if after.tables[name]["secured"] and not before.tables[name]["secured"]:
            yield Finding(f"table {name}", "row-level security hides its rows from an old version")


def _find_locked(before: Catalogue, after: Catalogue) -> Iterable[Finding]:
    """What keeps others from a table for as long as it takes, however many rows it has."""
    old = before.tables.keys() & after.tables.keys()
    for name in old:
        if before.tables[name]["file"] != after.tables[name]["file"]:
            yield Finding(name, "it is rewritten", locks=True)
    for name in after.indexes.keys() - before.indexes.keys():
        if _get_table(name) in old:
            yield Finding(_get_table(name), "nobody writes to it while an index is built", locks=True)
    newly_locked = old & (after.locked - before.locked)
    if len(newly_locked) > 1:
        for name in newly_locked:
            yield Finding(name, "it is locked together with others, which may end in a deadlock", locks=True)


def _covers_only_new_columns(name: str, constraint: asyncpg.Record, before: Catalogue) -> bool:
    """Whether rows written without the new columns cannot break it."""
    new = _list_new_columns(name, constraint, before)
    return bool(new) and (constraint["kind"] in {"f", "u"} or len(new) == len(constraint["columns"]))


def _list_new_columns(name: str, on: asyncpg.Record, before: Catalogue) -> set[str]:
    return {column for column in on["columns"] if f"{_get_table(name)}.{column}" not in before.columns}


def _get_kind(catalogue: Catalogue, kind: str) -> Mapping[str, asyncpg.Record]:
    objects: Mapping[str, asyncpg.Record] = getattr(catalogue, {"policy": "policies"}.get(kind, f"{kind}s"))
    return objects


def _get_table(name: str) -> str:
    return name.rpartition(".")[0]


def list_undeclared(sql: str, findings: set[Finding]) -> list[str]:
    """What the head of a migration does not own up to, and what it says without doing it."""
    contracted = {match["what"] for match in CONTRACT_COMMENT.finditer(sql)}
    locked = {match["table"] for match in LOCKS_COMMENT.finditer(sql)}
    silent = [finding for finding in findings if finding.what not in (locked if finding.locks else contracted)]
    idle = (contracted | locked) - {finding.what for finding in findings}
    return sorted(
        [f"{finding.what}: {finding.why}" for finding in silent] + [f"{what}: nothing happens to it" for what in idle]
    )
