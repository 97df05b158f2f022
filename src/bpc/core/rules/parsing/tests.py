"""Parsing of examples and properties: fixtures, JSON, expectations, claims."""

from collections.abc import Callable
from typing import Final, TypeVar

from bpc.core.rules.parsing.cursor import MAX_LEVELS, Abandoned
from bpc.core.rules.parsing.expressions import ExpressionParser
from bpc.core.rules.parsing.lex import END, NUMBER, TEXT, is_natural
from bpc.core.rules.syntax import (
    Claim,
    Constant,
    Example,
    Expect,
    ExpectError,
    FactFixture,
    Fixture,
    IssuedFixture,
    JsonAtom,
    JsonList,
    JsonObject,
    JsonValue,
    ListConstant,
    Name,
    Nothing,
    Number,
    ProductFixture,
    Property,
    RecordConstant,
    SomeConstant,
    Text,
    Truth,
)

T = TypeVar("T")

_COMPARATORS: Final = ("==", "!=", "<", "<=", ">", ">=")
_JSON_WORDS: Final = {"true": True, "false": False, "null": None}


class TestParser(ExpressionParser):
    """A cursor that reads tests."""

    __test__ = False

    # Examples and properties

    def example(self) -> Example:
        first = self.at
        self.advance()
        name = self.name("the name of the example")
        self.expect(":")
        fixtures = self._fixtures(is_property=False)
        self.expect("=>", "`=>` and what is expected")
        expectations: list[Expect | ExpectError] = []
        while not self._is_over():
            if (expectation := self._statement(self._expectation, "the expectation")) is not None:
                expectations.append(expectation)
        self._last_semicolon("example")
        return Example(name, fixtures, tuple(expectations), span=self.span_from(first))

    def property(self) -> Property:
        first = self.at
        self.advance()
        name = self.name("the name of the property")
        self.expect(":")
        cases = self._amount("cases")
        seed = self._amount("seed")
        givens: tuple[Fixture, ...] = ()
        if self.is_word("given"):
            self.advance()
            givens = self._fixtures(is_property=True)
        self.expect("=>", "`=>` and what is claimed" if givens else "`given` or `=>`")
        claims: list[Claim] = []
        while not self._is_over():
            if (claim := self._statement(self._claim, "the claim")) is not None:
                claims.append(claim)
        self._last_semicolon("property")
        return Property(name, cases, seed, givens, tuple(claims), span=self.span_from(first))

    def _amount(self, word: str) -> Number:
        self.expect_word(word)
        opening = self.at
        self.expect("(")
        amount = self.natural(f"a number, such as `{word}(100)`")
        self.expect_closing(")", opening)
        return amount

    def _is_over(self) -> bool:
        return self.kind in (";", END) or self.is_at_item()

    def _last_semicolon(self, what: str) -> None:
        if not self.accept(";"):
            self.missing(";", f"the {what}: it ends with a `;` of its own, behind that of its last line")

    def _statement(self, read: Callable[[], T], what: str, *before: str) -> T | None:
        """Read a statement of a test and its `;`. After a mistake go on behind the `;`, or at a bracket `before` it."""
        try:
            made = read()
            self.semicolon(what)
        except Abandoned:
            self.level = self.lambdas = 0
            if not self.skip_statement(*before):
                raise
            return None
        return made

    # Fixtures

    def _fixtures(self, *, is_property: bool) -> tuple[Fixture, ...]:
        opening = self.at
        self.expect("{", "`{` and the fixtures")
        fixtures: list[Fixture] = []
        while self.kind not in ("}", END) and not self.is_at_item():
            if (
                fixture := self._statement(lambda: self._fixture(is_property=is_property), "the fixture", "}")
            ) is not None:
                fixtures.append(fixture)
        self.expect_closing("}", opening, "`fact`, `product`, `issued` or ")
        return tuple(fixtures)

    def _fixture(self, *, is_property: bool) -> Fixture:
        first = self.at
        if self.is_word("fact"):
            return self._fact(is_property=is_property)
        if self.is_word("product"):
            self.advance()
            sku, name = self._two_texts('`product("sku", "name")`')
            return ProductFixture(sku, name, span=self.span_from(first))
        if not self.is_word("issued"):
            self.unexpected("`fact`, `product`, `issued` or `}`")
        self.advance()
        opening = self.at
        self.expect("(")
        day = self.text('a day, as in `issued("2026-02-28")`')
        self.expect_closing(")", opening)
        return IssuedFixture(day, span=self.span_from(first))

    def _fact(self, *, is_property: bool) -> FactFixture:
        first = self.at
        self.advance()
        label = self.variable("a label after `fact`")
        fact_type, key = self._two_texts('`fact b("Battery", "battery:1")`')
        self.expect("=", "`=` and the fact's JSON")
        payload: JsonObject | None = None
        if self.is_word("any"):
            if not is_property:
                says = "only a property can have `any` fact"
                self.report("unexpected-token", says, self.token_span(), "write the fact's JSON out")
            self.advance()
        else:
            payload = self._json_object(1)
        return FactFixture(label, fact_type, key, payload, span=self.span_from(first))

    def _two_texts(self, written: str) -> tuple[Text, Text]:
        """Two texts in parentheses."""
        opening = self.at
        self.expect("(", help_=f"it is written {written}")
        one = self.text(f"a text, as in {written}")
        self.expect(",", f"`,` and a second text, as in {written}")
        other = self.text(f"a second text, as in {written}")
        self.expect_closing(")", opening)
        return one, other

    # JSON

    def _json_object(self, level: int) -> JsonObject:
        opening = self.at
        members: list[tuple[Text, JsonValue]] = []
        self._check_level(level)
        self.expect("{", "a JSON object")
        try:
            while self.kind == TEXT:
                key = self.text("a key")
                self.expect(":")
                members.append((key, self._json(level + 1)))
                self.accept(",")
            self.expect_closing("}", opening, "a key in quotes or ")
        except Abandoned:
            self.skip_to_closing("}")
        return JsonObject(tuple(members), span=self.span_from(opening))

    def _json(self, level: int) -> JsonValue:
        if self.kind == "{":
            return self._json_object(level)
        if self.kind == "[":
            return self._json_list(level)
        return self._json_atom()

    def _json_list(self, level: int) -> JsonList:
        opening = self.at
        items: list[JsonValue] = []
        self._check_level(level)
        self.advance()
        try:
            while self.kind != "]":
                items.append(self._json(level + 1))
                self.accept(",")
            self.advance()
        except Abandoned:
            self.skip_to_closing("]")
        return JsonList(tuple(items), span=self.span_from(opening))

    def _json_atom(self) -> JsonAtom:
        first, text = self.at, self.texts[self.at]
        if self.kind == TEXT:
            return JsonAtom(self.text("a text").value, span=self.span_from(first))
        if text in _JSON_WORDS:
            self.advance()
            return JsonAtom(_JSON_WORDS[text], span=self.span_from(first))
        is_negative = self.accept("-")
        if self.kind != NUMBER:
            self.unexpected("a JSON value")
        digits = self.texts[self.at]
        self.advance()
        return JsonAtom(self._json_number(first, digits, is_negative=is_negative), span=self.span_from(first))

    def _json_number(self, first: int, digits: str, *, is_negative: bool) -> int:
        sign = "-" if is_negative else ""
        if "." in digits:
            says = "a fact's JSON holds whole numbers only"
            self.report("fraction-in-json", says, self.span_from(first), f'write it as text: `"{sign}{digits}"`')
        if not is_natural(digits):
            return 0  # it was reported, and the example is dropped
        return -int(digits) if is_negative else int(digits)

    def _check_level(self, level: int) -> None:
        if level > MAX_LEVELS:
            self.report("too-deep", f"nested more than {MAX_LEVELS} levels deep", self.token_span())
            raise Abandoned

    # Expectations and claims

    def _expectation(self) -> Expect | ExpectError:
        first = self.at
        if self.is_word("expect"):
            return self._expect(first)
        if not self.is_word("expectError"):
            self.unexpected("`expect`, `expectError` or `;`")
        self.advance()
        opening = self.at
        self.expect("(")
        code = self.text('a code in quotes, as in `expectError("E001")`')
        self.expect_closing(")", opening)
        return ExpectError(code, span=self.span_from(first))

    def _expect(self, first: int) -> Expect:
        self.advance()
        opening = self.at
        self.expect("(")
        path = self.path()
        self.expect(",", "`,` and a comparison, as in `expect(battery.mass, == 5)`")
        if self.kind not in _COMPARATORS:
            help_ = "`==` compares" if self.kind == "=" else None
            self.unexpected("a comparison, as in `expect(battery.mass, == 5)`", help_)
        op = self.kind
        self.advance()
        constant = self._constant(1)
        self.expect_closing(")", opening)
        return Expect(path, op, constant, span=self.span_from(first))

    def _constant(self, level: int) -> Constant:
        self._check_level(level)
        first, kind = self.at, self.kind
        if kind == "[":
            return self._list_constant(level)
        if kind == "{":
            return self._record_constant(level)
        if kind == TEXT:
            return self.text("a text")
        if kind in ("-", NUMBER):
            self.accept("-")
            if self.kind != NUMBER:
                self.unexpected("a number")
            return self.number(first)
        return self._word_constant(level)

    def _word_constant(self, level: int) -> Constant:
        first, kind = self.at, self.kind
        if kind in ("true", "false", "none"):
            self.advance()
            span = self.span_from(first)
            return Nothing(span=span) if kind == "none" else Truth(kind == "true", span=span)
        if self.is_word("date") and self.is_next("("):
            return self.day()
        if self.is_word("qty") and self.is_next("("):
            return self.quantity()
        if not (self.is_word("some") and self.is_next("(")):
            self.unexpected("a value written out", "an expectation compares with a constant, not with an expression")
        self.advance()
        self.advance()
        item = self._constant(level + 1)
        self.expect_closing(")", first + 1)
        return SomeConstant(item, span=self.span_from(first))

    def _list_constant(self, level: int) -> ListConstant:
        opening = self.at
        self.advance()
        items: list[Constant] = []
        while self.kind != "]":
            items.append(self._constant(level + 1))
            if not self.accept(","):
                break
        self.expect_closing("]", opening, "`,` or ")
        return ListConstant(tuple(items), span=self.span_from(opening))

    def _record_constant(self, level: int) -> RecordConstant:
        opening = self.at
        self.advance()
        members: list[tuple[Name, Constant]] = []
        while self.kind != "}":
            name = self.name("a member's name, without quotes")
            self.expect(":", "`:` and the member's value")
            members.append((name, self._constant(level + 1)))
            if not self.accept(","):
                break
        self.expect_closing("}", opening, "`,` or ")
        span = self.span_from(opening)
        if not members:
            self.report("empty-record", "a record needs at least one member", span)
        return RecordConstant(tuple(members), span=span)

    def _claim(self) -> Claim:
        first = self.at
        if not self.is_word("forall"):
            self.unexpected("`forall` or `;`")
        self.advance()
        variable = self.variable("a variable after `forall`")
        self.expect(":", "`:` and the variable's type")
        made = self.type()
        self.expect(".", "`.` and `implies`")
        self.expect_word("implies")
        opening = self.at
        self.expect("(")
        premise = self.expr()
        self.expect(",", "an operator, or `,` and the conclusion")
        conclusion = self.expr()
        self.expect_closing(")", opening, "an operator or ")
        return Claim(variable, made, premise, conclusion, span=self.span_from(first))
