"""State follows from events: every row that is changed, added or deleted behind the product's back is named."""

import asyncpg

from bpc.api.http.request_context import Service
from bpc.core.formats.ids import TenantId
from bpc.storage.audit.verification import verify_audit
from tests.api.conftest import Api
from tests.api.recorded_tenant import record_everything
from tests.api.tampering import (
    HIDDEN_CHANGES,
    add_row,
    change_column,
    delete_rows,
    list_faults,
    list_stored_columns,
    list_tables,
    tamper,
)
from tests.measurements import choose_effort


async def test_every_row_that_was_changed_added_or_deleted_is_named(
    admin: Api, service: Service, tenant: TenantId, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await record_everything(admin, service, tenant)
    async with superuser.transaction():
        intact = await verify_audit(superuser, tenant)
    assert intact.state is not None
    assert (intact.chains.faults, intact.state.faults, intact.state.gaps) == ((), (), ())
    for table in list_tables():
        count = f"SELECT count(*) FROM {table.name} t WHERE tenant_id = $1 AND {table.where}"
        assert await superuser.fetchval(count, tenant), table.name

    # All tables at once, then, with more effort, each change alone.
    for tables in [list_tables(), *choose_effort(test=[], shown=[[each] for each in list_tables()], campaign=[])]:
        for column_number in range(choose_effort(test=2, shown=25, campaign=25)):
            changes = set()
            async with tamper(superuser) as conn:
                for table in tables:
                    columns = await list_stored_columns(conn, table)
                    if column_number < len(columns):
                        await change_column(conn, tenant, table, columns[column_number])
                        changes.add((table.name, columns[column_number]))
                if changes:
                    faults = {(name, column) for name, _, column in list_faults(await verify_audit(conn, tenant))}
                    # A row that is moved to another owner is missing where it was.
                    assert [each for each in changes if each not in faults and (each[0], None) not in faults] == []
        async with tamper(superuser) as conn:
            for table in tables:
                await delete_rows(conn, tenant, table)
            missing = {table.name for table in tables if not table.may_vanish}
            assert {(name, "DELETED", None) for name in missing} <= list_faults(await verify_audit(conn, tenant))
        async with tamper(superuser) as conn:
            for table in tables:
                await add_row(conn, tenant, table)
            added = {table.name for table in tables if table.name not in {"tenants", "tenant_settings"}}
            assert {(name, "ADDED", None) for name in added} <= list_faults(await verify_audit(conn, tenant))
    for change in HIDDEN_CHANGES:
        async with tamper(superuser) as conn:
            await conn.execute(change.statement, tenant)
            assert (change.table, "CHANGED", change.column) in list_faults(await verify_audit(conn, tenant)), change
