"""The real program, run as a process of its own with the smallest environment it can live in."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from bpc.runtime.postgres.cluster import Layout, find_running_postmaster, is_locked
from tests.cli import fork_server
from tests.measurements import choose_effort

SECONDS = 120
# Both end whatever stays until it is told to stop, in the same way; beside other tests one of them is enough.
STOP_SIGNALS = choose_effort(
    test=[signal.SIGTERM], shown=[signal.SIGINT, signal.SIGTERM], campaign=[signal.SIGINT, signal.SIGTERM]
)


def _restore_sigint() -> None:
    # Whoever runs the tests in the background of a shell has SIGINT ignored, and so would we.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run of the program ended, and what it printed."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """The one line of JSON it printed."""
        assert self.out.count("\n") == 1, self
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Program:
    """`bpc` with a data folder of its own and these settings."""

    data_dir: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    with_coverage: bool = True

    def with_settings(self, **settings: str) -> Self:
        return replace(self, settings={**self.settings, **settings})

    def run(self, *arguments: str | Path | bytes, stdin: bytes = b"") -> RunResult:
        """Run it to its end. Whatever happens, nobody is shown a stack trace."""
        if any(name.startswith("PYTHON") for name in self.settings):
            done = subprocess.run(
                self.command(*arguments),
                input=stdin,
                capture_output=True,
                env=self.environment(),
                cwd="/",
                check=False,
                timeout=SECONDS,
            )
            code, out, err = done.returncode, done.stdout, done.stderr
        else:
            argument_list = [os.fsdecode(argument) for argument in arguments]
            code, out, err = fork_server.run(argument_list, self.environment(), stdin, seconds=SECONDS)
        result = RunResult(code, out.decode(), err.decode())
        assert "Traceback (most" not in result.out + result.err, result
        return result

    def run_ok(self, *arguments: str | Path) -> RunResult:
        """Run it where it must succeed, without a word on standard error."""
        result = self.run(*arguments)
        assert (result.code, result.err) == (0, ""), result
        return result

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            self.command(*arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(),
            cwd="/",
            preexec_fn=_restore_sigint,  # noqa: PLW1509 (one call, nothing that could wait for a thread)
        )
        if process.stderr is not None and hasattr(fcntl, "F_SETPIPE_SZ"):
            # A process whose log nobody reads must not come to stand.
            fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, 1 << 20)
        return process

    def command(self, *arguments: str | Path | bytes) -> list[str | Path | bytes]:
        return [sys.executable, "-m", "bpc", *arguments]

    def environment(self) -> dict[str, str]:
        coverage = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}
        return {
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "BPC_DATA_DIR": str(self.data_dir),
            "BPC_WORKER_HTTP_PORT": "0",  # one port for all workers of this machine, and tests run side by side
            "BPC_WORKER_NICE": "0",  # else it waits for the tests that run beside it
            **(coverage if self.with_coverage else {}),
            **self.settings,
        }


def wait_until(condition: Callable[[], bool], *, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.01)


def is_stopped(data_dir: Path) -> bool:
    """Whether neither a server nor its keeper is there any more."""
    layout = Layout(data_dir)
    return find_running_postmaster(layout.find_cluster_folder()) is None and not is_locked(layout.keeper_lock)


# Commands that stay: started, waited for by the line they print, and ended with the test.


@contextmanager
def start_command(bpc: Program, *arguments: str) -> "Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]":
    """A command with --json from its one line on; whatever happens, it does not outlive the test.

    Its coverage is kept only if the test ends it kindly. `up` is several processes, with which others are tested.
    """
    process = replace(bpc, with_coverage=bpc.with_coverage and arguments[0] != "up").start(*arguments, "--json")
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, process.communicate()
        yield process, json.loads(line)
    finally:
        process.kill()
        process.communicate()
