"""Parse what stands in place of expressions in tests, JSON and constants; and the definitions of level 2."""

from collections.abc import Callable
from typing import Final

from bpc.core.language import syntax
from bpc.core.language.parsing.expressions import ExpressionParser
from bpc.core.language.parsing.lexer import NAME, NUMBER, TEXT, is_natural
from bpc.core.language.parsing.operands import T
from bpc.core.language.parsing.token_cursor import MAX_LEVELS, ParseAbandoned

_JSON_WORDS: Final = {"true": True, "false": False, "null": None}
_DEFINITION_WORDS: Final = ("const", "def")
_SEVERITIES: Final = ("fail", "warn")
_LAYERS: Final = ("model", "batch", "item")
_LAYER_HELP: Final = "the layers are `model`, `batch` and `item`"
_SEVERITY_HELP: Final = "it is `fail`, which is meant if none is written, or `warn`"
_MISSING_HELP: Final = 'it is written `else missing("what is missing")`'


class ConstantParser(ExpressionParser):
    """Parses what tests contain in place of expressions: the JSON of facts, and constants."""

    # The columns of the table that is being parsed.
    columns: frozenset[str] = frozenset()

    def is_at_column(self) -> bool:
        return self.kind == NAME and self.texts[self.index] in self.columns and not self.is_next("(")

    def parse_column(self) -> syntax.ColumnRef:
        column = syntax.ColumnRef(self.texts[self.index], span=self.current_span())
        self.advance()
        return column

    # JSON

    def parse_json_object(self, level: int) -> syntax.JsonObject:
        opening = self.index
        members: list[tuple[syntax.TextLiteral, syntax.JsonValue]] = []
        self._check_level(level)
        self.expect("{", "a JSON object")
        try:
            while self.kind == TEXT:
                key = self.parse_text("a key")
                self.expect(":")
                members.append((key, self._parse_json(level + 1)))
                self.accept(",")
            self.expect_closing("}", opening, "a key in quotes or ")
        except ParseAbandoned:
            self.skip_to_closing("}")
        return syntax.JsonObject(tuple(members), span=self.span_from(opening))

    def _parse_json(self, level: int) -> syntax.JsonValue:
        if self.kind == "{":
            return self.parse_json_object(level)
        if self.kind == "[":
            return self._parse_json_list(level)
        return self._parse_json_atom()

    def _parse_json_list(self, level: int) -> syntax.JsonList:
        opening = self.index
        items: list[syntax.JsonValue] = []
        self._check_level(level)
        self.advance()
        try:
            while self.kind != "]":
                items.append(self._parse_json(level + 1))
                self.accept(",")
            self.advance()
        except ParseAbandoned:
            self.skip_to_closing("]")
        return syntax.JsonList(tuple(items), span=self.span_from(opening))

    def _parse_json_atom(self) -> syntax.JsonAtom | syntax.ColumnRef:
        first, text = self.index, self.texts[self.index]
        if self.is_at_column():
            return self.parse_column()
        if self.kind == TEXT:
            return syntax.JsonAtom(self.parse_text("a text").value, span=self.span_from(first))
        if text in _JSON_WORDS:
            self.advance()
            return syntax.JsonAtom(_JSON_WORDS[text], span=self.span_from(first))
        is_negative = self.accept("-")
        if self.kind != NUMBER:
            self.raise_unexpected("a JSON value")
        digits = self.texts[self.index]
        self.advance()
        return syntax.JsonAtom(self._to_json_number(first, digits, is_negative=is_negative), span=self.span_from(first))

    def _to_json_number(self, first: int, digits: str, *, is_negative: bool) -> int:
        sign = "-" if is_negative else ""
        if "." in digits:
            message = "a fact's JSON can contain only whole numbers"
            self.report("fraction-in-json", message, self.span_from(first), f'write it as text: `"{sign}{digits}"`')
        if not is_natural(digits):
            return 0  # already reported; the example is dropped
        return -int(digits) if is_negative else int(digits)

    def _check_level(self, level: int) -> None:
        if level > MAX_LEVELS:
            self.report("too-deep", f"nested more than {MAX_LEVELS} levels deep", self.current_span())
            raise ParseAbandoned

    # The constants of expectations

    def parse_constant(self, level: int) -> syntax.Constant:
        self._check_level(level)
        first, kind = self.index, self.kind
        if kind == "[":
            return self._parse_list_constant(level)
        if kind == "{":
            return self._parse_record_constant(level)
        if kind == TEXT:
            return self.parse_text("a text")
        if kind in ("-", NUMBER):
            self.accept("-")
            if self.kind != NUMBER:
                self.raise_unexpected("a number")
            return self.parse_number(first)
        return self._parse_word_constant(level)

    def _parse_word_constant(self, level: int) -> syntax.Constant:
        first, kind = self.index, self.kind
        if kind in ("true", "false", "none"):
            self.advance()
            span = self.span_from(first)
            return syntax.NoneLiteral(span=span) if kind == "none" else syntax.BoolLiteral(kind == "true", span=span)
        if self.is_at_column():
            return self.parse_column()
        if self.is_word("date") and self.is_next("("):
            return self.parse_date()
        if self.is_word("qty") and self.is_next("("):
            return self.parse_quantity()
        if self.language > 1 and kind == NAME and not self.is_next("("):
            self.advance()
            return syntax.VariableRef(self.texts[first], span=self.span_from(first))
        if not (self.is_word("some") and self.is_next("(")):
            self.raise_unexpected("a literal value", "an expectation compares with a constant, not with an expression")
        self.advance()
        self.advance()
        item = self.parse_constant(level + 1)
        self.expect_closing(")", first + 1)
        return syntax.SomeConstant(item, span=self.span_from(first))

    def _parse_list_constant(self, level: int) -> syntax.ListConstant:
        opening = self.index
        items = self._parse_constants("]", lambda: self.parse_constant(level + 1))
        return syntax.ListConstant(tuple(items), span=self.span_from(opening))

    def _parse_record_constant(self, level: int) -> syntax.RecordConstant:
        opening = self.index
        members = self._parse_constants("}", lambda: self._parse_member_constant(level + 1))
        span = self.span_from(opening)
        if not members:
            self.report("empty-record", "a record needs at least one member", span)
        return syntax.RecordConstant(tuple(members), span=span)

    def _parse_member_constant(self, level: int) -> tuple[syntax.Name, syntax.Constant]:
        name = self.parse_name("a member's name, without quotes")
        self.expect(":", "`:` and the member's value")
        return name, self.parse_constant(level)

    def _parse_constants(self, closing: str, parse_item: Callable[[], T]) -> list[T]:
        opening = self.index
        self.advance()
        items: list[T] = []
        while self.kind != closing:
            items.append(parse_item())
            if not self.accept(","):
                break
        self.expect_closing(closing, opening, "`,` or ")
        return items


class DefinitionParser(ConstantParser):
    """Parses constants and definitions. `defined_name` is the name of the one that is being parsed."""

    defined_name: syntax.Name | None = None

    def is_at_definition_word(self) -> bool:
        return self.kind == NAME and self.texts[self.index] in _DEFINITION_WORDS

    def parse_definition(self) -> syntax.Definition:
        first = self.index
        is_constant = self.is_word("const")
        self.advance()
        what = "constant" if is_constant else "definition"
        self.defined_name = name = self.parse_variable(f"the name of the {what}")
        type_ = None
        if self.accept(":"):
            type_ = self.parse_type()
        self.expect("=", "`=` and an expression" if type_ else "`=` and an expression, or `:` and a type")
        body = self.parse_expr()
        height = self.height
        missing = self._parse_missing(is_constant=is_constant) if self.kind == "else" else None
        self.expect_semicolon(f"the {what}")
        return syntax.Definition(name, type_, body, missing, is_constant, span=self.span_from(first), height=height)

    def parse_function(self) -> syntax.FunctionDefinition:
        """Parse `fn name(a: type, b: type): type = body;`."""
        first = self.index
        self.advance()
        self.defined_name = name = self.parse_variable("the name of the function")
        opening = self.index
        self.expect("(", "`(` and the parameters")
        parameters = []
        while self.kind != ")":
            parameter = self.parse_variable("the name of a parameter")
            self.expect(":", "`:` and the type of the parameter")
            parameters.append((parameter, self.parse_type()))
            if not self.accept(","):
                break
        self.expect_closing(")", opening, "`,` or ")
        self.expect(":", "`:` and the type of the result")
        type_ = self.parse_type()
        self.expect("=", "`=` and an expression")
        body = self.parse_expr()
        height = self.height
        self.expect_semicolon("the function")
        span = self.span_from(first)
        return syntax.FunctionDefinition(name, tuple(parameters), type_, body, span=span, height=height)

    def parse_requirement(self) -> syntax.Requirement:
        """Parse `require CODE "title" when … in force from … to … on …: condition else "message" severity warn;`."""
        first, height = self.index, 0
        self.advance()
        code = self.parse_name("the code of the requirement, such as `DP10`")
        if self.kind != TEXT:
            self.raise_unexpected("the title of the requirement in quotes")
        title = self.parse_primary()
        scope = self._parse_clause("when")
        height = max(height, self.height)
        start = self._parse_period_start()
        end = self._parse_clause("to") if start is not None else None
        day = self._parse_clause("on") if start is not None else None
        if self.is_word("from"):
            self.raise_unexpected("`:` and what is required", "a period is written `in force from …`")
        self.expect(":", "`:` and what is required")
        condition = self.parse_expr()
        height = max(height, self.height)
        message = None
        if self.accept("else"):
            message = self.parse_expr()
            height = max(height, self.height)
        cite = self.parse_cite()
        severity = self._parse_severity() if self.is_word("severity") else None
        layer = self.parse_layer()
        cite = cite or self.parse_cite()
        self.expect_semicolon("the requirement", "an operator, `severity`, `cite`" if cite is None else "`severity`")
        span = self.span_from(first)
        return syntax.Requirement(
            *(code, title, scope, start, end, condition, message, severity, cite),
            day=day,
            layer=layer,
            span=span,
            height=height + 8,
        )

    def parse_layer(self) -> syntax.Name | None:
        """Parse `layer item`, where a rule insists on its layer."""
        if not self.is_word("layer"):
            return None
        self.advance()
        layer = self.parse_name("`model`, `batch` or `item`")
        if layer.text not in _LAYERS:
            self.report("unexpected-token", f"there is no layer `{layer.text}`", layer.span, _LAYER_HELP)
        return layer

    def parse_cite(self) -> syntax.TextLiteral | None:
        if not self.is_word("cite"):
            return None
        self.advance()
        return self.parse_text('the citation in quotes, as in `cite "Article 8(2)"`')

    def _parse_clause(self, word: str) -> syntax.Expr | None:
        if not self.is_word(word):
            return None
        self.advance()
        return self.parse_expr()

    def _parse_period_start(self) -> syntax.Expr | None:
        if not self.is_word("in"):
            return None
        self.advance()
        self.expect_word("force")
        self.expect_word("from")
        return self.parse_expr()

    def _parse_severity(self) -> syntax.Name:
        self.advance()
        severity = self.parse_name("`fail` or `warn`")
        if severity.text not in _SEVERITIES:
            self.report("unexpected-token", f"there is no severity `{severity.text}`", severity.span, _SEVERITY_HELP)
        return severity

    def _parse_missing(self, *, is_constant: bool) -> syntax.MissingClause:
        """Parse `else missing("sentence")` or `else missing("CODE", "sentence")`."""
        first = self.index
        if is_constant:
            message = "a constant is never missing"
            self.report("unexpected-token", message, self.current_span(), "write `def` in place of `const`")
            raise ParseAbandoned
        self.advance()
        if not self.is_word("missing"):
            self.raise_unexpected("`missing`", _MISSING_HELP)
        self.advance()
        opening = self.index
        self.expect("(", help_=_MISSING_HELP)
        code, message_text = None, self.parse_text("a sentence in quotes that says what is missing")
        if self.accept(","):
            code, message_text = message_text, self.parse_text("a sentence in quotes that says what is missing")
        self.expect_closing(")", opening)
        return syntax.MissingClause(code, message_text, span=self.span_from(first))
