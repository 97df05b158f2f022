"""/console/audit: what happened, whether the record of it is intact, and what others can check it with."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import Response

from bpc.api.console.actor_names import load_actor_names
from bpc.api.console.page_routes import PageFamily
from bpc.api.console.translations import N_
from bpc.api.console.visit import Visit
from bpc.core.formats.timestamps import format_time
from bpc.core.tlog.checkpoints import parse_size, read_checkpoint_text
from bpc.core.tlog.notes import BadNote, parse_note
from bpc.runtime import clock

pages = PageFamily("audit")

PERMISSION: Final = "audit:read"
FILTERS: Final = ("aggregate_type", "aggregate_id", "event_type", "actor_id", "occurred_after", "occurred_before")
CHAIN: Final = ("aggregate_type", "aggregate_id")
# What the menu of filters offers; any other name can be written.
AGGREGATE_TYPES: Final = (
    "Actor",
    "ApiKey",
    "Approval",
    "Battery",
    "BatteryProduct",
    "Document",
    "DocumentVersion",
    "Job",
    "Passport",
    "PassportVersion",
    "RulePackageVersion",
    "SigningKey",
    "WebhookEndpoint",
)
# How the state of a signing key reads, and its tone.
KEY_STATUSES: Final = {
    "ACTIVE": (N_("active"), "good"),
    "RETIRED": (N_("retired"), "plain"),
    "COMPROMISED": (N_("compromised"), "bad"),
}
EXPIRED: Final = (N_("its time is over"), "warn")
# How a fault of a row reads.
ROW_PROBLEMS: Final = {"CHANGED": N_("changed"), "ADDED": N_("added"), "DELETED": N_("deleted")}


@pages.show("/console/audit", title=N_("Audit and trust"), permission=PERMISSION, command="bpc get /v1/audit/events")
async def show_events(visit: Visit) -> Response:
    """The events of the tenant, newest first."""
    filters = {name: visit.query.get(name) for name in FILTERS}
    answer = await visit.api.get("/v1/audit/events", **filters, cursor=visit.query.get("cursor"))
    return visit.render(
        "audit/list.html.jinja",
        events=answer["items"],
        next_cursor=answer["next_cursor"],
        names=await load_actor_names(visit),
        types=AGGREGATE_TYPES,
        is_filtered=any(filters.values()),
    )


@pages.show(
    "/console/audit/events/{event_id}",
    title=N_("Event"),
    permission=PERMISSION,
    command="bpc get /v1/audit/events/EVENT",
)
async def show_event(visit: Visit) -> Response:
    """One event: what it says, and the hashes that bind it to the event before."""
    event = await visit.api.get(f"/v1/audit/events/{visit.path['event_id']}")
    return visit.render(
        "audit/event.html.jinja",
        command=f"bpc get /v1/audit/events/{event['event_id']}",
        event=event,
        names=await load_actor_names(visit),
    )


@pages.show("/console/audit/verify", title=N_("Verify the record"), permission=PERMISSION, command="bpc audit verify")
async def verify_record(visit: Visit) -> Response:
    """The result of verifying one chain, or of everything once somebody asks for it: that takes a while."""
    visit.require(PERMISSION)
    chain = {name: visit.query.get(name) for name in CHAIN}
    verification = None
    if any(chain.values()) or visit.query.get("run"):
        verification = await visit.api.get("/v1/audit/verify", **chain)
    return visit.render(
        "audit/verify.html.jinja",
        command=f"bpc audit verify --tenant {visit.caller.tenant_slug}",
        verification=verification,
        broken_chains=[] if verification is None else _group_faults(verification["faults"]),
        chain=chain if any(chain.values()) else None,
        row_problems=ROW_PROBLEMS,
    )


def _group_faults(faults: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The faults of each chain together."""
    chains: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for fault in faults:
        chains.setdefault((fault["aggregate_type"], fault["aggregate_id"]), []).append(fault)
    return [
        {"aggregate_type": aggregate_type, "aggregate_id": aggregate_id, "faults": of_chain}
        for (aggregate_type, aggregate_id), of_chain in chains.items()
    ]


@pages.show("/console/audit/trust", title=N_("Keys and log"), permission=PERMISSION, command="bpc keys list")
async def show_trust(visit: Visit) -> Response:
    """What everybody can check passports with: the public keys with their windows, and the transparency log."""
    visit.require(PERMISSION)
    keys = (await visit.api.get("/.well-known/bpc-keys.json"))["keys"]
    own = (None, str(visit.caller.tenant_id))
    return visit.render(
        "audit/trust.html.jinja",
        keys=[{**key, "state": _describe_key(key)} for key in keys if key["tenant_id"] in own],
        log=await _load_log_state(visit),
    )


def _describe_key(key: Mapping[str, Any]) -> tuple[str, str]:
    is_late = key["status"] == "ACTIVE" and key["valid_until"] and key["valid_until"] <= format_time(clock.now())
    return EXPIRED if is_late else KEY_STATUSES[key["status"]]


async def _load_log_state(visit: Visit) -> dict[str, Any] | None:
    """The newest checkpoint of the log: how many entries, who signed it; None if there is no log."""
    text = await _load_log_file(visit, "/log/checkpoint")
    if text is None:
        return None
    try:
        note = parse_note(text)
        checkpoint = read_checkpoint_text(note.text)
    except BadNote as error:
        return {"problem": error.says, "text": text.decode(errors="replace")}
    signers = [signature.name for signature in note.signatures]
    return {
        "problem": None,
        "text": text.decode(),
        "origin": checkpoint.origin,
        "size": checkpoint.size,
        "witnesses": sorted({name for name in signers if name != checkpoint.origin}),
        "stamped_size": await _load_stamped_size(visit),
    }


async def _load_stamped_size(visit: Visit) -> int | None:
    """How many entries the last checkpoint has that an authority stamped with the time; None if there is none."""
    text = await _load_log_file(visit, "/log/timestamp/latest")
    try:
        return None if text is None else parse_size(text.decode().strip())
    except (BadNote, UnicodeDecodeError):
        return None


async def _load_log_file(visit: Visit, path: str) -> bytes | None:
    try:
        return (await visit.api.send("GET", path)).content
    except HTTPException:  # 404: there is no such file
        return None
