"""How a value of a public format becomes a member of a fact: exactly, or not without a word.

A converter takes a place and the member's type and gives what `members` will accept; None where there is nothing, or a
problem, noted at the place itself, where a person will look for it.

A number with more decimals than the fact has room for is rounded half-even, and a warning names both numbers, if three
digits remain and it changes by half a per cent at most; or if it is the rounded number at 15 digits, all that the
printout of a binary fraction is sure of. Any other that does not fit is a problem; only a share of the mass is left out
instead, with a warning, because traces in ppm are usual.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from bpc.core.documents.members import UNSTORABLE
from bpc.core.documents.notes import quoted
from bpc.core.documents.public.measures import Measure, as_lower, factor_of, times
from bpc.core.documents.public.places import Place, named
from bpc.core.documents.values import Exact, Given, Number, exact, is_plain
from bpc.core.facts import MAX_MAGNITUDE, is_day
from bpc.core.rules.types import BOOL, DATE, INT, TEXT, Dec, List, Type

Converter = Callable[[Place, Type], Given]

LONGEST_NAME: Final = 200
ONE: Final = Exact(1, 0)
FEWEST_DIGITS: Final = 3
LARGEST_CHANGE: Final = 200  # one part of so many
DIGITS_OF_A_BINARY_FRACTION: Final = 15
MOST_UNITS_NAMED: Final = 12

_MOMENT: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})T[0-9:.,]{4,20}(?:Z|[+-][0-9:]{2,5})?")
_MONTH: Final = re.compile(r"[0-9]{4}-[0-9]{2}")
_PERIOD: Final = re.compile(r"P(?:([0-9]{1,3})Y)?(?:([0-9]{1,4})M)?")


def plain(place: Place, kind: Type) -> Given:
    """A value that already is what the fact holds: a number in its unit, a text, a day, a truth value, a list."""
    if isinstance(kind, List):
        return [text for item in place.items() if (text := plain(item, kind.item)) is not None] or None
    if isinstance(kind, Dec) or kind == INT:
        return number(place, kind)
    return _SCALARS[kind](place)


def number(place: Place, kind: Type, factor: Exact = ONE) -> Given:
    """A number, times a factor."""
    value = amount(place)
    return None if value is None else fitted(place, times(value, factor), kind)


def amount(place: Place) -> Exact | None:
    """The number that is written here, as a number or as a text."""
    given = place.take()
    if given is None:
        return None
    text = given.text if isinstance(given, Number) else given if isinstance(given, str) and is_plain(given) else None
    value = None if text is None else exact(text)
    if text is None:
        place.problem(f"is {named(given)}, not a number")
    elif value is None or not abs(value.count) < MAX_MAGNITUDE * 10**value.scale:
        place.problem("is not below 10^36")
        return None
    return value


def fitted(place: Place, value: Exact, kind: Type, *, is_trace: bool = False) -> Given:
    """The value with the decimals of a member of this type."""
    scale = kind.scale if isinstance(kind, Dec) else 0
    if not abs(value.count) < MAX_MAGNITUDE * 10**value.scale:
        place.problem("is not below 10^36 in the unit of the fact")
        return None
    count = value.at_scale(scale)
    if count is not None:
        return Number(written(count, scale))
    nearest = _half_even(value, scale)
    if _is_near(value, nearest, scale) or _is_without_noise(value, nearest, scale):
        place.rounding(
            f"is {shown(value)} in the unit of the fact, which has {scale} decimals; it was rounded to"
            f" {written(nearest, scale)}",
            scale,
        )
        return Number(written(nearest, scale))
    if is_trace:
        place.warning(f"is {shown(value)} %, and the fact has only {scale} decimals; it was left out, not rounded")
        return None
    place.problem(
        f"is {shown(value)} in the unit of the fact, which has {scale} decimals; rounding would change it too much"
    )
    return None


def written(count: int, scale: int) -> str:
    """`count` times ten to the power of minus `scale`, in digits."""
    digits = str(abs(count)).rjust(scale + 1, "0")
    return ("-" if count < 0 else "") + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


def shown(value: Exact) -> str:
    text = written(value.count, value.scale)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _is_near(value: Exact, nearest: int, scale: int) -> bool:
    change: int = abs(nearest * 10 ** (value.scale - scale) - value.count)
    return len(str(abs(nearest))) >= FEWEST_DIGITS and change * LARGEST_CHANGE <= abs(value.count)


def _is_without_noise(value: Exact, nearest: int, scale: int) -> bool:
    surplus = len(str(abs(value.count))) - DIGITS_OF_A_BINARY_FRACTION
    if surplus <= 0:
        return False
    kept: int = _half_even(value, value.scale - surplus) * 10**surplus
    rounded: int = nearest * 10 ** (value.scale - scale)
    return kept == rounded


def _half_even(value: Exact, scale: int) -> int:
    whole = 10 ** (value.scale - scale)
    count, rest = divmod(value.count, whole)
    is_up: bool = rest * 2 > whole or (rest * 2 == whole and count % 2 == 1)
    return int(count) + is_up


def times_ten(power: int) -> Converter:
    """A number in a unit that is ten to the `power` of the fact's."""
    factor = Exact(10**power, 0) if power >= 0 else Exact(1, -power)
    return lambda place, kind: number(place, kind, factor)


def measured(measure: Measure, value: str = "value", unit: str = "unitCode") -> Converter:
    """An object of a number and the unit it is in; or the bare number, if it has the unit of the fact."""

    def convert(place: Place, kind: Type) -> Given:
        if not isinstance(place.value, dict):
            return number(place, kind)
        found = amount(place.at(value))
        factor = unit_factor(place.at(unit), measure) if found is not None else None
        return fitted(place.at(value), times(found, factor), kind) if found is not None and factor else None

    return convert


def share(value: str, unit: str, measure: Measure) -> Converter:
    """A share of the mass in its unit. One of the volume, or too small for the fact, is left out with a warning."""

    def convert(place: Place, kind: Type) -> Given:
        found, unit_place = amount(place.at(value)), place.at(unit)
        if found is not None and unit_place.value in _OF_VOLUME:
            unit_place.take()
            unit_place.warning(f"is {named(unit_place.value)}, and facts hold shares of the mass; it was left out")
            return None
        factor = unit_factor(unit_place, measure) if found is not None else None
        if found is None or factor is None:
            return None
        return fitted(place.at(value), times(found, factor), kind, is_trace=True)

    return convert


_OF_VOLUME: Final = ("unit:percentVolume", "percentVolume", "%vol", "% v/v")


def unit_factor(place: Place, measure: Measure) -> Exact | None:
    """The factor of the unit that is named here; a problem with the units we know where it is none of them."""
    unit = place.take()
    factor = factor_of(measure, unit) if isinstance(unit, str) else None
    if factor is None:
        known = ", ".join(f"`{name}`" for name in list(measure)[:MOST_UNITS_NAMED])
        says = "is missing" if unit is None else f"is {named(unit)}"
        place.problem(f"{says}, and the value cannot be converted without a unit we know, such as {known}")
    return factor


def text(place: Place) -> Given:
    """A text; an empty one says nothing."""
    given = place.take()
    if given is None or given == "":
        return None
    if not isinstance(given, str):
        place.problem(f"is {named(given)}, not a text")
        return None
    if UNSTORABLE.search(given):
        place.problem("has a character that is none: U+0000 or half of a surrogate pair")
        return None
    return given


def day(place: Place) -> Given:
    """A day; of a moment its day as it is written there, of a month its first."""
    given = place.take()
    if given is None or given == "":
        return None
    if isinstance(given, str):
        moment = _MOMENT.fullmatch(given)
        whole = moment[1] if moment else f"{given}-01" if _MONTH.fullmatch(given) else given
        if is_day(whole):
            if whole != given:
                place.warning(f"is {quoted(given)}; the fact holds the day {whole}")
            return whole
    place.problem(f"is {named(given)}, which is no day of the calendar; days are written like 2027-02-18")
    return None


def truth(place: Place) -> Given:
    given = place.take()
    if given is None or isinstance(given, bool):
        return given
    if given in ("true", "false"):
        return given == "true"
    place.problem(f"is {named(given)}, not true or false")
    return None


_SCALARS: Final[Mapping[Type, Callable[[Place], Given]]] = {TEXT: text, DATE: day, BOOL: truth}


def of_text(spell: Callable[[str, Place], Given]) -> Converter:
    """A text in other words."""

    def convert(place: Place, _: Type) -> Given:
        given = text(place)
        return spell(given, place) if isinstance(given, str) else None

    return convert


def _last(given: str, _: Place) -> Given:
    return last_part(given)


def last_part(given: str) -> str:
    """The name at the end of an address, `Cathode` of `https://…/battery/Cathode`; of any other text all of it."""
    if "://" in given or given.startswith(("eubat:", "gs1:", "urn:")):
        return given.replace("#", "/").replace(":", "/").rstrip("/").rpartition("/")[2]
    return given


name_at_the_end: Final = of_text(_last)
lower_name_at_the_end: Final = of_text(lambda given, _: as_lower(last_part(given)))
two_letters: Final = of_text(lambda given, _: given if re.fullmatch("[A-Z]{2}", given) else None)


def words(place: Place, kind: Type) -> Given:
    """A text, or one of texts in several languages: the English one if there is one, else the first."""
    options = [item for item in place.items() if isinstance(item.value, dict)]
    if not options:
        return plain(place.first(), kind)
    english = [item for item in options if item.at("language").value == "en" or item.at("@language").value == "en"]
    chosen = (english or options)[0]
    place.take()
    return text(chosen.at("value")) or text(chosen.at("@value"))


def address(place: Place, _: Type) -> Given:
    """A postal address in one line."""
    if not isinstance(place.value, dict):
        return text(place)
    parts = [text(place.at(name)) for name in _ADDRESS]
    return ", ".join(part for part in parts if isinstance(part, str)) or None


_ADDRESS: Final = ("streetAddress", "postalCode", "addressLocality", "addressRegion", "addressCountry", "countryCode")


def year(place: Place, _: Type) -> Given:
    """The year of a day or a moment."""
    given = day_quietly(place)
    return Number(str(int(given[:4]))) if isinstance(given, str) else None


def day_quietly(place: Place) -> Given:
    """A day of which nobody needs to hear that it was a moment."""
    given = place.take()
    moment = _MOMENT.fullmatch(given) if isinstance(given, str) else None
    return moment[1] if moment and is_day(moment[1]) else day(place)


def earliest(member: str) -> Converter:
    """The day of the oldest `member` anywhere below: every value is at least as young as the fact says."""

    def convert(place: Place, _: Type) -> Given:
        found = [day_quietly(moment) for moment in _everywhere(place, member)]
        days = sorted({given for given in found if isinstance(given, str)})
        if len(days) > 1:
            place.warning(f"has values of {len(days)} days; the fact says they were taken on the first, {days[0]}")
        return days[0] if days else None

    return convert


def _everywhere(place: Place, member: str) -> list[Place]:
    if isinstance(place.value, list):
        return [moment for item in place.items() for moment in _everywhere(item, member)]
    if not isinstance(place.value, dict):
        return []
    return [
        moment
        for name in place.value
        for moment in ([place.member(name)] if name == member else _everywhere(place.member(name), member))
    ]


def warranty_months(place: Place, kind: Type) -> Given:
    """A period in months: a number, or one as ISO 8601 writes it (`P8Y`)."""
    period = _PERIOD.fullmatch(place.value) if isinstance(place.value, str) else None
    if period and any(period.groups()):
        place.take()
        years, months = (int(part or 0) for part in period.groups())
        return Number(str(years * 12 + months))
    if isinstance(place.value, str) and not is_plain(place.value):
        return None
    return number(place, kind)


def warranty_end(place: Place, _: Type) -> Given:
    """The last day of a warranty, where that is what is written."""
    given = place.value
    if isinstance(given, str) and re.match("[0-9]{4}-", given):
        return day(place)
    if isinstance(given, str) and not _PERIOD.fullmatch(given) and not is_plain(given):
        place.take()
        place.warning(f"is {quoted(given)}, neither a day nor a period of months; it was left out")
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


def category_named(given: str) -> str | None:
    """One of our categories in any of the ways the formats name it."""
    name = as_lower(last_part(given))
    if name in ("ev", "evbattery"):
        return "ev"
    return next((category for part, category in _CATEGORIES if part in name), None)


def _category(given: str, place: Place) -> Given:
    found = category_named(given)
    if found not in ("ev", "lmt", "industrial", "stationary"):
        place.warning(f"is {quoted(given)}; passports are for `ev`, `lmt`, `industrial` and `stationary` batteries")
    return found or given


category: Final = of_text(_category)

_STATUSES: Final = {"reused": "re-used", "re-used": "re-used"}


def _status(given: str, _: Place) -> Given:
    name = as_lower(last_part(given))
    return _STATUSES.get(name, name)


status: Final = of_text(_status)
