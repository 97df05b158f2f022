"""What a template asks for: the sheets, columns and rows for a category of batteries, in English or German.

Pure. The sheets follow Annex XIII of Regulation (EU) 2023/1542, the columns the numbers of the data points. What is not
to be filled in for the category is not asked. With `wanted`, only what is still missing for some products is.

    category, language, wanted ── build_template ──► Template(sheets of columns and rows)
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from bpc.core.documents.fact_members import list_columns
from bpc.core.documents.forms.template_groups import (
    BESIDE,
    FIRST_IN_RECORD,
    GROUPS,
    KEYS,
    OF_CATEGORY,
    PENDING_TYPES,
    RECORDS,
    TemplateGroup,
)
from bpc.core.documents.forms.template_words import (
    WORDS,
    Language,
    Mark,
    TemplateWords,
    capitalize_first,
    cite_source,
    describe_type,
    name_column,
)
from bpc.core.documents.header_units import find_member_unit
from bpc.core.exports.data_points import POINTS, Category, DataPoint
from bpc.core.exports.point_parts import PARTS, FillingWay
from bpc.core.facts.enumerations import ENUMERATIONS
from bpc.core.facts.item_schemas import SchemaMember
from bpc.core.facts.schemas import SCHEMA_MEMBERS, SCHEMA_VERSION, STATE_MEMBERS
from bpc.core.language.types import BOOL, INT, Dec, FactRecordType, List, Type

MAX_SHOWN_CHOICES: Final = 12


class AskedMember(NamedTuple):
    """A member of a fact type; `list.member` is a member of a record in a list."""

    fact_type: str
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateColumn:
    """A column: the name it is read by, what people call it, and how much it is needed.

    `choices` are offered; unless `is_open`, there are no others. `comment` explains the column and cites the law.
    """

    name: str
    label: str
    kind: Type
    mark: Mark
    comment: str
    unit: str | None = None
    points: tuple[int, ...] = ()
    choices: tuple[str, ...] = ()
    is_open: bool = False


class TemplateRow(NamedTuple):
    """A product that is asked about, and the names of the columns that are still open for it."""

    sku: str
    asked: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetPlan:
    """A sheet: its name, title and legal source, the type of its rows, its columns, and rows with known products."""

    label: str
    title: str
    source: str
    fact_type: str
    columns: tuple[TemplateColumn, ...]
    rows: tuple[TemplateRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    category: Category
    language: Language
    words: TemplateWords
    sheets: tuple[SheetPlan, ...]
    is_of_missing: bool = False


_MARK_ORDER: Final[Sequence[Mark]] = ("mandatory", "alternative", "conditional", "optional")
_NOT_ASKED: Final = frozenset({"X", "P"})


def build_template(
    category: Category, language: Language, wanted_members: Mapping[str, Collection[AskedMember]] | None = None
) -> Template:
    """The template of a category; with `wanted_members` (those that are missing, by SKU), of those only."""
    builder = _TemplateBuilder(category, language, wanted_members)
    return Template(
        category=category,
        language=language,
        words=WORDS[language],
        sheets=tuple(builder.build_sheets()),
        is_of_missing=wanted_members is not None,
    )


def find_template_column(fact_type: str, member: str) -> str | None:
    """The column in which a template asks for a member; None if the fact type has no such member."""
    name, _, inner = member.partition(".")
    schema_member = _get_schema(fact_type).get(name)
    if schema_member is None:
        return None
    return f"{name}[1].{inner}" if inner else _list_ordered_columns(name, schema_member)[0][0]


def _list_ordered_columns(name: str, member: SchemaMember, records: int = 1) -> list[tuple[str, Type]]:
    """The columns of a member with their types; of each record, what names it comes first."""

    def get_order(column: str) -> tuple[str, int]:
        record, _, inner = column.partition("].")
        return record, FIRST_IN_RECORD.index(inner) if inner in FIRST_IN_RECORD else len(FIRST_IN_RECORD)

    columns = [(column, kind) for column, kind, _ in list_columns(name, member, records=records)]
    return sorted(columns, key=lambda column: get_order(column[0]))


def _get_schema(fact_type: str) -> Mapping[str, SchemaMember]:
    return SCHEMA_MEMBERS.get(FactRecordType(fact_type, SCHEMA_VERSION), {})


class _TemplateBuilder:
    def __init__(
        self, category: Category, language: Language, wanted_members: Mapping[str, Collection[AskedMember]] | None
    ) -> None:
        self._category: Category = category
        self._language: Language = language
        self._words = WORDS[language]
        self._wanted = wanted_members
        self._asked_points = [point for point in POINTS if point.get_status(category) not in _NOT_ASKED]

    def build_sheets(self) -> Iterator[SheetPlan]:
        number = 0
        for group in GROUPS:
            columns = list(self._build_columns(group))
            keys = KEYS.get(group.fact_type, ("sku",))
            if all(column.name in keys for column in columns):
                continue
            number += 1
            title = group.titles[self._language]
            yield SheetPlan(
                label=f"{number} {title}",
                title=title,
                source=group.sources[self._language],
                fact_type=group.fact_type,
                columns=tuple(columns),
                rows=tuple(self._build_rows(group.fact_type, columns)),
            )

    # Columns ----------------------------------------------------------------------------------------------------

    def _build_columns(self, group: TemplateGroup) -> Iterator[TemplateColumn]:
        keys = KEYS.get(group.fact_type, ("sku",))
        schema = _get_schema(group.fact_type)
        for key in keys:
            yield self._build_column(group.fact_type, key, schema[key].type, "mandatory", ())
        members = [
            (place, name)
            for name in schema
            if name not in keys and (place := self._place_member(group, name)) is not None
        ]
        for _, name in sorted(members, key=lambda member: member[0]):  # stable: else in the order of the schema
            yield from self._build_member_columns(group.fact_type, name, schema[name])

    def _place_member(self, group: TemplateGroup, name: str) -> int | None:
        """The data point at which a member stands on this sheet; None if it is not on it."""
        place = self._find_point(group.fact_type, name)
        if place is None or not self._is_wanted(group.fact_type, name):
            return None
        return place if self._find_group(group.fact_type, place) == group else None

    def _find_point(self, fact_type: str, name: str) -> int | None:
        member = _get_schema(fact_type)[name]
        if self._wanted is None and (
            fact_type in PENDING_TYPES or OF_CATEGORY.get(name, self._category) != self._category
        ):
            return None
        if not member.points or fact_type in PENDING_TYPES:
            return BESIDE.get(name, 0)
        numbers = [point.number for point in self._asked_points if point.number in member.points]
        if not numbers:
            return None if self._wanted is None else member.points[0]
        return numbers[0]

    def _find_group(self, fact_type: str, place: int) -> TemplateGroup:
        own = [group for group in GROUPS if group.fact_type == fact_type]
        return next((group for group in reversed(own) if group.first_point <= place), own[0])

    def _is_wanted(self, fact_type: str, name: str) -> bool:
        if self._wanted is None:
            return True
        wanted_members = {each.member.partition(".")[0] for each in self._list_wanted() if each.fact_type == fact_type}
        # A state without its day is not a reading.
        return name in wanted_members or (name == "state_recorded_on" and not wanted_members.isdisjoint(STATE_MEMBERS))

    def _list_wanted(self) -> Iterator[AskedMember]:
        for members in (self._wanted or {}).values():
            yield from members

    def _build_member_columns(self, fact_type: str, name: str, member: SchemaMember) -> Iterator[TemplateColumn]:
        inner_wanted = {
            each.member.partition(".")[2]
            for each in self._list_wanted()
            if each.fact_type == fact_type and each.member.partition(".")[0] == name
        }
        for column, kind in _list_ordered_columns(name, member, RECORDS.get(name, 1)):
            inner = column.partition("].")[2]
            if self._wanted is None or not inner or "" in inner_wanted or inner in inner_wanted or not inner_wanted:
                yield self._build_column(fact_type, column, kind, *self._find_mark(fact_type, column), member)

    def _find_mark(self, fact_type: str, column: str) -> tuple[Mark, tuple[str, ...]]:
        """How much a column is needed, and the names of the columns that may stand instead."""
        best: tuple[Mark, tuple[str, ...]] = ("optional", ())
        for point in self._asked_points:
            for part in PARTS[point.number]:
                if any(way.members == ("sku",) for way in part.ways):
                    continue
                for index, way in enumerate(part.ways):
                    if column in _list_way_columns(way, fact_type):
                        mark = _choose_mark(point, self._category, is_first=index == 0)
                        others = part.ways[1:] if index == 0 else part.ways[:1]
                        if _MARK_ORDER.index(mark) < _MARK_ORDER.index(best[0]):
                            best = mark, tuple(self._name_ways(others, fact_type))
        return best

    def _name_ways(self, ways: Iterable[FillingWay], fact_type: str) -> Iterator[str]:
        for way in ways:
            columns = _list_way_columns(way, way.fact_type)
            names = [name_column(way.fact_type, column, self._language) for column in columns]
            sheet = next(group.titles[self._language] for group in GROUPS if group.fact_type == way.fact_type)
            yield " + ".join(names) + (f" ({sheet})" if way.fact_type != fact_type else "")

    def _build_column(
        self,
        fact_type: str,
        name: str,
        kind: Type,
        mark: Mark,
        others: tuple[str, ...],
        member: SchemaMember | None = None,
    ) -> TemplateColumn:
        points = [] if member is None else [point for point in self._asked_points if point.number in member.points]
        enumeration = ENUMERATIONS.get((fact_type, name))
        choices: tuple[str, ...] = (self._words.yes, self._words.no) if kind == BOOL else ()
        is_open = False
        if enumeration is not None and not isinstance(kind, List):
            choices, is_open = enumeration.values, enumeration.is_open
        unit = find_member_unit(name.rpartition(".")[2]) if isinstance(kind, Dec) or kind == INT else None
        symbol = None if unit is None or unit.may_be_missing else self._words.units.get(unit.symbol, unit.symbol)
        label = name_column(fact_type, name, self._language)
        return TemplateColumn(
            name=name,
            label=label,
            kind=kind,
            mark=mark,
            comment="\n".join(self._explain_column(label, kind, mark, others, points, symbol, choices, is_open)),
            unit=symbol,
            points=tuple(point.number for point in points),
            choices=choices,
            is_open=is_open,
        )

    def _explain_column(
        self,
        label: str,
        kind: Type,
        mark: Mark,
        others: tuple[str, ...],
        points: Sequence[DataPoint],
        unit: str | None,
        choices: tuple[str, ...],
        is_open: bool,
    ) -> Iterator[str]:
        words = self._words
        yield f"{label} ({words.marks[mark]})"
        how = describe_type(kind, words) + (f", {words.unit.format(unit)}" if unit else "")
        yield capitalize_first(how) + "."
        if choices and kind != BOOL and len(choices) <= MAX_SHOWN_CHOICES:
            yield (words.one_of_or_other if is_open else words.one_of).format(", ".join(choices))
        if others:
            yield (words.instead if mark != "alternative" else words.instead_of).format("; ".join(others))
        for point in points:
            yield f"{words.data_point} {point.number}: {cite_source(point.source, self._language)}"
        if points:
            yield words.regulation

    # Rows -------------------------------------------------------------------------------------------------------

    def _build_rows(self, fact_type: str, columns: Sequence[TemplateColumn]) -> Iterator[TemplateRow]:
        """A row for each product that something on this sheet is asked of."""
        for sku, members in sorted((self._wanted or {}).items()):
            asked_members = {
                column.name
                for column in columns
                for each in members
                if each.fact_type == fact_type and _is_column_of(column.name, each.member)
            }
            if not asked_members:
                continue
            day = {column.name for column in columns if column.name == "state_recorded_on"}
            has_state = any(name.partition("[")[0] in STATE_MEMBERS for name in asked_members)
            part = {"part"} if fact_type == "Component" else set()
            yield TemplateRow(sku, frozenset(asked_members | part | (day if has_state else set())))


def _choose_mark(point: DataPoint, category: Category, *, is_first: bool) -> Mark:
    status = point.get_status(category)
    if status == "M":
        return "mandatory" if is_first else "alternative"
    return "conditional" if status == "C" else "optional"


@cache  # asked for every column of a template, of every way there is
def _list_way_columns(way: FillingWay, fact_type: str) -> tuple[str, ...]:
    """The columns that must be filled in for a way, if it is of this fact type."""
    if way.fact_type != fact_type:
        return ()
    columns = (find_template_column(fact_type, member) for member in way.members)
    return tuple(column for column in columns if column is not None)


def _is_column_of(column: str, member: str) -> bool:
    name, _, inner = member.partition(".")
    own, _, rest = column.partition("[")
    return own == name and (not inner or rest.partition("].")[2] == inner)
