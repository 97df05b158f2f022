"""Numbers, quantities and days as a language writes them: `1234.5` is `1,234.5`, `1.234,5` or `1 234,5`.

Pure. Numbers come as the texts that passports and findings hold them in, and no digit is lost or rounded. A unit
follows its number behind a no-break space, as the Regulation's own texts write it. `language_table` has the facts.
"""

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from bpc.core.catalogue.language_table import LANGUAGE_FACTS, LanguageFacts

Language: TypeAlias = str
LANGUAGES: Final[tuple[Language, ...]] = tuple(LANGUAGE_FACTS)
SOURCE_LANGUAGE: Final = "en"
NO_BREAK_SPACE: Final = "\N{NO-BREAK SPACE}"
MINUS: Final = "\N{MINUS SIGN}"

UNIT_SYMBOLS: Final[Mapping[str, str]] = {
    "pct": "%",
    "degC": "°C",
    "ohm": "Ω",
    "mohm": "mΩ",
    "gCO2e": "g CO₂e",
    "kgCO2e": "kg CO₂e",
    "tCO2e": "t CO₂e",
    "gCO2e_per_kWh": "g CO₂e/kWh",
    "kgCO2e_per_kWh": "kg CO₂e/kWh",
    "per_h": "h⁻¹",
    "each": "",
    "cycle": "",
}
_NUMBER: Final = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?")
_DAY: Final = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")
_QUANTITY: Final = re.compile(r"(\S+) ([A-Za-z0-9_]+)")


def get_facts(language: Language) -> LanguageFacts:
    """What the language writes; a language that we do not know is number_text as English."""
    return LANGUAGE_FACTS.get(language, LANGUAGE_FACTS[SOURCE_LANGUAGE])


def format_number(language: Language, text: str, *, decimals: int | None = None) -> str:
    """A decimal number without zeros at its end, cut visibly after `decimals`; what is no number stays as it is."""
    parts = _NUMBER.fullmatch(text)
    if parts is None:
        return text
    facts = get_facts(language)
    sign, integer, fraction = parts[1], parts[2], (parts[3] or "").rstrip("0")
    rest = ""
    if decimals is not None and len(fraction) > decimals:
        fraction, rest = fraction[:decimals], "…"
    if len(integer) >= facts.least_grouped:
        first = len(integer) % 3
        groups = [integer[:first], *(integer[at : at + 3] for at in range(first, len(integer), 3))]
        integer = facts.group.join(group for group in groups if group)
    return f"{MINUS if sign else ''}{integer}{facts.decimal + fraction if fraction else ''}{rest}"


def format_day(language: Language, text: str) -> str:
    """A day such as `2027-02-18` in words; what is no day stays as it is."""
    parts = _DAY.fullmatch(text)
    if parts is None:
        return text
    facts = get_facts(language)
    month = facts.month_names.split("|")[int(parts[2]) - 1]
    return facts.day.format(d=int(parts[3]), m=month, y=int(parts[1]))


def format_quantity(language: Language, number: str, unit: str, *, decimals: int | None = None) -> str:
    """A number with its unit: `480,5 kg`, `10 Jahre`."""
    number_text = format_number(language, number, decimals=decimals)
    facts = get_facts(language)
    match unit:
        case "year":
            symbol = _choose_form(facts, facts.years, number)
        case "month":
            symbol = _choose_form(facts, facts.months, number)
        case "pct_per_month":
            symbol = f"%/{_choose_form(facts, facts.months, '1')}"
        case _:
            symbol = UNIT_SYMBOLS.get(unit, unit)
    return f"{number_text}{NO_BREAK_SPACE}{symbol}" if symbol else number_text


def format_quantity_text(language: Language, text: str) -> str:
    """A quantity as findings hold it, `65 kg`; what is none stays as it is."""
    parts = _QUANTITY.fullmatch(text)
    if parts is None or _NUMBER.fullmatch(parts[1]) is None:
        return text
    return format_quantity(language, parts[1], parts[2])


def _choose_form(facts: LanguageFacts, forms: str, number: str) -> str:
    words = dict(form.split(" ", 1) for form in forms.split("|"))
    parts = _NUMBER.fullmatch(number)
    if parts is None or (parts[3] or "").strip("0"):
        letter = facts.plurals[-1]
    else:
        value = int(parts[2])
        letter = facts.plurals[value if value < 200 else 100 + value % 100]
    return words.get(letter, words.get("x", ""))
