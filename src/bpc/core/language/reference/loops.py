"""What a loop makes of its lambda's results: its value, and what its node says (docs/formats/proof.md).

Pure. `results` are what the lambda gave for each element, of a fold the accumulator after it; an `any` or `all` that is
decided looks at no further element.
"""

from typing import Any, NamedTuple

from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.language import typed
from bpc.core.language.reference.values import value_to_json
from bpc.core.language.types import contains_fact_record


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
