"""Tables: rows of cells become the elements of a document, whether they come from CSV or a spreadsheet.

The first row that is not empty is the header; its names are those of `columns`. Below it a row is one thing: a battery,
a component, a footprint, a due diligence report. In a table of both batteries and components, a row with a `part` is a
component. An empty cell says nothing. A row or a sheet whose first cell or name begins with `# ` is a comment.

Cells are converted here, by the type of their column, only as far as tables differ from JSON: a truth value may be
`yes`, a list stands in one cell. What a value may be is decided in `members`, for all formats alike.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Protocol, TypeAlias

from bpc.core.documents.columns import BLANK, Steps, columns_of, fits_a_cell, normal, steps_of, type_at
from bpc.core.documents.elements import Element, of_their_battery
from bpc.core.documents.notes import Notes, quoted
from bpc.core.documents.values import Given, Number, is_plain
from bpc.core.rules.types import BOOL, DATE, INT, TEXT, Dec, Fact, List, Type
from bpc.core.schemas import MEMBERS, SCHEMA_VERSION, SCHEMAS

MOST_COLUMNS: Final = 2_000
MOST_ROWS: Final = 50_000

_COMMENT: Final = re.compile(r"#(?:[ \t\n].*)?", re.DOTALL)
_MISTAKES: Final = frozenset({"#REF!", "#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#VALUE!", "#SPILL!", "#CALC!"})
_TRUTHS: Final[Mapping[str, bool]] = {
    "true": True, "yes": True, "1": True, "false": False, "no": False, "0": False,
}  # fmt: skip
_BETWEEN: Final = re.compile(r"[;\n]")
# Numbers as spreadsheets show them and nobody else can read them for sure.
_MISWRITTEN: Final = (
    (
        re.compile(r"-?[0-9]+(?:[.,][0-9]+)?[eE][+-]?[0-9]+"),
        "which was shortened; format the column as a number with all its digits",
    ),
    (re.compile(r"-?[0-9]+,[0-9]+"), "which has a comma; write a decimal point, and nothing between thousands"),
    (
        re.compile(r"-?[0-9]{1,3}(?:[., '\u2019\u00a0\u202f][0-9]{3})+(?:[.,][0-9]+)?"),
        "which has something between thousands; write it like 1234.5",
    ),
)
_IN_ROW: Final = re.compile(r"((?:.*!|line )[0-9]+)\.(.+)", re.DOTALL)
_INDEX: Final = re.compile(r"\[([0-9]+)\]")


@dataclass(frozen=True, slots=True)
class Day:
    """A cell that holds a date, written like 2027-02-18."""

    text: str


@dataclass(frozen=True, slots=True)
class Wrong:
    """A cell that holds nothing anybody can read."""

    says: str


Cell: TypeAlias = str | Number | bool | Day | Wrong


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a row that are not empty, by their column, counted from 0."""

    place: str
    cells: Mapping[int, Cell]


class Sheet(Protocol):
    """A table as its format hands it over."""

    @property
    def name(self) -> str: ...

    def rows(self, notes: Notes) -> Iterator[Row]:
        """Its rows, empty ones left out."""
        ...

    def place(self, row: str, column: int | None, name: str) -> str:
        """The place of a cell; `column` is None where the table does not have one of that name."""
        ...


@dataclass(frozen=True, slots=True)
class Column:
    """A column that is read: its place, its name and the way from a fact to its value."""

    index: int
    name: str
    steps: Steps
    types: Mapping[str, Type]  # of each fact type that has it


@dataclass(slots=True)
class Places:
    """Finds the cell for a place such as `line 4.mass_g`, once the headers are known."""

    _tables: dict[str, tuple[Sheet, dict[str, int]]] = field(default_factory=dict)

    def add(self, sheet: Sheet, columns: Iterable[Column]) -> None:
        self._tables[sheet.name] = (sheet, {column.name: column.index for column in columns})

    def __call__(self, at: str) -> str:
        parts = _IN_ROW.fullmatch(at)
        if parts is None:
            return at
        row, name = parts[1], _INDEX.sub(lambda index: f"[{int(index[1]) + 1}]", parts[2])
        found = self._tables.get(row.rpartition("!")[0])
        if found is None:
            return at
        sheet, columns = found
        while name not in columns and name.endswith("]"):  # one of several in a cell
            name = name.rpartition("[")[0]
        return sheet.place(row, columns.get(name), name)


def facts_of(kind: str) -> tuple[str, ...]:
    """The fact types a table of this kind has; several where a row decides."""
    return {"BOM": ("Battery", "Component"), "PCF": ("PCF",), "DUE_DILIGENCE": ("DueDiligence",)}.get(kind, ())


def elements_of(tables: Iterable[tuple[Sheet, tuple[str, ...]]], notes: Notes) -> list[Element]:
    """The elements of all tables, each with the fact types its rows may be."""
    found: list[Element] = []
    headers: list[str] = []
    places = Places()
    notes.located = places
    for sheet, fact_types in tables:
        rows = _without_comments(sheet.rows(notes))
        header = next(rows, None)
        if header is None:
            continue
        headers.append(header.place)
        before = notes.problems.total
        columns = _columns(sheet, header, fact_types, notes)
        places.add(sheet, columns)
        if notes.problems.total == before:  # else every row would be wrong in the same way
            found += _elements(sheet, header, islice(rows, MOST_ROWS + 1), columns, fact_types, notes)
        if len(found) > MOST_ROWS:
            notes.problem(found[-1].path, f"is more than {MOST_ROWS:,} rows below the header; split the document")
            return []
    if notes.is_clean and not found:
        notes.problem(headers[0] if headers else "$", _no_rows(headers))
    return of_their_battery(found)


def _no_rows(headers: list[str]) -> str:
    if not headers:
        return "is empty; `bpc template` writes a table to fill in"
    return "has no rows yet; fill in at least one below the header"


def is_comment(cells: Mapping[int, Cell]) -> bool:
    """Whether the first cell of a row makes it a comment."""
    first = cells[min(cells)]
    return isinstance(first, str) and _COMMENT.fullmatch(first) is not None


def _without_comments(rows: Iterable[Row]) -> Iterator[Row]:
    return (row for row in rows if not is_comment(row.cells))


# --- The header --------------------------------------------------------------------------------------------------


def _columns(sheet: Sheet, header: Row, fact_types: tuple[str, ...], notes: Notes) -> list[Column]:
    if len(header.cells) > MOST_COLUMNS:
        notes.problem(header.place, f"has {len(header.cells):,} columns, and at most {MOST_COLUMNS:,} are read")
        return []
    found: dict[str, Column] = {}
    for index, cell in sorted(header.cells.items()):
        name = normal(cell) if isinstance(cell, str) else ""
        at = sheet.place(header.place, index, name or f"{index + 1}")
        if name in found:
            notes.problem(at, "is there twice in the header")
            continue
        column = _column(index, name, cell, fact_types, at, notes)
        if column is not None:
            found[name] = column
    for name, column in found.items():
        if len(column.steps) > 1 and str(column.steps[0]) in found:
            notes.problem(
                sheet.place(header.place, column.index, name),
                f"is part of `{column.steps[0]}`, which has a column of its own; keep one of the two",
            )
    if found.keys() == {"sku"} and len(header.cells) > 1:
        of = " or ".join(fact_types)
        notes.problem(header.place, f"has no column of a {of} but `sku`; is it a document of another kind?")
    return list(found.values())


def _column(index: int, name: str, cell: Cell, fact_types: tuple[str, ...], at: str, notes: Notes) -> Column | None:
    steps = steps_of(name)
    types: dict[str, Type] = {}
    for fact_type in fact_types:
        kind = type_at(SCHEMAS[Fact(fact_type, SCHEMA_VERSION)], steps) if steps else None
        if kind is not None:
            types[fact_type] = kind
    if steps is None or not types:
        _unknown(name, cell, fact_types, at, notes)
        return None
    for fact_type, kind in types.items():
        if not fits_a_cell(kind):
            member = MEMBERS[Fact(fact_type, SCHEMA_VERSION)][str(steps[0])]
            example = columns_of(str(steps[0]), member)[0][0]
            notes.problem(at, f"is a list of records and does not fit into a column; use columns such as `{example}`")
            return None
    return Column(index, name, steps, types)


def _unknown(name: str, cell: Cell, fact_types: tuple[str, ...], at: str, notes: Notes) -> None:
    known = (name for fact_type in fact_types for name in SCHEMAS[Fact(fact_type, SCHEMA_VERSION)])
    meant = notes.suggestions.help(name, known)
    shown = quoted(cell) if isinstance(cell, str) else "no name"
    of = " or ".join(fact_types)
    notes.warning(at, f"({shown}) is not a member of {of} and was left out" + (f"; {meant}" if meant else ""))


# --- The rows ----------------------------------------------------------------------------------------------------


def _elements(
    sheet: Sheet, header: Row, rows: Iterable[Row], columns: list[Column], fact_types: tuple[str, ...], notes: Notes
) -> Iterator[Element]:
    nameless: set[int] = set()
    for row in rows:
        for index in row.cells.keys() - header.cells.keys() - nameless:
            nameless.add(index)
            notes.warning(sheet.place(row.place, index, str(index + 1)), "has no name in the header and was left out")
        fact_type = _fact_type(row, columns, fact_types)
        yield Element(fact_type, row.place, _members(sheet, row, columns, fact_type, notes))


def _fact_type(row: Row, columns: list[Column], fact_types: tuple[str, ...]) -> str:
    if len(fact_types) == 1:
        return fact_types[0]
    has_part = any(column.name == "part" and column.index in row.cells for column in columns)
    return "Component" if has_part else "Battery"


def _members(sheet: Sheet, row: Row, columns: list[Column], fact_type: str, notes: Notes) -> dict[str, Given]:
    made: dict[str, Given] = {}
    numbered: _Tree = {}
    for column in columns:
        cell = row.cells.get(column.index)
        if cell is None:
            continue
        kind = column.types.get(fact_type)
        value = "" if kind is None else _converted(kind, cell)
        if isinstance(value, Wrong):
            notes.problem(sheet.place(row.place, column.index, column.name), value.says)
            value = None if kind is None else _harmless(kind)
        if len(column.steps) == 1:
            made[column.name] = value
        else:
            _plant(numbered, column.steps, value)
    for name, below in numbered.items():
        made[str(name)] = _listed(
            below, lambda name: notes.problem(sheet.place(row.place, None, name), _GAP), str(name)
        )
    return made


def _plant(tree: "_Tree", steps: Steps, value: Given) -> None:
    for step in steps[:-1]:
        below = tree.setdefault(step, {})
        tree = below if isinstance(below, dict) else {}
    tree[steps[-1]] = _Leaf(value)


_GAP: Final = "is empty, and one with a higher number is not; fill them from the first on"


@dataclass(frozen=True, slots=True)
class _Leaf:
    value: Given


_Tree: TypeAlias = "dict[str | int, _Tree | _Leaf]"


def _listed(tree: "_Tree | _Leaf", gap: Callable[[str], None], name: str) -> Given:
    """A tree with what is numbered as lists."""
    if isinstance(tree, _Leaf):
        return tree.value
    numbers = sorted(step for step in tree if isinstance(step, int))
    if not numbers:
        return {str(step): _listed(below, gap, f"{name}.{step}".strip(".")) for step, below in tree.items()}
    for expected, number in enumerate(numbers, 1):
        if number != expected:
            gap(f"{name}[{expected}]")
            break
    return [_listed(tree[number], gap, f"{name}[{number}]") for number in numbers]


# --- A cell ------------------------------------------------------------------------------------------------------


def cell_of(text: str) -> Cell | None:
    """What a text in a table is: blanks around it do not count, and nothing else is nothing."""
    text = text.strip(BLANK)
    if text in _MISTAKES:
        return Wrong(f"is {text}; correct the formula that gave it")
    return text or None


def _converted(kind: Type, cell: Cell) -> "Given | Wrong":
    if isinstance(cell, Wrong):
        return cell
    if isinstance(kind, List):
        parts = [part.strip(BLANK) for part in _BETWEEN.split(cell)] if isinstance(cell, str) else [cell]
        items = [_converted(kind.item, part) for part in parts if part != ""]
        wrong = next((item for item in items if isinstance(item, Wrong)), None)
        return wrong or [item for item in items if not isinstance(item, Wrong)]
    return _AS[type(kind)](cell) if isinstance(kind, Dec) else _AS[kind](cell)


def _harmless(kind: Type) -> Given:
    """Something that fits, so that what is wrong is said once."""
    if isinstance(kind, List):
        return []
    return False if kind == BOOL else "2000-01-01" if kind == DATE else "?" if kind == TEXT else "0"


def _bool(cell: Cell) -> "Given | Wrong":
    if isinstance(cell, bool):
        return cell
    written = normal(cell) if isinstance(cell, str) else cell.text if isinstance(cell, Number) else ""
    found = _TRUTHS.get(written)
    return Wrong(f"is {_shown(cell)}, not true or false, yes or no, 1 or 0") if found is None else found


def _date(cell: Cell) -> "Given | Wrong":
    match cell:
        case Day(text) | str(text):
            return text
        case _:
            return Wrong(f"is {_shown(cell)}, not a day; format the cell as a date, or write it like 2027-02-18")


def _number(cell: Cell) -> "Given | Wrong":
    match cell:
        case Number():
            return cell
        case str() if is_plain(cell):
            return cell
        case str():
            says = next((says for form, says in _MISWRITTEN if form.fullmatch(cell)), None)
            # What else is wrong with a text is said in `members`.
            return cell if says is None else Wrong(f"is {quoted(cell)}, {says}")
        case _:
            return Wrong(f"is {_shown(cell)}, not a number")


def _text(cell: Cell) -> "Given | Wrong":
    match cell:
        case str():
            return cell
        case Number(text) if is_plain(text) and "." not in text:
            return text  # a spreadsheet makes a number of an article number
        case _:
            return Wrong(f"is {_shown(cell)}, not a text; format the cell as text and write it again")


_AS: Final[Mapping[object, Callable[[Cell], "Given | Wrong"]]] = {
    BOOL: _bool,
    DATE: _date,
    INT: _number,
    Dec: _number,
    TEXT: _text,
}


def _shown(cell: Cell) -> str:
    match cell:
        case bool():
            return "a truth value"
        case Number(text):
            return f"the number {text}"
        case Day(text):
            return f"the date {text}"
        case Wrong(says):
            return says
        case _:
            return quoted(cell)
