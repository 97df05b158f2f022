"""Making: from what a caller asks for to what is submitted, checked and with everything filled in.

    handler, value, how ─► Maker ─► Wish (one job), Manner (what jobs have in common), FollowUp, Schedule
                                └─► InvalidInput, HandlerNotFound

Nothing is sent from here. What a handler leaves open is taken from `Defaults`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from bpc.jobs.batches import FollowUp
from bpc.jobs.context import Limit, Wish
from bpc.jobs.errors import HandlerNotFound, InvalidInput
from bpc.jobs.handler import Handler, Handlers
from bpc.jobs.ids import new_ids
from bpc.jobs.schedules import Schedule
from bpc.jobs.submitting import Manner, checked, limit_of
from bpc.jobs.tracing import traceparent_now

MOST_ATTEMPTS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What handlers leave open, and how much this process does in memory."""

    attempts: int = 5
    ttl: timedelta = timedelta(days=14)
    memory_capacity: int = 256  # in-memory jobs that may wait
    memory_concurrency: int = 4  # and that run at the same time
    cancel_grace: float = 10.0  # seconds that an in-memory job has to stop before it is interrupted


class Maker:
    """Makes what is submitted, of handlers that are known here."""

    def __init__(self, handlers: Handlers, defaults: Defaults) -> None:
        self._handlers = handlers
        self._defaults = defaults

    def wish(self, handler: Handler[Any, Any], value: Any, **how: Any) -> Wish:
        self._require(handler)
        return checked(Wish.of(handler, value, **how))

    def wishes(
        self,
        handler: Handler[Any, Any],
        values: Sequence[Any],
        keys: Sequence[str | None] | None,
        limits: Sequence[Limit | None] | None,
        priority: int,
    ) -> list[Wish]:
        """One for each value. Raises as `require_many` does."""
        self.require_many(handler, len(values), keys, limits)
        return [
            checked(
                Wish(
                    handler=handler,
                    job_id=job_id,
                    payload=handler.input_text(value),
                    key=None if keys is None else keys[at],
                    priority=priority,
                    limit=None if limits is None else limits[at],
                )
            )
            for at, (value, job_id) in enumerate(zip(values, new_ids(len(values)), strict=True))
        ]

    def require_many(
        self,
        handler: Handler[Any, Any],
        count: int,
        keys: Sequence[str | None] | None,
        limits: Sequence[Limit | None] | None,
    ) -> None:
        """Raise unless so many jobs can be submitted together."""
        self._require(handler)
        if not handler.restartable:
            raise InvalidInput(f"jobs of type `{handler.type}` live in memory", fix="submit them one by one")
        for name, given in (("keys", keys), ("limits", limits)):
            if given is not None and len(given) != count:
                raise InvalidInput(f"there are {count} jobs and {len(given)} {name}", fix="give one for each")

    def manner_of(
        self,
        wish: Wish,
        tenant: UUID,
        *,
        correlation_id: str | None = None,
        actor: str | None = None,
        attempts: int | None = None,
    ) -> Manner:
        """How the job of one wish is made."""
        return self.manner(
            wish.handler,
            tenant,
            priority=wish.priority,
            limits=[wish.limit],
            depends_on=wish.depends_on,
            correlation_id=correlation_id,
            actor=actor,
            attempts=attempts,
            traceparent=wish.traceparent,
        )

    def manner(
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
    ) -> Manner:
        """How jobs of `handler` are made; `attempts` goes before what the handler says."""
        return Manner(
            tenant=tenant,
            type=handler.type,
            priority=priority,
            max_attempts=_checked(attempts) or handler.retry.attempts or self._defaults.attempts,
            keep_seconds=self._keep_seconds(handler),
            limit=limit_of(limits),
            depends_on=tuple(depends_on),
            correlation_id=correlation_id,
            actor=actor,
            traceparent=traceparent or traceparent_now(),
        )

    def follow_up(self, handler: Handler[Any, Any], value: Any) -> FollowUp:
        """What is submitted when a batch is over."""
        self._require(handler)
        require_restartable(handler, "follow a batch")
        return FollowUp(
            type=handler.type,
            payload=handler.input_text(value),
            max_attempts=handler.retry.attempts or self._defaults.attempts,
            keep_seconds=self._keep_seconds(handler),
        )

    def schedule(self, handler: Handler[Any, Any], value: Any, **how: Any) -> Schedule:
        """Jobs of `handler` by the clock."""
        self._require(handler)
        return Schedule.of(handler, value, attempts=self._defaults.attempts, ttl=self._defaults.ttl, **how)

    def _require(self, handler: Handler[Any, Any]) -> None:
        if handler.type not in self._handlers:
            raise HandlerNotFound(handler.type)

    def _keep_seconds(self, handler: Handler[Any, Any]) -> int:
        ttl = handler.ttl if handler.ttl is not None else self._defaults.ttl
        return int(ttl.total_seconds())


def require_restartable(handler: Handler[Any, Any], what: str, *, instead: str | None = None) -> None:
    """Raise unless jobs of `handler` are kept in the database, as `what` needs."""
    if not handler.restartable:
        raise InvalidInput(
            f"jobs of type `{handler.type}` live in memory and cannot {what}",
            fix="register the handler with `restartable=True`" + (f", or {instead}" if instead else ""),
        )


def _checked(attempts: int | None) -> int | None:
    if attempts is not None and not 1 <= attempts <= MOST_ATTEMPTS:
        raise InvalidInput(f"a job is started 1 to {MOST_ATTEMPTS:,} times, not {attempts}")
    return attempts
