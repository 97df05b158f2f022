"""What each built-in of the rule language gives for its arguments, for the reference evaluator.

Pure: values in, a value out. Charges and limits are the evaluator's business and lie before and behind this.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from bpc.core.facts import FactRecord
from bpc.core.rules.reference.values import half_even, rescaled
from bpc.core.rules.typed import Apply
from bpc.core.rules.types import List, Type
from bpc.core.rules.world import World
from bpc.core.units import conversion

# Whose results are held to the limit of magnitude (docs/rules/language.md).
LIMITED: Final = frozenset({"toDec", "convert", "sumDec", "sumQty"})


def applied(call: Apply, arguments: list[Any], world: World) -> Any:
    if call.op in _WORLD:
        return _WORLD[call.op](world)
    return _FUNCTIONS[call.op](call, *arguments)


def _some(_: Apply, item: Any) -> Any:
    return item


def _record_get(call: Apply, record: Any) -> Any:
    members: Mapping[str, Any] = record.members if isinstance(record, FactRecord) else record
    return members[str(call.static["member"])]


def _map_get(_: Apply, found: Any, key: str) -> Any:
    return found.get(key)


def _is_some(_: Apply, option: Any) -> bool:
    return option is not None


def _unwrap_or(_: Apply, option: Any, default: Any) -> Any:
    return default if option is None else option


def _count(_: Apply, items: list[Any]) -> int:
    return len(items)


def _concat(_: Apply, *texts: str) -> str:
    return "".join(texts)


def _amount(_: Apply, count: int) -> int:
    # Both sides of `amount` count 10^-18.
    return count


def _rescale(call: Apply, count: int) -> int:
    return rescaled(count, call.arguments[0].type, call.type)


def _sum(call: Apply, counts: list[int]) -> int:
    return rescaled(sum(counts), _item(call.arguments[0].type), call.type)


def _convert(call: Apply, count: int) -> int:
    factor = conversion(str(call.static["from"]), str(call.static["to"]))
    if factor is None:
        raise ValueError("the checker lets no conversion pass that the table of units does not have")
    numerator, denominator = factor
    return half_even(count * numerator, denominator)


def _item(kind: Type) -> Type:
    if not isinstance(kind, List):
        raise TypeError(f"the checker lets only lists be summed up, not {kind}")
    return kind.item


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "some": _some,
    "recordGet": _record_get,
    "mapGet": _map_get,
    "isSome": _is_some,
    "unwrapOr": _unwrap_or,
    "count": _count,
    "concat": _concat,
    "amount": _amount,
    "toDec": _rescale,
    "toQty": _rescale,
    "sumDec": _sum,
    "sumQty": _sum,
    "convert": _convert,
}

_WORLD: Final[Mapping[str, Callable[[World], str]]] = {
    "productSku": lambda world: world.product_sku,
    "productName": lambda world: world.product_name,
    "issuedOn": lambda world: world.issued_on,
}
