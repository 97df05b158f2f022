"""The steps and the nodes of the reference evaluator.

`Meter` counts steps as BPC-COST-1 says (docs/formats/cost.md), the same for every evaluator: a block (a field's
expression, a branch, the right side of `&&` and `||`, a lambda's body) is charged its weight when it is entered; a
value that joins a larger one is charged its size. `NodeTable` numbers nodes when they are first added; equal ones are
stored once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from bpc.core.errors import Refusal
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.language import typed
from bpc.core.language.evaluation import STEPS_MESSAGE, RuleLimitExceeded
from bpc.core.language.reference.values import split_text
from bpc.core.language.source import Span
from bpc.core.language.types import List, Map, Opt, Record, Type

TEXT_UNIT: Final = 64
# The built-ins that cost more than entering the block they stand in (docs/formats/cost.md).
CHARGED: Final = frozenset(
    {
        "some",
        "in",
        "concat",
        "contains",
        "trim",
        "sum",
        "sumDec",
        "sumQty",
        "present",
        "min",
        "max",
        "distinct",
        "split",
    }
)
MAX_KEPT_PROGRAMS: Final = 32
# The node of everything evaluated inside a lambda, where only reads have nodes.
NO_NODE: Final = -1


@lru_cache(maxsize=MAX_KEPT_PROGRAMS)
def keep_weights(_program: typed.Program) -> dict[int, int]:
    """The weights of a program's blocks by identity, for all its evaluations. What is kept here keeps the program."""
    return {}


class Meter:
    """Counts steps, and refuses a charge that would exceed `max_steps`."""

    def __init__(self, max_steps: int, weights: dict[int, int] | None = None) -> None:
        """`weights` are those of the blocks of a program that is kept (`keep_weights`)."""
        self.max_steps = max_steps
        self.steps = 0
        self.field: str | None = None
        self._weights: dict[int, int] = {} if weights is None else weights

    def charge(self, steps: int, span: Span) -> None:
        if self.steps + steps > self.max_steps:
            raise RuleLimitExceeded(STEPS_MESSAGE, field=self.field, span=span)
        self.steps += steps

    def enter(self, block: typed.Expr, span: Span) -> None:
        self.charge(self.compute_weight(block), span)

    def compute_weight(self, block: typed.Expr) -> int:
        """Cached by identity: the tree outlives the meter, and a block may be entered a million times."""
        weight = self._weights.get(id(block))
        if weight is None:
            weight = self._weights[id(block)] = max(1, count_weight(block))
        return weight

    def enter_else_if(self, branch: typed.TypedBranch) -> None:
        """Charge the `else` block that contains this `if` and its condition; its branches are blocks of their own."""
        weight = self._weights.get(id(branch))
        if weight is None:
            weight = self._weights[id(branch)] = 1 + count_weight(branch.condition)
        self.charge(weight, branch.span)

    def charge_parts(self, parts: Iterable[Any], span: Span) -> None:
        """Charge values that become part of a larger one: the size of each − 1."""
        room = self.max_steps - self.steps
        total = 0
        for part in parts:
            # Every other value has size 1.
            if isinstance(part, str | list | dict):
                total += measure_size(part, room - total + 1) - 1
                if total > room:
                    break
        self.charge(total, span)

    def charge_membership(self, kind: Type, value: Any, items: list[Any], span: Span) -> None:
        """Charge `in`: the number of elements, times the size of a value with parts."""
        size = 1
        if isinstance(kind.item if isinstance(kind, Opt) else kind, List | Map | Record):
            size = measure_size(value, self.max_steps - self.steps)
        self.charge(len(items) * size, span)

    def charge_comparison(self, kind: Type, left: Any, span: Span) -> None:
        """Charge `==` and `!=` of values with parts: the size of the left side."""
        if isinstance(kind.item if isinstance(kind, Opt) else kind, List | Map | Record):
            self.charge(measure_size(left, self.max_steps - self.steps), span)


def measure_size(value: Any, limit: int) -> int:
    """1 and the parts' sizes; a text counts one more for every 64 characters. Stops above `limit`."""
    total = 0
    pending = [value]
    while pending and total <= limit:
        part = pending.pop()
        total += 1 + len(part) // TEXT_UNIT if isinstance(part, str) else 1
        if isinstance(part, list):
            pending.extend(part)
        elif isinstance(part, dict):
            pending.extend(part.values())
    return total


def compute_charge(call: typed.BuiltinCall, values: list[Any], room: int) -> int:
    """What a call costs before it is computed; `room` limits how far a value is measured."""
    match call.op:
        case "contains" | "trim":
            return len(values[0]) // TEXT_UNIT
        case "sum" | "sumDec" | "sumQty" | "present":
            return len(values[0])
        case "min" | "max" if len(values) == 1:
            return len(values[0])
        case "distinct":
            return measure_size(values[0], room)
        case "split":
            return measure_size(split_text(call, *values), room)
        case _:
            return 0


def count_weight(block: typed.Expr) -> int:
    """Operators, calls, references, ifs, asserts, list and record literals in a block, outside the blocks inside it."""
    total = 0
    pending = [block]
    while pending:
        weight, parts = _weigh_expression(pending.pop())
        total += weight
        pending.extend(parts)
    return total


def _weigh_expression(expr: typed.Expr) -> tuple[int, Iterable[typed.Expr]]:
    """The weight of the expression itself, and those of its parts that are not blocks."""
    match expr:
        case typed.Arithmetic(_, first, steps):
            return len(steps), (first, *(step.operand for step in steps))
        case typed.Logic(_, _, first, operands) | typed.Coalesce(_, first, operands):
            return len(operands), (first,)
        case typed.TypedIf(_, branches):
            return 1, (branches[0].condition,)
        case typed.TypedMatch(_, subject):
            return 1, (subject,)
        case typed.TypedBlock(_, bindings, body):
            asserts = [binding.condition for binding in bindings if isinstance(binding, typed.TypedAssert)]
            values = [binding.value for binding in bindings if isinstance(binding, typed.TypedLet)]
            return len(asserts), (*asserts, *values, body)
        case _:
            return _weigh_simple_expression(expr)


def _weigh_simple_expression(expr: typed.Expr) -> tuple[int, Iterable[typed.Expr]]:
    parts: tuple[typed.Expr, ...]
    match expr:
        case typed.TypedUnary(_, _, operand):
            parts = (operand,)
        case typed.TypedComparison(_, _, _, left, right):
            parts = (left, right)
        case typed.Loop(_, _, items, init):
            parts = (items,) if init is None else (items, init)
        case typed.TypedRecord(_, members):
            parts = tuple(member for _, member in members)
        case typed.FunctionCall(_, _, arguments):
            parts = arguments
        case typed.TypedList(_, items) | typed.BuiltinCall(_, _, items) | typed.TableLookup(_, _, items):
            parts = items
        case typed.EmitCompliance(_, _, status, message):
            parts = (status, message)
        case typed.FactLookup(_, _, part) | typed.FactPrefixLookup(_, _, part) | typed.RequireSome(_, part):
            parts = (part,)
        case typed.RequirementsMet(_, checks):
            parts = checks
        case typed.FieldValue() | typed.DefinitionValue() | typed.RequirementCheck():
            parts = ()
        case _:
            return 0, ()
    return 1, parts


class TracedValue(NamedTuple):
    """A value, held as types.py says, and the node it has in the proof."""

    value: Any
    node: int


class LoopElement(NamedTuple):
    """The element a loop is at: which loop, the position in its list, and what is there."""

    loop: Span
    position: int
    value: Any


@dataclass(frozen=True, slots=True)
class DerivationNode:
    """One node; for people also the field it was first added in, and its place in the rules."""

    type: str
    data: dict[str, Json]
    children: list[int]
    field: str | None
    span: Span | None


class NodesTooLarge(Refusal):
    """The nodes would take more room than the caller allows."""

    code = "PROOF_TOO_LARGE"


class NodeTable:
    """The nodes added so far. Ids count from `first`; `max_bytes` limits their total size."""

    def __init__(self, first: int, max_bytes: int | None = None) -> None:
        self.first = first
        self.nodes: list[DerivationNode] = []
        self._ids: dict[bytes, int] = {}
        self._has_parent: set[int] = set()
        self._room = max_bytes

    def add(
        self,
        kind: str,
        data: dict[str, Json],
        children: Sequence[int] = (),
        *,
        field: str | None,
        span: Span | None,
    ) -> int:
        """Add a node unless an equal one exists; returns its id."""
        key = canonical_json.encode_typed([kind, data, list(children)])
        known_id = self._ids.get(key)
        if known_id is not None:
            return known_id
        self._spend(len(key))
        node_id = self._ids[key] = self.next_id
        self.nodes.append(DerivationNode(kind, data, list(children), field, span))
        self._has_parent.update(children)
        return node_id

    @property
    def next_id(self) -> int:
        return self.first + len(self.nodes)

    def list_parentless(self, start: int) -> list[int]:
        """The nodes from id `start` on that no other node refers to, in order."""
        return [node_id for node_id in range(start, self.next_id) if node_id not in self._has_parent]

    def _spend(self, size: int) -> None:
        if self._room is None:
            return
        self._room -= size
        if self._room < 0:
            raise NodesTooLarge("the steps of the derivation take more room than there is")
