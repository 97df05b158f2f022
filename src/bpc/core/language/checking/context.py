"""The state of the checker: findings of one text, variables in scope, and what a package shares.

`Checker.check` gives the typed expression, or None after a mistake that it has reported; the caller of a failed check
reports nothing more. Checking stops after `MAX_ERRORS` errors: the first ones are enough to start fixing.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from bpc.core.facts.schemas import SCHEMAS
from bpc.core.language import syntax, typed
from bpc.core.language.linking import LinkedSource
from bpc.core.language.source import (
    MAX_ERRORS,
    Diagnostic,
    DiagnosticNote,
    Source,
    Span,
    TooManyErrors,
    create_stop_diagnostic,
    sort_diagnostics,
)
from bpc.core.language.suggestions import Suggestions
from bpc.core.language.types import (
    MAX_TYPE_DEPTH,
    MAX_TYPE_PARTS,
    EnumType,
    FactRecordType,
    Opt,
    Record,
    Type,
    TypeTable,
    is_allowed_size,
)

Node: TypeAlias = syntax.Expr
Handler: TypeAlias = "Callable[[Checker, Any, Type | None], typed.Expr | None]"

_MAX_QUOTED: Final = 40


_T = TypeVar("_T")


def require_all(items: Sequence[_T | None]) -> tuple[_T, ...] | None:
    """All items, or None if one of them is None: then a mistake was reported."""
    present = tuple([item for item in items if item is not None])
    return present if len(present) == len(items) else None


class LocatedDiagnostic(NamedTuple):
    """A diagnostic and the text it is about."""

    source: Source
    diagnostic: Diagnostic


class Findings:
    """The diagnostics of one text."""

    __slots__ = ("_said", "errors", "source", "warnings")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.errors: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []
        self._said: set[tuple[str, Span]] = set()

    def error(self, kind: str, span: Span, message: str, hint: str | None, notes: tuple[DiagnosticNote, ...]) -> None:
        """Add an error; the same message about the same place is added once."""
        if (message, span) in self._said:
            return
        self._said.add((message, span))
        self.errors.append(Diagnostic(kind=kind, message=message, span=span, help=hint, notes=notes))
        if len(self.errors) == MAX_ERRORS:
            raise TooManyErrors

    def warning(self, kind: str, span: Span, message: str, hint: str | None, *notes: DiagnosticNote) -> None:
        if len(self.warnings) < MAX_ERRORS:
            self.warnings.append(Diagnostic(kind=kind, message=message, span=span, help=hint, notes=notes))

    def count(self) -> int:
        """How much was found so far."""
        return len(self.errors) + len(self.warnings)

    def report_stop(self) -> None:
        """Add, after the last error, that checking stopped."""
        end = len(self.source.text)
        self.errors.append(create_stop_diagnostic(Span(end, end)))

    def list_located(self) -> list[LocatedDiagnostic]:
        """Everything, sorted by place."""
        return [
            LocatedDiagnostic(self.source, diagnostic)
            for diagnostic in sort_diagnostics([*self.errors, *self.warnings])
        ]


@dataclass(slots=True, eq=False)
class BoundVariable:
    """A variable. `type` is None if its value has a mistake; `value` is what a let binds, or a parameter's list."""

    type: Type | None
    span: Span
    by: Literal["let", "parameter", "forall"]
    value: syntax.Expr | None
    level: int
    used: bool = False


class Scope:
    """The variables visible at one place."""

    __slots__ = ("_lambdas", "names")

    def __init__(self) -> None:
        self.names: dict[str, BoundVariable] = {}
        # For each lambda around the place, outermost first: the outer variables it uses, and where it first uses each.
        # The order of checking can differ from the order of the text.
        self._lambdas: list[dict[str, int]] = []

    @property
    def level(self) -> int:
        return len(self._lambdas)

    def bind(self, name: str, variable: BoundVariable) -> BoundVariable | None:
        """Make a name visible. Returns the variable that had this name, for `unbind`."""
        before = self.names.get(name)
        self.names[name] = variable
        return before

    def unbind(self, name: str, before: BoundVariable | None) -> None:
        if before is None:
            del self.names[name]
        else:
            self.names[name] = before

    def mention(self, name: str, at: int) -> BoundVariable | None:
        """Look up a variable for use. Every lambda between its binding and this place captures it."""
        variable = self.names.get(name)
        if variable is not None:
            variable.used = True
            for mentioned in self._lambdas[variable.level :]:
                mentioned[name] = min(at, mentioned.get(name, at))
        return variable

    def enter_lambda(self) -> None:
        self._lambdas.append({})

    def leave_lambda(self) -> tuple[str, ...]:
        """The outer variables that the lambda uses, in order of first use."""
        mentioned = self._lambdas.pop()
        return tuple(sorted(mentioned, key=mentioned.__getitem__))


@dataclass(frozen=True, slots=True)
class FieldDeclaration:
    """A declared field. `type` is None if its declaration is wrong; `type_span` is a place in the rules.

    `can_be_missing` is known once all rules are checked: whether it is absent where a definition is missing. `extent`
    is its expression in the rules.
    """

    type: Type | None
    access: tuple[str, ...]
    span: Span
    type_span: Span
    can_be_missing: bool = False
    about: typed.FieldAbout | None = None
    extent: Span | None = None
    layer: typed.Layer | None = None


@dataclass(slots=True, eq=False)
class DefinitionDeclaration:
    """A constant or definition. `type` is None if it has a mistake or could not be parsed."""

    type: Type | None
    span: Span
    is_constant: bool = False
    used: bool = False


def make_definition_key(name: str) -> str:
    """What a definition is called among the things a rule reads; no field has such a path."""
    return f"def {name}"


# A field whose rule could not be parsed.
UNPARSED_FIELD: Final = FieldDeclaration(None, ("public",), Span(0, 0), Span(0, 0))


class PackageContext:
    """What all texts of a package have in common."""

    __slots__ = (
        "_members",
        "_paths",
        "calls",
        "declared_at",
        "definitions",
        "enums",
        "enums_by_member",
        "facts",
        "fields",
        "language",
        "linked",
        "suggestions",
        "tables",
        "types",
    )

    def __init__(self, language: int = 1, source: Source | None = None) -> None:
        self.language = language
        # The rules, if they were linked from files.
        self.linked = source if isinstance(source, LinkedSource) else None
        self.types = TypeTable()
        self.suggestions = Suggestions()
        self.fields: dict[str, FieldDeclaration] = {}
        self.definitions: dict[str, DefinitionDeclaration] = {}
        self.enums: dict[str, EnumType] = {}
        self.enums_by_member: dict[str, list[EnumType]] = {}
        self.tables: dict[str, typed.TypedTable] = {}
        # How calls of what the package declares are checked.
        self.calls: dict[str, Handler] = {}
        # Where enumerations, tables and functions are declared.
        self.declared_at: dict[str, Span] = {}
        # The fact types named so far.
        self.facts: set[FactRecordType] = set()
        self._members: dict[int, Mapping[str, Type]] = {}
        self._paths: list[str] = []

    def get_members(self, kind: FactRecordType | Record) -> Mapping[str, Type]:
        """The members of a record type; computed once for each type."""
        known = self._members.get(id(kind))
        if known is None:
            members = SCHEMAS[kind].items() if isinstance(kind, FactRecordType) else kind.members
            known = self._members[id(kind)] = {name: self.types.intern(item) for name, item in members}
        return known

    def list_paths_in(self, group: str) -> list[str]:
        """The paths of the fields in a group, once all are declared."""
        if len(self._paths) < len(self.fields):
            self._paths = sorted(self.fields)
        # `/` is the character after the `.`
        first, end = (bisect_left(self._paths, f"{group}{sign}") for sign in "./")
        return self._paths[first:end]


class Checker:
    """One text being checked."""

    __slots__ = (
        "because",
        "fields",
        "findings",
        "handlers",
        "in_rules",
        "is_declared",
        "reads",
        "rule",
        "scope",
        "shared",
        "types",
    )

    def __init__(
        self, shared: PackageContext, findings: Findings, handlers: Mapping[type, Handler], *, in_rules: bool
    ) -> None:
        self.shared = shared
        self.types = shared.types
        self.fields = shared.fields
        self.findings = findings
        self.handlers = handlers
        # Whether the fields are declared in this text: only then can a note point at a declaration.
        self.in_rules = in_rules
        self.scope = Scope()
        # False while checking a field whose declared type is wrong: then a missing type is not worth another error.
        self.is_declared = True
        # The current rule, the fields and definitions it reads, and where it first reads each.
        self.rule: str | None = None
        self.reads: dict[str, Span] = {}
        # Why a type is wanted: a note, or an expression that has it.
        self.because: DiagnosticNote | tuple[Node, Type] | None = None

    def check(self, node: Node, want: Type | None = None, *, allow_option: bool = False) -> typed.Expr | None:
        """The typed node, of type `want` if one is wanted; None after a mistake that was reported.

        `allow_option` accepts an option of any type: the caller reports it.
        """
        expr = self.handlers[type(node)](self, node, want)
        if expr is None or want is None or expr.type is want or (allow_option and isinstance(expr.type, Opt)):
            return expr
        return self.handlers[Mismatch](self, Mismatch(node, expr.type), want)

    def check_because(self, node: Node, want: Type, because: DiagnosticNote | tuple[Node, Type]) -> typed.Expr | None:
        """The same; a message can say where the wanted type comes from."""
        outer, self.because = self.because, because
        expr = self.check(node, want)
        self.because = outer
        return expr

    def error(
        self, kind: str, span: Span, message: str, hint: str | None = None, *notes: DiagnosticNote | None
    ) -> None:
        """Report a mistake. The caller then returns None."""
        self.findings.error(kind, span, message, hint, tuple([note for note in notes if note is not None]))

    def sees(self, user: Span, declaration: Span | None) -> bool:
        """Whether something that is declared in the rules may be used at a place. Tests may use everything."""
        linked = self.shared.linked
        return linked is None or declaration is None or not self.in_rules or linked.sees(user, declaration)

    def format_type(self, kind: Type) -> str:
        return self.types.format_type(kind)

    def quote(self, node: Node) -> str:
        """The user's text for a help line, or `…` if it is long."""
        return self.quote_span(node.span)

    def quote_span(self, span: Span) -> str:
        text = self.findings.source.text[span.start : span.end]
        return text if len(text) <= _MAX_QUOTED and "\n" not in text and "--" not in text else "…"

    def require_allowed_size(self, kind: Type, span: Span) -> Type | None:
        """Return the type, or report that it is too large."""
        if is_allowed_size(kind):
            return kind
        message = f"this has a type of more than {MAX_TYPE_PARTS:,} parts or {MAX_TYPE_DEPTH} levels"
        self.error("type-too-large", span, message, "split it into several smaller fields")
        return None


@dataclass(frozen=True, slots=True)
class ScopedBody:
    """The body of `if some name = option then …`, in which the name stands for what is in the option."""

    name: syntax.Name
    type: Type | None
    option: Node
    body: Node

    @property
    def span(self) -> Span:
        return self.body.span


@dataclass(frozen=True, slots=True)
class Mismatch:
    """An expression whose type is not the wanted one; its handler reports it."""

    node: Node
    got: Type
