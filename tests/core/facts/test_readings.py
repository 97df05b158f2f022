"""Readings are a series in time: the latest is by the time of recording, and the whole series is hashed."""

from uuid import UUID

import pytest

from bpc.core.facts.readings import (
    WINDOW,
    ReadingRef,
    build_series_fact,
    group_series,
    parse_reading_key,
    to_battery_value,
)
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import FactId


def make_reading(kind: str, day: int, value: str = "1") -> ReadingRef:
    time = f"2027-{day // 28 + 1:02d}-{day % 28 + 1:02d}T00:00:00.000000Z"
    return ReadingRef(FactId(UUID(int=day)), kind, time, sha256(value.encode()))


def test_a_series_is_in_the_order_of_recording_whatever_the_order_of_upload() -> None:
    readings = [make_reading("full_cycles", day) for day in (3, 1, 2)]

    [series] = group_series(readings)

    assert [reading.fact_id.int for reading in series.readings] == [1, 2, 3]


def test_each_kind_is_a_series_of_its_own() -> None:
    series = group_series([make_reading("full_cycles", 1), make_reading("capacity_fade_pct", 2)])

    assert [(each.kind, len(each.readings)) for each in series] == [("capacity_fade_pct", 1), ("full_cycles", 1)]


def test_a_snapshot_holds_the_newest_readings_and_the_hash_covers_all() -> None:
    days = range(WINDOW + 10)
    [series] = group_series([make_reading("full_cycles", day) for day in days])
    [changed] = group_series([make_reading("full_cycles", day, "2" if day == 0 else "1") for day in days])

    assert [reading.fact_id.int for reading in series.window] == list(days)[-WINDOW:]
    fact, other = build_series_fact("A", series), build_series_fact("A", changed)
    assert fact.payload["count"] == WINDOW + 10
    assert fact.payload["sha256"] != other.payload["sha256"], "a reading outside of the window counts"


def test_the_key_of_a_reading_names_its_kind_and_time() -> None:
    key = "reading:A-1:capacity_fade_pct:2027-06-01T00:00:00.000000Z"

    assert parse_reading_key(key, "A-1") == ("capacity_fade_pct", "2027-06-01T00:00:00.000000Z")


@pytest.mark.parametrize(
    ("kind", "reading", "value"),
    [
        ("capacity_fade_pct", {"number": "5.250000"}, "5.25"),
        ("full_cycles", {"number": "431.000000"}, 431),
        ("internal_resistance_ohm", {"number": "0.001250"}, "0.001250"),
        ("status", {"text": "re-used"}, "re-used"),
        ("capacity_fade_pct", {"number": "5.251000"}, None),
        ("capacity_fade_pct", {"text": "much"}, None),
        ("temperature_degc", {"number": "21.000000"}, None),
    ],
)
def test_a_reading_becomes_the_state_of_its_kind_or_nothing(kind: str, reading: dict[str, Json], value: Json) -> None:
    assert to_battery_value(kind, reading) == value
