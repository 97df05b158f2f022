"""/console/jobs/…: schedules, workers with what they hold, figures by the hour, and many jobs at once."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from service_jobs.job import JobsRefusal
from starlette.responses import Response

from bpc.api.console.page_routes import PageFamily
from bpc.api.console.translations import N_
from bpc.api.console.visit import Visit
from bpc.core.errors import Invalid, Refusal
from bpc.core.formats.timestamps import parse_time
from bpc.runtime import clock

pages = PageFamily(
    "job_board",
    notices={
        "paused": N_("The schedule is paused: it submits nothing until it is resumed."),
        "resumed": N_("The schedule goes on with its next moment."),
        "deleted": N_("The schedule is deleted. The jobs that it has submitted stay."),
    },
)
HOURS: Final = (24, 72, 168)
CHART_WIDTH: Final = 720
CHART_HEIGHT: Final = 120
CHOSEN: Final = re.compile(r"job\.([0-9a-f-]{36})")
MOST_AT_ONCE: Final = 100


class Bar(NamedTuple):
    """One column of a chart: how many jobs succeeded, and how many did not, drawn above them."""

    x: float
    width: float
    good_y: float
    good_height: float
    bad_y: float
    bad_height: float


@pages.show("/console/jobs/schedules", title=N_("Schedules"), permission="jobs:read", command="bpc jobs schedules")
async def show_schedules(visit: Visit) -> Response:
    """What is submitted again and again, with its next moment."""
    answer = await visit.api.get("/v1/schedules")
    return visit.render("job_board/schedules.html.jinja", schedules=answer["items"])


@pages.submit("/console/jobs/schedules/{schedule_id}/pause", permission="jobs:admin")
async def pause_schedule(visit: Visit) -> Response:
    return await _change_schedule(visit, "POST", ":pause", "paused")


@pages.submit("/console/jobs/schedules/{schedule_id}/resume", permission="jobs:admin")
async def resume_schedule(visit: Visit) -> Response:
    return await _change_schedule(visit, "POST", ":resume", "resumed")


@pages.submit("/console/jobs/schedules/{schedule_id}/delete", permission="jobs:admin")
async def delete_schedule(visit: Visit) -> Response:
    return await _change_schedule(visit, "DELETE", "", "deleted")


async def _change_schedule(visit: Visit, method: str, action: str, done: str) -> Response:
    await visit.submit(method, f"/v1/schedules/{visit.path['schedule_id']}{action}")
    return visit.go_to("/console/jobs/schedules", done=done)


@pages.show("/console/jobs/workers", title=N_("Workers"), permission="jobs:read", command="bpc jobs list")
async def show_workers(visit: Visit) -> Response:
    """Which worker runs which job of this tenant, and until when it holds it."""
    answer = await visit.api.get("/v1/jobs", status="RUNNING", limit=200)
    by_worker: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for job in answer["items"]:
        by_worker[job["lease_owner"] or ""].append(job)
    workers = sorted(by_worker.items())
    return visit.render("job_board/workers.html.jinja", command="bpc jobs list --status RUNNING", workers=workers)


@pages.show(
    "/console/jobs/statistics",
    title=N_("Figures of jobs"),
    permission="jobs:read",
    command="bpc get /v1/job-statistics",
)
async def show_statistics(visit: Visit) -> Response:
    """Throughput and latency by the hour."""
    hours = next((each for each in HOURS if visit.query.get("hours") == str(each)), HOURS[0])
    answer = await visit.api.get("/v1/job-statistics", hours=hours)
    rows = answer["hours"]
    return visit.render(
        "job_board/statistics.html.jinja",
        hours=hours,
        choices=HOURS,
        rows=rows,
        bars=_draw_bars(rows, hours),
        waits=_draw_line(rows, hours, "wait_seconds_p95"),
        runs=_draw_line(rows, hours, "run_seconds_p95"),
        most=max((row["succeeded"] + row["failed"] for row in rows), default=0),
        slowest=max((row[name] or 0 for row in rows for name in ("wait_seconds_p95", "run_seconds_p95")), default=0),
        width=CHART_WIDTH,
        height=CHART_HEIGHT,
    )


def _find_columns(rows: Sequence[Mapping[str, Any]], hours: int) -> list[int]:
    """The column of each hour: 0 is the oldest, and the last one is now."""
    first = clock.now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=hours)
    columns = []
    for row in rows:
        since = parse_time(row["since"])
        columns.append(min(hours, max(0, round((since - first).total_seconds() / 3600))))
    return columns


def _draw_bars(rows: Sequence[Mapping[str, Any]], hours: int) -> list[Bar]:
    most = max((row["succeeded"] + row["failed"] for row in rows), default=0) or 1
    width = CHART_WIDTH / (hours + 1)
    bars = []
    for column, row in zip(_find_columns(rows, hours), rows, strict=True):
        good, bad = (round(CHART_HEIGHT * row[name] / most, 1) for name in ("succeeded", "failed"))
        x = round(column * width, 1)
        bars.append(Bar(x, round(width * 0.8, 1), CHART_HEIGHT - good, good, CHART_HEIGHT - good - bad, bad))
    return bars


def _draw_line(rows: Sequence[Mapping[str, Any]], hours: int, name: str) -> str:
    """The points of a line, level within each hour; both lines have the same scale."""
    slowest = max((row[each] or 0 for row in rows for each in ("wait_seconds_p95", "run_seconds_p95")), default=0) or 1
    width = CHART_WIDTH / (hours + 1)
    points = []
    for column, row in zip(_find_columns(rows, hours), rows, strict=True):
        if row[name] is not None:
            y = CHART_HEIGHT - (CHART_HEIGHT - 4) * row[name] / slowest
            points += [f"{column * width:.1f},{y:.1f}", f"{(column + 0.8) * width:.1f},{y:.1f}"]
    return " ".join(points)


@pages.submit("/console/jobs/chosen", permission="jobs:admin")
async def decide_about_chosen(visit: Visit) -> Response:
    """Try the chosen jobs again, or cancel them; one that cannot be is named with the reason, and the others go on."""
    action = visit.form.get("action")
    if action not in ("retry", "cancel"):
        raise Invalid("the form does not say what to do", fix="choose jobs, then press a button below the list")
    job_ids = [match[1] for name in visit.form.fields if (match := CHOSEN.fullmatch(name))]
    if not job_ids:
        raise Invalid("no job was chosen", fix="mark at least one job in the list")
    outcomes = [(job, await _try_decision(visit, job, action)) for job in job_ids[:MOST_AT_ONCE]]
    return visit.render(
        "job_board/chosen.html.jinja",
        command=f"bpc jobs {action} JOB --tenant {visit.caller.tenant_slug}",
        action=action,
        outcomes=outcomes,
        done=sum(refusal is None for _, refusal in outcomes),
    )


async def _try_decision(visit: Visit, job: str, action: str) -> str | None:
    """Why it was refused; None if it was done."""
    body = {"reason": visit.form.get("reason")} if action == "cancel" else None
    try:
        await visit.submit("POST", f"/v1/jobs/{job}:{action}", body, step=f"-{job}")
    except (Refusal, JobsRefusal) as refusal:
        return refusal.says
    return None
