"""Compute outside of the event loop: in a child process, or in a thread if no child process can be started.

A child process leaves the loop free, and is killed when the caller stops waiting. A thread shares the interpreter with
the loop and runs to its end.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, TypeVarTuple

from service_jobs import ProcessesUnavailable, ProcessPool
from service_jobs.processes import ChildDied

from bpc.core.errors import Refusal
from bpc.core.language.package import RulesRefused, read_package
from bpc.core.language.source import diagnostic_to_json
from bpc.pipeline.compile import run_in_child_or_thread
from bpc.runtime.logs import get_logger
from bpc.storage.rules.packages import RuleFieldRow, extract_fields

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesRefusal:
    """The text of `RulesRefused`, which cannot be pickled."""

    code: str
    says: str
    fix: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCheckResult:
    """The diagnostics of two texts. `fields`, by path, are there exactly if `refusal` is None."""

    diagnostics: Sequence[Mapping[str, Any]]
    fields: Sequence[RuleFieldRow]
    refusal: RulesRefusal | None


class RulesInvalid(Refusal):
    """Rules with errors: the code of the first error, and all of them in the details."""

    code = "RULE_PARSE_ERROR"

    def __init__(self, refusal: RulesRefusal, diagnostics: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(refusal.says, fix=refusal.fix, details={"diagnostics": diagnostics})
        self.__dict__["code"] = refusal.code  # a class attribute holds only one


def check_rule_sources(dsl: bytes, tests: bytes) -> RuleCheckResult:
    """Parse and check the rules and their tests."""
    package = read_package(dsl, tests)
    refused = None if package.program is not None else RulesRefused(package.diagnostics)
    return RuleCheckResult(
        diagnostics=[dict(diagnostic_to_json(problem.source, problem.diagnostic)) for problem in package.diagnostics],
        fields=[] if package.program is None else extract_fields(package.program),
        refusal=None if refused is None else RulesRefusal(code=refused.code, says=refused.says, fix=refused.fix),
    )
