"""Parsing of expressions: operators by precedence, `if`, `let`, `assert`.

Pure. Recursion is bounded by the levels of the language, and the trees made are at most `MAX_HEIGHT` nodes high, so
that every later pass may recurse over them. Chains, `else if` and `let` are read with loops and may be long.
"""

from typing import Final

from bpc.core.rules.parsing.cursor import MAX_LINKS, Abandoned, TooDeep, span_of
from bpc.core.rules.parsing.lex import END, NUMBER
from bpc.core.rules.parsing.operands import MAX_HEIGHT, OperandParser
from bpc.core.rules.syntax import Assert, Block, Branch, Chain, Comparison, Expr, If, Let, Link, Nothing, Unary

_COMPARISON: Final = 3
_LEVELS: Final = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), _COMPARISON),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/"), 5),
}
_SIGNS: Final = frozenset("-!")
_REACHING_RIGHT: Final = frozenset(("if", "let", "assert"))
_BRANCHES: Final = "branches have no braces: `if (condition) then … else …`"


class _Open:
    """Operators of one level whose last operand is still being read."""

    __slots__ = ("first", "height", "level", "links", "op", "op_at", "start")

    def __init__(self, level: int, start: int, first: Expr, height: int) -> None:
        self.level = level
        self.start = start
        self.first = first
        self.height = height
        self.links: list[Link] = []
        self.op = ""
        self.op_at = 0


class ExpressionParser(OperandParser):
    """A cursor that reads expressions."""

    def expr(self) -> Expr:
        if self.kind not in _REACHING_RIGHT:
            return self._operation()
        return self._conditional() if self.kind == "if" else self._block()

    # Operators

    def _operation(self) -> Expr:
        first = self.at
        operand = self._unary() if self.kind in _SIGNS else self.primary()
        return self._operators(first, operand) if self.kind in _LEVELS else operand

    def _operators(self, first: int, left: Expr) -> Expr:
        """What follows the operand `left`. Open chains lie on a stack, the loosest at the bottom."""
        opened: list[_Open] = []
        while True:
            level = _LEVELS.get(self.kind, 0)
            while opened and opened[-1].level > level:
                first = opened[-1].start
                left = self._closed(opened.pop(), left)
            if not level:
                return left
            if opened and opened[-1].level == level:
                self._link(opened[-1], left)
            else:
                opened.append(_Open(level, first, left, self.height))
            opened[-1].op, opened[-1].op_at = self.kind, self.at
            self.advance()
            first = self.at
            left = self._unary() if self.kind in _SIGNS else self.primary()

    def _link(self, chain: _Open, operand: Expr) -> None:
        """The operator before `operand` is complete, and another of its level follows."""
        if chain.level == _COMPARISON:
            help_ = "write `a < b && b < c`"
            self.report("chained-comparison", "comparisons do not chain", self.token_span(), help_)
            raise Abandoned
        if len(chain.links) + 2 > MAX_LINKS:
            says = f"a chain has at most {MAX_LINKS} operators"
            self.report("chain-too-long", says, self.token_span(), "put a part of it in parentheses")
            raise Abandoned
        chain.links.append(Link(chain.op, operand, op_span=self.word_span(chain.op_at)))
        chain.height = max(chain.height, self.height)

    def _closed(self, chain: _Open, right: Expr) -> Expr:
        height = max(chain.height, self.height)
        op_span, span = self.word_span(chain.op_at), self.span_from(chain.start)
        self.grown(height, chain.start)
        if chain.level == _COMPARISON:
            return Comparison(chain.op, chain.first, right, op_span=op_span, span=span)
        chain.links.append(Link(chain.op, right, op_span=op_span))
        return Chain(chain.first, tuple(chain.links), span=span)

    def _unary(self) -> Expr:
        level = self.level
        signs = self._signs()
        if self.kind == NUMBER and self.kinds[self.at - 1] == "-":
            operand: Expr = self.number(signs.pop())
        else:
            operand = self.primary()
        self.level = level
        for sign in reversed(signs):
            self.grown(self.height, sign)
            operand = Unary(self.texts[sign], operand, op_span=self.word_span(sign), span=self.span_from(sign))
        return operand

    def _signs(self) -> list[int]:
        """The signs before an operand. A minus behind a minus is a level: canonically it stands in parentheses."""
        signs: list[int] = []
        while self.kind in _SIGNS:
            if len(signs) >= MAX_HEIGHT:
                self.grown(MAX_HEIGHT, signs[0])
            if self.kind == "-" and self.at and self.kinds[self.at - 1] == "-":
                self.deeper()
            signs.append(self.at)
            self.advance()
        return signs

    # Conditions, names and demands

    def _conditional(self) -> If:
        first = self.at
        parts: list[tuple[int, Expr, Expr]] = []
        height = 0
        while True:
            start = self.at
            self.advance()
            condition = self._condition()
            height = max(height, self.height)
            self.expect("then", help_=_BRANCHES if self.kind == "{" else None)
            parts.append((start, condition, self._branch()))
            height = max(height, self.height)
            if self.kind != "else":
                self._missing_else()
            self.advance()
            if self.kind != "if":
                break
            if len(parts) > MAX_LINKS:
                says = f"a chain has at most {MAX_LINKS} `else if`"
                self.report("chain-too-long", says, self.token_span(), "put the rest of it in parentheses")
                raise Abandoned
        otherwise = self._branch()
        self.grown(max(height, self.height), first)
        end = self.end()
        branches = tuple(Branch(test, body, span=span_of((self.starts[at], end))) for at, test, body in parts)
        return If(branches, otherwise, span=branches[0].span)

    def _missing_else(self) -> None:
        if self.kind in (";", END, ")", ",", "]", "}") or self.is_at_item():
            self.unexpected("`else`", "an `if` always says what holds otherwise")
        self.unexpected("an operator or `else`")

    def _condition(self) -> Expr:
        opening, level, lambdas = self.at, self.level, self.lambdas
        if self.kind != "(":
            help_ = "put the whole condition in parentheses"
            self.report("condition-needs-parentheses", "`if` needs parentheses", self.token_span(), help_)
            return self._operation()
        self.deeper()
        try:
            self.advance()
            condition = self.expr()
            self.expect_closing(")", opening, "an operator or ")
        except Abandoned:
            self.recover(")", level, lambdas)
            condition = Nothing(span=self.span_from(opening))
        self.level = level
        if self.kind in _LEVELS:
            says = "the condition of an `if` ends at its closing parenthesis"
            help_ = "put the whole condition in parentheses"
            self.report("condition-needs-parentheses", says, self.token_span(), help_)
            return self._operators(opening, condition)
        return condition

    def _branch(self) -> Expr:
        """A branch, or the value of a `let`: only an `if`, `let` or `assert` in it is one level deeper."""
        if self.kind not in _REACHING_RIGHT:
            return self._operation()
        self.deeper()
        made = self.expr()
        self.level -= 1
        return made

    def _block(self) -> Block:
        first = self.at
        bindings: list[Let | Assert] = []
        height = 0
        while self.kind in ("let", "assert"):
            level, lambdas = self.level, self.lambdas
            try:
                bindings.append(self._let() if self.kind == "let" else self._assert())
                height = max(height, self.height)
            except TooDeep:
                raise
            except Abandoned:
                self.level, self.lambdas = level, lambdas
                self._skip_binding()
        body = self._conditional() if self.kind == "if" else self._operation()
        self.grown(max(height, self.height), first)
        return Block(tuple(bindings), body, span=self.span_from(first))

    def _skip_binding(self) -> None:
        """After a mistake in a `let` go on behind its `;`. Where brackets are open, they may end first."""
        if self.kind in ("let", "assert"):
            return
        until = ("let", "assert", ")", "]", "}") if self.level else ("let", "assert")
        if not self.skip_statement(*until) or self.kind in (")", "]", "}", END) or self.is_at_item():
            raise Abandoned

    def _let(self) -> Let:
        first = self.at
        self.advance()
        name = self.variable("a name after `let`")
        self.expect("=", "`=` and the value")
        value = self._branch()
        self._binding_end("the value of the `let`")
        return Let(name, value, span=self.span_from(first))

    def _assert(self) -> Assert:
        first, level = self.at, self.level
        self.advance()
        opening = self.at
        self.expect("(", help_='it is written `assert(condition, "CODE", "message")`')
        self.deeper()
        condition = self.expr()
        self.level = level
        self.expect(",", '`,` and a code, as in `assert(condition, "CODE", "message")`')
        code = self.text('a code in quotes, as in `assert(condition, "CODE", "message")`')
        self.expect(",", '`,` and a message, as in `assert(condition, "CODE", "message")`')
        message = self.text('a message in quotes, as in `assert(condition, "CODE", "message")`')
        self.expect_closing(")", opening)
        self._binding_end("the `assert`")
        return Assert(condition, code, message, span=self.span_from(first))

    def _binding_end(self, what: str) -> None:
        self.semicolon(what)
        if self.kind == END or self.is_at_item():
            self.unexpected("what the `let` is for")
