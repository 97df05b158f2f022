"""Loops: the body of a lambda, computed for each element, and what a loop makes of the results.

Pure. A body is prepared once and gives the value alone, because there are no nodes inside a lambda. The kinds of
expressions that lambdas are mostly made of become functions of no arguments. Every other kind is evaluated as the walk
does it, and what a comparison or a built-in gives and costs is the walk's own. Two Python frames for each level of the
tree here too: `map`, and no comprehension, which would be a third.

`results` are what the lambda gave for each element, of a fold the accumulator after it; an `any` or `all` that is
decided looks at no further element. A loop has a value, and its node says how it came about (docs/formats/proof.md).
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.language import typed
from bpc.core.language.reference.accounting import CHARGED, Meter, TracedValue
from bpc.core.language.reference.values import CALENDAR_LIMITED, FUNCTIONS, MAGNITUDE_LIMITED, value_to_json
from bpc.core.language.types import contains_fact_record

Computation: TypeAlias = Callable[[], Any]

# The built-ins that cost more, or whose result may be refused.
_NOT_PLAIN: Final = CHARGED | MAGNITUDE_LIMITED | CALENDAR_LIMITED


class Walker(Protocol):
    """What bodies need of the walk that they belong to."""

    variables: dict[str, TracedValue]
    meter: Meter

    def evaluate(self, expr: typed.Expr) -> TracedValue: ...

    def compare(self, comparison: typed.TypedComparison, left: Any, right: Any) -> bool: ...

    def apply(self, call: typed.BuiltinCall, values: list[Any]) -> Any: ...


class PreparedBodies:
    """The bodies of one walk, by identity: the tree outlives the walk."""

    def __init__(self, walker: Walker) -> None:
        self._walker = walker
        self._known: dict[int, Computation] = {}

    def prepare(self, expr: typed.Expr) -> Computation:
        """A function that gives the value of `expr` each time it is called."""
        known = self._known.get(id(expr))
        if known is None:
            known = self._known[id(expr)] = self._prepare(expr)
        return known

    def _prepare(self, expr: typed.Expr) -> Computation:
        walker = self._walker
        match expr:
            case typed.Const():
                value = expr.value
                return lambda: value
            case typed.Local():
                name = expr.name
                return lambda: walker.variables[name].value
            case typed.TypedComparison():
                left, right = self._prepare(expr.left), self._prepare(expr.right)
                return lambda: walker.compare(expr, left(), right())
            case typed.Logic():
                return self._prepare_logic(expr)
            case typed.BuiltinCall():
                return self._prepare_call(expr)
            case _:
                return lambda: walker.evaluate(expr).value

    def _prepare_logic(self, chain: typed.Logic) -> Computation:
        enter, continues_with = self._walker.meter.enter, chain.op == "&&"
        first = self._prepare(chain.first)
        rights = map(self._prepare, [operand.expr for operand in chain.operands])
        operands = list(zip(chain.operands, rights, strict=True))

        def compute() -> Any:
            value = first()
            for operand, right in operands:
                if value == continues_with:
                    enter(operand.expr, operand.span)
                    value = right()
            return value

        return compute

    def _prepare_call(self, call: typed.BuiltinCall) -> Computation:
        apply, function = self._walker.apply, None if call.op in _NOT_PLAIN else FUNCTIONS.get(call.op)
        arguments = list(map(self._prepare, call.arguments))
        if function is None:
            return lambda: apply(call, [argument() for argument in arguments])
        if len(arguments) == 1:
            only = arguments[0]
            return lambda: function(call, only())
        return lambda: function(call, *[argument() for argument in arguments])


class LoopOutcome(NamedTuple):
    """A loop's value, and its node's data beside `op` and `fn`."""

    value: Any
    data: dict[str, Json]


def is_decided(loop: typed.Loop, result: Any) -> bool:
    return (loop.op == "any" and result is True) or (loop.op == "all" and result is False)


def conclude_loop(  # noqa: PLR0911 (one row an operation)
    loop: typed.Loop, items: list[Any], init: Any, results: list[Any], *, is_shown: bool
) -> LoopOutcome:
    """`is_shown` says whether the loop has a node: inside a lambda it has none."""
    match loop.op:
        case "map":
            return LoopOutcome(results, _show_results(loop, results) if is_shown else {})
        case "fold":
            return LoopOutcome(results[-1] if results else init, _show_results(loop, results) if is_shown else {})
        case "filter":
            kept = [index for index, is_kept in enumerate(results) if is_kept]
            return LoopOutcome([items[index] for index in kept], {"kept": list(kept)})
        case "any" | "all":
            is_found = bool(results) and is_decided(loop, results[-1])
            position = len(results) - 1 if is_found else None
            return LoopOutcome(is_found == (loop.op == "any"), {"position": position})
        case "sortBy":
            order = _order_positions(results)
            return LoopOutcome([items[index] for index in order], {"order": list(order)})
        case "latestBy":
            last = _find_latest(results)
            return LoopOutcome(None if last is None else items[last], {"position": last})
        case "groupBy":
            return _group(loop, items, results)


def _show_results(loop: typed.Loop, results: list[Any]) -> dict[str, Json]:
    kind = loop.body.type
    return {} if contains_fact_record(kind) else {"values": [value_to_json(kind, result) for result in results]}


def _order_positions(keys: list[Any]) -> list[int]:
    """By key, equal ones as they stood; an element without a key stands before all others."""
    without = [index for index, key in enumerate(keys) if key is None]
    present = [index for index, key in enumerate(keys) if key is not None]
    present.sort(key=lambda index: keys[index])
    return [*without, *present]


def _find_latest(keys: list[Any]) -> int | None:
    """The last of those with the largest key; an element without a key is not looked at."""
    latest = None
    for index, key in enumerate(keys):
        if key is not None and (latest is None or key >= keys[latest]):
            latest = index
    return latest


def _group(loop: typed.Loop, items: list[Any], keys: list[Any]) -> LoopOutcome:
    """Equal keys are written alike; groups are in the order in which their keys first appear."""
    kind = loop.body.type
    positions: dict[bytes, list[int]] = {}
    for index, key in enumerate(keys):
        positions.setdefault(canonical_json.encode_typed(value_to_json(kind, key)), []).append(index)
    groups = list(positions.values())
    value = [{"items": [items[index] for index in group], "key": keys[group[0]]} for group in groups]
    shown: list[Json] = [{"key": value_to_json(kind, keys[group[0]]), "positions": list(group)} for group in groups]
    return LoopOutcome(value, {"groups": shown})
