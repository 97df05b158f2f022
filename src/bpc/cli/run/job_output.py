"""Jobs in words, in tables and as JSON. Never their payload."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from bpc.cli.output import say, visible
from bpc.cli.table import print_table
from bpc.core.timestamps import format_time
from bpc.jobs.errors import JobError
from bpc.jobs.health import Health, OfType
from bpc.jobs.job import Job
from bpc.jobs.outcome import Status
from bpc.jobs.schedules import Scheduled

COLOURS: Final = {Status.SUCCEEDED: "green", Status.FAILED: "red", Status.DEAD_LETTER: "red", Status.RUNNING: "cyan"}
LONGEST_ERROR: Final = 80


def as_json(job: Job) -> dict[str, object]:
    """All that is known of a job."""
    return {
        "job_id": str(job.job_id),
        "type": job.type,
        "status": str(job.status),
        "priority": job.priority,
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "idempotency_key": job.idempotency_key,
        "limit_key": job.limit_key,
        "batch_id": None if job.batch_id is None else str(job.batch_id),
        "progress": job.progress,
        "last_error": None if (error := _error(job)) is None else _error_as_json(error),
        "created_at": format_time(job.created_at),
        "scheduled_at": format_time(job.scheduled_at),
        "started_at": _time(job.started_at),
        "finished_at": _time(job.finished_at),
        "lease_owner": job.lease_owner,
        "lease_expires_at": _time(job.lease_expires_at),
        "cancel_requested": job.cancel_requested,
        "correlation_id": job.correlation_id,
        "actor": job.actor,
    }


def print_jobs(jobs: list[Job]) -> None:
    rows = [
        (
            job.job_id,
            job.type,
            job.status,
            f"{job.attempts}/{job.max_attempts}",
            _second(job.created_at),
            _progress(job) if not job.is_over else _in_short(_error(job)),
        )
        for job in jobs
    ]
    print_table(("ID", "TYPE", "STATUS", "ATTEMPTS", "CREATED", "NOTE"), rows)


def print_job(job: Job, result: str | None) -> None:
    """One line for each thing that is known; what is not there is left out."""
    error = _error(job)
    known: list[tuple[str, object]] = [
        ("job", job.job_id),
        ("type", job.type),
        ("status", f"{job.status}, asked to stop" if job.cancel_requested else job.status),
        ("attempts", f"{job.attempts} of {job.max_attempts}"),
        ("progress", _progress(job)),
        ("priority", job.priority),
        ("created", format_time(job.created_at)),
        ("due", format_time(job.scheduled_at)),
        ("started", _time(job.started_at)),
        ("finished", _time(job.finished_at)),
        ("worker", job.lease_owner),
        ("lease until", _time(job.lease_expires_at)),
        ("key", job.idempotency_key),
        ("limited by", job.limit_key),
        ("batch", job.batch_id),
        ("correlation", job.correlation_id),
        ("actor", job.actor),
        ("last error", None if error is None else f"{error.code}: {error.message}"),
        ("details", dict(error.details) if error is not None and error.details else None),
        ("result", None if result in {None, "null"} else result),
    ]
    for name, value in known:
        if value is not None and value != "":
            say(f"{name:<12} {visible(str(value))}", colour=COLOURS.get(job.status) if name == "status" else None)


def line(job: Job) -> str:
    """The job in one line, as it is now."""
    parts = [str(job.status)]
    if job.attempts > 1:
        parts.append(f"attempt {job.attempts} of {job.max_attempts}")
    if job.cancel_requested:
        parts.append("asked to stop")
    if not job.is_over and _progress(job):
        parts.append(_progress(job))
    if (error := _error(job)) is not None:
        parts.append(_in_short(error))
    return visible(", ".join(parts))


def print_health(found: Health, types: Mapping[str, OfType]) -> None:
    oldest = "" if found.oldest_seconds is None else f", the oldest for {_duration(found.oldest_seconds)}"
    say(f"waiting   {found.depth:,}{'' if found.depth_is_exact else ' or more'}{oldest}")
    say(f"running   {found.active:,}" + (f", {found.stale:,} of them stale" if found.stale else ""))
    say(f"workers   {found.workers}")
    for name, count in found.unhandled.items():
        say(f"unhandled {count:,} of type {visible(name)}: no worker that is there knows it", colour="yellow")
    if types:
        say("")
        rows = [(name, of.queued, of.later, of.running, of.failed, of.dead_letter) for name, of in types.items()]
        print_table(("TYPE", "QUEUED", "LATER", "RUNNING", "FAILED", "DEAD LETTER"), rows)


def health_as_json(found: Health, types: Mapping[str, OfType]) -> dict[str, object]:
    return {
        "depth": found.depth,
        "depth_is_exact": found.depth_is_exact,
        "active": found.active,
        "stale": found.stale,
        "oldest_seconds": found.oldest_seconds,
        "workers": found.workers,
        "unhandled": dict(found.unhandled),
        "types": {
            name: {
                "queued": of.queued,
                "later": of.later,
                "running": of.running,
                "failed": of.failed,
                "dead_letter": of.dead_letter,
            }
            for name, of in types.items()
        },
    }


def print_schedules(found: list[Scheduled]) -> None:
    rows = [
        (
            each.schedule.name,
            each.schedule.cron,
            each.schedule.time_zone,
            each.schedule.type,
            None if each.last_at is None else _second(each.last_at),
            "paused" if each.paused else _second(each.next_at),
        )
        for each in found
    ]
    print_table(("NAME", "CRON", "TIME ZONE", "TYPE", "LAST", "NEXT"), rows)


def schedule_as_json(each: Scheduled) -> dict[str, object]:
    return {
        "name": each.schedule.name,
        "cron": each.schedule.cron,
        "time_zone": each.schedule.time_zone,
        "type": each.schedule.type,
        "catch_up": str(each.schedule.catch_up),
        "paused": each.paused,
        "last_at": _time(each.last_at),
        "next_at": None if each.paused else format_time(each.next_at),
    }


def _progress(job: Job) -> str:
    if job.progress is None:
        return ""
    percent, message = job.progress.get("percent"), job.progress.get("message")
    return " ".join(str(part) for part in (None if percent is None else f"{percent} %", message) if part)


def _error(job: Job) -> JobError | None:
    """What is wrong with it. A job that succeeded after all still knows its last error, and nobody has to."""
    return None if job.status is Status.SUCCEEDED else job.last_error


def _in_short(error: JobError | None) -> str:
    if error is None:
        return ""
    said = f"{error.code}: {error.message}"
    return said if len(said) <= LONGEST_ERROR else f"{said[: LONGEST_ERROR - 1]}…"


def _error_as_json(error: JobError) -> dict[str, object]:
    return {
        "code": error.code,
        "message": error.message,
        "retryable": error.retryable,
        "details": dict(error.details),
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)


def _second(moment: datetime) -> str:
    return format_time(moment)[:19] + "Z"


def _duration(seconds: float) -> str:
    for name, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {name}"
    return f"{seconds:.0f} s"
