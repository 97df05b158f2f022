"""The processes of an embedded server, as tests find, wait for and kill them; and another process that uses it."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable

import asyncpg
import psutil

from bpc.runtime.postgres.address import Address
from bpc.runtime.postgres.cluster import Layout, Postmaster, find_running_postmaster

USER_PROGRAM = """
import sys
from pathlib import Path
from bpc.runtime.postgres.server import use_server
server = use_server(Path(sys.argv[1]))
print("using", flush=True)
sys.stdin.readline()
"""


def wait_until(holds: Callable[[], bool], within: float = 60) -> None:
    """Wait for something another process does; say so if it never happens."""
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def require_postmaster(layout: Layout) -> Postmaster:
    running = find_running_postmaster(layout.find_cluster_folder())
    assert running is not None
    return running


def is_gone(layout: Layout) -> bool:
    return find_running_postmaster(layout.find_cluster_folder()) is None


def find_keeper_pid(layout: Layout) -> int:
    """The keeper's number, or 0 while there is none."""
    command_end = ["bpc.runtime.postgres.keeper", str(layout.data_dir)]
    running = psutil.process_iter(["cmdline"])
    return next((process.pid for process in running if (process.info["cmdline"] or [])[-2:] == command_end), 0)


def start_other_user(layout: Layout) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", USER_PROGRAM, str(layout.data_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "using\n"
    return process


def kill_process(process: "subprocess.Popen[str]") -> None:
    with process:
        process.kill()


def run_query(address: Address, query: str = "SELECT 1") -> object:
    async def ask() -> object:
        conn = await asyncpg.connect(**address.connect_arguments())
        try:
            return await conn.fetchval(query)
        finally:
            await conn.close()

    return asyncio.run(ask())
