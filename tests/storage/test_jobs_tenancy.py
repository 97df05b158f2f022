"""Specification of the border between tenants' jobs: what a tenant's role may do to them, and what a worker's may.

That every table of jobs shows and takes one tenant's rows is in test_tenancy.py, with all other tables.
"""

import asyncpg
import pytest

from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.storage.connection import APP_ROLE, OWNER_ROLE, SYSTEM_ROLE, Connection
from bpc.storage.database import Database
from tests.storage.access_and_job_rows import insert_jobs_in_every_state, submit_job
from tests.storage.probes import NO_RIGHT, Superuser
from tests.storage.rows import fill_every_table
from tests.storage.statements import act_as_role, try_statement

pytestmark = pytest.mark.external

NO_SUCH_ROW = "23503"
LEASE = """
    INSERT INTO jobs.job_lease (tenant_id, job_id, type, owner, attempt, priority, limit_key, started_at, lease_until)
    SELECT $1, job_id, type, 'w', 1, priority, limit_key, now(), now() FROM jobs.job_ready WHERE tenant_id = $1
"""
SUBMIT = """
    SELECT jobs.submit($1, 'WORK', $2, ARRAY['{}'], NULL, NULL, NULL, 1, 2::smallint, 5, 60, NULL, NULL, NULL, NULL,
                       NULL)
"""
# A job's end is said by whoever runs it; what was submitted, for whom and by whom, is said once.
NEVER_CHANGED = (
    "tenant_id",
    "job_id",
    "type",
    "priority",
    "max_attempts",
    "idempotency_key",
    "limit_key",
    "batch_id",
    "payload",
    "created_at",
    "keep_seconds",
    "correlation_id",
    "service_id",
    "subject_kind",
    "subject_id",
    "subject_group",
    "actor",
    "traceparent",
)


async def count_visible_rows(conn: Connection) -> dict[str, int]:
    """How many rows of each kind a connection sees."""
    tables = ("job", "job_ready", "job_later", "job_lease", "job_slot", "job_dependency", "batch", "schedule")
    return {table: await conn.fetchval(f"SELECT count(*) FROM jobs.{table}") for table in tables}


async def test_the_application_role_can_do_everything_to_a_job_except_take_a_lease(
    database: Database, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        job = await submit_job(conn, tenant, limit_key="press")
        waits = await submit_job(conn, tenant, needs=[job])
        again = await submit_job(conn, tenant, delay=3600.0)
        assert await try_statement(conn, LEASE, tenant) == NO_RIGHT
        assert await conn.fetchval("SELECT jobs.redrive($1, $2)", tenant, again) == "QUEUED"
        assert await conn.fetchval("SELECT jobs.cancel($1, $2, 'no')", tenant, again) == "CANCELLED"
    async with database.system() as worker:
        await worker.execute(LEASE, tenant)
        await worker.execute("DELETE FROM jobs.job_ready")
    async with database.tenant(tenant) as conn:
        await conn.execute("UPDATE jobs.job SET checkpoint = '1', step = '1', progress = '{}' WHERE job_id = $1", job)
        assert await conn.fetchval("SELECT jobs.cancel($1, $2, NULL)", tenant, job) == "CANCELLING"
        assert (
            await conn.fetchval("SELECT jobs.settle($1, $2, 'w', 1, 'FAILED', NULL, '{}', 0)", tenant, job) == "FAILED"
        )
        assert await conn.fetchval("SELECT jobs.redrive($1, $2)", tenant, job) == "QUEUED"
        assert await conn.fetchval("SELECT status FROM jobs.job_status WHERE job_id = $1", waits) == "QUEUED"


@pytest.mark.parametrize("column", NEVER_CHANGED)
async def test_the_application_role_cannot_change_what_was_submitted(
    database: Database, tenant: TenantId, column: str
) -> None:
    async with database.tenant(tenant) as conn:
        await submit_job(conn, tenant)

        assert await try_statement(conn, f"UPDATE jobs.job SET {column} = {column}") == NO_RIGHT
        assert await try_statement(conn, "DELETE FROM jobs.job") == NO_RIGHT


async def test_every_column_of_a_job_is_either_never_changed_or_known_to_change(superuser: Superuser) -> None:
    changing = await superuser.fetch(
        """SELECT column_name::text AS name FROM information_schema.column_privileges
            WHERE table_schema = 'jobs' AND table_name = 'job' AND grantee = 'bpc_app' AND privilege_type = 'UPDATE'"""
    )
    columns = await superuser.fetch(
        "SELECT attname::text AS name FROM pg_attribute WHERE attrelid = 'jobs.job'::regclass AND attnum > 0"
    )

    assert {row["name"] for row in columns} == {row["name"] for row in changing} | set(NEVER_CHANGED)


@pytest.mark.parametrize(
    "statement",
    [
        SUBMIT,
        "SELECT jobs.cancel($1, ($2::uuid[])[1], NULL)",
        "SELECT jobs.redrive($1, ($2::uuid[])[1])",
    ],
)
async def test_a_transaction_of_one_tenant_changes_nothing_of_another(
    database: Database, tenant: TenantId, other_tenant: TenantId, statement: str
) -> None:
    async with database.tenant(other_tenant) as conn:
        other_job = await submit_job(conn, other_tenant)

    for within in (database.tenant, database.system):
        async with within(tenant) as conn:
            assert await try_statement(conn, statement, other_tenant, [other_job]) == NO_RIGHT


async def test_the_application_role_cannot_end_a_job_of_another_tenant_even_with_all_its_data(
    database: Database, tenant: TenantId, other_tenant: TenantId
) -> None:
    async with database.tenant(other_tenant) as conn:
        other_job = await submit_job(conn, other_tenant)
    async with database.system() as worker:
        await worker.execute(LEASE, other_tenant)

    async with database.tenant(tenant) as conn:
        for name in ("settle($1, $2, 'w', 1, 'SUCCEEDED', '1', NULL, 0)", "reap($1, $2, 'w', 1, NULL, true, '{}')"):
            assert await conn.fetchval(f"SELECT jobs.{name}", other_tenant, other_job) is None
        assert await try_statement(conn, "SELECT * FROM jobs.move_due('-infinity', 10)") == NO_RIGHT

    async with database.system() as worker:
        assert await worker.fetchval("SELECT count(*) FROM jobs.job_lease") == 1


@pytest.mark.parametrize("role", [APP_ROLE, SYSTEM_ROLE])
async def test_a_job_of_a_tenant_that_does_not_exist_cannot_be_submitted(superuser: Superuser, role: str) -> None:
    nobody = TenantId(clock.new_id())

    async with act_as_role(superuser, role, nobody):
        with pytest.raises(asyncpg.ForeignKeyViolationError) as refused:
            await submit_job(superuser, nobody)

    assert refused.value.sqlstate == NO_SUCH_ROW
    assert refused.value.constraint_name == "job_tenant_id_fkey"


async def test_a_worker_sees_the_jobs_of_all_tenants_and_nothing_else_of_them(
    database: Database, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    for tenant_id in (tenant, other_tenant):
        await fill_every_table(database, tenant_id, act)

    async with database.tenant(tenant) as conn:
        own_counts = await count_visible_rows(conn)
    async with database.system() as worker:
        all_counts = await count_visible_rows(worker)
        other_counts = [
            await worker.fetchval(f"SELECT count(*) FROM {table}")
            for table in ("documents", "facts", "passports", "events", "api_keys", "actors")
        ]

    assert 0 not in own_counts.values()
    assert all_counts == {table: 2 * count for table, count in own_counts.items()}
    assert other_counts == [0] * 6


async def test_without_a_tenant_a_plain_session_sees_no_job_but_may_submit_for_one(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    async with database.system() as worker:
        await insert_jobs_in_every_state(worker, tenant)

    async with act_as_role(superuser, APP_ROLE):
        assert set((await count_visible_rows(superuser)).values()) == {0}
        assert await superuser.fetchval("SELECT count(*) FROM jobs.job_status") == 0
        await submit_job(superuser, tenant)  # the function binds the transaction, from here on
        assert await superuser.fetchval("SELECT count(*) FROM jobs.job_status") == 5


async def test_only_a_worker_writes_the_table_of_workers(database: Database, tenant: TenantId) -> None:
    insert = "INSERT INTO jobs.job_worker (owner, types, started_at, heartbeat_at) VALUES ('w', '{}', now(), now())"

    async with database.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM jobs.job_worker") == 0
        for statement in (insert, "UPDATE jobs.job_worker SET types = '{}'", "DELETE FROM jobs.job_worker"):
            assert await try_statement(conn, statement) == NO_RIGHT
    async with database.system() as worker:
        assert await try_statement(worker, insert) == "INSERT 0 1"


async def test_every_function_of_jobs_runs_with_the_rights_of_its_caller(superuser: Superuser) -> None:
    functions = await superuser.fetch(
        """SELECT p.proname::text AS name, p.prosecdef, p.proowner::regrole::text AS owner,
                  has_function_privilege('bpc_app', p.oid, 'EXECUTE') AS app
             FROM pg_proc p WHERE p.pronamespace = 'jobs'::regnamespace"""
    )

    assert {(row["prosecdef"], row["owner"], row["app"]) for row in functions} == {(False, OWNER_ROLE, True)}
    assert {"submit", "settle", "cancel", "redrive"} <= {row["name"] for row in functions}


async def test_row_level_security_does_not_slow_a_worker_down(database: Database) -> None:
    """The policy of the system role is no condition at all once the statement is planned."""
    async with database.system() as worker:
        assert await worker.fetchval("SELECT current_user") == SYSTEM_ROLE
        plan = await worker.fetch("EXPLAIN SELECT FROM jobs.job_ready WHERE tenant_id = gen_random_uuid()")

    assert "app.tenant_id" not in "\n".join(row[0] for row in plan)
