"""Readings of batteries: values of the one model, and a picture that is the same on every machine."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from bpc.core.batteries.reading_rows import READING_KINDS, BatteryRef, build_reading_payload, check_readings, is_epcis
from bpc.core.batteries.row_files import FileRow
from bpc.core.batteries.series_picture import MAX_POINTS, draw_series
from bpc.core.facts.schemas import SCHEMAS, STATE_MEMBERS
from bpc.core.formats.ids import BatteryId
from bpc.core.language.types import FactRecordType

NOON = datetime(2027, 8, 18, 12, tzinfo=UTC)
BATTERY = BatteryId(UUID(int=7))


def test_a_number_has_six_decimals_and_a_text_stays_as_it_is() -> None:
    rows = [
        FileRow(1, {"kind": "self_discharge_evolution_pct", "recorded_at": "2027-08-18T12:00:00Z", "value": "-0.5"}),
        FileRow(2, {"kind": "full_cycles", "recorded_at": "2027-08-18T12:00:00Z", "value": "247"}),
        FileRow(3, {"kind": "negative_events", "recorded_at": "2027-08-18T12:00:00Z", "value": "fell from a lift"}),
        FileRow(4, {"kind": "owner_id", "recorded_at": "2027-08-18T12:00:00Z", "value": "GLN:9521234000006"}),
    ]

    readings, faults = check_readings(rows, received_at=NOON, battery=BATTERY)

    assert faults == []
    assert [(each.number, each.text) for each in readings] == [
        ("-0.500000", None),
        ("247.000000", None),
        (None, "fell from a lift"),
        (None, "GLN:9521234000006"),
    ]
    assert {each.battery for each in readings} == {BatteryRef(battery_id=BATTERY)}
    payload = build_reading_payload("P", "full_cycles", NOON, "247.000000", None)
    assert payload.keys() <= SCHEMAS[FactRecordType("Reading", 1)].keys()
    assert payload["recorded_on"] == "2027-08-18"


def test_every_state_of_a_battery_but_its_status_is_a_kind() -> None:
    assert set(READING_KINDS) - {"owner_id", "previous_owner_id"} == STATE_MEMBERS - {
        "status",
        "state_of_charge_records",
    }
    assert is_epcis(b' {"epcisBody": {}}')
    assert not is_epcis(b'{"kind": "power_w"}\n')


def test_a_picture_shows_first_and_last_lowest_and_highest_and_never_grows_without_end() -> None:
    points = [(NOON + timedelta(days=day), f"{100 - day / 100:.6f}") for day in range(2_000)]

    picture = draw_series("fade <of> A&1", points).decode()

    assert picture == draw_series("fade <of> A&1", points).decode()
    assert "fade &lt;of> A&amp;1" in picture
    assert "2027-08-18" in picture
    assert points[-1][0].date().isoformat() in picture
    assert ">100<" in picture
    assert ">80.01<" in picture
    assert picture.split('points="')[1].split('"')[0].count(" ") == MAX_POINTS - 1
    assert "240,80" in draw_series("one", points[:1]).decode()
    assert ">-0.5<" in draw_series("negative", [(NOON, "-0.500000"), (NOON + timedelta(days=1), "1.0")]).decode()
