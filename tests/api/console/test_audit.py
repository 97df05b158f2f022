"""Audit and trust in the console: what happened, whether the record is intact, and what others check it with."""

from uuid import UUID

from bpc.core.formats.ids import TenantId
from tests.api.conftest import KEY_ID, Api
from tests.api.console.conftest import Browser
from tests.storage.probes import Superuser


async def create_product(admin: Api) -> str:
    product = await admin.post_json("/v1/battery-products", {"sku": "SKU-1", "name": "Traction <b>battery"})
    return str(product["battery_product_id"])


async def test_an_auditor_goes_from_the_timeline_to_one_chain_and_verifies_it(
    browsers: dict[str, Browser], admin: Api
) -> None:
    product, auditor = await create_product(admin), browsers["Auditor"]
    chain = f"aggregate_type=BatteryProduct&aggregate_id={product}"
    [event] = (await admin.get_json(f"/v1/audit/events?{chain}"))["items"]

    timeline = await auditor.show("/console/audit?aggregate_type=BatteryProduct&occurred_after=2020-01-01")
    page = await auditor.show(f"/console/audit/events/{event['event_id']}")
    verified = await auditor.show(f"/console/audit/verify?{chain}")

    assert f"/console/audit/events/{event['event_id']}" in timeline
    assert "ACTOR_CREATED" not in timeline
    assert "Traction &lt;b&gt;battery" in page
    assert event["event_hash"] in page
    assert "Intact" in verified
    assert "1 events were checked." in verified


async def test_a_changed_event_and_a_changed_row_are_named(
    browsers: dict[str, Browser], admin: Api, superuser: Superuser, tenant: TenantId
) -> None:
    product, auditor = await create_product(admin), browsers["Auditor"]
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute(
        "UPDATE events SET payload_hash = sha256('x') WHERE tenant_id = $1 AND aggregate_id = $2", tenant, UUID(product)
    )
    await superuser.execute("UPDATE battery_products SET name = 'Other' WHERE tenant_id = $1", tenant)

    before = await auditor.show("/console/audit/verify")
    page = await auditor.show("/console/audit/verify?run=all")

    assert "checked." not in before  # it takes a while, so somebody has to ask for it
    assert "Not intact" in page
    assert f"BatteryProduct <code>{product}</code>" in page
    assert '<th scope="row">battery_products</th>' in page


async def test_the_keys_are_shown_with_their_windows_and_a_log_that_is_not_there_is_said(
    browsers: dict[str, Browser],
) -> None:
    page = await browsers["Auditor"].show("/console/audit/trust")

    assert KEY_ID in page
    assert "until it is retired" in page
    assert "published no log" in page
