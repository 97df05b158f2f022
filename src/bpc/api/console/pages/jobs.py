"""/console/jobs: what runs in the background, and one job: its attempts, its error, and where the time went."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.responses import Response

from bpc.api.console.page_routes import PageFamily
from bpc.api.console.translations import N_
from bpc.api.console.visit import Visit
from bpc.core.catalogue.number_format import format_number
from bpc.core.formats.timestamps import parse_time
from bpc.runtime import clock

pages = PageFamily(
    "jobs",
    notices={
        "retried": N_("The job runs again."),
        "cancelled": N_("The job is cancelled. If it runs, it is told to stop."),
    },
)
# How a status reads, and its tone.
STATUSES: Final = {
    "QUEUED": (N_("waits"), "plain"),
    "RUNNING": (N_("runs"), "info"),
    "SUCCEEDED": (N_("done"), "good"),
    "FAILED": (N_("failed"), "bad"),
    "DEAD_LETTER": (N_("tried too often"), "bad"),
    "CANCELLED": (N_("cancelled"), "warn"),
}
RETRIABLE: Final = ("FAILED", "DEAD_LETTER", "CANCELLED")
OPEN: Final = ("QUEUED", "RUNNING")
FILTERS: Final = ("status", "type", "sku", "q", "subject_kind", "subject_id")
MOST_PROPOSED: Final = 100
BAR_WIDTH: Final = 600  # in the units of the drawing
SMALLEST_PART: Final = 3  # of them, so that a part that was short is still seen


@pages.show("/console/jobs", title=N_("Jobs"), permission="jobs:read", command="bpc jobs list")
async def show_jobs(visit: Visit) -> Response:
    """The jobs of the tenant, newest first."""
    filters = {name: visit.query.get(name) for name in FILTERS}
    answer = await visit.api.get("/v1/jobs", **filters, cursor=visit.query.get("cursor"))
    types = await visit.api.get("/v1/job-types")
    return visit.render(
        "jobs/list.html.jinja",
        command=_write_list_command(visit, filters),
        jobs=answer["items"],
        next_cursor=answer["next_cursor"],
        types=sorted(each["type"] for each in types["items"]),
        statuses=STATUSES,
        skus=await _list_skus(visit),
        is_filtered=any(filters.values()),
    )


async def _list_skus(visit: Visit) -> list[str]:
    """Products to complete the filter with, for those who may see them."""
    if not visit.may("passport:read"):
        return []
    return [each["sku"] for each in (await visit.api.get("/v1/battery-products", limit=MOST_PROPOSED))["items"]]


def _write_list_command(visit: Visit, filters: Mapping[str, str | None]) -> str:
    # Only what has a fixed form: a text of a reader would have to be quoted for a shell.
    status = filters["status"]
    return f"bpc jobs list --tenant {visit.caller.tenant_slug}" + (f" --status {status}" if status in STATUSES else "")


@pages.show("/console/jobs/{job_id}", title=N_("Job"), permission="jobs:read", command="bpc jobs show JOB")
async def show_job(visit: Visit) -> Response:
    """One job, and who retried or cancelled it, for those who may read events."""
    job = await visit.api.get(f"/v1/jobs/{visit.path['job_id']}")
    description = await _find_description(visit, job["type"])
    dependencies = await visit.api.get(f"/v1/jobs/{visit.path['job_id']}/dependencies")
    decisions: Sequence[Mapping[str, Any]] = ()
    if visit.may("audit:read"):
        chain = {"aggregate_type": "Job", "aggregate_id": job["job_id"]}
        decisions = (await visit.api.get("/v1/audit/events", **chain))["items"]
    return visit.render(
        "jobs/job.html.jinja",
        command=f"bpc jobs show {job['job_id']} --tenant {visit.caller.tenant_slug}",
        description=description,
        decisions=decisions,
        dependencies=dependencies,
        can_retry=job["status"] in RETRIABLE and visit.may("jobs:admin"),
        can_cancel=job["status"] in OPEN and not job["cancel_requested"] and visit.may("jobs:admin"),
        **_describe_state(visit, job),
    )


@pages.show("/console/jobs/{job_id}/state", title=N_("Job"), permission="jobs:read")
async def show_job_state(visit: Visit) -> Response:
    """The part of the page of a job that changes while it runs."""
    job = await visit.api.get(f"/v1/jobs/{visit.path['job_id']}")
    return visit.render("jobs/state.html.jinja", **_describe_state(visit, job))


@pages.submit("/console/jobs/{job_id}/retry", permission="jobs:admin")
async def retry_job(visit: Visit) -> Response:
    job = visit.path["job_id"]
    await visit.submit("POST", f"/v1/jobs/{job}:retry")
    return visit.go_to(f"/console/jobs/{job}", done="retried")


@pages.submit("/console/jobs/{job_id}/cancel", permission="jobs:admin")
async def cancel_job(visit: Visit) -> Response:
    job = visit.path["job_id"]
    await visit.submit("POST", f"/v1/jobs/{job}:cancel", {"reason": visit.form.get("reason")})
    return visit.go_to(f"/console/jobs/{job}", done="cancelled")


async def _find_description(visit: Visit, job_type: str) -> str | None:
    types = (await visit.api.get("/v1/job-types"))["items"]
    return next((each["description"] for each in types if each["type"] == job_type), None)


def _describe_state(visit: Visit, job: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "job": job,
        "statuses": STATUSES,
        "is_open": job["status"] in OPEN,
        "parts": _measure_parts(visit, job),
        "bar_width": BAR_WIDTH,
    }


def _measure_parts(visit: Visit, job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Where the time went: before the last attempt began, and in it. A job that has not begun has only waited."""
    created_at, started_at, finished_at = (
        None if job[name] is None else parse_time(job[name]) for name in ("created_at", "started_at", "finished_at")
    )
    if created_at is None:
        return []
    end = finished_at or clock.now()
    waited_until = end if started_at is None else max(created_at, started_at)
    before = N_("earlier attempts and pauses") if job["attempts"] > 1 else N_("waited")
    parts = [(before, "wait", (waited_until - created_at).total_seconds())]
    if started_at is not None:
        parts.append((N_("last attempt"), "run", (end - waited_until).total_seconds()))
    total = sum(max(0.0, seconds) for _, _, seconds in parts) or 1.0
    space, begin, bars = BAR_WIDTH - SMALLEST_PART * len(parts), 0, []
    for label, kind, seconds in parts:
        width = SMALLEST_PART + round(space * max(0.0, seconds) / total)
        text = _write_duration(visit, max(0.0, seconds))
        bars.append({"label": label, "kind": kind, "begin": begin, "width": width, "duration": text})
        begin += width
    return bars


def _write_duration(visit: Visit, seconds: float) -> str:
    """A duration as a person says it, in the largest unit that leaves a figure of at least 1."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        if seconds >= length:
            return f"{format_number(visit.language, f'{seconds / length:.1f}')} {unit}"
    return f"{round(seconds * 1000)} ms"
