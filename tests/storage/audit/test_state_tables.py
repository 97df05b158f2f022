"""Every table either follows from events or has a reason; so does every column of those that follow."""

import re

import asyncpg

from bpc.core.audit.folds import FOLDS
from bpc.storage.audit.state_tables import COLUMNS_WITHOUT_FOLD, STATE_TABLES, TABLES_WITHOUT_FOLD
from bpc.storage.database import Database

SELECT_COLUMNS = """
    SELECT CASE table_schema WHEN 'public' THEN '' ELSE table_schema || '.' END || table_name AS name, column_name
      FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
     WHERE table_schema IN ('public', 'jobs') AND table_type = 'BASE TABLE' AND NOT (
       SELECT relispartition FROM pg_class WHERE oid = format('%I.%I', table_schema, table_name)::regclass)
     ORDER BY 1, ordinal_position
"""


async def test_every_table_and_column_follows_from_events_or_has_a_reason(
    database: Database, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    columns: dict[str, set[str]] = {}
    for row in await superuser.fetch(SELECT_COLUMNS):
        columns.setdefault(row["name"], set()).add(row["column_name"])
    folded = {table.name for table in STATE_TABLES}

    # A table that is in neither list is new: give it a fold in bpc.core.audit.folds, or a reason.
    assert set(columns) - folded - set(TABLES_WITHOUT_FOLD) == set()
    assert (folded | set(TABLES_WITHOUT_FOLD)) - set(columns) == set()
    assert folded & set(TABLES_WITHOUT_FOLD) == set()
    assert {table.aggregate_type for table in STATE_TABLES} == set(FOLDS)
    for name in folded:
        told = {"tenant_id"}
        for table in STATE_TABLES:
            if table.name == name:
                told |= set(table.columns) | set(re.findall(r"[a-z_0-9]+", " ".join(table.key)))
        assert columns[name] - told - set(COLUMNS_WITHOUT_FOLD.get(name, ())) == set(), name
    for name, reasons in COLUMNS_WITHOUT_FOLD.items():
        assert set(reasons) <= columns[name], name
