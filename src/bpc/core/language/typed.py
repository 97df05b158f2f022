"""The typed tree: a checked program, every name resolved and every literal in its scale.

Pure values, made by the checker and by nobody else; whoever holds a `Program` need not doubt it. Both evaluators read
this and nothing earlier. `span` is where an error of the node is reported: the operator, the call, the name.

A variable's name is unique where it is visible; siblings may reuse it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from bpc.core.facts import FactRecord
from bpc.core.rules.source import Source, Span
from bpc.core.rules.types import Fact, Type

Value: TypeAlias = "bool | int | str | list[Value] | dict[str, Value] | FactRecord | None"


@dataclass(frozen=True, slots=True)
class Const:
    """A literal: its value as rules hold it, a minus folded in. `none` is a Const of an Opt type."""

    type: Type
    value: Value
    span: Span


@dataclass(frozen=True, slots=True)
class Local:
    """A variable: bound by a let, a lambda's parameter or a claim's forall."""

    type: Type
    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class FieldValue:
    """`field("path")`"""

    type: Type
    path: str
    span: Span


@dataclass(frozen=True, slots=True)
class GetFact:
    """`getFact("Type@version", key)`: Opt(fact)"""

    type: Type
    fact: Fact
    key: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class GetFacts:
    """`getFactsByPrefix("Type@version", prefix)`: List(fact), by key"""

    type: Type
    fact: Fact
    prefix: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class Unary:
    """`op` is `neg` or `!`"""

    type: Type
    op: Literal["neg", "!"]
    operand: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class Step:
    """One operator of an arithmetic chain: the value so far, `op`, `operand`; `type` is the result's."""

    type: Type
    op: Literal["+", "-", "*", "/"]
    operand: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`first op operand op operand …`, left to right; the operands' types and each step's say what is computed.

    Of `+` and `-` the sides have one type, or one is Int and the other Dec. Of `*` and `/` they are any the language
    allows, with literals at their own scale.
    """

    type: Type
    first: "Expr"
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Sides of one type, or Decs of any scales. `of` is the operands' type as a proof names it (`Dec` for Decs)."""

    type: Type
    op: Literal["==", "!=", "<", "<=", ">", ">="]
    of: str
    left: "Expr"
    right: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class Operand:
    """The right side of one `&&` or `||`: a block of its own."""

    expr: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class Logic:
    """`first op operand op operand …`, left to right, each evaluated only if the ones before leave it open."""

    type: Type
    op: Literal["&&", "||"]
    first: "Expr"
    operands: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    condition: "Expr"
    body: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class Choice:
    """`if … then … else if … else otherwise`. All after the first condition is the `else` block of the one before:
    the second branch's condition is evaluated inside it."""

    type: Type
    branches: tuple[Branch, ...]
    otherwise: "Expr"


@dataclass(frozen=True, slots=True)
class ListOf:
    type: Type
    items: "tuple[Expr, ...]"
    span: Span


@dataclass(frozen=True, slots=True)
class RecordOf:
    """Members in the order they are written in, which is the order they are evaluated in."""

    type: Type
    members: "tuple[tuple[str, Expr], ...]"
    span: Span


Builtin: TypeAlias = Literal[
    "some", "recordGet", "mapGet", "isSome", "unwrapOr", "count", "concat", "amount", "toDec", "sumDec", "toQty",
    "sumQty", "convert", "productSku", "productName", "issuedOn",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Apply:
    """A built-in and its evaluated arguments. `static` holds the literal ones under the names proofs give them.

    recordGet {"member"} · toDec, sumDec {"scale"} · toQty, sumQty {"unit"} · convert {"from", "to"} · others {}.
    """

    type: Type
    op: Builtin
    arguments: "tuple[Expr, ...]"
    static: Mapping[str, str | int]
    span: Span


@dataclass(frozen=True, slots=True)
class Loop:
    """map, filter or fold. fold's parameters are accumulator and element, and only it has `init`.

    `outer` are the variables of around the lambda that it mentions (nested lambdas included), in order of first
    mention; `fn_span` is the lambda's text. `nested` says whether the loop itself stands inside a lambda.
    """

    type: Type
    op: Literal["map", "filter", "fold"]
    items: "Expr"
    init: "Expr | None"
    parameters: tuple[str, ...]
    body: "Expr"
    outer: tuple[str, ...]
    fn_span: Span
    nested: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Require:
    """`requireSome(option, code, message)`"""

    type: Type
    option: "Expr"
    code: str
    message: str
    span: Span


@dataclass(frozen=True, slots=True)
class Emit:
    """`emitCompliance(code, status, message)`: true unless the status is FAIL"""

    type: Type
    code: str
    status: "Expr"
    message: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class Bind:
    """`let name = value;`"""

    name: str
    value: "Expr"
    span: Span


@dataclass(frozen=True, slots=True)
class Check:
    """`assert(condition, code, message);`"""

    condition: "Expr"
    code: str
    message: str
    span: Span


@dataclass(frozen=True, slots=True)
class Block:
    """Bindings in order, then the body; an assert's node has the rest of the block as its body."""

    type: Type
    bindings: tuple[Bind | Check, ...]
    body: "Expr"


Expr: TypeAlias = (
    Const
    | Local
    | FieldValue
    | GetFact
    | GetFacts
    | Unary
    | Arithmetic
    | Comparison
    | Logic
    | Choice
    | ListOf
    | RecordOf
    | Apply
    | Loop
    | Require
    | Emit
    | Block
)


@dataclass(frozen=True, slots=True)
class Field:
    """A rule. `access` is sorted; `needs` are the paths it reads, sorted; `span` is its path in the text."""

    path: str
    access: tuple[str, ...]
    type: Type
    body: Expr
    needs: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class GivenFact:
    """A fact of a test; `payload` None asks for any."""

    fact: Fact
    key: str
    payload: Mapping[str, object] | None
    span: Span


@dataclass(frozen=True, slots=True)
class Given:
    """The world of a test, defaults filled in. `issued_on` is a day."""

    product_sku: str
    product_name: str
    issued_on: str
    facts: tuple[GivenFact, ...]


@dataclass(frozen=True, slots=True)
class Expect:
    """The field's value compared with a constant of a type it compares with (for Decs: any scale)."""

    path: str
    op: Literal["==", "!=", "<", "<=", ">", ">="]
    constant: Const
    span: Span


@dataclass(frozen=True, slots=True)
class ExpectError:
    code: str
    span: Span


@dataclass(frozen=True, slots=True)
class Example:
    """`source` is the text its spans point into: the rules file, or a tests file beside it."""

    name: str
    given: Given
    expectations: tuple[Expect | ExpectError, ...]
    source: Source
    span: Span


@dataclass(frozen=True, slots=True)
class Claim:
    """`forall variable: type . implies(premise, conclusion)`; each side is a block."""

    variable: str
    type: Type
    premise: Expr
    conclusion: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class Property:
    name: str
    cases: int
    seed: int
    given: Given
    claims: tuple[Claim, ...]
    source: Source
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A rule package that means something: its fields in evaluation order, the fact types they name, its tests."""

    source: Source
    fields: tuple[Field, ...]
    facts: tuple[Fact, ...]
    examples: tuple[Example, ...] = ()
    properties: tuple[Property, ...] = ()
