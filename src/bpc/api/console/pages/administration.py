"""/console/administration: who may do what, with which keys, and where webhooks go."""

from typing import Final

from starlette.responses import Response

from bpc.api.console.page_routes import PageFamily
from bpc.api.console.translations import N_
from bpc.api.console.visit import Visit
from bpc.core.formats.timestamps import format_time
from bpc.runtime import clock

pages = PageFamily(
    "administration",
    notices={
        "revoked": N_("The key is revoked. The next request with it is refused."),
        "sent_again": N_("The webhook is sent again."),
    },
)
ADMINISTRATION_PATH: Final = "/console/administration"
MOST: Final = 200
# How the status of a delivery reads, and its tone.
DELIVERY_STATUSES: Final = {
    "PENDING": (N_("waits"), "info"),
    "DELIVERED": (N_("arrived"), "good"),
    "FAILED": (N_("failed"), "bad"),
}


@pages.show(ADMINISTRATION_PATH, title=N_("Administration"), permission="access:admin", command="bpc apikeys list")
async def show_administration(visit: Visit) -> Response:
    """The keys of the tenant, newest first, its actors and its roles."""
    keys = await visit.api.get("/v1/api-keys", cursor=visit.query.get("cursor"))
    actors = (await visit.api.get("/v1/actors", limit=MOST))["items"]
    roles = (await visit.api.get("/v1/roles", limit=MOST))["items"]
    return visit.render(
        "administration/access.html.jinja",
        command=f"bpc apikeys list --tenant {visit.caller.tenant_slug}",
        keys=keys["items"],
        next_cursor=keys["next_cursor"],
        actors=actors,
        roles=roles,
        now=format_time(clock.now()),
        shows_webhooks=visit.may("tenant:admin"),
    )


@pages.submit("/console/administration/keys/{api_key_id}/revoke", permission="access:admin")
async def revoke_key(visit: Visit) -> Response:
    await visit.submit("POST", f"/v1/api-keys/{visit.path['api_key_id']}:revoke")
    return visit.go_to(ADMINISTRATION_PATH, done="revoked")


@pages.show(
    "/console/administration/webhooks", title=N_("Webhooks"), permission="tenant:admin", command="bpc webhooks list"
)
async def show_webhooks(visit: Visit) -> Response:
    """Where webhooks go, and the newest deliveries with their attempts."""
    endpoints = (await visit.api.get("/v1/webhook-endpoints", limit=MOST))["items"]
    answer = await visit.api.get(
        "/v1/webhook-deliveries", status=visit.query.get("status"), cursor=visit.query.get("cursor")
    )
    return visit.render(
        "administration/webhooks.html.jinja",
        endpoints=endpoints,
        addresses={each["webhook_endpoint_id"]: each["url"] for each in endpoints},
        deliveries=answer["items"],
        next_cursor=answer["next_cursor"],
        statuses=DELIVERY_STATUSES,
    )


@pages.submit("/console/administration/webhooks/{webhook_delivery_id}/redeliver", permission="tenant:admin")
async def redeliver_webhook(visit: Visit) -> Response:
    await visit.submit("POST", f"/v1/webhook-deliveries/{visit.path['webhook_delivery_id']}:redeliver")
    return visit.go_to(f"{ADMINISTRATION_PATH}/webhooks", done="sent_again")
