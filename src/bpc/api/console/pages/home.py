"""/console: the steps with live counts, what needs somebody today, and how long there is until passports are due."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from bpc.api.console.page_routes import HOME_PATH, PageFamily
from bpc.api.console.translations import N_
from bpc.api.console.visit import Visit
from bpc.runtime import clock

pages = PageFamily("home")

# From this day on a battery needs a passport: Regulation (EU) 2023/1542, Article 77(1).
DUE_DAY: Final = date(2027, 2, 18)


class PipelineStep(NamedTuple):
    """A step of the pipeline: its name, the figure that says how far it got, and the page that shows it."""

    label: str
    figure: str
    href: str


STEPS: Final[Sequence[PipelineStep]] = (
    PipelineStep(N_("Upload"), "documents", "/console/evidence"),
    PipelineStep(N_("Facts"), "facts", "/console/evidence"),
    PipelineStep(N_("Snapshot"), "snapshots", ""),
    PipelineStep(N_("Compile"), "compiled", "/console/passports"),
    PipelineStep(N_("Sign"), "signed", "/console/passports"),
    PipelineStep(N_("QR code"), "coded", "/console/passports"),
    PipelineStep(N_("Activate"), "active", "/console/passports?status=ACTIVE"),
    PipelineStep(N_("Replay"), "replayed", "/console/passports?status=ACTIVE"),
)
# What needs somebody, and where it is done. A figure of 0 is not shown.
TASKS: Final[Sequence[PipelineStep]] = (
    PipelineStep(N_("rejected documents"), "rejected_documents", "/console/evidence"),
    PipelineStep(N_("failed jobs"), "failed_jobs", "/console/jobs"),
    PipelineStep(N_("requests that wait for a second person"), "waiting_approvals", "/console/approvals"),
    PipelineStep(N_("API keys that expire within 30 days"), "expiring_keys", "/console/administration"),
    PipelineStep(N_("signed versions that can be activated"), "can_be_activated", "/console/passports"),
)


@pages.show(HOME_PATH, title=N_("Home"), permission="passport:read", command="bpc get /v1/overview")
async def show_home(visit: Visit) -> Response:
    overview = await visit.api.get("/v1/overview")
    return visit.render(
        "home/home.html.jinja",
        overview=overview,
        steps=[_describe(visit, step, overview) for step in STEPS if overview[step.figure] is not None],
        tasks=[_describe(visit, task, overview) for task in TASKS if overview[task.figure]],
        days=(DUE_DAY - clock.now().date()).days,
        due_day=DUE_DAY.isoformat(),
    )


def _describe(visit: Visit, step: PipelineStep, overview: Mapping[str, Any]) -> dict[str, Any]:
    """A figure with its page, if that page is there and the actor may see it."""
    paths = {entry.path for entry in visit.frame.menu}
    href = step.href if step.href.partition("?")[0] in paths else ""
    count = overview[step.figure]
    return {"label": step.label, "count": count, "is_most": count == overview["most"], "href": href}
