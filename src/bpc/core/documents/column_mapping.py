"""Column mappings: which column of a supplier's table is which member, in which unit and locale.

A mapping is accepted by a person once and then used instead of guessing. It is plain data, so that it can be stored:

    {"sheets": [{"name": "Tabelle1", "fact_types": ["Battery"], "orientation": "rows",
                 "header_row": 3, "header_rows": 1,
                 "columns": [{"header": "Gewicht", "member": "mass_kg", "unit": "kg", "locale": "comma"}]}]}

A column whose `member` is null is known and left out. `header_row` is the number of the row in the file (in a data
sheet, of the first name).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from bpc.core.documents.cells import MAX_COLUMNS
from bpc.core.documents.elements import FACT_TYPES
from bpc.core.documents.fact_members import fits_a_cell, parse_column_name
from bpc.core.documents.header_names import build_target
from bpc.core.documents.number_texts import LOCALES, NumberLocale
from bpc.core.documents.table_layout import Orientation
from bpc.core.formats.canonical_json import Json

MAX_MAPPED_SHEETS: Final = 200
MAX_TEXT_LENGTH: Final = 1_000

_KNOWN_TYPES: Final = frozenset(fact_type for types in FACT_TYPES.values() for fact_type in types)
_ORIENTATIONS: Final[tuple[Orientation, ...]] = ("rows", "columns")


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedColumn:
    """A header as it stands in the file, and the member that its values are; None if they are left out."""

    header: str
    member: str | None
    unit: str | None = None
    locale: NumberLocale | None = None

    def as_json(self) -> dict[str, Json]:
        return {"header": self.header, "member": self.member, "unit": self.unit, "locale": self.locale}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHeader:
    """A table: its name (empty for CSV), the fact types of its rows, and where its header is."""

    name: str
    fact_types: tuple[str, ...]
    header_row: int
    orientation: Orientation = "rows"
    header_rows: int = 1

    def describe(self, columns: Iterable[dict[str, Json]]) -> dict[str, Json]:
        return {
            "name": self.name,
            "fact_types": list(self.fact_types),
            "orientation": self.orientation,
            "header_row": self.header_row,
            "header_rows": self.header_rows,
            "columns": list(columns),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedSheet(TableHeader):
    """A table whose columns were mapped."""

    columns: tuple[MappedColumn, ...]

    def as_json(self) -> dict[str, Json]:
        return self.describe(column.as_json() for column in self.columns)


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """The tables of a document that are read, and how."""

    sheets: tuple[MappedSheet, ...]

    def as_json(self) -> dict[str, Json]:
        return {"sheets": [sheet.as_json() for sheet in self.sheets]}

    def find_sheet(self, name: str) -> MappedSheet | None:
        return next((sheet for sheet in self.sheets if sheet.name == name), None)


@dataclass(frozen=True, slots=True)
class MappingProblems:
    """Why a value is not a column mapping: each problem with its path."""

    problems: tuple[tuple[str, str], ...]


def parse_mapping(value: Json) -> ColumnMapping | MappingProblems:
    """The mapping that a JSON value describes, or everything that is wrong with it."""
    problems: list[tuple[str, str]] = []
    items = value.get("sheets") if isinstance(value, dict) else None
    if not isinstance(items, list) or not 1 <= len(items) <= MAX_MAPPED_SHEETS:
        return MappingProblems((("$.sheets", f"is not a list of 1 to {MAX_MAPPED_SHEETS} sheets"),))
    sheets = [_parse_sheet(item, f"$.sheets[{index}]", problems) for index, item in enumerate(items)]
    names = [sheet.name for sheet in sheets if sheet is not None]
    problems += [
        ("$.sheets", f"names the sheet `{name}` twice") for name in sorted({n for n in names if names.count(n) > 1})
    ]
    if problems:
        return MappingProblems(tuple(problems))
    return ColumnMapping(tuple(sheet for sheet in sheets if sheet is not None))


def _parse_sheet(value: Json, path: str, problems: list[tuple[str, str]]) -> MappedSheet | None:
    if not isinstance(value, dict):
        problems.append((path, "is not an object"))
        return None
    fact_types = value.get("fact_types")
    name, columns = value.get("name"), value.get("columns")
    orientation = next((option for option in _ORIENTATIONS if option == value.get("orientation", "rows")), None)
    types = tuple(str(item) for item in fact_types) if isinstance(fact_types, list) else ()
    checks = (
        (_is_text(name, least=0), "name", "is not a text"),
        (
            bool(types) and _KNOWN_TYPES.issuperset(types),
            "fact_types",
            f"must be among {', '.join(sorted(_KNOWN_TYPES))}",
        ),
        (_is_number(value.get("header_row"), 1, 2_000_000), "header_row", "is not the number of a row"),
        (_is_number(value.get("header_rows", 1), 1, 2), "header_rows", "is not 1 or 2"),
        (orientation is not None, "orientation", "is not `rows` or `columns`"),
        (
            isinstance(columns, list) and 1 <= len(columns) <= MAX_COLUMNS,
            "columns",
            f"is not a list of 1 to {MAX_COLUMNS:,}",
        ),
    )
    faults = [(f"{path}.{member}", says) for is_valid, member, says in checks if not is_valid]
    problems += faults
    if faults or orientation is None or not isinstance(columns, list):
        return None
    parsed_columns = [
        _parse_column(item, f"{path}.columns[{index}]", types, problems) for index, item in enumerate(columns)
    ]
    targets = [column.member for column in parsed_columns if column is not None and column.member is not None]
    problems += [
        (f"{path}.columns", f"maps two columns to `{member}`")
        for member in sorted({m for m in targets if targets.count(m) > 1})
    ]
    return MappedSheet(
        name=str(name),
        fact_types=types,
        header_row=_to_number(value.get("header_row")),
        columns=tuple(column for column in parsed_columns if column is not None),
        orientation=orientation,
        header_rows=_to_number(value.get("header_rows", 1)),
    )


def _parse_column(
    value: Json, path: str, fact_types: tuple[str, ...], problems: list[tuple[str, str]]
) -> MappedColumn | None:
    if not isinstance(value, dict) or not _is_text(value.get("header"), least=1):
        problems.append((path, "has no `header`"))
        return None
    member, unit = value.get("member"), value.get("unit")
    locale = next((option for option in LOCALES if option == value.get("locale")), None)
    if value.get("locale") is not None and locale is None:
        problems.append((f"{path}.locale", "is not `comma` or `point`"))
    if unit is not None and not _is_text(unit, least=1):
        problems.append((f"{path}.unit", "is not a text"))
    elif member is not None:
        fault = find_member_fault(str(member), None if unit is None else str(unit), fact_types)
        problems += [(f"{path}.{fault[0]}", fault[1])] if fault else []
    return MappedColumn(
        header=str(value["header"]),
        member=None if member is None else str(member),
        unit=None if unit is None else str(unit),
        locale=locale,
    )


def find_member_fault(member: str, unit: str | None, fact_types: tuple[str, ...]) -> tuple[str, str] | None:
    """What is wrong with a column's member or unit, and which of the two it is; None if nothing is."""
    steps = parse_column_name(member)
    targets = [target for name in fact_types if steps and (target := build_target(name, steps, unit)) is not None]
    if not targets:
        return "member", f"is `{member}`, which is not a member of {' or '.join(fact_types)}"
    if not all(fits_a_cell(target.kind) for target in targets):
        return (
            "member",
            f"is `{member}`, a list of records; map a column to one of its members, such as `{member}[1].name`",
        )
    if all(target.fault is not None for target in targets):
        symbols = " or ".join(target.unit.symbol for target in targets if target.unit is not None) or "no unit"
        return "unit", f"is `{unit}`, but `{member}` has {symbols}"
    return None


def _is_text(value: Json, *, least: int) -> bool:
    return isinstance(value, str) and least <= len(value) <= MAX_TEXT_LENGTH


def _is_number(value: Json, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _to_number(value: Json) -> int:
    return value if isinstance(value, int) else 1


def index_columns(sheet: MappedSheet) -> Mapping[str, MappedColumn]:
    """The columns of a sheet by their headers."""
    return {column.header: column for column in sheet.columns}
