"""`bpc up`: ready when it says so, there until it is told to stop, and then gone."""

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from bpc.db.address import Address
from tests.cli.program import Program, nothing_runs, wait_until


@pytest.fixture(scope="module")
def bpc(run_folder: Path) -> Program:
    """One data folder for all: new in the first test, used before in the others, free again after each."""
    folder = Path(tempfile.mkdtemp(prefix="up-", dir=run_folder))
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    return Program(folder)


@contextmanager
def running(bpc: Program) -> "Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]":
    """`bpc up --json` from its one line on; whatever happens, it does not outlive the test."""
    process = bpc.start("up", "--json")
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def answers(url: str) -> bool:
    async def ask() -> bool:
        conn = await asyncpg.connect(**Address.parse(url).connect_arguments())
        try:
            return bool(await conn.fetchval("SELECT count(*) > 0 FROM public.schema_migrations"))
        finally:
            await conn.close()

    return asyncio.run(ask())


def assert_gone(bpc: Program) -> None:
    wait_until(lambda: nothing_runs(bpc.data_dir))
    with (bpc.data_dir / "postgres.users").open() as users:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_everything_is_and_stops_cleanly_when_told(bpc: Program, how: signal.Signals) -> None:
    with running(bpc) as (process, told):
        assert told.keys() == {"url", "api_key", "tenant_id", "data_dir"}
        assert told["data_dir"] == str(bpc.data_dir)
        assert (bpc.data_dir / "keys" / "dev-api-key").read_text().strip() == told["api_key"]
        assert answers(told["url"])

        process.send_signal(how)
        out, err = process.communicate()

    assert (process.returncode, out, err) == (0, "", "")
    assert_gone(bpc)


def test_a_second_one_shares_the_database_and_keeps_it_when_the_first_leaves(bpc: Program) -> None:
    with running(bpc) as (first, told), running(bpc) as (second, told_again):
        assert told_again == told

        first.send_signal(signal.SIGINT)
        assert first.wait() == 0
        assert answers(told["url"])

        second.send_signal(signal.SIGINT)
        assert second.wait() == 0
    assert_gone(bpc)


def test_killing_it_leaves_nothing_running(bpc: Program) -> None:
    # Measuring coverage, it would leave half a file behind.
    with running(replace(bpc, measured=False)) as (process, told):
        assert answers(told["url"])
        process.kill()
        process.wait()

        assert_gone(bpc)


def test_a_person_is_told_how_to_go_on_and_how_to_stop(bpc: Program) -> None:
    process = bpc.start("up")
    assert process.stdout is not None
    shown = [process.stdout.readline() for _ in range(6)]

    process.send_signal(signal.SIGINT)
    out, err = process.communicate()

    assert shown[0] == "bpc is up\n"
    assert shown[4].startswith("  API key    bpc_")
    assert shown[5] == "Ctrl-C stops it\n"
    assert (process.returncode, out, err) == (0, "stopped\n", "")
    assert_gone(bpc)


def test_a_database_that_is_not_there_is_unavailable(bpc: Program) -> None:
    ended = bpc.having(DATABASE_URL="postgresql://ada@127.0.0.1:1/bpc").run("up", "--json")

    assert ended.code == 69
    assert ended.json()["error"]["code"] == "DB_UNAVAILABLE"
