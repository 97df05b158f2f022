"""Pictures of a public page: recycled content beside its minimums, and the state of health as a dial and a curve.

Pure. Lengths and places only, in units of the picture; the template draws them. Everything that a picture says is on
the page as text too.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bpc.core.exports.disclosure import DisclosedField
from bpc.core.language.types import DATE, INT, Dec, List, Qty, Record, Type, unwrap_option_type

BAR_WIDTH: Final = 300
DIAL_LENGTH: Final = 100
CURVE_WIDTH, CURVE_HEIGHT = 300, 90
MOST_CURVE_POINTS: Final = 200
# State of certified energy, the state of health of Annex VII, and what own rules call it.
_HEALTH_POINT: Final = 61
_HEALTH_NAMES: Final = ("state_of_health_pct", "health_pct", "soh_pct", "certified_energy_pct")
_CURVE_NAMES: Final = ("state_of_health_history", "health_history", "soh_history", "certified_energy_history")
_FIRST_DAY: Final = "2031-08-18"
_SECOND_DAY: Final = "2036-08-18"


class MetalMinimum(NamedTuple):
    """Article 8(2) and (3): the shares of a metal that must be recovered from waste, by the day they begin."""

    symbol: str
    name: str
    point: int
    shares: tuple[tuple[str, int], ...]


MINIMUMS: Final = (
    MetalMinimum("Co", "cobalt", 20, ((_FIRST_DAY, 16), (_SECOND_DAY, 26))),
    MetalMinimum("Li", "lithium", 21, ((_FIRST_DAY, 6), (_SECOND_DAY, 12))),
    MetalMinimum("Ni", "nickel", 22, ((_FIRST_DAY, 6), (_SECOND_DAY, 15))),
    MetalMinimum("Pb", "lead", 23, ((_FIRST_DAY, 85),)),
)


class RecycledShare(NamedTuple):
    """A metal, the field with its whole share, and the length of its bar."""

    metal: MetalMinimum
    field: DisclosedField
    width: int


class HealthCurve(NamedTuple):
    """The line of a curve, and its first and last reading: the day and the share in percent, as it was signed."""

    line: str
    first: tuple[str, str]
    last: tuple[str, str]


def list_recycled_shares(fields: Sequence[DisclosedField]) -> Iterator[RecycledShare]:
    """The metals whose share is among some fields that say something."""
    for metal in MINIMUMS:
        names = (f"recycled.{metal.name}_pct", f"recycled.{metal.name}.total", f"recycled.{metal.name}")
        own = [field for field in fields if field.path.endswith(names) and _get_point(field) in {metal.point, None}]
        for field in own[:1]:
            yield RecycledShare(metal, field, scale_share(_read_number(field.value), BAR_WIDTH))


def find_health(fields: Sequence[DisclosedField]) -> DisclosedField | None:
    """The field with the state of health in percent."""
    return next((field for field in fields if _is_health(field)), None)


def _is_health(field: DisclosedField) -> bool:
    is_share = isinstance(unwrap_option_type(field.kind), Dec | Qty) or unwrap_option_type(field.kind) == INT
    return is_share and (_get_point(field) == _HEALTH_POINT or field.path.endswith(_HEALTH_NAMES))


def draw_health_curve(fields: Sequence[DisclosedField]) -> HealthCurve | None:
    """The curve of a list of records with a day and a share, if there is one with two days or more."""
    for field in fields:
        if field.path.endswith(_CURVE_NAMES) and (members := _find_curve_members(field.kind)) is not None:
            day_name, share_name = members
            readings = sorted(
                (record[day_name], _read_number(record[share_name]))
                for record in _list_records(field.value)
                if record[day_name] is not None and record[share_name] is not None
            )[-MOST_CURVE_POINTS:]
            if len({day for day, _ in readings}) > 1:
                return _draw_curve(readings)
    return None


def _find_curve_members(kind: Type) -> tuple[str, str] | None:
    inner = unwrap_option_type(kind)
    if not isinstance(inner, List) or not isinstance(inner.item, Record):
        return None
    kinds = {name: unwrap_option_type(member) for name, member in inner.item.members}
    days = [name for name, member in kinds.items() if member == DATE]
    shares = [name for name, member in kinds.items() if isinstance(member, Dec | Qty) or member == INT]
    return (days[0], shares[0]) if days and shares else None


def _list_records(value: Any) -> Sequence[Mapping[str, Any]]:
    return value if isinstance(value, list) else []


def _draw_curve(readings: Sequence[tuple[str, str]]) -> HealthCurve:
    """Days from left to right, 0 to 100 percent from below."""
    days = [_number_day(day) for day, _ in readings]
    span = days[-1] - days[0]
    points = [
        f"{(day - days[0]) * CURVE_WIDTH // span},{CURVE_HEIGHT - scale_share(share, CURVE_HEIGHT)}"
        for day, (_, share) in zip(days, readings, strict=True)
    ]
    return HealthCurve(" ".join(points), readings[0], readings[-1])


def _number_day(day: str) -> int:
    """A day as a number that grows evenly enough for a picture: months have 31 days here."""
    year, month, day_of_month = map(int, day.split("-"))
    return (year * 12 + month) * 31 + day_of_month


def _get_point(field: DisclosedField) -> int | None:
    return None if field.about is None else field.about.point_number


def _read_number(value: Any) -> str:
    return str(value["value"] if isinstance(value, Mapping) else value)


def scale_share(share: str, length: int) -> int:
    """A share in percent as a part of a length, rounded down; shares are exact texts, such as `8.08`."""
    whole, _, fraction = share.partition(".")
    if whole.startswith("-"):
        return 0
    hundredths = int(whole) * 100 + int(f"{fraction}00"[:2])
    return min(length, hundredths * length // 10_000)
