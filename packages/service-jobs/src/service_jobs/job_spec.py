"""Job specifications: what a caller passes to `submit`, validated and completed with defaults. Nothing is sent here.

handler, value, options ─► JobSpecBuilder ─► JobSpec        one job
                                          ─► SubmitOptions  what the jobs of one submission have in common
                                          ─► BatchFollowUp  the job that follows a batch
                                          └► InvalidInput, HandlerNotFound
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any, Final, TypedDict, TypeVar
from uuid import UUID

import orjson

from service_jobs.handler import Handler, Handlers, JobTypeSpec
from service_jobs.job import HandlerNotFound, InvalidInput, JobConflict, Subject, is_storable_text, new_id, new_ids
from service_jobs.telemetry import get_traceparent

T = TypeVar("T")

CRITICAL: Final = 0
HIGH: Final = 1
NORMAL: Final = 2
LOW: Final = 3

MAX_ATTEMPTS: Final = 1_000
MAX_KEY_LENGTH: Final = 500
MAX_DELAY_SECONDS: Final = 10 * 366 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """At most `at_most` jobs of this tenant with this `key` run at the same time, whatever their type."""

    key: str
    at_most: int

    def __post_init__(self) -> None:
        if not 1 <= len(self.key) <= 200 or not 1 <= self.at_most <= 10_000:
            raise InvalidInput("limit.key must have 1 to 200 characters and limit.at_most must be 1 to 10,000")
        if not is_storable_text(self.key):
            raise InvalidInput("the limit's key cannot be stored", fix="use UTF-8 text without NUL")


class SubmitArguments(TypedDict, total=False):
    """The options that every way of submitting a job has."""

    key: str | None
    priority: int
    delay: float
    limit: Limit | None
    subject: Subject | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One job to submit. `payload` is the JSON text of a validated input.

    A job in memory has the payload `null`; its handler gets `value` itself.
    """

    handler: Handler[Any, Any]
    job_id: UUID
    payload: str
    value: Any = None
    key: str | None = None
    priority: int = 2
    delay: float = 0.0
    limit: Limit | None = None
    depends_on: Sequence[UUID] = ()
    traceparent: str | None = None
    subject: Subject | None = None

    @classmethod
    def from_input(
        cls,
        handler: Handler[Any, Any],
        value: Any,
        *,
        subject: Subject | None = None,
        group: str | None = None,
        **options: Any,
    ) -> "JobSpec":
        """A job of `handler` with a new id. Raises `InvalidInput` unless the handler accepts `value`.

        Without a `subject`, it is the one that the handler finds in `value`; `group` is for a subject without one.
        """
        if handler.restartable:
            payload, kept_value = handler.encode_input(value), None
        else:
            payload, kept_value = "null", handler.validate_input(value)
        return cls(
            handler=handler,
            job_id=new_id(),
            payload=payload,
            value=kept_value,
            subject=_add_group(subject or handler.find_subject(value), group),
            **options,
        )

    def require_memory_only(self) -> None:
        """Raise unless the in-memory engine can run this job."""
        if self.handler.restartable:
            raise JobConflict(
                f"jobs of type `{self.handler.type}` are restartable: they belong in the database, not in memory"
            )
        if self.depends_on:
            raise InvalidInput(
                "an in-memory job cannot depend on other jobs",
                fix="make its handler restartable, or submit it from the job",
            )
        if self.limit is not None:
            raise InvalidInput("an in-memory job cannot have a limit of its own", fix="make its handler restartable")


def _add_group(subject: Subject | None, group: str | None) -> Subject | None:
    return subject if subject is None or subject.group is not None or group is None else replace(subject, group=group)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOptions:
    """What the jobs of one submission have in common. Submissions with equal options can share a statement."""

    tenant: UUID
    type: str
    priority: int
    max_attempts: int
    keep_seconds: int
    limit: int | None = None
    batch: UUID | None = None
    depends_on: tuple[UUID, ...] = ()
    correlation_id: str | None = None
    actor: str | None = None
    traceparent: str | None = None
    service_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobColumns:
    """The jobs of one submission, column by column; a column that no job uses is None."""

    ids: list[UUID]
    payloads: list[str]
    keys: Sequence[str | None] | None = None
    delays: Sequence[float] | None = None
    limit_keys: Sequence[str | None] | None = None
    subjects: Sequence[Subject | None] | None = None

    @classmethod
    def from_specs(cls, specs: Sequence[JobSpec]) -> "JobColumns":
        return cls(
            ids=[spec.job_id for spec in specs],
            payloads=[spec.payload for spec in specs],
            keys=_drop_unused_column([spec.key for spec in specs]),
            delays=_drop_unused_column([spec.delay for spec in specs]),
            limit_keys=_drop_unused_column([None if spec.limit is None else spec.limit.key for spec in specs]),
            subjects=_drop_unused_column([spec.subject for spec in specs]),
        )

    def split_subjects(self) -> tuple[Sequence[str | None] | None, ...]:
        """The columns `subject_kind`, `subject_id` and `subject_group`."""
        if self.subjects is None:
            return None, None, None
        return (
            [None if subject is None else subject.kind for subject in self.subjects],
            [None if subject is None else subject.id for subject in self.subjects],
            _drop_unused_column([None if subject is None else subject.group for subject in self.subjects]),
        )

    @property
    def is_single_ready_job(self) -> bool:
        return len(self.ids) == 1 and self.delays is None and self.limit_keys is None


def _drop_unused_column(column: list[T]) -> list[T] | None:
    return column if any(column) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFollowUp:
    """The job that is submitted when a batch is finished. `payload` is the JSON text of a validated input."""

    type: str
    payload: str
    priority: int = 2
    max_attempts: int = 5
    keep_seconds: int = 14 * 86_400
    subject: Subject | None = None

    def to_json(self, options: SubmitOptions) -> str:
        """The text that is stored with the batch, including who submitted it."""
        origin = {
            "correlation_id": options.correlation_id,
            "actor": options.actor,
            "traceparent": options.traceparent,
            "service_id": options.service_id,
        }
        return orjson.dumps(asdict(self) | origin).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """Values for what handlers do not specify, and how much this process runs in memory."""

    attempts: int = 5
    ttl: timedelta = timedelta(days=14)
    dead_letter_ttl: timedelta | None = None  # how long dead letters are kept; None: as long as other jobs
    memory_capacity: int = 256  # in-memory jobs that may wait
    memory_concurrency: int = 4  # in-memory jobs that run at the same time
    cancel_grace: float = 10.0  # seconds that an in-memory job has to stop before it is interrupted


class JobSpecBuilder:
    """Builds specifications for registered handlers."""

    def __init__(self, handlers: Handlers, defaults: Defaults, service_id: str | None = None) -> None:
        self._handlers = handlers
        self._defaults = defaults
        self._service_id = service_id

    def build_spec(self, handler: Handler[Any, Any], value: Any, **options: Any) -> JobSpec:
        """One job. Raises `InvalidInput` or `HandlerNotFound`."""
        self.require_registered(handler)
        return require_storable(JobSpec.from_input(handler, value, **options))

    def build_specs(
        self,
        handler: Handler[Any, Any],
        values: Sequence[Any],
        keys: Sequence[str | None] | None,
        limits: Sequence[Limit | None] | None,
        priority: int,
        subjects: Sequence[Subject | None] | None,
    ) -> list[JobSpec]:
        """One job per value. Raises as `require_submittable` does."""
        self.require_submittable(handler, len(values), keys, limits, subjects)
        return [
            require_storable(
                JobSpec(
                    handler=handler,
                    job_id=job_id,
                    payload=handler.encode_input(value),
                    key=None if keys is None else keys[index],
                    priority=priority,
                    limit=None if limits is None else limits[index],
                    subject=handler.find_subject(value) if subjects is None else subjects[index],
                )
            )
            for index, (value, job_id) in enumerate(zip(values, new_ids(len(values)), strict=True))
        ]

    def require_submittable(
        self,
        handler: Handler[Any, Any],
        count: int,
        keys: Sequence[str | None] | None,
        limits: Sequence[Limit | None] | None,
        subjects: Sequence[Subject | None] | None,
    ) -> None:
        """Raise unless `count` jobs can be submitted together."""
        self.require_registered(handler)
        require_restartable(handler, "be submitted together", instead="submit them one by one")
        for name, column in (("key", keys), ("limit", limits), ("subject", subjects)):
            if column is not None and len(column) != count:
                raise InvalidInput(f"{count} jobs but {len(column)} {name}s", fix=f"give one {name} per job")

    def build_options_for(self, spec: JobSpec, tenant: UUID, **options: Any) -> SubmitOptions:
        """The options for submitting `spec` alone; `options` are further ones of `build_options`."""
        return self.build_options(
            spec.handler,
            tenant,
            priority=spec.priority,
            limits=[spec.limit],
            depends_on=spec.depends_on,
            traceparent=spec.traceparent,
            **options,
        )

    def build_options(
        self,
        handler: Handler[Any, Any],
        tenant: UUID,
        *,
        priority: int,
        limits: Sequence[Limit | None] = (),
        depends_on: Sequence[UUID] = (),
        correlation_id: str | None = None,
        actor: str | None = None,
        attempts: int | None = None,
        traceparent: str | None = None,
        service_id: str | None = None,
    ) -> SubmitOptions:
        """The options for jobs of `handler`; `attempts` takes precedence over the handler's own."""
        return SubmitOptions(
            tenant=tenant,
            type=handler.type,
            priority=priority,
            max_attempts=_require_valid_attempts(attempts) or handler.retry.attempts or self._defaults.attempts,
            keep_seconds=self._get_keep_seconds(handler),
            limit=get_common_limit(limits),
            depends_on=tuple(depends_on),
            correlation_id=correlation_id,
            actor=actor,
            traceparent=traceparent or get_traceparent(),
            service_id=service_id or self._service_id,
        )

    def build_follow_up(self, handler: Handler[Any, Any], value: Any) -> BatchFollowUp:
        """The job that is submitted when a batch is finished."""
        self.require_registered(handler)
        require_restartable(handler, "follow a batch")
        return BatchFollowUp(
            type=handler.type,
            payload=handler.encode_input(value),
            max_attempts=handler.retry.attempts or self._defaults.attempts,
            keep_seconds=self._get_keep_seconds(handler),
            subject=handler.find_subject(value),
        )

    def describe_types(self) -> list[JobTypeSpec]:
        """All types, by name."""
        return [
            JobTypeSpec(
                type=handler.type,
                description=handler.description,
                restartable=handler.restartable,
                timeout=handler.timeout,
                max_attempts=handler.retry.attempts or self._defaults.attempts,
                first_delay=handler.retry.first_delay,
                longest_delay=handler.retry.longest_delay,
                keep_seconds=self._get_keep_seconds(handler),
            )
            for handler in sorted(self._handlers, key=lambda handler: handler.type)
        ]

    def require_registered(self, handler: Handler[Any, Any]) -> None:
        if handler.type not in self._handlers:
            raise HandlerNotFound(handler.type)

    def _get_keep_seconds(self, handler: Handler[Any, Any]) -> int:
        ttl = handler.ttl if handler.ttl is not None else self._defaults.ttl
        return int(ttl.total_seconds())


# Checks -------------------------------------------------------------------------------------------------------------


def require_restartable(handler: Handler[Any, Any], action: str, *, instead: str | None = None) -> None:
    """Raise unless the database keeps jobs of `handler`, which `action` needs."""
    if not handler.restartable:
        raise InvalidInput(
            f"jobs of type `{handler.type}` live in memory and cannot {action}",
            fix="register the handler with `restartable=True`" + (f", or {instead}" if instead else ""),
        )


def require_storable(spec: JobSpec) -> JobSpec:
    """Return `spec`. Raises `InvalidInput` if the database cannot store it."""
    if spec.key is not None:
        require_valid_keys((spec.key,))
    require_valid_timing(spec.priority, spec.delay)
    return spec


def require_valid_keys(keys: Sequence[str | None]) -> None:
    """Raise `InvalidInput` unless each of `keys` is None or can be an idempotency key."""
    present_keys = [key for key in keys if key is not None]
    if not present_keys:
        return
    lengths = set(map(len, present_keys))
    for length in (min(lengths), max(lengths)):
        if not 1 <= length <= MAX_KEY_LENGTH:
            raise InvalidInput(f"an idempotency key must have 1 to {MAX_KEY_LENGTH} characters, not {length}")
    if not is_storable_text("".join(present_keys)):
        raise InvalidInput("the idempotency key cannot be stored", fix="use UTF-8 text without NUL")


def require_valid_timing(priority: int, delay: float) -> None:
    """Raise `InvalidInput` unless a job can have this priority and delay."""
    if priority not in {CRITICAL, HIGH, NORMAL, LOW}:
        raise InvalidInput(f"priority is 0 (critical), 1 (high), 2 (normal) or 3 (low), not {priority}")
    if not 0 <= delay <= MAX_DELAY_SECONDS:
        raise InvalidInput(f"delay must be between 0 seconds and ten years, not {delay:g}")


def _require_valid_attempts(attempts: int | None) -> int | None:
    if attempts is not None and not 1 <= attempts <= MAX_ATTEMPTS:
        raise InvalidInput(f"attempts must be between 1 and {MAX_ATTEMPTS:,}, not {attempts}")
    return attempts


def get_common_limit(limits: Iterable[Limit | None]) -> int | None:
    """The limit of jobs that are submitted together; their keys may differ, their `at_most` may not."""
    numbers = {limit.at_most for limit in limits if limit is not None}
    if len(numbers) > 1:
        raise InvalidInput("jobs of one submission must have the same limit", fix="submit them separately")
    return next(iter(numbers), None)
