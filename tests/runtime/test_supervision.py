"""Processes that are looked after: there while they are wanted, and never longer."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from bpc.runtime import supervision
from bpc.runtime.supervision import ChildRefused, ChildSpec, supervise_processes

SECONDS = 30

# A child with its line, without the seconds that all of `bpc` takes to be imported.
READY = """
import json, os, signal, socket, sys
line = socket.socket(fileno=int(sys.argv[-1]))
print(json.dumps({"worker": os.getpid()}), flush=True)
"""
STAYS = f"{READY}\nsignal.pause()"
ECHO = f"""{READY}
for text in line.makefile("r"):
    asked = json.loads(text)
    line.sendall(json.dumps({{"to": asked["ask"], "answer": asked["what"] + "!"}}).encode() + b"\\n")
"""
DEAF = f"""{READY}
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(json.dumps({{"deaf": 1}}), flush=True)
while True:
    signal.pause()
"""
DIES = f"{READY}\nos.kill(os.getpid(), signal.SIGKILL)"


def make_refusing_script(code: str) -> str:
    error = {"code": code, "message": "no such thing", "fix": "look", "details": {}}
    return f"import sys\nprint({json.dumps(json.dumps({'error': error}))})\nsys.exit(1)"


def make_spec(script: str, *, stop_seconds: float = SECONDS) -> ChildSpec:
    return ChildSpec(name="child", command=(sys.executable, "-S", "-c", script), stop_seconds=stop_seconds)


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_dead_child_is_restarted_and_the_others_are_left_alone() -> None:
    async with supervise_processes([make_spec(STAYS), make_spec(STAYS)]) as group:
        assert await group.wait_until_ready()
        victim, other = group.children
        before = [child.pid for child in group.children]
        assert before[0] is not None

        os.kill(before[0], signal.SIGKILL)
        await wait_until(lambda: victim.start_count == 2 and victim.ready.is_set())

        assert victim.pid not in {None, before[0]}
        assert (other.pid, other.start_count) == (before[1], 1)


async def test_the_pause_grows_while_a_child_keeps_dying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "LONGEST_PAUSE", 0.4)
    async with supervise_processes([make_spec(DIES)]) as group:
        (child,) = group.children
        starts: list[float] = []
        while len(starts) < 6:
            await wait_until(lambda: child.start_count > len(starts))
            starts.append(time.monotonic())

    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert gaps[0] >= 0.1
    assert gaps[1] >= 0.2
    assert gaps[2] >= 0.4
    assert all(gap < 0.8 + 5 for gap in gaps[3:])


async def test_a_child_refused_at_its_start_stops_all_with_its_own_message() -> None:
    with pytest.raises(ChildRefused) as refused:
        async with supervise_processes([make_spec(STAYS), make_spec(make_refusing_script("DB_UNAVAILABLE"))]) as group:
            assert not await group.wait_until_ready()

    assert (refused.value.code, refused.value.says, refused.value.fix) == ("DB_UNAVAILABLE", "no such thing", "look")
    assert all(child.pid is None for child in group.children)


@pytest.mark.parametrize(("code", "ends"), [("SCHEMA_MISMATCH", True), ("DB_UNAVAILABLE", False)])
async def test_a_child_refused_later_stops_all_only_for_a_wrong_configuration(
    tmp_path: Path, code: str, ends: bool
) -> None:
    first = tmp_path / "first"
    script = f"import os\nif os.path.exists({str(first)!r}):\n{textwrap.indent(make_refusing_script(code), '    ')}\n"
    script += f"open({str(first)!r}, 'w').close()\n{DIES}"

    with pytest.raises(ChildRefused, match="no such thing") if ends else nullcontext():
        async with supervise_processes([make_spec(script)]) as group:
            (child,) = group.children
            await wait_until(lambda: child.start_count >= 3 or group.is_stopping)

    assert child.start_count == (2 if ends else 3)


async def test_a_child_that_exits_silently_before_it_is_ready_is_an_internal_error() -> None:
    with pytest.raises(ChildRefused, match="ended with exit code 3 before it was ready") as refused:
        async with supervise_processes([make_spec("raise SystemExit(3)")]) as group:
            await group.wait_until_stopping()

    assert refused.value.code == "INTERNAL_ERROR"


async def test_a_child_that_cannot_be_started_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "LONGEST_PAUSE", 0.1)
    program = tmp_path / "program"
    late = ChildSpec(name="child", command=(str(program), "-S", "-c", STAYS), stop_seconds=SECONDS)

    async with supervise_processes([late]) as group:
        await asyncio.sleep(0.05)
        program.symlink_to(sys.executable)

        async with asyncio.timeout(SECONDS):
            assert await group.wait_until_ready()

    assert group.children[0].start_count == 1


async def test_stopping_stops_every_child_and_restarts_none() -> None:
    async with supervise_processes([make_spec(STAYS), make_spec(STAYS)]) as group:
        assert await group.wait_until_ready()
        os.kill(os.getpid(), signal.SIGTERM)
        assert await group.wait_until_stopping(SECONDS)

    assert [(child.start_count, child.pid) for child in group.children] == [(1, None)] * 2


async def test_a_child_that_does_not_stop_in_time_is_killed() -> None:
    async with asyncio.timeout(SECONDS):
        async with supervise_processes([make_spec(DEAF, stop_seconds=0.2)]) as group:
            await wait_until(lambda: group.children[0].ready_message == {"deaf": 1})


async def test_a_child_gets_our_environment_without_private_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64", "BPC_TLOG_ED25519_PRIVATE_KEY_BASE64"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("BPC_SIGNER_PKCS11_PIN", "secret")
    monkeypatch.setenv("BPC_LOG_LEVEL", "warn")
    spec = replace(make_spec(STAYS), variables={"BPC_HTTP_PORT": "8123"})

    async with supervise_processes([spec]) as group:
        assert await group.wait_until_ready()
        environment = psutil.Process(group.children[0].pid).environ()

    assert environment["BPC_HTTP_PORT"] == "8123"
    assert environment["BPC_LOG_LEVEL"] == "warn"
    assert "secret" not in environment.values()


async def test_a_second_ctrl_c_does_not_wait() -> None:
    async with asyncio.timeout(SECONDS):
        with pytest.raises(KeyboardInterrupt):
            async with supervise_processes([make_spec(DEAF)]) as group:
                await wait_until(
                    lambda: group.children[0].start_count == 1 and group.children[0].ready_message == {"deaf": 1}
                )
                assert await group.wait_until_ready()
                os.kill(os.getpid(), signal.SIGINT)
                assert await group.wait_until_stopping(SECONDS)
                os.kill(os.getpid(), signal.SIGINT)


async def test_an_exception_in_the_parent_leaves_no_child_running() -> None:
    pids: list[int | None] = []
    with pytest.raises(ZeroDivisionError):
        async with supervise_processes([make_spec(STAYS)]) as group:
            await group.wait_until_ready()
            pids = [child.pid for child in group.children]
            raise ZeroDivisionError

    assert pids[0] is not None
    assert not psutil.pid_exists(pids[0])


async def test_a_child_is_asked_and_one_that_is_gone_does_not_answer() -> None:
    async with supervise_processes([make_spec(ECHO)]) as group:
        (child,) = group.children
        assert await child.ask("figures") is None
        await group.wait_until_ready()

        assert await asyncio.gather(*(child.ask(f"figures {number}") for number in range(20))) == [
            f"figures {number}!" for number in range(20)
        ]
        group.kill()
        await group.wait_until_ended()
        assert await child.ask("figures") is None


async def test_a_question_to_a_silent_child_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "CHILD_ANSWER_SECONDS", 0.05)
    async with supervise_processes([make_spec(STAYS)]) as group:
        await group.wait_until_ready()

        assert await group.children[0].ask("figures") is None


ORPHAN = """
import asyncio, os, sys
from bpc.runtime.supervision import open_parent_channel

async def main():
    async with open_parent_channel(int(sys.argv[-1]), {}):
        print('{"worker": 1}', flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""
PARENT = f"""
import asyncio, sys
from bpc.runtime.supervision import ChildSpec, supervise_processes

async def main():
    specs = [ChildSpec(name="child", command=(sys.executable, "-c", {ORPHAN!r}), stop_seconds=1)]
    async with supervise_processes(specs) as group:
        await group.wait_until_ready()
        print(group.children[0].pid, flush=True)
        await group.wait_until_stopping()

asyncio.run(main())
"""


def test_children_end_with_their_parent_however_that_ends() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()

        child.wait(SECONDS)
