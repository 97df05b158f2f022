"""Values as passports and proofs write them: as JSON, and directly as canonical JSON text.

Pure. A Dec(n) is a text of exactly n decimals, a Qty an object of unit and value without trailing zeros, an absent
option null. `written` gives the JSON value, `writer_of(type)` a function that gives its canonical text at once;
`writer_of(t)(v)` is always what canonical JSON makes of `written(t, v)`. Fact records are never written.
"""

from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any, Final, TypeAlias

from bpc.core.canon import Json
from bpc.core.rules.types import BOOL, INT, QTY_SCALE, TEXT, Dec, Fact, List, Map, Opt, Qty, Record, Type

Writer: TypeAlias = Callable[[Any], str]

quoted: Final[Callable[[str], str]] = encode_basestring
"""A text as canonical JSON writes it; the texts rules hold have no lone surrogates."""


def written(kind: Type, value: Any) -> Json:  # noqa: PLR0911 - one row a type
    """`value` of the type `kind` as the payload writes it."""
    match kind:
        case Dec(scale):
            return _decimal(value, scale)
        case Qty(unit):
            return {"unit": unit, "value": _amount(value)}
        case Opt(item):
            return None if value is None else written(item, value)
        case List(item):
            return [written(item, part) for part in value]
        case Map(item):
            return {name: written(item, value[name]) for name in sorted(value)}
        case Record(members):
            return {name: written(item, value[name]) for name, item in members}
        case Fact():
            raise TypeError(f"a {kind} record is never written")
        case _:
            scalar: Json = value
            return scalar


def writer_of(kind: Type) -> Writer:  # noqa: PLR0911 - one row a type
    """What writes a value of the type `kind` as canonical JSON."""
    match kind:
        case Dec(scale):
            return _writer_of_decimals(scale)
        case Qty(unit):
            before = f'{{"unit":{quoted(unit)},"value":"'
            return lambda value: f'{before}{_amount(value)}"}}'
        case Opt(item):
            write = writer_of(item)
            return lambda value: "null" if value is None else write(value)
        case List(item):
            return _writer_of_lists(writer_of(item))
        case Map(item):
            return _writer_of_maps(writer_of(item))
        case Record(members):
            return _writer_of_records(tuple((name, writer_of(item)) for name, item in members))
        case Fact():
            raise TypeError(f"a {kind} record is never written")
        case _:
            return _writer_of_scalars(kind)


def _decimal(count: int, scale: int) -> str:
    if scale == 0:
        return str(count)
    whole, rest = divmod(abs(count), 10**scale)
    return f"{'-' if count < 0 else ''}{whole}.{rest:0{scale}d}"


def _amount(count: int) -> str:
    return _decimal(count, QTY_SCALE).rstrip("0").rstrip(".")


def _writer_of_scalars(kind: Type) -> Writer:
    if kind == BOOL:
        return lambda value: "true" if value else "false"
    if kind == INT:
        return str
    if kind == TEXT:
        return quoted
    return lambda day: f'"{day}"'


def _writer_of_decimals(scale: int) -> Writer:
    if scale == 0:
        return lambda count: f'"{count}"'
    one = 10**scale
    positive, negative = f'"%d.%0{scale}d"', f'"-%d.%0{scale}d"'
    return lambda count: positive % divmod(count, one) if count >= 0 else negative % divmod(-count, one)


def _writer_of_lists(write: Writer) -> Writer:
    return lambda value: f"[{','.join(map(write, value))}]"


def _writer_of_maps(write: Writer) -> Writer:
    # Sorted by code point, which is the order of the UTF-8 bytes.
    return lambda value: f"{{{','.join([f'{quoted(name)}:{write(value[name])}' for name in sorted(value)])}}}"


def _writer_of_records(members: tuple[tuple[str, Writer], ...]) -> Writer:
    parts = tuple((name, f"{quoted(name)}:", write) for name, write in members)
    return lambda value: f"{{{','.join([f'{before}{write(value[name])}' for name, before, write in parts])}}}"
