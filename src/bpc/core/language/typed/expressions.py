"""Typed expressions."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeAlias

from bpc.core.facts.fact_table import FactRecord
from bpc.core.language.source import Span
from bpc.core.language.tree_nodes import tree_node
from bpc.core.language.types import FactRecordType, Type

Layer: TypeAlias = Literal["model", "batch", "item"]
"""What a rule is about: all batteries of a model, those of a batch, or each battery."""

Value: TypeAlias = "bool | int | str | list[Value] | dict[str, Value] | FactRecord | None"


@tree_node(frozen=True, slots=True)
class TypedNode:
    """What every expression has."""

    type: Type


@tree_node(frozen=True, slots=True)
class Const(TypedNode):
    """A literal: its value as rules hold it, a minus folded in. `none` is a Const of an Opt type."""

    value: Value
    span: Span


@tree_node(frozen=True, slots=True)
class Local(TypedNode):
    """A variable: bound by a let, a lambda's parameter or a claim's forall."""

    name: str
    span: Span


@tree_node(frozen=True, slots=True)
class FieldValue(TypedNode):
    """`field("path")`"""

    path: str
    span: Span


@tree_node(frozen=True, slots=True)
class DefinitionValue(TypedNode):
    """The name of a constant or definition."""

    name: str
    span: Span


@tree_node(frozen=True, slots=True)
class FunctionCall(TypedNode):
    """A call of a function that the rules define. Its body is a block, entered when the arguments are evaluated."""

    name: str
    arguments: "tuple[Expr, ...]"
    span: Span


@tree_node(frozen=True, slots=True)
class FactLookup(TypedNode):
    """`getFact("Type@version", key)`: Opt(fact)"""

    fact: FactRecordType
    key: "Expr"
    span: Span


@tree_node(frozen=True, slots=True)
class FactPrefixLookup(TypedNode):
    """`getFactsByPrefix("Type@version", prefix)`: List(fact), by key"""

    fact: FactRecordType
    prefix: "Expr"
    span: Span


@tree_node(frozen=True, slots=True)
class TypedUnary(TypedNode):
    """`op` is `neg` or `!`"""

    op: Literal["neg", "!"]
    operand: "Expr"
    span: Span


@tree_node(frozen=True, slots=True)
class ArithmeticStep(TypedNode):
    """One operator of an arithmetic chain: the value so far, `op`, `operand`; `type` is the result's."""

    op: Literal["+", "-", "*", "/"]
    operand: "Expr"
    span: Span


@tree_node(frozen=True, slots=True)
class Arithmetic(TypedNode):
    """`first op operand op operand …`, left to right; the operands' types and each step's say what is computed.

    Of `+` and `-` the sides have one type, or one is Int and the other Dec. Of `*` and `/` they are any the language
    allows, with literals at their own scale.
    """

    first: "Expr"
    steps: tuple[ArithmeticStep, ...]


@tree_node(frozen=True, slots=True)
class TypedComparison(TypedNode):
    """Sides of one type, or Decs of any scales. `operand_type` is their type as a proof names it (`Dec` for Decs)."""

    op: Literal["==", "!=", "<", "<=", ">", ">="]
    operand_type: str
    left: "Expr"
    right: "Expr"
    span: Span


@tree_node(frozen=True, slots=True)
class LogicOperand:
    """The right side of one `&&` or `||`: a block of its own."""

    expr: "Expr"
    span: Span


@tree_node(frozen=True, slots=True)
class Logic(TypedNode):
    """`first op operand op operand …`, left to right, each evaluated only if the ones before leave it open."""

    op: Literal["&&", "||"]
    first: "Expr"
    operands: tuple[LogicOperand, ...]


@tree_node(frozen=True, slots=True)
class Coalesce(TypedNode):
    """`first ?? operand ?? operand …`: the first that is present; each evaluated only if those before are absent.

    All are options but the last, which may be a value.
    """

    first: "Expr"
    operands: tuple[LogicOperand, ...]
    span: Span


@tree_node(frozen=True, slots=True)
class TypedBranch:
    """A branch. Of `if some` the condition is an option, and `binding` the name of what is in it."""

    condition: "Expr"
    body: "Expr"
    span: Span
    binding: str | None = None


@tree_node(frozen=True, slots=True)
class TypedIf(TypedNode):
    """`if … then … else if … else otherwise`. All after the first condition is the `else` block of the one before:
    the second branch's condition is evaluated inside it."""

    branches: tuple[TypedBranch, ...]
    otherwise: "Expr"


@tree_node(frozen=True, slots=True)
class TypedMatchArm:
    """`members` are those it is taken for, None for an absent option; `label` is its patterns as written."""

    members: tuple[str | None, ...]
    label: str
    body: "Expr"
    span: Span


@tree_node(frozen=True, slots=True)
class TypedMatch(TypedNode):
    """Exactly one arm is taken for each member of the subject's enumeration; each body is a block of its own."""

    subject: "Expr"
    arms: tuple[TypedMatchArm, ...]
    span: Span


@tree_node(frozen=True, slots=True)
class TypedList(TypedNode):
    items: "tuple[Expr, ...]"
    span: Span


@tree_node(frozen=True, slots=True)
class TypedRecord(TypedNode):
    """Members in the order they are written in, which is the order they are evaluated in."""

    members: "tuple[tuple[str, Expr], ...]"
    span: Span


Builtin: TypeAlias = Literal[
    "some", "recordGet", "mapGet", "isSome", "unwrapOr", "count", "concat", "amount", "toDec", "sumDec", "toQty",
    "sumQty", "convert", "productSku", "productName", "issuedOn", "member", "in",
    "text", "startsWith", "endsWith", "contains", "split", "trim", "length",
    "daysBetween", "addDays", "addMonths", "addYears", "year", "month", "day",
    "min", "max", "abs", "round", "sum", "first", "last", "distinct", "present", "isEmpty", "toEnum",
]  # fmt: skip


@tree_node(frozen=True, slots=True)
class BuiltinCall(TypedNode):
    """A built-in and its evaluated arguments. `static` holds the literal ones under the names proofs give them.

    recordGet, member {"member"} · toDec, sumDec, round {"scale"} · toQty, sumQty {"unit"} · convert {"from", "to"} ·
    text, min, max {"of"}: the type of what they are given, `Dec` for any scales · toEnum {"enum"}: the name of the
    enumeration, which is in its type · others {}.
    """

    op: Builtin
    arguments: "tuple[Expr, ...]"
    static: Mapping[str, str | int]
    span: Span


@tree_node(frozen=True, slots=True)
class TableLookup(TypedNode):
    """`name(argument, …)` of the program's table of that name: an option of its values."""

    table: str
    arguments: "tuple[Expr, ...]"
    span: Span


@tree_node(frozen=True, slots=True)
class Loop(TypedNode):
    """A function that takes a lambda. fold's parameters are accumulator and element, and only it has `init`.

    `captured` are the variables around the lambda that it mentions (nested lambdas included), in order of first
    mention; `lambda_span` is the lambda's text. `nested` says whether the loop itself stands inside a lambda.
    """

    op: Literal["map", "filter", "fold", "any", "all", "sortBy", "latestBy", "groupBy"]
    items: "Expr"
    init: "Expr | None"
    parameters: tuple[str, ...]
    body: "Expr"
    captured: tuple[str, ...]
    lambda_span: Span
    nested: bool
    span: Span


@tree_node(frozen=True, slots=True)
class RequireSome(TypedNode):
    """`requireSome(option, code, message)`"""

    option: "Expr"
    code: str
    message: str
    span: Span


@tree_node(frozen=True, slots=True)
class EmitCompliance(TypedNode):
    """`emitCompliance(code, status, message)`: true unless the status is FAIL"""

    code: str
    status: "Expr"
    message: "Expr"
    span: Span
    # Of a requirement: what its period and scope say, and the texts in its message by what they were written as.
    verdict: str | None = None
    args: "tuple[tuple[str, Expr], ...]" = ()


@tree_node(frozen=True, slots=True)
class RequirementCheck(TypedNode):
    """A requirement: `body` emits its one entry. If a definition that it needs is missing, the entry says so.

    `severity` is the status of an entry that is not met, `extent` the whole requirement, `cite` what it cites.
    """

    code: str
    severity: Literal["FAIL", "WARN"]
    body: "Expr"
    span: Span
    extent: Span
    cite: str | None = None
    layer: Layer | None = None


@tree_node(frozen=True, slots=True)
class RequirementsMet(TypedNode):
    """All requirements of a program, each checked: whether none of them is FAIL."""

    items: tuple[RequirementCheck, ...]
    span: Span


@tree_node(frozen=True, slots=True)
class TypedLet:
    """`let name = value;`"""

    name: str
    value: "Expr"
    span: Span


@tree_node(frozen=True, slots=True)
class TypedAssert:
    """`assert(condition, code, message);`"""

    condition: "Expr"
    code: str
    message: str
    span: Span


@tree_node(frozen=True, slots=True)
class TypedBlock(TypedNode):
    """Bindings in order, then the body; an assert's node has the rest of the block as its body."""

    bindings: tuple[TypedLet | TypedAssert, ...]
    body: "Expr"


Expr: TypeAlias = (
    Const
    | Local
    | FieldValue
    | DefinitionValue
    | FunctionCall
    | FactLookup
    | FactPrefixLookup
    | TypedUnary
    | Arithmetic
    | TypedComparison
    | Logic
    | Coalesce
    | TypedIf
    | TypedMatch
    | TypedList
    | TypedRecord
    | BuiltinCall
    | TableLookup
    | Loop
    | RequireSome
    | EmitCompliance
    | RequirementCheck
    | RequirementsMet
    | TypedBlock
)


def iterate_parts(expr: object) -> Iterator[Any]:
    """An expression and all its parts, in no promised order."""
    pending: list[object] = [expr]
    while pending:
        part = pending.pop()
        if isinstance(part, tuple):
            pending += part
        elif is_dataclass(part) and not isinstance(part, type):
            yield part
            pending += [getattr(part, name) for name in _list_part_names(type(part))]


@cache
def _list_part_names(kind: Any) -> tuple[str, ...]:
    # Not into types: a type of shared parts can be far larger than the memory it takes.
    return tuple(member.name for member in fields(kind) if member.name not in {"type", "span", "extent"})
