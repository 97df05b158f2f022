"""What tests ask a database: SQLSTATEs they expect, columns of a table, another value for each, and a backend's pid."""

from collections.abc import Mapping
from typing import Final, TypeAlias

import asyncpg

from bpc.storage.connection import APP_ROLE, OWNER_ROLE, SYSTEM_ROLE, Connection
from bpc.storage.database import Database

Superuser: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

NO_RIGHT: Final = "42501"  # insufficient_privilege: row-level security and missing grants both raise it
REFUSED: Final = "BP001"  # raised by a trigger of ours
CHECK: Final = "23514"  # check_violation
ROLES: Final = (APP_ROLE, SYSTEM_ROLE, OWNER_ROLE)

COLUMNS: Final = """
    SELECT a.attname::text AS name, t.typname AS type, t.typtype = 'e' AS is_enum
      FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
     WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped
"""
OTHER_VALUE_BY_TYPE: Final[Mapping[str, str]] = {
    "uuid": "gen_random_uuid()",
    "text": "coalesce({0}, '') || 'x'",
    "_text": "{0} || 'x'::text",
    "_uuid": "{0} || gen_random_uuid()",
    "int2": "({0} + 1)::int2",
    "int4": "{0} + 1",
    "date": "coalesce({0}, current_date) + 1",
    "numeric": "coalesce({0}, 0) + 1",
    "int8": "{0} + 1",
    "xid8": "(coalesce({0}::text, '1')::numeric + 1)::text::xid8",
    "bool": "NOT {0}",
    "jsonb": """'{{"another": "value"}}'""",
    "bytea": r"coalesce({0}, '') || '\x00'",
    "hash256": "sha256(coalesce({0}, ''))",
    "timestamptz": "coalesce({0}, now()) + interval '1 second'",
}


def make_other_value(column: asyncpg.Record) -> str:
    """An expression of the column's type that is never the value it has."""
    if column["is_enum"]:
        return "CASE WHEN {0} = enum_first({0}) THEN enum_last({0}) ELSE enum_first({0}) END".format(column["name"])
    return OTHER_VALUE_BY_TYPE[column["type"]].format(column["name"])


async def get_backend_pid(conn: Connection) -> int:
    return int(await conn.fetchval("SELECT pg_backend_pid()"))


async def is_working(database: Database) -> bool:
    async with database.system() as conn:
        return bool(await conn.fetchval("SELECT true"))
