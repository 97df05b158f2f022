"""Data points, BPC-DATA-POINTS-1: which of the Commission's 71 data points a passport fills, and with what.

Pure. A field fills the data points of the members of facts that its value is made of (bpc.core.exports.reading), unless
it is absent or empty. A member that serves several points serves those of them that the others name alone, where there
are such: cobalt's recycled share is not lithium's. The year of a share is not a share: some members only go with a
point. A value that is computed of other fields names its point by the code of an assertion, `DP52`. For an audience
there are only the points that are meant for it, filled by what it may see.

    Opened, audience ── data_points ──► canonical bytes
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from bpc.core import canon
from bpc.core.canon import Json
from bpc.core.exports.disclosed import TENANT, Audience, Disclosed, ShownField, disclosed_of, may_see
from bpc.core.exports.points import GUIDANCE, POINTS, STATUSES, Category, Point, category_of
from bpc.core.exports.reading import Read, Reading
from bpc.core.schemas import MEMBERS
from bpc.core.verify.structure import Opened

VERSION: Final = "BPC-DATA-POINTS-1"
_CODE: Final = re.compile("DP([0-9]{2})")
# What is said with a data point and does not fill it.
_BESIDE: Final = frozenset(
    {
        "recycled_content_year",
        "recycled_content_plant",
        "voltage_temperature_min_degc",
        "voltage_temperature_max_degc",
        "idle_temperature_test",
    }
)


class Filling(NamedTuple):
    """The fields that say something of a point, and whether one of them fills it."""

    fields: Sequence[ShownField] = ()
    filled: bool = False

    def and_by(self, field: ShownField, *, fills: bool) -> "Filling":
        return Filling((*self.fields, field), self.filled or fills)


def data_points(opened: Opened, audience: Audience) -> bytes:
    """The data points of a bundle that is sound."""
    shown, reading = disclosed_of(opened, audience), Reading.of(opened)
    filling = {point.number: Filling() for point in POINTS}
    category: Category | None = None
    for field in shown.fields:
        if _is_empty(field.value):
            continue
        made = reading.of_field(field.node)
        category = category or _category(made.reads)
        by_it = _numbers((read for read in made.reads if read.member not in _BESIDE), made.codes)
        beside = _numbers((read for read in made.reads if read.member in _BESIDE), ())
        for number in by_it | beside:
            filling[number] = filling[number].and_by(field, fills=number in by_it)
    if category is None and audience == TENANT:
        category = _category_of_facts(opened, shown.product["sku"])
    return canon.encode(_written(shown, category, filling))


def _numbers(reads: Iterable[Read], codes: Iterable[str]) -> set[int]:
    """The numbers of the points that what was read serves, and that codes name."""
    served = [set(_points(read)) for read in reads]
    alone = {number for numbers in served if len(numbers) == 1 for number in numbers}
    by_members = {number for numbers in served for number in (numbers & alone or numbers)}
    coded = (_CODE.fullmatch(code) for code in codes)
    return by_members | {int(found[1]) for found in coded if found and 1 <= int(found[1]) <= len(POINTS)}


def _points(read: Read) -> Sequence[int]:
    member = MEMBERS.get(read.fact, {}).get(read.member)
    return () if member is None else member.points


def _is_empty(value: Json) -> bool:
    return value is None or value in ("", [], {})


def _category(reads: Sequence[Read]) -> Category | None:
    named = (category_of(read.value) for read in reads if (read.fact.name, read.member) == ("Battery", "category"))
    return next((category for category in named if category is not None), None)


def _category_of_facts(opened: Opened, sku: str) -> Category | None:
    """The category of a passport none of whose fields says it."""
    for fact in opened.facts:
        if (fact.fact_type, fact.fact_key) == ("Battery", f"battery:{sku}"):
            return category_of(fact.payload.get("category"))
    return None


def _written(shown: Disclosed, category: Category | None, filling: Mapping[int, Filling]) -> Mapping[str, Json]:
    points = [point for point in POINTS if may_see(point.access, shown.audience)]
    return {
        "audience": shown.audience,
        "battery_product": dict(shown.product),
        "category": category,
        "counts": None if category is None else _counts(points, category, filling),
        "data_points_version": VERSION,
        "guidance": GUIDANCE,
        "issued_at": shown.issued_at,
        "missing": None if category is None else _missing(points, category, filling),
        "passport_id": str(shown.receipt.passport_id),
        "passport_version_id": str(shown.receipt.passport_version_id),
        "points": [_point(point, category, filling[point.number]) for point in points],
    }


def _point(point: Point, category: Category | None, filling: Filling) -> Json:
    return {
        "access": list(point.access),
        "dynamic": point.dynamic,
        "fields": [{"path": field.path, "value": field.value} for field in filling.fields],
        "filled": filling.filled,
        "number": point.number,
        "source": point.source,
        "status": None if category is None else point.status(category),
        "title": point.name,
    }


def _counts(points: Sequence[Point], category: Category, filling: Mapping[int, Filling]) -> Json:
    """Of each status how many there are and how many are filled."""
    counts: dict[str, Json] = {}
    for status, says in STATUSES.items():
        numbers = [point.number for point in points if point.status(category) == status]
        filled = sum(filling[number].filled for number in numbers)
        counts[status] = {"filled": filled, "says": says, "total": len(numbers)}
    return counts


def _missing(points: Sequence[Point], category: Category, filling: Mapping[int, Filling]) -> Json:
    """The numbers of the mandatory points that no field fills."""
    return [point.number for point in points if point.status(category) == "M" and not filling[point.number].filled]
