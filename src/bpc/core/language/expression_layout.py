"""The layout of types and expressions, with the comments among them."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, assert_never

from bpc.core.language import syntax
from bpc.core.language.layout import NEW_LINE, NO_SPACE, SPACE, Concat, Doc, Group, Nest, PendingComments, flatten

T = TypeVar("T")

_UNARY_LEVEL: Final = 7
_OPERAND_LEVEL: Final = 8
_MUST_ESCAPE: Final = re.compile(r'["\\\x00-\x1f]')
_ESCAPE_OF: Final = {character: f"\\{letter}" for letter, character in syntax.ESCAPES.items()}


def quote_text(value: str) -> str:
    """A text literal that says `value`."""
    return f'"{_MUST_ESCAPE.sub(_escape_character, value)}"'


def _escape_character(character: re.Match[str]) -> str:
    return _ESCAPE_OF.get(character[0]) or f"\\u{ord(character[0]):04x}"


def format_number(node: syntax.NumberLiteral) -> str:
    return f"-{node.digits}" if node.negative else node.digits


def get_level(expr: syntax.Expr) -> int:
    """How tightly an expression holds together; what has a lower level than its place asks for needs parentheses."""
    if isinstance(expr, (syntax.If, syntax.Block, syntax.Lambda)):
        return 0
    if isinstance(expr, syntax.OperatorChain):
        return syntax.PRECEDENCE[expr.links[0].op]
    if isinstance(expr, syntax.Comparison | syntax.Presence):
        return syntax.COMPARISON_LEVEL
    if isinstance(expr, syntax.Unary) or (isinstance(expr, syntax.NumberLiteral) and expr.negative):
        return _UNARY_LEVEL
    return _OPERAND_LEVEL


def _starts_with_minus(expr: syntax.Expr) -> bool:
    return (isinstance(expr, syntax.NumberLiteral) and expr.negative) or (
        isinstance(expr, syntax.Unary) and expr.op == "-"
    )


def format_literal(node: syntax.Expr | syntax.Constant) -> str:  # noqa: PLR0911 - one row a literal
    """What is always written on one line, without comments."""
    match node:
        case syntax.VariableRef(name):
            return name
        case syntax.BoolLiteral(value):
            return "true" if value else "false"
        case syntax.NoneLiteral():
            return "none"
        case syntax.NumberLiteral():
            return format_number(node)
        case syntax.TextLiteral(value):
            return quote_text(value)
        case syntax.DateLiteral(text):
            return f"date({quote_text(text.value)})"
        case syntax.QuantityLiteral(amount, unit):
            return f"qty({format_number(amount)}, {unit.text})"
        case syntax.FieldRef(path):
            return f"field({quote_text(path.value)})"
        case _:
            raise TypeError(f"`{type(node).__name__}` is not a single word")


class ExpressionLayout:
    """Lays out types and expressions, and the comments among them, in the order of the text."""

    def __init__(self, comments: PendingComments, language: int = 1) -> None:
        self.comments = comments
        self.language = language

    def layout_brackets(
        self, opening: str, items: Sequence[T], write: Callable[[T], Doc], closing: str, end: int
    ) -> Doc:
        """Items with commas between them, all on one line or each on its own; the closing bracket ends at `end`."""
        inner: list[Doc] = []
        for index, item in enumerate(items):
            if index:
                inner.append(",")
            inner.append(self.comments.take_before(_get_start(item), SPACE if index else NO_SPACE))
            inner.append(write(item))
        closing_comments = self.comments.take_before_closing(end - 1)
        if not inner and not closing_comments.parts:
            return opening + closing
        return Group(opening, Nest(*inner, closing_comments), NO_SPACE, closing)

    def layout_members(
        self,
        opening: str,
        members: Sequence[tuple[syntax.Name | syntax.TextLiteral, T]],
        write: Callable[[T], Doc],
        closing: str,
        end: int,
    ) -> Doc:
        """The members of a record or of a JSON object in brackets."""

        def layout_member(member: tuple[syntax.Name | syntax.TextLiteral, T]) -> Doc:
            name, value = member
            return Concat((f"{name.text if isinstance(name, syntax.Name) else quote_text(name.value)}: ", write(value)))

        return self.layout_brackets(opening, members, layout_member, closing, end)

    def layout_type(self, node: syntax.TypeExpr) -> Doc:  # noqa: PLR0911 - one row a type
        match node:
            case syntax.SimpleType(name) | syntax.NamedType(name):
                return name
            case syntax.DecType(scale):
                return f"Dec({scale})"
            case syntax.QtyType(unit):
                return f"Qty({unit.text})"
            case syntax.OptType(item):
                return Concat(("Opt(", self.layout_type(item), ")"))
            case syntax.ListType(item):
                return Concat(("List(", self.layout_type(item), ")"))
            case syntax.MapType(item):
                return Concat(("Map(Text, ", self.layout_type(item), ")"))
            case syntax.RecordType(members):
                return self.layout_members("Record(", members, self.layout_type, ")", node.span.end)
            case _:
                assert_never(node)

    def layout_expr(self, expr: syntax.Expr) -> Doc:  # noqa: PLR0911, PLR0912 - one row a node
        match expr:
            case syntax.Block():
                return self._layout_block(expr)
            case syntax.If():
                return self._layout_if(expr)
            case syntax.Match():
                return self._layout_match(expr)
            case syntax.OperatorChain():
                return self._layout_chain(expr)
            case syntax.Comparison():
                return self._layout_comparison(expr)
            case syntax.Unary():
                return self._layout_unary(expr)
            case syntax.Interpolation(parts, names):
                return self._layout_interpolation(parts, names or (None,) * len(parts))
            case syntax.TextLiteral(value) if self.language > 1:
                return quote_text(value).replace("{", "\\{")
            case syntax.Presence(operand, is_present):
                word = "is present" if is_present else "is absent"
                return Concat((self._layout_at_level(operand, syntax.COMPARISON_LEVEL + 1), f" {word}"))
            case syntax.Member(record, member):
                # Without parentheses the member would be one of the key.
                is_query = isinstance(record, syntax.FactQuery)
                holder = (
                    self._layout_parenthesised(record) if is_query else self._layout_at_level(record, _OPERAND_LEVEL)
                )
                return Concat((holder, f".{member.text}"))
            case syntax.Lambda(parameters, body):
                parameter_names = ", ".join(parameter.text for parameter in parameters)
                return Concat((f"fn({parameter_names}) =>", self.layout_value(body)))
            case syntax.FactQuery(fact, key, is_plural):
                gap = self.comments.take_before(key.span.start, " ")
                text = f"all {fact.text} for" if is_plural else f"{fact.text} for"
                return Concat((text, Nest(gap, self._layout_at_level(key, _OPERAND_LEVEL))))
            case syntax.Call(function, arguments):
                return self.layout_brackets(f"{function.text}(", arguments, self.layout_expr, ")", expr.span.end)
            case syntax.ListLiteral(items):
                return self.layout_brackets("[", items, self.layout_expr, "]", expr.span.end)
            case syntax.RecordLiteral(members):
                return self.layout_members("{", members, self.layout_expr, "}", expr.span.end)
            case _:
                return format_literal(expr)

    def layout_value(self, expr: syntax.Expr) -> Doc:
        """What stands behind a `=`: on its line if it has brackets of its own to break, else perhaps below."""
        if not isinstance(expr, (syntax.Call, syntax.ListLiteral, syntax.RecordLiteral, syntax.Match)):
            return Group(self.layout_below(expr))
        gap = self.comments.take_before(expr.span.start, " ")
        return Concat((gap, self.layout_expr(expr))) if gap == " " else Nest(gap, self.layout_expr(expr))

    def layout_below(self, expr: syntax.Expr) -> Nest:
        """An expression that starts on the next line if need be."""
        return Nest(self.comments.take_before(expr.span.start, SPACE), self.layout_expr(expr))

    def _layout_parenthesised(self, expr: syntax.Expr) -> Doc:
        gap = self.comments.take_before(expr.span.start, NO_SPACE)
        return Group("(", Nest(gap, self.layout_expr(expr)), NO_SPACE, ")")

    def _layout_at_level(self, expr: syntax.Expr, level: int, *, is_after_minus: bool = False) -> Doc:
        """An expression in parentheses if it has a lower level, or if a minus would follow a minus."""
        if get_level(expr) < level or (is_after_minus and _starts_with_minus(expr)):
            return self._layout_parenthesised(expr)
        if is_after_minus and isinstance(expr, syntax.OperatorChain):
            return self._layout_chain(expr, is_after_minus=True)
        return self.layout_expr(expr)

    def _layout_chain(self, chain: syntax.OperatorChain, *, is_after_minus: bool = False) -> Doc:
        level = get_level(chain) + 1
        first = self._layout_at_level(chain.first, level, is_after_minus=is_after_minus)
        links: list[Doc] = []
        for link in chain.links:
            links += [self.comments.take_before(link.op_span.start, SPACE), f"{link.op} "]
            links.append(self._layout_at_level(link.operand, level, is_after_minus=link.op == "-"))
        return Group(first, Nest(*links))

    def _layout_comparison(self, comparison: syntax.Comparison) -> Doc:
        left = self._layout_at_level(comparison.left, syntax.COMPARISON_LEVEL + 1)
        gap = self.comments.take_before(comparison.op_span.start, SPACE)
        return Group(
            left, Nest(gap, f"{comparison.op} ", self._layout_at_level(comparison.right, syntax.COMPARISON_LEVEL + 1))
        )

    def _layout_unary(self, unary: syntax.Unary) -> Doc:
        # A minus directly before a number would become part of it.
        if unary.op == "-" and isinstance(unary.operand, syntax.NumberLiteral):
            return Concat(("-", self._layout_parenthesised(unary.operand)))
        operand = self._layout_at_level(unary.operand, _UNARY_LEVEL, is_after_minus=unary.op == "-")
        return Concat((unary.op, operand))

    def _layout_if(self, node: syntax.If) -> Doc:
        parts: list[Doc] = []
        following = [*(branch.span.start for branch in node.branches[1:]), node.otherwise.span.start]
        for index, (branch, next_start) in enumerate(zip(node.branches, following, strict=True)):
            parts.append(self._layout_condition(branch, "else if" if index else "if"))
            parts.append(self.layout_below(branch.body))
            else_at = self.comments.find_word("else", branch.body.span.end, next_start)
            parts.append(self.comments.take_before(else_at, SPACE))
        if not isinstance(node.otherwise, syntax.If):
            return Group(*parts, "else", self.layout_below(node.otherwise))
        # Without parentheses it would be one more branch of this `if`.
        return Group(*parts, "else ", self._layout_parenthesised(node.otherwise))

    def _layout_interpolation(self, parts: Sequence[syntax.Expr], names: Sequence[str | None]) -> str:
        """On one line, however long it is: a text has no line ends."""
        pieces = []
        for part, name in zip(parts, names, strict=True):
            if isinstance(part, syntax.TextLiteral):
                pieces.append(quote_text(part.value)[1:-1].replace("{", "\\{"))
            else:
                head = "" if name is None else f"{name}: "
                pieces.append(f"{{{head}{flatten(self.layout_expr(part))}}}")
        return f'"{"".join(pieces)}"'

    def _layout_condition(self, branch: syntax.Branch, word: str) -> Doc:
        """`if (condition) then`; at level 2 without the parentheses."""
        if self.language == 1:
            gap = self.comments.take_before(branch.condition.span.start, NO_SPACE)
            return Group(f"{word} (", Nest(gap, self.layout_expr(branch.condition)), NO_SPACE, ") then")
        if branch.binding is not None:
            word = f"{word} some {branch.binding.text} ="
        gap = self.comments.take_before(branch.condition.span.start, SPACE)
        return Group(word, Nest(gap, self._layout_at_level(branch.condition, 1)), SPACE, "then")

    def _layout_match(self, node: syntax.Match) -> Doc:
        """Each case on a line of its own."""
        gap = self.comments.take_before(node.subject.span.start, " ")
        head = Concat(("match", gap, self.layout_expr(node.subject), " {"))
        inner: list[Doc] = []
        for index, arm in enumerate(node.arms):
            inner += ["," if index else "", self.comments.take_before(arm.span.start, NEW_LINE)]
            inner += [f"{arm.label} =>", self.layout_value(arm.body)]
        return Concat((head, Nest(*inner, self.comments.take_before_closing(node.span.end - 1)), NEW_LINE, "}"))

    def _layout_block(self, block: syntax.Block) -> Doc:
        parts: list[Doc] = []
        for binding, following in zip(block.bindings, [*block.bindings[1:], block.body], strict=True):
            parts.append(self._layout_let(binding) if isinstance(binding, syntax.Let) else self._layout_assert(binding))
            parts.append(self.comments.take_between(binding.span.end, following.span.start))
        # A block right inside would become a part of this one.
        nested = isinstance(block.body, syntax.Block)
        parts.append(self._layout_parenthesised(block.body) if nested else self.layout_expr(block.body))
        return Concat(parts)

    def _layout_let(self, let: syntax.Let) -> Doc:
        return Concat((f"let {let.name.text} =", self.layout_value(let.value), ";"))

    def _layout_assert(self, node: syntax.Assert) -> Doc:
        parts: tuple[syntax.Expr, ...] = (node.condition, node.code, node.message)
        closing = self.comments.find_word(")", node.message.span.end, node.span.end)
        return Concat((self.layout_brackets("assert(", parts, self.layout_expr, ")", closing + 1), ";"))


def _get_start(item: Any) -> int:
    """Where an item starts: a node, or a member, which starts with its name."""
    node = item[0] if isinstance(item, tuple) else item
    return int(node.span.start)
