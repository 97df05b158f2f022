"""What every part of the generator writes with: operands, charges, failures, sites and proof nodes.

Pure. An emission is a Python generator: it asks for the parts of its expression one after another (`yield part`), gets
each part's operand back once the code that computes it is written, and returns its own operand. So the order in the
generated source is the order of evaluation, and no expression is too deep for Python's stack.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from bpc.core import canon
from bpc.core.canon import Json
from bpc.core.rules.evaluating.listing import Listing
from bpc.core.rules.evaluating.state import NODES, REACHED, SET_NODE, STEPS_LEFT
from bpc.core.rules.evaluating.writing import writer_of
from bpc.core.rules.failure import (
    MAGNITUDE,
    STEPS,
    TEXT_LENGTH,
    ZERO,
    AssertionFailed,
    DividedByZero,
    LimitExceeded,
    RuleFailure,
)
from bpc.core.rules.source import Source, Span
from bpc.core.rules.typed import Expr
from bpc.core.rules.types import BOOL, INT, Type, contains_fact, is_unit_size

Mode: TypeAlias = Literal["values", "cover", "proof"]
"""Values only; values and which sites were reached; values and the nodes of their proof."""

Emission: TypeAlias = Generator[Expr, "Operand", "Operand"]

# In proof mode each function starts with these: `q` are the nodes made, by what they say, and `p` adds to them.
PROOF_HEADER: Final = (f"p = s[{SET_NODE}]", f"q = s[{NODES}]")


class Operand(NamedTuple):
    """What an expression gave: a Python atom, and the atom of its node's id, empty where no node is made."""

    value: str
    node: str = ""


class Site(NamedTuple):
    """Something tests can reach. The label is a field's path, `then`, `else`, `&&`, `||`, or an assertion's code."""

    kind: Literal["field", "branch", "assertion"]
    span: Span
    label: str


class Emitter:
    """Writes into a listing for one mode. `fields` are the places of the fields in the order of evaluation."""

    def __init__(self, listing: Listing, mode: Mode, fields: Mapping[str, int], source: Source) -> None:
        self.listing = listing
        self.mode = mode
        self.fields = fields
        self.source = source
        self.sites: list[Site] = []
        self.fields_read: set[int] = set()
        # One table for all scopes: a name is unique where it is visible.
        self.scope: dict[str, Operand] = {}
        self.field: str | None = None
        # Inside a lambda: the temporary that gathers the nodes it reads. No other nodes are made there.
        self.reads: str | None = None
        self._failures: list[tuple[type[RuleFailure], tuple[str, ...], str | None, Span]] = []
        listing.names["fail"] = self._failed

    @property
    def proving(self) -> bool:
        return self.mode == "proof" and self.reads is None

    # Failures and charges

    def _failing(self, failure: type[RuleFailure], says: tuple[str, ...], span: Span) -> str:
        self._failures.append((failure, says, self.field, span))
        return f"raise fail({len(self._failures) - 1})"

    def _failed(self, number: int) -> RuleFailure:
        failure, says, field, span = self._failures[number]
        return failure(*says, field=field, span=span)

    def too_large(self, span: Span) -> str:
        return self._failing(LimitExceeded, (MAGNITUDE,), span)

    def too_long(self, span: Span) -> str:
        return self._failing(LimitExceeded, (TEXT_LENGTH,), span)

    def by_zero(self, span: Span) -> str:
        return self._failing(DividedByZero, (ZERO,), span)

    def not_held(self, code: str, message: str, span: Span) -> str:
        return self._failing(AssertionFailed, (code, message), span)

    def charge(self, steps: int | str, span: Span) -> None:
        """Take `steps` (a number or an expression of one) from what is left, or fail."""
        failing = self._failing(LimitExceeded, (STEPS,), span)
        left = self.listing.kept(f"s[{STEPS_LEFT}] - {steps}")
        self.listing.line(f"if {left} < 0: {failing}")
        self.listing.line(f"s[{STEPS_LEFT}] = {left}")

    def reached(self, kind: Literal["field", "branch", "assertion"], span: Span, label: str) -> None:
        if self.mode == "cover":
            self.listing.line(f"s[{REACHED}][{len(self.sites)}] = 1")
            self.sites.append(Site(kind, span, label))

    # Nodes

    def node(self, kind: str, data: str, children: Sequence[str], *, bounded: bool = True) -> str:
        """The id of the node that says this: an earlier one's, or the next. `data` is an expression of its text.

        What is not `bounded` may say a large value, and is counted so that the nodes stay within memory.
        """
        key = f"({kind}, {data}, ({', '.join(children)}{',' if len(children) == 1 else ''}))"
        next_id = f"{len(self.fields) + 1} + len(q)"
        return self.listing.kept(f"p({key}, {next_id})" if bounded else f"large_node(s, {key}, {next_id})")

    def read_node(self, kind: str, data: str, children: Sequence[str]) -> str:
        """A FIELD_REF or FACT_GET: made inside lambdas too, and gathered there for the outermost loop's node."""
        made = self.node(kind, data, children)
        if self.reads is not None:
            self.listing.line(f"{self.reads}[{made}] = None")
        return made

    def said(self, **data: Json) -> str:
        """The name of a node's data that is known from the rules alone."""
        return self.listing.text(canon.encode_typed(data).decode())

    def _valued(self, data: Mapping[str, Json], kind: Type, value: str) -> str:
        """An expression of a node's data that ends with the value found; `value` sorts behind all others."""
        if contains_fact(kind):
            return self.said(**data)
        before = canon.encode_typed(data).decode()[:-1] + ',"value":'
        return f"{self.listing.text(before)} + {self.written(kind, value)} + '}}'"

    def op(self, op: str, kind: Type, value: str, children: Sequence[Operand], **data: Json) -> Operand:
        """The operand `value` with its OP node, if nodes are made here."""
        if not self.proving:
            return Operand(value)
        text = self._valued({**data, "op": op}, kind, value)
        nodes = [child.node for child in children]
        return Operand(value, self.node("OP", text, nodes, bounded=is_unit_size(kind)))

    def built(self, kind: str, value: str, children: Sequence[Operand], **data: Json) -> Operand:
        """The same for nodes that do not repeat their value."""
        if not self.proving:
            return Operand(value)
        return Operand(value, self.node(kind, self.said(**data), [child.node for child in children]))

    def written(self, kind: Type, value: str) -> str:
        """An expression of the value as canonical JSON text."""
        if kind == BOOL:
            return f"('true' if {value} else 'false')"
        if kind == INT:
            return f"str({value})"
        return f"{self.writer(kind)}({value})"

    def writer(self, kind: Type) -> str:
        return self.listing.entry("w", kind, lambda: writer_of(kind))
