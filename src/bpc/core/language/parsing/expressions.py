"""Parse expressions (operators by precedence, `if`, `let`, `assert`), and the JSON and constants of tests.

Pure. Recursion is bounded by the levels of the language, and trees are at most `MAX_HEIGHT` nodes high, so later passes
can recurse over them. Chains, `else if` and `let` are parsed with loops and may be long.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from bpc.core.language import syntax
from bpc.core.language.parsing.lexer import END, NUMBER, TEXT, is_natural
from bpc.core.language.parsing.operands import MAX_HEIGHT, OperandParser, T
from bpc.core.language.parsing.token_cursor import MAX_LEVELS, MAX_LINKS, NestingTooDeep, ParseAbandoned, make_span

_JSON_WORDS: Final = {"true": True, "false": False, "null": None}
_SIGNS: Final = frozenset("-!")
_OPEN_ENDED: Final = frozenset(("if", "let", "assert"))
_BRANCHES_HELP: Final = "branches have no braces: `if (condition) then … else …`"


@dataclass(slots=True, eq=False)
class _OpenChain:
    """Operators of one level whose last operand is not parsed yet."""

    level: int
    start: int
    first: syntax.Expr
    height: int
    links: list[syntax.ChainLink] = field(default_factory=list)
    op: str = ""
    op_at: int = 0


class ExpressionParser(OperandParser):
    """Parses expressions."""

    def parse_expr(self) -> syntax.Expr:
        if self.kind not in _OPEN_ENDED:
            return self._parse_operation()
        return self._parse_if() if self.kind == "if" else self._parse_block()

    # Operators

    def _parse_operation(self) -> syntax.Expr:
        first = self.index
        operand = self._parse_unary() if self.kind in _SIGNS else self.parse_primary()
        return self._parse_operators(first, operand) if self.kind in syntax.PRECEDENCE else operand

    def _parse_operators(self, first: int, left: syntax.Expr) -> syntax.Expr:
        """Parse the operators after the operand `left`. Open chains are on a stack, the loosest at the bottom."""
        open_chains: list[_OpenChain] = []
        while True:
            level = syntax.PRECEDENCE.get(self.kind, 0)
            while open_chains and open_chains[-1].level > level:
                first = open_chains[-1].start
                left = self._close_chain(open_chains.pop(), left)
            if not level:
                return left
            if open_chains and open_chains[-1].level == level:
                self._append_link(open_chains[-1], left)
            else:
                open_chains.append(_OpenChain(level, first, left, self.height))
            open_chains[-1].op, open_chains[-1].op_at = self.kind, self.index
            self.advance()
            first = self.index
            left = self._parse_unary() if self.kind in _SIGNS else self.parse_primary()

    def _append_link(self, chain: _OpenChain, operand: syntax.Expr) -> None:
        """Complete the operator before `operand`; another operator of its level follows."""
        if chain.level == syntax.COMPARISON_LEVEL:
            help_ = "write `a < b && b < c`"
            self.report("chained-comparison", "comparisons cannot be chained", self.current_span(), help_)
            raise ParseAbandoned
        if len(chain.links) + 2 > MAX_LINKS:
            message = f"a chain has at most {MAX_LINKS} operators"
            self.report("chain-too-long", message, self.current_span(), "put a part of it in parentheses")
            raise ParseAbandoned
        chain.links.append(syntax.ChainLink(chain.op, operand, op_span=self.span_at(chain.op_at)))
        chain.height = max(chain.height, self.height)

    def _close_chain(self, chain: _OpenChain, right: syntax.Expr) -> syntax.Expr:
        height = max(chain.height, self.height)
        op_span, span = self.span_at(chain.op_at), self.span_from(chain.start)
        self.record_height(height, chain.start)
        if chain.level == syntax.COMPARISON_LEVEL:
            return syntax.Comparison(chain.op, chain.first, right, op_span=op_span, span=span)
        chain.links.append(syntax.ChainLink(chain.op, right, op_span=op_span))
        return syntax.OperatorChain(chain.first, tuple(chain.links), span=span)

    def _parse_unary(self) -> syntax.Expr:
        level = self.level
        signs = self._parse_signs()
        if self.kind == NUMBER and self.kinds[self.index - 1] == "-":
            operand: syntax.Expr = self.parse_number(signs.pop())
        else:
            operand = self.parse_primary()
        self.level = level
        for sign in reversed(signs):
            self.record_height(self.height, sign)
            operand = syntax.Unary(self.texts[sign], operand, op_span=self.span_at(sign), span=self.span_from(sign))
        return operand

    def _parse_signs(self) -> list[int]:
        """Parse the signs before an operand. A minus after a minus is a level: the formatter adds parentheses."""
        signs: list[int] = []
        while self.kind in _SIGNS:
            if len(signs) >= MAX_HEIGHT:
                self.record_height(MAX_HEIGHT, signs[0])
            if self.kind == "-" and self.index and self.kinds[self.index - 1] == "-":
                self.enter_level()
            signs.append(self.index)
            self.advance()
        return signs

    # `if`, `let` and `assert`

    def _parse_if(self) -> syntax.If:
        first = self.index
        parts: list[tuple[int, syntax.Expr, syntax.Expr]] = []
        height = 0
        while True:
            start = self.index
            self.advance()
            condition = self._parse_condition()
            height = max(height, self.height)
            self.expect("then", help_=_BRANCHES_HELP if self.kind == "{" else None)
            parts.append((start, condition, self._parse_branch()))
            height = max(height, self.height)
            if self.kind != "else":
                self._raise_missing_else()
            self.advance()
            if self.kind != "if":
                break
            if len(parts) > MAX_LINKS:
                message = f"a chain has at most {MAX_LINKS} `else if`"
                self.report("chain-too-long", message, self.current_span(), "put the rest of it in parentheses")
                raise ParseAbandoned
        otherwise = self._parse_branch()
        self.record_height(max(height, self.height), first)
        end = self.previous_end()
        branches = tuple(syntax.Branch(test, body, span=make_span((self.starts[at], end))) for at, test, body in parts)
        return syntax.If(branches, otherwise, span=branches[0].span)

    def _raise_missing_else(self) -> None:
        if self.kind in (";", END, ")", ",", "]", "}") or self.is_at_item():
            self.raise_unexpected("`else`", "every `if` needs an `else`")
        self.raise_unexpected("an operator or `else`")

    def _parse_condition(self) -> syntax.Expr:
        opening, help_ = self.index, "put the whole condition in parentheses"
        if self.kind != "(":
            message = "the condition of `if` needs parentheses"
            self.report("condition-needs-parentheses", message, self.current_span(), help_)
            return self._parse_operation()
        condition = self.parse_parenthesis()
        if self.kind in syntax.PRECEDENCE:
            message = "the condition of an `if` ends at its closing parenthesis"
            self.report("condition-needs-parentheses", message, self.current_span(), help_)
            return self._parse_operators(opening, condition)
        return condition

    def _parse_branch(self) -> syntax.Expr:
        """Parse a branch or the value of a `let`: only an `if`, `let` or `assert` in it is one level deeper."""
        if self.kind not in _OPEN_ENDED:
            return self._parse_operation()
        self.enter_level()
        expr = self.parse_expr()
        self.level -= 1
        return expr

    def _parse_block(self) -> syntax.Block:
        first = self.index
        bindings: list[syntax.Let | syntax.Assert] = []
        height = 0
        while self.kind in ("let", "assert"):
            level, lambdas = self.level, self.lambdas
            try:
                bindings.append(self._parse_let() if self.kind == "let" else self._parse_assert())
                height = max(height, self.height)
            except NestingTooDeep:
                raise
            except ParseAbandoned:
                self.level, self.lambdas = level, lambdas
                self._skip_binding()
        body = self._parse_if() if self.kind == "if" else self._parse_operation()
        self.record_height(max(height, self.height), first)
        return syntax.Block(tuple(bindings), body, span=self.span_from(first))

    def _skip_binding(self) -> None:
        """After a mistake in a `let`, continue after its `;`. Brackets that are still open may end first."""
        if self.kind in ("let", "assert"):
            return
        until = ("let", "assert", ")", "]", "}") if self.level else ("let", "assert")
        if not self.skip_statement(*until) or self.kind in (")", "]", "}", END) or self.is_at_item():
            raise ParseAbandoned

    def _parse_let(self) -> syntax.Let:
        first = self.index
        self.advance()
        name = self.parse_variable("a name after `let`")
        self.expect("=", "`=` and the value")
        value = self._parse_branch()
        self._end_binding("the value of the `let`")
        return syntax.Let(name, value, span=self.span_from(first))

    def _parse_assert(self) -> syntax.Assert:
        first, level = self.index, self.level
        self.advance()
        opening = self.index
        self.expect("(", help_='it is written `assert(condition, "CODE", "message")`')
        self.enter_level()
        condition = self.parse_expr()
        self.level = level
        self.expect(",", '`,` and a code, as in `assert(condition, "CODE", "message")`')
        code = self.parse_text('a code in quotes, as in `assert(condition, "CODE", "message")`')
        self.expect(",", '`,` and a message, as in `assert(condition, "CODE", "message")`')
        message = self.parse_text('a message in quotes, as in `assert(condition, "CODE", "message")`')
        self.expect_closing(")", opening)
        self._end_binding("the `assert`")
        return syntax.Assert(condition, code, message, span=self.span_from(first))

    def _end_binding(self, what: str) -> None:
        self.expect_semicolon(what)
        if self.kind == END or self.is_at_item():
            self.raise_unexpected("an expression after the `let` or `assert`")


class ConstantParser(ExpressionParser):
    """Parses what tests contain in place of expressions: the JSON of facts, and constants."""

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

    def _parse_json_atom(self) -> syntax.JsonAtom:
        first, text = self.index, self.texts[self.index]
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
        if self.is_word("date") and self.is_next("("):
            return self.parse_date()
        if self.is_word("qty") and self.is_next("("):
            return self.parse_quantity()
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
