"""The canonical layout of types and expressions.

Pure. Parentheses are written where the tree could not be read again without them, and nowhere else. A minus never
stands next to a minus: `--` would start a comment.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from bpc.core.rules.formatting.comments import Comments
from bpc.core.rules.formatting.layout import NO_SPACE, SPACE, Doc, Group, Nest, Row
from bpc.core.rules.syntax import (
    Assert,
    Block,
    Call,
    Chain,
    Comparison,
    Constant,
    Day,
    DecType,
    Expr,
    FieldRef,
    If,
    Lambda,
    Let,
    ListOf,
    ListType,
    MapType,
    Name,
    Nothing,
    Number,
    OptType,
    QtyType,
    Quantity,
    RecordOf,
    RecordType,
    SimpleType,
    Text,
    Truth,
    TypeExpr,
    Unary,
    Variable,
)

T = TypeVar("T")

_LEVELS: Final = {"||": 1, "&&": 2, "+": 4, "-": 4, "*": 5, "/": 5}
_COMPARISON: Final = 3
_UNARY: Final = 6
_OPERAND: Final = 7
_MUST_ESCAPE: Final = re.compile(r'["\\\x00-\x1f]')
_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def quoted(value: str) -> str:
    """A text literal that says `value`."""
    return f'"{_MUST_ESCAPE.sub(_escaped, value)}"'


def _escaped(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04x}"


def number(written: Number) -> str:
    return f"-{written.digits}" if written.negative else written.digits


def level_of(expr: Expr) -> int:
    """How tightly an expression holds together; what has a lower level than its place asks for needs parentheses."""
    if isinstance(expr, (If, Block, Lambda)):
        return 0
    if isinstance(expr, Chain):
        return _LEVELS[expr.links[0].op]
    if isinstance(expr, Comparison):
        return _COMPARISON
    if isinstance(expr, Unary) or (isinstance(expr, Number) and expr.negative):
        return _UNARY
    return _OPERAND


def _starts_with_minus(expr: Expr) -> bool:
    return (isinstance(expr, Number) and expr.negative) or (isinstance(expr, Unary) and expr.op == "-")


def literal(written: Expr | Constant) -> str:
    """What is always written on one line, without comments."""
    match written:
        case Number():
            return number(written)
        case Text(value):
            return quoted(value)
        case Day(text):
            return f"date({quoted(text.value)})"
        case Quantity(amount, unit):
            return f"qty({number(amount)}, {unit.text})"
        case FieldRef(path):
            return f"field({quoted(path.value)})"
        case _:
            return _word(written)


def _word(written: Expr | Constant) -> str:
    match written:
        case Variable(name):
            return name
        case Truth(value):
            return "true" if value else "false"
        case Nothing():
            return "none"
        case _:
            raise TypeError(f"`{type(written).__name__}` is not a single word")


class ExpressionLayout:
    """Lays out types and expressions, and the comments among them, in the order of the text."""

    def __init__(self, comments: Comments) -> None:
        self.comments = comments

    def bracketed(self, opening: str, items: Sequence[T], write: Callable[[T], Doc], closing: str, end: int) -> Doc:
        """Items with commas between them, all on one line or each on its own; the closing bracket ends at `end`."""
        inner: list[Doc] = []
        for index, item in enumerate(items):
            if index:
                inner.append(",")
            inner.append(self.comments.before(_start(item), SPACE if index else NO_SPACE))
            inner.append(write(item))
        remarks = self.comments.closing(end - 1)
        if not inner and not remarks.parts:
            return opening + closing
        return Group(opening, Nest(*inner, remarks), NO_SPACE, closing)

    def member(self, write: Callable[[T], Doc]) -> "Callable[[tuple[Name | Text, T]], Doc]":
        """How a member of a record or of a JSON object is written."""

        def written(member: tuple[Name | Text, T]) -> Doc:
            name, value = member
            return Row((f"{name.text if isinstance(name, Name) else quoted(name.value)}: ", write(value)))

        return written

    def type(self, written: TypeExpr) -> Doc:
        match written:
            case OptType(item):
                return Row(("Opt(", self.type(item), ")"))
            case ListType(item):
                return Row(("List(", self.type(item), ")"))
            case MapType(item):
                return Row(("Map(Text, ", self.type(item), ")"))
            case RecordType(members):
                return self.bracketed("Record(", members, self.member(self.type), ")", written.span.end)
            case _:
                return _plain_type(written)

    def expr(self, expr: Expr) -> Doc:
        match expr:
            case Block():
                return self._block(expr)
            case If():
                return self._if(expr)
            case Chain():
                return self._chain(expr)
            case Comparison():
                return self._comparison(expr)
            case Unary():
                return self._unary(expr)
            case _:
                return self._operand(expr)

    def _operand(self, expr: Expr) -> Doc:
        match expr:
            case Lambda(parameters, body):
                names = ", ".join(parameter.text for parameter in parameters)
                return Row((f"fn({names}) =>", self.value(body)))
            case Call(function, arguments):
                return self.bracketed(f"{function.text}(", arguments, self.expr, ")", expr.span.end)
            case ListOf(items):
                return self.bracketed("[", items, self.expr, "]", expr.span.end)
            case RecordOf(members):
                return self.bracketed("{", members, self.member(self.expr), "}", expr.span.end)
            case _:
                return literal(expr)

    def value(self, expr: Expr) -> Doc:
        """What stands behind a `=`: on its line if it has brackets of its own to break, else perhaps below."""
        if not isinstance(expr, (Call, ListOf, RecordOf)):
            return Group(self.below(expr))
        gap = self.comments.before(expr.span.start, " ")
        return Row((gap, self.expr(expr))) if gap == " " else Nest(gap, self.expr(expr))

    def below(self, expr: Expr) -> Nest:
        """An expression that starts on the next line if need be."""
        return Nest(self.comments.before(expr.span.start, SPACE), self.expr(expr))

    def _parenthesised(self, expr: Expr) -> Doc:
        gap = self.comments.before(expr.span.start, NO_SPACE)
        return Group("(", Nest(gap, self.expr(expr)), NO_SPACE, ")")

    def _at(self, expr: Expr, level: int) -> Doc:
        """An expression where only those of `level` or a higher one stand without parentheses."""
        return self._parenthesised(expr) if level_of(expr) < level else self.expr(expr)

    def _after_minus(self, expr: Expr, level: int) -> Doc:
        """The same behind a minus, where no other minus may come first."""
        if _starts_with_minus(expr):
            return self._parenthesised(expr)
        if isinstance(expr, Chain) and level_of(expr) >= level:
            return self._chain(expr, is_after_minus=True)
        return self._at(expr, level)

    def _chain(self, chain: Chain, *, is_after_minus: bool = False) -> Doc:
        level = level_of(chain) + 1
        first = self._after_minus(chain.first, level) if is_after_minus else self._at(chain.first, level)
        links: list[Doc] = []
        for link in chain.links:
            links += [self.comments.before(link.op_span.start, SPACE), f"{link.op} "]
            links.append(self._after_minus(link.operand, level) if link.op == "-" else self._at(link.operand, level))
        return Group(first, Nest(*links))

    def _comparison(self, comparison: Comparison) -> Doc:
        left = self._at(comparison.left, _COMPARISON + 1)
        gap = self.comments.before(comparison.op_span.start, SPACE)
        return Group(left, Nest(gap, f"{comparison.op} ", self._at(comparison.right, _COMPARISON + 1)))

    def _unary(self, unary: Unary) -> Doc:
        # A minus directly before a number would become part of it.
        if unary.op == "-" and isinstance(unary.operand, Number):
            return Row(("-", self._parenthesised(unary.operand)))
        operand = self._after_minus(unary.operand, _UNARY) if unary.op == "-" else self._at(unary.operand, _UNARY)
        return Row((unary.op, operand))

    def _if(self, whole: If) -> Doc:
        parts: list[Doc] = []
        following = [*(branch.span.start for branch in whole.branches[1:]), whole.otherwise.span.start]
        for index, (branch, next_start) in enumerate(zip(whole.branches, following, strict=True)):
            gap = self.comments.before(branch.condition.span.start, NO_SPACE)
            condition = Nest(gap, self.expr(branch.condition))
            parts.append(Group("else if (" if index else "if (", condition, NO_SPACE, ") then"))
            parts.append(self.below(branch.body))
            else_at = self.comments.place_of("else", branch.body.span.end, next_start)
            parts.append(self.comments.before(else_at, SPACE))
        if not isinstance(whole.otherwise, If):
            return Group(*parts, "else", self.below(whole.otherwise))
        # Without parentheses it would be one more branch of this `if`.
        return Group(*parts, "else ", self._parenthesised(whole.otherwise))

    def _block(self, block: Block) -> Doc:
        parts: list[Doc] = []
        for binding, following in zip(block.bindings, [*block.bindings[1:], block.body], strict=True):
            parts.append(self._let(binding) if isinstance(binding, Let) else self._assert(binding))
            parts.append(self.comments.between(binding.span.end, following.span.start))
        # A block right inside would become a part of this one.
        parts.append(self._parenthesised(block.body) if isinstance(block.body, Block) else self.expr(block.body))
        return Row(parts)

    def _let(self, let: Let) -> Doc:
        return Row((f"let {let.name.text} =", self.value(let.value), ";"))

    def _assert(self, demand: Assert) -> Doc:
        parts: tuple[Expr, ...] = (demand.condition, demand.code, demand.message)
        closing = self.comments.place_of(")", demand.message.span.end, demand.span.end)
        return Row((self.bracketed("assert(", parts, self.expr, ")", closing + 1), ";"))


def _plain_type(written: SimpleType | DecType | QtyType) -> str:
    match written:
        case SimpleType(name):
            return name
        case DecType(scale):
            return f"Dec({scale})"
        case QtyType(unit):
            return f"Qty({unit.text})"


def _start(item: Any) -> int:
    """Where an item starts: a node, or a member, which starts with its name."""
    node = item[0] if isinstance(item, tuple) else item
    return int(node.span.start)
