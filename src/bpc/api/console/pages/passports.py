"""/console/passports: the passports, and one passport with its versions and what its compliance entries say."""

from typing import Final

from starlette.responses import Response

from bpc.api.console.page_routes import PageFamily
from bpc.api.console.translations import N_
from bpc.api.console.visit import Visit

pages = PageFamily(
    "passports",
    notices={
        "activated": N_("This version is now the valid one."),
        "waits": N_("A second person has to confirm this."),
        "revoked": N_("The version is revoked."),
        "replayed": N_("Compiled again, and every byte is the same."),
    },
)
# How a status reads, and its tone.
STATUSES: Final = {
    "COMPILING": (N_("waits for its signature"), "info"),
    "SIGNED": (N_("signed"), "info"),
    "ACTIVE": (N_("in force"), "good"),
    "SUPERSEDED": (N_("superseded"), "plain"),
    "REVOKED": (N_("revoked"), "bad"),
}


@pages.show("/console/passports", title=N_("Passports"), permission="passport:read", command="bpc passports list")
async def show_passports(visit: Visit) -> Response:
    """The passports of the tenant, newest first."""
    answer = await visit.api.get(
        "/v1/passports",
        q=visit.query.get("q"),
        status=visit.query.get("status"),
        cursor=visit.query.get("cursor"),
    )
    return visit.render("passports/list.html.jinja", passports=answer["items"], next_cursor=answer["next_cursor"])


@pages.show(
    "/console/passports/{passport_id}",
    title=N_("Passport"),
    permission="passport:read",
    command="bpc passports show PASSPORT",
)
async def show_passport(visit: Visit) -> Response:
    """One passport, its versions, and the compliance entries of the version in force or else of the newest."""
    path = f"/v1/passports/{visit.path['passport_id']}"
    passport = await visit.api.get(path)
    versions = await visit.api.get(f"{path}/versions", cursor=visit.query.get("cursor"))
    chosen_id = (
        visit.find_id("version")
        or passport["current_passport_version_id"]
        or next((version["passport_version_id"] for version in versions["items"]), None)
    )
    version = compliance = None
    if chosen_id is not None:
        version = await visit.api.get(f"/v1/passport-versions/{chosen_id}")
        compliance = await visit.api.get(f"/v1/passport-versions/{chosen_id}/compliance")
    return visit.render(
        "passports/passport.html.jinja",
        command=f"bpc passports show {passport['passport_id']}",
        passport=passport,
        versions=versions["items"],
        next_cursor=versions["next_cursor"],
        version=version,
        compliance=compliance,
        statuses=STATUSES,
    )


@pages.submit("/console/passports/{passport_id}/activate", permission="passport:sign")
async def activate_version(visit: Visit) -> Response:
    return await _decide(visit, "activate", None, "activated")


@pages.submit("/console/passports/{passport_id}/revoke", permission="passport:revoke")
async def revoke_version(visit: Visit) -> Response:
    return await _decide(visit, "revoke", {"reason": visit.form.get("reason")}, "revoked")


@pages.submit("/console/passports/{passport_id}/replay", permission="passport:replay")
async def replay_version(visit: Visit) -> Response:
    return await _decide(visit, "replay", None, "replayed")


async def _decide(visit: Visit, action: str, body: object, done: str) -> Response:
    """Do this with the version that the form names. 202 says that a second person has to confirm."""
    version = visit.form.get_id("passport_version_id")
    answer = await visit.submit("POST", f"/v1/passport-versions/{version}/{action}", body)
    passport = visit.path["passport_id"]
    return visit.go_to(
        f"/console/passports/{passport}", done="waits" if answer.status == 202 else done, version=str(version)
    )
