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
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
import typer

from bpc.cli import supervise
from bpc.cli.supervise import Refused, Role, supervised

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


def refusing(code: str) -> str:
    error = {"code": code, "message": "no such thing", "fix": "look", "details": {}}
    return f"import sys\nprint({json.dumps(json.dumps({'error': error}))})\nsys.exit(1)"


def role(script: str, *, stop_seconds: float = SECONDS) -> Role:
    return Role(name="child", command=(sys.executable, "-S", "-c", script), stop_seconds=stop_seconds)


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not happened():
            await asyncio.sleep(0.01)


async def test_one_that_dies_is_started_again_and_the_others_are_left_alone() -> None:
    async with supervised([role(STAYS), role(STAYS)]) as fleet:
        assert await fleet.ready()
        victim, other = fleet.children
        before = [child.pid for child in fleet.children]
        assert before[0] is not None

        os.kill(before[0], signal.SIGKILL)
        await until(lambda: victim.started == 2 and victim.ready.is_set())

        assert victim.pid not in {None, before[0]}
        assert (other.pid, other.started) == (before[1], 1)


async def test_one_that_keeps_dying_is_started_ever_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "LONGEST_PAUSE", 0.4)
    async with supervised([role(DIES)]) as fleet:
        (child,) = fleet.children
        starts: list[float] = []
        while len(starts) < 6:
            await until(lambda: child.started > len(starts))
            starts.append(time.monotonic())

    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert gaps[0] >= 0.1
    assert gaps[1] >= 0.2
    assert gaps[2] >= 0.4
    assert all(gap < 0.8 + 5 for gap in gaps[3:])


async def test_what_is_refused_from_the_start_ends_all_of_it_in_its_own_words() -> None:
    with pytest.raises(Refused) as refused:
        async with supervised([role(STAYS), role(refusing("DB_UNAVAILABLE"))]) as fleet:
            assert not await fleet.ready()

    assert (refused.value.code, refused.value.says, refused.value.fix) == ("DB_UNAVAILABLE", "no such thing", "look")
    assert all(child.pid is None for child in fleet.children)


@pytest.mark.parametrize(("code", "ends"), [("SCHEMA_MISMATCH", True), ("DB_UNAVAILABLE", False)])
async def test_what_is_refused_later_ends_all_of_it_only_if_waiting_would_not_help(
    tmp_path: Path, code: str, ends: bool
) -> None:
    first = tmp_path / "first"
    script = f"import os\nif os.path.exists({str(first)!r}):\n{textwrap.indent(refusing(code), '    ')}\n"
    script += f"open({str(first)!r}, 'w').close()\n{DIES}"

    with pytest.raises(Refused, match="no such thing") if ends else nullcontext():
        async with supervised([role(script)]) as fleet:
            (child,) = fleet.children
            await until(lambda: child.started >= 3 or fleet.is_over)

    assert child.started == (2 if ends else 3)


async def test_one_that_ends_before_it_is_ready_without_a_word_is_a_mistake_of_ours() -> None:
    with pytest.raises(Refused, match="ended with exit code 3 before it was ready") as refused:
        async with supervised([role("raise SystemExit(3)")]) as fleet:
            await fleet.over()

    assert refused.value.code == "INTERNAL_ERROR"


async def test_one_that_cannot_be_started_at_all_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "LONGEST_PAUSE", 0.1)
    program = tmp_path / "program"
    late = Role(name="child", command=(str(program), "-S", "-c", STAYS), stop_seconds=SECONDS)

    async with supervised([late]) as fleet:
        await asyncio.sleep(0.05)
        program.symlink_to(sys.executable)

        async with asyncio.timeout(SECONDS):
            assert await fleet.ready()

    assert fleet.children[0].started == 1


async def test_told_to_stop_all_stop_and_none_is_started_again() -> None:
    async with supervised([role(STAYS), role(STAYS)]) as fleet:
        assert await fleet.ready()
        os.kill(os.getpid(), signal.SIGTERM)
        assert await fleet.over(SECONDS)

    assert [(child.started, child.pid) for child in fleet.children] == [(1, None)] * 2


async def test_who_does_not_stop_in_time_is_killed() -> None:
    async with asyncio.timeout(SECONDS):
        async with supervised([role(DEAF, stop_seconds=0.2)]) as fleet:
            await until(lambda: fleet.children[0].told == {"deaf": 1})


async def test_a_second_ctrl_c_does_not_wait() -> None:
    async with asyncio.timeout(SECONDS):
        with pytest.raises(typer.Exit) as ended:
            async with supervised([role(DEAF)]) as fleet:
                await until(lambda: fleet.children[0].started == 1 and fleet.children[0].told == {"deaf": 1})
                assert await fleet.ready()
                os.kill(os.getpid(), signal.SIGINT)
                assert await fleet.over(SECONDS)
                os.kill(os.getpid(), signal.SIGINT)

    assert ended.value.exit_code == 130


async def test_a_mistake_of_ours_leaves_nobody_behind() -> None:
    pids: list[int | None] = []
    with pytest.raises(ZeroDivisionError):
        async with supervised([role(STAYS)]) as fleet:
            await fleet.ready()
            pids = [child.pid for child in fleet.children]
            raise ZeroDivisionError

    assert pids[0] is not None
    assert not psutil.pid_exists(pids[0])


async def test_a_child_is_asked_and_one_that_is_gone_does_not_answer() -> None:
    async with supervised([role(ECHO)]) as fleet:
        (child,) = fleet.children
        assert await child.ask("figures") is None
        await fleet.ready()

        assert await asyncio.gather(*(child.ask(f"figures {number}") for number in range(20))) == [
            f"figures {number}!" for number in range(20)
        ]
        fleet.kill()
        await fleet.ended()
        assert await child.ask("figures") is None


async def test_a_child_that_does_not_answer_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "PATIENCE", 0.05)
    async with supervised([role(STAYS)]) as fleet:
        await fleet.ready()

        assert await fleet.children[0].ask("figures") is None


ORPHAN = """
import asyncio, os, sys
from bpc.cli.supervise import on_the_line

async def main():
    async with on_the_line(int(sys.argv[-1]), {}):
        print('{"worker": 1}', flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""
PARENT = f"""
import asyncio, sys
from bpc.cli.supervise import Role, supervised

async def main():
    roles = [Role(name="child", command=(sys.executable, "-c", {ORPHAN!r}), stop_seconds=1)]
    async with supervised(roles) as fleet:
        await fleet.ready()
        print(fleet.children[0].pid, flush=True)
        await fleet.over()

asyncio.run(main())
"""


def test_children_end_with_their_parent_however_that_ends() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()

        child.wait(SECONDS)
