"""The typed tree: a checked program, every name resolved and every literal in its scale.

Pure values, made by the checker and by nobody else; whoever holds a `Program` need not doubt it. Both evaluators read
this and nothing earlier. `span` is where an error of the node is reported: the operator, the call, the name.

A variable's name is unique where it is visible; siblings may reuse it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from bpc.core.facts.fact_table import FactRecord
from bpc.core.language.source import Source, Span
from bpc.core.language.types import FactRecordType, Type

Value: TypeAlias = "bool | int | str | list[Value] | dict[str, Value] | FactRecord | None"


@dataclass(frozen=True, slots=True)
class TypedNode:
    """What every expression has."""

    type: Type


@dataclass(frozen=True, slots=True)
class Const(TypedNode):
    """A literal: its value as rules hold it, a minus folded in. `none` is a Const of an Opt type."""

    value: Value
    span: Span


@dataclass(frozen=True, slots=True)
class Local(TypedNode):
    """A variable: bound by a let, a lambda's parameter or a claim's forall."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class FieldValue(TypedNode):
    """`field("path")`"""

    path: str
    span: Span


@dataclass(frozen=True, slots=True)
class FactLookup(TypedNode):
    """`getFact("Type@version", key)`: Opt(fact)"""

    fact: FactRecordType
    key: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class FactPrefixLookup(TypedNode):
    """`getFactsByPrefix("Type@version", prefix)`: List(fact), by key"""

    fact: FactRecordType
    prefix: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class TypedUnary(TypedNode):
    """`op` is `neg` or `!`"""

    op: Literal["neg", "!"]
    operand: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class ArithmeticStep(TypedNode):
    """One operator of an arithmetic chain: the value so far, `op`, `operand`; `type` is the result's."""

    op: Literal["+", "-", "*", "/"]
    operand: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class Arithmetic(TypedNode):
    """`first op operand op operand …`, left to right; the operands' types and each step's say what is computed.

    Of `+` and `-` the sides have one type, or one is Int and the other Dec. Of `*` and `/` they are any the language
    allows, with literals at their own scale.
    """

    first: "Expr"
    steps: tuple[ArithmeticStep, ...]


@dataclass(frozen=True, slots=True)
class TypedComparison(TypedNode):
    """Sides of one type, or Decs of any scales. `operand_type` is their type as a proof names it (`Dec` for Decs)."""

    op: Literal["==", "!=", "<", "<=", ">", ">="]
    operand_type: str
    left: "Expr"
    right: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class LogicOperand:
    """The right side of one `&&` or `||`: a block of its own."""

    expr: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class Logic(TypedNode):
    """`first op operand op operand …`, left to right, each evaluated only if the ones before leave it open."""

    op: Literal["&&", "||"]
    first: "Expr"
    operands: tuple[LogicOperand, ...]


@dataclass(frozen=True, slots=True)
class TypedBranch:
    condition: "Expr"
    body: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class TypedIf(TypedNode):
    """`if … then … else if … else otherwise`. All after the first condition is the `else` block of the one before:
    the second branch's condition is evaluated inside it."""

    branches: tuple[TypedBranch, ...]
    otherwise: "Expr"


@dataclass(frozen=True, slots=True)
class TypedList(TypedNode):
    items: "tuple[Expr, ...]"
    span: Span


@dataclass(frozen=True, slots=True)
class TypedRecord(TypedNode):
    """Members in the order they are written in, which is the order they are evaluated in."""

    members: "tuple[tuple[str, Expr], ...]"
    span: Span


Builtin: TypeAlias = Literal[
    "some", "recordGet", "mapGet", "isSome", "unwrapOr", "count", "concat", "amount", "toDec", "sumDec", "toQty",
    "sumQty", "convert", "productSku", "productName", "issuedOn",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class BuiltinCall(TypedNode):
    """A built-in and its evaluated arguments. `static` holds the literal ones under the names proofs give them.

    recordGet {"member"} · toDec, sumDec {"scale"} · toQty, sumQty {"unit"} · convert {"from", "to"} · others {}.
    """

    op: Builtin
    arguments: "tuple[Expr, ...]"
    static: Mapping[str, str | int]
    span: Span


@dataclass(frozen=True, slots=True)
class Loop(TypedNode):
    """map, filter or fold. fold's parameters are accumulator and element, and only it has `init`.

    `captured` are the variables around the lambda that it mentions (nested lambdas included), in order of first
    mention; `lambda_span` is the lambda's text. `nested` says whether the loop itself stands inside a lambda.
    """

    op: Literal["map", "filter", "fold"]
    items: "Expr"
    init: "Expr | None"
    parameters: tuple[str, ...]
    body: "Expr"
    captured: tuple[str, ...]
    lambda_span: Span
    nested: bool
    span: Span


@dataclass(frozen=True, slots=True)
class RequireSome(TypedNode):
    """`requireSome(option, code, message)`"""

    option: "Expr"
    code: str
    message: str
    span: Span


@dataclass(frozen=True, slots=True)
class EmitCompliance(TypedNode):
    """`emitCompliance(code, status, message)`: true unless the status is FAIL"""

    code: str
    status: "Expr"
    message: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class TypedLet:
    """`let name = value;`"""

    name: str
    value: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class TypedAssert:
    """`assert(condition, code, message);`"""

    condition: "Expr"
    code: str
    message: str
    span: Span


@dataclass(frozen=True, slots=True)
class TypedBlock(TypedNode):
    """Bindings in order, then the body; an assert's node has the rest of the block as its body."""

    bindings: tuple[TypedLet | TypedAssert, ...]
    body: "Expr"


Expr: TypeAlias = (
    Const
    | Local
    | FieldValue
    | FactLookup
    | FactPrefixLookup
    | TypedUnary
    | Arithmetic
    | TypedComparison
    | Logic
    | TypedIf
    | TypedList
    | TypedRecord
    | BuiltinCall
    | Loop
    | RequireSome
    | EmitCompliance
    | TypedBlock
)


@dataclass(frozen=True, slots=True)
class ProgramField:
    """A rule. `access` is sorted; `needs` are the paths it reads, sorted; `span` is its path in the text."""

    path: str
    access: tuple[str, ...]
    type: Type
    body: Expr
    needs: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class FixtureFact:
    """A fact of a test; `payload` None asks for any."""

    fact: FactRecordType
    key: str
    payload: Mapping[str, object] | None
    span: Span


@dataclass(frozen=True, slots=True)
class Fixtures:
    """The world of a test, defaults filled in. `issued_on` is a day."""

    product_sku: str
    product_name: str
    issued_on: str
    facts: tuple[FixtureFact, ...]


@dataclass(frozen=True, slots=True)
class TypedExpectation:
    """The field's value compared with a constant of a type it compares with (for Decs: any scale)."""

    path: str
    op: Literal["==", "!=", "<", "<=", ">", ">="]
    constant: Const
    span: Span


@dataclass(frozen=True, slots=True)
class TypedErrorExpectation:
    code: str
    span: Span


@dataclass(frozen=True, slots=True)
class TypedExample:
    """`source` is the text its spans point into: the rules file, or a tests file beside it."""

    name: str
    fixtures: Fixtures
    expectations: tuple[TypedExpectation | TypedErrorExpectation, ...]
    source: Source
    span: Span


@dataclass(frozen=True, slots=True)
class TypedClaim:
    """`forall variable: type . implies(premise, conclusion)`; each side is a block."""

    variable: str
    type: Type
    premise: Expr
    conclusion: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class TypedProperty:
    name: str
    cases: int
    seed: int
    fixtures: Fixtures
    claims: tuple[TypedClaim, ...]
    source: Source
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A rule package that means something: its fields in evaluation order, the fact types they name, its tests."""

    source: Source
    fields: tuple[ProgramField, ...]
    facts: tuple[FactRecordType, ...]
    examples: tuple[TypedExample, ...] = ()
    properties: tuple[TypedProperty, ...] = ()
