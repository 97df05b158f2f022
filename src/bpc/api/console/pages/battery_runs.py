"""/console/runs: runs that issue passports of batteries from a file, with rows that move while they run."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from bpc.api.console.page_routes import PageFamily
from bpc.api.console.pages.batteries import send_row_file
from bpc.api.console.translations import N_
from bpc.api.console.visit import Visit
from bpc.core.errors import Invalid

pages = PageFamily(
    "battery_runs",
    notices={
        "started": N_("The passports are being issued."),
        "unchanged": N_("Each battery of the file has this passport already."),
        "stopped": N_("The run is stopped. What waits stays as it is."),
        "resumed": N_("The run goes on."),
    },
)
STATUSES: Final = {
    "RUNNING": (N_("runs"), "info"),
    "STOPPED": (N_("stopped"), "warn"),
    "FINISHED": (N_("finished"), "good"),
}


@pages.show("/console/runs", title=N_("Runs"), permission="passport:read", command="bpc batteries runs")
async def show_runs(visit: Visit) -> Response:
    """The runs of the tenant, newest first."""
    answer = await visit.api.get("/v1/item-runs", cursor=visit.query.get("cursor"))
    return visit.render(
        "battery_runs/list.html.jinja", runs=answer["items"], next_cursor=answer["next_cursor"], statuses=STATUSES
    )


@pages.submit("/console/runs", permission="passport:compile")
async def start_run(visit: Visit) -> Response:
    """Issue passports of the batteries of a file; with a fault in one row, none, and the page names the rows."""
    file, sku = visit.form.file, visit.form.get("sku")
    if file is None or not file.content or sku is None:
        raise Invalid("the SKU or the file is missing", fix="name the product, choose a file, and send the form again")
    query = {"sku": sku, "reissue": "true" if visit.form.get("reissue") else None}
    report = await send_row_file(visit, "/v1/item-runs", query)
    if report["faults_total"]:
        return visit.render("battery_runs/report.html.jinja", report=report, file_name=file.file_name)
    if report["run_id"] is None:
        return visit.go_to("/console/runs", done="unchanged")
    return visit.go_to(f"/console/runs/{report['run_id']}", done="started")


@pages.show("/console/runs/{item_run_id}", title=N_("Run"), permission="passport:read", command="bpc batteries runs")
async def show_run(visit: Visit) -> Response:
    """One run: how far it is, and which batteries the rules refused."""
    run = await visit.api.get(f"/v1/item-runs/{visit.path['item_run_id']}")
    return visit.render("battery_runs/run.html.jinja", run=run, statuses=STATUSES, share=_measure_share(run))


@pages.show("/console/runs/{item_run_id}/state", title=N_("Run"), permission="passport:read")
async def show_run_state(visit: Visit) -> Response:
    """The part of the page of a run that changes while it runs."""
    run = await visit.api.get(f"/v1/item-runs/{visit.path['item_run_id']}")
    return visit.render("battery_runs/state.html.jinja", run=run, statuses=STATUSES, share=_measure_share(run))


@pages.submit("/console/runs/{item_run_id}/stop", permission="passport:compile")
async def stop_run(visit: Visit) -> Response:
    return await _change_run(visit, "stop", "stopped")


@pages.submit("/console/runs/{item_run_id}/resume", permission="passport:compile")
async def resume_run(visit: Visit) -> Response:
    return await _change_run(visit, "resume", "resumed")


async def _change_run(visit: Visit, action: str, done: str) -> Response:
    run = visit.path["item_run_id"]
    await visit.submit("POST", f"/v1/item-runs/{run}:{action}")
    return visit.go_to(f"/console/runs/{run}", done=done)


def _measure_share(run: Mapping[str, Any]) -> int:
    """How much of a run is done, in percent."""
    return int(100 * (run["issued"] + run["refused"]) / run["total"]) if run["total"] else 100
