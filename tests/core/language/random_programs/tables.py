"""Tables of random programs of level 2: rows that do not overlap, and lookups that meet them or not."""

from itertools import pairwise
from typing import NamedTuple

from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, EnumType, List, Opt, Qty, Type
from tests.core.language.random_programs.options import OptionWriter
from tests.core.language.random_programs.syntax import ExpressionText, write_type
from tests.core.language.random_programs.worlds import draw_text, quote_text

_DAYS = ["0001-01-01", "1990-06-15", "2024-02-29", "2027-02-18", "2031-08-18", "9999-12-31"]
_NUMBERS = ["-5", "0", "2", "2.5", "25", "300.75"]
_WHOLE = ["-5", "0", "2", "25", "300", "1000"]
_TEXTS = ["SKU-1", "", "Größe", "a"]


class RandomTable(NamedTuple):
    name: str
    columns: tuple[Type, ...]
    kind: Type


class TableWriter(OptionWriter):
    def declare_tables(self) -> list[str]:
        """Declare some tables; the texts of their declarations."""
        self.tables: list[RandomTable] = []
        return [self.write_table(number) for number in range(self.rng.choice([0, 1, 1, 2]))]

    def write_table(self, number: int) -> str:
        exact: list[Type] = [INT, TEXT, BOOL, *self.enums]
        ranged: list[Type] = [DATE, INT, Dec(2), Qty("kWh")]
        columns = self.rng.sample(exact, self.rng.randint(0, 2))
        place = self.rng.choice([None, *range(len(columns) + 1)]) if columns else 0
        if place is not None:
            columns.insert(place, self.rng.choice(ranged))
        kinds: list[Type] = [INT, TEXT, DATE, Dec(2), BOOL, *self.enums]
        kind = self.rng.choice(kinds)
        kind = List(kind) if self.rng.random() < 0.2 else kind
        table = RandomTable(f"table_{number}", tuple(columns), kind)
        self.tables.append(table)
        rows = self.write_rows(table, place)
        names = ", ".join(f"c{position}: {write_type(self.rng, column)}" for position, column in enumerate(columns))
        return f"table {table.name}({names}): {write_type(self.rng, kind)}{self.write_cite()} {{ {' '.join(rows)} }}\n"

    def write_rows(self, table: RandomTable, place: int | None) -> list[str]:
        keys = [self.list_keys_of(column) for position, column in enumerate(table.columns) if position != place]
        taken = [self.rng.sample(names, self.rng.randint(1, len(names))) for names in keys]
        rows = []
        for _ in range(1 if not keys else self.rng.randint(1, 3)):
            # One key of the first exact column for each row, so that rows differ in it.
            cells = [] if not keys or not taken[0] else [taken[0].pop()]
            if keys and not cells:
                break
            cells += [" | ".join(names) for names in taken[1:]]
            for part in self.write_ranges(table.columns[place]) if place is not None else [""]:
                parts = cells if place is None else [*cells[:place], part, *cells[place:]]
                rows.append(f"{', '.join(parts)}: {self.write_constant(table.kind)}{self.write_cite()};")
        if table.kind == INT and keys and place is None and self.rng.random() < 0.2 and taken[0]:
            rows += [f"{', '.join([taken[0].pop(), *(names[0] for names in taken[1:])])}: 1;"]
        self.rng.shuffle(rows)
        return rows

    def write_ranges(self, kind: Type) -> list[str]:
        """Ranges one after the other, some left out."""
        edges = [f'date("{day}")' for day in _DAYS] if kind == DATE else _WHOLE if kind == INT else _NUMBERS
        if isinstance(kind, Qty):
            edges = [f"qty({edge}, {kind.unit})" for edge in edges]
        ranges = [f"to {edges[0]}", *(f"from {low} to {high}" for low, high in pairwise(edges))]
        ranges += [f"from {edges[-1]}"]
        many = ranges if self.rng.random() < 0.3 else self.rng.sample(ranges, self.rng.randint(1, 3))
        return sorted(many, key=ranges.index)

    def list_keys_of(self, kind: Type) -> list[str]:
        if isinstance(kind, EnumType):
            return list(kind.members)
        if kind == TEXT:
            return [quote_text(self.rng, text) for text in _TEXTS]
        return ["true", "false"] if kind == BOOL else ["0", "1", "-7"]

    def write_constant(self, kind: Type) -> str:
        if isinstance(kind, List):
            return f"[{', '.join(self.write_constant(kind.item) for _ in range(self.rng.randint(0, 3)))}]"
        if isinstance(kind, EnumType):
            return self.rng.choice(kind.members)
        if kind == DATE:
            return f'date("{self.rng.choice(_DAYS)}")'
        if kind == TEXT:
            return quote_text(self.rng, draw_text(self.rng, 100))
        return self.rng.choice(["true", "false"] if kind == BOOL else _WHOLE if kind == INT else _NUMBERS)

    def write_cite(self) -> str:
        return self.rng.choice(["", "", f" cite {quote_text(self.rng, draw_text(self.rng))}"])

    def write_lookup(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        tables = [table for table in self.tables if Opt(table.kind) == kind]
        if not tables:
            return self.write_literal(kind, depth, type_known)
        table = self.rng.choice(tables)
        arguments = [self.write_argument(column, depth) for column in table.columns]
        return ExpressionText(f"{table.name}({', '.join(arguments)}{self.write_comma()})")

    def write_argument(self, kind: Type, depth: int) -> str:
        """Mostly what a row may be for, an edge of a range included."""
        if self.rng.random() < 0.4:
            return self.write_expression(kind, depth, type_known=True).text
        if kind == DATE or isinstance(kind, Dec):
            return self.write_constant(kind)
        if isinstance(kind, Qty):
            return f"qty({self.rng.choice(_NUMBERS)}, {kind.unit})"
        return self.rng.choice([*self.list_keys_of(kind), *(_WHOLE if kind == INT else [])])
