"""How a value of a public format becomes a member of a fact: exactly, or with a warning.

A converter takes a node and the member's type and returns a value that `fact_members` accepts. It returns None if the
node has no value, or if there is a problem, which it notes at the node.

A number with more decimals than the fact has is rounded half-even, with a warning that names both numbers, in two
cases: three digits remain and it changes by at most half a per cent; or the two are equal at 15 digits, which is the
precision of a printed binary fraction. Otherwise it is a problem. Only a share of the mass is left out with a warning
instead, because traces in ppm are usual.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from bpc.core.documents import quote_text
from bpc.core.documents.elements import (
    ExactNumber,
    NumberText,
    RawValue,
    describe_value,
    format_decimal,
    is_plain_decimal,
    parse_exact,
    power_of_ten,
)
from bpc.core.documents.fact_members import INVALID_CHARACTER, UNSTORABLE
from bpc.core.documents.public import DocumentNode
from bpc.core.documents.public.units import PER_CENT, UnitTable, find_factor
from bpc.core.facts.member_readers import is_day
from bpc.core.formats.ascii_case import lower_ascii
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, List, Type

Converter = Callable[[DocumentNode, Type], RawValue]

ONE: Final = power_of_ten(0)
MIN_DIGITS: Final = 3
MAX_CHANGE_DIVISOR: Final = 200  # half a per cent
BINARY_FRACTION_DIGITS: Final = 15
MAX_UNITS_NAMED: Final = 12

_TIMESTAMP: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})T[0-9:.,]{4,20}(?:Z|[+-][0-9:]{2,5})?")
_MONTH: Final = re.compile(r"[0-9]{4}-[0-9]{2}")
_PERIOD: Final = re.compile(r"P(?:([0-9]{1,3})Y)?(?:([0-9]{1,4})M)?")


def to_plain_value(node: DocumentNode, kind: Type) -> RawValue:
    """A value in the form of the fact: a number in its unit, a text, a date, a boolean, a list."""
    if isinstance(kind, List):
        return [text for item in node.items() if (text := to_plain_value(item, kind.item)) is not None] or None
    if isinstance(kind, Dec) or kind == INT:
        return to_number(node, kind)
    return _SCALAR_READERS[kind](node)


def to_number(node: DocumentNode, kind: Type, factor: ExactNumber = ONE) -> RawValue:
    """A number, multiplied by a factor."""
    value = read_amount(node)
    return None if value is None else fit_decimals(node, value * factor, kind)


def read_amount(node: DocumentNode) -> ExactNumber | None:
    """The number at a node, written as a number or as a text."""
    raw = node.take()
    if raw is None:
        return None
    number_text = raw.text if isinstance(raw, NumberText) else raw.removeprefix("+") if isinstance(raw, str) else None
    text = (
        number_text
        if isinstance(raw, NumberText) or (number_text is not None and is_plain_decimal(number_text))
        else None
    )
    value = None if text is None else parse_exact(text)
    if text is None:
        node.add_problem(f"is {describe_value(raw)}, not a number")
    elif value is None or not value.fits_a_fact:
        node.add_problem("is not below 10^36")
        return None
    return value


def fit_decimals(node: DocumentNode, value: ExactNumber, kind: Type, *, is_trace: bool = False) -> RawValue:
    """The value with the decimals of a member of this type."""
    scale = kind.scale if isinstance(kind, Dec) else 0
    if not value.fits_a_fact:
        node.add_problem("is not below 10^36 in the unit of the fact")
        return None
    count = value.at_scale(scale)
    if count is not None:
        return NumberText(format_decimal(count, scale))
    nearest = value.round_half_even(scale)
    if _is_near(value, nearest, scale) or _is_without_noise(value, nearest, scale):
        node.add_rounding(
            f"is {value} in the unit of the fact, which has {scale} decimals; it was rounded to"
            f" {format_decimal(nearest, scale)}",
            scale,
        )
        return NumberText(format_decimal(nearest, scale))
    if is_trace:
        node.add_warning(f"is {value} %, but the fact has only {scale} decimals; it was left out, not rounded")
        return None
    node.add_problem(
        f"is {value} in the unit of the fact, which has {scale} decimals; rounding would change it too much"
    )
    return None


def _is_near(value: ExactNumber, nearest: int, scale: int) -> bool:
    change: int = abs(nearest * 10 ** (value.scale - scale) - value.count)
    return len(str(abs(nearest))) >= MIN_DIGITS and change * MAX_CHANGE_DIVISOR <= abs(value.count)


def _is_without_noise(value: ExactNumber, nearest: int, scale: int) -> bool:
    surplus = len(str(abs(value.count))) - BINARY_FRACTION_DIGITS
    if surplus <= 0:
        return False
    significant_part: int = value.round_half_even(value.scale - surplus) * 10**surplus
    rounded_value: int = nearest * 10 ** (value.scale - scale)
    return significant_part == rounded_value


def to_thousandfold(node: DocumentNode, kind: Type) -> RawValue:
    """A number of kilograms or kilowatts, as grams or watts."""
    return to_number(node, kind, power_of_ten(3))


def convert_amount(
    value: DocumentNode, unit: DocumentNode, measure: UnitTable, kind: Type, *, is_trace: bool = False
) -> RawValue:
    """The number at one node, converted from the unit at another."""
    number = read_amount(value)
    factor = None if number is None else read_unit_factor(unit, measure)
    return None if number is None or factor is None else fit_decimals(value, number * factor, kind, is_trace=is_trace)


def to_unit(measure: UnitTable, value: str = "value", unit: str = "unitCode") -> Converter:
    """An object of a number and its unit; a bare number is in the unit of the fact."""

    def convert(node: DocumentNode, kind: Type) -> RawValue:
        if not isinstance(node.value, dict):
            return to_number(node, kind)
        return convert_amount(node.at(value), node.at(unit), measure, kind)

    return convert


def to_share(value: str, unit: str) -> Converter:
    """A share of the mass. A share of the volume, or one too small for the fact, is left out with a warning."""

    def convert(node: DocumentNode, kind: Type) -> RawValue:
        unit_node = node.at(unit)
        if unit_node.value in _VOLUME_UNITS and read_amount(node.at(value)) is not None:
            unit_node.take()
            unit_node.add_warning(
                f"is {describe_value(unit_node.value)}; facts hold shares of mass, so it was left out"
            )
            return None
        return convert_amount(node.at(value), unit_node, PER_CENT, kind, is_trace=True)

    return convert


_VOLUME_UNITS: Final = ("unit:percentVolume", "percentVolume", "%vol", "% v/v")


def read_unit_factor(node: DocumentNode, measure: UnitTable) -> ExactNumber | None:
    """The factor of the unit at a node; an unknown unit is a problem that names some known ones."""
    unit = node.take()
    factor = find_factor(measure, unit) if isinstance(unit, str) else None
    if factor is None:
        unit_names = ", ".join(f"`{name}`" for name in list(measure)[:MAX_UNITS_NAMED])
        says = "is missing" if unit is None else f"is {describe_value(unit)}"
        node.add_problem(f"{says}; the value needs a known unit, such as {unit_names}")
    return factor


def read_text(node: DocumentNode) -> RawValue:
    """A text; None if it is empty."""
    raw = node.take()
    if raw is None or raw == "":
        return None
    if not isinstance(raw, str):
        node.add_problem(f"is {describe_value(raw)}, not a text")
        return None
    if UNSTORABLE.search(raw):
        node.add_problem(INVALID_CHARACTER)
        return None
    return raw


def read_day(node: DocumentNode) -> RawValue:
    """A date; of a timestamp its date as written, of a month its first day."""
    raw = node.take()
    if raw is None or raw == "":
        return None
    if isinstance(raw, str):
        timestamp = _TIMESTAMP.fullmatch(raw)
        day_text = timestamp[1] if timestamp else f"{raw}-01" if _MONTH.fullmatch(raw) else raw
        if is_day(day_text):
            if day_text != raw:
                node.add_warning(f"is {quote_text(raw)}; the fact holds the date {day_text}")
            return day_text
    node.add_problem(f"is {describe_value(raw)}, which is not a valid date; write dates like 2027-02-18")
    return None


def read_bool(node: DocumentNode) -> RawValue:
    raw = node.take()
    if raw is None or isinstance(raw, bool):
        return raw
    if raw in ("true", "false"):
        return raw == "true"
    node.add_problem(f"is {describe_value(raw)}, not true or false")
    return None


_SCALAR_READERS: Final[Mapping[Type, Callable[[DocumentNode], RawValue]]] = {
    TEXT: read_text,
    DATE: read_day,
    BOOL: read_bool,
}


def map_text(spell: Callable[[str, DocumentNode], RawValue]) -> Converter:
    """A converter that replaces a text."""

    def convert(node: DocumentNode, _: Type) -> RawValue:
        text = read_text(node)
        return spell(text, node) if isinstance(text, str) else None

    return convert


def get_last_part(text: str) -> str:
    """The name at the end of a URL, `Cathode` of `https://…/battery/Cathode`; any other text as it is."""
    if "://" in text or text.startswith(("eubat:", "gs1:", "urn:")):
        return text.replace("#", "/").replace(":", "/").rstrip("/").rpartition("/")[2]
    return text


to_term: Final = map_text(lambda text, _: get_last_part(text))
to_lower_term: Final = map_text(lambda text, _: lower_ascii(get_last_part(text)))
# Countries that are written in words or in small letters become codes with all other values of a fact.
to_country_code: Final = map_text(lambda text, _: text)


def to_localized_text(node: DocumentNode, kind: Type) -> RawValue:
    """A text; of texts in several languages the English one, else the first."""
    options = [item for item in node.items() if isinstance(item.value, dict)]
    if not options:
        return to_plain_value(node.first(), kind)
    english = [item for item in options if item.at("language").value == "en" or item.at("@language").value == "en"]
    option = (english or options)[0]
    node.take()
    return read_text(option.at("value")) or read_text(option.at("@value"))


def to_address(node: DocumentNode, _: Type) -> RawValue:
    """A postal address in one line."""
    if not isinstance(node.value, dict):
        return read_text(node)
    parts = [_read_address_part(node.at(name)) for name in _ADDRESS_MEMBERS]
    return ", ".join(part for part in parts if isinstance(part, str)) or None


def _read_address_part(node: DocumentNode) -> RawValue:
    """A part of an address; a country may be an object with its code."""
    return read_text(node.at("countryCode") if isinstance(node.value, dict) else node)


_ADDRESS_MEMBERS: Final = (
    "streetAddress",
    "postalCode",
    "addressLocality",
    "addressRegion",
    "addressCountry",
    "countryCode",
)


def to_year(node: DocumentNode, _: Type) -> RawValue:
    """The year of a date or a timestamp."""
    day = read_day_silently(node)
    return NumberText(str(int(day[:4]))) if isinstance(day, str) else None


def read_day_silently(node: DocumentNode) -> RawValue:
    """A date; of a timestamp its date, without a warning."""
    raw = node.take()
    timestamp = _TIMESTAMP.fullmatch(raw) if isinstance(raw, str) else None
    return timestamp[1] if timestamp and is_day(timestamp[1]) else read_day(node)


def to_earliest_day(member: str) -> Converter:
    """The oldest date of any `member` below a node: no value is older than the fact says."""

    def convert(node: DocumentNode, _: Type) -> RawValue:
        values = [read_day_silently(timestamp_node) for timestamp_node in _find_everywhere(node, member)]
        days = sorted({day for day in values if isinstance(day, str)})
        if len(days) > 1:
            node.add_warning(f"has values of {len(days)} dates; the fact holds the earliest, {days[0]}")
        return days[0] if days else None

    return convert


def _find_everywhere(node: DocumentNode, member: str) -> list[DocumentNode]:
    if isinstance(node.value, list):
        return [match_node for item in node.items() for match_node in _find_everywhere(item, member)]
    if not isinstance(node.value, dict):
        return []
    return [
        match_node
        for name in node.value
        for match_node in ([node.member(name)] if name == member else _find_everywhere(node.member(name), member))
    ]


def to_warranty_months(node: DocumentNode, kind: Type) -> RawValue:
    """A period in months: a number, or a period of ISO 8601 (`P8Y`)."""
    period = _PERIOD.fullmatch(node.value) if isinstance(node.value, str) else None
    if period and any(period.groups()):
        node.take()
        years, months = (int(part or 0) for part in period.groups())
        return NumberText(str(years * 12 + months))
    if isinstance(node.value, str) and not is_plain_decimal(node.value):
        return None
    return to_number(node, kind)


def to_warranty_end(node: DocumentNode, _: Type) -> RawValue:
    """The last day of a warranty; None if the value is a period."""
    raw = node.value
    if isinstance(raw, str) and re.match("[0-9]{4}-", raw):
        return read_day(node)
    if isinstance(raw, str) and not _PERIOD.fullmatch(raw) and not is_plain_decimal(raw):
        node.take()
        node.add_warning(f"is {quote_text(raw)}, neither a date nor a period of months; it was left out")
    return None


_CATEGORIES: Final = (
    ("non-stationary", "industrial"),
    ("stationary", "stationary"),
    ("light means", "lmt"),
    ("light-means", "lmt"),
    ("lightmeans", "lmt"),
    ("lmt", "lmt"),
    ("electric vehicle", "ev"),
    ("electric-vehicle", "ev"),
    ("electricvehicle", "ev"),
    ("industrial", "industrial"),
    ("sli", "sli"),
    ("starting", "sli"),
    ("portable", "portable"),
)


def parse_category(text: str) -> str | None:
    """The category that a format calls by this name; None for an unknown name."""
    name = lower_ascii(get_last_part(text))
    if name in ("ev", "evbattery", "ev battery", "ev-battery"):
        return "ev"
    return next((category for part, category in _CATEGORIES if part in name), None)


def _map_category(text: str, node: DocumentNode) -> RawValue:
    category = parse_category(text)
    if category not in ("ev", "lmt", "industrial", "stationary"):
        node.add_warning(
            f"is {quote_text(text)}; passports are for `ev`, `lmt`, `industrial` and `stationary` batteries"
        )
    return category or text


to_category: Final = map_text(_map_category)

_STATUSES: Final = {"reused": "re-used", "re-used": "re-used"}


def _map_status(text: str, _: DocumentNode) -> RawValue:
    name = lower_ascii(get_last_part(text))
    return _STATUSES.get(name, name)


to_status: Final = map_text(_map_status)
