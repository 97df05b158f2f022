"""A job: its id, its status, its errors, how one execution ends, and the job as people see it.

Every refusal has a stable `code`, a sentence (`says`) and a next step (`fix`). Nothing here knows a database.
"""

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import Enum, StrEnum
from typing import Any, ClassVar, Final, NamedTuple, NewType, Protocol, runtime_checkable
from uuid import UUID

import orjson
from asyncpg.pgproto.pgproto import UUID as DriversUUID  # noqa: N811 (a UUID like any other, made five times as fast)

from service_jobs.retry import Retry as Retry  # noqa: PLC0414 (a name of this module, too)

MAX_MESSAGE_LENGTH: Final = 4_000
MAX_SUBJECT_LENGTH: Final = 500
ESCAPED_NUL: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")  # the escape, not a backslash before `u0000`

# Refusals and errors ------------------------------------------------------------------------------------------------


class JobsRefusal(Exception):
    """The engine understood the request and refuses it."""

    code: ClassVar[str] = "INTERNAL_ERROR"
    retryable: ClassVar[bool] = False

    def __init__(self, says: str, *, fix: str | None = None, details: Mapping[str, object] | None = None) -> None:
        super().__init__(says)
        self.says = says
        self.fix = fix
        self.details: Mapping[str, object] = details or {}

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle: subclasses take other arguments, so they are rebuilt without calling `__init__`."""
        return rebuild_exception, (type(self), self.args, self.__dict__ | {"details": dict(self.details)})


def rebuild_exception(kind: type[Exception], args: tuple[Any, ...], state: dict[str, Any]) -> Exception:
    """An exception from its class, `args` and attributes, for pickle; its `__init__` is not called."""
    error: Exception = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class InvalidInput(JobsRefusal):
    """The caller passed something that is not valid."""

    code = "VALIDATION_ERROR"


class HandlerNotFound(JobsRefusal):
    """No handler is registered for this type of job."""

    code = "HANDLER_NOT_FOUND"

    def __init__(self, job_type: str) -> None:
        super().__init__(
            f"no handler is registered for jobs of type `{job_type}`",
            fix="register one, or check the spelling",
            details={"type": job_type},
        )


class JobNotFound(JobsRefusal):
    """The tenant has no such job; another tenant's job does not exist for it."""

    code = "NOT_FOUND"

    def __init__(self, job_id: UUID) -> None:
        super().__init__(
            f"there is no job `{job_id}`",
            fix="finished jobs are removed after their retention time",
            details={"job_id": str(job_id)},
        )


class JobConflict(JobsRefusal):
    """The job is in a state that does not allow this."""

    code = "CONFLICT"


class ProcessesUnavailable(JobsRefusal):
    """A job needs a child process, and none are configured."""

    def __init__(self) -> None:
        super().__init__("no child processes are configured", fix="configure some: Jobs(…, processes=ProcessPool())")


class QueueFull(JobsRefusal):
    """The in-memory queue has no room for another job."""

    code = "QUEUE_FULL"
    retryable = True

    def __init__(self, capacity: int) -> None:
        super().__init__(
            f"the in-memory queue is full ({capacity} jobs waiting)",
            fix="try again later, or raise `memory_capacity`",
            details={"capacity": capacity},
        )


class JobCancelled(JobsRefusal):
    """The job was cancelled."""

    code = "JOB_CANCELLED"


class JobTimedOut(JobsRefusal):
    """The job took longer than its handler allows."""

    code = "JOB_TIMEOUT"
    retryable = True


class LeaseLost(JobsRefusal):
    """Another worker runs this job now; every write of this execution is refused."""

    code = "JOB_LEASE_LOST"
    retryable = True

    def __init__(self) -> None:
        super().__init__(
            "this execution lost its lease: another worker runs the job now",
            fix="nothing to do; if this happens often, use a longer lease",
        )


@runtime_checkable
class CodedError(Protocol):
    """An exception with a code that says whether trying again helps; any library may define one."""

    code: str
    says: str
    retryable: bool
    details: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """The error a job ended with, or failed with before its next attempt. It is always JSON."""

    code: str
    message: str
    retryable: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)
    fix: str | None = None  # what to do about it

    def to_json(self) -> str:
        """The stored text."""
        value: dict[str, Any] = {"code": self.code, "message": self.message, "retryable": self.retryable}
        if self.details:
            value["details"] = self.details
        if self.fix:
            value["fix"] = self.fix
        try:
            text = orjson.dumps(value).decode()
            # PostgreSQL stores a NUL in JSON but then refuses to read any member of the document.
            return ESCAPED_NUL.sub(r"\1\\\\0", text) if "\\u0000" in text else text
        except TypeError:  # details that are not JSON, or a text that is not Unicode
            plain = repr(self.message)[1:-1] if not self.message.isprintable() else self.message
            safe = plain.encode("utf-8", "backslashreplace").decode()
            return orjson.dumps(value | {"message": safe, "details": {"unprintable": True}}).decode()

    @classmethod
    def from_exception(cls, error: BaseException) -> "JobError":
        """An exception without a code is a bug or an outage: INTERNAL_ERROR, and worth another try."""
        if isinstance(error, CodedError):
            return cls(
                code=error.code,
                message=error.says[:MAX_MESSAGE_LENGTH],
                retryable=error.retryable,
                details=dict(error.details),
                fix=getattr(error, "fix", None),
            )
        message = f"{type(error).__name__}: {error}"[:MAX_MESSAGE_LENGTH]
        return cls(code="INTERNAL_ERROR", message=message, retryable=True)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "JobError":
        """From what `to_json` or a function of the database wrote."""
        details = dict(value.get("details") or {})
        if "because_of" in value:
            details["because_of"] = value["because_of"]
        return cls(
            code=value["code"],
            message=value["message"],
            retryable=value.get("retryable", False),
            details=details,
            fix=value.get("fix"),
        )

    @classmethod
    def from_json_text(cls, text: str | None) -> "JobError | None":
        """From the text of a column; None if it is null."""
        return None if text is None else cls.from_json(orjson.loads(text))


# Statuses and outcomes ----------------------------------------------------------------------------------------------


class Status(StrEnum):
    """The status of a job as people see it."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    DEAD_LETTER = "DEAD_LETTER"

    @property
    def is_over(self) -> bool:
        return self not in {Status.QUEUED, Status.RUNNING}


class Ending(StrEnum):
    """How one execution ended: in the first four cases the job is over, in the last two it runs again."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    DEAD_LETTER = "DEAD_LETTER"
    CANCELLED = "CANCELLED"
    RETRY = "RETRY"
    RELEASE = "RELEASE"  # the worker stopped, so this execution does not count as an attempt


class InterruptReason(Enum):
    """Why an execution is being interrupted."""

    TIMEOUT = "timeout"
    CANCEL = "cancel"
    LOST = "lost"
    STOP = "stop"


class Outcome(NamedTuple):  # a tuple, because every execution creates one
    """The end of one execution. `result` is JSON text, as it is stored."""

    ending: Ending
    result: str | None = None
    error: JobError | None = None
    delay: float = 0.0
    keeps_effects: bool = False  # the job's transaction is committed with this outcome


# Ids: UUIDs of version 7, so that "newest first" is an order of the primary key ------------------------------------

BatchId = NewType("BatchId", UUID)

_VERSION_7: Final = 7 << 76
_RFC_VARIANT: Final = 0b10 << 62
_ALL_BITS: Final = (1 << 128) - 1
_RANDOM_A: Final = (1 << 12) - 1
_RANDOM_B: Final = (1 << 62) - 1


def new_ids(count: int) -> list[UUID]:
    """`count` new ids, in ascending order."""
    moment = (time.time_ns() // 1_000_000) << 80
    seed = int.from_bytes(os.urandom(9), "big")  # noqa: TID251 (a library of its own: nobody hands it randomness)
    # RFC 9562 section 6.2, method 2: 74 random bits for the first, one more for each that follows.
    low = min(seed & _RANDOM_B, _RANDOM_B - count)
    first = moment | _VERSION_7 | ((seed >> 62) & _RANDOM_A) << 64 | _RFC_VARIANT | low
    return [DriversUUID(number.to_bytes(16, "big")) for number in range(first, first + count)]


def new_id() -> UUID:
    return new_ids(1)[0]


def lowest_id_at(moment: datetime) -> UUID:
    """The smallest id that can have been created at `moment`: it turns a bound in time into a bound of the key."""
    return UUID(int=(int(moment.timestamp() * 1000) << 80) & _ALL_BITS)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a job is about, such as Subject("invoice", "4711"). Jobs can be listed by it.

    The `group` is a wider name that several subjects share, such as a customer; follow-up jobs inherit it.
    """

    kind: str
    id: str
    group: str | None = None

    def __post_init__(self) -> None:
        for text in (self.kind, self.id, "-" if self.group is None else self.group):
            if not 1 <= len(text) <= MAX_SUBJECT_LENGTH or not is_storable_text(text):
                raise InvalidInput(
                    f"kind, id and group of a subject have 1 to {MAX_SUBJECT_LENGTH} characters of UTF-8 without NUL"
                )

    @classmethod
    def from_row(cls, row: Any) -> "Subject | None":
        """From the columns `subject_kind`, `subject_id` and `subject_group`."""
        kind = row["subject_kind"]
        return None if kind is None else cls(kind, row["subject_id"], row["subject_group"])


def is_storable_text(text: str) -> bool:
    """Whether PostgreSQL accepts it as text: valid Unicode without NUL."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


# The job ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job at one moment, without its payload, which may be large or private.

    All times are UTC. `attempts` counts the executions that were started. A job has a `lease_owner` exactly while it
    runs, and a `finished_at` exactly when it is over.
    """

    tenant_id: UUID
    job_id: UUID
    type: str
    status: Status
    priority: int
    attempts: int
    max_attempts: int
    idempotency_key: str | None
    limit_key: str | None
    batch_id: UUID | None
    progress: dict[str, Any] | None
    last_error: JobError | None
    created_at: datetime
    scheduled_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lease_owner: str | None
    lease_expires_at: datetime | None
    cancel_requested: bool
    correlation_id: str | None
    actor: str | None
    service_id: str | None = None
    subject: Subject | None = None

    @property
    def is_over(self) -> bool:
        return self.status.is_over

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "Job":
        """From a row of the view `jobs.job_status`; JSON columns may be text or parsed."""
        values = {name: row[name] for name in JOB_FIELDS if name != "subject"}
        error = _load_json(values["last_error"])
        return cls(
            **values
            | {
                "status": Status(values["status"]),
                "limit_key": values["limit_key"] or None,  # stored as '' so that it can be part of a key
                "progress": _load_json(values["progress"]),
                "last_error": None if error is None else JobError.from_json(error),
                "subject": Subject.from_row(row),
            }
        )


JOB_FIELDS = tuple(field.name for field in fields(Job))


def _load_json(value: Any) -> Any:
    return orjson.loads(value) if isinstance(value, str | bytes) else value
