"""What the checker knows while it reads one expression, and how it goes from one expression into the next.

Checking is bidirectional: `check(node, want)` gives the typed node of type `want`, or of whatever type the node has if
`want` is None. Where something is wrong it is reported once and the answer is None: whoever gets None says nothing
more, so that one mistake makes one message. All types are interned (interning.py): equal is `is`.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bpc.core.rules import syntax, typed
from bpc.core.rules.checking.findings import Findings
from bpc.core.rules.checking.interning import Types, fits
from bpc.core.rules.checking.scope import Scope
from bpc.core.rules.nearest import Suggestions
from bpc.core.rules.source import Note, Span
from bpc.core.rules.types import MAX_TYPE_DEPTH, MAX_TYPE_PARTS, Fact, Opt, Record, Type
from bpc.core.schemas import SCHEMAS

Node: TypeAlias = syntax.Expr
Handler: TypeAlias = "Callable[[Checking, Any, Type | None], typed.Expr | None]"

_QUOTED: Final = 40


@dataclass(frozen=True, slots=True)
class Declared:
    """A field as others see it. `type` is None if what was declared is no type; `type_span` lies in the rules."""

    type: Type | None
    access: tuple[str, ...]
    span: Span
    type_span: Span


# A field whose rule could not be parsed.
UNREAD: Final = Declared(None, ("public",), Span(0, 0), Span(0, 0))


class Shared:
    """What all texts of a package have in common."""

    __slots__ = ("_members", "_paths", "facts", "fields", "suggestions", "types")

    def __init__(self) -> None:
        self.types = Types()
        self.suggestions = Suggestions()
        self.fields: dict[str, Declared] = {}
        # The fact types named so far.
        self.facts: set[Fact] = set()
        self._members: dict[int, Mapping[str, Type]] = {}
        self._paths: list[str] = []

    def members_of(self, kind: Fact | Record) -> Mapping[str, Type]:
        """What can be read of a record, made once for each type."""
        found = self._members.get(id(kind))
        if found is None:
            members = SCHEMAS[kind].items() if isinstance(kind, Fact) else kind.members
            found = self._members[id(kind)] = {name: self.types.of(item) for name, item in members}
        return found

    def inside(self, group: str) -> list[str]:
        """The paths of the fields in a group, once all are declared."""
        if len(self._paths) < len(self.fields):
            self._paths = sorted(self.fields)
        # `/` is the character after the `.`
        first, end = (bisect_left(self._paths, f"{group}{sign}") for sign in "./")
        return self._paths[first:end]


class Checking:
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

    def __init__(self, shared: Shared, findings: Findings, handlers: Mapping[type, Handler], *, in_rules: bool) -> None:
        self.shared = shared
        self.types = shared.types
        self.fields = shared.fields
        self.findings = findings
        self.handlers = handlers
        # Whether this is the text the fields are declared in: only then a note can point at a declaration.
        self.in_rules = in_rules
        self.scope = Scope()
        # Whether what is being checked has a type to be held to; if its declaration is wrong, it lacks one by mistake.
        self.is_declared = True
        # The rule that is being checked, the fields it reads and where it first does.
        self.rule: str | None = None
        self.reads: dict[str, Span] = {}
        # Where the type that is wanted comes from: a place in words, or an expression that has it.
        self.because: Note | tuple[Node, Type] | None = None

    def check(self, node: Node, want: Type | None = None) -> typed.Expr | None:
        """The typed node, of type `want` if one is wanted; None after a mistake that was reported."""
        made = self.handlers[type(node)](self, node, want)
        if made is None or want is None or made.type is want:
            return made
        return self.handlers[Mismatch](self, Mismatch(node, made.type), want)

    def check_unless_option(self, node: Node, want: Type | None) -> typed.Expr | None:
        """The same, but an option is let through, whatever is wanted: the caller has more to say about it."""
        made = self.handlers[type(node)](self, node, want)
        if made is None or want is None or made.type is want or isinstance(made.type, Opt):
            return made
        return self.handlers[Mismatch](self, Mismatch(node, made.type), want)

    def check_because(self, node: Node, want: Type, because: Note | tuple[Node, Type]) -> typed.Expr | None:
        """The same, and a message can say where the wanted type comes from."""
        outer, self.because = self.because, because
        made = self.check(node, want)
        self.because = outer
        return made

    def error(
        self, kind: str, span: Span, says: str, *, hint: str | None = None, notes: tuple[Note | None, ...] = ()
    ) -> None:
        """Report a mistake. Callers answer None afterwards."""
        self.findings.error(kind, span, says, hint=hint, notes=tuple(note for note in notes if note is not None))

    def shown(self, kind: Type) -> str:
        return self.types.shown(kind)

    def quoted(self, node: Node) -> str:
        """The user's words for a help line, or `…` where they are long."""
        return self.quoted_span(node.span)

    def quoted_span(self, span: Span) -> str:
        text = self.findings.source.text[span.start : span.end]
        return text if len(text) <= _QUOTED and "\n" not in text and "--" not in text else "…"

    def sized(self, kind: Type, span: Span) -> Type | None:
        """A type just made, unless it is too large to be one."""
        if fits(kind):
            return kind
        self.error(
            "type-too-large",
            span,
            f"this has a type of more than {MAX_TYPE_PARTS:,} parts or {MAX_TYPE_DEPTH} levels",
            hint="make several smaller fields of it",
        )
        return None


@dataclass(frozen=True, slots=True)
class Mismatch:
    """An expression that has another type than the one wanted; its handler explains it."""

    node: Node
    got: Type
