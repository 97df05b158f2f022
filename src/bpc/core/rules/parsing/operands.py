"""Parsing of operands: literals, variables, calls, lists, records, functions, parentheses.

Pure. Every bracket catches the mistakes made in it, so that what follows it is read again.
"""

from abc import ABC, abstractmethod
from typing import Final

from bpc.core.rules.parsing.cursor import MAX_LEVELS, Abandoned, TooDeep, span_of
from bpc.core.rules.parsing.lex import NAME, NUMBER, TEXT, text_value
from bpc.core.rules.parsing.types import TypeParser
from bpc.core.rules.syntax import (
    Call,
    Day,
    Expr,
    FieldRef,
    Lambda,
    ListOf,
    Name,
    Nothing,
    Number,
    Quantity,
    RecordOf,
    Text,
    Truth,
    Variable,
)

MAX_HEIGHT: Final = 200
MAX_LAMBDAS: Final = 8

_BRACES: Final = "braces make a record, `{ name: value }`; to hold an expression together use parentheses"


class OperandParser(TypeParser, ABC):
    """A cursor that reads operands. `height` is that of the expression read last."""

    level = 0
    lambdas = 0
    height = 0

    @abstractmethod
    def expr(self) -> Expr:
        """A whole expression; whoever knows operators says how."""

    # Depth

    def deeper(self) -> None:
        self.level += 1
        if self.level > MAX_LEVELS:
            help_ = "give a part of it a name with `let`, or a field of its own"
            self.report("too-deep", f"nested more than {MAX_LEVELS} levels deep", self.token_span(), help_)
            raise TooDeep

    def grown(self, height: int, first: int) -> None:
        """The expression that starts at word `first` is one node higher than its parts."""
        self.height = height + 1
        if height >= MAX_HEIGHT:
            help_ = "give a part of it a name with `let`"
            says = f"operators, calls and branches are nested more than {MAX_HEIGHT} deep together"
            self.report("too-deep", says, self.span_from(first), help_)
            raise Abandoned

    def recover(self, closing: str, level: int, lambdas: int) -> None:
        """After a mistake in brackets go on behind them."""
        self.level, self.lambdas = level, lambdas
        self.skip_to_closing(closing)
        self.height = 1

    def number(self, first: int) -> Number:
        """A number whose first word is `first`: itself, or the minus directly before it."""
        digits = self.texts[self.at]
        is_negative = first != self.at
        self.advance()
        self.height = 1
        return Number(digits, is_negative, span=self.span_from(first))

    # Operands

    def primary(self) -> Expr:
        kind, start, text = self.kind, self.starts[self.at], self.texts[self.at]
        if kind == NAME:
            if self.kinds[self.at + 1] == "(":
                return self._with_parentheses(text)
            made: Expr = Variable(text, span=span_of((start, start + len(text))))
        elif kind == TEXT:
            made = Text(text_value(text), span=span_of((start, start + len(text))))
        elif kind == NUMBER:
            made = Number(text, span=span_of((start, start + len(text))))
        elif kind in ("true", "false"):
            made = Truth(kind == "true", span=span_of((start, start + len(text))))
        elif kind == "none":
            made = Nothing(span=span_of((start, start + len(text))))
        else:
            return self._compound(kind)
        self.advance()
        self.height = 1
        return made

    def _compound(self, kind: str) -> Expr:
        if kind == "field":
            return self._reference()
        if kind == "(":
            return self._parenthesis()
        if kind == "[":
            return self._list()
        if kind == "{":
            return self._record()
        if kind == "fn":
            span = self.token_span()
            says = "a function can only be an argument of `map`, `filter` or `fold`"
            self.report("misplaced-lambda", says, span, "it stands there directly, without parentheses around it")
            return self.function()
        if kind not in ("if", "let", "assert"):
            self.unexpected("a value", "`--` starts a comment" if kind == "/" else None)
        says = f"`{kind}` cannot stand directly beside an operator"
        self.report("if-needs-parentheses", says, self.token_span(), f"put the `{kind}` in parentheses")
        self.deeper()
        made = self.expr()
        self.level -= 1
        return made

    def _with_parentheses(self, name: str) -> Expr:
        """A name and its parentheses: `date` and `qty` are literals, everything else is a call."""
        if name == "date":
            return self.day()
        if name == "qty":
            return self.quantity()
        return self._call()

    def day(self) -> Day:
        first = self.at
        self.advance()
        self.advance()
        text = self.text('a day written out, such as `date("2026-02-28")`')
        self.expect_closing(")", first + 1)
        self.height = 1
        return Day(text, span=self.span_from(first))

    def quantity(self) -> Quantity:
        first = self.at
        self.advance()
        self.advance()
        number_at = self.at
        self.accept("-")
        if self.kind != NUMBER:
            help_ = "a computed number becomes a quantity with `toQty`"
            self.unexpected("a number written out, such as `qty(1.5, kWh)`", help_)
        number = self.number(number_at)
        self.expect(",", "`,` and the unit")
        unit = self.name("a unit without quotes, such as `qty(1.5, kWh)`")
        self.expect_closing(")", first + 1)
        return Quantity(number, unit, span=self.span_from(first))

    def _reference(self) -> FieldRef:
        first = self.at
        if self.is_at_item():
            self.unexpected("a value")
        self.advance()
        self.expect("(", help_='another field is read with `field("battery.capacity_kwh")`')
        path = self.text('the path of a field in quotes, such as `field("battery.capacity_kwh")`')
        self.expect_closing(")", first + 1)
        self.height = 1
        return FieldRef(path, span=self.span_from(first))

    def _parenthesis(self) -> Expr:
        opening, level, lambdas = self.at, self.level, self.lambdas
        self.deeper()
        try:
            self.advance()
            made = self.expr()
            self.expect_closing(")", opening, "an operator or ")
        except Abandoned:
            self.recover(")", level, lambdas)
            return Nothing(span=self.span_from(opening))
        self.level = level
        return made

    def _call(self) -> Call:
        first, level, lambdas = self.at, self.level, self.lambdas
        function = Name(self.texts[first], span=self.token_span())
        self.advance()
        arguments: list[Expr] = []
        height = 0
        self.deeper()
        try:
            self.advance()
            while self.kind != ")":
                arguments.append(self.function() if self.kind == "fn" else self.expr())
                height = max(height, self.height)
                if self.kind != ",":
                    break
                self.advance()
            self.expect_closing(")", first + 1, "an operator, `,` or ")
            self.grown(height, first)
        except Abandoned:
            self.recover(")", level, lambdas)
        self.level = level
        return Call(function, tuple(arguments), span=self.span_from(first))

    def _list(self) -> ListOf:
        opening, level, lambdas = self.at, self.level, self.lambdas
        items: list[Expr] = []
        height = 0
        self.deeper()
        try:
            self.advance()
            while self.kind != "]":
                items.append(self.expr())
                height = max(height, self.height)
                if self.kind != ",":
                    break
                self.advance()
            self.expect_closing("]", opening, "an operator, `,` or ")
            self.grown(height, opening)
        except Abandoned:
            self.recover("]", level, lambdas)
        self.level = level
        return ListOf(tuple(items), span=self.span_from(opening))

    def _record(self) -> RecordOf:
        opening, level, lambdas = self.at, self.level, self.lambdas
        members: list[tuple[Name, Expr]] = []
        height = 0
        self.deeper()
        try:
            self.advance()
            if self.kind == "}":
                self.report("empty-record", "a record needs at least one member", self.word_span(opening))
            while self.kind != "}":
                name = self.name("a member's name, without quotes", None if self.kind == TEXT else _BRACES)
                self.expect(":", "`:` and the member's value")
                members.append((name, self.expr()))
                height = max(height, self.height)
                if self.kind != ",":
                    break
                self.advance()
            self.expect_closing("}", opening, "an operator, `,` or ")
            self.grown(height, opening)
        except Abandoned:
            self.recover("}", level, lambdas)
        self.level = level
        return RecordOf(tuple(members), span=self.span_from(opening))

    def function(self) -> Lambda:
        first = self.at
        if self.lambdas >= MAX_LAMBDAS:
            says = f"functions are nested at most {MAX_LAMBDAS} levels deep"
            self.report("too-deep", says, self.token_span(), "give a part of it a field of its own")
            raise Abandoned
        self.advance()
        parameters = self._parameters()
        self.expect("=>", "`=>` and what the function gives")
        self.lambdas += 1
        self.deeper()
        body = self.expr()
        self.lambdas -= 1
        self.level -= 1
        self.grown(self.height, first)
        return Lambda(parameters, body, span=self.span_from(first))

    def _parameters(self) -> tuple[Name, ...]:
        opening = self.at
        self.expect("(", "`(` and the function's parameter", "it is written `fn(x) => …`")
        parameters = [self.variable("the name of a parameter")]
        if self.accept(","):
            parameters.append(self.variable("the name of a second parameter"))
        if self.kind == ",":
            says = "a function has one or two parameters"
            self.report("unexpected-token", says, self.token_span(), "a record can hold several values")
            self.skip_to_closing(")")
            return tuple(parameters)
        self.expect_closing(")", opening, "`,` or ")
        return tuple(parameters)
