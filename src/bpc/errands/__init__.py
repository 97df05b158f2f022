"""Jobs beside the eight steps, a file each."""

from dataclasses import dataclass

from bpc.errands.rule_tests import TestsOrder, tests_job
from bpc.jobs import Handler, Handlers

__all__ = ["Errands", "Means", "declare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What the errands work with."""

    max_steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Errands:
    """The errands that can be asked for."""

    rule_tests: Handler[TestsOrder, None]


def declare(handlers: Handlers, means: Means) -> Errands:
    """Add the errands to `handlers`."""
    return Errands(rule_tests=tests_job(handlers, max_steps=means.max_steps))
