"""Compute outside of the event loop: in a child process, or in a thread if no child process can be started.

A child process leaves the loop free, and is killed when the caller stops waiting. A thread shares the interpreter with
the loop and runs to its end.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, TypeVarTuple

from service_jobs import ProcessesUnavailable, ProcessPool
from service_jobs.processes import ChildDied

from bpc.core.errors import Refusal
from bpc.core.language.check_result import RulesRefusal
from bpc.pipeline.compile import run_in_child_or_thread
from bpc.runtime.logs import get_logger

THREAD_THRESHOLD_BYTES: Final = 200_000  # characters or bytes; more is large and is computed in a thread
T = TypeVar("T")
S = TypeVar("S", str, bytes)
Ts = TypeVarTuple("Ts")
log = get_logger(__name__)


class ChildComputePool:
    """The child processes of this process, as the steps of the pipeline use them."""

    def __init__(self, processes: ProcessPool) -> None:
        self._processes = processes

    async def __call__(self, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        try:
            return await self._processes.run(function, arguments)
        except (OSError, ChildDied) as error:
            if isinstance(error, ChildDied) and error.was_killed:  # maybe for lack of memory: no thread helps then
                raise
            reason = f"{type(error).__name__}: {error}"[:500]
            log.warning("no child process could be started, so a thread computes", reason=reason)
            raise ProcessesUnavailable from error


async def compute_in_child(processes: ProcessPool, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Return `function(*arguments)`. The function is at the top level of a module and pure: it may run twice."""
    return await run_in_child_or_thread(ChildComputePool(processes), function, *arguments)


async def compute_by_size(function: Callable[[S], T], content: S) -> T:
    """Return `function(content)`; a thread computes it if the content is large."""
    if len(content) > THREAD_THRESHOLD_BYTES:
        return await asyncio.to_thread(function, content)
    return function(content)


# Check rules in a child process: two texts in, plain data out.


class RulesInvalid(Refusal):
    """Rules with errors: the code of the first error, and all of them in the details."""

    code = "RULE_PARSE_ERROR"

    def __init__(self, refusal: RulesRefusal, diagnostics: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(refusal.says, fix=refusal.fix, details={"diagnostics": diagnostics})
        self.__dict__["code"] = refusal.code  # a class attribute holds only one
