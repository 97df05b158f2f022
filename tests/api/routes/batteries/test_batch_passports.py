"""Passports of batches over HTTP: issued below their model, pinned by their batteries, checked with them as one."""

from typing import Any

import asyncpg
import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.core.items.bundle import ABOVE_ENTRY, read_item_bundle
from bpc.core.items.view import merge_view
from bpc.core.passport.bundle import write_archive
from bpc.core.verify.item_bundle import verify_anything
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.api.item_fixtures import CSV, SKU, find_battery, issue_items, issue_model, request_items, run_jobs
from tests.pipeline.compile_fixtures import SIGNER

PINS = [SIGNER.public_key]
STATEMENTS = {"facility_id": "PLANT-7", "manufactured_on": "2026-08-01"}


@pytest.fixture
async def model(admin: Api, service: Service, database: Database, tenant: TenantId, act: Act) -> str:
    return await issue_model(admin, service, database, tenant, act)


@pytest.fixture
async def batch(officer: Api, model: str) -> str:
    return await create_batch(officer)


async def create_batch(api: Api, number: str = "B1", **members: str) -> str:
    body = {"sku": SKU, "batch_number": number, **members}
    return str((await api.post_json("/v1/batches", body))["battery_batch_id"])


async def issue_batch(api: Api, service: Service, batch: str, statements: dict[str, str] = STATEMENTS) -> Any:
    """The newest version of a batch, once it was issued or refused."""
    await api.post_json(f"/v1/batches/{batch}:issue", statements, status=202)
    await run_jobs(service)
    return (await api.get_json(f"/v1/batches/{batch}/passport-versions"))["items"][0]


async def list_versions(api: Api, serial: str) -> list[dict[str, Any]]:
    return list((await api.get_json(f"/v1/batteries/{await find_battery(api, serial)}/passport-versions"))["items"])


async def test_a_battery_lies_below_its_batch_and_its_model_as_one_passport(
    admin: Api, officer: Api, auditor: Api, service: Service, model: str, batch: str
) -> None:
    version = await issue_batch(officer, service, batch)
    await issue_items(officer, service)

    assert (version["status"], version["model_version_id"], version["fail_count"]) == ("ISSUED", model, 0)
    [below] = await list_versions(auditor, "A1")
    [alone] = await list_versions(auditor, "A3")
    assert (below["batch_version_id"], alone["batch_version_id"]) == (version["passport_version_id"], None)
    battery = await find_battery(auditor, "A1")
    view = await auditor.send("GET", f"/v1/batteries/{battery}/passport", params={"audience": "interest"})
    bundle = await admin.send("GET", f"/v1/batteries/{battery}/bundle")
    for artifact in (view, bundle):
        report = verify_anything(artifact.content, pins=PINS)
        assert report.ok, report.cause
    merged = merge_view(view.content)
    assert merged.versions == {
        "model": model,
        "batch": version["passport_version_id"],
        "item": below["passport_version_id"],
    }
    assert (merged.fields["batch.plant"], merged.layers["batch.plant"]) == ("PLANT-7", "batch")
    assert merged.fields["item.plant_note"] == "A1 made in PLANT-7 by PLANT-7"
    assert merged.layers["batch.made_on"] == "batch"
    payload = await auditor.get_json(f"/v1/batteries/{battery}/payload")
    assert [pin["layer"] for pin in payload["above"]] == ["model", "batch"]
    assert "batch" not in payload["fields"]


async def test_a_batch_has_a_view_a_payload_and_a_bundle_of_its_own(
    admin: Api, officer: Api, auditor: Api, service: Service, model: str, batch: str
) -> None:
    missing = await auditor.send("GET", f"/v1/batches/{batch}/payload")
    version = await issue_batch(officer, service, batch)
    again = await issue_batch(officer, service, batch)

    view = await auditor.send("GET", f"/v1/batches/{batch}/passport", params={"audience": "public"})
    bundle = await admin.send("GET", f"/v1/batches/{batch}/bundle")
    payload = await auditor.get_json(f"/v1/batches/{batch}/payload")
    assert (missing.status_code, "has no passport of its own" in missing.text) == (404, True)
    assert again == version, "saying the same again changes nothing"
    assert all(verify_anything(artifact.content, pins=PINS).ok for artifact in (view, bundle))
    assert (payload["payload_version"], payload["subject_id"]) == ("BPC-BATCH-PAYLOAD-1", batch)
    assert (await auditor.send("POST", f"/v1/batches/{batch}:issue", {})).status_code == 403
    events = (await auditor.get_json("/v1/audit/events?aggregate_type=BatteryBatch"))["items"]
    assert [event["event_type"] for event in reversed(events)] == [
        "BATCH_CREATED",
        "BATCH_PASSPORT_REQUESTED",
        "BATCH_PASSPORT_ISSUED",
    ]


async def test_what_is_on_record_of_a_batch_cannot_be_stated_otherwise(
    officer: Api, service: Service, model: str
) -> None:
    batch = await create_batch(officer, "B2", manufactured_on="2026-08-01")

    other = await officer.send("POST", f"/v1/batches/{batch}:issue", {"manufactured_on": "2026-08-02"})
    same = await issue_batch(officer, service, batch)

    assert (other.status_code, "is `2026-08-01`" in other.json()["error"]["message"]) == (422, True)
    assert same["status"] == "ISSUED"


async def test_a_battery_waits_for_its_batch_and_never_lies_below_two_versions_of_its_model(
    admin: Api,
    officer: Api,
    auditor: Api,
    service: Service,
    database: Database,
    tenant: TenantId,
    act: Act,
    model: str,
    batch: str,
) -> None:
    await officer.post_json(f"/v1/batches/{batch}:issue", STATEMENTS, status=202)
    early = await request_items(officer)
    meanwhile = await officer.send("POST", f"/v1/batches/{batch}:issue", {"manufacturing_country": "DE"})
    await run_jobs(service)
    await issue_items(officer, service)
    later_model = await issue_model(admin, service, database, tenant, act, mass="900")

    stale = await request_items(officer, CSV, reissue="true")
    version = await issue_batch(officer, service, batch)
    again = await issue_items(officer, service, CSV, reissue="true")

    assert "the passport of its batch is being issued" in early.text
    assert (meanwhile.status_code, "is being issued" in meanwhile.text) == (409, True)
    faults = stale.json()["error"]["details"]["faults"]
    assert [(fault["line"], fault["column"]) for fault in faults] == [(2, "batch_number"), (3, "batch_number")]
    assert "below an earlier version of the model" in stale.text
    assert (version["model_version_id"], again["new"]) == (later_model, 3)
    newest, oldest = await list_versions(auditor, "A1")
    assert (newest["batch_version_id"], newest["model_version_id"]) == (version["passport_version_id"], later_model)
    assert (oldest["model_version_id"], oldest["batch_version_id"] != newest["batch_version_id"]) == (model, True)
    battery = await find_battery(auditor, "A1")
    await _check_forged_links(admin, batch, battery, oldest["issued_at"])


async def _check_forged_links(admin: Api, batch: str, battery: str, earlier: str) -> None:
    """Neither an older batch nor the model alone can be put above a battery, nor its own model above an older one."""
    new = (await admin.send("GET", f"/v1/batteries/{battery}/bundle")).content
    old = (await admin.send("GET", f"/v1/batteries/{battery}/bundle", params={"at": earlier})).content
    old_batch = (await admin.send("GET", f"/v1/batches/{batch}/bundle", params={"at": earlier})).content
    assert all(verify_anything(bundle, pins=PINS).ok for bundle in (new, old, old_batch))
    entries, others = read_item_bundle(new).entries, read_item_bundle(old).entries
    assert others[ABOVE_ENTRY] == old_batch
    model = read_item_bundle(entries[ABOVE_ENTRY]).entries[ABOVE_ENTRY]
    for above in (old_batch, model, read_item_bundle(old_batch).entries[ABOVE_ENTRY]):
        report = verify_anything(write_archive({**entries, ABOVE_ENTRY: above}), pins=PINS)
        assert (report.cause is not None, report.cause and report.cause.name) == (True, "links")


async def test_a_batch_that_the_rules_refuse_says_why_and_stops_nothing(
    admin: Api, officer: Api, service: Service, database: Database, tenant: TenantId, act: Act
) -> None:
    rules = """language 2;
def batch = Batch for productSku();
field batch.days @public: Dec(2) =
  let made = batch.manufactured_on ?? date("2026-01-01");
  toDec(2, 10 / daysBetween(date("2026-08-01"), made));
"""
    await issue_model(admin, service, database, tenant, act, rules=rules)
    batch = await create_batch(officer)

    refused = await issue_batch(officer, service, batch, {"manufactured_on": "2026-08-01"})
    corrected = await issue_batch(officer, service, batch, {"manufactured_on": "2026-08-02"})

    assert (refused["status"], refused["receipt_hash"]) == ("REFUSED", None)
    assert refused["refusal"]
    assert corrected["status"] == "ISSUED"


async def test_the_audit_names_what_was_changed_in_a_batch(
    officer: Api, auditor: Api, service: Service, superuser: "asyncpg.Connection[asyncpg.Record]", batch: str
) -> None:
    await issue_batch(officer, service, batch)
    assert await _list_faults(auditor) == []

    await superuser.execute("SET session_replication_role = replica; UPDATE batch_passport_versions SET warn_count = 7")

    assert [(fault["column"], fault["problem"]) for fault in await _list_faults(auditor)] == [("warn_count", "CHANGED")]
    await superuser.execute("UPDATE batch_passport_versions SET receipt_hash = sha256(receipt_hash)")
    answer = await auditor.send("GET", f"/v1/batches/{batch}/payload")
    assert (answer.status_code, "are not those on record" in answer.text) == (409, True)


async def _list_faults(auditor: Api) -> list[dict[str, Any]]:
    faults = (await auditor.get_json("/v1/audit/verify"))["row_faults"]
    return [fault for fault in faults if fault["table"] == "batch_passport_versions"]
