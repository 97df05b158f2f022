"""Where the header of a table is: below titles, in one row or two, or down the first column.

Looks at the first rows only. The header is the row whose cells name the most members; a row that names the product
(`sku`, `part`) goes before one that does not. Two rows are one header if they say more together: a name over several
columns (`Voltage` above `min` and `max`), or a row of units below the names. A data sheet has its names in the first
column and a column of values for each product, perhaps with a column of units.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final, Literal, NamedTuple, TypeAlias

from bpc.core.documents import DocumentNote, Notes
from bpc.core.documents.cells import MAX_COLUMNS, Cell, InvalidCell, Sheet, TableRow
from bpc.core.documents.fact_members import KEY_MEMBERS
from bpc.core.documents.header_names import MOST_POINTS, NO_MATCH, HeaderMatch, match_header
from bpc.core.documents.header_text import fold_text
from bpc.core.documents.header_units import is_unit
from bpc.core.documents.number_texts import LOCALES, InvalidNumber, parse_number_text

MAX_HEAD_ROWS: Final = 40
MIN_NAMES_IN_COLUMN: Final = 3
# Matching a name takes up to a quarter of a millisecond.
MAX_NAMES_MATCHED: Final = 1_500

_NOTHING: Final = frozenset({"-", "–", "—", "/"})
_UNIT_TITLES: Final = frozenset("einheit einheiten unit units unite unites unidad unita jednostka".split())  # noqa: SIM905
_COLUMN_TITLES: Final = _UNIT_TITLES | frozenset("wert werte value values valeur valor valore wartosc".split())  # noqa: SIM905

Orientation: TypeAlias = Literal["rows", "columns"]  # what a product is in the table


class LayoutNote(NamedTuple):
    """A part of a table that is not read, and whether that rejects the document."""

    at: str
    says: str
    is_problem: bool = False


@dataclass(frozen=True, slots=True)
class TableLayout:
    """A table, its header, the rows below it, the rows above it, which hold titles, and what else is not read."""

    sheet: Sheet
    header: TableRow
    rows: Iterator[TableRow]
    titles: tuple[TableRow, ...] = ()
    orientation: Orientation = "rows"
    header_rows: int = 1
    notes: tuple[LayoutNote, ...] = ()

    @property
    def first_row(self) -> int:
        """The number of the first row below the header."""
        return self.header.number + self.header_rows if self.orientation == "rows" else self.header.number


@dataclass(slots=True)
class HeaderMatcher:
    """Matches names with the members of some fact types, each name once."""

    fact_types: tuple[str, ...]
    _matches: dict[str, HeaderMatch] = field(default_factory=dict)

    def match(self, cell: Cell | None) -> HeaderMatch:
        if not isinstance(cell, str):
            return NO_MATCH
        match = self._matches.get(cell)
        if match is None:
            match = self._matches[cell] = match_header(cell, self.fact_types)
        return match

    def guess(self, cell: Cell | None) -> HeaderMatch:
        """The match of a cell that may be no name at all; after many, what is new matches nothing."""
        is_new = isinstance(cell, str) and cell not in self._matches
        return NO_MATCH if is_new and len(self._matches) >= MAX_NAMES_MATCHED else self.match(cell)

    def names_product(self, cell: Cell | None) -> bool:
        return any(target.name in KEY_MEMBERS for target in self.guess(cell).targets.values())

    def names_sku(self, cell: Cell | None) -> bool:
        return any(target.name == "sku" for target in self.guess(cell).targets.values())

    def rank(self, cells: Mapping[int, Cell]) -> tuple[bool, int]:
        """How much a row is like a header: whether it names the product, and how much it tells."""
        points = sum(self.guess(cell).points for cell in cells.values())
        return any(self.names_product(cell) for cell in cells.values()), points


def find_layout(sheet: Sheet, rows: Iterator[TableRow], matcher: HeaderMatcher) -> TableLayout | None:
    """The layout of a table; None if it has no rows."""
    head = list(islice(rows, MAX_HEAD_ROWS))
    if not head:
        return None
    ranks = _rank_rows(head, matcher)
    best = max(range(len(ranks)), key=lambda index: (ranks[index], -index))
    names_column = find_names_column(head, matcher, ranks[best][1])
    if names_column is not None:
        return lay_out_columns(sheet, chain(head, rows), names_column, matcher)
    first, header, count = _choose_header(head, best, ranks[best][1], matcher)
    below = chain(islice(head, first + count, None), rows)
    return TableLayout(sheet, header, below, tuple(head[:first]), "rows", count)


def _rank_rows(head: Sequence[TableRow], matcher: HeaderMatcher) -> list[tuple[bool, int]]:
    """The rank of each row, up to the first that names the product and has nothing but names of members."""
    ranks: list[tuple[bool, int]] = []
    for row in head:
        ranks.append(matcher.rank(row.cells))
        if ranks[-1] == (True, MOST_POINTS * len(row.cells)) and len(row.cells) > 2:
            break
    return ranks


def _choose_header(
    head: Sequence[TableRow], best: int, points: int, matcher: HeaderMatcher
) -> tuple[int, TableRow, int]:
    """The index of the header's first row, the header, and how many rows it has."""
    below = head[best + 1] if best + 1 < len(head) else None
    if below is not None and _is_row_of_units(head[best], below, matcher):
        return best, combine_rows(head[best], below, matcher) or head[best], 2
    options = [(best, head[best], 1, points)]
    for first, second in ((best - 1, best), (best, best + 1)):
        if first >= 0 and second < len(head):
            combination = combine_rows(head[first], head[second], matcher)
            if combination is not None:
                options.append((first, combination, 2, matcher.rank(combination.cells)[1]))
    first, header, count, _ = max(options, key=lambda option: option[3])
    return first, header, count


def _is_row_of_units(header: TableRow, below: TableRow, matcher: HeaderMatcher) -> bool:
    texts = [cell if isinstance(cell, str) else "" for cell in below.cells.values()]
    units = [text for text in texts if is_unit(text)]
    keys = [index for index, cell in header.cells.items() if matcher.names_product(cell)]
    has_key = any(below.cells.get(index) not in {None, *_NOTHING} for index in keys)
    return bool(units) and not has_key and all(text in _NOTHING or is_unit(text) for text in texts)


def combine_rows(upper: TableRow, lower: TableRow, matcher: HeaderMatcher) -> TableRow | None:
    """One header of two rows; None if the lower row contradicts the upper. A name above stretches over empty cells."""
    cells: dict[int, Cell] = {}
    group: Cell | None = None
    for index in sorted(upper.cells.keys() | lower.cells.keys()):
        is_stretched = index not in upper.cells
        group = upper.cells.get(index, group)
        name = _combine_names(group, lower.cells.get(index), matcher, is_stretched=is_stretched)
        if name is None:
            return None
        cells[index] = name
    return TableRow(upper.place, cells, upper.number)


def _combine_names(group: Cell | None, part: Cell | None, matcher: HeaderMatcher, *, is_stretched: bool) -> Cell | None:
    if part is None or part in _NOTHING:
        return group
    if not isinstance(part, str) or not isinstance(group, str):
        return part
    if is_unit(part):
        return f"{group} [{part}]"
    combined_text = f"{group} {part}"
    if matcher.guess(combined_text).points:
        return combined_text
    if matcher.guess(group).points and not is_stretched:
        return None  # a name and a value below it
    return part


# Data sheets: names down the first column ----------------------------------------------------------------------------


def find_names_column(head: Sequence[TableRow], matcher: HeaderMatcher, row_points: int) -> int | None:
    """The column that holds the names, if more of them stand below each other than in any row."""
    column = min((min(row.cells) for row in head), default=0)
    names: dict[str, int] = {}
    for row in head:
        match = matcher.guess(row.cells.get(column))
        for name in (*(target.name for target in match.targets.values()), *match.options):
            names.setdefault(name, match.points)
    is_longer = len(names) >= MIN_NAMES_IN_COLUMN and sum(names.values()) > row_points
    return column if "sku" in names and is_longer else None


class TransposedSheet:
    """A sheet whose rows are read as columns: the names stand in one column, each product in another."""

    def __init__(self, sheet: Sheet, rows: Sequence[TableRow], names_column: int) -> None:
        self.name = sheet.name
        self._sheet = sheet
        self._places = [row.place for row in rows]
        self._names_column = names_column
        self._columns: dict[str, int] = {}

    def add_product(self, column: int) -> str:
        """The place of the product whose values stand in this column."""
        place = self._sheet.locate_column(column)
        self._columns[place] = column
        return place

    def read_rows(self, notes: Notes) -> Iterator[TableRow]:
        return self._sheet.read_rows(notes)

    def locate_cell(self, row: str, column: int | None, name: str) -> str:
        if column is None:
            return f"{row}, row {name}"
        across = self._columns.get(row, self._names_column)
        return self._sheet.locate_cell(self._places[column], across, str(across + 1))

    def locate_column(self, column: int) -> str:
        return self._places[column]

    def explain_extra_cells(self, cells: int, width: int) -> str | None:  # noqa: ARG002 (a name has its own row)
        return None

    def list_display_notes(self, first_row: int, columns: Collection[int]) -> list[DocumentNote]:  # noqa: ARG002 (rows)
        return self._sheet.list_display_notes(first_row, tuple(self._columns.values()))


def lay_out_columns(
    sheet: Sheet, rows: Iterable[TableRow], names_column: int, matcher: HeaderMatcher
) -> TableLayout | None:
    """A data sheet as a table: its names become the header, and each of its columns of values a row."""
    all_rows = list(islice(rows, MAX_COLUMNS + 1))
    titles = next((row for row in all_rows if len(row.cells) > 1), None)
    if titles is not None and _has_only_titles(titles, names_column):
        all_rows.remove(titles)
    known_rows = [row for row in all_rows if matcher.match(row.cells.get(names_column)).points]
    sku_row = next((row for row in known_rows if matcher.names_sku(row.cells.get(names_column))), None)
    if sku_row is None:
        return None
    start = all_rows.index(known_rows[0])
    named_rows = [row for row in all_rows[start:] if names_column in row.cells and len(row.cells) > 1]
    unit_column = _find_unit_column(known_rows, names_column, titles, sku_row)
    products = sorted(sku_row.cells.keys() - {names_column, unit_column})
    view = TransposedSheet(sheet, named_rows, names_column)
    header = TableRow(
        sheet.locate_column(names_column),
        {index: _join_unit(row, names_column, unit_column) for index, row in enumerate(named_rows)},
        known_rows[0].number,
    )
    table_rows = [
        TableRow(view.add_product(column), cells, column + 1)
        for column in products
        if (cells := {index: row.cells[column] for index, row in enumerate(named_rows) if column in row.cells})
    ]
    notes = [
        *_note_columns_without_sku(sheet, known_rows, {names_column, unit_column, *products}),
        *_note_rows_without_name(all_rows[start:], names_column, products),
        *([LayoutNote(all_rows[-1].place, _TOO_MANY_NAMES, is_problem=True)] if len(all_rows) > MAX_COLUMNS else []),
    ]
    return TableLayout(view, header, iter(table_rows), tuple(all_rows[:start]), "columns", 1, tuple(notes))


_TOO_MANY_NAMES: Final = f"is more than {MAX_COLUMNS:,} rows below the first name of a data sheet; split the document"


def _note_columns_without_sku(
    sheet: Sheet, known_rows: Sequence[TableRow], others: Collection[int | None]
) -> Iterator[LayoutNote]:
    """Columns that say something about a product, but not which. Texts may be remarks; numbers are values."""
    for column in sorted({column for row in known_rows for column in row.cells} - {*others}):
        place, cells = sheet.locate_column(column), [row.cells[column] for row in known_rows if column in row.cells]
        if any(_is_value(cell) for cell in cells):
            yield LayoutNote(place, "has values but no `sku`; fill in the SKU, or delete the column", is_problem=True)
        else:
            yield LayoutNote(place, "has no `sku` and was left out; fill in the SKU if the column is a product")


def _is_value(cell: Cell) -> bool:
    if isinstance(cell, str):
        return any(not isinstance(parse_number_text(cell, locale), InvalidNumber) for locale in LOCALES)
    return not isinstance(cell, InvalidCell)


def _note_rows_without_name(
    rows: Iterable[TableRow], names_column: int, products: Collection[int]
) -> Iterator[LayoutNote]:
    for row in rows:
        if names_column not in row.cells and row.cells.keys() & set(products):
            yield LayoutNote(row.place, "has no name in the first column and was left out")


def _has_only_titles(row: TableRow, names_column: int) -> bool:
    """Whether a row says what the columns of a data sheet are (`Value`, `Unit`) and not what a product is."""
    titles = [cell for column, cell in row.cells.items() if column != names_column]
    return bool(titles) and all(isinstance(cell, str) and fold_text(cell) in _COLUMN_TITLES for cell in titles)


def _find_unit_column(
    known_rows: Sequence[TableRow], names_column: int, titles: TableRow | None, sku_row: TableRow
) -> int | None:
    """The column that holds units: by its title, or because it has no product and at least half of it are units."""
    columns = sorted({column for row in known_rows for column in row.cells} - {names_column})
    for column in columns:
        title = None if titles is None else titles.cells.get(column)
        cells = [row.cells[column] for row in known_rows if column in row.cells]
        texts = [cell for cell in cells if isinstance(cell, str) and cell not in _NOTHING]
        if isinstance(title, str) and fold_text(title) in _UNIT_TITLES:
            return column
        is_for_product = sku_row.cells.get(column) not in {None, *_NOTHING}
        has_other = is_for_product or any(not isinstance(cell, str) for cell in cells)
        if texts and not has_other and 2 * sum(map(is_unit, texts)) >= len(texts):
            return column
    return None


def _join_unit(row: TableRow, names_column: int, unit_column: int | None) -> Cell:
    name, unit = row.cells[names_column], None if unit_column is None else row.cells.get(unit_column)
    is_stated = isinstance(name, str) and isinstance(unit, str) and unit not in _NOTHING
    return f"{name} [{unit}]" if is_stated else name
