"""Migrations run while the version before serves: they add, and take away only what no version needs any more.

Each migration since the oldest frozen database is applied to one, and the catalogue compared before and after.
"""

import re

import asyncpg
import pytest

from bpc import __version__
from bpc.runtime.postgres.address import Address
from bpc.storage.connection import OWNER_ROLE
from bpc.storage.migrate import list_migrations
from tests.fixtures import TestServer
from tests.upgrades.catalogue import CONTRACT_COMMENT, find_breaking_changes, list_undeclared, read_catalogue
from tests.upgrades.frozen_databases import list_frozen_databases, restore_frozen

pytestmark = pytest.mark.usefixtures("template_name")  # whose making brings the roles to a server that is not ours
OLDEST = list_frozen_databases()[0]
NEW = [migration for migration in list_migrations() if migration.name not in OLDEST.facts["migrations"]]

# What a migration might do, and what is found to be wrong with it; None is fine.
STATEMENTS: list[tuple[str, str | None]] = [
    ("CREATE TABLE later (x int PRIMARY KEY, y text NOT NULL UNIQUE, CHECK (x > 0))", None),
    ("CREATE INDEX ON tenants (name)", "tenants: nobody writes to it while an index is built"),
    ("ALTER TABLE tenants ADD COLUMN later text", None),
    ("ALTER TABLE tenants ADD COLUMN later text NOT NULL DEFAULT 'x'", None),
    ("ALTER TABLE tenants ADD COLUMN later text CHECK (later <> '')", None),
    ("ALTER TABLE tenants ADD COLUMN later uuid REFERENCES tenants", None),
    ("ALTER TABLE tenants ALTER COLUMN name DROP NOT NULL", None),
    ("ALTER TYPE snapshot_status ADD VALUE 'LATER'", None),
    ("CREATE FUNCTION later() RETURNS int LANGUAGE sql AS 'SELECT 1'", None),
    ("CREATE OR REPLACE FUNCTION jobs.clock() RETURNS timestamptz LANGUAGE sql AS 'SELECT now()'", None),
    ("GRANT DELETE ON tenants TO bpc_app", None),
    ("DO $$ BEGIN EXECUTE 'DROP TABLE ' || 'document_' || 'texts'; END $$", "table document_texts: it is gone"),
    ("ALTER TABLE tenants RENAME TO companies", "table tenants: it is gone"),
    ("ALTER TABLE tenants RENAME COLUMN name TO title", "column tenants.name: it is gone"),
    ("ALTER TABLE tenants DROP COLUMN name", "column tenants.name: it is gone"),
    ("ALTER TABLE tenants ALTER COLUMN name TYPE varchar(10)", "column tenants.name: it has another type"),
    ("ALTER TABLE rule_tests_runs ALTER COLUMN cases TYPE bigint", "rule_tests_runs: it is rewritten"),
    ("ALTER TABLE actors ALTER COLUMN email SET NOT NULL", "column actors.email: it must not be null any more"),
    ("ALTER TABLE tenants ALTER COLUMN is_active DROP DEFAULT", "column tenants.is_active: it has no default any more"),
    (
        "ALTER TABLE actors ADD COLUMN later text NOT NULL",
        "column actors.later: an old version writes rows without it",
    ),
    (
        "ALTER TABLE tenants ADD CONSTRAINT short CHECK (length(name) < 9) NOT VALID",
        "constraint tenants.short: an old version may write what it forbids",
    ),
    (
        "ALTER TABLE tenants ADD COLUMN later text, ADD CONSTRAINT alike CHECK (later = name)",
        "constraint tenants.alike: an old version may write what it forbids",
    ),
    (
        "CREATE UNIQUE INDEX one_name ON tenants (name)",
        "index tenants.one_name: an old version may write what it forbids",
    ),
    ("DROP INDEX rule_packages_by_time", "index rule_packages.rule_packages_by_time: it is gone"),
    ("ALTER TABLE tenants DROP CONSTRAINT tenants_slug_form", "constraint tenants.tenants_slug_form: it is gone"),
    ("DROP FUNCTION find_api_key(text)", "function find_api_key(prefix text): it is gone"),
    (
        "DROP FUNCTION jobs.clock(); CREATE FUNCTION jobs.clock() RETURNS date LANGUAGE sql AS 'SELECT CURRENT_DATE'",
        "function jobs.clock(): it returns something else",
    ),
    ("REVOKE SELECT ON tenants FROM bpc_app", "right of bpc_app to SELECT tenants: it is gone"),
    ("DROP TRIGGER signing_keys_stay ON signing_keys", "trigger signing_keys.signing_keys_stay: it is gone"),
    (
        "CREATE POLICY few ON tenants AS RESTRICTIVE USING (false)",
        "policy tenants.few: it hides rows from an old version",
    ),
    ("ALTER TABLE signing_keys ENABLE ROW LEVEL SECURITY", "table signing_keys: row-level security hides its rows"),
    ("ALTER TYPE snapshot_status RENAME VALUE 'READY' TO 'DONE'", "type snapshot_status: it allows something else"),
    ("ALTER TABLE tenants ADD x int; ALTER TABLE actors ADD x int", "tenants: it is locked together with others"),
]


@pytest.mark.external
async def test_no_migration_removes_what_the_previous_version_uses(server: TestServer, empty_address: Address) -> None:
    await restore_frozen(OLDEST, server, empty_address)
    conn = await asyncpg.connect(**empty_address.connect_arguments())

    undeclared = {}
    for migration in NEW:
        async with conn.transaction():
            await conn.execute(f"SET LOCAL ROLE {OWNER_ROLE}; SET LOCAL search_path = public")
            before = await read_catalogue(conn)
            await conn.execute(migration.sql)
            undeclared[migration.name] = list_undeclared(
                migration.sql, find_breaking_changes(before, await read_catalogue(conn))
            )
    await conn.close()

    assert {name: faults for name, faults in undeclared.items() if faults} == {}


@pytest.mark.external
async def test_a_change_that_breaks_the_previous_version_is_detected(server: TestServer, address: Address) -> None:
    conn = await asyncpg.connect(**server.admin.with_database(address.database).connect_arguments())
    before = await read_catalogue(conn)

    wrong = []
    for sql, expected in STATEMENTS:
        transaction = conn.transaction()
        await transaction.start()
        await conn.execute(f"SET LOCAL ROLE {OWNER_ROLE}; SET LOCAL search_path = public")
        await conn.execute(sql)
        undeclared = list_undeclared(sql, find_breaking_changes(before, await read_catalogue(conn)))
        await transaction.rollback()
        as_expected = (
            undeclared == [] if expected is None else any(finding.startswith(expected) for finding in undeclared)
        )
        if not as_expected:
            wrong.append((sql, undeclared))
    await conn.close()

    assert wrong == []


@pytest.mark.external
async def test_a_migration_may_remove_only_what_it_declares(server: TestServer, address: Address) -> None:
    sql = """
        ALTER TABLE tenants DROP COLUMN name;
        CREATE INDEX ON actors (email);
    """
    header = "-- contract: nobody needs column tenants.name since 0.1.0\n-- locks: actors: it is small\n"
    conn = await asyncpg.connect(**server.admin.with_database(address.database).connect_arguments())
    transaction = conn.transaction()
    await transaction.start()
    before = await read_catalogue(conn)
    await conn.execute(sql)
    findings = find_breaking_changes(before, await read_catalogue(conn))
    await transaction.rollback()
    await conn.close()

    check = "-- contract: nobody needs constraint tenants.tenants_name_check since 0.1.0\n"
    assert list_undeclared(header + check, findings) == []
    assert list_undeclared(header, findings) == ["constraint tenants.tenants_name_check: it is gone"]
    assert list_undeclared(header + check + "-- locks: events: quick\n", findings) == ["events: nothing happens to it"]


def test_declared_removals_were_not_used_by_the_previous_version() -> None:
    this_version = _parse_version(__version__)

    for migration in list_migrations():
        for match in CONTRACT_COMMENT.finditer(migration.sql):
            assert _parse_version(match["version"]) < this_version, f"{migration.name}: {match['what']}"


def _parse_version(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
