"""`bpc migrate`: tables brought up to date, once, and every other command insists on it."""

import pytest

from bpc.storage.migrate import list_migrations
from tests.cli.conftest import Installation
from tests.cli.program import Program, RunResult

NAMES = [migration.name for migration in list_migrations()]


def test_the_first_run_applies_everything_and_the_second_finds_nothing_to_do(bpc_without_tables: Program) -> None:
    pending = bpc_without_tables.run("migrate", "--check", "--json")
    first = bpc_without_tables.run_ok("migrate")
    second = bpc_without_tables.run_ok("migrate")
    current = bpc_without_tables.run_ok("migrate", "--check", "--json")

    assert (pending.code, pending.json()) == (1, {"state": "behind", "pending": NAMES, "unknown": []})
    assert first.out == f"applied {', '.join(NAMES)}\n"
    assert second.out == "nothing to do: the database is current\n"
    assert current.json() == {"state": "current", "pending": [], "unknown": []}


def test_checking_a_new_machine_makes_no_database(bpc: Program) -> None:
    ended = bpc.run("migrate", "--check")

    assert ended.code == 1
    assert ended.out.startswith(f"pending: {NAMES[0]}")
    assert list(bpc.data_dir.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        "seed",
        "tenant list",
        "apikey list --tenant dev",
        "audit verify",
        "audit checkpoint --tenant dev --out /nonexistent",
    ],
)
def test_a_command_that_needs_tables_says_how_to_get_them(bpc_without_tables: Program, command: str) -> None:
    ended = bpc_without_tables.run(*command.split())

    assert (ended.code, ended.out) == (78, "")
    assert ended.err.startswith("SCHEMA_MISMATCH: ")
    assert ended.err.endswith("\n  run `bpc migrate`\n")


def test_a_database_newer_than_this_build_is_fine(installation: Installation) -> None:
    installation.execute("INSERT INTO schema_migrations VALUES ('bpc', 9999, '9999_later.sql', '')")
    try:
        checked = installation.bpc.run_ok("migrate", "--check")
        result = installation.bpc.run("tenant", "list")
    finally:
        installation.execute("DELETE FROM schema_migrations WHERE version = 9999")

    assert checked.out == "nothing is pending; the database is newer than this build: 9999_later.sql\n"
    assert result.code == 0


def test_an_edited_migration_is_named(installation: Installation) -> None:
    installation.execute("UPDATE schema_migrations SET sha256 = sha256 || '!' WHERE version = 2")
    try:
        ended = installation.bpc.run("migrate")
    finally:
        installation.execute("UPDATE schema_migrations SET sha256 = substr(sha256, 1, 32) WHERE version = 2")

    assert ended.code == 78
    assert ended.err.startswith(f"SCHEMA_MISMATCH: migration `{NAMES[1]}` was edited")


def test_a_data_folder_that_everybody_can_write_to_is_refused(bpc: Program) -> None:
    bpc.data_dir.chmod(0o777)

    ended = bpc.run("migrate")

    assert ended.code == 78
    assert ended.err.startswith(f"CONFIG_MISSING: the data folder `{bpc.data_dir}` can be written to by others")
    assert "chmod go-w" in ended.err


@pytest.mark.long
def test_two_at_once_do_the_work_once(bpc_without_tables: Program) -> None:
    first, second = bpc_without_tables.start("migrate", "--json"), bpc_without_tables.start("migrate", "--json")

    outcomes = [RunResult(process.wait(), *process.communicate()) for process in (first, second)]

    assert [ended.code for ended in outcomes] == [0, 0]
    assert sorted(name for ended in outcomes for name in ended.json()["applied"]) == sorted(NAMES)
