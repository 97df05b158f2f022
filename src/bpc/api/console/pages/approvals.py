"""/console/approvals: requests that wait for a second person, and what was decided about others."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from bpc.api.console.actor_names import load_actor_names
from bpc.api.console.page_routes import PageFamily
from bpc.api.console.translations import N_
from bpc.api.console.visit import Visit
from bpc.core.formats.timestamps import format_time
from bpc.runtime import clock

pages = PageFamily("approvals", notices={"declined": N_("The request is declined. It is never done.")})
# How a status reads, and its tone.
STATUSES: Final = {
    "PENDING": (N_("waits"), "warn"),
    "APPROVED": (N_("confirmed"), "good"),
    "REJECTED": (N_("declined"), "bad"),
    "EXPIRED": (N_("expired"), "plain"),
}
ACTIONS: Final = {
    "publish": N_("Publish rules"),
    "activate": N_("Put a passport into force"),
    "waive": N_("Waive a compliance entry"),
    "revoke": N_("Revoke a passport"),
    "transfer": N_("Give a battery to another operator"),
    "role_grants": N_("Change actors or roles"),
    "key_changes": N_("Change keys"),
    "settings": N_("Change what needs two people"),
}


@pages.show("/console/approvals", title=N_("Approvals"), permission="approval:decide", command="bpc approvals list")
async def show_approvals(visit: Visit) -> Response:
    """Requests that wait and requests that were decided, newest first."""
    answer = await visit.api.get("/v1/approvals", cursor=visit.query.get("cursor"))
    four_eyes = await visit.api.get("/v1/tenant/four-eyes")
    return visit.render(
        "approvals/list.html.jinja",
        approvals=[_describe(approval) for approval in answer["items"]],
        next_cursor=answer["next_cursor"],
        names=await load_actor_names(visit) if answer["items"] else {},
        actions=ACTIONS,
        statuses=STATUSES,
        switched_on=four_eyes["actions"],
    )


@pages.show(
    "/console/approvals/{approval_id}",
    title=N_("Approval"),
    permission="approval:decide",
    command="bpc approvals list",
)
async def show_approval(visit: Visit) -> Response:
    """One request: what it asks for, of whom it is, and the forms that decide about it."""
    approval = _describe(await visit.api.get(f"/v1/approvals/{visit.path['approval_id']}"))
    is_own = approval["requested_by"] == str(visit.caller.actor_id)
    waits = approval["status"] == "PENDING"
    may_decide = waits and visit.may(approval["permission"])
    return visit.render(
        "approvals/approval.html.jinja",
        command=f"bpc approvals approve {approval['approval_id']}" if waits else "bpc approvals list",
        approval=approval,
        names=await load_actor_names(visit),
        actions=ACTIONS,
        statuses=STATUSES,
        is_own=is_own,
        waits=waits,
        may_decide=may_decide,
    )


@pages.submit("/console/approvals/{approval_id}/approve", permission="approval:decide")
async def approve_request(visit: Visit) -> Response:
    """Show the answer of the request at once: a secret in it is shown nowhere else."""
    approval = visit.path["approval_id"]
    answer = (await visit.submit("POST", f"/v1/approvals/{approval}:approve")).body
    return visit.render("approvals/approved.html.jinja", approval_id=answer["approval_id"], answer=answer["answer"])


@pages.submit("/console/approvals/{approval_id}/decline", permission="approval:decide")
async def decline_request(visit: Visit) -> Response:
    approval = visit.path["approval_id"]
    await visit.submit("POST", f"/v1/approvals/{approval}:reject", {"reason": visit.form.get("reason")})
    return visit.go_to(f"/console/approvals/{approval}", done="declined")


def _describe(approval: Mapping[str, Any]) -> dict[str, Any]:
    """The request; one that nobody decided in time is no longer one that waits."""
    is_late = approval["status"] == "PENDING" and approval["expires_at"] <= format_time(clock.now())
    return {**approval, "status": "EXPIRED" if is_late else approval["status"]}
