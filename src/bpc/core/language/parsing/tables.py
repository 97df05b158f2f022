"""Parse tables: their columns, their rows, and what each cites."""

from typing import Final

from bpc.core.language import syntax
from bpc.core.language.parsing.enumerations import EnumerationParser
from bpc.core.language.parsing.lexer import END
from bpc.core.language.parsing.token_cursor import ParseAbandoned

_NOTATION: Final = "as in `table limit(metal: Metal, on: Date): Dec(2) { … }`"


class TableParser(EnumerationParser):
    """Parses tables."""

    def parse_table(self) -> syntax.TableDeclaration:
        first = self.index
        self.advance()
        name = self.parse_name("the name of the table")
        columns = self._parse_table_columns()
        self.expect(":", f"`:` and the type of the values, {_NOTATION}")
        type_ = self.parse_type()
        cite = self.parse_cite()
        opening = self.index
        self.expect("{", "`{` and the rows" if cite else "`cite`, or `{` and the rows")
        rows = []
        while self.kind not in ("}", END) and not self.is_at_item():
            if (row := self._parse_table_row_statement()) is not None:
                rows.append(row)
        self.expect_closing("}", opening, "a row or ")
        self.accept(";")
        return syntax.TableDeclaration(name, columns, type_, cite, tuple(rows), span=self.span_from(first))

    def _parse_table_columns(self) -> tuple[tuple[syntax.Name, syntax.TypeExpr], ...]:
        opening = self.index
        self.expect("(", f"`(` and the columns, {_NOTATION}")
        columns = [self._parse_table_column()]
        while self.accept(","):
            columns.append(self._parse_table_column())
        self.expect_closing(")", opening, "`,` or ")
        return tuple(columns)

    def _parse_table_column(self) -> tuple[syntax.Name, syntax.TypeExpr]:
        name = self.parse_name("the name of a column")
        self.expect(":", "`:` and the type of the column")
        return name, self.parse_type()

    def _parse_table_row_statement(self) -> syntax.LookupRow | None:
        """Parse a row and its `;`. After a mistake, continue behind the `;` or at the end of the table."""
        try:
            row = self._parse_table_row()
            self.expect_semicolon("the row", "`cite`")
        except ParseAbandoned:
            if not self.skip_statement("}"):
                raise
            return None
        return row

    def _parse_table_row(self) -> syntax.LookupRow:
        first = self.index
        cells = [self._parse_table_cell()]
        while self.accept(","):
            cells.append(self._parse_table_cell())
        self.expect(":", "`,` and the next cell, or `:` and the value of the row")
        value = self.parse_constant(1)
        return syntax.LookupRow(tuple(cells), value, self.parse_cite(), span=self.span_from(first))

    def _parse_table_cell(self) -> syntax.KeyCell | syntax.RangeCell:
        first = self.index
        if self.is_word("from") or self.is_word("to"):
            low = self._parse_bound("from")
            high = self._parse_bound("to")
            return syntax.RangeCell(low, high, span=self.span_from(first))
        keys = [self.parse_constant(1)]
        while self.accept("|"):
            keys.append(self.parse_constant(1))
        return syntax.KeyCell(tuple(keys), span=self.span_from(first))

    def _parse_bound(self, word: str) -> syntax.Constant | None:
        if not self.is_word(word):
            return None
        self.advance()
        return self.parse_constant(1)
