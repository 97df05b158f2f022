"""How large a value is, BPC-COST-1: what making it, comparing it and keeping it costs.

Pure. A scalar or a fact record has size 1, a Text 1 for every 64 characters and 1 more, an aggregate 1 and the sum of
its parts; of an option it is the value's, and 1 if there is none. Measuring stops once the size is past `limit`, so
that it costs no more than the limit allows: values share parts, and a small one can stand for a huge tree.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from bpc.core.rules.types import TEXT, List, Map, Opt, Record, Type, is_unit_size

Measure: TypeAlias = Callable[[Any, int], int]
"""The size of a value, or something above the limit given with it."""


def measure_of(kind: Type) -> Measure:
    match kind:
        case Opt(item):
            return _of_option(measure_of(item))
        case List(item) | Map(item) if is_unit_size(item):
            return _counted
        case List(item):
            return _of_texts if item == TEXT else _of_parts(measure_of(item), _itself)
        case Map(item):
            return _of_parts(measure_of(item), _values)
        case Record(members):
            return _of_record(tuple((name, measure_of(item)) for name, item in members if not is_unit_size(item)))
        case _:
            return _of_text if kind == TEXT else _one


def _one(_value: Any, _limit: int) -> int:
    return 1


def _of_text(value: str, _limit: int) -> int:
    return 1 + len(value) // 64


def _counted(value: Any, _limit: int) -> int:
    return 1 + len(value)


def _of_texts(value: list[str], _limit: int) -> int:
    return 1 + len(value) + sum([len(text) // 64 for text in value])


def _itself(value: Any) -> Iterable[Any]:
    found: Iterable[Any] = value
    return found


def _values(value: Any) -> Iterable[Any]:
    found: Iterable[Any] = value.values()
    return found


def _of_option(measure: Measure) -> Measure:
    return lambda value, limit: 1 if value is None else measure(value, limit)


def _of_parts(measure: Measure, parts: Callable[[Any], Iterable[Any]]) -> Measure:
    def size(value: Any, limit: int) -> int:
        total = 1
        for part in parts(value):
            total += measure(part, limit - total)
            if total > limit:
                break
        return total

    return size


def _of_record(measures: tuple[tuple[str, Measure], ...]) -> Measure:
    """Members of size 1 are only counted."""

    def size(value: dict[str, Any], limit: int) -> int:
        total = 1 + len(value) - len(measures)
        for name, measure in measures:
            total += measure(value[name], limit - total)
            if total > limit:
                break
        return total

    return size
