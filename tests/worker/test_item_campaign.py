"""Specification of `kill -9` of everything that issues batteries: workers, the command that asked, and PostgreSQL.

`bpc up` keeps the service running. A command that was killed is run again with the same file. In the end each battery
has one passport, and the audit finds nothing.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
from bpc_client import SyncClient
from tests.jobs.faults.fault_database import create_random

from bpc.runtime.postgres.cluster import Layout, find_running_postmaster
from tests.cli.online.test_battery_items import RULES, TESTS
from tests.cli.program import Program, start_command, wait_until
from tests.measurements import RecordMeasurement, allow_seconds, choose_effort
from tests.worker.test_kills import SETTINGS

WORKER_KILLS, COMMAND_KILLS, SERVER_KILLS = choose_effort(test=(2, 1, 1), shown=(20, 8, 2), campaign=(50, 20, 2))
BATTERIES_OF_A_FILE: Final = choose_effort(test=1_100, shown=3_000, campaign=5_000)
SKU: Final = "PACK-48"


@pytest.fixture
def service(data_dir: Path) -> Iterator[tuple[Program, psutil.Process]]:
    program = Program(data_dir, SETTINGS)
    with start_command(program, "up", "--port", "0", "--workers", "2") as (process, ready):
        program.run_ok("tenant", "create", "maker")
        key = program.run_ok("apikey", "create", "--tenant", "maker", "--role", "Admin", "--json").json()["api_key"]
        yield program.with_settings(BPC_URL=ready["url"], BPC_API_KEY=key), psutil.Process(process.pid)


def issue_model(bpc: Program, folder: Path) -> None:
    (folder / "rules.bpc").write_text(RULES)
    (folder / "tests.bpc").write_text(TESTS)
    (folder / "sheet.json").write_text(json.dumps({"batteries": [{"sku": SKU, "capacity_kwh": "0.5"}]}))
    (folder / "products.csv").write_text(f"sku,name\n{SKU},Pack\n")
    tests = ("--tests", str(folder / "tests.bpc"))
    bpc.run_ok("rules", "publish", str(folder / "rules.bpc"), *tests, "--package", "items")
    bpc.run_ok("upload", str(folder / "sheet.json"), "--kind", "BOM", "--wait")
    rules = ("--rules", "items", "--csv", str(folder / "products.csv"))
    bpc.run_ok("passports", "compile", *rules, "--activate", "--wait")


class IssuingCommand:
    """`bpc batteries issue` with one file after the other. One that was killed or failed is run again."""

    def __init__(self, bpc: Program, folder: Path) -> None:
        self.files = 0
        self._bpc, self._folder = bpc, folder
        self._process: subprocess.Popen[bytes] | None = None
        self._file = folder

    def keep_running(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        if self._process is None or self._process.returncode == 0:
            self._write_next_file()
        self._start()

    def kill(self) -> None:
        self.keep_running()
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def finish(self) -> None:
        """Run the last file until it is issued."""
        deadline = time.monotonic() + allow_seconds(300)
        while self._process is not None and self._process.wait() != 0:
            assert time.monotonic() < deadline, "the last file is not issued"
            self._start()

    def _write_next_file(self) -> None:
        self.files += 1
        self._file = self._folder / f"items-{self.files}.csv"
        lines = [f"S{self.files:03d}-{number:06d},9.5" for number in range(BATTERIES_OF_A_FILE)]
        self._file.write_text("\n".join(["serial_number,remaining_capacity_ah", *lines, ""]))

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._bpc.command("batteries", "issue", "--model", SKU, "--items", str(self._file), "--json"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._bpc.environment(),
            cwd="/",
        )


def list_workers(up: psutil.Process) -> list[psutil.Process]:
    """The workers and their child processes, of which each computes or holds a transaction."""
    workers = []
    for process in up.children(recursive=True):
        try:
            names = [process.cmdline(), *(parent.cmdline() for parent in process.parents()[:1])]
        except psutil.Error:
            continue
        if any("worker" in name for name in names) and process.status() != psutil.STATUS_ZOMBIE:
            workers.append(process)
    return workers


def kill_worker(up: psutil.Process, chance: Any) -> None:
    workers: list[psutil.Process] = []
    deadline = time.monotonic() + allow_seconds(30)
    while not workers:
        assert time.monotonic() < deadline, "no worker was started again"
        workers = list_workers(up)
        time.sleep(0.02)
    try:
        chance.choice(workers).kill()
    except psutil.NoSuchProcess:
        kill_worker(up, chance)


def kill_server(data_dir: Path) -> None:
    folder = Layout(data_dir).find_cluster_folder()
    wait_until(lambda: find_running_postmaster(folder) is not None, seconds=allow_seconds(60))
    server = find_running_postmaster(folder)
    assert server is not None
    psutil.Process(server.pid).kill()


@pytest.mark.long
def test_whatever_is_killed_no_battery_is_lost_and_none_is_issued_twice(
    service: tuple[Program, psutil.Process],
    data_dir: Path,
    tmp_path: Path,
    record_measurement: RecordMeasurement,
    request: pytest.FixtureRequest,
) -> None:
    bpc, up = service
    chance = create_random(request.node.name)
    issue_model(bpc, tmp_path)
    command, started_at = IssuingCommand(bpc, tmp_path), time.monotonic()
    kills = ["worker"] * WORKER_KILLS + ["command"] * COMMAND_KILLS + ["server"] * SERVER_KILLS
    chance.shuffle(kills)

    for kill in kills:
        command.keep_running()
        time.sleep(chance.uniform(0.1, 1.5))
        if kill == "worker":
            kill_worker(up, chance)
        elif kill == "command":
            command.kill()
        else:
            kill_server(data_dir)
    command.finish()

    total = command.files * BATTERIES_OF_A_FILE
    with SyncClient(bpc.settings["BPC_URL"], bpc.settings["BPC_API_KEY"]) as api:
        runs = _finish_runs(api)
        assert sum(run.issued for run in runs) == total, "none is lost, and none is issued twice"
        assert {run.refused for run in runs} == {0}
        verification = api.verify_events()
        assert (verification.ok, verification.row_faults) == (True, [])
        for number in range(1, command.files + 1):
            [battery] = api.look_up_battery(text=f"S{number:03d}-000007").items
            assert len(api.list_battery_passport_versions(battery.battery_id).items) == 1
    record_measurement(
        "items-kills-of-all",
        batteries=total,
        kills_of_workers=WORKER_KILLS,
        kills_of_commands=COMMAND_KILLS,
        kills_of_postgresql=SERVER_KILLS,
        lost=0,
        doubled=0,
        seconds=round(time.monotonic() - started_at),
    )


def _finish_runs(api: SyncClient) -> list[Any]:
    """All runs, once they have finished. One whose job gave up after too many kills is resumed."""
    deadline = time.monotonic() + allow_seconds(300)
    while True:
        runs = list(api.list_all(api.list_item_runs))
        waiting = [run for run in runs if run.status != "FINISHED"]
        if not waiting:
            return runs
        assert time.monotonic() < deadline, "runs do not finish"
        for run in waiting:
            if api.get_item_run(run.run_id, wait_seconds=10).status != "FINISHED":
                api.resume_item_run(run.run_id)
