"""Checking bundles and views, step by step: `bundle` has `verify_bundle` and `verify_view`. Below: their report.

A step is a function that returns its sentence, raises a refusal that says what is wrong and where, or raises
`NotChecked` if something it needs is missing. Any other exception is a bug and is not caught.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple, TypeAlias

from bpc.core.audit.signing import SignatureInvalid
from bpc.core.errors import Invalid, Refusal
from bpc.core.formats.ids import PassportVersionId

Issuer: TypeAlias = Literal["pinned", "unpinned"]
VerdictName: TypeAlias = Literal["in_force", "superseded", "revoked", "ceased", "not_asked"]


class CheckFailed(Invalid):
    """A check found something wrong."""


class NotChecked(Exception):
    """A step cannot run, because what it needs is missing or unreadable."""


class StepResult(NamedTuple):
    """One step. A step that could not run is `skipped` and counts as failed; `detail` says why."""

    name: str
    ok: bool
    detail: str
    skipped: bool = False

    @property
    def code(self) -> str | None:
        """SIGNATURE_INVALID if the signature was checked and is wrong. Other steps have no code."""
        is_wrong = not self.ok and not self.skipped
        return SignatureInvalid.code if self.name == "signature" and is_wrong else None


class StatusVerdict(NamedTuple):
    """What is known of the status of a passport version, in one word and in a sentence."""

    name: VerdictName
    says: str
    since: datetime | None = None
    successor: PassportVersionId | None = None
    reason: str | None = None


NOT_ASKED: Final = StatusVerdict("not_asked", "not asked")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationReport:
    """All steps, in order. `issuer` is `pinned` only if the signature is valid under a pinned key."""

    steps: tuple[StepResult, ...]
    issuer: Issuer
    status: StatusVerdict = NOT_ASKED

    @property
    def ok(self) -> bool:
        return all(step.ok for step in self.steps)

    @property
    def failed_steps(self) -> tuple[str, ...]:
        """The names of the steps that failed or could not run."""
        return tuple(step.name for step in self.steps if not step.ok)

    @property
    def cause(self) -> StepResult | None:
        """The first step that found something wrong, or else the first that could not run; None if all passed."""
        failures = [step for step in self.steps if not step.ok]
        return next((step for step in failures if not step.skipped), failures[0] if failures else None)


def run_step(name: str, check: Callable[[], str]) -> StepResult:
    """Run the step `name`."""
    try:
        return StepResult(name, ok=True, detail=check())
    except NotChecked as reason:
        return skip_step(name, str(reason))
    except Refusal as refusal:
        return StepResult(
            name, ok=False, detail=refusal.says if refusal.fix is None else f"{refusal.says}; {refusal.fix}"
        )


def format_count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def skip_step(name: str, reason: str) -> StepResult:
    return StepResult(name, ok=False, detail=f"not checked: {reason}", skipped=True)
