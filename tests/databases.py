"""Databases for tests that are emptied and lent again, with their open connections.

    template ──copy──► database ──lend──► test ──► rows removed ──► the next test
                                           └─────► changed in another way: dropped

A copy costs 28 ms of processor time, and what a new connection has to learn about its tables 20 ms more. Removing the
rows of a test, and looking for other changes, costs about six. A database is dropped instead if a test changed more
than rows and tables of its own, left much behind or cut the connection that empties it, and after `MOST_USES` tests.

A test gets what a new copy would give it: the rows of the template, sequences at their start, no session but ours.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import asyncpg

from bpc.runtime import clock
from bpc.runtime.postgres.address import Address
from bpc.storage.database import Database, open_database

RawConnection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

POOL_SIZE = 5
MOST_USES = 60
MOST_BYTES = 1024**2  # of one table, with what was removed from it
# A change of anything but rows leaves a newer row in one of these, or one row less.
CATALOGUES = (
    "pg_attrdef",
    "pg_attribute",
    "pg_class",
    "pg_constraint",
    "pg_index",
    "pg_namespace",
    "pg_policy",
    "pg_proc",
    "pg_statistic",
    "pg_trigger",
    "pg_type",
    "(SELECT xmin FROM pg_database WHERE datname = current_database())",
    "(SELECT s.xmin FROM pg_db_role_setting s JOIN pg_database ON oid = setdatabase AND datname = current_database())",
)
COUNT_ROWS = (
    "SELECT count(*) AS rows, count(*) FILTER (WHERE age(xmin) < age('{since}'::xid)) AS newer FROM {catalogue} c"
)
SELECT_LARGEST = """
    SELECT max(pg_relation_size(oid)) FROM pg_class
     WHERE relkind = 'r' AND relnamespace <> 'pg_catalog'::regnamespace
"""
SELECT_TABLES = """
    SELECT oid, oid::regclass::text AS name FROM pg_class
     WHERE relkind = 'r' AND relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
       AND oid <> ALL ($1::oid[])
"""
END_OTHER_SESSIONS = """
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_get_activity(NULL)
     WHERE datid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND pid <> ALL ($1)
"""
# As a replica: neither triggers nor foreign keys keep rows from being removed. Rows of the template are put back.
MAKE_RESET = """
    DO $do$
    DECLARE
      v_table text;
      v_rows jsonb;
      v_hash text;
      v_body text := '';
    BEGIN
      FOR v_table IN
        SELECT oid::regclass::text FROM pg_class
         WHERE relkind = 'r' AND relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
      LOOP
        EXECUTE format('SELECT jsonb_agg(to_jsonb(t)), md5(string_agg(t::text, chr(10) ORDER BY t::text)) FROM %s t',
                       v_table) INTO v_rows, v_hash;
        IF v_rows IS NULL THEN
          v_body := v_body || format('DELETE FROM ONLY %s;', v_table);
        ELSE
          v_body := v_body || format(
            'IF (SELECT md5(string_agg(t::text, chr(10) ORDER BY t::text)) FROM ONLY %s t) IS DISTINCT FROM %L THEN
               DELETE FROM ONLY %s;
               INSERT INTO %s OVERRIDING SYSTEM VALUE SELECT * FROM jsonb_populate_recordset(NULL::%s, %L);
             END IF;', v_table, v_hash, v_table, v_table, v_table, v_rows);
        END IF;
      END LOOP;
      SELECT v_body || coalesce(string_agg(format(
               'PERFORM setval(%L, %s, false);', format('%I.%I', schemaname, sequencename), start_value), ''), '')
        INTO v_body FROM pg_sequences;
      EXECUTE format('CREATE FUNCTION pg_temp.remove_rows() RETURNS void LANGUAGE plpgsql
                        SET session_replication_role = replica AS %L', 'BEGIN ' || v_body || ' END');
    END $do$
"""


class ReusedDatabase:
    """A database, the connection that empties it, and those that are lent with it."""

    def __init__(self, address: Address, admin_address: Address, keeper: RawConnection) -> None:
        self.address = address
        self._admin_address = admin_address
        self._keeper = keeper
        self._superuser: RawConnection | None = None
        self._pool: Database | None = None
        self._describe = ""
        self._schema: Sequence[asyncpg.Record] = ()
        self._tables: Sequence[int] = ()
        self._uses = 0

    async def prepare(self) -> None:
        """Remember what the database is like now, for `reset`."""
        await self._keeper.execute(MAKE_RESET)
        await self._keeper.execute("SET statement_timeout = '30s'")
        self._tables = [row["oid"] for row in await self._keeper.fetch(SELECT_TABLES, [])]
        since = await self._keeper.fetchval("SELECT pg_current_xact_id()::text")
        counts = [COUNT_ROWS.format(since=int(since) % 2**32, catalogue=catalogue) for catalogue in CATALOGUES]
        self._describe = " UNION ALL ".join(counts)
        self._schema = await self._keeper.fetch(self._describe)

    @asynccontextmanager
    async def use_pool(self) -> AsyncIterator[Database]:
        """Lend a pool; it stays open if all of its connections come back."""
        if self._pool is None or self._pool.pool.is_closing():
            self._pool = await open_database(self.address, pool_size=POOL_SIZE)
        lent = self._pool
        try:
            yield lent
        finally:
            if lent.pool.is_closing() or lent.pool.get_idle_size() != lent.pool.get_size():
                await lent.close()
                self._pool = None

    @asynccontextmanager
    async def use_superuser(self) -> AsyncIterator[RawConnection]:
        """Lend a connection that passes every rule."""
        if self._superuser is None or self._superuser.is_closed():
            self._superuser = await asyncpg.connect(**self._admin_address.connect_arguments())
        lent = self._superuser
        try:
            yield lent
        finally:
            try:
                await lent.reset(timeout=5)
                await lent.execute("RESET SESSION AUTHORIZATION")
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
                lent.terminate()
                self._superuser = None

    async def reset(self) -> bool:
        """Make the database what it was when `prepare` was called; return False if that cannot be."""
        self._uses += 1
        if not self._describe or self._uses >= MOST_USES:
            return False
        try:
            await self._keeper.fetch(END_OTHER_SESSIONS, self._list_sessions())
            for table in await self._keeper.fetch(SELECT_TABLES, self._tables):
                await self._keeper.execute(f"DROP TABLE {table['name']} CASCADE")
            is_small = await self._keeper.fetchval(SELECT_LARGEST) <= MOST_BYTES
            if not is_small or await self._keeper.fetch(self._describe) != self._schema:
                return False
            await self._keeper.execute("SELECT pg_temp.remove_rows()")
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            return False
        return True

    def _list_sessions(self) -> list[int]:
        """The sessions that stay."""
        connections = [self._keeper, self._superuser]
        if self._pool is not None:
            opened: Any = self._pool.pool
            connections += [holder._con for holder in opened._holders]
        return [conn.get_server_pid() for conn in connections if conn is not None and not conn.is_closed()]

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.pool.terminate()
        for conn in (self._superuser, self._keeper):
            if conn is not None:
                conn.terminate()


class DatabaseStock:
    """The databases of this process that no test uses at the moment."""

    def __init__(self, admin: Address, login: Address, template: str, strategy: str) -> None:
        self._admin = admin
        self._login = login
        self._template = template
        self._strategy = strategy
        self._free: list[ReusedDatabase] = []

    @asynccontextmanager
    async def lend(self, *, is_new: bool = False) -> AsyncIterator[ReusedDatabase]:
        database = self._free.pop() if self._free and not is_new else await self._create()
        try:
            yield database
        finally:
            if await database.reset():
                self._free.append(database)
            else:
                await self._drop(database)

    async def close(self) -> None:
        while self._free:
            await self._drop(self._free.pop())

    async def _create(self) -> ReusedDatabase:
        name = f"bpc_test_{clock.new_id().hex}"
        admin = await asyncpg.connect(**self._admin.connect_arguments())
        try:
            await admin.execute(
                f'CREATE DATABASE "{name}" TEMPLATE "{self._template}" STRATEGY {self._strategy} OWNER bpc_owner'
            )
            is_superuser = await admin.fetchval("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        finally:
            await admin.close()
        address = self._admin.with_database(name)
        keeper = await asyncpg.connect(**address.connect_arguments())
        database = ReusedDatabase(self._login.with_database(name), address, keeper)
        if is_superuser:  # nobody else may empty a database
            await database.prepare()
        return database

    async def _drop(self, database: ReusedDatabase) -> None:
        await database.close()
        admin = await asyncpg.connect(**self._admin.connect_arguments())
        try:
            await admin.execute(f'DROP DATABASE IF EXISTS "{database.address.database}" WITH (FORCE)')
        finally:
            await admin.close()
