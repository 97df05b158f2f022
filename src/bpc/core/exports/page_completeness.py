"""Completeness: how many of the public data points that are mandatory for a category of battery are filled.

Pure. Counted by group, in the order of Annex XIII. A point that the rules do not ask of this battery does not count.

    OpenedBundle, DisclosedPassport ── count_filled_points ──► Completeness(category, (GroupCount(…), …))
"""

from collections.abc import Container, Sequence
from typing import NamedTuple

from bpc.core.catalogue.product_texts import GROUPS
from bpc.core.exports.data_points import POINTS, Category
from bpc.core.exports.disclosure import DisclosedPassport, may_see_export
from bpc.core.exports.field_sources import FieldSources
from bpc.core.exports.point_filling import fill_points
from bpc.core.exports.sheet_values import says_something
from bpc.core.verify.canonical import OpenedBundle


class GroupCount(NamedTuple):
    """A group of data points: how many are filled of those that are mandatory."""

    name: str
    full: int
    total: int


class Completeness(NamedTuple):
    """The mandatory public points of a category, and which of them are filled. Without a category nothing is asked."""

    category: Category | None
    points: Sequence[int]
    full_points: frozenset[int]

    @property
    def groups(self) -> Sequence[GroupCount]:
        starts = sorted(GROUPS)
        counts = []
        for start, end in zip(starts, [*starts[1:], len(POINTS) + 1], strict=True):
            numbers = [number for number in self.points if start <= number < end]
            if numbers:
                counts.append(GroupCount(GROUPS[start], len(self.full_points.intersection(numbers)), len(numbers)))
        return counts

    def add_fields(self, passport: DisclosedPassport) -> "Completeness":
        """The same with the fields of a battery, which fill points that its model leaves open."""
        own_points = {
            field.about.point_number
            for field in passport.fields
            if field.about is not None and field.about.point_number is not None and says_something(field)
        }
        points = _without(self.points, passport.exempt_points)
        return self._replace(points=points, full_points=self.full_points | own_points.intersection(points))


def count_filled_points(bundle: OpenedBundle, passport: DisclosedPassport, sources: FieldSources) -> Completeness:
    """The completeness of what a passport discloses of a bundle."""
    category, filling = fill_points(bundle, passport, sources)
    points = [
        point.number
        for point in POINTS
        if category is not None and point.get_status(category) == "M" and may_see_export(point.access, "public")
    ]
    full_points = frozenset(number for number in points if filling[number].filled)
    return Completeness(category, _without(points, passport.exempt_points), full_points)


def _without(numbers: Sequence[int], exempt_points: Container[int]) -> Sequence[int]:
    return [number for number in numbers if number not in exempt_points]
