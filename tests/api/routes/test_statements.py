"""What documents say over HTTP: corrected, said again, withdrawn, merged, and decided where they differ."""

from base64 import b64encode
from typing import Any

import orjson
import pytest

from tests.api.conftest import Api
from tests.api.test_journey import wait_for_job

pytestmark = pytest.mark.usefixtures("worker")


async def create_document(api: Api, kind: str) -> str:
    return str((await api.post_json("/v1/documents", {"kind": kind}))["document_id"])


async def upload(api: Api, document: str, content: Any, *, status: int = 201) -> str:
    """Upload `content` and wait until it is read; return the id of its version."""
    body = {"mime_type": "application/json", "content_base64": b64encode(orjson.dumps(content)).decode()}
    version = await api.post_json(f"/v1/documents/{document}/versions", body, status=status)
    if version["job_id"] is not None:
        await wait_for_job(api, version["job_id"])
    return str(version["document_version_id"])


async def load_known(api: Api, sku: str) -> dict[str, dict[str, Any]]:
    """The facts of a snapshot of what is known of a product now, by key."""
    snapshot = await api.post_json("/v1/snapshots", {"sku": sku})
    assert snapshot["status"] == "SEALED"
    items = await api.get_json(f"/v1/snapshots/{snapshot['snapshot_id']}/items")
    return {item["fact_key"]: item["payload"] for item in items["items"]}


def footprint(total: int) -> dict[str, Any]:
    return {"sku": "A-1", "total_gco2e": total}


async def test_a_value_that_is_corrected_and_corrected_back_counts_as_it_was_said_last(admin: Api) -> None:
    document = await create_document(admin, "PCF")
    first = await upload(admin, document, footprint(86_700))
    await upload(admin, document, footprint(79_000))
    assert (await load_known(admin, "A-1"))["pcf:A-1"]["total_gco2e"] == "79000.00"

    again = await upload(admin, document, footprint(86_700), status=200)

    assert again == first
    assert (await load_known(admin, "A-1"))["pcf:A-1"]["total_gco2e"] == "86700.00"
    statements = (await admin.get_json(f"/v1/documents/{document}/statements"))["items"]
    assert [statement["sequence"] for statement in statements] == [3, 2, 1]
    assert [statement["document_version_id"] == first for statement in statements] == [True, False, True]


async def test_a_part_that_is_removed_from_the_bill_of_materials_is_no_longer_known(admin: Api) -> None:
    document = await create_document(admin, "BOM")
    battery, parts = {"sku": "A-1"}, [{"part": "cell", "mass_g": 10}, {"part": "housing", "mass_g": 20}]
    await upload(admin, document, {"battery": battery, "components": parts})

    await upload(admin, document, {"battery": battery, "components": parts[:1]})

    assert sorted(await load_known(admin, "A-1")) == ["battery:A-1", "component:A-1:cell"]


async def test_a_rejected_version_leaves_what_was_said_before(admin: Api) -> None:
    document = await create_document(admin, "PCF")
    await upload(admin, document, footprint(86_700))
    body = {
        "mime_type": "application/json",
        "content_base64": b64encode(b'{"total_gco2e": 79000}').decode(),
    }

    rejected = await admin.post_json(f"/v1/documents/{document}/versions", body)
    await wait_for_job(admin, rejected["job_id"], "FAILED")

    assert (await load_known(admin, "A-1"))["pcf:A-1"]["total_gco2e"] == "86700.00"


async def test_a_document_that_is_withdrawn_no_longer_counts_until_it_says_something_again(admin: Api) -> None:
    document = await create_document(admin, "PCF")
    first = await upload(admin, document, footprint(86_700))

    reason = {"reason": "The supplier sent the wrong battery."}
    withdrawn = await admin.post_json(f"/v1/documents/{document}:withdraw", reason, status=200)

    assert (withdrawn["document_version_id"], withdrawn["reason"]) == (None, reason["reason"])
    nothing = await admin.post("/v1/snapshots", {"sku": "A-1"})
    assert (nothing.status_code, nothing.json()["error"]["code"]) == (409, "CONFLICT")
    twice = await admin.post(f"/v1/documents/{document}:withdraw", reason)
    assert (twice.status_code, "already withdrawn" in twice.json()["error"]["message"]) == (409, True)
    assert await upload(admin, document, footprint(86_700), status=200) == first
    assert (await load_known(admin, "A-1"))["pcf:A-1"]["total_gco2e"] == "86700.00"
    events = await admin.get_json("/v1/audit/events", params={"aggregate_type": "Document", "aggregate_id": document})
    assert [event["event_type"] for event in events["items"]] == [
        "DOCUMENT_STATED",
        "DOCUMENT_WITHDRAWN",
        "DOCUMENT_STATED",
        "DOCUMENT_CREATED",
    ]


async def test_withdrawing_ends_only_what_this_document_says(admin: Api) -> None:
    mine, other = await create_document(admin, "PCF"), await create_document(admin, "PCF")
    version = await upload(admin, mine, footprint(86_700))
    assert await upload(admin, other, footprint(86_700), status=200) == version

    await admin.post_json(f"/v1/documents/{mine}:withdraw", {"reason": "A copy."}, status=200)

    assert (await load_known(admin, "A-1"))["pcf:A-1"]["total_gco2e"] == "86700.00"


async def test_documents_about_one_battery_complete_each_other_and_where_they_differ_somebody_decides(
    admin: Api,
) -> None:
    sheet, bom = await create_document(admin, "BOM"), await create_document(admin, "BOM")
    await upload(admin, sheet, {"battery": {"sku": "A-1", "capacity_kwh": 75.5, "mass_kg": 400}})
    await upload(admin, bom, {"battery": {"sku": "A-1", "capacity_kwh": "75.500", "mass_kg": 410, "chemistry": "NMC"}})

    known = (await load_known(admin, "A-1"))["battery:A-1"]
    [conflict] = (await admin.get_json("/v1/conflicts", params={"sku": "A-1"}))["conflicts"]

    assert (known["capacity_kwh"], known["mass_kg"], known["chemistry"]) == ("75.500000", "410.000000", "NMC")
    assert (conflict["member"], conflict["decided"]) == ("mass_kg", False)
    assert [(value["document_id"], value["value"], value["source_path"]) for value in conflict["values"]] == [
        (bom, "410.000000", "$.battery.mass_kg"),
        (sheet, "400.000000", "$.battery.mass_kg"),
    ]
    decision = {key: conflict[key] for key in ("fact_type", "fact_key", "member")}
    decided = await admin.post_json(
        "/v1/conflicts:resolve",
        {**decision, "sku": "A-1", "document_id": sheet, "reason": "It was weighed."},
        status=200,
    )
    assert [(one["decided"], one["values"][0]["document_id"]) for one in decided["conflicts"]] == [(True, sheet)]
    assert (await load_known(admin, "A-1"))["battery:A-1"] == {**known, "mass_kg": "400.000000"}


async def test_only_what_documents_differ_about_is_decided_and_for_one_of_them(admin: Api) -> None:
    sheet, bom = await create_document(admin, "BOM"), await create_document(admin, "BOM")
    other = await create_document(admin, "PCF")
    await upload(admin, sheet, {"battery": {"sku": "A-1", "capacity_kwh": 75.5, "mass_kg": 400}})
    await upload(admin, bom, {"battery": {"sku": "A-1", "capacity_kwh": 75.5, "mass_kg": 410}})
    decision = {"sku": "A-1", "fact_type": "Battery", "fact_key": "battery:A-1", "reason": "It was weighed."}

    same = await admin.post("/v1/conflicts:resolve", {**decision, "member": "capacity_kwh", "document_id": bom})
    foreign = await admin.post("/v1/conflicts:resolve", {**decision, "member": "mass_kg", "document_id": other})

    assert (same.status_code, same.json()["error"]["code"]) == (404, "NOT_FOUND")
    assert foreign.status_code == 409
    assert foreign.json()["error"]["details"]["document_ids"] == sorted([sheet, bom])


async def test_a_merged_fact_has_the_members_sources_and_is_not_merged_again(admin: Api) -> None:
    sheet, bom = await create_document(admin, "BOM"), await create_document(admin, "BOM")
    await upload(admin, sheet, {"battery": {"sku": "A-1", "mass_kg": 400}})
    newest = await upload(admin, bom, {"battery": {"sku": "A-1", "chemistry": "NMC"}})

    snapshots = [(await admin.post_json("/v1/snapshots", {"sku": "A-1"}))["snapshot_id"] for _ in range(2)]

    items = [(await admin.get_json(f"/v1/snapshots/{snapshot}/items"))["items"] for snapshot in snapshots]
    assert items[0] == items[1]
    [fact] = items[0]
    assert fact["source_document_version_id"] == newest
    assert len(fact["sources"]) == 2


async def test_what_a_merge_took_from_a_withdrawn_document_goes_with_it(admin: Api) -> None:
    sheet, bom = await create_document(admin, "BOM"), await create_document(admin, "BOM")
    await upload(admin, sheet, {"battery": {"sku": "A-1", "mass_kg": 400}})
    await upload(admin, bom, {"battery": {"sku": "A-1", "chemistry": "NMC"}})
    assert "mass_kg" in (await load_known(admin, "A-1"))["battery:A-1"]

    await admin.post_json(f"/v1/documents/{sheet}:withdraw", {"reason": "Another battery."}, status=200)

    assert (await load_known(admin, "A-1"))["battery:A-1"] == {"sku": "A-1", "chemistry": "NMC"}


async def test_a_document_that_contradicts_itself_is_a_conflict_too(admin: Api) -> None:
    document = await create_document(admin, "BOM")
    parts = [{"part": "cell", "mass_g": 10}, {"part": "cell", "mass_g": 20}]
    await upload(admin, document, {"battery": {"sku": "A-1"}, "components": parts})

    [conflict] = (await admin.get_json("/v1/conflicts", params={"sku": "A-1"}))["conflicts"]
    snapshot = await admin.post_json("/v1/snapshots", {"sku": "A-1"})

    assert [(value["value"], value["source_path"]) for value in conflict["values"]] == [
        ("10.000000", "$.components[0].mass_g"),
        ("20.000000", "$.components[1].mass_g"),
    ]
    assert snapshot["open_conflicts"] == 1
    of_snapshot = {"aggregate_type": "DataSnapshot", "aggregate_id": snapshot["snapshot_id"]}
    events = (await admin.get_json("/v1/audit/events", params=of_snapshot))["items"]
    [sealed] = [event["payload"] for event in events if event["event_type"] == "SNAPSHOT_SEALED"]
    assert sealed["open_conflicts"] == 1


async def test_a_version_that_is_read_after_the_withdrawal_does_not_count(admin: Api) -> None:
    document = await create_document(admin, "PCF")
    body = {"mime_type": "application/json", "content_base64": b64encode(orjson.dumps(footprint(1))).decode()}
    version = await admin.post_json(f"/v1/documents/{document}/versions", body)
    await admin.post_json(f"/v1/documents/{document}:withdraw", {"reason": "Too early."}, status=200)
    await wait_for_job(admin, version["job_id"])

    nothing = await admin.post("/v1/snapshots", {"sku": "A-1"})

    assert nothing.status_code == 409


async def test_a_product_is_sealed_only_by_who_may_seal_and_read(admin: Api, auditor: Api) -> None:
    await upload(admin, await create_document(admin, "PCF"), footprint(1))

    refused = await auditor.post("/v1/snapshots", {"sku": "A-1"})

    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "FORBIDDEN")
