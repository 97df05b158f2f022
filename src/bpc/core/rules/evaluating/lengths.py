"""How long the text of a value is, before anybody writes it.

Pure. A step pays for 64 characters of a text, and a proof may repeat them, so a value that was made in a second can
have a text of hundreds of megabytes. Whoever writes values asks here first. Of most values their size (BPC-COST-1)
says enough.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from bpc.core.rules.evaluating.sizes import measure_of
from bpc.core.rules.evaluating.writing import quoted, writer_of
from bpc.core.rules.types import List, Map, Opt, Record, Type

Length: TypeAlias = Callable[[Any, int], int]
"""The length of the text of a value; 0 of one whose text is surely not longer than the limit given with it."""

_Exact: TypeAlias = Callable[[Any], int]

# A character of a text takes up to 6, so 64 · 6 for each unit of size; names of members and units take less.
_LONGEST: Final = 400


def length_of(kind: Type) -> Length:
    measure, exact = measure_of(kind), _exact(kind)
    if _holds_maps(kind):  # whose keys have no size
        return lambda value, _limit: exact(value)

    def length(value: Any, limit: int) -> int:
        surely = limit // _LONGEST
        return 0 if measure(value, surely) <= surely else exact(value)

    return length


def _holds_maps(kind: Type) -> bool:
    match kind:
        case Opt(item) | List(item):
            return _holds_maps(item)
        case Record(members):
            return any(_holds_maps(item) for _, item in members)
        case _:
            return isinstance(kind, Map)


def _exact(kind: Type) -> _Exact:
    match kind:
        case Opt(item):
            of_item = _exact(item)
            return lambda value: 4 if value is None else of_item(value)
        case List(item):
            of_item = _exact(item)
            return lambda value: 2 + len(value) + sum(map(of_item, value))
        case Map(item):
            of_item = _exact(item)
            return lambda value: 2 + sum(len(quoted(name)) + 2 + of_item(part) for name, part in value.items())
        case Record(members):
            return _of_record(tuple((name, len(quoted(name)) + 2, _exact(item)) for name, item in members))
        case _:
            write = writer_of(kind)
            return lambda value: len(write(value))


def _of_record(members: tuple[tuple[str, int, _Exact], ...]) -> _Exact:
    return lambda value: 2 + sum(around + of_member(value[name]) for name, around, of_member in members)
