"""The checks of plausibility: code, how serious a violation is, data points and sentences of each. A table.

Pure data, the one place that decides what is an error, a warning or a note. The page docs/rules/plausibility.md lists
this table. A code is stable: rules and integrations name it.

    error    cannot be true: it contradicts itself, other evidence or arithmetic
    warning  can be true, but is far more often a mistake of units, columns or copying
    note     is plausible as such and worth a look

`message` is what a finding says, with the numbers in it. Without `points`, a finding concerns the data points of the
members it is about.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from bpc.core.facts.findings import Severity


class PlausibilityCheck(NamedTuple):
    """A check: what must hold, and what a finding says where it does not."""

    code: str
    severity: Severity
    requires: str
    message: str
    points: tuple[int, ...] = ()


_ROWS: Final = (
    # The fact as a whole
    PlausibilityCheck("SCHEMA_MISFIT", "error", "a fact fits its schema", "{problem}"),
    # Values of one member
    PlausibilityCheck(
        "SHARE_RANGE",
        "error",
        "a share is between 0 and 100 %",
        "`{member}` is {value} %; a share is between 0 and 100 %",
    ),
    PlausibilityCheck(
        "CHANGE_RANGE",
        "error",
        "a change against the value when new is not below -100 %",
        "`{member}` is {value} %; nothing decreases by more than 100 %",
    ),
    PlausibilityCheck(
        "NOT_POSITIVE",
        "error",
        "masses, capacities, energies, voltages, resistances and lifetimes are above 0",
        "`{member}` is {value}; it must be above 0",
    ),
    PlausibilityCheck(
        "NEGATIVE",
        "error",
        "counts, amounts and powers are not below 0",
        "`{member}` is {value}; it must not be below 0",
    ),
    PlausibilityCheck(
        "ABSOLUTE_ZERO",
        "error",
        "a temperature is not below -273.15 °C",
        "`{member}` is {value} °C; no temperature is below -273.15 °C",
    ),
    PlausibilityCheck(
        "TEMPERATURE_UNUSUAL",
        "warning",
        "a temperature is between -100 and 200 °C",
        "`{member}` is {value} °C; usual are -100 to 200 °C: check that it is not in kelvin or °F",
    ),
    PlausibilityCheck(
        "VOLTAGE_UNUSUAL",
        "warning",
        "a voltage is at most 2000 V",
        "`{member}` is {value} V; usual are at most 2000 V: check that it is not in mV",
    ),
    PlausibilityCheck(
        "YEAR_RANGE",
        "error",
        "a year is between 1990 and 2100",
        "`{member}` is {value}; a year is between 1990 and 2100",
    ),
    PlausibilityCheck(
        "DATE_RANGE",
        "error",
        "a date is between 1990 and 2100",
        "`{member}` is {value}; a date is between 1990-01-01 and 2100-12-31",
    ),
    PlausibilityCheck(
        "DATE_FAR",
        "warning",
        "a date is at most 40 years after the earliest date in the facts of a product",
        "`{member}` is {value}, more than 40 years after {earliest}, the earliest date in the facts of the product",
    ),
    PlausibilityCheck(
        "TIME_FORM",
        "warning",
        "the time of a record begins with a date",
        "`{member}` is {value}, not a time like 2027-02-18T00:00:00Z",
    ),
    PlausibilityCheck(
        "UNKNOWN_VALUE",
        "error",
        "a member that takes one of a few values has one of them",
        "`{member}` is {value}, not {values}",
    ),
    PlausibilityCheck(
        "VALUE_SPELLING",
        "warning",
        "a value of a list is written as the list writes it, because rules compare it letter by letter",
        "`{member}` is {value}; write it as `{canonical}`",
    ),
    PlausibilityCheck(
        "URL_FORM",
        "warning",
        "a web address begins with http:// or https:// and names a host",
        "`{member}` is {value}, not a web address like https://www.example.com/file.pdf",
    ),
    PlausibilityCheck(
        "URL_NOT_PUBLIC",
        "error",
        "a web address can be opened from the Internet: no localhost, private address or internal name",
        "`{member}` is {value}; nobody can open it from the Internet",
    ),
    PlausibilityCheck(
        "URL_EXAMPLE",
        "warning",
        "a web address is not one that is reserved for examples",
        "`{member}` is {value}; that name is reserved for examples and leads nowhere",
    ),
    PlausibilityCheck(
        "PLACEHOLDER",
        "error",
        "a text says something, and not that nothing is known",
        "`{member}` is {value}, which says nothing; leave it out, or fill it in",
    ),
    PlausibilityCheck(
        "EMAIL_FORM",
        "warning",
        "an e-mail address has the form name@host",
        "`{member}` is {value}, not an e-mail address like service@example.com",
    ),
    PlausibilityCheck(
        "CAS_NUMBER",
        "error",
        "a CAS number has its form and the right check digit",
        "`{member}` is {value}, not a CAS number like 7439-93-2{expected}",
    ),
    PlausibilityCheck(
        "GS1_CHECK_DIGIT",
        "error",
        "a GTIN or GLN in an identifier has the right check digit",
        "`{member}` has the number {value}, whose last digit must be {expected}",
    ),
    # Members that belong together
    PlausibilityCheck(
        "DATE_ORDER",
        "error",
        "nothing happens before manufacture, and no validity ends before it begins",
        "`{later}` is {later_value}, before `{earlier}`, which is {earlier_value}",
    ),
    PlausibilityCheck(
        "TEMPERATURE_ORDER",
        "error",
        "a lowest temperature is below the highest",
        "`{lower}` is {lower_value} °C and `{upper}` is {upper_value} °C; the first must be below the second",
    ),
    PlausibilityCheck(
        "VOLTAGE_ORDER",
        "error",
        "minimum voltage < nominal voltage < maximum voltage",
        "the {lower} voltage of {lower_value} V is not below the {upper} voltage of {upper_value} V",
        (26, 27, 28),
    ),
    PlausibilityCheck(
        "RECYCLED_SUM",
        "error",
        "the shares from manufacturing waste and from post-consumer waste add up to the recycled share, for each metal",
        "recycled {metal}: {pre} % from manufacturing waste and {post} % from post-consumer waste add up to {sum} %, "
        "the declared share is {total} %",
    ),
    PlausibilityCheck(
        "RECYCLED_PART",
        "error",
        "a part of the recycled share is not above the whole",
        "recycled {metal}: `{member}` is {value} %, more than the declared share of {total} %",
    ),
    PlausibilityCheck(
        "RECYCLED_ABOVE_100",
        "error",
        "of a component, at most 100 % is recovered from waste",
        "{pre} % from manufacturing waste and {post} % from post-consumer waste add up to {sum} %, more than 100 %",
    ),
    PlausibilityCheck(
        "POWER_LIMIT",
        "error",
        "the original power is at most the power that the battery permits",
        "the original power of {value} W is above {limit} W, the highest power it permits",
        (29, 30),
    ),
    PlausibilityCheck(
        "POWER_RESISTANCE",
        "error",
        "the power is at most V² / 4R, which is the most that a source of voltage V and resistance R can give",
        "{power} W cannot be had from {voltage} V through {resistance} ohm: at most {limit} W can; "
        "check that the resistance is not in milliohm",
        (29, 30, 38),
    ),
    PlausibilityCheck(
        "VOLTAGE_DROP",
        "warning",
        "resistance x current is at most the distance from the maximum to the minimum voltage",
        "{power} W at {voltage} V is {current} A; through {resistance} ohm the voltage falls by {drop} V, "
        "more than from the maximum to the minimum voltage ({span} V)",
        (26, 28, 29, 30, 38),
    ),
    PlausibilityCheck(
        "ENERGY_CAPACITY",
        "warning",
        "the rated energy differs by at most 15 % from rated capacity x nominal voltage",
        "the rated energy is {energy} kWh, but {capacity} Ah at {voltage} V are {product} kWh",
        (11, 25, 27, 51),
    ),
    PlausibilityCheck(
        "ENERGY_CONTRADICTION",
        "error",
        "the rated energy is not more than twice or less than half of rated capacity x nominal voltage",
        "the rated energy is {energy} kWh, but {capacity} Ah at {voltage} V are {product} kWh; check the units",
        (11, 25, 27, 51),
    ),
    PlausibilityCheck(
        "USABLE_ENERGY",
        "warning",
        "usable and certified energy are at most the rated energy",
        "`{member}` is {value} kWh, more than the rated energy of {energy} kWh",
    ),
    PlausibilityCheck(
        "POWER_TO_ENERGY",
        "note",
        "the ratio of power to energy lies between original and highest power over rated energy, give or take 20 %",
        "the ratio of power to energy is {value} W/Wh, but {power} W over {energy} kWh are {ratio} W/Wh",
        (29, 30),
    ),
    PlausibilityCheck(
        "CATEGORY_MASS",
        "warning",
        "a battery for light means of transport has at most 25 kg",
        "a battery for light means of transport has at most 25 kg, this one has {value} kg",
        (6, 10),
    ),
    # Masses
    PlausibilityCheck(
        "COMPONENT_MASS",
        "warning",
        "the components together are not heavier than the battery",
        "{count} components have a mass of {sum} g together, {share} % of the battery's {mass} kg",
        (10, 45),
    ),
    PlausibilityCheck(
        "COMPONENT_SHARE",
        "note",
        "a component's share of the mass differs by at most one percentage point from its mass over the battery's",
        "the share of the mass is {value} %, but {mass} g of {battery_mass} kg are {share} %",
    ),
    PlausibilityCheck(
        "MASS_SHARE_SUM",
        "warning",
        "shares of the battery's mass add up to at most 100 %",
        "{count} shares of the mass add up to {sum} %, more than 100 %",
        (13, 15, 45),
    ),
    PlausibilityCheck(
        "METAL_MASS",
        "error",
        "cobalt, lithium, nickel and lead in a component are not heavier than the component",
        "{sum} g of cobalt, lithium, nickel and lead cannot be in a component of {mass} g",
    ),
    # Footprint
    PlausibilityCheck(
        "FOOTPRINT_SUM",
        "error",
        "the four stages add up to the total footprint",
        "the four stages add up to {sum} kg CO2e, the declared total is {total} kg CO2e",
        (17,),
    ),
    PlausibilityCheck(
        "FOOTPRINT_PER_KWH_SUM",
        "error",
        "the four stages per kWh add up to the footprint per kWh",
        "the four stages add up to {sum} kg CO2e per kWh, the declared total is {total} kg CO2e per kWh",
        (17,),
    ),
    PlausibilityCheck(
        "FOOTPRINT_RATIO",
        "error",
        "the footprint per kWh differs by at most 5 % from the total over the energy delivered in the service life",
        "the declared footprint is {value} kg CO2e per kWh, but {total} kg CO2e over {energy} kWh delivered in the "
        "service life are {ratio} kg CO2e per kWh{capacity_hint}",
        (17,),
    ),
    PlausibilityCheck(
        "FOOTPRINT_BAND",
        "warning",
        "the footprint is between 1 and 1000 kg CO2e for each kWh of capacity",
        "{value} kg CO2e {basis} are {ratio} kg CO2e for each kWh of capacity; plausible are 1 to 1000{capacity_hint}",
        (17,),
    ),
    PlausibilityCheck(
        "SERVICE_LIFE_ENERGY",
        "warning",
        "the energy delivered in the service life differs by at most 10 % from energy x cycles a year x years",
        "the energy delivered in the service life is {value} kWh, but {energy} kWh x {cycles} cycles a year x {years} "
        "years are {product} kWh",
        (17,),
    ),
    # States
    PlausibilityCheck(
        "STATE_ABOVE_NEW",
        "warning",
        "a used battery is not better than a new one",
        "{state}, which is better than when new{reference}",
    ),
    PlausibilityCheck(
        "STATE_MISMATCH",
        "warning",
        "a fade, an increase and the state of certified energy differ by at most one percentage point from what they "
        "are computed of",
        "`{member}` is {value} %, but {now} against {new} when new is {computed} %",
    ),
    PlausibilityCheck(
        "READING_KIND",
        "warning",
        "a reading is of a member of Battery that is a state",
        "it is a reading of {value}, which is not a state of a battery",
    ),
    PlausibilityCheck(
        "READING_TIME",
        "error",
        "a reading has the time it was recorded at, and its day is the day of that time",
        "`recorded_at` is {value} and `recorded_on` is {day}; expected are a time like "
        "2027-02-18T00:00:00.000000Z and its day",
    ),
    PlausibilityCheck(
        "COUNTER_FALLS",
        "warning",
        "a counter, such as cycles or throughput, never falls from one reading to the next",
        "`{member}` fell from {before} at {before_time} to {after} at {after_time}",
    ),
)

CHECKS: Final[Mapping[str, PlausibilityCheck]] = {check.code: check for check in _ROWS}
