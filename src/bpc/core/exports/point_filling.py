"""BPC-DATA-POINTS-1: which of the Commission's 71 data points a passport fills, and with what.

Pure. A field serves the point that its rule names (`about DP10`). A field whose rule names none serves those of the
members of facts that its value is made of. A point that rules name is filled by the fields that name it alone, and only
when all its parts are: each part that is named (`DP43.2`) by a field of its own, or else all of them by the facts. A
value that is made of other things than the point asks for, such as a fade, was computed for it and fills a point of one
part.

    OpenedBundle, audience ── export_data_points ──► canonical bytes
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from bpc.core.exports.data_points import (
    GUIDANCE,
    POINTS,
    STATUSES,
    VERSION,
    Category,
    DataPoint,
    find_category,
    find_coded_points,
    get_category,
)
from bpc.core.exports.disclosure import (
    TENANT,
    Audience,
    DisclosedField,
    DisclosedPassport,
    disclose_opened,
    may_see_export,
)
from bpc.core.exports.field_sources import FieldSources, MemberRead
from bpc.core.exports.point_parts import PARTS, find_open_parts, is_blank
from bpc.core.facts.schemas import SCHEMA_MEMBERS
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.timestamps import format_time
from bpc.core.language.package import read_words
from bpc.core.language.types import Opt
from bpc.core.verify.canonical import OpenedBundle

# What is said with a data point and does not fill it.
_ACCOMPANYING_MEMBERS: Final = frozenset(
    {
        "recycled_content_year",
        "recycled_content_plant",
        "voltage_temperature_min_degc",
        "voltage_temperature_max_degc",
        "idle_temperature_test",
    }
)


class PointFilling(NamedTuple):
    """The fields that say something of a point, and whether one of them fills it."""

    fields: Sequence[DisclosedField] = ()
    filled: bool = False

    def add_field(self, field: DisclosedField, *, fills: bool) -> "PointFilling":
        return PointFilling((*self.fields, field), self.filled or fills)


def export_data_points(bundle: OpenedBundle, audience: Audience, revoked_at: datetime | None = None) -> bytes:
    """The data points of a bundle that is sound."""
    passport = disclose_opened(bundle, audience, None, revoked_at)
    category, filling = fill_points(bundle, passport, FieldSources(bundle))
    return canonical_json.encode(_build_document(passport, category, filling))


def fill_points(
    bundle: OpenedBundle, passport: DisclosedPassport, field_sources: FieldSources
) -> tuple[Category | None, Mapping[int, PointFilling]]:
    """The category, if a shown field says it, and what fills each point, of what a passport discloses of a bundle."""
    filling = {point.number: PointFilling() for point in POINTS}
    category: Category | None = None
    computed_paths: set[str] = set()
    for field in passport.fields:
        named_number = None if field.about is None else field.about.point_number
        if field.value is None or (field.value in ("", [], {}) and named_number is None):
            continue
        sources = field_sources.trace_field(field.node)
        category = category or _find_category_in_reads(sources.reads)
        if named_number is not None:
            if all(named_number not in _get_point_numbers(read) for read in sources.reads):
                computed_paths.add(field.path)
            continue
        filled_numbers = _collect_numbers(
            (read for read in sources.reads if read.member not in _ACCOMPANYING_MEMBERS), sources.codes
        )
        mentioned_numbers = _collect_numbers(
            (read for read in sources.reads if read.member in _ACCOMPANYING_MEMBERS), ()
        )
        for number in filled_numbers | mentioned_numbers:
            filling[number] = filling[number].add_field(field, fills=number in filled_numbers)
    filling.update(_fill_named_points(bundle, passport.fields, computed_paths, filling))
    if category is None and passport.audience == TENANT:
        category = find_category(passport.product["sku"], bundle.facts)
    return category, filling


def _fill_named_points(
    bundle: OpenedBundle,
    fields: Sequence[DisclosedField],
    computed_paths: Container[str],
    by_members: Mapping[int, PointFilling],
) -> Iterable[tuple[int, PointFilling]]:
    """The points that rules name, with the fields that name them before those that only read what they ask for."""
    abouts = read_words(bundle.entries["rules.bpc"]).fields.values()
    named_points = {about.point for about in abouts if about.point is not None}
    if not named_points:
        return
    open_parts = find_open_parts(bundle.facts)
    telling = [field for field in fields if _says_something(field)]
    told_points = {field.about.point for field in telling if field.about is not None}
    for number in sorted({int(point.partition(".")[0]) for point in named_points}):
        own = [field for field in telling if field.about is not None and field.about.point_number == number]
        parts = {point for point in named_points if point.startswith(f"{number}.")}
        if parts:
            is_filled = parts <= told_points and len(parts) >= len(PARTS[number])
        else:
            is_computed = len(PARTS[number]) == 1 and any(field.path in computed_paths for field in own)
            is_filled = bool(own) and (is_computed or not open_parts[number])
        yield number, PointFilling((*own, *by_members[number].fields), is_filled)


def _says_something(field: DisclosedField) -> bool:
    """Whether a field that names a point has a value for it: a list or record of nothing has none.

    An empty list says that there are none, where that is an answer and the field could have been absent.
    """
    point = None if field.about is None else field.about.point
    if point is None or not is_blank(field.value):
        return point is not None
    number, _, part = point.partition(".")
    parts = PARTS[int(number)]
    position = int(part or 1) - 1
    may_be_none = position < len(parts) and parts[position].may_be_none
    return field.value == [] and isinstance(field.kind, Opt) and may_be_none


def _collect_numbers(reads: Iterable[MemberRead], codes: Iterable[str]) -> set[int]:
    """The numbers of the points that what was read serves, and that codes name."""
    point_sets = [set(_get_point_numbers(read)) for read in reads]
    alone = {number for numbers in point_sets if len(numbers) == 1 for number in numbers}
    by_members = {number for numbers in point_sets for number in (numbers & alone or numbers)}
    return by_members | find_coded_points(codes)


def _get_point_numbers(read: MemberRead) -> Sequence[int]:
    member = SCHEMA_MEMBERS.get(read.fact, {}).get(read.member)
    return () if member is None else member.points


def _find_category_in_reads(reads: Sequence[MemberRead]) -> Category | None:
    categories = (
        get_category(read.value) for read in reads if (read.fact.name, read.member) == ("Battery", "category")
    )
    return next((category for category in categories if category is not None), None)


def _build_document(
    passport: DisclosedPassport,
    category: Category | None,
    filling: Mapping[int, PointFilling],
) -> Mapping[str, Json]:
    points = [point for point in POINTS if may_see_export(point.access, passport.audience)]
    return {
        "audience": passport.audience,
        "battery_product": dict(passport.product),
        "category": category,
        "counts": None if category is None else _count_by_status(points, category, filling),
        "data_points_version": VERSION,
        "guidance": GUIDANCE,
        "issued_at": passport.issued_at,
        "missing": None if category is None else _list_missing(points, category, filling, passport.exempt_points),
        "passport_id": str(passport.receipt.passport_id),
        "passport_version_id": str(passport.receipt.passport_version_id),
        "points": [_build_point(point, category, filling[point.number]) for point in points],
        **_build_status(passport),
    }


def _build_status(passport: DisclosedPassport) -> Mapping[str, Json]:
    """Where the status is, and that it is revoked, where that is known."""
    place, revoked_at = passport.place, passport.revoked_at
    return {
        **({} if place is None else {"status_list": place.list_url, "status_index": str(place.index)}),
        **({} if revoked_at is None else {"revoked_at": format_time(revoked_at)}),
    }


def _build_point(point: DataPoint, category: Category | None, filling: PointFilling) -> Json:
    return {
        "access": list(point.access),
        "dynamic": point.dynamic,
        "fields": [_build_field(field) for field in filling.fields],
        "filled": filling.filled,
        "number": point.number,
        "source": point.source,
        "status": None if category is None else point.get_status(category),
        "title": point.name,
    }


def _build_field(field: DisclosedField) -> Json:
    label: dict[str, Json] = {} if field.about is None else {"label": field.about.label}
    return {**label, "path": field.path, "value": field.value}


def _count_by_status(points: Sequence[DataPoint], category: Category, filling: Mapping[int, PointFilling]) -> Json:
    """Of each status how many there are and how many are filled."""
    counts: dict[str, Json] = {}
    for status, says in STATUSES.items():
        numbers = [point.number for point in points if point.get_status(category) == status]
        filled_count = sum(filling[number].filled for number in numbers)
        counts[status] = {"filled": filled_count, "says": says, "total": len(numbers)}
    return counts


def _list_missing(
    points: Sequence[DataPoint],
    category: Category,
    filling: Mapping[int, PointFilling],
    exempt_points: Container[int],
) -> Json:
    """The numbers of the mandatory points that no field fills, and that are asked of this battery."""
    numbers = [point.number for point in points if point.get_status(category) == "M"]
    return [number for number in numbers if not filling[number].filled and number not in exempt_points]
