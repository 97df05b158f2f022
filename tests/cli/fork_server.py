"""Processes of `bpc` that do not start from nothing: each is forked from one that has imported the program already.

A process that only starts costs a second on a busy machine, most of it imports that are the same every time; some
hundred tests start several. What is forked has its own arguments, environment, folder and standard streams, runs
`main` and ends as `python -m bpc` does. Tests of how the program starts and dies start it themselves.

    pytest ──(arguments, environment, streams)──► the one that has imported ──fork──► bpc
           ◄──(number, then exit code)───────────

A shell has the same by a `bpc` of its own on its path (`put_command`).
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

from coverage import Coverage

import bpc.cli
from bpc.cli.main import main

ROOT = Path(__file__).parents[2]
NUMBER_BYTES = 8  # bytes
# As it is when tests are collected: the test that happens to come first may be one that is not measured.
COVERAGE = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}
# What commands import only when they need it, because it takes long.
SLOW_IMPORTS = ("asyncio", "bpc.printing", "bpc_client", "rich.console", "rich.progress", "rich.table", "uvloop")


def run(
    arguments: Sequence[str], environment: Mapping[str, str], stdin: bytes, *, seconds: float
) -> tuple[int, bytes, bytes]:
    """Run `bpc` to its end; return its exit code and what it printed."""
    with tempfile.TemporaryFile() as input_file, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        input_file.write(stdin)
        input_file.seek(0)
        code = _wait_for_exit(arguments, environment, [input_file, out, err], seconds)
        out.seek(0)
        err.seek(0)
        return code, out.read(), err.read()


def start(arguments: Sequence[str], environment: Mapping[str, str], streams: Sequence[int]) -> socket.socket:
    """Start `bpc` with these descriptors as its standard streams.

    On what is returned come NUMBER bytes with the number of the process, and NUMBER more when it has ended, with its
    exit code.
    """
    request = {"arguments": arguments, "environment": dict(environment), "folder": "/"}
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(_start_fork_server())
        socket.send_fds(line, [b"!"], streams)
        line.sendall(json.dumps(request).encode())
        line.shutdown(socket.SHUT_WR)
    except BaseException:
        line.close()
        raise
    return line


def _wait_for_exit(
    arguments: Sequence[str], environment: Mapping[str, str], streams: Sequence[IO[bytes]], seconds: float
) -> int:
    with start(arguments, environment, [stream.fileno() for stream in streams]) as line:
        line.settimeout(seconds)
        pid = int(line.recv(NUMBER_BYTES))
        try:
            return int(line.recv(NUMBER_BYTES))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise


# What stays until somebody ends it starts as it always does: it is its number that signals are sent to.
COMMAND = """\
#!{python} -IS
import json, os, socket, sys

if sys.argv[1:2] in (["up"], ["api"], ["worker"]):
    os.execv({real!r}, ["bpc", *sys.argv[1:]])
asked = {{"arguments": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd()}}
with socket.socket(socket.AF_UNIX) as line:
    line.connect({address!r})
    socket.send_fds(line, [b"!"], [0, 1, 2])
    line.sendall(json.dumps(asked).encode())
    line.shutdown(socket.SHUT_WR)
    line.recv({number})
    sys.exit(int(line.recv({number})))
"""


def install_command(folder: Path) -> None:
    """Put a `bpc` into `folder` that is forked, for a shell."""
    real = Path(sys.prefix, "bin", "bpc")
    command = folder / "bpc"
    command.write_text(
        COMMAND.format(python=sys.executable, real=str(real), address=_start_fork_server(), number=NUMBER_BYTES)
    )
    command.chmod(0o755)


@cache
def _start_fork_server() -> str:
    """Where the one that has imported everything listens; it is started when it is first needed, and ends with us."""
    folder = Path(tempfile.mkdtemp(prefix="bpc-forks-", dir="/tmp"))
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, str(folder / "s")],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **COVERAGE},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.read(1)  # it listens

    def end() -> None:
        process.communicate()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return str(folder / "s")


# What follows happens in the other process.


def serve(path: str) -> None:
    """Fork whenever somebody asks, and say how each has ended, until the one who started us is gone."""
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    lines: dict[int, socket.socket] = {}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        os.write(1, b"!")
        while 0 not in (ready := select.select([listener.fileno(), ended, 0], [], [])[0]):
            if ended in ready:
                os.read(ended, 4096)
                _report_ended(lines)
            if listener.fileno() in ready:
                line, _ = listener.accept()
                lines[_run_request(line, [listener, *lines.values()], [ended, wake])] = line


def _report_ended(lines: dict[int, socket.socket]) -> None:
    """Send its exit code to whoever asked for a process that has ended."""
    with contextlib.suppress(ChildProcessError):
        while (exit_state := os.waitpid(-1, os.WNOHANG))[0]:
            with lines.pop(exit_state[0]) as line, contextlib.suppress(OSError):  # nobody may wait any more
                line.sendall(b"%-8d" % os.waitstatus_to_exitcode(exit_state[1]))


def _run_request(line: socket.socket, sockets: Sequence[socket.socket], descriptors: Sequence[int]) -> int:
    """Return the number of the new process, which has neither these sockets nor these descriptors."""
    _, streams, _, _ = socket.recv_fds(line, 1, 3)
    with line.makefile("rb") as stream:
        request = json.load(stream)
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (line, *sockets):
            each.close()
        for descriptor in descriptors:
            os.close(descriptor)
        _take_over_process(request, streams)
        _end(main())
    for descriptor in streams:
        os.close(descriptor)
    with contextlib.suppress(OSError):  # nobody may wait any more
        line.sendall(b"%-8d" % pid)
    return pid


def _end(code: int) -> NoReturn:
    """End as Python does, except that what is in memory is left to the operating system."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)


def _take_over_process(request: dict[str, Any], streams: Sequence[int]) -> None:
    """Be as a process that was just started with this request."""
    for descriptor, stream in enumerate(streams):
        os.dup2(stream, descriptor)
        os.close(stream)
    # As Python opens them without a locale.
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.argv = ["bpc", *request["arguments"]]
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    if not any(name.startswith("COVERAGE_") for name in os.environ):
        _stop_coverage()


def _save_import_coverage() -> None:
    """What importing runs is written down here, once, and so is which files there are; the forks have only the rest."""
    if measuring := Coverage.current():
        measuring.stop()
        measuring.save()
        measuring._inorout.find_possibly_unexecuted_files = lambda: iter(())  # type: ignore[union-attr, method-assign]
        measuring.start()


def _stop_coverage() -> None:
    if measuring := Coverage.current():
        measuring.stop()
        measuring._auto_save = False


if __name__ == "__main__":
    commands = [module.name for module in pkgutil.walk_packages(bpc.cli.__path__, "bpc.cli.")]
    for name in (*commands, *SLOW_IMPORTS):
        with contextlib.suppress(Exception):  # whoever runs it will be told
            importlib.import_module(name)
    _save_import_coverage()
    gc.collect()
    gc.freeze()
    serve(sys.argv[1])
