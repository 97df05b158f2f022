"""A checked package: its fields, its definitions, and its tests with their fixtures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from bpc.core.language.source import Source, Span
from bpc.core.language.tree_nodes import tree_node
from bpc.core.language.typed.expressions import Const, Expr, Layer, RequirementCheck, RequirementsMet, Value
from bpc.core.language.types import EnumType, FactRecordType, Type


class FieldTranslation(NamedTuple):
    """A label and a help in another language than English; None where there is none."""

    label: str | None = None
    help: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldAbout:
    """What a field is, for people. It is no part of a passport's payload or proof, and changes no value.

    `point` is the data point that the field serves, such as "10", or "43.2" for a part of one. `label` and `help` are
    English; `translations` has those of other languages, by their codes.
    """

    point: str | None
    label: str
    group: str | None = None
    order: int | None = None
    citation: str | None = None
    unit: str | None = None
    help: str | None = None
    translations: Mapping[str, FieldTranslation] = field(default_factory=dict, hash=False)

    @property
    def point_number(self) -> int | None:
        """The number of the data point, without the part."""
        return None if self.point is None else int(self.point.partition(".")[0])

    def get_label(self, language: str) -> str:
        """The label in a language, or else the English one."""
        return self.translations.get(language, FieldTranslation()).label or self.label

    def get_help(self, language: str) -> str | None:
        return self.translations.get(language, FieldTranslation()).help or self.help

    def as_json(self) -> dict[str, object]:
        return {
            "point": self.point,
            "label": self.label,
            "group": self.group,
            "order": self.order,
            "citation": self.citation,
            "unit": self.unit,
            "help": self.help,
            "translations": {
                language: {"label": translation.label, "help": translation.help}
                for language, translation in sorted(self.translations.items())
            },
        }


@tree_node(frozen=True, slots=True)
class ProgramField:
    """A rule. `access` is sorted; `needs` are the paths it reads, sorted; `span` is its path in the text.

    `needs` also names what definitions read for it. A field that needs a definition which may be missing
    (`can_be_missing`) is then absent: its `type` is an option of the `declared_type`. `extent` is its expression in the
    text; the field of all requirements has none.
    """

    path: str
    access: tuple[str, ...]
    type: Type
    body: Expr
    needs: tuple[str, ...]
    span: Span
    declared_type: Type
    can_be_missing: bool = False
    about: FieldAbout | None = None
    extent: Span | None = None
    layer: Layer | None = None  # the one that the rule insists on

    @property
    def display_name(self) -> str:
        """What a sentence calls the field: its label with the path in brackets, or the path."""
        return self.path if self.about is None else f"{self.about.label} ({self.path})"


@tree_node(frozen=True, slots=True)
class MissingValue:
    """What is said where a definition has no value: the code and the message of the entries."""

    code: str
    message: str


@tree_node(frozen=True, slots=True)
class ProgramDefinition:
    """A constant or a definition. `needs` are the fields it reads, directly or through others.

    The body of one that says what is `missing` gives an option; the definition is what is in it. `can_be_missing` says
    whether this one, or one that it needs, may be missing. `extent` is its expression in the text.
    """

    name: str
    type: Type
    body: Expr
    missing: MissingValue | None
    needs: tuple[str, ...]
    can_be_missing: bool
    span: Span
    extent: Span
    layer: Layer | None = None


@tree_node(frozen=True, slots=True)
class FixtureFact:
    """A fact of a test; `payload` None asks for any."""

    fact: FactRecordType
    key: str
    payload: Mapping[str, object] | None
    span: Span


@tree_node(frozen=True, slots=True)
class Fixtures:
    """The world of a test, defaults filled in. `issued_on` is a day."""

    product_sku: str
    product_name: str
    issued_on: str
    facts: tuple[FixtureFact, ...]


@tree_node(frozen=True, slots=True)
class TypedExpectation:
    """The field's value compared with a constant of a type it compares with (for Decs: any scale)."""

    path: str
    op: Literal["==", "!=", "<", "<=", ">", ">="]
    constant: Const
    span: Span
    because: str | None = None


@tree_node(frozen=True, slots=True)
class TypedErrorExpectation:
    code: str
    span: Span
    because: str | None = None


@tree_node(frozen=True, slots=True)
class TypedFindingExpectation:
    """The findings with this code have this status; status None: there are none.

    They have this message and this verdict, if there is one, and these of their arguments.
    """

    code: str
    status: str | None
    message: str | None
    span: Span
    because: str | None = None
    verdict: str | None = None
    args: tuple[tuple[str, str], ...] = ()


AnyTypedExpectation: TypeAlias = TypedExpectation | TypedErrorExpectation | TypedFindingExpectation


@tree_node(frozen=True, slots=True)
class TypedExample:
    """`source` is the text its spans point into: the rules file, or a tests file beside it."""

    name: str
    fixtures: Fixtures
    expectations: tuple[AnyTypedExpectation, ...]
    source: Source
    span: Span


@tree_node(frozen=True, slots=True)
class TypedClaim:
    """`forall variable: type . implies(premise, conclusion)`; each side is a block."""

    variable: str
    type: Type
    premise: Expr
    conclusion: Expr
    span: Span


@tree_node(frozen=True, slots=True)
class TypedProperty:
    name: str
    cases: int
    seed: int
    fixtures: Fixtures
    claims: tuple[TypedClaim, ...]
    source: Source
    span: Span


@tree_node(frozen=True, slots=True)
class ProgramFunction:
    """A function of the rules. `needs` are the fields that it reads, directly or through others."""

    name: str
    parameters: tuple[str, ...]
    body: Expr
    needs: tuple[str, ...]
    span: Span


def list_requirements(program: "Program") -> tuple[RequirementCheck, ...]:
    """The requirements of a program, in the order of the text."""
    bodies = (field.body for field in program.fields)
    return next((body.items for body in bodies if isinstance(body, RequirementsMet)), ())


@tree_node(frozen=True, slots=True)
class AppliedOverride:
    """Something that was replaced: its kind (`field`, `const`, `cases`), its name and why. `span` is the `override`.

    Of a constant `before` and `after` are what it was and is, of a table the rows that differ; else they are None.
    """

    kind: str
    name: str
    reason: str
    weakens: bool
    source: Source
    span: Span
    before: str | None = None
    after: str | None = None

    def as_json(self) -> dict[str, object]:
        place = self.source.find_place(self.span.start)
        values = {} if self.before is None else {"before": self.before, "after": self.after}
        return {
            "kind": self.kind,
            "name": self.name,
            "reason": self.reason,
            "weakens": self.weakens,
            "file": place.file,
            "line": place.line,
            **values,
        }


class TypedRange(NamedTuple):
    """From `low` on, up to and not including `high`; None where a side is open."""

    low: int | str | None
    high: int | str | None


@tree_node(frozen=True, slots=True)
class TypedRow:
    """A row: for each column its keys, or a range, as rules hold values."""

    cells: tuple[tuple[Value, ...] | TypedRange, ...]
    value: Value
    cite: str | None
    span: Span


@tree_node(frozen=True, slots=True)
class TypedTable:
    """A table. For any arguments at most one row applies: rows that overlap are an error."""

    name: str
    columns: tuple[tuple[str, Type], ...]
    type: Type
    cite: str | None
    rows: tuple[TypedRow, ...]
    span: Span

    @property
    def range_column(self) -> int | None:
        """The position of the column whose cells are ranges."""
        cells = enumerate(self.rows[0].cells if self.rows else ())
        return next((position for position, cell in cells if isinstance(cell, TypedRange)), None)


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A rule package that means something: its fields in evaluation order, the fact types they name, its tests."""

    source: Source
    fields: tuple[ProgramField, ...]
    facts: tuple[FactRecordType, ...]
    examples: Sequence[TypedExample] = ()
    properties: tuple[TypedProperty, ...] = ()
    language: int = 1
    definitions: tuple[ProgramDefinition, ...] = ()
    enums: tuple[EnumType, ...] = ()
    tables: tuple[TypedTable, ...] = ()
    overrides: tuple[AppliedOverride, ...] = ()
    functions: tuple[ProgramFunction, ...] = ()

    @property
    def bodies(self) -> tuple[Expr, ...]:
        """Every expression of the rules, outside of tests."""
        return (
            *(field.body for field in self.fields),
            *(definition.body for definition in self.definitions),
            *(function.body for function in self.functions),
        )
