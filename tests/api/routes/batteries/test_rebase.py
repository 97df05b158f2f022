"""Batteries that pin an earlier version of their model are issued again in bulk, with what is known of them."""

from typing import Any

import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.core.items.view import merge_view
from bpc.core.verify.item_bundle import verify_anything
from bpc.storage.database import Database
from bpc.tasks import rebase_items
from tests.api.conftest import Api
from tests.api.item_fixtures import SKU, find_battery, issue_items, issue_model, run_jobs
from tests.pipeline.compile_fixtures import SIGNER


@pytest.fixture
async def model(admin: Api, service: Service, database: Database, tenant: TenantId, act: Act) -> str:
    return await issue_model(admin, service, database, tenant, act)


async def rebase(api: Api, service: Service, *, after: str | None = None) -> Any:
    params = {"sku": SKU} if after is None else {"sku": SKU, "after": after}
    answer = await api.send("POST", "/v1/item-runs:rebase", params=params)
    assert answer.status_code == 202, answer.text
    await run_jobs(service)
    return answer.json()


async def list_versions(api: Api, serial: str) -> list[dict[str, Any]]:
    return list((await api.get_json(f"/v1/batteries/{await find_battery(api, serial)}/passport-versions"))["items"])


async def load_fields(api: Api, serial: str) -> Any:
    battery = await find_battery(api, serial)
    view = await api.send("GET", f"/v1/batteries/{battery}/passport", params={"audience": "authority"})
    return merge_view(view.content).fields


async def test_batteries_keep_what_they_pin_until_they_are_rebased(
    admin: Api, officer: Api, auditor: Api, service: Service, database: Database, tenant: TenantId, act: Act, model: str
) -> None:
    await issue_items(officer, service)
    none = await rebase(officer, service)
    before = await load_fields(auditor, "A1")
    later = await issue_model(admin, service, database, tenant, act, mass="900")
    [kept] = await list_versions(auditor, "A1")

    report = await rebase(officer, service)
    again = await rebase(officer, service)

    assert none == {"run_id": None, "new": 0, "batches": 0, "after": None}
    assert (kept["model_version_id"], kept["model_is_active"]) == (model, False)
    assert (report["new"], again["new"], again["run_id"]) == (3, 0, None)
    newest, oldest = await list_versions(auditor, "A1")
    assert (newest["model_version_id"], newest["model_is_active"]) == (later, True)
    assert oldest["model_is_active"] is False
    after = await load_fields(auditor, "A1")
    assert (before["model.mass_g"], after["model.mass_g"]) == ("800.000000", "900.000000")
    assert before["item.health_pct"] == after["item.health_pct"] == "95.00", "what the file stated is kept"
    bundle = await admin.send("GET", f"/v1/batteries/{await find_battery(auditor, 'A1')}/bundle")
    assert verify_anything(bundle.content, pins=[SIGNER.public_key]).ok
    assert (await auditor.send("POST", "/v1/item-runs:rebase", params={"sku": SKU})).status_code == 403


async def test_readings_since_then_count_and_what_was_stated_beside_them_stays(
    admin: Api, officer: Api, auditor: Api, service: Service, database: Database, tenant: TenantId, act: Act, model: str
) -> None:
    def read_out(day: str, value: str) -> dict[str, Any]:
        reading = {"kind": "remaining_capacity_ah", "recorded_at": f"2026-{day}T00:00:00Z", "value": value}
        return {"source": "BMS", "readings": [reading]}

    await officer.post_json("/v1/batteries", {"sku": SKU, "serial_number": "R1"})
    battery = await find_battery(auditor, "R1")
    await officer.post_json(f"/v1/batteries/{battery}/readings", read_out("08-01", "9.5"))
    await issue_items(officer, service, b"serial_number,full_cycles\nR1,3\n")
    await officer.post_json(f"/v1/batteries/{battery}/readings", read_out("09-01", "8.0"))
    await issue_model(admin, service, database, tenant, act, mass="900")

    before = await load_fields(auditor, "R1")
    await rebase(officer, service)

    assert before["item.health_pct"] == "95.00"
    assert (await load_fields(auditor, "R1"))["item.health_pct"] == "80.00"


async def test_batches_are_issued_again_before_their_batteries(
    admin: Api, officer: Api, auditor: Api, service: Service, database: Database, tenant: TenantId, act: Act, model: str
) -> None:
    batch = (await officer.post_json("/v1/batches", {"sku": SKU, "batch_number": "B1"}))["battery_batch_id"]
    await officer.post_json(f"/v1/batches/{batch}:issue", {"facility_id": "PLANT-7"}, status=202)
    await run_jobs(service)
    await issue_items(officer, service)
    later = await issue_model(admin, service, database, tenant, act, mass="900")

    first = await rebase(officer, service)
    second = await rebase(officer, service)

    assert (first["batches"], first["run_id"], first["new"]) == (1, None, 0)
    assert (second["batches"], second["new"]) == (0, 3)
    newest_batch = (await auditor.get_json(f"/v1/batches/{batch}/passport-versions"))["items"][0]
    newest = (await list_versions(auditor, "A1"))[0]
    assert (newest["batch_version_id"], newest["model_version_id"]) == (newest_batch["passport_version_id"], later)
    assert (await load_fields(auditor, "A1"))["batch.plant"] == "PLANT-7"


@pytest.mark.long
async def test_a_new_version_of_a_batch_alone_is_taken_over_as_well(
    officer: Api, auditor: Api, service: Service, model: str
) -> None:
    batch = (await officer.post_json("/v1/batches", {"sku": SKU, "batch_number": "B1"}))["battery_batch_id"]
    for plant in ("PLANT-7", "PLANT-8"):
        await officer.post_json(f"/v1/batches/{batch}:issue", {"facility_id": plant}, status=202)
        await run_jobs(service)
        if plant == "PLANT-7":
            await issue_items(officer, service)

    report = await rebase(officer, service)

    assert report["new"] == 2, "the third lies directly below its model"
    assert (await load_fields(auditor, "A1"))["batch.plant"] == "PLANT-8"


@pytest.mark.long
async def test_many_chunks_are_looked_through_in_steps_and_ended_batteries_are_left_out(
    admin: Api,
    officer: Api,
    auditor: Api,
    service: Service,
    database: Database,
    tenant: TenantId,
    act: Act,
    model: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rebase_items, "CHUNKS_AT_ONCE", 1)
    for number in range(3):
        await issue_items(officer, service, b"serial_number\nS%d\n" % number)
    said = {"effective_on": "2026-08-20", "performed_by": "GLN:9521234000006", "reason": "old", "report": "R-1"}
    ended = await find_battery(auditor, "S0")
    waste = {name: value for name, value in said.items() if name != "report"}
    await officer.post_json(f"/v1/batteries/{ended}:declare-waste", waste, status=200)
    recycled = {name: value for name, value in said.items() if name != "reason"}
    await officer.post_json(f"/v1/batteries/{ended}:recycle", recycled, status=200)
    await issue_model(admin, service, database, tenant, act, mass="900")

    reports, after = [], None
    while True:
        reports.append(await rebase(officer, service, after=after))
        after = reports[-1]["after"]
        if after is None:
            break

    assert sum(report["new"] for report in reports) == 2
    assert len(reports) == 4, "one for each chunk, and one that finds none"
    assert len(await list_versions(auditor, "S0")) == 1
