"""Units as public formats spell them, each an exact decimal multiple of the unit a fact is in.

Spellings are those of people (`kg`), of UN/ECE Recommendation 20 (`KGM`) and of the SAMM unit catalogue
(`unit:kilogram`, looked up without its prefix). A unit that is no finite decimal multiple (joule, fahrenheit) is not
known: facts are exact.
"""

from collections.abc import Mapping
from typing import Final

from bpc.core.documents.values import Exact

Measure = Mapping[str, Exact]

_LOWER: Final = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def _units(**spellings: tuple[str, Exact]) -> dict[str, Exact]:
    return {spelling: factor for names, factor in spellings.values() for spelling in names.split()}


def _tens(power: int) -> Exact:
    return Exact(10**power, 0) if power >= 0 else Exact(1, -power)


def scaled(measure: Measure, power: int) -> Measure:
    """The same units as multiples of a unit that is ten to the `power` of theirs."""
    return {name: times(factor, _tens(-power)) for name, factor in measure.items()}


def times(one: Exact, other: Exact) -> Exact:
    return Exact(one.count * other.count, one.scale + other.scale)


GRAMS: Final[Measure] = _units(
    mg=("mg MGM milligram", _tens(-3)),
    g=("g GRM gram", _tens(0)),
    kg=("kg KGM kilogram kilogramm", _tens(3)),
    t=("t TNE tonne tonneMetricTon", _tens(6)),
    lb=("lb LBR pound", Exact(45359237, 5)),
    oz=("oz ONZ ounceAvoirdupois", Exact(28349523125, 9)),
    short_ton=("STN tonUsOrShortTonUkorus", Exact(90718474, 2)),
)
KILOGRAMS: Final = scaled(GRAMS, 3)
KILOWATT_HOURS: Final[Measure] = _units(
    wh=("Wh wh WHR wattHour", _tens(-3)),
    kwh=("kWh kwh KWH kilowattHour", _tens(0)),
    mwh=("MWh MWH megawattHour", _tens(3)),
)
AMPERE_HOURS: Final[Measure] = _units(
    mah=("mAh E09 milliampereHour", _tens(-3)),
    ah=("Ah ah AMH ampereHour", _tens(0)),
    kah=("kAh TAH kiloampereHour", _tens(3)),
)
WATTS: Final[Measure] = _units(
    mw=("mW C31 milliwatt", _tens(-3)),
    w=("W w WTT watt", _tens(0)),
    kw=("kW kw KWT kilowatt", _tens(3)),
    megawatt=("MW MAW megawatt", _tens(6)),
)
VOLTS: Final[Measure] = _units(
    mv=("mV 2Z millivolt", _tens(-3)), v=("V v VLT volt", _tens(0)), kv=("kV KVT kilovolt", _tens(3))
)
OHMS: Final[Measure] = _units(
    micro=("µOhm µΩ B94 microohm", _tens(-6)),
    milli=("mOhm mΩ E45 milliohm", _tens(-3)),
    ohm=("Ohm OHM ohm Ω", _tens(0)),
)
CELSIUS: Final[Measure] = _units(c=("°C CEL degreeCelsius Cel", _tens(0)))
MONTHS: Final[Measure] = _units(month=("month MON months", _tens(0)), year=("year ANN years", Exact(12, 0)))
PIECES: Final[Measure] = _units(one=("piece pieces pcs C62 H87 EA each unit one numberOfUnits", _tens(0)))
CYCLES: Final[Measure] = _units(one=("cycle cycles C62 H87 EA one B7", _tens(0)))
PER_CENT: Final[Measure] = _units(
    percent=("% P1 percent", _tens(0)),
    thousandth=("‰ NX partPerThousand", _tens(-1)),
    millionth=("ppm 59 partPerMillion", _tens(-4)),
    billionth=("ppb 61 partPerBillionUs", _tens(-7)),
    trillionth=("ppt partPerTrillionUs", _tens(-10)),
)
PER_CENT_A_MONTH: Final[Measure] = _units(one=("%/month percentPerMonth percent % P1", _tens(0)))
C_RATE: Final[Measure] = _units(one=("A/Ah C 1/h", _tens(0)))

_CO2: Final = ("co2", "co2e", "co2eq", "co2equivalent", "co2equivalents")
_MASSES: Final = ("g", "kg", "t")
# The readable spelling first, for messages; then what `_chemist` makes of all the others.
GRAMS_CO2: Final[Measure] = {
    **{f"{mass} CO2e": GRAMS[mass] for mass in _MASSES},
    **{f"{mass}{co2}": GRAMS[mass] for mass in _MASSES for co2 in _CO2},
}
GRAMS_CO2_PER_KWH: Final[Measure] = {
    **{f"{mass} CO2e/kWh": GRAMS[mass] for mass in _MASSES},
    **{f"{mass}{co2}/kwh": GRAMS[mass] for mass in _MASSES for co2 in _CO2},
}


def factor_of(measure: Measure, unit: str) -> Exact | None:
    """How much of the fact's unit one of `unit` is; None where we do not know it."""
    bare = unit.rpartition(":")[2].strip(" ")
    for spelling in (unit, bare, as_lower(bare), _chemist(bare)):
        if spelling in measure:
            return measure[spelling]
    return None


def as_lower(text: str) -> str:
    """The text with the letters A to Z in lower case and every other character as it is."""
    return text.translate(_LOWER)


def _chemist(unit: str) -> str:
    """`kg CO2-eq / kWh` without what its writers differ in."""
    plain = as_lower(unit).replace("₂", "2").replace("per", "/").replace("kilowatthour", "kwh")
    return "".join(letter for letter in plain if letter in "abcdefghijklmnopqrstuvwxyz0123456789/")
