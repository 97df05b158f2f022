"""What a check reports: each step by name, whether it holds, and a sentence.

Pure. A step is a function that returns its sentence, raises a refusal that says what is wrong and where, or raises
`NotChecked` where something it needs is not there. Nothing else is caught: what is nobody's refusal is a bug.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from bpc.core.errors import Invalid, Refusal

Issuer: TypeAlias = Literal["pinned", "unpinned"]


class Wrong(Invalid):
    """Something in what is checked is not as it must be."""


class NotChecked(Exception):
    """A step cannot run, because what it needs is missing or unreadable."""


class Step(NamedTuple):
    """One step of a check. One that could not run does not hold, and its detail says so."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that was checked, in order. `issuer` is `pinned` only if the signature holds under a pinned key."""

    steps: tuple[Step, ...]
    issuer: Issuer

    @property
    def ok(self) -> bool:
        return all(step.ok for step in self.steps)

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the steps that do not hold."""
        return tuple(step.name for step in self.steps if not step.ok)


def taken(name: str, check: Callable[[], str]) -> Step:
    """The step `name`, done."""
    try:
        return Step(name, ok=True, detail=check())
    except NotChecked as reason:
        return Step(name, ok=False, detail=f"not checked: {reason}")
    except Refusal as refused:
        return Step(name, ok=False, detail=refused.says if refused.fix is None else f"{refused.says}; {refused.fix}")


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def not_taken(name: str, reason: str) -> Step:
    return Step(name, ok=False, detail=f"not checked: {reason}")
