"""Computing beside the event loop: in a child process, or in a thread where no child process can be had.

A child process leaves the loop to everybody else, and is killed when whoever asked stops waiting. A thread shares the
interpreter with the loop, and goes on to its end.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from bpc.jobs import Processes
from bpc.jobs.processes import ChildDied
from bpc.logs import logger

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
log = logger(__name__)


class Computed:
    """`computed` in these processes, for who does not know them."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    async def __call__(self, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        return await computed(self._processes, function, *arguments)


async def computed(processes: Processes, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """What a function makes of its arguments. It is defined at the top of a module and pure: it may be run twice."""
    try:
        return await processes.run(function, arguments)
    except (OSError, ChildDied) as why:
        if isinstance(why, ChildDied) and why.was_killed:  # for want of memory, maybe: not to be tried in here
            raise
        log.warning("no child process to compute in: a thread does it", reason=f"{type(why).__name__}: {why}"[:500])
    return await asyncio.to_thread(function, *arguments)
