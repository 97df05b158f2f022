"""Identifiers of operators and places: GLN, EORI, VAT and LEI. Form and check digits are checked, existence is not.

OperatorIdentifier.parse("LEI", "529900T8BM49AURSDO55")      refused with what is wrong, or the one spelling of it
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Self

from bpc.core.formats.ascii_case import upper_ascii
from bpc.core.identifiers.gs1 import BadIdentifier, parse_gln

OperatorScheme = Literal["GLN", "EORI", "VAT", "LEI"]

_EORI: Final = re.compile("([A-Z]{2})[A-Z0-9]{1,15}")
_LEI: Final = re.compile("[A-Z0-9]{18}[0-9]{2}")
# What follows the two letters of the country.
_VAT_FORMS: Final[Mapping[str, re.Pattern[str]]] = {
    country: re.compile(form)
    for country, form in {
        "AT": "U[0-9]{8}",
        "BE": "[01][0-9]{9}",
        "BG": "[0-9]{9,10}",
        "CY": "[0-9]{8}[A-Z]",
        "CZ": "[0-9]{8,10}",
        "DE": "[0-9]{9}",
        "DK": "[0-9]{8}",
        "EE": "[0-9]{9}",
        "EL": "[0-9]{9}",
        "ES": "[A-Z0-9][0-9]{7}[A-Z0-9]",
        "FI": "[0-9]{8}",
        "FR": "[A-Z0-9]{2}[0-9]{9}",
        "HR": "[0-9]{11}",
        "HU": "[0-9]{8}",
        "IE": "[0-9][A-Z0-9+*][0-9]{5}[A-Z]{1,2}",
        "IT": "[0-9]{11}",
        "LT": "(?:[0-9]{9}|[0-9]{12})",
        "LU": "[0-9]{8}",
        "LV": "[0-9]{11}",
        "MT": "[0-9]{8}",
        "NL": "[A-Z0-9+*]{10}[0-9]{2}",
        "PL": "[0-9]{10}",
        "PT": "[0-9]{9}",
        "RO": "[0-9]{2,10}",
        "SE": "[0-9]{10}01",
        "SI": "[0-9]{8}",
        "SK": "[0-9]{10}",
        "XI": "(?:[0-9]{9}|[0-9]{12}|GD[0-9]{3}|HA[0-9]{3})",
    }.items()
}
# The European Union's countries, Northern Ireland (XI) and the United Kingdom; only a VAT number writes EL for Greece.
_EORI_COUNTRIES: Final = frozenset(_VAT_FORMS) - {"EL"} | {"GR", "GB"}


@dataclass(frozen=True, slots=True)
class OperatorIdentifier:
    """Who answers for a battery, or where it was made: a number in one of four schemes, in its one spelling."""

    scheme: OperatorScheme
    value: str

    @classmethod
    def parse(cls, scheme: OperatorScheme, text: str) -> Self:
        """Check an identifier; blanks, points and hyphens that people put between digits are left out."""
        plain = upper_ascii(re.sub(r"[ .\-]", "", text))
        return cls(scheme, _PARSERS[scheme](plain))


def parse_lei(text: str) -> str:
    """A legal entity identifier of ISO 17442."""
    if not _LEI.fullmatch(text):
        raise BadIdentifier("LEI", "does not have 18 letters or digits and 2 digits", "write its 20 characters")
    # ISO/IEC 7064, MOD 97-10: a letter counts as 10 to 35, and the whole number leaves 1.
    if int("".join(str(int(char, 36)) for char in text)) % 97 != 1:
        raise BadIdentifier("LEI", "has check digits that do not fit", "compare it with the register")
    return text


def parse_eori(text: str) -> str:
    """A number of an economic operator at customs."""
    parts = _EORI.fullmatch(text)
    if parts is None or parts[1] not in _EORI_COUNTRIES:
        problem = "is not a country of the customs union and 1 to 15 letters or digits"
        raise BadIdentifier("EORI number", problem, "write it like DE1234567890123")
    return text


def parse_vat(text: str) -> str:
    """A VAT number of a country of the Union; check digits of BE, DE, HR and IT are checked."""
    country, number = text[:2], text[2:]
    form = _VAT_FORMS.get(country)
    if form is None or not form.fullmatch(number):
        raise BadIdentifier("VAT number", "does not have the form of its country", "write it like DE136695976")
    if country in _VAT_CHECKS and not _VAT_CHECKS[country](number):
        raise BadIdentifier("VAT number", "has a check digit that does not fit", "compare it with the register")
    return text


def _fits_iso_7064_mod_11_10(number: str) -> bool:
    product = 10
    for digit in number[:-1]:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == int(number[-1])


def _fits_luhn(number: str) -> bool:
    doubled_digits = (int(digit) * (1 + index % 2) for index, digit in enumerate(reversed(number)))
    return sum(value - 9 if value > 9 else value for value in doubled_digits) % 10 == 0


def _fits_mod_97(number: str) -> bool:
    return 97 - int(number[:-2]) % 97 == int(number[-2:])


_VAT_CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {
    "BE": _fits_mod_97,
    "DE": _fits_iso_7064_mod_11_10,
    "HR": _fits_iso_7064_mod_11_10,
    "IT": _fits_luhn,
}
_PARSERS: Final[Mapping[OperatorScheme, Callable[[str], str]]] = {
    "EORI": parse_eori,
    "GLN": parse_gln,
    "LEI": parse_lei,
    "VAT": parse_vat,
}
