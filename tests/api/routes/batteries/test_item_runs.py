"""Passports of single batteries over HTTP: checked first, issued once, below the model that they pin."""

import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.core.items.view import merge_view
from bpc.core.verify.item_bundle import verify_item_bundle
from bpc.core.verify.item_view import verify_item_view
from bpc.storage.database import Database
from bpc.tasks import item_run_storage
from tests.api.conftest import Api
from tests.api.item_fixtures import CSV, find_battery, issue_items, issue_model, request_items, run_jobs
from tests.core.items import sample_layers as sample
from tests.pipeline.compile_fixtures import SIGNER


@pytest.fixture
async def model(admin: Api, service: Service, database: Database, tenant: TenantId, act: Act) -> str:
    return await issue_model(admin, service, database, tenant, act)


async def test_a_file_becomes_passports_that_anyone_can_check(
    admin: Api, officer: Api, auditor: Api, service: Service, model: str
) -> None:
    report = await issue_items(officer, service)

    run = await auditor.get_json(f"/v1/item-runs/{report['run_id']}")
    assert (run["status"], run["issued"], run["refused"], run["model_version_id"]) == ("FINISHED", 3, 0, model)
    battery = await find_battery(auditor, "A1")
    view = await auditor.send("GET", f"/v1/batteries/{battery}/passport", params={"audience": "public"})
    bundle = await admin.send("GET", f"/v1/batteries/{battery}/bundle")
    payload = await auditor.get_json(f"/v1/batteries/{battery}/payload")
    assert verify_item_view(view.content, pins=[SIGNER.public_key]).ok
    checked = verify_item_bundle(bundle.content, pins=[SIGNER.public_key])
    assert (checked.ok, checked.issuer) == (True, "pinned"), checked.cause
    merged = merge_view(view.content)
    assert (merged.fields["item.serial"], merged.layers["item.serial"]) == ("A1", "item")
    assert (merged.layers["model.mass_g"], merged.versions["model"]) == ("model", model)
    assert (payload["verdict"], payload["subject_id"]) == ("PASS", battery)
    late = await find_battery(auditor, "A3")
    [version] = (await auditor.get_json(f"/v1/batteries/{late}/passport-versions"))["items"]
    assert (version["model_version_id"], version["status"]) == (model, "ISSUED")
    events = (await auditor.get_json("/v1/audit/events?aggregate_type=ItemBatch"))["items"]
    assert [(event["event_type"], event["payload"]["count"]) for event in events] == [("ITEMS_ISSUED", 3)]
    assert (await auditor.get_json("/v1/audit/verify"))["faults"] == []


async def test_a_product_without_an_active_passport_is_refused(admin: Api, officer: Api) -> None:
    missing = await request_items(officer)
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "NOT_FOUND")
    await admin.post_json("/v1/battery-products", {"sku": sample.SKU, "name": "Pack"})
    inactive = await request_items(officer)
    assert (inactive.status_code, "has no active passport" in inactive.text) == (409, True)


async def test_rows_with_faults_store_nothing_and_are_named(
    admin: Api, officer: Api, auditor: Api, service: Service, model: str
) -> None:
    faulty = CSV + b"A1,,,,\nA5,,2026-02-30,,\nA6,,,much,2.5\n"

    refused = await request_items(officer, faulty)
    checked = await request_items(officer, faulty, validate_only="true")

    faults = refused.json()["error"]["details"]["faults"]
    assert [(fault["line"], fault["column"]) for fault in faults] == [
        (5, "serial_number"),
        (6, "manufactured_on"),
        (7, "remaining_capacity_ah"),
        (7, "full_cycles"),
    ]
    assert (refused.status_code, checked.status_code, checked.json()["faults"]) == (422, 202, faults)
    assert (await auditor.get_json("/v1/batteries"))["items"] == []
    assert (await request_items(auditor)).status_code == 403
    other = await request_items(officer, rule_package_version_id=model)
    assert (other.status_code, "other rules" in other.json()["error"]["message"]) == (409, True)
    unknown = await request_items(officer, b"serial_number,colour\nA1,red\n")
    assert "unknown column `colour`" in unknown.json()["error"]["message"]


async def test_the_same_file_twice_changes_nothing(officer: Api, auditor: Api, service: Service, model: str) -> None:
    first = (await request_items(officer)).json()
    at_once = (await request_items(officer)).json()
    overlapping = await request_items(officer, b"serial_number\nA1\n")
    report = await issue_items(officer, service)
    longer = await issue_items(officer, service, CSV + b"A4,,,,\n")

    assert first["run_id"] == at_once["run_id"] == report["run_id"]
    assert (first["new"], at_once["new"], report["unchanged"]) == (3, 0, 3)
    assert "is being issued by run" in overlapping.json()["error"]["message"]
    assert (longer["new"], longer["unchanged"]) == (1, 3)
    runs = (await auditor.get_json("/v1/item-runs"))["items"]
    assert [(run["total"], run["issued"], run["status"]) for run in runs] == [(1, 1, "FINISHED"), (3, 3, "FINISHED")]
    for serial in ("A1", "A4"):
        versions = await auditor.get_json(f"/v1/batteries/{await find_battery(auditor, serial)}/passport-versions")
        assert len(versions["items"]) == 1


async def test_a_new_model_changes_no_battery_until_it_is_issued_again(
    admin: Api, officer: Api, auditor: Api, service: Service, database: Database, tenant: TenantId, act: Act, model: str
) -> None:
    await issue_items(officer, service)
    later_model = await issue_model(admin, service, database, tenant, act, mass="900")
    battery = await find_battery(auditor, "A1")
    before = await auditor.get_json(f"/v1/batteries/{battery}/passport", params={"audience": "public"})

    unchanged = await issue_items(officer, service, CSV)
    changed = await request_items(officer, CSV.replace(b"9.5,3", b"9.4,3"))
    again = await issue_items(officer, service, CSV, reissue="true")

    after = await auditor.send("GET", f"/v1/batteries/{battery}/passport", params={"audience": "public"})
    versions = (await auditor.get_json(f"/v1/batteries/{battery}/passport-versions"))["items"]
    at = await auditor.get_json(
        f"/v1/batteries/{battery}/passport", params={"audience": "public", "at": versions[1]["issued_at"]}
    )
    assert (unchanged["run_id"], unchanged["unchanged"]) == (None, 3)
    assert "has a passport with other data" in changed.json()["error"]["message"]
    assert (again["new"], [version["model_version_id"] for version in versions]) == (3, [later_model, model])
    assert verify_item_view(after.content, pins=[SIGNER.public_key]).ok
    assert at == before != after.json()


async def test_a_run_is_stopped_and_resumed(
    officer: Api, auditor: Api, service: Service, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_run_storage, "CHUNK_SIZE", 2)
    run = (await request_items(officer)).json()["run_id"]
    stopped = await officer.post_json(f"/v1/item-runs/{run}:stop", status=200)
    await run_jobs(service)
    waiting = await auditor.get_json(f"/v1/item-runs/{run}")

    resumed = await officer.post_json(f"/v1/item-runs/{run}:resume", status=200)
    await run_jobs(service)
    await officer.post_json(f"/v1/item-runs/{run}:resume", status=200)
    await run_jobs(service)

    finished = await auditor.get_json(f"/v1/item-runs/{run}")
    assert (stopped["status"], waiting["status"], waiting["issued"]) == ("STOPPED", "STOPPED", 0)
    assert (resumed["status"], finished["status"], finished["issued"]) == ("RUNNING", "FINISHED", 3)
    assert finished["rate"] is not None
    events = (await auditor.get_json("/v1/audit/events?aggregate_type=ItemBatch"))["items"]
    assert sorted(event["payload"]["count"] for event in events) == [1, 2]


async def test_a_battery_that_the_rules_refuse_is_named_and_stops_no_other(
    admin: Api, officer: Api, auditor: Api, service: Service, database: Database, tenant: TenantId, act: Act
) -> None:
    rules = sample.RULES + "field item.share @public: Dec(2) = toDec(2, 100 / (item.full_cycles ?? 1));\n"
    await issue_model(admin, service, database, tenant, act, rules=rules)

    report = await issue_items(officer, service, CSV.replace(b"9.5,3", b"9.5,0"))

    run = await auditor.get_json(f"/v1/item-runs/{report['run_id']}")
    assert (run["status"], run["issued"], run["refused"]) == ("FINISHED", 2, 1)
    [refusal] = run["refusals"]
    assert (refusal["serial_number"], refusal["code"]) == ("A1", "DIVISION_BY_ZERO")
    answer = await auditor.send("GET", f"/v1/batteries/{refusal['battery_id']}/passport", params={"audience": "public"})
    assert (answer.status_code, "has no passport of its own" in answer.text) == (404, True)


async def test_another_tenant_sees_neither_runs_nor_passports(
    officer: Api, auditor: Api, other_admin: Api, service: Service, model: str
) -> None:
    run = (await issue_items(officer, service))["run_id"]
    battery = await find_battery(auditor, "A1")

    for path in (f"/v1/item-runs/{run}", f"/v1/batteries/{battery}/payload", f"/v1/batteries/{battery}/bundle"):
        assert (await other_admin.send("GET", path)).status_code == 404
    for step in ("stop", "resume"):
        assert (await other_admin.post(f"/v1/item-runs/{run}:{step}")).status_code == 404
    assert (await other_admin.get_json("/v1/item-runs"))["items"] == []


async def test_readings_of_a_battery_are_sealed_in_its_next_passport(
    admin: Api, officer: Api, auditor: Api, service: Service, model: str
) -> None:
    await issue_items(officer, service)
    battery = await find_battery(auditor, "A3")
    reading = {"kind": "full_cycles", "recorded_at": "2026-09-01T00:00:00Z", "value": "40"}
    await officer.post_json(f"/v1/batteries/{battery}/readings", {"source": "BMS", "readings": [reading]})

    again = await issue_items(officer, service, b"serial_number\nA3\n", reissue="true")

    bundle = await admin.send("GET", f"/v1/batteries/{battery}/bundle")
    payload = await auditor.get_json(f"/v1/batteries/{battery}/payload")
    later = {**reading, "recorded_at": "2026-10-01T00:00:00Z"}
    await officer.post_json(f"/v1/batteries/{battery}/readings", {"source": "BMS", "readings": [later]})
    once_more = await issue_items(officer, service, b"serial_number\nA3\n", reissue="true")
    same = await issue_items(officer, service, b"serial_number\nA3\n", reissue="true")
    assert (again["new"], payload["fields"]["item"]["readings"]) == (1, 1)
    assert (once_more["new"], same["new"], same["run_id"]) == (1, 0, None)
    assert verify_item_bundle(bundle.content, pins=[SIGNER.public_key]).ok


async def test_the_passport_of_a_recycled_battery_has_ceased(
    officer: Api, auditor: Api, service: Service, model: str
) -> None:
    await issue_items(officer, service)
    battery = await find_battery(auditor, "A1")
    step = {"effective_on": "2026-09-01", "performed_by": "GLN:9521234000006"}
    await officer.post_json(f"/v1/batteries/{battery}:declare-waste", {**step, "reason": "old"}, status=200)
    await officer.post_json(f"/v1/batteries/{battery}:recycle", {**step, "report": "R-1"}, status=200)

    view = await auditor.send("GET", f"/v1/batteries/{battery}/passport", params={"audience": "public"})
    again = await request_items(officer, CSV, reissue="true")

    assert (view.status_code, "has ceased" in view.text) == (404, True)
    assert "has ceased, or it lives on" in again.json()["error"]["message"]
    [version] = (await auditor.get_json(f"/v1/batteries/{battery}/passport-versions"))["items"]
    before = {"audience": "public", "at": version["issued_at"]}
    assert (await auditor.send("GET", f"/v1/batteries/{battery}/passport", params=before)).status_code == 200
