"""The syntax tree: the result of parsing, before names and types are checked.

Pure values. Trees are compared without their spans. Parentheses are not stored; they only shape the tree. Chains of
operators, `else if` and `let` are flat tuples, so the height of a tree is bounded by the limits of the language and
not by the length of the file.
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from bpc.core.language.source import Span

COMPARATORS: Final = ("==", "!=", "<", "<=", ">", ">=")
COMPARISON_LEVEL: Final = 3
# A higher level binds tighter.
PRECEDENCE: Final = {"||": 1, "&&": 2, **dict.fromkeys(COMPARATORS, 3), "+": 4, "-": 4, "*": 5, "/": 5}
# What a backslash and a letter mean in a text.
ESCAPES: Final = dict(zip('"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True))


@dataclass(frozen=True, slots=True)
class SyntaxNode:
    """What every node has: its place in the text, which does not count when trees are compared."""

    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Name(SyntaxNode):
    """An identifier where it stands: a path segment, member, function, unit or parameter."""

    text: str


# Expressions


@dataclass(frozen=True, slots=True)
class NumberLiteral(SyntaxNode):
    """`digits` as written, without the minus that was directly before it."""

    digits: str
    negative: bool = False


@dataclass(frozen=True, slots=True)
class TextLiteral(SyntaxNode):
    """A text literal, its escapes resolved."""

    value: str


@dataclass(frozen=True, slots=True)
class BoolLiteral(SyntaxNode):
    value: bool


@dataclass(frozen=True, slots=True)
class NoneLiteral(SyntaxNode):
    """`none`"""


@dataclass(frozen=True, slots=True)
class DateLiteral(SyntaxNode):
    """`date("…")`, not yet known to be a day of the calendar."""

    text: TextLiteral


@dataclass(frozen=True, slots=True)
class QuantityLiteral(SyntaxNode):
    """`qty(1.5, kWh)`"""

    number: NumberLiteral
    unit: Name


@dataclass(frozen=True, slots=True)
class FieldRef(SyntaxNode):
    """`field("battery.capacity_kwh")`"""

    path: TextLiteral


@dataclass(frozen=True, slots=True)
class VariableRef(SyntaxNode):
    name: str


@dataclass(frozen=True, slots=True)
class Lambda(SyntaxNode):
    """`fn(x) => body`; only an argument of map, filter and fold may be one."""

    parameters: tuple[Name, ...]
    body: "Expr"


@dataclass(frozen=True, slots=True)
class Call(SyntaxNode):
    function: Name
    arguments: "tuple[Expr | Lambda, ...]"


@dataclass(frozen=True, slots=True)
class ListLiteral(SyntaxNode):
    items: "tuple[Expr, ...]"


@dataclass(frozen=True, slots=True)
class RecordLiteral(SyntaxNode):
    members: "tuple[tuple[Name, Expr], ...]"


@dataclass(frozen=True, slots=True)
class Unary(SyntaxNode):
    """`!x` or `-x` (op `!` or `-`); a minus directly before a number is part of the `NumberLiteral`."""

    op: str
    operand: "Expr"
    op_span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class ChainLink:
    op: str
    operand: "Expr"
    op_span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class OperatorChain(SyntaxNode):
    """Operators of one level, left to right: `||`, or `&&`, or `+ -`, or `* /`. At least one link."""

    first: "Expr"
    links: tuple[ChainLink, ...]


@dataclass(frozen=True, slots=True)
class Comparison(SyntaxNode):
    op: str
    left: "Expr"
    right: "Expr"
    op_span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Branch(SyntaxNode):
    """`if (condition) then body`; `span` reaches from its `if` to the end of the whole chain."""

    condition: "Expr"
    body: "Expr"


@dataclass(frozen=True, slots=True)
class If(SyntaxNode):
    """`if … then … else if … then … else otherwise`. At least one branch."""

    branches: tuple[Branch, ...]
    otherwise: "Expr"


@dataclass(frozen=True, slots=True)
class Let(SyntaxNode):
    name: Name
    value: "Expr"


@dataclass(frozen=True, slots=True)
class Assert(SyntaxNode):
    condition: "Expr"
    code: TextLiteral
    message: TextLiteral


@dataclass(frozen=True, slots=True)
class Block(SyntaxNode):
    """`let`s and `assert`s, then the expression that uses them. At least one binding."""

    bindings: tuple[Let | Assert, ...]
    body: "Expr"


_AnyLiteral: TypeAlias = NumberLiteral | TextLiteral | BoolLiteral | NoneLiteral | DateLiteral | QuantityLiteral
Expr: TypeAlias = (
    _AnyLiteral
    | FieldRef
    | VariableRef
    | Call
    | ListLiteral
    | RecordLiteral
    | Unary
    | OperatorChain
    | Comparison
    | If
    | Block
    | Lambda  # outside arguments only after a reported mistake
)

# Types as written


@dataclass(frozen=True, slots=True)
class SimpleType(SyntaxNode):
    """`Bool`, `Int`, `Text` or `Date`"""

    name: str


@dataclass(frozen=True, slots=True)
class DecType(SyntaxNode):
    scale: int


@dataclass(frozen=True, slots=True)
class QtyType(SyntaxNode):
    unit: Name


@dataclass(frozen=True, slots=True)
class OptType(SyntaxNode):
    item: "TypeExpr"


@dataclass(frozen=True, slots=True)
class ListType(SyntaxNode):
    item: "TypeExpr"


@dataclass(frozen=True, slots=True)
class MapType(SyntaxNode):
    item: "TypeExpr"


@dataclass(frozen=True, slots=True)
class RecordType(SyntaxNode):
    members: "tuple[tuple[Name, TypeExpr], ...]"


TypeExpr: TypeAlias = SimpleType | DecType | QtyType | OptType | ListType | MapType | RecordType

# JSON in fixtures


@dataclass(frozen=True, slots=True)
class JsonAtom(SyntaxNode):
    """A text, an integer, `true`, `false` or `null`."""

    value: str | int | bool | None

    def __eq__(self, other: object) -> bool:  # `1 == True` in Python, not in JSON
        return isinstance(other, JsonAtom) and (type(self.value), self.value) == (type(other.value), other.value)

    def __hash__(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class JsonList(SyntaxNode):
    items: "tuple[JsonValue, ...]"


@dataclass(frozen=True, slots=True)
class JsonObject(SyntaxNode):
    members: "tuple[tuple[TextLiteral, JsonValue], ...]"


JsonValue: TypeAlias = JsonAtom | JsonList | JsonObject

# Rules and tests


@dataclass(frozen=True, slots=True)
class Rule(SyntaxNode):
    """`field path @audience : type = body;`"""

    path: tuple[Name, ...]
    audiences: tuple[Name, ...]
    type: TypeExpr
    body: Expr

    @property
    def dotted(self) -> str:
        return ".".join(name.text for name in self.path)


@dataclass(frozen=True, slots=True)
class ProductFixture(SyntaxNode):
    sku: TextLiteral
    name: TextLiteral


@dataclass(frozen=True, slots=True)
class IssuedFixture(SyntaxNode):
    day: TextLiteral


@dataclass(frozen=True, slots=True)
class FactFixture(SyntaxNode):
    """`fact label("Type", "key") = {…}`, or `= any` (payload None), which is allowed in a property only."""

    label: Name
    fact_type: TextLiteral
    key: TextLiteral
    payload: JsonObject | None


Fixture: TypeAlias = ProductFixture | IssuedFixture | FactFixture


@dataclass(frozen=True, slots=True)
class SomeConstant(SyntaxNode):
    """`some(constant)`"""

    item: "Constant"


@dataclass(frozen=True, slots=True)
class ListConstant(SyntaxNode):
    items: "tuple[Constant, ...]"


@dataclass(frozen=True, slots=True)
class RecordConstant(SyntaxNode):
    members: "tuple[tuple[Name, Constant], ...]"


Constant: TypeAlias = _AnyLiteral | SomeConstant | ListConstant | RecordConstant


@dataclass(frozen=True, slots=True)
class Expectation(SyntaxNode):
    """`expect(path, op constant)`"""

    path: tuple[Name, ...]
    op: str
    constant: Constant

    @property
    def dotted(self) -> str:
        return ".".join(name.text for name in self.path)


@dataclass(frozen=True, slots=True)
class ErrorExpectation(SyntaxNode):
    code: TextLiteral


@dataclass(frozen=True, slots=True)
class Example(SyntaxNode):
    name: Name
    fixtures: tuple[Fixture, ...]
    expectations: tuple[Expectation | ErrorExpectation, ...]


@dataclass(frozen=True, slots=True)
class Claim(SyntaxNode):
    """`forall variable: type . implies(premise, conclusion)`"""

    variable: Name
    type: TypeExpr
    premise: Expr
    conclusion: Expr


@dataclass(frozen=True, slots=True)
class Property(SyntaxNode):
    """`cases` and `seed` as written (`nat`), bounded by the checker."""

    name: Name
    cases: NumberLiteral
    seed: NumberLiteral
    fixtures: tuple[Fixture, ...]
    claims: tuple[Claim, ...]


Item: TypeAlias = Rule | Example | Property


@dataclass(frozen=True, slots=True)
class Comment(SyntaxNode):
    """`-- …` without its line end."""

    text: str


@dataclass(frozen=True, slots=True)
class SyntaxTree:
    """A whole file in its order. Comments are kept beside the tree; only the formatter reads them."""

    items: tuple[Item, ...]
    comments: tuple[Comment, ...] = field(default=(), compare=False)
