"""Fact schemas of what is one battery's own: its states, which also a product may state, the battery, and its batch.

A table, append-only, as `schemas` is.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from bpc.core.language.types import DATE, INT, TEXT, Dec, List, Opt, Record, Type


class SchemaMember(NamedTuple):
    """A member's type, what it says in a few words, and the data points it serves."""

    type: Type
    description: str
    points: tuple[int, ...] = ()


def list_records(**members: Type) -> List:
    """A list of records, every member of which may be missing."""
    return List(Record(tuple((name, Opt(kind)) for name, kind in members.items())))


TEXTS: Final = List(TEXT)
SHARE: Final = Dec(2)
TEMPERATURE: Final = Dec(2)
VOLTAGE: Final = Dec(3)
POWER: Final = Dec(3)
AMOUNT: Final = Dec(6)

STATES: Final[Mapping[str, SchemaMember]] = {
    # How it is now
    "state_recorded_on": SchemaMember(DATE, "day the values below were taken"),
    "capacity_fade_pct": SchemaMember(SHARE, "capacity fade", (52,)),
    "power_w": SchemaMember(POWER, "power", (53,)),
    "power_fade_pct": SchemaMember(SHARE, "power fade", (54,)),
    "internal_resistance_ohm": SchemaMember(AMOUNT, "internal resistance", (55,)),
    "internal_resistance_increase_pct": SchemaMember(SHARE, "increase of the internal resistance", (56,)),
    "round_trip_efficiency_pct": SchemaMember(SHARE, "round trip energy efficiency", (57, 64)),
    "round_trip_efficiency_fade_pct": SchemaMember(SHARE, "fade of that efficiency", (58,)),
    "state_of_certified_energy_pct": SchemaMember(SHARE, "state of certified energy (SOCE)", (61,)),
    "remaining_energy_kwh": SchemaMember(AMOUNT, "remaining usable energy", (61,)),
    "remaining_capacity_ah": SchemaMember(AMOUNT, "remaining capacity", (62,)),
    "remaining_power_w": SchemaMember(POWER, "remaining power capability", (63,)),
    "self_discharge_pct_per_month": SchemaMember(Dec(4), "self-discharge", (65,)),
    "self_discharge_evolution_pct": SchemaMember(SHARE, "change of the self-discharge", (65,)),
    "ohmic_resistance_ohm": SchemaMember(AMOUNT, "ohmic resistance", (66,)),
    "status": SchemaMember(TEXT, "`original`, `repurposed`, `re-used`, `remanufactured` or `waste`", (67,)),
    # What it went through
    "full_cycles": SchemaMember(INT, "charging and discharging cycles done", (68,)),
    "energy_throughput_kwh": SchemaMember(AMOUNT, "energy that went through it", (68,)),
    "capacity_throughput_ah": SchemaMember(AMOUNT, "charge that went through it", (68,)),
    "negative_events": SchemaMember(
        list_records(occurred_on=DATE, event=TEXT, report_url=TEXT), "accidents and other harmful events", (69,)
    ),
    "deep_discharge_events": SchemaMember(INT, "deep discharges", (69,)),
    "overcharge_events": SchemaMember(INT, "overcharges", (69,)),
    "temperature_records": SchemaMember(
        list_records(recorded_at=TEXT, temperature_degc=TEMPERATURE), "temperatures of its environment", (70,)
    ),
    "minutes_in_extreme_heat": SchemaMember(INT, "minutes above the upper boundary", (70,)),
    "minutes_in_extreme_cold": SchemaMember(INT, "minutes below the lower boundary", (70,)),
    "minutes_charging_in_extreme_heat": SchemaMember(INT, "minutes of charging above the upper boundary", (70,)),
    "minutes_charging_in_extreme_cold": SchemaMember(INT, "minutes of charging below the lower boundary", (70,)),
    "state_of_charge_pct": SchemaMember(SHARE, "state of charge", (71,)),
    "state_of_charge_records": SchemaMember(
        list_records(recorded_at=TEXT, state_of_charge_pct=SHARE), "states of charge over time", (71,)
    ),
}

ITEM: Final[Mapping[str, SchemaMember]] = {
    # Which battery this is
    "serial_number": SchemaMember(TEXT, "the serial number", (7,)),
    "batch_number": SchemaMember(TEXT, "the batch it was made in", (7,)),
    "passport_uri": SchemaMember(TEXT, "the unique identifier its data carrier holds", (1,)),
    "previous_passport_uri": SchemaMember(TEXT, "the passport of its first life, if it is a second-life battery"),
    # Who answers for it
    "operator_id": SchemaMember(TEXT, "identifier of the operator responsible for this battery", (2,)),
    "operator_name": SchemaMember(TEXT, "that operator's name", (2,)),
    "operator_address": SchemaMember(TEXT, "that operator's postal address", (2,)),
    # Where and when it was made
    "manufacturing_place": SchemaMember(TEXT, "address of the plant", (8,)),
    "manufacturing_country": SchemaMember(TEXT, "country of the plant, two letters", (8,)),
    "facility_id": SchemaMember(TEXT, "identifier of the plant", (8,)),
    "manufactured_on": SchemaMember(DATE, "day of manufacture (of a month: its first)", (9,)),
    "placed_on_market_on": SchemaMember(DATE, "day it was placed on the market, which decides what law applies"),
    "put_into_service_on": SchemaMember(DATE, "day it was put into service"),
    "warranty_until_on": SchemaMember(DATE, "last day of its warranty", (35,)),
    **STATES,
}

BATCH: Final[Mapping[str, SchemaMember]] = {
    "batch_number": SchemaMember(TEXT, "the batch", (7,)),
    "manufacturing_place": SchemaMember(TEXT, "address of the plant", (8,)),
    "manufacturing_country": SchemaMember(TEXT, "country of the plant, two letters", (8,)),
    "facility_id": SchemaMember(TEXT, "identifier of the plant", (8,)),
    "manufactured_on": SchemaMember(DATE, "day of manufacture (of a month: its first)", (9,)),
}
