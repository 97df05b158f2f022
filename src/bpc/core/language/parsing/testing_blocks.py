"""Parse tests: examples, tables of cases, properties, and the fixtures they share."""

from collections.abc import Callable

from bpc.core.language import syntax
from bpc.core.language.parsing.definitions import ConstantParser
from bpc.core.language.parsing.lexer import END, NAME, TEXT
from bpc.core.language.parsing.operands import T
from bpc.core.language.parsing.token_cursor import ParseAbandoned


class TestBlockParser(ConstantParser):
    """Parses the tests of a file."""

    # Examples and properties

    def parse_example(self) -> syntax.Example:
        first = self.index
        self.advance()
        name = self.parse_name("the name of the example")
        self.expect(":")
        bases, fixtures = self._parse_inputs(is_property=False)
        expectations = self._parse_expectations()
        self._expect_last_semicolon("example")
        return syntax.Example(name, fixtures, expectations, bases, span=self.span_from(first))

    def _parse_expectations(self) -> tuple[syntax.AnyExpectation, ...]:
        self.expect("=>", "`=>` and what is expected")
        expectations: list[syntax.AnyExpectation] = []
        while not self._is_at_end():
            if (expectation := self._parse_statement(self._parse_expectation, "the expectation")) is not None:
                expectations.append(expectation)
        return tuple(expectations)

    def parse_shared_fixture(self) -> syntax.SharedFixture:
        first = self.index
        self.advance()
        name = self.parse_name("the name of the fixture")
        self.expect(":", help_="a fixture is written `fixture name: { … };`")
        bases, fixtures = self._parse_inputs(is_property=False)
        self.expect_semicolon("the fixture")
        return syntax.SharedFixture(name, bases, fixtures, span=self.span_from(first))

    def parse_case_table(self) -> syntax.CaseTable:
        first = self.index
        self.advance()
        name = self.parse_name("the name of the cases")
        columns = self._parse_columns()
        self.columns = frozenset(column.text for column in columns)
        try:
            self.expect(":")
            bases, fixtures = self._parse_inputs(is_property=False)
            expectations = self._parse_expectations()
        finally:
            self.columns = frozenset()
        rows = self._parse_rows()
        self._expect_last_semicolon("table")
        return syntax.CaseTable(name, columns, bases, fixtures, expectations, rows, span=self.span_from(first))

    def _parse_columns(self) -> tuple[syntax.Name, ...]:
        opening = self.index
        self.expect("(", "`(` and the names of the columns")
        columns = [self.parse_variable("the name of a column")]
        while self.accept(","):
            columns.append(self.parse_variable("the name of a column"))
        self.expect_closing(")", opening, "`,` or ")
        return tuple(columns)

    def _parse_rows(self) -> tuple[syntax.CaseRow, ...]:
        opening = self.index
        self.expect("{", "`expect`, or `{` and the rows")
        rows: list[syntax.CaseRow] = []
        while self.kind not in ("}", END) and not self.is_at_item():
            if (row := self._parse_statement(self._parse_row, "the row", "}")) is not None:
                rows.append(row)
        self.expect_closing("}", opening, "a cell or ")
        return tuple(rows)

    def _parse_row(self) -> syntax.CaseRow:
        first = self.index
        cells = [self.parse_constant(1)]
        while self.accept(","):
            cells.append(self.parse_constant(1))
        return syntax.CaseRow(tuple(cells), span=self.span_from(first))

    def parse_property(self) -> syntax.Property:
        first = self.index
        self.advance()
        name = self.parse_name("the name of the property")
        self.expect(":")
        cases = self._parse_amount("cases")
        seed = self._parse_amount("seed")
        bases: tuple[syntax.Name, ...] = ()
        fixtures: tuple[syntax.Fixture, ...] = ()
        if self.is_word("given"):
            self.advance()
            bases, fixtures = self._parse_inputs(is_property=True)
        self.expect("=>", "`=>` and what is claimed" if bases or fixtures else "`given` or `=>`")
        claims: list[syntax.Claim] = []
        while not self._is_at_end():
            if (claim := self._parse_statement(self._parse_claim, "the claim")) is not None:
                claims.append(claim)
        self._expect_last_semicolon("property")
        return syntax.Property(name, cases, seed, fixtures, tuple(claims), bases, span=self.span_from(first))

    def _parse_amount(self, word: str) -> syntax.NumberLiteral:
        self.expect_word(word)
        return self._parse_in_parentheses(self.parse_natural, f"a number, such as `{word}(100)`")

    def _parse_in_parentheses(self, parse: Callable[[str], T], what: str) -> T:
        opening = self.index
        self.expect("(")
        item = parse(what)
        self.expect_closing(")", opening)
        return item

    def _is_at_end(self) -> bool:
        return self.kind in (";", END) or self.is_at_item() or (self.kind == "{" and bool(self.columns))

    def _expect_last_semicolon(self, what: str) -> None:
        if not self.accept(";"):
            self.report_missing(";", f"the {what}: it needs its own `;` after the `;` of its last line")

    def _parse_statement(self, parse: Callable[[], T], what: str, *stop_at: str) -> T | None:
        """Parse a statement of a test and its `;`. After a mistake, continue after the `;` or at `stop_at`."""
        try:
            statement = parse()
            self.expect_semicolon(what)
        except ParseAbandoned:
            self.level = self.lambdas = 0
            if not self.skip_statement(*stop_at):
                raise
            return None
        return statement

    # Fixtures

    def _parse_inputs(self, *, is_property: bool) -> tuple[tuple[syntax.Name, ...], tuple[syntax.Fixture, ...]]:
        """Parse `{…}`, and at level 2 also `with name, {…}` and `with name`."""
        if not self.is_word("with"):
            return (), self._parse_fixtures(is_property=is_property)
        if self.language == 1:
            self.raise_unexpected("`{` and the fixtures", "`with` needs `language 2;` as the first line of the rules")
        self.advance()
        bases = [self.parse_name("the name of a fixture")]
        while self.accept(","):
            if self.kind == "{":
                return tuple(bases), self._parse_fixtures(is_property=is_property)
            bases.append(self.parse_name("the name of a fixture, or `{`"))
        return tuple(bases), ()

    def _parse_fixtures(self, *, is_property: bool) -> tuple[syntax.Fixture, ...]:
        opening = self.index
        self.expect("{", "`{` and the fixtures")
        fixtures: list[syntax.Fixture] = []
        while self.kind not in ("}", END) and not self.is_at_item():
            fixture = self._parse_statement(lambda: self._parse_fixture(is_property=is_property), "the fixture", "}")
            if fixture is not None:
                fixtures.append(fixture)
        self.expect_closing("}", opening, "`fact`, `product`, `issued` or ")
        return tuple(fixtures)

    def _parse_fixture(self, *, is_property: bool) -> syntax.Fixture:
        first = self.index
        if self.is_word("fact"):
            return self._parse_fact(is_property=is_property)
        if self.is_word("product"):
            self.advance()
            sku, name = self._parse_two_texts('`product("sku", "name")`')
            return syntax.ProductFixture(sku, name, span=self.span_from(first))
        if self.language > 1 and self.is_word("without"):
            self.advance()
            return syntax.RemovedFact(
                *self._parse_two_texts('`without("Battery", "battery:1")`'), span=self.span_from(first)
            )
        if not self.is_word("issued"):
            self.raise_unexpected("`fact`, `product`, `issued` or `}`")
        self.advance()
        day = self._parse_in_parentheses(self.parse_text, 'a day, as in `issued("2026-02-28")`')
        return syntax.IssuedFixture(day, span=self.span_from(first))

    def _parse_fact(self, *, is_property: bool) -> syntax.FactFixture:
        first = self.index
        self.advance()
        label = self.parse_variable("a label after `fact`")
        fact_type, key = self._parse_two_texts('`fact b("Battery", "battery:1")`')
        self.expect("=", "`=` and the fact's JSON")
        payload: syntax.JsonObject | None = None
        if self.is_word("any"):
            if not is_property:
                message = "only a property can have `any` fact"
                self.report("unexpected-token", message, self.current_span(), "write the fact's JSON here")
            self.advance()
        else:
            payload = self.parse_json_object(1)
        return syntax.FactFixture(label, fact_type, key, payload, span=self.span_from(first))

    def _parse_two_texts(self, notation: str) -> tuple[syntax.TextLiteral, syntax.TextLiteral]:
        """Parse two texts in parentheses."""
        opening = self.index
        self.expect("(", help_=f"it is written {notation}")
        first = self.parse_text(f"a text, as in {notation}")
        self.expect(",", f"`,` and a second text, as in {notation}")
        second = self.parse_text(f"a second text, as in {notation}")
        self.expect_closing(")", opening)
        return first, second

    # Expectations and claims

    def parse_text(self, what: str) -> syntax.TextLiteral:
        return self.parse_column() if self.is_at_column() else super().parse_text(what)

    def _parse_reason(self) -> syntax.TextLiteral | None:
        """Parse `because "message"` of level 2."""
        if self.language == 1 or not self.is_word("because"):
            return None
        self.advance()
        return self.parse_text("a message in quotes")

    def _parse_expectation(self) -> syntax.AnyExpectation:
        first = self.index
        if self.is_word("expect"):
            return self._parse_expect(first)
        if self.language > 1 and self.is_word("expectFinding"):
            return self._parse_finding(first)
        if self.language > 1 and self.is_word("expectNoFinding"):
            self.advance()
            code = self._parse_in_parentheses(self.parse_text, 'a code in quotes, as in `expectNoFinding("DP10")`')
            return syntax.FindingExpectation(code, None, None, self._parse_reason(), span=self.span_from(first))
        if not self.is_word("expectError"):
            self.raise_unexpected("`expect`, `expectError` or `;`")
        self.advance()
        code = self._parse_in_parentheses(self.parse_text, 'a code in quotes, as in `expectError("E001")`')
        return syntax.ErrorExpectation(code, self._parse_reason(), span=self.span_from(first))

    def _parse_finding(self, first: int) -> syntax.FindingExpectation:
        self.advance()
        opening = self.index
        notation = '`expectFinding("DP10", "FAIL")`'
        self.expect("(", help_=f"it is written {notation}")
        code = self.parse_text(f"a code in quotes, as in {notation}")
        self.expect(",", f"`,` and a status, as in {notation}")
        status = self.parse_text(f"a status in quotes, as in {notation}")
        message, verdict, args = self._parse_finding_details()
        self.expect_closing(")", opening, "" if args else "`,` or ")
        because = self._parse_reason()
        return syntax.FindingExpectation(code, status, message, because, verdict, args, span=self.span_from(first))

    def _parse_finding_details(
        self,
    ) -> tuple[syntax.TextLiteral | None, syntax.TextLiteral | None, syntax.JsonObject | None]:
        """Parse what else is expected of a finding, in this order: its message, its verdict, its arguments."""
        message: syntax.TextLiteral | None = None
        verdict: syntax.TextLiteral | None = None
        while self.accept(","):
            # A column may have the same name; no text follows it.
            if self.is_word("verdict") and verdict is None and (self.is_next(TEXT) or self.is_next(NAME)):
                self.advance()
                verdict = self.parse_text('a verdict in quotes, such as "not_yet_in_force"')
            elif self.is_word("args") and self.is_next("{"):
                self.advance()
                return message, verdict, self.parse_json_object(1)
            elif message is None and verdict is None:
                message = self.parse_text('the message in quotes, `verdict "…"` or `args { … }`')
            else:
                self.raise_unexpected("`args { … }`" if verdict else '`verdict "…"` or `args { … }`')
        return message, verdict, None

    def _parse_expect(self, first: int) -> syntax.Expectation:
        self.advance()
        opening = self.index
        self.expect("(")
        path = self.parse_path()
        self.expect(",", "`,` and a comparison, as in `expect(battery.mass, == 5)`")
        if self.kind not in syntax.COMPARATORS:
            help_ = "`==` compares" if self.kind == "=" else None
            self.raise_unexpected("a comparison, as in `expect(battery.mass, == 5)`", help_)
        op = self.kind
        self.advance()
        constant = self.parse_constant(1)
        self.expect_closing(")", opening)
        return syntax.Expectation(path, op, constant, self._parse_reason(), span=self.span_from(first))

    def _parse_claim(self) -> syntax.Claim:
        first = self.index
        if not self.is_word("forall"):
            self.raise_unexpected("`forall` or `;`")
        self.advance()
        variable = self.parse_variable("a variable after `forall`")
        self.expect(":", "`:` and the variable's type")
        type_ = self.parse_type()
        self.expect(".", "`.` and `implies`")
        self.expect_word("implies")
        opening = self.index
        self.expect("(")
        premise = self.parse_expr()
        self.expect(",", "an operator, or `,` and the conclusion")
        conclusion = self.parse_expr()
        self.expect_closing(")", opening, "an operator or ")
        return syntax.Claim(variable, type_, premise, conclusion, span=self.span_from(first))
