"""/console/batteries: single batteries: found, registered by file, and the life of one with its readings as curves."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.responses import RedirectResponse, Response

from bpc.api.console.page_routes import PageFamily
from bpc.api.console.translations import N_
from bpc.api.console.visit import Visit
from bpc.core.errors import Invalid, NotFound, Refusal
from bpc.core.formats.timestamps import parse_time
from bpc.core.items.view import merge_view

pages = PageFamily(
    "batteries",
    notices={
        "placed": N_("The day on which it was placed on the market is recorded."),
        "repaired": N_("The repair is recorded."),
        "waste": N_("The battery is declared waste."),
        "recycled": N_("The battery is recycled, and its passport has ceased."),
    },
)
STATUSES: Final = {
    "original": (N_("original"), "good"),
    "re-used": (N_("re-used"), "info"),
    "repurposed": (N_("repurposed"), "info"),
    "remanufactured": (N_("remanufactured"), "info"),
    "waste": (N_("waste"), "warn"),
}
CHANGES: Final = {
    "PLACED": N_("placed on the market"),
    "REPAIRED": N_("repaired"),
    "WASTE": N_("declared waste"),
    "RECYCLED": N_("recycled"),
    "SUCCEEDED": N_("lives on with another operator"),
    "BEGUN": N_("began another life"),
}
AUDIENCES: Final = {
    "public": N_("everybody"),
    "interest": N_("persons with a legitimate interest"),
    "authority": N_("authorities"),
}
MOST_CURVES: Final = 6
MOST_READINGS: Final = 1000
# The forms of a battery's life: what each is sent to, and the fields of it.
STEPS: Final = {
    "placed": ("place-on-market", ("placed_on",)),
    "repaired": ("repair", ("effective_on", "performed_by", "reason")),
    "waste": ("declare-waste", ("effective_on", "performed_by", "reason")),
    "recycled": ("recycle", ("effective_on", "performed_by", "report")),
}


@pages.show("/console/batteries", title=N_("Batteries"), permission="passport:read", command="bpc batteries list")
async def show_batteries(visit: Visit) -> Response:
    """The batteries of the tenant, or those that the text of a label names."""
    text = visit.query.get("q", "").strip()
    batteries: Sequence[Mapping[str, Any]] = ()
    next_cursor = None
    problem = ""
    if text:
        try:
            batteries = (await visit.api.get("/v1/batteries:lookup", text=text))["items"]
        except (Invalid, NotFound) as refusal:
            problem = refusal.says
        if len(batteries) == 1:
            return RedirectResponse(f"/console/batteries/{batteries[0]['battery_id']}", status_code=303)
    else:
        filters = {name: visit.query.get(name) for name in ("sku", "batch_number", "status", "cursor")}
        answer = await visit.api.get("/v1/batteries", **filters)
        batteries, next_cursor = answer["items"], answer["next_cursor"]
    return visit.render(
        "batteries/list.html.jinja",
        command=f"bpc batteries show {text}" if text else None,
        batteries=batteries,
        next_cursor=next_cursor,
        problem=problem,
        statuses=STATUSES,
    )


@pages.submit("/console/batteries/register", permission="battery:register")
async def register_file(visit: Visit) -> Response:
    """Register the batteries of a file; with a fault in one row, none, and the page names the rows."""
    file = visit.form.file
    if file is None or not file.content:
        raise Invalid("no file was chosen", fix="choose one, and send the form again")
    report = await send_row_file(visit, "/v1/batteries:register", {})
    return visit.render("batteries/report.html.jinja", report=report, file_name=file.file_name)


@pages.show(
    "/console/batteries/{battery_id}",
    title=N_("Battery"),
    permission="passport:read",
    command="bpc batteries show BATTERY",
)
async def show_battery(visit: Visit) -> Response:
    """One battery: its life, its readings, the versions of its passport and the layers that each pins."""
    path = f"/v1/batteries/{visit.path['battery_id']}"
    battery = await visit.api.get(path)
    changes = (await visit.api.get(f"{path}/changes"))["items"]
    latest = (await visit.api.get(f"{path}/readings"))["items"]
    versions = (await visit.api.get(f"{path}/passport-versions"))["items"]
    kinds = [reading["kind"] for reading in latest if reading["number"] is not None][:MOST_CURVES]
    return visit.render(
        "batteries/battery.html.jinja",
        command=f"bpc batteries show {battery['battery_id']}",
        battery=battery,
        timeline=_build_timeline(battery, changes, versions),
        latest=latest,
        curves=[await _load_curve(visit, path, kind) for kind in kinds],
        versions=versions,
        statuses=STATUSES,
        audiences=AUDIENCES,
        steps=_list_steps(visit, battery),
    )


@pages.show(
    "/console/batteries/{battery_id}/view",
    title=N_("What others see"),
    permission="passport:read",
    command="bpc batteries view BATTERY --audience public",
)
async def show_view(visit: Visit) -> Response:
    """What each audience sees of the battery's passport, side by side."""
    path = f"/v1/batteries/{visit.path['battery_id']}"
    battery = await visit.api.get(path)
    views: dict[str, Mapping[str, Any]] = {}
    problem = ""
    for audience in AUDIENCES:
        try:
            answer = await visit.api.send("GET", f"{path}/passport", query={"audience": audience})
            views[audience] = merge_view(answer.content).fields
        except Refusal as refusal:
            problem = refusal.says
    names = sorted({name for view in views.values() for name in view})
    return visit.render(
        "batteries/view.html.jinja",
        battery=battery,
        rows=[(name, [write_value(view[name]) if name in view else None for view in views.values()]) for name in names],
        audiences=[AUDIENCES[audience] for audience in views],
        problem=problem,
    )


@pages.submit("/console/batteries/{battery_id}/step", permission="battery:status")
async def record_step(visit: Visit) -> Response:
    """Record what happened to a battery."""
    step = visit.form.get("step") or ""
    if step not in STEPS:
        raise Invalid("this is no step in the life of a battery", fix="load the page again")
    action, fields = STEPS[step]
    battery = visit.path["battery_id"]
    body = {name: value for name in fields if (value := visit.form.get(name)) is not None}
    await visit.submit("POST", f"/v1/batteries/{battery}:{action}", body)
    return visit.go_to(f"/console/batteries/{battery}", done=step)


async def send_row_file(visit: Visit, path: str, query: Mapping[str, object]) -> Mapping[str, Any]:
    """Check the rows of the file; store them if none has a fault. The report of the API, either way."""
    file = visit.form.file
    content = b"" if file is None else file.content
    media_type = "application/json" if content.lstrip()[:1] == b"{" else "text/csv"
    key = visit.form.idempotency_key
    answer = await visit.api.send(
        "POST",
        path,
        query={**query, "validate_only": "true"},
        content=content,
        content_type=media_type,
        idempotency_key=f"{key}-check",
    )
    report: Mapping[str, Any] = answer.body
    if not report["faults_total"]:
        answer = await visit.api.send(
            "POST", path, query=query, content=content, content_type=media_type, idempotency_key=key
        )
        report = answer.body
    return report


async def _load_curve(visit: Visit, path: str, kind: str) -> dict[str, Any]:
    rows = (await visit.api.get(f"{path}/readings", kind=kind, newest=MOST_READINGS))["items"]
    points = [(parse_time(row["recorded_at"]).timestamp(), row["number"]) for row in rows if row["number"] is not None]
    return {
        "kind": kind,
        "count": len(points),
        "points": [[moment for moment, _ in points], [float(number) for _, number in points]],
        "rows": [row for row in rows if row["number"] is not None][-10:],
    }


def _build_timeline(
    battery: Mapping[str, Any], changes: Sequence[Mapping[str, Any]], versions: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What happened to a battery and to its passport, oldest first."""
    entries: list[dict[str, Any]] = [{"at": battery["registered_at"], "kind": "registered", "said": {}}]
    if battery["manufactured_on"]:
        entries.append({"at": battery["manufactured_on"], "kind": "manufactured", "said": {}})
    entries += [
        {"at": change["effective_on"], "kind": change["kind"], "said": change["said"], "label": CHANGES[change["kind"]]}
        for change in changes
    ]
    entries += [
        {"at": version["issued_at"], "kind": "issued", "said": {}, "version": version["passport_version_id"]}
        for version in versions
    ]
    return sorted(entries, key=lambda entry: str(entry["at"]))


def _list_steps(visit: Visit, battery: Mapping[str, Any]) -> list[str]:
    """The steps that may follow now, for whoever may record them."""
    if battery["ceased_at"] is not None or battery["successor"] is not None:
        return []
    steps = ["placed"] if battery["placed_on"] is None and visit.may("battery:register") else []
    if visit.may("battery:status"):
        steps += ["recycled"] if battery["status"] == "waste" else ["repaired", "waste"]
    return steps


def write_value(value: Any) -> str:
    """A value of a view as a person reads it."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool | int):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False)
