"""How long one callback holds an event loop, in CPU time of its thread, which a busy machine does not change.

    with watch_loop() as watch:            # in the thread of the loop; a plain asyncio loop, not uvloop
        ...
    watch.longest                          # Stretch(milliseconds=12.3, callback="Task get_payload …")

A stretch is what runs between two turns of the loop: a callback, or a task until it waits for something. Nobody else is
answered meanwhile.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from bpc.api.http.routing import PermissionedRoute


@dataclass(frozen=True, slots=True, order=True)
class Stretch:
    """One callback of the loop: its CPU time, and what it was."""

    milliseconds: float
    callback: str = ""


@dataclass(slots=True)
class LoopWatch:
    """The stretches of one thread since the watch began or was reset, as far as they are long."""

    thread: int
    longest: Stretch = Stretch(0.0)
    cpu_seconds: float = 0.0
    long_ones: list[Stretch] = field(default_factory=list)

    def record(self, seconds: float, describe: Callable[[], str]) -> None:
        self.cpu_seconds += seconds
        if seconds * 1000 > max(self.longest.milliseconds, 5.0):
            self.longest = Stretch(round(seconds * 1000, 2), describe())
            self.long_ones.append(self.longest)

    def reset(self) -> None:
        self.longest, self.cpu_seconds, self.long_ones = Stretch(0.0), 0.0, []


@contextmanager
def watch_loop() -> Iterator[LoopWatch]:
    """Watch the loops of this thread until the block ends."""
    watch = LoopWatch(threading.get_ident())
    run: Any = asyncio.Handle._run

    def run_and_measure(handle: asyncio.Handle) -> None:
        if threading.get_ident() != watch.thread:
            run(handle)
            return
        began = time.thread_time()
        try:
            run(handle)
        finally:
            watch.record(time.thread_time() - began, lambda: _describe(handle))

    asyncio.Handle._run = run_and_measure  # type: ignore[assignment,method-assign]
    original = PermissionedRoute._handle
    PermissionedRoute._handle = _name_task(original)  # type: ignore[method-assign]
    try:
        yield watch
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]
        PermissionedRoute._handle = original  # type: ignore[method-assign]


def _name_task(original: Any) -> Any:
    """Give the task of a request the name of its route, so that a stretch says whose it was."""

    async def handle(route: PermissionedRoute, service: Any, request: Request, answer: Any) -> Any:
        if (task := asyncio.current_task()) is not None:
            task.set_name(f"{request.method} {route.path}")
        return await original(route, service, request, answer)

    return handle


def _describe(handle: asyncio.Handle) -> str:
    callback: Any = handle._callback  # type: ignore[attr-defined]
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        return f"{task.get_name()} {getattr(task.get_coro(), '__qualname__', '')}"
    return str(getattr(callback, "__qualname__", callback))[:200]
