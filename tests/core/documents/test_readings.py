"""Readings: every state that a document gives with a time is kept with that time."""

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.documents.elements import FactElement, NumberText, RawValue
from bpc.core.documents.readings import build_readings, normalise_moment
from bpc.core.facts.schemas import STATE_MEMBERS

AT = "2027-02-18T09:30:00+01:00"
MOMENT = "2027-02-18T08:30:00.000000Z"


def list_values(readings: list[FactElement]) -> list[tuple[RawValue, RawValue, RawValue, str]]:
    return [
        (
            reading.members["kind"],
            reading.members["recorded_at"],
            reading.members.get("number", reading.members.get("text")),
            reading.path,
        )
        for reading in readings
    ]


def test_a_state_is_a_reading_at_its_time_in_utc() -> None:
    [reading] = build_readings("A", AT, {"full_cycles": NumberText("247")}, "$.events[0]")

    assert reading == FactElement(
        "Reading",
        "$.events[0]",
        {
            "sku": "A",
            "kind": "full_cycles",
            "recorded_at": MOMENT,
            "recorded_on": "2027-02-18",
            "number": NumberText("247"),
        },
        places={"number": "$.events[0]"},
    )


def test_numbers_and_texts_are_readings_and_what_never_changes_is_none() -> None:
    members: dict[str, RawValue] = {
        "sku": "A",
        "mass_kg": NumberText("450"),
        "status": "re-used",
        "capacity_fade_pct": "3.2",
        "state_recorded_on": "2027-02-18",
    }

    assert list_values(build_readings("A", AT, members, "$")) == [
        ("capacity_fade_pct", MOMENT, "3.2", "$"),
        ("status", MOMENT, "re-used", "$"),
    ]


def test_a_record_has_its_own_time_and_one_without_has_the_time_of_the_states() -> None:
    members: dict[str, RawValue] = {
        "temperature_records": [
            {"recorded_at": "2027-02-17T06:00:00Z", "temperature_degc": NumberText("21.5")},
            {"temperature_degc": NumberText("20")},
        ],
        "negative_events": [{"occurred_on": "2027-01-10", "event": "Flooding"}, {"report_url": "https://a.example/1"}],
    }

    assert list_values(build_readings("A", AT, members, "$.battery", in_own_form=True)) == [
        (
            "temperature_records",
            "2027-02-17T06:00:00.000000Z",
            NumberText("21.5"),
            "$.battery.temperature_records[0]",
        ),
        ("temperature_records", MOMENT, NumberText("20"), "$.battery.temperature_records[1]"),
        ("negative_events", "2027-01-10T00:00:00.000000Z", "Flooding", "$.battery.negative_events[0]"),
        ("negative_events", MOMENT, "https://a.example/1", "$.battery.negative_events[1]"),
    ]


def test_a_state_of_charge_and_its_record_are_one_reading() -> None:
    members: dict[str, RawValue] = {
        "state_of_charge_pct": NumberText("78.5"),
        "state_of_charge_records": [
            {"recorded_at": AT, "state_of_charge_pct": NumberText("78.5")},
            {"recorded_at": "2027-01-01", "state_of_charge_pct": NumberText("40")},
        ],
    }

    assert list_values(build_readings("A", AT, members, "$")) == [
        ("state_of_charge_pct", MOMENT, NumberText("78.5"), "$"),
        ("state_of_charge_pct", "2027-01-01T00:00:00.000000Z", NumberText("40"), "$"),
    ]


@pytest.mark.parametrize("recorded_at", [None, "", "yesterday", "2027-02-30", "2027-02-18T25:00:00Z", NumberText("1")])
def test_a_state_without_a_valid_time_is_no_reading(recorded_at: RawValue) -> None:
    assert build_readings("A", recorded_at, {"full_cycles": NumberText("247")}, "$") == []


@pytest.mark.parametrize("value", [None, "many", "", True, [], {}, NumberText("1e-9"), NumberText("1e40")])
def test_a_value_that_is_no_number_is_no_reading_of_a_number(value: RawValue) -> None:
    assert build_readings("A", AT, {"full_cycles": value, "temperature_records": [value]}, "$") == []


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("full_cycles", NumberText("1.5")),
        ("capacity_fade_pct", NumberText("3.1234567")),
        ("temperature_records", [{"temperature_degc": NumberText("20.123")}]),
    ],
)
def test_a_value_with_more_decimals_than_its_member_has_is_no_reading(member: str, value: RawValue) -> None:
    assert build_readings("A", AT, {member: value}, "$") == []


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2027-02-18", "2027-02-18T00:00:00.000000Z"),
        ("2027-02-18T09:30Z", "2027-02-18T09:30:00.000000Z"),
        ("2027-02-18T09:30:15.1234567-0330", "2027-02-18T13:00:15.123456Z"),
        ("2027-02-18T00:30:00+02:00", "2027-02-17T22:30:00.000000Z"),
        ("2027-02-18T09:30:00", "2027-02-18T09:30:00.000000Z"),  # no zone: UTC
        ("0001-01-01T00:00:00+14:00", None),
        ("9999-12-31T23:59:59-14:00", None),
        ("2027-02-18T23:59:60Z", None),
        ("18.02.2027", None),
    ],
)
def test_times_are_written_in_one_way(text: str, moment: str | None) -> None:
    assert normalise_moment(text) == moment


ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
TIMES = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=ZONES)


@given(TIMES, TIMES)
def test_the_order_of_the_texts_is_the_order_of_the_times(one: datetime, other: datetime) -> None:
    first, second = normalise_moment(one.isoformat()), normalise_moment(other.isoformat())

    assert first is not None
    assert second is not None
    assert (first < second) == (one < other)
    assert normalise_moment(first) == first


def test_every_state_is_a_state_of_the_battery_and_the_day_of_the_states_is_not() -> None:
    assert {"capacity_fade_pct", "status", "full_cycles", "state_of_charge_records"} <= set(STATE_MEMBERS)
    assert {"sku", "mass_kg", "state_recorded_on"}.isdisjoint(STATE_MEMBERS)
