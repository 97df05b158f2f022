"""Expressions, types as they are written, and what every node of the tree has."""

from dataclasses import field
from typing import Final, TypeAlias

from bpc.core.language.source import Span
from bpc.core.language.tree_nodes import tree_node

COMPARATORS: Final = ("==", "!=", "<", "<=", ">", ">=")
COMPARISON_LEVEL: Final = 3
# A higher level binds tighter. The words `in` and `is` of level 2 bind like comparators.
PRECEDENCE: Final = {"||": 1, "&&": 2, **dict.fromkeys(COMPARATORS, 3), "??": 4, "+": 5, "-": 5, "*": 6, "/": 6}
# What a backslash and a letter mean in a text.
ESCAPES: Final = dict(zip('"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True))


@tree_node(frozen=True, slots=True)
class SyntaxNode:
    """What every node has: its place in the text, which does not count when trees are compared."""

    span: Span = field(compare=False, kw_only=True)


@tree_node(frozen=True, slots=True)
class Name(SyntaxNode):
    """An identifier where it stands: a path segment, member, function, unit or parameter."""

    text: str


@tree_node(frozen=True, slots=True)
class NumberLiteral(SyntaxNode):
    """`digits` as written, without the minus that was directly before it."""

    digits: str
    negative: bool = False


@tree_node(frozen=True, slots=True)
class TextLiteral(SyntaxNode):
    """A text literal, its escapes resolved."""

    value: str


@tree_node(frozen=True, slots=True)
class Interpolation(SyntaxNode):
    """`"{mass} kg are stated"`: texts, and expressions that are written as texts. At least one is an expression.

    `{stated: mass}` names a part, for the arguments of a requirement; `names` is empty if no part has a name.
    """

    parts: "tuple[Expr, ...]"
    names: tuple[str | None, ...] = ()


@tree_node(frozen=True, slots=True)
class BoolLiteral(SyntaxNode):
    value: bool


@tree_node(frozen=True, slots=True)
class NoneLiteral(SyntaxNode):
    """`none`"""


@tree_node(frozen=True, slots=True)
class DateLiteral(SyntaxNode):
    """`date("…")`, not yet known to be a day of the calendar."""

    text: TextLiteral


@tree_node(frozen=True, slots=True)
class QuantityLiteral(SyntaxNode):
    """`qty(1.5, kWh)`"""

    number: NumberLiteral
    unit: Name


@tree_node(frozen=True, slots=True)
class FieldRef(SyntaxNode):
    """`field("battery.capacity_kwh")`"""

    path: TextLiteral


@tree_node(frozen=True, slots=True)
class FactQuery(SyntaxNode):
    """`Battery for key`, or `all Component for key` (`is_plural`)"""

    fact: Name
    key: "Expr"
    is_plural: bool


@tree_node(frozen=True, slots=True)
class VariableRef(SyntaxNode):
    name: str


@tree_node(frozen=True, slots=True)
class Lambda(SyntaxNode):
    """`fn(x) => body`; only an argument of map, filter and fold may be one."""

    parameters: tuple[Name, ...]
    body: "Expr"


@tree_node(frozen=True, slots=True)
class Call(SyntaxNode):
    function: Name
    arguments: "tuple[Expr | Lambda, ...]"


@tree_node(frozen=True, slots=True)
class Member(SyntaxNode):
    """`record.member`"""

    record: "Expr"
    member: Name


@tree_node(frozen=True, slots=True)
class ListLiteral(SyntaxNode):
    items: "tuple[Expr, ...]"


@tree_node(frozen=True, slots=True)
class RecordLiteral(SyntaxNode):
    members: "tuple[tuple[Name, Expr], ...]"


@tree_node(frozen=True, slots=True)
class Unary(SyntaxNode):
    """`!x` or `-x` (op `!` or `-`); a minus directly before a number is part of the `NumberLiteral`."""

    op: str
    operand: "Expr"
    op_span: Span = field(compare=False, kw_only=True)


@tree_node(frozen=True, slots=True)
class ChainLink:
    op: str
    operand: "Expr"
    op_span: Span = field(compare=False, kw_only=True)


@tree_node(frozen=True, slots=True)
class OperatorChain(SyntaxNode):
    """Operators of one level, left to right: `||`, `&&`, `??`, `+ -`, or `* /`. At least one link."""

    first: "Expr"
    links: tuple[ChainLink, ...]


@tree_node(frozen=True, slots=True)
class Comparison(SyntaxNode):
    """Two sides and a comparator or `in`."""

    op: str
    left: "Expr"
    right: "Expr"
    op_span: Span = field(compare=False, kw_only=True)


@tree_node(frozen=True, slots=True)
class Presence(SyntaxNode):
    """`x is present` or `x is absent`"""

    operand: "Expr"
    is_present: bool


@tree_node(frozen=True, slots=True)
class Branch(SyntaxNode):
    """`if (condition) then body`; `span` reaches from its `if` to the end of the whole chain.

    Of `if some name = option then body` the condition is the option, and `binding` the name.
    """

    condition: "Expr"
    body: "Expr"
    binding: Name | None = None


@tree_node(frozen=True, slots=True)
class If(SyntaxNode):
    """`if … then … else if … then … else otherwise`. At least one branch."""

    branches: tuple[Branch, ...]
    otherwise: "Expr"


@tree_node(frozen=True, slots=True)
class MatchArm(SyntaxNode):
    """`EV | LMT => body`. The patterns are members, `none`, or `else` alone."""

    patterns: tuple[Name, ...]
    body: "Expr"

    @property
    def label(self) -> str:
        """The patterns as the formatter, coverage and proofs write them."""
        return " | ".join(pattern.text for pattern in self.patterns)


@tree_node(frozen=True, slots=True)
class Match(SyntaxNode):
    """`match subject { EV => …, else => … }`"""

    subject: "Expr"
    arms: tuple[MatchArm, ...]


@tree_node(frozen=True, slots=True)
class Let(SyntaxNode):
    name: Name
    value: "Expr"


@tree_node(frozen=True, slots=True)
class Assert(SyntaxNode):
    condition: "Expr"
    code: TextLiteral
    message: TextLiteral


@tree_node(frozen=True, slots=True)
class Block(SyntaxNode):
    """`let`s and `assert`s, then the expression that uses them. At least one binding."""

    bindings: tuple[Let | Assert, ...]
    body: "Expr"


AnyLiteral: TypeAlias = NumberLiteral | TextLiteral | BoolLiteral | NoneLiteral | DateLiteral | QuantityLiteral
Expr: TypeAlias = (
    AnyLiteral
    | Interpolation
    | FieldRef
    | FactQuery
    | VariableRef
    | Call
    | Member
    | ListLiteral
    | RecordLiteral
    | Unary
    | OperatorChain
    | Comparison
    | Presence
    | If
    | Match
    | Block
    | Lambda  # outside arguments only after a reported mistake
)

# Types as written


@tree_node(frozen=True, slots=True)
class SimpleType(SyntaxNode):
    """`Bool`, `Int`, `Text` or `Date`"""

    name: str


@tree_node(frozen=True, slots=True)
class DecType(SyntaxNode):
    scale: int


@tree_node(frozen=True, slots=True)
class QtyType(SyntaxNode):
    unit: Name


@tree_node(frozen=True, slots=True)
class OptType(SyntaxNode):
    item: "TypeExpr"


@tree_node(frozen=True, slots=True)
class ListType(SyntaxNode):
    item: "TypeExpr"


@tree_node(frozen=True, slots=True)
class MapType(SyntaxNode):
    item: "TypeExpr"


@tree_node(frozen=True, slots=True)
class RecordType(SyntaxNode):
    members: "tuple[tuple[Name, TypeExpr], ...]"


@tree_node(frozen=True, slots=True)
class NamedType(SyntaxNode):
    """The name of an enumeration, not yet known to be declared."""

    name: str


TypeExpr: TypeAlias = SimpleType | NamedType | DecType | QtyType | OptType | ListType | MapType | RecordType
