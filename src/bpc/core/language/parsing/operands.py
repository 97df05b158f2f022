"""Parse types (`Opt(Dec(2))`) and operands: literals, variables, calls, lists, records, functions, parentheses."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, TypeVar

from bpc.core.language import syntax
from bpc.core.language.parsing.lexer import NAME, NUMBER, TEXT, decode_text
from bpc.core.language.parsing.token_cursor import MAX_LEVELS, NestingTooDeep, ParseAbandoned, TokenCursor, make_span
from bpc.core.language.suggestions import Suggestions
from bpc.core.language.types import MAX_TYPE_DEPTH

T = TypeVar("T")

MAX_HEIGHT: Final = 200
MAX_LAMBDAS: Final = 8

_BRACES_HELP: Final = "braces build a record, `{ name: value }`; use parentheses to group an expression"
SIMPLE_TYPES: Final = ("Bool", "Int", "Text", "Date")
TYPES_WITH_PARTS: Final = ("Dec", "Qty", "Opt", "List", "Map", "Record")
# What the types are called in other languages.
_LOWERCASE: Final = {code: code + 32 for code in range(65, 91)}  # `str.lower` knows more letters with each Unicode
_TYPE_FIXES: Final = {
    "boolean": "Bool",
    "integer": "Int",
    "number": "Int` or `Dec(2)",
    "decimal": "Dec(2)",
    "float": "Dec(2)",
    "double": "Dec(2)",
    "string": "Text",
    "str": "Text",
    "quantity": "Qty(kg)",
    "option": "Opt(…)",
    "optional": "Opt(…)",
    "array": "List(…)",
    "object": "Record(…)",
    **{name.translate(_LOWERCASE): name for name in (*SIMPLE_TYPES, *TYPES_WITH_PARTS)},
}
_CONTAINER_TYPES: Final[dict[str, type[syntax.OptType | syntax.ListType | syntax.MapType]]] = {
    "Opt": syntax.OptType,
    "List": syntax.ListType,
    "Map": syntax.MapType,
}
_NOTATION_EXAMPLES: Final = {
    "Dec": "Dec(2)",
    "Qty": "Qty(kg)",
    "Opt": "Opt(Int)",
    "List": "List(Int)",
    "Map": "Map(Text, Int)",
    "Record": "Record(name: Text)",
}


def suggest_type(name: str, suggestions: Suggestions) -> str | None:
    """Suggest a built-in type for a name that is not a type."""
    plain = name.translate(_LOWERCASE)
    meant = plain if plain in _TYPE_FIXES else suggestions.find_nearest(plain, _TYPE_FIXES)
    return None if meant is None else f"did you mean `{_TYPE_FIXES[meant]}`?"


class TypeParser(TokenCursor):
    """Parses types."""

    def parse_type(self, level: int = 1) -> syntax.TypeExpr:
        first, name = self.index, self.texts[self.index]
        if self.kind != NAME:
            self.raise_unexpected("a type")
        if name not in SIMPLE_TYPES and name not in TYPES_WITH_PARTS:
            if self.language > 1 and not self.is_next("("):
                self.advance()
                return syntax.NamedType(name, span=self.span_from(first))
            return self._recover_unknown_type(name)
        if level > MAX_TYPE_DEPTH:
            message = f"types are nested at most {MAX_TYPE_DEPTH} levels deep"
            self.report("too-deep", message, self.current_span(), "give a part of it a field of its own")
            raise ParseAbandoned
        self.advance()
        if name in SIMPLE_TYPES:
            return syntax.SimpleType(name, span=self.span_from(first))
        opening = self.index
        self.expect("(", help_=f"`{name}` is written as in `{_NOTATION_EXAMPLES[name]}`")
        return self._parse_type_parts(name, first, opening, level)

    def _recover_unknown_type(self, name: str) -> syntax.TypeExpr:
        """Report it, skip its parentheses, and continue with any type in its place."""
        first = self.index
        help_ = suggest_type(name, self.suggestions)
        self.report("unknown-type", f"there is no type `{name}`", self.current_span(), help_)
        self.advance()
        if self.accept("("):
            self.skip_to_closing(")")
        return syntax.SimpleType("Int", span=self.span_from(first))

    def _parse_type_parts(self, name: str, first: int, opening: int, level: int) -> syntax.TypeExpr:
        """Parse the parentheses of a type."""
        if name == "Dec":
            scale = int(self.parse_natural("the number of decimals, such as `Dec(2)`").digits)
            self.expect_closing(")", opening)
            return syntax.DecType(scale, span=self.span_from(first))
        if name == "Qty":
            unit = self.parse_name("a unit, such as `Qty(kg)`")
            self.expect_closing(")", opening)
            return syntax.QtyType(unit, span=self.span_from(first))
        if name == "Record":
            members = self._parse_type_members(opening, level)
            return syntax.RecordType(members, span=self.span_from(first))
        if name == "Map":
            self._expect_key_type()
        item = self.parse_type(level + 1)
        self.expect_closing(")", opening)
        return _CONTAINER_TYPES[name](item, span=self.span_from(first))

    def _expect_key_type(self) -> None:
        if not self.is_word("Text"):
            self.raise_unexpected("`Text`", "the keys of a map are texts, as in `Map(Text, Int)`")
        self.advance()
        self.expect(",", "`,` and the type of the values")

    def _parse_type_members(self, opening: int, level: int) -> tuple[tuple[syntax.Name, syntax.TypeExpr], ...]:
        if self.kind == ")":
            self.report("empty-record", "a record needs at least one member", self.span_from(opening - 1))
            raise ParseAbandoned
        members = [self._parse_type_member(level)]
        while self.accept(","):
            members.append(self._parse_type_member(level))
        self.expect_closing(")", opening, "`,` or ")
        return tuple(members)

    def _parse_type_member(self, level: int) -> tuple[syntax.Name, syntax.TypeExpr]:
        name = self.parse_name("a member's name")
        self.expect(":", "`:` and the member's type")
        return name, self.parse_type(level + 1)


class OperandParser(TypeParser, ABC):
    """Parses operands. `height` is the height of the expression parsed last."""

    level = 0
    lambdas = 0
    height = 0

    @abstractmethod
    def parse_expr(self) -> syntax.Expr:
        """Parse a whole expression."""

    @abstractmethod
    def is_at_fact_query(self) -> bool:
        """Whether `Battery for` or `all Component for` stands here."""

    @abstractmethod
    def parse_fact_query(self) -> syntax.Expr: ...

    @abstractmethod
    def parse_interpolation(self) -> syntax.Expr: ...

    @abstractmethod
    def parse_match(self) -> syntax.Match:
        """Parse `match subject { … }`; the cursor is at its first word."""

    # Depth

    def enter_level(self) -> None:
        self.level += 1
        if self.level > MAX_LEVELS:
            help_ = "give a part of it a name with `let`, or a field of its own"
            self.report("too-deep", f"nested more than {MAX_LEVELS} levels deep", self.current_span(), help_)
            raise NestingTooDeep

    def record_height(self, height: int, first: int) -> None:
        """Note that the expression that starts at word `first` is one node higher than its parts."""
        self.height = height + 1
        if height >= MAX_HEIGHT:
            help_ = "give a part of it a name with `let`"
            message = f"operators, calls and branches are nested more than {MAX_HEIGHT} levels deep in total"
            self.report("too-deep", message, self.span_from(first), help_)
            raise ParseAbandoned

    def recover(self, closing: str, level: int, lambdas: int) -> None:
        """After a mistake in brackets, continue after them."""
        self.level, self.lambdas = level, lambdas
        self.skip_to_closing(closing)
        self.height = 1

    def parse_number(self, first: int) -> syntax.NumberLiteral:
        """Parse a number. `first` is its first word: the number, or the minus directly before it."""
        digits = self.texts[self.index]
        is_negative = first != self.index
        self.advance()
        self.height = 1
        return syntax.NumberLiteral(digits, is_negative, span=self.span_from(first))

    # Operands

    def parse_members(self, first: int, expr: syntax.Expr) -> syntax.Expr:
        """Parse the `.member.member` of level 2 behind the operand that starts at word `first`."""
        if self.language == 1:
            return expr
        while self.accept("."):
            member = self.parse_name("the name of a member after the `.`")
            self.record_height(self.height, first)
            expr = syntax.Member(expr, member, span=self.span_from(first))
        return expr

    def parse_primary(self) -> syntax.Expr:
        kind, start, text = self.kind, self.starts[self.index], self.texts[self.index]
        if kind == NAME:
            if text == "match" and self.language > 1:
                return self.parse_match()
            if self.kinds[self.index + 1] == "(":
                return self._parse_call(text)
            if self.language > 1 and self.is_at_fact_query():
                return self.parse_fact_query()
            expr: syntax.Expr = syntax.VariableRef(text, span=make_span((start, start + len(text))))
        elif kind == TEXT:
            if self.language > 1 and "{" in text:
                return self.parse_interpolation()
            expr = syntax.TextLiteral(decode_text(text), span=make_span((start, start + len(text))))
        elif kind == NUMBER:
            expr = syntax.NumberLiteral(text, span=make_span((start, start + len(text))))
        elif kind in ("true", "false"):
            expr = syntax.BoolLiteral(kind == "true", span=make_span((start, start + len(text))))
        elif kind == "none":
            expr = syntax.NoneLiteral(span=make_span((start, start + len(text))))
        else:
            return self._parse_compound(kind)
        self.advance()
        self.height = 1
        return expr

    def _parse_compound(self, kind: str) -> syntax.Expr:
        if kind == "field":
            return self._parse_field_ref()
        if kind == "(":
            return self.parse_parenthesis()
        if kind == "[":
            return self._parse_list()
        if kind == "{":
            return self._parse_record()
        if kind == "fn":
            message = "a function can only be an argument of `map`, `filter` or `fold`"
            help_ = "write it directly as the argument, without parentheses around it"
            self.report("misplaced-lambda", message, self.current_span(), help_)
            return self.parse_lambda()
        if kind not in ("if", "let", "assert"):
            self.raise_unexpected("a value", "`--` starts a comment" if kind == "/" else None)
        message = f"`{kind}` needs parentheses next to an operator"
        self.report("if-needs-parentheses", message, self.current_span(), f"put the `{kind}` in parentheses")
        self.enter_level()
        expr = self.parse_expr()
        self.level -= 1
        return expr

    def parse_date(self) -> syntax.DateLiteral:
        first = self.index
        self.advance()
        self.advance()
        text = self.parse_text('a date in quotes, such as `date("2026-02-28")`')
        self.expect_closing(")", first + 1)
        self.height = 1
        return syntax.DateLiteral(text, span=self.span_from(first))

    def parse_quantity(self) -> syntax.QuantityLiteral:
        first = self.index
        self.advance()
        self.advance()
        number_at = self.index
        self.accept("-")
        if self.kind != NUMBER:
            help_ = "use `toQty` to turn a computed number into a quantity"
            self.raise_unexpected("a literal number, such as `qty(1.5, kWh)`", help_)
        number = self.parse_number(number_at)
        self.expect(",", "`,` and the unit")
        unit = self.parse_name("a unit without quotes, such as `qty(1.5, kWh)`")
        self.expect_closing(")", first + 1)
        return syntax.QuantityLiteral(number, unit, span=self.span_from(first))

    def _parse_field_ref(self) -> syntax.FieldRef:
        first = self.index
        if self.is_at_item():
            self.raise_unexpected("a value")
        self.advance()
        self.expect("(", help_='another field is read with `field("battery.capacity_kwh")`')
        path = self.parse_text('the path of a field in quotes, such as `field("battery.capacity_kwh")`')
        self.expect_closing(")", first + 1)
        self.height = 1
        return syntax.FieldRef(path, span=self.span_from(first))

    def parse_parenthesis(self) -> syntax.Expr:
        opening, level, lambdas = self.index, self.level, self.lambdas
        self.enter_level()
        try:
            self.advance()
            expr = self.parse_expr()
            self.expect_closing(")", opening, "an operator or ")
        except ParseAbandoned:
            self.recover(")", level, lambdas)
            return syntax.NoneLiteral(span=self.span_from(opening))
        self.level = level
        return expr

    def _parse_call(self, name: str) -> syntax.Expr:
        """Parse a name and its parentheses: `date` and `qty` are literals, everything else is a call."""
        if name == "date":
            return self.parse_date()
        if name == "qty":
            return self.parse_quantity()
        first = self.index
        function = syntax.Name(name, span=self.current_span())
        self.advance()
        arguments = self.parse_items(first, ")", self._parse_argument)
        return syntax.Call(function, tuple(arguments), span=self.span_from(first))

    def _parse_argument(self) -> syntax.Expr:
        return self.parse_lambda() if self.kind == "fn" else self.parse_expr()

    def _parse_list(self) -> syntax.ListLiteral:
        first = self.index
        items = self.parse_items(first, "]", self.parse_expr)
        return syntax.ListLiteral(tuple(items), span=self.span_from(first))

    def _parse_record(self) -> syntax.RecordLiteral:
        first = self.index
        if self.is_next("}"):
            self.report("empty-record", "a record needs at least one member", self.span_at(first))
        members = self.parse_items(first, "}", self._parse_member)
        return syntax.RecordLiteral(tuple(members), span=self.span_from(first))

    def _parse_member(self) -> tuple[syntax.Name, syntax.Expr]:
        name = self.parse_name("a member's name, without quotes", None if self.kind == TEXT else _BRACES_HELP)
        self.expect(":", "`:` and the member's value")
        return name, self.parse_expr()

    def parse_items(self, first: int, closing: str, parse_item: Callable[[], T]) -> list[T]:
        """Parse what stands in brackets, separated by commas. The cursor is at the opening bracket.

        The expression starts at word `first`. After a mistake, parsing continues after the closing bracket.
        """
        opening, level, lambdas = self.index, self.level, self.lambdas
        items: list[T] = []
        height = 0
        self.enter_level()
        try:
            self.advance()
            while self.kind != closing:
                items.append(parse_item())
                height = max(height, self.height)
                if self.kind != ",":
                    break
                self.advance()
            self.expect_closing(closing, opening, "an operator, `,` or ")
            self.record_height(height, first)
        except ParseAbandoned:
            self.recover(closing, level, lambdas)
        self.level = level
        return items

    def parse_lambda(self) -> syntax.Lambda:
        first = self.index
        if self.lambdas >= MAX_LAMBDAS:
            message = f"functions are nested at most {MAX_LAMBDAS} levels deep"
            self.report("too-deep", message, self.current_span(), "give a part of it a field of its own")
            raise ParseAbandoned
        self.advance()
        parameters = self._parse_parameters()
        self.expect("=>", "`=>` and the function's result")
        self.lambdas += 1
        self.enter_level()
        body = self.parse_expr()
        self.lambdas -= 1
        self.level -= 1
        self.record_height(self.height, first)
        return syntax.Lambda(parameters, body, span=self.span_from(first))

    def _parse_parameters(self) -> tuple[syntax.Name, ...]:
        opening = self.index
        self.expect("(", "`(` and the function's parameter", "it is written `fn(x) => …`")
        parameters = [self.parse_variable("the name of a parameter")]
        if self.accept(","):
            parameters.append(self.parse_variable("the name of a second parameter"))
        if self.kind == ",":
            message = "a function has one or two parameters"
            self.report("unexpected-token", message, self.current_span(), "a record can hold several values")
            self.skip_to_closing(")")
            return tuple(parameters)
        self.expect_closing(")", opening, "`,` or ")
        return tuple(parameters)
