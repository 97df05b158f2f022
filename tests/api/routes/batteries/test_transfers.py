"""Transfers over HTTP: offered by one tenant, accepted by another, signed for both; and what nobody gets by trying."""

import asyncio
from typing import Any

import pytest
from tests.jobs.support.run_workers import run_worker

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.audit.signing import read_key_set
from bpc.core.batteries.transfers import find_pair_faults
from bpc.core.formats import canonical_json
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.storage.access.tenants_and_actors import create_tenant
from bpc.storage.audit.verification import verify_audit
from bpc.storage.database import Database, freeze_view
from tests.api.conftest import Api, create_key
from tests.api.transfer_fixtures import ANSWER, PASSED, STEP, wait_for_state, wait_until_over


async def list_event_types(api: Api, aggregate_type: str, aggregate: str) -> list[str]:
    query = f"aggregate_type={aggregate_type}&aggregate_id={aggregate}"
    items = (await api.get_json(f"/v1/audit/events?{query}"))["items"]
    return [event["event_type"] for event in sorted(items, key=lambda event: event["aggregate_version"])]


@pytest.mark.usefixtures("worker")
async def test_a_battery_is_offered_accepted_and_signed_for_by_both(
    admin: Api, other_admin: Api, anonymous: Api, tenant: TenantId, other_tenant: TenantId, offer: dict[str, Any]
) -> None:
    offered = await admin.post_json("/v1/transfers", {**offer, "remark": "cell 4 was replaced"})
    transfer = offered["transfer_id"]
    [incoming] = (await other_admin.get_json("/v1/transfers:incoming"))["items"]
    accepted = await other_admin.post_json(f"/v1/transfers/{transfer}:accept", ANSWER, status=200)
    given_row = await wait_for_state(admin, transfer, "COMPLETED")
    taken = await other_admin.get_json(f"/v1/transfers/{transfer}")

    assert (offered["state"], offered["side"], offered["other_tenant_id"]) == ("OFFERED", "GIVES", str(other_tenant))
    assert (incoming["transfer_id"], incoming["side"], incoming["other_tenant_id"]) == (transfer, "TAKES", str(tenant))
    assert incoming["offered"] == offered["offered"]
    assert (incoming["offered"]["serial_number"], incoming["offered"]["placed_on"]) == ("A1", "2024-02-03")
    assert accepted["state"] in {"ACCEPTED", "COMPLETED"}
    assert (given_row["battery_id"], given_row["accepted"]) == (offer["battery_id"], taken["accepted"])
    assert taken["battery_id"] == taken["accepted"]["battery_id"]
    assert "STORAGE-5" not in str(given_row)
    assert "PACK-48" not in str(taken)

    old = await admin.get_json(f"/v1/batteries/{offer['battery_id']}")
    new = await other_admin.get_json(f"/v1/batteries/{taken['battery_id']}")
    assert (old["status"], old["successor"]) == ("repurposed", new["address"])
    assert (new["status"], new["predecessor"], new["serial_number"]) == ("repurposed", old["address"], "S1")
    public = await anonymous.get_json(old["address"], headers={"Accept": "application/json"})
    assert public["successor"] == new["address"]
    statements = await admin.get_json(f"/v1/transfers/{transfer}/statements")
    assert statements == await other_admin.get_json(f"/v1/transfers/{transfer}/statements")
    keys = read_key_set((await anonymous.get("/.well-known/bpc-keys.json")).content)
    gives, takes = (canonical_json.encode(statements[side]) for side in ("gives", "takes"))
    assert list(find_pair_faults(gives, takes, keys)) == []
    assert statements["gives"]["terms"]["takes"]["address"] == new["address"]

    steps = ["BATTERY_TRANSFER_OFFERED", "BATTERY_TRANSFER_ACCEPTED", "BATTERY_TRANSFER_COMPLETED"]
    assert await list_event_types(admin, "BatteryTransfer", transfer) == steps
    assert await list_event_types(other_admin, "BatteryTransfer", transfer) == steps[1:]
    assert (await list_event_types(admin, "Battery", old["battery_id"]))[-1] == "BATTERY_SUCCEEDED"
    assert await list_event_types(other_admin, "Battery", new["battery_id"]) == [
        "BATTERY_CHAIN_BEGUN",
        "BATTERY_LIFE_BEGUN",
    ]
    change = (await other_admin.get_json(f"/v1/batteries/{new['battery_id']}/changes"))["items"][0]
    assert change["said"] == {
        "performed_by": "GLN:9521234000013",
        "predecessor": old["address"],
        "transfer_id": transfer,
    }


@pytest.mark.usefixtures("worker")
async def test_the_state_of_transfers_follows_from_the_events_of_both(
    admin: Api,
    other_admin: Api,
    database: Database,
    tenant: TenantId,
    other_tenant: TenantId,
    superuser: Any,
    offer: dict[str, Any],
) -> None:
    declined = (await admin.post_json("/v1/transfers", offer))["transfer_id"]
    await other_admin.post_json(f"/v1/transfers/{declined}:decline", PASSED, status=200)
    withdrawn = (await admin.post_json("/v1/transfers", offer))["transfer_id"]
    await admin.post_json(f"/v1/transfers/{withdrawn}:withdraw", PASSED, status=200)
    completed = (await admin.post_json("/v1/transfers", {**offer, "life": "repurposed"}))["transfer_id"]
    await other_admin.post_json(f"/v1/transfers/{completed}:accept", ANSWER, status=200)
    await wait_for_state(admin, completed, "COMPLETED")

    async def list_faults(of: TenantId) -> list[Any]:
        async with database.system(of) as conn:
            await freeze_view(conn)
            state = (await verify_audit(conn, of)).state
        assert state is not None
        return [fault for fault in state.faults if fault.table in {"battery_transfers", "battery_changes", "batteries"}]

    assert await list_faults(tenant) == []
    assert await list_faults(other_tenant) == []
    listed = {row["transfer_id"]: row["state"] for row in (await admin.get_json("/v1/transfers"))["items"]}
    assert listed == {declined: "DECLINED", withdrawn: "WITHDRAWN", completed: "COMPLETED"}
    taken = (await other_admin.get_json("/v1/transfers?side=TAKES"))["items"]
    assert {row["transfer_id"] for row in taken} == {declined, completed}
    assert (await other_admin.get_json("/v1/transfers?side=GIVES"))["items"] == []

    # Whoever is superuser can switch triggers off: the events still tell.
    await superuser.execute("ALTER TABLE battery_transfers DISABLE TRIGGER USER")
    await superuser.execute(
        "UPDATE battery_transfers SET reason = 'another', offer = '\\x7b7d' WHERE transfer_id = $1", declined
    )
    await superuser.execute("ALTER TABLE battery_transfers ENABLE TRIGGER USER")
    assert {fault.column for fault in await list_faults(tenant)} == {"reason", "offer"}
    await superuser.execute("ALTER TABLE batteries DISABLE TRIGGER USER")
    await superuser.execute("UPDATE batteries SET successor = '/p/elsewhere' WHERE successor IS NOT NULL")
    await superuser.execute("ALTER TABLE batteries ENABLE TRIGGER USER")
    await superuser.execute("ALTER TABLE battery_changes DISABLE TRIGGER USER")
    await superuser.execute("UPDATE battery_changes SET effective_on = '2020-01-01' WHERE kind = 'WASTE'")
    await superuser.execute("DELETE FROM battery_changes WHERE kind = 'BEGUN'")
    await superuser.execute("ALTER TABLE battery_changes ENABLE TRIGGER USER")
    assert {fault.column for fault in await list_faults(tenant)} == {"reason", "offer", "effective_on", "status"}
    assert {fault.problem for fault in await list_faults(other_tenant)} == {"CHANGED", "DELETED"}


async def test_who_is_not_part_of_a_transfer_learns_nothing(
    admin: Api, other_admin: Api, http: Any, database: Database, act: Act, offer: dict[str, Any]
) -> None:
    third = await create_tenant(database, slug="third", name="Third", act=act)
    stranger = Api(http, await create_key(database, third, "Admin", act))
    transfer = (await admin.post_json("/v1/transfers", offer))["transfer_id"]
    guessed = str(clock.new_id())

    for path, body in (
        ("", None),
        ("/statements", None),
        (":accept", ANSWER),
        (":decline", PASSED),
        (":withdraw", PASSED),
    ):
        method = "GET" if body is None else "POST"
        real = await stranger.send(method, f"/v1/transfers/{transfer}{path}", body)
        unknown = await stranger.send(method, f"/v1/transfers/{guessed}{path}", body)
        assert (real.status_code, unknown.status_code) == (404, 404), path
        assert real.json()["error"]["message"].replace(transfer, guessed) == unknown.json()["error"]["message"]
    assert (await stranger.get_json("/v1/transfers:incoming"))["items"] == []
    assert (await stranger.get_json("/v1/transfers"))["items"] == []
    # An offer to a tenant that does not exist looks like any other.
    body = {"sku": "PACK-48", "serial_number": "A2"}
    other_battery = (await admin.post_json("/v1/batteries", body))["battery_id"]
    await admin.post_json(f"/v1/batteries/{other_battery}:declare-waste", STEP, status=200)
    lost = await admin.post_json(
        "/v1/transfers", {**offer, "battery_id": other_battery, "to_tenant_id": str(clock.new_id())}
    )
    assert lost["state"] == "OFFERED"
    assert lost.keys() == (await admin.get_json(f"/v1/transfers/{transfer}")).keys()
    # Of the offer's battery, who may take it sees what is offered, and not the record.
    assert (await other_admin.get(f"/v1/batteries/{offer['battery_id']}")).status_code == 404


async def test_what_cannot_be_offered_or_answered_is_refused(
    admin: Api, auditor: Api, other_admin: Api, tenant: TenantId, offer: dict[str, Any]
) -> None:
    living = (await admin.post_json("/v1/batteries", {"sku": "PACK-48", "serial_number": "A9"}))["battery_id"]

    async def offer_with(**members: object) -> Any:
        return await admin.post("/v1/transfers", {**offer, **members})

    assert (await offer_with(battery_id=living)).status_code == 409
    assert (await offer_with(battery_id=str(clock.new_id()))).status_code == 404
    assert (await offer_with(to_tenant_id=str(tenant))).status_code == 422
    assert (await offer_with(to_tenant_id="acme")).status_code == 422
    assert (await offer_with(operator="acme")).status_code == 422
    assert (await offer_with(expires_at="2020-01-01T00:00:00Z")).status_code == 422
    assert (await offer_with(expires_at="2999-01-01T00:00:00Z")).status_code == 422
    assert (await offer_with(life="waste")).status_code == 422
    assert (await auditor.post("/v1/transfers", offer)).status_code == 403
    assert (await other_admin.post("/v1/transfers", {**offer, "to_tenant_id": str(tenant)})).status_code == 404

    transfer = (await admin.post_json("/v1/transfers", {**offer, "life": "re-used"}))["transfer_id"]
    path = f"/v1/transfers/{transfer}"
    answer = {**ANSWER, "life": "re-used"}
    assert "offered already" in (await offer_with()).json()["error"]["message"]
    assert (await admin.post(f"{path}:accept", answer)).status_code == 409
    assert (await admin.post(f"{path}:decline", PASSED)).status_code == 409
    assert (await other_admin.post(f"{path}:withdraw", PASSED)).status_code == 404
    assert (await other_admin.post(f"{path}:accept", ANSWER)).status_code == 409, "another life"
    for members, status in (
        ({"sku": "NONE"}, 422),
        ({"effective_on": "2999-01-01"}, 422),
        ({"operator": "x"}, 422),
        ({"address": "https://maker.example/1"}, 422),
    ):
        refused = await other_admin.post(f"{path}:accept", {**answer, **members})
        assert refused.status_code == status, refused.text
    assert (await other_admin.get(f"{path}/statements")).status_code == 404
    assert (await admin.get(f"{path}/statements")).status_code == 409


async def test_of_several_acceptances_at_the_same_moment_one_counts(
    admin: Api, other_admin: Api, offer: dict[str, Any], service: Service
) -> None:
    transfer = (await admin.post_json("/v1/transfers", offer))["transfer_id"]
    path = f"/v1/transfers/{transfer}"

    answers = await asyncio.gather(
        *(other_admin.post(f"{path}:accept", {**ANSWER, "serial_number": f"S{number}"}) for number in range(8))
    )
    async with run_worker(service.jobs):
        await wait_for_state(admin, transfer, "COMPLETED")

    assert sorted(answer.status_code for answer in answers) == [200] + 7 * [409]
    [battery] = (await other_admin.get_json("/v1/batteries?sku=STORAGE-5"))["items"]
    winner = next(number for number, answer in enumerate(answers) if answer.status_code == 200)
    assert battery["serial_number"] == f"S{winner}"


async def test_yes_and_no_at_the_same_moment_end_in_one_state_for_both(
    admin: Api, other_admin: Api, offer: dict[str, Any], service: Service
) -> None:
    for number in range(6):
        transfer = (await admin.post_json("/v1/transfers", offer))["transfer_id"]
        path, answer = f"/v1/transfers/{transfer}", {**ANSWER, "serial_number": f"S{number}"}
        calls = [
            other_admin.post(f"{path}:accept", answer),
            other_admin.post(f"{path}:decline", PASSED),
            admin.post(f"{path}:withdraw", PASSED),
        ]
        answers = await asyncio.gather(*calls[number % 3 :], *calls[: number % 3])
        async with run_worker(service.jobs):
            given_row = await wait_until_over(admin, transfer)
        taken = await other_admin.get(path)

        assert {each.status_code for each in answers} <= {200, 404, 409}
        assert given_row["state"] in {"DECLINED", "WITHDRAWN"}  # a no wins while nothing is completed
        assert taken.status_code == 404 or taken.json()["state"] == given_row["state"]
    assert (await other_admin.get_json("/v1/batteries?sku=STORAGE-5"))["items"] == []


@pytest.mark.usefixtures("worker")
async def test_an_acceptance_that_is_sent_again_changes_nothing(
    admin: Api, other_admin: Api, offer: dict[str, Any]
) -> None:
    path = f"/v1/transfers/{(await admin.post_json('/v1/transfers', offer))['transfer_id']}"
    key = str(clock.new_id())

    first = await other_admin.post(f"{path}:accept", ANSWER, idempotency_key=key)
    again = await other_admin.post(f"{path}:accept", ANSWER, idempotency_key=key)
    anew = await other_admin.post(f"{path}:accept", {**ANSWER, "serial_number": "S2"})
    await wait_for_state(admin, path.rpartition("/")[2], "COMPLETED")

    assert first.content == again.content
    assert anew.status_code == 409
    for refused in (
        await other_admin.post(f"{path}:decline", PASSED),
        await admin.post(f"{path}:withdraw", PASSED),
        await other_admin.post(f"{path}:accept", ANSWER),
    ):
        assert "is completed" in refused.json()["error"]["message"]
    assert len((await other_admin.get_json("/v1/batteries?sku=STORAGE-5"))["items"]) == 1


async def test_a_promised_battery_changes_no_more_until_somebody_says_no(
    admin: Api, other_admin: Api, offer: dict[str, Any]
) -> None:
    recycling = {"effective_on": "2025-09-02", "performed_by": "GLN:9521234000006", "report": "R-1"}
    other_life = {"performed_by": STEP["performed_by"], "sku": "PACK-48", "serial_number": "A5"}
    other_life |= {"life": "re-used", "effective_on": "2025-09-02"}
    battery = f"/v1/batteries/{offer['battery_id']}"
    transfer = (await admin.post_json("/v1/transfers", offer))["transfer_id"]
    accepted = await other_admin.post_json(f"/v1/transfers/{transfer}:accept", ANSWER, status=200)

    recycled = await admin.post(f"{battery}:recycle", recycling)
    begun = await admin.post(f"{battery}:begin-other-life", other_life)
    await admin.post_json(f"/v1/transfers/{transfer}:withdraw", PASSED, status=200)

    assert accepted["state"] == "ACCEPTED"
    assert "is promised to another operator" in recycled.json()["error"]["message"]
    assert "is promised to another operator" in begun.json()["error"]["message"]
    assert (await other_admin.get_json(f"/v1/transfers/{transfer}"))["state"] == "WITHDRAWN"
    assert (await admin.post(f"{battery}:recycle", recycling)).status_code == 200
    again = await admin.post("/v1/transfers", offer)
    assert "ceased" in again.json()["error"]["message"]


async def test_a_battery_that_is_gone_cannot_be_accepted_and_nobody_is_told_why(
    admin: Api, other_admin: Api, offer: dict[str, Any]
) -> None:
    transfer = (await admin.post_json("/v1/transfers", offer))["transfer_id"]
    recycling = {"effective_on": "2025-09-02", "performed_by": "GLN:9521234000006", "report": "secret report"}
    await admin.post_json(f"/v1/batteries/{offer['battery_id']}:recycle", recycling, status=200)

    refused = await other_admin.post(f"/v1/transfers/{transfer}:accept", ANSWER)

    assert refused.status_code == 409
    assert refused.json()["error"]["message"] == "this battery is not offered any more; ask who offered it"


async def test_an_offer_that_nobody_answers_expires(
    admin: Api, other_admin: Api, superuser: Any, offer: dict[str, Any]
) -> None:
    transfer = (await admin.post_json("/v1/transfers", offer))["transfer_id"]
    await superuser.execute("ALTER TABLE battery_transfers DISABLE TRIGGER USER")
    await superuser.execute(
        "UPDATE battery_transfers SET offered_at = now() - interval '2 days', expires_at = now() - interval '1 day'"
    )
    await superuser.execute("ALTER TABLE battery_transfers ENABLE TRIGGER USER")

    assert (await admin.get_json(f"/v1/transfers/{transfer}"))["state"] == "EXPIRED"
    assert (await other_admin.get_json("/v1/transfers:incoming"))["items"] == []
    assert (await other_admin.post(f"/v1/transfers/{transfer}:accept", ANSWER)).status_code == 404
    assert "is expired" in (await admin.post(f"/v1/transfers/{transfer}:withdraw", PASSED)).json()["error"]["message"]
    again = await admin.post_json("/v1/transfers", offer)
    assert again["state"] == "OFFERED"
    assert (await list_event_types(admin, "BatteryTransfer", transfer))[-1] == "BATTERY_TRANSFER_EXPIRED"


async def test_with_four_eyes_a_second_person_confirms_offers_and_acceptances(
    admin: Api, other_admin: Api, http: Any, database: Database, tenant: TenantId, act: Act, offer: dict[str, Any]
) -> None:
    second = Api(http, await create_key(database, tenant, "Admin", act))
    await admin.send("PUT", "/v1/tenant/four-eyes", {"actions": ["transfer"]})

    asked = await admin.post("/v1/transfers", offer)
    waiting = (await other_admin.get_json("/v1/transfers:incoming"))["items"]
    await second.post_json(f"/v1/approvals/{asked.json()['approval_id']}:approve", status=200)

    assert (asked.status_code, waiting) == (202, [])
    assert len((await other_admin.get_json("/v1/transfers:incoming"))["items"]) == 1
