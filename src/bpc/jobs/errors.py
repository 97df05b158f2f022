"""Refusals of the job engine, and the error a job ends with.

Each refusal has a stable code, a plain sentence and a next step, as attributes of the same names as everywhere in
the product; nothing is imported for it, so the engine stays a library of its own.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol, runtime_checkable
from uuid import UUID

import orjson

LONGEST_MESSAGE: Final = 4_000
NUL: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")  # the escape, not a backslash before `u0000`


class JobsRefusal(Exception):
    """We understood and will not do it."""

    code: ClassVar[str] = "INTERNAL_ERROR"
    retryable: ClassVar[bool] = False

    def __init__(self, says: str, *, fix: str | None = None, details: Mapping[str, object] | None = None) -> None:
        super().__init__(says)
        self.says = says
        self.fix = fix
        self.details: Mapping[str, object] = details or {}

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle: subclasses take other arguments, so they are put together from what they are made of."""
        return _put_together, (type(self), self.args, self.__dict__ | {"details": dict(self.details)})


def _put_together(kind: type[JobsRefusal], args: tuple[Any, ...], state: dict[str, Any]) -> JobsRefusal:
    refusal = kind.__new__(kind, *args)
    refusal.__dict__.update(state)
    return refusal


class InvalidInput(JobsRefusal):
    """What was submitted is not what the handler takes."""

    code = "VALIDATION_ERROR"


class HandlerNotFound(JobsRefusal):
    """Nobody here knows this type of job."""

    code = "HANDLER_NOT_FOUND"

    def __init__(self, job_type: str) -> None:
        super().__init__(
            f"no handler is registered for jobs of type `{job_type}`",
            fix="register one, or check the spelling",
            details={"type": job_type},
        )


class JobNotFound(JobsRefusal):
    """There is no such job, as far as this tenant can see."""

    code = "NOT_FOUND"

    def __init__(self, job_id: UUID) -> None:
        super().__init__(
            f"there is no job `{job_id}`",
            fix="finished jobs are removed when their time is over; `bpc jobs list` shows those there are",
            details={"job_id": str(job_id)},
        )


class JobConflict(JobsRefusal):
    """It cannot be done in the state the job is in."""

    code = "CONFLICT"


class NoProcesses(JobsRefusal):
    """A job asked for a child process where there are none."""

    def __init__(self) -> None:
        super().__init__("there are no child processes here", fix="give some: Jobs(…, processes=Processes())")


class QueueFull(JobsRefusal):
    """More in-memory jobs wait than the channel holds."""

    code = "QUEUE_FULL"
    retryable = True

    def __init__(self, capacity: int) -> None:
        super().__init__(
            f"{capacity} in-memory jobs are waiting, which is all there is room for",
            fix="try again later, or make the channel larger",
            details={"capacity": capacity},
        )


class JobCancelled(JobsRefusal):
    """The job was asked to stop, and did."""

    code = "JOB_CANCELLED"


class JobTimedOut(JobsRefusal):
    """The job took longer than its handler allows."""

    code = "JOB_TIMEOUT"
    retryable = True


class LeaseLost(JobsRefusal):
    """Somebody else runs this job now; whatever this execution would write is refused."""

    code = "JOB_LEASE_LOST"
    retryable = True

    def __init__(self) -> None:
        super().__init__(
            "this execution lost its lease: another worker runs the job now",
            fix="nothing to do; if it happens often, the lease is too short for what the handlers do",
        )


@runtime_checkable
class Coded(Protocol):
    """An exception that knows its code and whether trying again helps, whoever made it."""

    code: str
    says: str
    retryable: bool
    details: Mapping[str, object]


def rest_asked_by(error: BaseException) -> float:
    """The seconds that an error wants its job to rest before the next attempt: its `retry_after`, if it has one."""
    match getattr(error, "retry_after", None):
        case int() | float() as seconds if seconds > 0:
            return float(seconds)
    return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """What a job ended with, or failed with before its next attempt. JSON by construction."""

    code: str
    message: str
    retryable: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """As it is stored."""
        value: dict[str, Any] = {"code": self.code, "message": self.message, "retryable": self.retryable}
        if self.details:
            value["details"] = self.details
        try:
            text = orjson.dumps(value).decode()
            # PostgreSQL stores a NUL in JSON but refuses to look into such a document ever after.
            return NUL.sub(r"\1\\\\0", text) if "\\u0000" in text else text
        except TypeError:  # details that are not JSON, or a text that is not Unicode
            plain = repr(self.message)[1:-1] if not self.message.isprintable() else self.message
            safe = plain.encode("utf-8", "backslashreplace").decode()
            return orjson.dumps(value | {"message": safe, "details": {"unprintable": True}}).decode()

    @classmethod
    def of(cls, error: BaseException) -> "JobError":
        """What is not somebody's refusal is a bug or the world's fault: INTERNAL_ERROR, and worth another try."""
        if isinstance(error, Coded):
            return cls(
                code=error.code,
                message=error.says[:LONGEST_MESSAGE],
                retryable=error.retryable,
                details=dict(error.details),
            )
        message = f"{type(error).__name__}: {error}"[:LONGEST_MESSAGE]
        return cls(code="INTERNAL_ERROR", message=message, retryable=True)

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> "JobError":
        """From what `text` wrote, or what the database's own functions write."""
        details = dict(value.get("details") or {})
        if "because_of" in value:
            details["because_of"] = value["because_of"]
        return cls(
            code=value["code"], message=value["message"], retryable=value.get("retryable", False), details=details
        )
