"""Write `bpc.core.catalogue.language_table` from CLDR: how each official language of the EU writes numbers and days.

The core reads no files and depends on no library's release, so the few facts it needs are written into it. Babel brings
them; a test compares what the core writes with what Babel writes.
"""

import re
from pathlib import Path
from typing import Final

from babel import Locale
from babel.units import format_unit

ROOT: Final = Path(__file__).parent.parent
FILE: Final = ROOT / "src" / "bpc" / "core" / "catalogue" / "language_table.py"
# English and Portuguese as the EU's institutions write them.
LOCALES: Final = {"en": "en_IE", "pt": "pt_PT"}
LANGUAGES: Final = tuple("bg cs da de el en es et fi fr ga hr hu it lt lv mt nl pl pt ro sk sl sv".split())  # noqa: SIM905
# CLDR's minimumGroupingDigits, which Babel does not bring: thousands are not set apart below 10,000.
SPARE_GROUPS: Final = ("es", "pl", "pt")
# What Babel does not bring: by language and unit the word for one, and for more; Maltese counts to ten in the plural.
OWN_FORMS: Final = {
    ("et", "month"): {"one": "kuu", "other": "kuud"},
    ("it", "month"): {"one": "mese", "many": "mesi", "other": "mesi"},
    ("it", "year"): {"one": "anno", "many": "anni", "other": "anni"},
    ("mt", "month"): {"one": "xahar", "two": "xhur", "few": "xhur", "many": "xahar", "other": "xahar"},
    ("mt", "year"): {"one": "sena", "two": "snin", "few": "snin", "many": "sena", "other": "sena"},
    ("pt", "month"): {"one": "mês", "many": "meses", "other": "meses"},
    ("pt", "year"): {"one": "ano", "many": "anos", "other": "anos"},
}
LETTERS: Final = {"zero": "z", "one": "o", "two": "t", "few": "f", "many": "m", "other": "x"}
NUMBERS: Final = 200  # from 200 on, a number takes the form of its last two digits, with 100 before them
HEAD: Final = '''\
"""How each official language of the EU writes numbers, days, months and years. Made by tools/language_table.py.

The facts are CLDR's. `plurals` has a letter for each of the numbers 0 to 199, and the form of `years` and `months`
with that letter is meant. A number from 200 on is like its last two digits with 100 before them; the letter behind
those is that of fractions.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class LanguageFacts(NamedTuple):
    """What a language writes. `day` is a pattern of `{d}`, `{m}` and `{y}`; `|` divides parts."""

    name: str
    decimal: str
    group: str
    least_grouped: int
    day: str
    month_names: str
    years: str
    months: str
    plurals: str


'''


def build_plurals(locale: Locale) -> str:
    rule = locale.plural_form
    return "".join(LETTERS[rule(number)] for number in range(NUMBERS)) + LETTERS[rule(2.5)]


def build_day_pattern(locale: Locale) -> str:
    pattern = locale.date_formats["long"].pattern
    parts = {"d": "{d}", "MMMM": "{m}", "y": "{y}"}
    plain = re.sub(r"MMMM|d|y|'([^']*)'", lambda match: parts.get(match[0], match[1]), pattern)
    return str(plain)


def build_forms(language: str, plurals: str, unit: str) -> dict[str, str]:
    """By letter the word behind a number, as a number of that letter shows it."""
    if own_forms := OWN_FORMS.get((language, unit)):
        return {LETTERS[form]: word for form, word in own_forms.items()}
    samples: dict[str, float] = {letter: number for number, letter in reversed(list(enumerate(plurals[:NUMBERS])))}
    samples.setdefault(plurals[-1], 2.5)
    return {
        letter: re.sub(
            r"^[0-9.,]*\s*",
            "",
            format_unit(number, f"duration-{unit}", "long", locale=LOCALES.get(language, language)),
        )
        for letter, number in samples.items()
    }


def write_forms(forms: dict[str, str]) -> str:
    return "|".join(f"{letter} {word}" for letter, word in forms.items())


def write_row(language: str) -> str:
    locale = Locale.parse(LOCALES.get(language, language))
    symbols = locale.number_symbols["latn"]
    months = tuple(locale.months["format"]["wide"][number] for number in range(1, 13))
    plurals = build_plurals(locale)
    name = str(locale.get_display_name("en")).split(" (")[0]
    pieces = [plurals[at : at + 100] for at in range(0, len(plurals), 100)]
    lines = [
        f"    {language!r}: LanguageFacts(",
        f"        {name!r},",
        f"        {symbols['decimal']!r},",
        f"        {symbols['group']!r},",
        f"        {5 if language in SPARE_GROUPS else 4},",
        f"        {build_day_pattern(locale)!r},",
        f"        {'|'.join(months)!r},",
        f"        {write_forms(build_forms(language, plurals, 'year'))!r},",
        f"        {write_forms(build_forms(language, plurals, 'month'))!r},",
        "        " + "\n        ".join(map(repr, pieces)) + ",",
        "    ),",
    ]
    return "\n".join(lines)


def build_table() -> str:
    rows = "\n".join(write_row(language) for language in LANGUAGES)
    return f"{HEAD}LANGUAGE_FACTS: Final[Mapping[str, LanguageFacts]] = {{\n{rows}\n}}\n"


if __name__ == "__main__":
    FILE.write_text(build_table(), encoding="utf-8")
