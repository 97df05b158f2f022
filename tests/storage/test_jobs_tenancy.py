"""Specification of the border between tenants' jobs: what a tenant's role may do to them, and what a worker's may.

That every table of jobs shows and takes one tenant's rows is in test_tenancy.py, with all other tables.
"""

from typing import TypeAlias

import asyncpg
import pytest

from bpc import fresh
from bpc.core.events import Act
from bpc.core.ids import TenantId
from bpc.db.connection import Connection
from bpc.db.database import Database
from bpc.db.roles import APP, OWNER, SYSTEM
from tests.db.rows import acting, jobs_in_every_place, one_of_everything, outcome, submitted

pytestmark = pytest.mark.external

NO_RIGHT = "42501"
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
    "actor",
    "traceparent",
)

Superuser: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


async def places(conn: Connection) -> dict[str, int]:
    """How many rows of each kind a connection sees."""
    tables = ("job", "job_ready", "job_later", "job_lease", "job_slot", "job_dependency", "batch", "schedule")
    return {table: await conn.fetchval(f"SELECT count(*) FROM jobs.{table}") for table in tables}


async def test_a_tenants_role_can_do_all_that_is_done_to_a_job_but_take_a_lease(
    database: Database, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        job = await submitted(conn, tenant, limit_key="press")
        waits = await submitted(conn, tenant, needs=[job])
        again = await submitted(conn, tenant, delay=3600.0)
        assert await outcome(conn, LEASE, tenant) == NO_RIGHT
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
async def test_what_was_submitted_is_not_changed_by_a_tenants_role(
    database: Database, tenant: TenantId, column: str
) -> None:
    async with database.tenant(tenant) as conn:
        await submitted(conn, tenant)

        assert await outcome(conn, f"UPDATE jobs.job SET {column} = {column}") == NO_RIGHT
        assert await outcome(conn, "DELETE FROM jobs.job") == NO_RIGHT


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
async def test_a_transaction_of_one_tenant_does_nothing_for_another(
    database: Database, tenant: TenantId, other_tenant: TenantId, statement: str
) -> None:
    async with database.tenant(other_tenant) as conn:
        theirs = await submitted(conn, other_tenant)

    for within in (database.tenant, database.system):
        async with within(tenant) as conn:
            assert await outcome(conn, statement, other_tenant, [theirs]) == NO_RIGHT


async def test_a_tenants_role_ends_nobody_elses_job_even_if_it_knows_everything_about_it(
    database: Database, tenant: TenantId, other_tenant: TenantId
) -> None:
    async with database.tenant(other_tenant) as conn:
        theirs = await submitted(conn, other_tenant)
    async with database.system() as worker:
        await worker.execute(LEASE, other_tenant)

    async with database.tenant(tenant) as conn:
        for name in ("settle($1, $2, 'w', 1, 'SUCCEEDED', '1', NULL, 0)", "reap($1, $2, 'w', 1, NULL, true, '{}')"):
            assert await conn.fetchval(f"SELECT jobs.{name}", other_tenant, theirs) is None
        assert await outcome(conn, "SELECT * FROM jobs.move_due('-infinity', 10)") == NO_RIGHT

    async with database.system() as worker:
        assert await worker.fetchval("SELECT count(*) FROM jobs.job_lease") == 1


@pytest.mark.parametrize("role", [APP, SYSTEM])
async def test_a_job_of_a_tenant_that_does_not_exist_cannot_be_submitted(superuser: Superuser, role: str) -> None:
    nobody = TenantId(fresh.new_id())

    async with acting(superuser, role, nobody):
        with pytest.raises(asyncpg.ForeignKeyViolationError) as refused:
            await submitted(superuser, nobody)

    assert refused.value.sqlstate == NO_SUCH_ROW
    assert refused.value.constraint_name == "job_tenant_id_fkey"


async def test_a_worker_sees_the_jobs_of_all_tenants_and_nothing_else_of_them(
    database: Database, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    for each in (tenant, other_tenant):
        await one_of_everything(database, each, act)

    async with database.tenant(tenant) as conn:
        mine = await places(conn)
    async with database.system() as worker:
        everybodys = await places(worker)
        others = [
            await worker.fetchval(f"SELECT count(*) FROM {table}")
            for table in ("documents", "facts", "passports", "events", "api_keys", "actors")
        ]

    assert 0 not in mine.values()
    assert everybodys == {table: 2 * count for table, count in mine.items()}
    assert others == [0] * 6


async def test_without_a_tenant_a_plain_session_sees_no_job_but_may_submit_for_one(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    async with database.system() as worker:
        await jobs_in_every_place(worker, tenant)

    async with acting(superuser, APP):
        assert set((await places(superuser)).values()) == {0}
        assert await superuser.fetchval("SELECT count(*) FROM jobs.job_status") == 0
        await submitted(superuser, tenant)  # the function binds the transaction, from here on
        assert await superuser.fetchval("SELECT count(*) FROM jobs.job_status") == 5


async def test_only_a_worker_writes_who_works(database: Database, tenant: TenantId) -> None:
    insert = "INSERT INTO jobs.job_worker (owner, types, started_at, heartbeat_at) VALUES ('w', '{}', now(), now())"

    async with database.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM jobs.job_worker") == 0
        for statement in (insert, "UPDATE jobs.job_worker SET types = '{}'", "DELETE FROM jobs.job_worker"):
            assert await outcome(conn, statement) == NO_RIGHT
    async with database.system() as worker:
        assert await outcome(worker, insert) == "INSERT 0 1"


async def test_every_function_of_jobs_runs_with_the_rights_of_its_caller(superuser: Superuser) -> None:
    found = await superuser.fetch(
        """SELECT p.proname::text AS name, p.prosecdef, p.proowner::regrole::text AS owner,
                  has_function_privilege('bpc_app', p.oid, 'EXECUTE') AS app
             FROM pg_proc p WHERE p.pronamespace = 'jobs'::regnamespace"""
    )

    assert {(row["prosecdef"], row["owner"], row["app"]) for row in found} == {(False, OWNER, True)}
    assert {"submit", "settle", "cancel", "redrive"} <= {row["name"] for row in found}


async def test_a_worker_is_not_slowed_down_by_the_border(database: Database) -> None:
    """The policy of the system role is no condition at all once the statement is planned."""
    async with database.system() as worker:
        assert await worker.fetchval("SELECT current_user") == SYSTEM
        plan = await worker.fetch("EXPLAIN SELECT FROM jobs.job_ready WHERE tenant_id = gen_random_uuid()")

    assert "app.tenant_id" not in "\n".join(row[0] for row in plan)
