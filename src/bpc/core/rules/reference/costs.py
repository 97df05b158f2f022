"""What the reference evaluator charges: BPC-COST-1, one counter, the same for every evaluator (docs/formats/cost.md).

A block (a field's expression, a branch, the right side of `&&` and `||`, a lambda's body) is charged its weight when it
is entered; what becomes part of something larger is charged its size. Neither depends on how this evaluator works.
"""

from collections.abc import Iterable
from typing import Any, Final

from bpc.core.rules.failure import STEPS, LimitExceeded
from bpc.core.rules.source import Span
from bpc.core.rules.typed import (
    Apply,
    Arithmetic,
    Block,
    Branch,
    Check,
    Choice,
    Comparison,
    Emit,
    Expr,
    FieldValue,
    GetFact,
    GetFacts,
    ListOf,
    Logic,
    Loop,
    RecordOf,
    Require,
    Unary,
)
from bpc.core.rules.types import List, Map, Opt, Record, Type

TEXT_UNIT: Final = 64


class Meter:
    """Counts steps, and refuses the charge that would pass `most`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.steps = 0
        self.field: str | None = None
        self._weights: dict[int, int] = {}

    def charge(self, steps: int, span: Span) -> None:
        if self.steps + steps > self.most:
            raise LimitExceeded(STEPS, field=self.field, span=span)
        self.steps += steps

    def enter(self, block: Expr, span: Span) -> None:
        self.charge(self.weight(block), span)

    def weight(self, block: Expr) -> int:
        """Kept by identity: the tree outlives the meter, and a block may be entered a million times."""
        known = self._weights.get(id(block))
        if known is None:
            known = self._weights[id(block)] = max(1, things_in(block))
        return known

    def enter_else_if(self, branch: Branch) -> None:
        """The `else` before it is a block that holds an `if` and its condition; what follows are blocks again."""
        known = self._weights.get(id(branch))
        if known is None:
            known = self._weights[id(branch)] = 1 + things_in(branch.condition)
        self.charge(known, branch.span)

    def charge_parts(self, parts: Iterable[Any], span: Span) -> None:
        """For values that become part of something larger: of each its size − 1."""
        room = self.most - self.steps
        total = 0
        for part in parts:
            # All else has size 1, and most values are such.
            if isinstance(part, str | list | dict):
                total += size(part, room - total + 1) - 1
                if total > room:
                    break
        self.charge(total, span)

    def charge_comparison(self, kind: Type, left: Any, span: Span) -> None:
        """For `==` and `!=` of what has parts: the size of the left side."""
        if isinstance(kind.item if isinstance(kind, Opt) else kind, List | Map | Record):
            self.charge(size(left, self.most - self.steps), span)


def size(value: Any, most: int) -> int:
    """1 and the parts' sizes; a text counts one more for every 64 characters. Counting ends once it passes `most`."""
    total = 0
    waiting = [value]
    while waiting and total <= most:
        part = waiting.pop()
        total += 1 + len(part) // TEXT_UNIT if isinstance(part, str) else 1
        if isinstance(part, list):
            waiting.extend(part)
        elif isinstance(part, dict):
            waiting.extend(part.values())
    return total


def things_in(block: Expr) -> int:
    """Operators, calls, references, ifs, asserts, list and record literals in a block, outside the blocks inside it."""
    total = 0
    waiting = [block]
    while waiting:
        things, parts = _looked_at(waiting.pop())
        total += things
        waiting.extend(parts)
    return total


def _looked_at(expr: Expr) -> tuple[int, Iterable[Expr]]:
    """What an expression itself counts, and those parts of it that are no blocks of their own."""
    match expr:
        case Arithmetic(_, first, steps):
            found = len(steps), (first, *(step.operand for step in steps))
        case Logic(_, _, first, operands):
            found = len(operands), (first,)
        case Choice(_, branches):
            found = 1, (branches[0].condition,)
        case Block(_, bindings, body):
            asserts = sum(isinstance(binding, Check) for binding in bindings)
            found = asserts, (*(_bound(binding) for binding in bindings), body)
        case _:
            return _looked_at_simple(expr)
    return found


def _bound(binding: Any) -> Expr:
    bound: Expr = binding.condition if isinstance(binding, Check) else binding.value
    return bound


def _looked_at_simple(expr: Expr) -> tuple[int, Iterable[Expr]]:
    parts: tuple[Expr, ...]
    match expr:
        case Unary(_, _, operand):
            parts = (operand,)
        case Comparison(_, _, _, left, right):
            parts = (left, right)
        case Loop(_, _, items, init):
            parts = (items,) if init is None else (items, init)
        case RecordOf(_, members):
            parts = tuple(member for _, member in members)
        case ListOf(_, items) | Apply(_, _, items):
            parts = items
        case Emit(_, _, status, message):
            parts = (status, message)
        case GetFact(_, _, part) | GetFacts(_, _, part) | Require(_, part):
            parts = (part,)
        case FieldValue():
            parts = ()
        case _:
            return 0, ()
    return 1, parts
