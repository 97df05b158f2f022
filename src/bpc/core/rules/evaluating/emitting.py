"""What every part of the generator writes with: operands, charges, failures, sites and proof nodes.

Pure. An emission is a Python generator: it asks for the parts of its expression one after another (`yield part`), gets
each part's operand back once the code that computes it is written, and returns its own operand. So the order in the
generated source is the order of evaluation, and no expression is too deep for Python's stack.
"""

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from bpc.core import canon, proof
from bpc.core.canon import Json
from bpc.core.rules.evaluating.lengths import length_of
from bpc.core.rules.evaluating.listing import Listing
from bpc.core.rules.evaluating.runtime import Maker, bool_node, large_node, number_node, plain_node, value_node
from bpc.core.rules.evaluating.state import NODES, REACHED, STEPS_LEFT
from bpc.core.rules.evaluating.writing import writer_of
from bpc.core.rules.failure import (
    MAGNITUDE,
    MAX_TEXT,
    STEPS,
    TEXT_LENGTH,
    ZERO,
    AssertionFailed,
    DividedByZero,
    LimitExceeded,
    RuleFailure,
)
from bpc.core.rules.source import Source, Span
from bpc.core.rules.typed import Expr, Step
from bpc.core.rules.types import BOOL, Type, contains_fact, is_unit_size

Mode: TypeAlias = Literal["values", "cover", "proof"]
"""Values only; values and which sites were reached; values and the nodes of their proof."""

Emission: TypeAlias = Generator[Expr, "Operand", "Operand"]

# So many characters of a text count as one (BPC-COST-1).
TEXT_UNIT: Final = 64
# In proof mode each function starts with this: `q` are the nodes made, by what they say.
PROOF_HEADER: Final = (f"q = s[{NODES}]",)


class Operand(NamedTuple):
    """What an expression gave: a Python atom, and the atom of its node's id, empty where no node is made."""

    value: str
    node: str = ""


class Site(NamedTuple):
    """Something tests can reach. The label is a field's path, `then`, `else`, `&&`, `||`, or an assertion's code."""

    kind: Literal["field", "branch", "assertion"]
    span: Span
    label: str


class Said(NamedTuple):
    """What stands around a value of the type `kind` in a node's data."""

    before: str
    kind: Type
    behind: str = "}"


class Known(NamedTuple):
    """A type (held, so that no other gets its identity) and what follows from it. Equal types have one number."""

    kind: Type
    number: int
    holds_facts: bool
    is_unit_size: bool


class Emitter:
    """Writes into a listing for one mode. `fields` are the places of the fields in the order of evaluation."""

    def __init__(self, listing: Listing, mode: Mode, fields: Mapping[str, int], source: Source) -> None:
        self.listing = listing
        self.mode = mode
        self.fields = fields
        # Outside the fields: a field is computed when it is read.
        self.lazy = False
        self.source = source
        self.sites: list[Site] = []
        # One table for all scopes: a name is unique where it is visible.
        self.scope: dict[str, Operand] = {}
        self.field: str | None = None
        # Inside a lambda: the temporary that gathers the nodes it reads. No other nodes are made there.
        self.reads: str | None = None
        self._failures: list[tuple[type[RuleFailure], tuple[str, ...], str | None, Span]] = []
        self._known: dict[int, Known] = {}
        self._numbers: dict[Type, int] = {}
        listing.names.update(fail=self._failed, charge=self._charged, joined=self._joined)

    @property
    def proving(self) -> bool:
        return self.mode == "proof" and self.reads is None

    # Failures and charges

    def _failure(self, failure: type[RuleFailure], says: tuple[str, ...], span: Span) -> int:
        self._failures.append((failure, says, self.field, span))
        return len(self._failures) - 1

    def _failing(self, failure: type[RuleFailure], says: tuple[str, ...], span: Span) -> str:
        return f"raise fail({self._failure(failure, says, span)})"

    def _failed(self, number: int) -> RuleFailure:
        failure, says, field, span = self._failures[number]
        return failure(*says, field=field, span=span)

    def too_large(self, span: Span) -> str:
        return self._failing(LimitExceeded, (MAGNITUDE,), span)

    def by_zero(self, span: Span) -> str:
        return self._failing(DividedByZero, (ZERO,), span)

    def not_held(self, code: str, message: str, span: Span) -> str:
        return self._failing(AssertionFailed, (code, message), span)

    def charge(self, steps: int | str, span: Span) -> None:
        """Take `steps` (a number or an expression of one) from what is left, or fail."""
        failure = self._failure(LimitExceeded, (STEPS,), span)
        if self.mode == "proof":  # shorter; where there is no proof to be made, a call would be felt
            self.listing.line(f"charge(s, {steps}, {failure})")
            return
        left = self.listing.kept(f"s[{STEPS_LEFT}] - {steps}")
        self.listing.line(f"if {left} < 0: raise fail({failure})")
        self.listing.line(f"s[{STEPS_LEFT}] = {left}")

    def _charged(self, state: list[Any], steps: int, failure: int) -> None:
        left = state[STEPS_LEFT] - steps
        if left < 0:
            raise self._failed(failure)
        state[STEPS_LEFT] = left

    def joined(self, parts: str, span: Span) -> str:
        """An expression of the text that is joined of `parts`, values separated by commas."""
        too_long = self._failure(LimitExceeded, (TEXT_LENGTH,), span)
        too_many = self._failure(LimitExceeded, (STEPS,), span)
        return f"joined(s, {too_long}, {too_many}, {parts})"

    def _joined(self, state: list[Any], too_long: int, too_many: int, *parts: str) -> str:
        """The length is checked and charged before there is a text of that length; most are too short for either."""
        length = sum(map(len, parts))
        if length >= TEXT_UNIT:
            if length > MAX_TEXT:
                raise self._failed(too_long)
            self._charged(state, length // TEXT_UNIT, too_many)
        return "".join(parts)

    def reached(self, kind: Literal["field", "branch", "assertion"], span: Span, label: str) -> None:
        if self.mode == "cover":
            self.listing.line(f"s[{REACHED}][{len(self.sites)}] = 1")
            self.sites.append(Site(kind, span, label))

    # Nodes

    def node(self, make: str, atoms: Sequence[str], *, large: bool = False) -> str:
        """The id of the node that the function `make` makes of these; what may be large is counted in the state."""
        return self.listing.kept(_call(make, "s" if large else "q", atoms))

    def maker(self, key: Hashable, make: Callable[[int], Maker]) -> str:
        """The name of a function that makes nodes, `make` given the id of the first step."""
        return self.listing.entry("n", key, lambda: make(len(self.fields) + 1))

    def plain_node(self, kind: str, data: str, children: Sequence[str]) -> str:
        """One that says what is known from the rules alone: `data` is its text."""
        return self.node(self.maker((kind, data), lambda first: plain_node(kind, data, first)), children)

    def read(self, node: str) -> str:
        """A FIELD_REF or FACT_GET: made inside lambdas too, and gathered there for the outermost loop's node."""
        if self.reads is not None:
            self.listing.line(f"{self.reads}[{node}] = None")
        return node

    def large_node(self, key: Hashable, say: Callable[[], Said], atoms: Sequence[str]) -> str:
        """An OP that says the first atom, a value that may be large; the others are its children."""

        def make_one(first: int) -> Maker:
            before, kind, behind = say()
            return large_node(before, (writer_of(kind), length_of(kind)), behind, first)

        return self.node(self.maker(("large", key), make_one), atoms, large=True)

    def op(self, op: str, kind: Type, value: str, children: Sequence[Operand], **data: str | int) -> Operand:
        """The operand `value` with its OP node, if nodes are made here."""
        if not self.proving:
            return Operand(value)
        nodes = [child.node for child in children]
        known = self.known(kind)
        if known.holds_facts:
            return Operand(value, self.plain_node(proof.OP, said(op=op, **data), nodes))
        key = (op, *data.items(), known.number)
        if not known.is_unit_size:
            return Operand(value, self.large_node(key, lambda: Said(_before_value(op, data), kind), [value, *nodes]))
        return Operand(value, self.node(self.maker(key, _value_maker(op, data, kind)), [value, *nodes]))

    def renew(self, node: str, op: str, value: str, children: Sequence[str]) -> None:
        """Set the temporary `node` to the OP node of a Bool."""
        make = self.maker((op, self.known(BOOL).number), _value_maker(op, {}, BOOL))
        self.listing.line(f"{node} = {_call(make, 'q', [value, *children])}")

    def limited_node(self, step: Step, most: int, value: str, sides: Sequence[Operand]) -> str:
        """The node of an arithmetic operator, which refuses a number that is not below `most`."""
        op, kind = step.op, step.type
        failure = self._failure(LimitExceeded, (MAGNITUDE,), step.span)

        def make_one(first: int) -> Maker:
            return number_node(_before_value(op, {}), writer_of(kind), first, most, self._failed)

        make = self.maker(("limited", op, kind), make_one)
        return self.node(make, [value, str(failure), *(side.node for side in sides)])

    def built(self, kind: str, value: str, children: Sequence[Operand], **data: Json) -> Operand:
        """The same for nodes that do not repeat their value."""
        if not self.proving:
            return Operand(value)
        return Operand(value, self.plain_node(kind, said(**data), [child.node for child in children]))

    def known(self, kind: Type) -> Known:
        """What follows from a type. By identity, because a type may have a thousand parts, and be that of every let."""
        known = self._known.get(id(kind))
        if known is None:
            number = self._numbers.setdefault(kind, len(self._numbers))
            known = self._known[id(kind)] = Known(kind, number, contains_fact(kind), is_unit_size(kind))
        return known


def said(**data: Json) -> str:
    """A node's data that is known from the rules alone."""
    return canon.encode_typed(data).decode()


def _call(make: str, first: str, atoms: Sequence[str]) -> str:
    return f"{make}({', '.join([first, *atoms])})"


def _before_value(op: str, data: Mapping[str, Json]) -> str:
    """What a node says up to its value; `value` sorts behind all other members."""
    return f'{said(op=op, **data)[:-1]},"value":'


def _value_maker(op: str, data: Mapping[str, Json], kind: Type) -> Callable[[int], Maker]:
    if kind == BOOL:
        return lambda first: bool_node(_before_value(op, data), first)
    return lambda first: value_node(_before_value(op, data), writer_of(kind), first)
