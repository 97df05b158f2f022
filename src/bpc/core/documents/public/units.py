"""Units as public formats spell them, each an exact decimal multiple of the unit of the fact.

Spellings are the usual ones (`kg`), those of UN/ECE Recommendation 20 (`KGM`) and those of the SAMM unit catalogue
(`unit:kilogram`, looked up without its prefix). Units that are not finite decimal multiples (joule, fahrenheit) are not
supported, because facts are exact.
"""

import re
from collections.abc import Mapping
from typing import Final

from bpc.core.documents.elements import ExactNumber, power_of_ten
from bpc.core.formats.ascii_case import lower_ascii

UnitTable = Mapping[str, ExactNumber]

# In lower case they would be milli: another unit.
_MEGA_UNITS: Final = frozenset({"MΩ", "Mg", "MG"})
_PLAIN_UNIT: Final = re.compile("[A-Za-z0-9₂ ._/(),-]+")


def _build_units(**spellings: tuple[str, ExactNumber]) -> dict[str, ExactNumber]:
    return {spelling: factor for names, factor in spellings.values() for spelling in names.split()}


def rescale_units(measure: UnitTable, power: int) -> UnitTable:
    """The same units as multiples of a unit that is 10^`power` times as large."""
    return {name: factor * power_of_ten(-power) for name, factor in measure.items()}


GRAMS: Final[UnitTable] = _build_units(
    mg=("mg MGM milligram", power_of_ten(-3)),
    g=("g GRM gram", power_of_ten(0)),
    kg=("kg KGM kilogram kilogramm", power_of_ten(3)),
    t=("t TNE tonne tonneMetricTon", power_of_ten(6)),
    lb=("lb LBR pound", ExactNumber(45359237, 5)),
    oz=("oz ONZ ounceAvoirdupois", ExactNumber(28349523125, 9)),
    short_ton=("STN tonUsOrShortTonUkorus", ExactNumber(90718474, 2)),
)
KILOGRAMS: Final = rescale_units(GRAMS, 3)
KILOWATT_HOURS: Final[UnitTable] = _build_units(
    wh=("Wh wh WHR wattHour", power_of_ten(-3)),
    kwh=("kWh kwh KWH kilowattHour", power_of_ten(0)),
    mwh=("MWh MWH megawattHour", power_of_ten(3)),
)
AMPERE_HOURS: Final[UnitTable] = _build_units(
    mah=("mAh E09 milliampereHour", power_of_ten(-3)),
    ah=("Ah ah AMH ampereHour", power_of_ten(0)),
    kah=("kAh TAH kiloampereHour", power_of_ten(3)),
)
WATTS: Final[UnitTable] = _build_units(
    mw=("mW C31 milliwatt", power_of_ten(-3)),
    w=("W w WTT watt", power_of_ten(0)),
    kw=("kW kw KWT kilowatt", power_of_ten(3)),
    megawatt=("MW MAW megawatt", power_of_ten(6)),
)
VOLTS: Final[UnitTable] = _build_units(
    mv=("mV 2Z millivolt", power_of_ten(-3)),
    v=("V v VLT volt", power_of_ten(0)),
    kv=("kV KVT kilovolt", power_of_ten(3)),
)
OHMS: Final[UnitTable] = _build_units(
    micro=("µOhm µΩ B94 microohm", power_of_ten(-6)),
    milli=("mOhm mΩ E45 milliohm", power_of_ten(-3)),
    ohm=("Ohm OHM ohm Ω", power_of_ten(0)),
)
CELSIUS: Final[UnitTable] = _build_units(c=("°C CEL degreeCelsius Cel", power_of_ten(0)))
MINUTES: Final[UnitTable] = _build_units(
    minute=("min MIN minute minutes", power_of_ten(0)),
    hour=("h HUR hour hours", ExactNumber(60, 0)),
    day=("d DAY day days", ExactNumber(1440, 0)),
)
MONTHS: Final[UnitTable] = _build_units(
    month=("month MON months", power_of_ten(0)), year=("year ANN years", ExactNumber(12, 0))
)
PIECES: Final[UnitTable] = _build_units(
    one=("piece pieces pcs C62 H87 EA each unit one numberOfUnits", power_of_ten(0))
)
CYCLES: Final[UnitTable] = _build_units(one=("cycle cycles C62 H87 EA one B7", power_of_ten(0)))
PER_CENT: Final[UnitTable] = _build_units(
    percent=("% P1 percent", power_of_ten(0)),
    thousandth=("‰ NX partPerThousand", power_of_ten(-1)),
    millionth=("ppm 59 partPerMillion", power_of_ten(-4)),
    billionth=("ppb 61 partPerBillionUs", power_of_ten(-7)),
    trillionth=("ppt partPerTrillionUs", power_of_ten(-10)),
)
PER_CENT_A_MONTH: Final[UnitTable] = _build_units(one=("%/month percentPerMonth percent % P1", power_of_ten(0)))
WATTS_PER_WATT_HOUR: Final[UnitTable] = _build_units(one=("W/Wh W/wh 1/h", power_of_ten(0)))
C_RATE: Final[UnitTable] = _build_units(one=("A/Ah C 1/h", power_of_ten(0)))

_CO2_SPELLINGS: Final = ("co2", "co2e", "co2eq", "co2equivalent", "co2equivalents")
_MASS_UNITS: Final = ("g", "kg", "t")
# The readable spelling first, for messages; then what `_normalize_co2_unit` gives for all others.
GRAMS_CO2: Final[UnitTable] = {
    **{f"{mass} CO2e": GRAMS[mass] for mass in _MASS_UNITS},
    **{f"{mass}{co2}": GRAMS[mass] for mass in _MASS_UNITS for co2 in _CO2_SPELLINGS},
}
GRAMS_CO2_PER_KWH: Final[UnitTable] = {
    **{f"{mass} CO2e/kWh": GRAMS[mass] for mass in _MASS_UNITS},
    **{f"{mass}{co2}/kwh": GRAMS[mass] for mass in _MASS_UNITS for co2 in _CO2_SPELLINGS},
}


def find_factor(measure: UnitTable, unit: str) -> ExactNumber | None:
    """What to multiply with to get the unit of the fact; None for an unknown unit."""
    bare = unit.rpartition(":")[2].strip(" ")
    is_plain = _PLAIN_UNIT.fullmatch(bare) is not None  # else a sign would be lost that may change the unit
    others = () if bare in _MEGA_UNITS else (lower_ascii(bare), *([_normalize_co2_unit(bare)] if is_plain else []))
    for spelling in (unit, bare, *others):
        if spelling in measure:
            return measure[spelling]
    return None


def _normalize_co2_unit(unit: str) -> str:
    """A unit of CO2 in the one spelling of our tables: `kgco2eq/kwh` for `kg CO2-eq / kWh`."""
    plain = lower_ascii(unit).replace("₂", "2").replace("per", "/").replace("kilowatthour", "kwh")
    return "".join(letter for letter in plain if letter in "abcdefghijklmnopqrstuvwxyz0123456789/")
