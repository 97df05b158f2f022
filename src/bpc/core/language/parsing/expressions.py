"""Parse expressions: operators by precedence, `if`, `let`, `assert`.

Pure. Recursion is bounded by the levels of the language, and trees are at most `MAX_HEIGHT` nodes high, so later passes
can recurse over them. Chains, `else if` and `let` are parsed with loops and may be long.
"""

import re
from copy import copy
from dataclasses import dataclass, field
from typing import Final, NoReturn, Self

from bpc.core.language import syntax
from bpc.core.language.parsing.lexer import END, NAME, NUMBER, Lexer, decode_text
from bpc.core.language.parsing.operands import MAX_HEIGHT, OperandParser
from bpc.core.language.parsing.token_cursor import MAX_LINKS, NestingTooDeep, ParseAbandoned, make_span

_SIGNS: Final = frozenset("-!")
_OPEN_ENDED: Final = frozenset(("if", "let", "assert"))
_COMPARING_WORDS: Final = frozenset(("in", "is"))
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
        if self.kind == ".":
            operand = self.parse_members(first, operand)
        return self._parse_operators(first, operand) if self._get_precedence() else operand

    def _get_precedence(self) -> int:
        """The level of the operator that stands here; 0 if there is none."""
        if self.kind == NAME and self.language > 1:
            is_operator = self.texts[self.index] in _COMPARING_WORDS and not self._is_word_at(self.index + 1, "force")
            return syntax.COMPARISON_LEVEL if is_operator else 0
        return syntax.PRECEDENCE.get(self.kind, 0)

    def _parse_operators(self, first: int, left: syntax.Expr) -> syntax.Expr:
        """Parse the operators after the operand `left`. Open chains are on a stack, the loosest at the bottom."""
        open_chains: list[_OpenChain] = []
        while True:
            level = self._get_precedence()
            while open_chains and open_chains[-1].level > level:
                first = open_chains[-1].start
                left = self._close_chain(open_chains.pop(), left)
            if not level:
                return left
            if self.is_word("is"):
                left = self._parse_presence(first, left, open_chains)
                continue
            if open_chains and open_chains[-1].level == level:
                self._append_link(open_chains[-1], left)
            else:
                open_chains.append(_OpenChain(level, first, left, self.height))
            open_chains[-1].op, open_chains[-1].op_at = self.texts[self.index], self.index
            self.advance()
            first = self.index
            left = self._parse_unary() if self.kind in _SIGNS else self.parse_primary()
            if self.kind == ".":
                left = self.parse_members(first, left)

    def _parse_presence(self, first: int, operand: syntax.Expr, open_chains: list[_OpenChain]) -> syntax.Presence:
        """Parse the `is present` or `is absent` behind an operand."""
        if open_chains and open_chains[-1].level == syntax.COMPARISON_LEVEL:
            self._raise_chained_comparison()
        self.advance()
        is_present = self.is_word("present")
        if not is_present and not self.is_word("absent"):
            self.raise_unexpected("`present` or `absent`")
        self.advance()
        self.record_height(self.height, first)
        return syntax.Presence(operand, is_present, span=self.span_from(first))

    def _raise_chained_comparison(self) -> NoReturn:
        help_ = "write `a < b && b < c`"
        self.report("chained-comparison", "comparisons cannot be chained", self.current_span(), help_)
        raise ParseAbandoned

    def _append_link(self, chain: _OpenChain, operand: syntax.Expr) -> None:
        """Complete the operator before `operand`; another operator of its level follows."""
        if chain.level == syntax.COMPARISON_LEVEL:
            self._raise_chained_comparison()
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
            operand_at = self.index
            operand = self.parse_primary()
            if self.kind == ".":
                operand = self.parse_members(operand_at, operand)
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
        parts: list[tuple[int, syntax.Expr, syntax.Expr, syntax.Name | None]] = []
        height = 0
        while True:
            start = self.index
            self.advance()
            binding = self._parse_some() if self.language > 1 and self.is_word("some") else None
            condition = self._parse_condition()
            height = max(height, self.height)
            self.expect("then", help_=_BRANCHES_HELP if self.kind == "{" else None)
            parts.append((start, condition, self._parse_branch(), binding))
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
        branches = tuple(
            syntax.Branch(test, body, binding, span=make_span((self.starts[at], end)))
            for at, test, body, binding in parts
        )
        return syntax.If(branches, otherwise, span=branches[0].span)

    def _parse_some(self) -> syntax.Name | None:
        """Parse the `some name =` of `if some name = option then …`; a call of `some` is part of a condition."""
        if self.is_next("("):
            return None
        self.advance()
        name = self.parse_variable("a name after `if some`")
        self.expect("=", "`=` and an option, as in `if some mass = battery.mass_kg then …`")
        return name

    def _raise_missing_else(self) -> None:
        if self.kind in (";", END, ")", ",", "]", "}") or self.is_at_item():
            self.raise_unexpected("`else`", "every `if` needs an `else`")
        self.raise_unexpected("an operator or `else`")

    def _parse_condition(self) -> syntax.Expr:
        if self.language > 1:
            return self._parse_operation()
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

    # What level 2 adds to operands

    def is_at_fact_query(self) -> bool:
        if self._is_word_at(self.index + 1, "for"):
            return True
        is_plural = self.texts[self.index] == "all" and self.kinds[self.index + 1] == NAME
        return is_plural and self._is_word_at(self.index + 2, "for")

    def _is_word_at(self, index: int, text: str) -> bool:
        return self.kinds[index] == NAME and self.texts[index] == text

    def parse_fact_query(self) -> syntax.FactQuery:
        first = self.index
        is_plural = not self._is_word_at(first + 1, "for")
        if is_plural:
            self.advance()
        fact = self.parse_name("a fact type")
        self.advance()
        self.enter_level()
        key_at = self.index
        key = self.parse_primary()
        key = self.parse_members(key_at, key) if self.kind == "." else key
        self.level -= 1
        self.record_height(self.height, first)
        return syntax.FactQuery(fact, key, is_plural, span=self.span_from(first))

    def parse_interpolation(self) -> syntax.Expr:
        """Parse a text with expressions in braces: `"{mass} kg are stated"`."""
        first, start, lexeme = self.index, self.starts[self.index], self.texts[self.index]
        parts: list[syntax.Expr] = []
        names: list[str | None] = []
        height, at = 0, 1
        self.enter_level()
        while at < len(lexeme) - 1:
            end = _find_piece_end(lexeme, at)
            if lexeme[at] != "{":
                span = make_span((start + at, start + end))
                parts.append(syntax.TextLiteral(decode_text(f'"{lexeme[at:end]}"'), span=span))
                names.append(None)
            else:
                name = _PIECE_NAME.match(lexeme, at, end)
                parts.append(self._parse_piece(start + (name.end() - 1 if name else at), start + end))
                names.append(name["name"] if name else None)
                height = max(height, self.height)
            at = end
        self.level -= 1
        self.advance()
        if not any(not isinstance(part, syntax.TextLiteral) for part in parts):  # only escaped braces
            self.height = 1
            return syntax.TextLiteral(decode_text(lexeme), span=self.span_from(first))
        self.record_height(height, first)
        own_names = tuple(names) if any(names) else ()
        return syntax.Interpolation(tuple(parts), own_names, span=self.span_from(first))

    def _parse_piece(self, start: int, end: int) -> syntax.Expr:
        """Parse the expression in the braces from `start` to `end`."""
        text = self.source.text
        if text[end - 1] != "}":
            help_ = "an expression in a text cannot contain a text: give it a name first; a brace is written `\\{`"
            self.report("unclosed-expression", "the expression in the text has no `}`", make_span((start, end)), help_)
            raise ParseAbandoned
        if not text[start + 1 : end - 1].strip():
            help_ = "write an expression in the braces, or `\\{` for a brace"
            self.report("unclosed-expression", "there is no expression in the braces", make_span((start, end)), help_)
            raise ParseAbandoned
        inner = self._open_inner(start + 1, end - 1)
        try:
            expr = inner.parse_expr()
            if inner.kind != END:
                inner.raise_unexpected("an operator or `}`")
        finally:
            self.mistake_count, self.height = inner.mistake_count, inner.height
        return expr

    def _open_inner(self, start: int, end: int) -> Self:
        """A cursor over a part of the text, which reports its mistakes here."""
        inner = copy(self)
        inner._lexer = Lexer(self.source.text[start:end], self.report_lexer_error, self.language, offset=start)
        inner.kinds, inner.texts, inner.starts = inner._lexer.kinds, inner._lexer.texts, inner._lexer.starts
        inner._last_safe_index = -1
        inner.start()
        for at, text in inner.comments:
            message = "an expression in a text cannot contain a comment"
            self.report("unexpected-token", message, make_span((at, at + len(text))))
        return inner


# The name of a piece, with the brace before it and the colon after it.
_PIECE_NAME: Final = re.compile(r"\{[ \t]*(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*:")


def _find_piece_end(lexeme: str, at: int) -> int:
    """Where the piece of a text that begins at `at` ends: a text up to a brace, or an expression with its braces."""
    depth, is_expression = 0, lexeme[at] == "{"
    while at < len(lexeme) - 1:
        if lexeme[at] == "\\":
            at += 1
        elif lexeme[at] == "{":
            if not is_expression:
                return at
            depth += 1
        elif lexeme[at] == "}" and is_expression:
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return len(lexeme) - 1
