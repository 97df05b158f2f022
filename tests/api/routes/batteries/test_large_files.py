"""A file with many rows leaves the event loop to others: nothing of it holds the loop for 50 ms at a stretch."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bpc.runtime.settings import Settings
from tests.api.conftest import Api
from tests.api.item_fixtures import SKU
from tests.measurements import choose_effort
from tests.neighbours.loop_watch import LoopWatch, watch_loop

LONGEST_MS = 50.0
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


async def _send(admin: Api, path: str, lines: list[str], **params: str) -> Any:
    answer = await admin.send("POST", path, content="\n".join(lines).encode(), params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _write_reading(minute: int) -> str:
    return f"A1,{SKU},capacity_fade_pct,{(BEGAN + timedelta(minutes=minute)).isoformat()},4.5"


def _check(watch: LoopWatch, name: str) -> None:
    assert watch.longest.milliseconds < LONGEST_MS, (name, watch.longest)
    watch.reset()


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"request_timeout_seconds": 600})  # however busy the machine is


@pytest.mark.long
async def test_no_file_and_no_long_series_holds_the_event_loop(admin: Api) -> None:
    count = choose_effort(test=20_000, shown=20_000, campaign=100_000)
    await admin.post_json("/v1/battery-products", {"sku": SKU, "name": "Pack"})
    batteries = ["sku,serial_number,batch_number,plant,manufactured_on"]
    batteries += [f"{SKU},A{number},B1,GLN:9521234000013,2024-08-01" for number in range(count)]
    strangers = ["sku,serial_number", *(f"OTHER,A{number}" for number in range(count))]
    readings = ["serial_number,sku,kind,recorded_at,value", *map(_write_reading, range(count))]

    with watch_loop() as watch:
        assert (await _send(admin, "/v1/batteries:register", batteries))["registered"] == count
        _check(watch, "register")
        assert (await _send(admin, "/v1/batteries:register", batteries))["unchanged"] == count
        _check(watch, "register again")
        report = await _send(admin, "/v1/batteries:register", strangers, validate_only="true")
        assert report["faults_total"] == count
        _check(watch, "rows with faults")
        assert (await _send(admin, "/v1/batteries:readings", readings, source="BMS"))["stored"] == count
        _check(watch, "readings")
        [battery] = (await admin.get_json("/v1/batteries", params={"serial_number": "A1"}))["items"]
        series = await admin.get_json(f"/v1/batteries/{battery['battery_id']}/series")
        assert series["items"][0]["count"] == count
        _check(watch, "series")
