"""Jobs and schedules as text, tables and JSON; never with their payload."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Final

from service_jobs.handler import JobTypeSpec
from service_jobs.job import Job, JobError, Status, Subject
from service_jobs.queries import QueueHealth, TypeCounts
from service_jobs.schedules import StoredSchedule

from bpc.cli.support.output import escape_controls, format_optional_time, format_yes_no, print_line, print_table
from bpc.core.formats.timestamps import format_time
from bpc.runtime import clock

COLOURS: Final = {Status.SUCCEEDED: "green", Status.FAILED: "red", Status.DEAD_LETTER: "red", Status.RUNNING: "cyan"}
LONGEST_ERROR: Final = 120


def job_to_json(job: Job) -> dict[str, object]:
    """All that is known of a job."""
    document = asdict(replace(job, last_error=_find_error(job)))
    del document["tenant_id"]
    return document


def print_jobs(jobs: Sequence[Job]) -> None:
    now = clock.now()
    rows = [
        (
            job.job_id,
            job.type,
            format_subject(job.subject, short=True),
            job.status,
            f"{job.attempts}/{job.max_attempts}",
            _format_duration((now - job.created_at).total_seconds()),
            _format_note(job, now),
        )
        for job in jobs
    ]
    print_table(("ID", "TYPE", "ABOUT", "STATUS", "ATTEMPTS", "AGE", "NOTE"), rows)


def format_subject(subject: Subject | None, *, short: bool = False) -> str:
    """What a job is about: its kind and id, and the SKU of the product; `short` is the SKU alone if there is one."""
    if subject is None:
        return ""
    if short and subject.group is not None:
        return subject.group
    name = f"{subject.kind.replace('_', ' ')} {subject.id}"
    return name if subject.group is None else f"{name} of {subject.group}"


def _format_note(job: Job, now: datetime) -> str:
    """What somebody who looks at the queue wants to know of this job."""
    error = _find_error(job)
    if job.is_over or (error is not None and job.status is Status.QUEUED):
        waits = (job.scheduled_at - now).total_seconds()
        when = f"next attempt in {_format_duration(waits)}; " if not job.is_over and waits > 0 else ""
        return when + _shorten_error(error)
    return _format_progress(job)


def print_job(job: Job, result: str | None) -> None:
    """One line for each value; missing values are left out."""
    error, age = _find_error(job), clock.now() - job.created_at
    members: list[tuple[str, object]] = [
        ("job", job.job_id),
        ("type", job.type),
        ("about", format_subject(job.subject)),
        ("status", f"{job.status}, stop requested" if job.cancel_requested else job.status),
        ("attempts", f"{job.attempts} of {job.max_attempts}"),
        ("progress", _format_progress(job)),
        ("priority", job.priority),
        ("created", f"{format_time(job.created_at)}, {_format_duration(age.total_seconds())} ago"),
        ("due", format_time(job.scheduled_at)),
        ("started", format_optional_time(job.started_at)),
        ("finished", format_optional_time(job.finished_at)),
        ("worker", job.lease_owner),
        ("lease until", format_optional_time(job.lease_expires_at)),
        ("key", job.idempotency_key),
        ("limited by", job.limit_key),
        ("batch", job.batch_id),
        ("correlation", job.correlation_id),
        ("service", job.service_id),
        ("actor", job.actor),
        ("last error", None if error is None else f"{error.code}: {error.message}"),
        ("next step", _find_next_step(job, error)),
        ("details", dict(error.details) if error is not None and error.details else None),
        ("result", None if result in {None, "null"} else result),
    ]
    for name, value in members:
        if value is not None and value != "":
            print_line(
                f"{name:<12} {escape_controls(str(value))}",
                colour=COLOURS.get(job.status) if name == "status" else None,
            )


def format_job_line(job: Job) -> str:
    """The current state of the job in one line."""
    parts = [str(job.status)]
    if job.attempts > 1:
        parts.append(f"attempt {job.attempts} of {job.max_attempts}")
    if job.cancel_requested:
        parts.append("stop requested")
    if not job.is_over and _format_progress(job):
        parts.append(_format_progress(job))
    if (error := _find_error(job)) is not None:
        parts.append(_shorten_error(error))
    return escape_controls(", ".join(parts))


def print_health(health: QueueHealth, types: Mapping[str, TypeCounts]) -> None:
    more = "" if health.depth_is_exact else " or more"
    oldest = health.oldest_seconds
    waiting_text = "" if oldest is None else f", the oldest has waited {_format_duration(oldest)}"
    print_line(f"waiting   {health.depth:,}{more}{waiting_text}")
    print_line(f"running   {health.active:,}" + (f", {health.stale:,} of them stale" if health.stale else ""))
    print_line(f"workers   {health.workers}")
    for name, count in health.unhandled.items():
        says = f"unhandled {count:,} of type {escape_controls(name)}: no running worker supports this type"
        print_line(says, colour="yellow")
    if types:
        print_line("")
        rows = [(name, *_counts_to_json(counts).values()) for name, counts in types.items()]
        print_table(("TYPE", "QUEUED", "LATER", "RUNNING", "FAILED", "DEAD LETTER"), rows)


def health_to_json(health: QueueHealth, types: Mapping[str, TypeCounts]) -> dict[str, object]:
    return {
        "depth": health.depth,
        "depth_is_exact": health.depth_is_exact,
        **asdict(health),
        "types": {name: _counts_to_json(counts) for name, counts in types.items()},
    }


def _counts_to_json(counts: TypeCounts) -> dict[str, int]:
    return {
        "queued": counts.queued,
        "later": counts.later,
        "running": counts.running,
        "failed": counts.failed,
        "dead_letter": counts.dead_letter,
    }


def print_types(specs: list[JobTypeSpec]) -> None:
    rows = [
        (
            spec.type,
            "none" if spec.timeout is None else _format_duration(spec.timeout),
            spec.max_attempts,
            f"{_format_duration(spec.first_delay)} to {_format_duration(spec.longest_delay)}",
            _format_duration(spec.keep_seconds),
            format_yes_no(spec.restartable),
            spec.description,
        )
        for spec in specs
    ]
    print_table(("TYPE", "TIMEOUT", "ATTEMPTS", "PAUSES", "KEPT", "RESTARTABLE", "WHAT IT DOES"), rows)


def print_schedules(schedules: list[StoredSchedule]) -> None:
    rows = [
        (
            entry.schedule.name,
            entry.schedule.cron,
            entry.schedule.time_zone,
            entry.schedule.type,
            format_subject(entry.schedule.subject),
            None if entry.last_at is None else _format_second(entry.last_at),
            "paused" if entry.paused else _format_second(entry.next_at),
        )
        for entry in schedules
    ]
    print_table(("NAME", "CRON", "TIME ZONE", "TYPE", "ABOUT", "LAST", "NEXT"), rows)


def schedule_to_json(entry: StoredSchedule) -> dict[str, object]:
    return {
        "name": entry.schedule.name,
        "cron": entry.schedule.cron,
        "time_zone": entry.schedule.time_zone,
        "type": entry.schedule.type,
        "subject": None if entry.schedule.subject is None else asdict(entry.schedule.subject),
        "catch_up": entry.schedule.catch_up,
        "paused": entry.paused,
        "last_at": entry.last_at,
        "next_at": None if entry.paused else entry.next_at,
    }


def _format_progress(job: Job) -> str:
    if job.progress is None:
        return ""
    percent, message = job.progress.get("percent"), job.progress.get("message")
    return " ".join(str(part) for part in (None if percent is None else f"{percent} %", message) if part)


def _find_error(job: Job) -> JobError | None:
    """Its error. A job that succeeded after a retry still stores its last error, which is not shown."""
    return None if job.status is Status.SUCCEEDED else job.last_error


def _find_next_step(job: Job, error: JobError | None) -> str | None:
    """What to do about the last error: what it says, and how to run the job again."""
    if error is None:
        return None
    if job.status is Status.QUEUED:
        return "nothing: it is tried again by itself" if error.fix is None else error.fix
    again = f"then `bpc jobs retry {job.job_id} --tenant SLUG`"
    return f"{error.fix or 'correct the cause'}; {again}" if job.is_over else error.fix


def _shorten_error(error: JobError | None) -> str:
    if error is None:
        return ""
    text = f"{error.code}: {error.message}" + ("" if error.fix is None else f"; {error.fix}")
    return text if len(text) <= LONGEST_ERROR else f"{text[: LONGEST_ERROR - 1]}…"


def _format_second(moment: datetime) -> str:
    return format_time(moment)[:19] + "Z"


def _format_duration(seconds: float) -> str:
    for name, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {name}"
    return f"{seconds:.0f} s"
