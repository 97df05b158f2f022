"""Units in the headers and cells of tables: which unit a member has, and how a header says its own.

    Masse [g]        Mass (kg)        Gewicht in kg        capacity / Ah        Temperatur °C        Mass, kg

A unit is an exact decimal multiple of the member's unit, or it does not fit the member. Names of units in six languages
are spellings of the same units.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from bpc.core.documents.elements import ExactNumber, power_of_ten
from bpc.core.documents.header_text import fold_text
from bpc.core.documents.public.units import (
    AMPERE_HOURS,
    C_RATE,
    CELSIUS,
    CYCLES,
    GRAMS,
    GRAMS_CO2,
    GRAMS_CO2_PER_KWH,
    KILOGRAMS,
    KILOWATT_HOURS,
    MONTHS,
    OHMS,
    PER_CENT,
    PIECES,
    VOLTS,
    WATTS,
    UnitTable,
    find_factor,
)

ONE: Final = power_of_ten(0)
MAX_UNIT_LENGTH: Final = 40


class MemberUnit(NamedTuple):
    """The unit of a member, as messages write it, and what other units are multiples of it.

    A member whose unit `may_be_missing` is a count or a ratio: a number without a unit means the same.
    """

    symbol: str
    table: UnitTable
    may_be_missing: bool = False


_PERCENT: Final = MemberUnit("%", PER_CENT)
_PERCENT_PER_MONTH: Final = MemberUnit(
    "%/month", dict.fromkeys(("%/month", "% per month", "%/mo", "percentPerMonth"), ONE)
)
_CO2: Final = MemberUnit("g CO2e", GRAMS_CO2)
_CO2_PER_KWH: Final = MemberUnit("g CO2e/kWh", GRAMS_CO2_PER_KWH)
_YEARS: Final = MemberUnit("years", dict.fromkeys(("year", "years", "ANN", "a"), ONE))
_MINUTES: Final = MemberUnit(
    "minutes",
    {**dict.fromkeys(("min", "MIN", "minute", "minutes"), ONE), **dict.fromkeys(("h", "hour"), ExactNumber(60, 0))},
)
_COUNT: Final = MemberUnit("pieces", {**PIECES, **CYCLES}, may_be_missing=True)
# The end of a member's name, longest first.
_BY_SUFFIX: Final[tuple[tuple[str, MemberUnit], ...]] = (
    ("gco2e_per_kwh", _CO2_PER_KWH),
    ("pct_per_month", _PERCENT_PER_MONTH),
    ("gco2e", _CO2),
    ("pct", _PERCENT),
    ("months", MemberUnit("months", MONTHS)),
    ("years", _YEARS),
    ("kwh", MemberUnit("kWh", KILOWATT_HOURS)),
    ("ohm", MemberUnit("ohm", OHMS)),
    ("degc", MemberUnit("°C", {**CELSIUS, "degC": ONE, "celsius": ONE})),
    ("eur", MemberUnit("EUR", {"EUR": ONE, "€": ONE, "eur": ONE, "euro": ONE})),
    ("ah", MemberUnit("Ah", AMPERE_HOURS)),
    ("kg", MemberUnit("kg", KILOGRAMS)),
    ("g", MemberUnit("g", GRAMS)),
    ("v", MemberUnit("V", VOLTS)),
    ("w", MemberUnit("W", WATTS)),
    ("cycles", _COUNT),
    ("count", _COUNT),
    ("quantity", _COUNT),
    ("events", _COUNT),
    ("c_rate", MemberUnit("C", C_RATE, may_be_missing=True)),
)
_ALL_UNITS: Final[UnitTable] = {
    spelling: ONE for table in (*(unit.table for _, unit in _BY_SUFFIX), _MINUTES.table) for spelling in table
}
# Names of units in the six languages, folded, as one of the spellings above.
_LOCAL_NAMES: Final[Mapping[str, str]] = {
    name: unit
    for unit, names in {
        "g": "gramm gramme grammes gram grams gramo gramos grammo grammi gramy gramow gr",
        "kg": "kilo kilos kilogramme kilogrammes kilogramo kilogramos chilogrammo chilogrammi kilogram kilograms"
        " kilogramy kgs",
        "t": "tonnen tonnes tonelada toneladas tonnellata tonnellate tona tony",
        "%": "prozent pct procent porcentaje percentuale pourcent pourcentage percentage percent gew% gew.-% wt% wt.-%"
        " masse-% m%",
        "%/month": "%/monat %/mois %/mes %/mese %/miesiac %/miesiac. pct/month prozent/monat",
        "month": "monat monate monaten mois mes meses mese mesi miesiac miesiace miesiecy mths",
        "year": "jahr jahre jahren an ans annee annees ano anos anno anni rok lata lat yrs",
        "h": "stunde stunden heure heures hora horas ora ore godzina godziny godzin hours hrs std",
        "min": "minuten minutos minuto minuti minuta minuty minut",
        "V": "volts volty wolt woltow voltios",
        "W": "watts vatios wat watow",
        "Ah": "amperestunden amperstunden",
        "kWh": "kilowattstunden kilowattheures kilovatios-hora kilowattora kilowatogodziny",
        "°C": "grad grad_celsius degc c deg_c celsius gradcelsius stopnie",
        "piece": "stuck stk stueck pieces piezas pezzi pz sztuk sztuki szt pcs. st",
        "cycle": "zyklen cycles ciclos cicli cykle cykli",
        "Ohm": "ohms",
        "EUR": "euros",
    }.items()
    for name in names.split()
}
# Signs that look the same: ohm and omega, micro and mu.
_ONE_SIGN: Final = str.maketrans({"\u2126": "\u03a9", "\u03bc": "\u00b5"})
_CO2_NAMES: Final = re.compile(
    "co2[ -]*(?:aquivalente?|aequivalente?|equivalente?s?|aequiv|aquiv|equiv|aeq|aq|eq|e)[.]?"
)
_BRACKETS: Final = re.compile(r"[\[(]([^\[\]()]{1,40})[\])]")
_IN_UNIT: Final = re.compile(r"(.+?)[ \u00a0](?:in|en|w)[ \u00a0](\S{1,20}(?: \S{1,20})?)", re.IGNORECASE)
_SEPARATED: Final = (
    re.compile(r"(.+?)\s+/\s*(\S.{0,40})"),
    re.compile(r"(.+?)\s*,\s*(\S.{0,20})"),
    re.compile(r"([^/]+)/(\S.{0,20})"),
)
_NUMBERING: Final = re.compile(r"\s*[0-9]{1,3}[.)]\s+")
_LAST_WORDS: Final = 3
# A mass is one of CO2 only where the name says so: `Production [t]` may be what a plant produces.
_BARE_MASS: Final = re.compile("(g|kg|t)((?:/kwh)?)", re.IGNORECASE)
_SPEAKS_OF_CO2: Final = re.compile(
    "co2|pcf|gwp|footprint|fussabdruck|emission|empreinte|emision|huella|impronta|emissioni|slad weglowy|emisj"
)
# Some codes of UN/ECE Recommendation 20 are numbers; in a table they are the number of something else. `Mg` is a
# million grams, and in capitals nobody can tell it from a thousandth.
_UNCERTAIN: Final = re.compile("[0-9]+|M[gG]")
# Remarks in brackets that do not change what a column means, folded.
_REMARKS: Final = frozenset(
    """
    ,optional,required,mandatory,if any,if known,text,yes/no,true/false,pflicht,pflichtfeld,pflichtangabe,freiwillig,
    falls vorhanden,falls bekannt,ja/nein,facultatif,obligatoire,oui/non,opcional,obligatorio,si/no,facoltativo,
    obbligatorio,opcjonalne,wymagane,tak/nie,iso,yyyy-mm-dd,jjjj-mm-tt,dd.mm.yyyy,tt.mm.jjjj
    """.replace("\n", "")
    .replace("    ", "")
    .split(",")
)
# Where the name says what the unit leaves out: `Selbstentladung pro Monat [%]`, `CO2 per kWh (kg)`.
_PER: Final = r"[ ,(/]*(?:pro|per|par|por|al|na|/)\s*"
_BASES_IN_NAMES: Final = (
    (re.compile(_PER + "(?:monat|month|mois|mes|mese|miesi[aą]c)\\b", re.IGNORECASE), "/month"),
    (re.compile(_PER + "kwh\\b", re.IGNORECASE), "/kWh"),
)


def find_member_unit(member: str) -> MemberUnit | None:
    """The unit of a member, by its name; None for a member without one."""
    if member.startswith("minutes_"):
        return _MINUTES
    return next((unit for suffix, unit in _BY_SUFFIX if member == suffix or member.endswith(f"_{suffix}")), None)


def strip_unit_name(member: str) -> str:
    """A member's name without the unit at its end: `rated_capacity` of `rated_capacity_ah`."""
    for suffix, unit in _BY_SUFFIX:
        if not unit.may_be_missing and member.endswith(f"_{suffix}"):
            return member.removesuffix(f"_{suffix}")
    return member


def find_unit_factor(table: UnitTable, text: str) -> ExactNumber | None:
    """What to multiply a number in the unit `text` with; None for a unit that is not in the table."""
    text = text.strip(" .\u00a0")
    if _UNCERTAIN.fullmatch(text):
        return None
    text = text.translate(_ONE_SIGN)
    key = fold_text(text)
    spellings = (
        text,
        _LOCAL_NAMES.get(key.replace(" ", "_")),
        _LOCAL_NAMES.get(key.replace(" ", "")),
        _CO2_NAMES.sub("co2e", key) if "co2" in key else None,  # small letters make a milliohm of a megaohm
    )
    factors = (find_factor(table, spelling) for spelling in spellings if spelling is not None)
    factor = next((factor for factor in factors if factor is not None), None)
    return None if factor is None else _reduce(factor)


def _reduce(factor: ExactNumber) -> ExactNumber:
    """The same factor without zeros at its end, so that equal factors are equal."""
    count, scale = factor.count, factor.scale
    while scale and count % 10 == 0:
        count, scale = count // 10, scale - 1
    return ExactNumber(count, scale)


def is_unit(text: str) -> bool:
    """Whether a text is a unit of any member."""
    if len(text) > MAX_UNIT_LENGTH:
        return False
    key = _fold_unit(text)
    is_candidate = key in _FOLDED_UNITS or key.rpartition(":")[2] in _FOLDED_UNITS or "co2" in key
    return is_candidate and find_unit_factor(_ALL_UNITS, text) is not None


def _fold_unit(text: str) -> str:
    return fold_text(text.strip(" .\u00a0")).replace(" ", "").replace("_", "")


# What is not here, and does not name CO2, is not a unit: most words of a header are not units.
_FOLDED_UNITS: Final = frozenset(_fold_unit(spelling) for spelling in (*_ALL_UNITS, *_LOCAL_NAMES))


class HeaderReading(NamedTuple):
    """One way to read a header: the name, and its unit; `is_certain` if the unit stands in brackets."""

    name: str
    unit: str | None
    is_certain: bool = False


def split_header(text: str) -> Iterator[HeaderReading]:
    """The ways to read a header, the likeliest first. The last have a unit that is not known, if there is one."""
    text = _NUMBERING.sub("", text, count=1) if _NUMBERING.match(text) else text
    text = _BRACKETS.sub(lambda bracket: " " if fold_text(bracket[1].strip(" *")) in _REMARKS else bracket[0], text)
    brackets = list(_BRACKETS.finditer(text))
    for bracket in brackets:
        if is_unit(bracket[1]):
            yield _move_base(HeaderReading(text[: bracket.start()] + " " + text[bracket.end() :], bracket[1], True))
            return
    for form in (_IN_UNIT, *_SEPARATED):
        parts = form.fullmatch(text)
        if parts and is_unit(parts[2]):
            yield _move_base(HeaderReading(parts[1], parts[2]))
    words = text.split()
    for count in range(min(_LAST_WORDS, len(words) - 1), 0, -1):
        unit = " ".join(words[-count:])
        if is_unit(unit):
            yield _move_base(HeaderReading(" ".join(words[:-count]), unit))
    yield HeaderReading(text, None)
    for bracket in brackets:
        yield HeaderReading(text[: bracket.start()] + " " + text[bracket.end() :], bracket[1], True)
    for form in (_IN_UNIT, *_SEPARATED[:1]):
        parts = form.fullmatch(text)
        if parts:
            yield HeaderReading(parts[1], parts[2])


def find_header_unit(text: str) -> str | None:
    """The unit that a header says, `g` of `Masse [g]`; None if it says none that is known."""
    reading = next(split_header(text), None)
    return reading.unit if reading is not None and reading.unit is not None and is_unit(reading.unit) else None


def _move_base(reading: HeaderReading) -> HeaderReading:
    """The reading with all of its unit, if the name says what the unit leaves out: per month, per kWh, of CO2."""
    for form, base in _BASES_IN_NAMES:
        match = form.search(reading.name)
        if match and "/" not in str(reading.unit):
            name = reading.name[: match.start()] + " " + reading.name[match.end() :]
            reading = reading._replace(name=name, unit=f"{reading.unit}{base}")
            break
    mass = _BARE_MASS.fullmatch(str(reading.unit))
    if mass and _SPEAKS_OF_CO2.search(fold_text(reading.name)):
        return reading._replace(unit=f"{mass[1]} CO2e{mass[2]}")
    return reading
