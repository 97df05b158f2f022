"""What a file contains: rules, definitions, enumerations, tests with their fixtures, and comments."""

from collections.abc import Sequence
from dataclasses import field
from typing import TypeAlias

from bpc.core.language.source import Span
from bpc.core.language.syntax.expressions import (
    AnyLiteral,
    Expr,
    Name,
    NumberLiteral,
    SyntaxNode,
    TextLiteral,
    TypeExpr,
    VariableRef,
)
from bpc.core.language.tree_nodes import tree_node

# JSON in fixtures


@tree_node(frozen=True, slots=True)
class JsonAtom(SyntaxNode):
    """A text, an integer, `true`, `false` or `null`."""

    value: str | int | bool | None

    def __eq__(self, other: object) -> bool:  # `1 == True` in Python, not in JSON
        return isinstance(other, JsonAtom) and (type(self.value), self.value) == (type(other.value), other.value)

    def __hash__(self) -> int:
        return 0


@tree_node(frozen=True, slots=True)
class JsonList(SyntaxNode):
    items: "tuple[JsonValue, ...]"


@tree_node(frozen=True, slots=True)
class JsonObject(SyntaxNode):
    members: "tuple[tuple[TextLiteral, JsonValue], ...]"


@tree_node(frozen=True, slots=True)
class ColumnRef(TextLiteral):
    """The name of a column (`value`) in place of a text, a JSON value or a constant: the cell of a row goes there."""


JsonValue: TypeAlias = JsonAtom | JsonList | JsonObject | ColumnRef

# Rules and tests


@tree_node(frozen=True, slots=True)
class AboutClause(SyntaxNode):
    """`group "…"`, `order 10`, `label de "…"`: its word, perhaps a language, and what it says."""

    word: Name
    language: Name | None
    value: TextLiteral | NumberLiteral


@tree_node(frozen=True, slots=True)
class About(SyntaxNode):
    """`about DP10 "label" group "…" order 10 …`: what a field is, for people. `point` is the data point as written."""

    point: Name | None
    label: TextLiteral
    clauses: tuple[AboutClause, ...]


@tree_node(frozen=True, slots=True)
class Rule(SyntaxNode):
    """`field path @audience : type = body layer item about DP10 "label";`"""

    path: tuple[Name, ...]
    audiences: tuple[Name, ...]
    type: TypeExpr
    body: Expr
    about: About | None = None
    layer: Name | None = field(default=None, kw_only=True)
    height: int = field(default=0, compare=False, kw_only=True)

    @property
    def dotted(self) -> str:
        return ".".join(name.text for name in self.path)


@tree_node(frozen=True, slots=True)
class MissingClause(SyntaxNode):
    """`else missing("sentence")` or `else missing("CODE", "sentence")`"""

    code: TextLiteral | None
    message: TextLiteral


@tree_node(frozen=True, slots=True)
class Definition(SyntaxNode):
    """`const NAME: type = body;` or `def name: type = body else missing("sentence");`

    `height` is how high the tree of its body is.
    """

    name: Name
    type: TypeExpr | None
    body: Expr
    missing: MissingClause | None
    is_constant: bool
    height: int = field(default=0, compare=False, kw_only=True)


@tree_node(frozen=True, slots=True)
class EnumMember(SyntaxNode):
    """A member of an enumeration, and the texts beside its name that mean it."""

    name: Name
    spellings: tuple[TextLiteral, ...]


@tree_node(frozen=True, slots=True)
class EnumDeclaration(SyntaxNode):
    """`enum Category = EV "ev" | LMT;`"""

    name: Name
    members: tuple[EnumMember, ...]


@tree_node(frozen=True, slots=True)
class FunctionDefinition(SyntaxNode):
    """`fn name(a: type, b: type): type = body;`"""

    name: Name
    parameters: tuple[tuple[Name, TypeExpr], ...]
    type: TypeExpr
    body: Expr
    height: int = field(default=0, compare=False, kw_only=True)


@tree_node(frozen=True, slots=True)
class Requirement(SyntaxNode):
    """`require CODE "title" when … in force from … to … on day: condition else message severity warn layer item …;`

    `heading` is the title, `severity` the word that is written, `fail` or `warn`. Without `day` it is the day of issue.
    """

    code: Name
    heading: Expr
    scope: Expr | None
    start: Expr | None
    end: Expr | None
    condition: Expr
    message: Expr | None
    severity: Name | None
    cite: TextLiteral | None = None
    day: Expr | None = field(default=None, kw_only=True)
    layer: Name | None = field(default=None, kw_only=True)
    height: int = field(default=0, compare=False, kw_only=True)


@tree_node(frozen=True, slots=True)
class ProductFixture(SyntaxNode):
    sku: TextLiteral
    name: TextLiteral


@tree_node(frozen=True, slots=True)
class IssuedFixture(SyntaxNode):
    day: TextLiteral


@tree_node(frozen=True, slots=True)
class FactFixture(SyntaxNode):
    """`fact label("Type", "key") = {…}`, or `= any` (payload None), which is allowed in a property only."""

    label: Name
    fact_type: TextLiteral
    key: TextLiteral
    payload: JsonObject | None


@tree_node(frozen=True, slots=True)
class RemovedFact(SyntaxNode):
    """`without("Type", "key")`: takes away a fact of a shared fixture."""

    fact_type: TextLiteral
    key: TextLiteral


Fixture: TypeAlias = ProductFixture | IssuedFixture | FactFixture | RemovedFact


@tree_node(frozen=True, slots=True)
class SharedFixture(SyntaxNode):
    """`fixture name: with other, {…};`: what several tests start from. It can start from others (`bases`) itself."""

    name: Name
    bases: tuple[Name, ...]
    fixtures: tuple[Fixture, ...]


@tree_node(frozen=True, slots=True)
class SomeConstant(SyntaxNode):
    """`some(constant)`"""

    item: "Constant"


@tree_node(frozen=True, slots=True)
class ListConstant(SyntaxNode):
    items: "tuple[Constant, ...]"


@tree_node(frozen=True, slots=True)
class RecordConstant(SyntaxNode):
    members: "tuple[tuple[Name, Constant], ...]"


# A variable is the name of a member of an enumeration.
Constant: TypeAlias = AnyLiteral | VariableRef | SomeConstant | ListConstant | RecordConstant


# Tables


@tree_node(frozen=True, slots=True)
class KeyCell(SyntaxNode):
    """`COBALT | NICKEL`: the row is for each of these."""

    keys: tuple[Constant, ...]


@tree_node(frozen=True, slots=True)
class RangeCell(SyntaxNode):
    """`from low to high`: from `low` on, up to and not including `high`; None where a side is open."""

    low: Constant | None
    high: Constant | None


@tree_node(frozen=True, slots=True)
class LookupRow(SyntaxNode):
    """`COBALT, from date("2031-08-18"): 16.00 cite "Article 8(2)";`"""

    cells: tuple[KeyCell | RangeCell, ...]
    value: Constant
    cite: TextLiteral | None


@tree_node(frozen=True, slots=True)
class TableDeclaration(SyntaxNode):
    """`table name(column: type, …): type cite "…" { rows }`"""

    name: Name
    columns: tuple[tuple[Name, TypeExpr], ...]
    type: TypeExpr
    cite: TextLiteral | None
    rows: tuple[LookupRow, ...]


@tree_node(frozen=True, slots=True)
class Expectation(SyntaxNode):
    """`expect(path, op constant)`"""

    path: tuple[Name, ...]
    op: str
    constant: Constant
    because: TextLiteral | None = None

    @property
    def dotted(self) -> str:
        return ".".join(name.text for name in self.path)


@tree_node(frozen=True, slots=True)
class ErrorExpectation(SyntaxNode):
    code: TextLiteral
    because: TextLiteral | None = None


@tree_node(frozen=True, slots=True)
class FindingExpectation(SyntaxNode):
    """`expectFinding("CODE", "STATUS", "message", verdict "expired", args { … })`; what is left out may be anything.

    `expectNoFinding("CODE")` has no status.
    """

    code: TextLiteral
    status: TextLiteral | None
    message: TextLiteral | None = None
    because: TextLiteral | None = None
    verdict: TextLiteral | None = None
    args: JsonObject | None = None


AnyExpectation: TypeAlias = Expectation | ErrorExpectation | FindingExpectation


@tree_node(frozen=True, slots=True)
class Example(SyntaxNode):
    name: Name
    fixtures: tuple[Fixture, ...]
    expectations: tuple[AnyExpectation, ...]
    bases: tuple[Name, ...] = ()


@tree_node(frozen=True, slots=True)
class CaseRow(SyntaxNode):
    cells: tuple[Constant, ...]


@tree_node(frozen=True, slots=True)
class CaseTable(SyntaxNode):
    """`cases name(column, …): {…} => …; { cell, …; }`: an example for each row."""

    name: Name
    columns: tuple[Name, ...]
    bases: tuple[Name, ...]
    fixtures: tuple[Fixture, ...]
    expectations: tuple[AnyExpectation, ...]
    rows: Sequence[CaseRow]


@tree_node(frozen=True, slots=True)
class Claim(SyntaxNode):
    """`forall variable: type . implies(premise, conclusion)`"""

    variable: Name
    type: TypeExpr
    premise: Expr
    conclusion: Expr


@tree_node(frozen=True, slots=True)
class Property(SyntaxNode):
    """`cases` and `seed` as written (`nat`), bounded by the checker."""

    name: Name
    cases: NumberLiteral
    seed: NumberLiteral
    fixtures: tuple[Fixture, ...]
    claims: tuple[Claim, ...]
    bases: tuple[Name, ...] = ()


Item: TypeAlias = (
    Rule
    | Definition
    | FunctionDefinition
    | Requirement
    | EnumDeclaration
    | TableDeclaration
    | SharedFixture
    | Example
    | CaseTable
    | Property
)


@tree_node(frozen=True, slots=True)
class Override(SyntaxNode):
    """`override "reason"` before an item, which replaces the one of the same name before it; `position` among items."""

    position: int
    reason: TextLiteral


@tree_node(frozen=True, slots=True)
class Comment(SyntaxNode):
    """`-- …` without its line end."""

    text: str


@tree_node(frozen=True, slots=True)
class SyntaxTree:
    """A whole file in its order. Comments are kept beside the tree; only the formatter reads them.

    `language` is the level that the file states, `stated_at` where; a file that states none is level 1.
    """

    items: tuple[Item, ...]
    comments: tuple[Comment, ...] = field(default=(), compare=False)
    language: int = 1
    stated_at: Span | None = field(default=None, compare=False)
    overrides: tuple[Override, ...] = ()
