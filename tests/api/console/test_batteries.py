"""Batteries in the console: found by what a label says, registered and issued by file, and their life on one page."""

from datetime import timedelta

import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.core.formats.timestamps import format_time
from bpc.runtime import clock
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.api.console.conftest import Browser
from tests.api.item_fixtures import CSV, find_battery, issue_model, run_jobs
from tests.core.items import sample_layers as sample

REGISTRATION = f"sku,serial_number\n{sample.SKU},R1\n{sample.SKU},R2\n"


async def register(browser: Browser, content: str) -> str:
    await browser.get("/console/batteries")
    answer = await browser.send("/console/batteries/register", files={"file": ("line 7.csv", content, "text/csv")})
    assert answer.status_code == 200, answer.text
    return answer.text


async def test_a_file_registers_batteries_or_names_each_row_with_a_fault(admin_browser: Browser, admin: Api) -> None:
    await admin.post_json("/v1/battery-products", {"sku": sample.SKU, "name": "Pack"})

    faulty = await register(admin_browser, f"{REGISTRATION}{sample.SKU},\nNO-SUCH,R3\n")
    none_stored = (await admin.get_json("/v1/batteries"))["items"]
    right = await register(admin_browser, REGISTRATION)
    again = await register(admin_browser, REGISTRATION)

    assert "Nothing was stored" in faulty
    assert "NO-SUCH" in faulty
    assert none_stored == []
    assert "2 batteries are registered now" in right
    assert "0 batteries are registered now, 2 were registered before" in again


async def test_a_battery_is_found_by_what_its_label_says(admin_browser: Browser, admin: Api) -> None:
    await admin.post_json("/v1/battery-products", {"sku": sample.SKU, "name": "Pack"})
    await register(admin_browser, REGISTRATION)
    battery = await find_battery(admin, "R2")
    address = (await admin.get_json(f"/v1/batteries/{battery}"))["address"]

    for text in ("R2", address):
        answer = await admin_browser.get("/console/batteries", params={"q": text})
        assert answer.headers["location"] == f"/console/batteries/{battery}", text
    nothing = await admin_browser.show("/console/batteries?q=R9")

    assert "R1" not in nothing
    assert "No battery fits" in nothing


@pytest.mark.slow
async def test_a_run_is_started_watched_and_each_battery_shows_its_life(
    admin_browser: Browser,
    browsers: dict[str, Browser],
    admin: Api,
    service: Service,
    database: Database,
    tenant: TenantId,
    act: Act,
) -> None:
    model = await issue_model(admin, service, database, tenant, act)
    await admin_browser.get("/console/runs")
    files = {"file": ("a.csv", CSV, "text/csv")}

    started = await admin_browser.send("/console/runs", {"sku": sample.SKU}, files=files)
    run_page = started.headers["location"].partition("?")[0]
    running = await admin_browser.show(f"{run_page}/state")
    await run_jobs(service)
    finished = await admin_browser.show(run_page)
    repeated = await admin_browser.send("/console/runs", {"sku": sample.SKU}, files=files)

    assert 'hx-trigger="load delay:1s"' in running
    assert "hx-trigger" not in (await admin_browser.show(f"{run_page}/state"))
    assert "finished" in finished
    assert "unchanged" in repeated.headers["location"] or run_page in repeated.headers["location"]
    battery = await find_battery(admin, "A1")
    days = [clock.now() - timedelta(days=number) for number in (3, 2, 1)]
    readings = [
        {"kind": "capacity_fade_pct", "recorded_at": format_time(day), "value": str(number)}
        for number, day in enumerate(days)
    ]
    await admin.post_json(f"/v1/batteries/{battery}/readings", {"source": "BMS", "readings": readings})
    page = await browsers["Auditor"].show(f"/console/batteries/{battery}")
    views = await browsers["Auditor"].show(f"/console/batteries/{battery}/view")
    assert "passport issued" in page
    assert model[:8] in page
    assert "capacity_fade_pct" in page
    assert "[0.0, 1.0, 2.0]" in page
    assert "model.mass_g" in views
    assert "everybody" in views
    assert "/step" not in page  # an auditor records nothing


async def test_what_happened_to_a_battery_is_recorded_on_its_page(admin_browser: Browser, admin: Api) -> None:
    await admin.post_json("/v1/battery-products", {"sku": sample.SKU, "name": "Pack"})
    await register(admin_browser, REGISTRATION)
    battery = await find_battery(admin, "R1")
    day = format_time(clock.now())[:10]
    step = {"effective_on": day, "performed_by": "GLN:9521234000006", "reason": "handed in <b>"}
    path = f"/console/batteries/{battery}"
    await admin_browser.get(path)

    answers = [
        await admin_browser.send(f"{path}/step", fields)
        for fields in ({"step": "placed", "placed_on": day}, {"step": "waste", **step}, {"step": "explode"})
    ]
    page = await admin_browser.show(path)

    assert [answer.status_code for answer in answers] == [303, 303, 422]
    assert "handed in &lt;b&gt;" in page
    assert "declared waste" in page
    assert "Recycled" in page
