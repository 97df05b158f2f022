"""The syntax tree: what parsing makes of a text, before anything is known about its meaning.

Pure values. Two trees are equal if they say the same: spans do not count. Parentheses leave no trace but the shape of
the tree. What may be long is flat (chains of operators, `else if`, `let`), so that a tree's height is bounded by
the limits of the language and not by the length of the file.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from bpc.core.rules.source import Span


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier where it stands: a path segment, member, function, unit or parameter."""

    text: str
    span: Span = field(compare=False, kw_only=True)


# Expressions


@dataclass(frozen=True, slots=True)
class Number:
    """`digits` as written, without the minus that was directly before it."""

    digits: str
    negative: bool = False
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Text:
    """A text literal, its escapes resolved."""

    value: str
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Truth:
    value: bool
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Nothing:
    """`none`"""

    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Day:
    """`date("…")`, not yet known to be a day of the calendar."""

    text: Text
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Quantity:
    """`qty(1.5, kWh)`"""

    number: Number
    unit: Name
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class FieldRef:
    """`field("battery.capacity_kwh")`"""

    path: Text
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Lambda:
    """`fn(x) => body`; only an argument of map, filter and fold may be one."""

    parameters: tuple[Name, ...]
    body: "Expr"
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Call:
    function: Name
    arguments: "tuple[Expr | Lambda, ...]"
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class ListOf:
    items: "tuple[Expr, ...]"
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class RecordOf:
    members: "tuple[tuple[Name, Expr], ...]"
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Unary:
    """`!x` or `-x` (op `!` or `-`); a minus directly before a number is part of the `Number`."""

    op: str
    operand: "Expr"
    op_span: Span = field(compare=False, kw_only=True)
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Link:
    op: str
    operand: "Expr"
    op_span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Chain:
    """Operators of one level, left to right: `||`, or `&&`, or `+ -`, or `* /`. At least one link."""

    first: "Expr"
    links: tuple[Link, ...]
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Comparison:
    op: str
    left: "Expr"
    right: "Expr"
    op_span: Span = field(compare=False, kw_only=True)
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Branch:
    """`if (condition) then body`; `span` reaches from its `if` to the end of the whole chain."""

    condition: "Expr"
    body: "Expr"
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class If:
    """`if … then … else if … then … else otherwise`. At least one branch."""

    branches: tuple[Branch, ...]
    otherwise: "Expr"
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Let:
    name: Name
    value: "Expr"
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Assert:
    condition: "Expr"
    code: Text
    message: Text
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Block:
    """`let`s and `assert`s, then what they are for. At least one binding."""

    bindings: tuple[Let | Assert, ...]
    body: "Expr"
    span: Span = field(compare=False, kw_only=True)


Expr: TypeAlias = (
    Number
    | Text
    | Truth
    | Nothing
    | Day
    | Quantity
    | FieldRef
    | Variable
    | Call
    | ListOf
    | RecordOf
    | Unary
    | Chain
    | Comparison
    | If
    | Block
    | Lambda  # outside of arguments only after a mistake that was reported
)

# Types as written


@dataclass(frozen=True, slots=True)
class SimpleType:
    """`Bool`, `Int`, `Text` or `Date`"""

    name: str
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class DecType:
    scale: int
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class QtyType:
    unit: Name
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class OptType:
    item: "TypeExpr"
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class ListType:
    item: "TypeExpr"
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class MapType:
    item: "TypeExpr"
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class RecordType:
    members: "tuple[tuple[Name, TypeExpr], ...]"
    span: Span = field(compare=False, kw_only=True)


TypeExpr: TypeAlias = SimpleType | DecType | QtyType | OptType | ListType | MapType | RecordType

# JSON in fixtures


@dataclass(frozen=True, slots=True)
class JsonAtom:
    """A text, an integer, `true`, `false` or `null`."""

    value: str | int | bool | None
    span: Span = field(compare=False, kw_only=True)

    def __eq__(self, other: object) -> bool:  # `1 == True` in Python, not in JSON
        return isinstance(other, JsonAtom) and (type(self.value), self.value) == (type(other.value), other.value)

    def __hash__(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class JsonList:
    items: "tuple[JsonValue, ...]"
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class JsonObject:
    members: "tuple[tuple[Text, JsonValue], ...]"
    span: Span = field(compare=False, kw_only=True)


JsonValue: TypeAlias = JsonAtom | JsonList | JsonObject

# Rules and tests


@dataclass(frozen=True, slots=True)
class Rule:
    """`field path @audience : type = body;`"""

    path: tuple[Name, ...]
    audiences: tuple[Name, ...]
    type: TypeExpr
    body: Expr
    span: Span = field(compare=False, kw_only=True)

    @property
    def dotted(self) -> str:
        return ".".join(name.text for name in self.path)


@dataclass(frozen=True, slots=True)
class ProductFixture:
    sku: Text
    name: Text
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class IssuedFixture:
    day: Text
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class FactFixture:
    """`fact label("Type", "key") = {…}`, or `= any` (payload None), which only a property may say."""

    label: Name
    fact_type: Text
    key: Text
    payload: JsonObject | None
    span: Span = field(compare=False, kw_only=True)


Fixture: TypeAlias = ProductFixture | IssuedFixture | FactFixture


@dataclass(frozen=True, slots=True)
class SomeConstant:
    """`some(constant)`"""

    item: "Constant"
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class ListConstant:
    items: "tuple[Constant, ...]"
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class RecordConstant:
    members: "tuple[tuple[Name, Constant], ...]"
    span: Span = field(compare=False, kw_only=True)


Constant: TypeAlias = Number | Text | Truth | Nothing | Day | Quantity | SomeConstant | ListConstant | RecordConstant


@dataclass(frozen=True, slots=True)
class Expect:
    """`expect(path, op constant)`"""

    path: tuple[Name, ...]
    op: str
    constant: Constant
    span: Span = field(compare=False, kw_only=True)

    @property
    def dotted(self) -> str:
        return ".".join(name.text for name in self.path)


@dataclass(frozen=True, slots=True)
class ExpectError:
    code: Text
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Example:
    name: Name
    fixtures: tuple[Fixture, ...]
    expectations: tuple[Expect | ExpectError, ...]
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Claim:
    """`forall variable: type . implies(premise, conclusion)`"""

    variable: Name
    type: TypeExpr
    premise: Expr
    conclusion: Expr
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Property:
    """`cases` and `seed` as written (`nat`), bounded by the checker."""

    name: Name
    cases: Number
    seed: Number
    givens: tuple[Fixture, ...]
    claims: tuple[Claim, ...]
    span: Span = field(compare=False, kw_only=True)


Item: TypeAlias = Rule | Example | Property


@dataclass(frozen=True, slots=True)
class Comment:
    """`-- …` without its line end."""

    text: str
    span: Span = field(compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Tree:
    """A whole file, in its order. Comments lie beside the tree; only the formatter looks at them."""

    items: tuple[Item, ...]
    comments: tuple[Comment, ...] = field(default=(), compare=False)
