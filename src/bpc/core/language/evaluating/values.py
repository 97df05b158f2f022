"""Values as passports and proofs write them: as JSON, and directly as canonical JSON text.

Pure. A Dec(n) is a text of exactly n decimals, a Qty an object of unit and value without trailing zeros, an absent
option null. `create_writer(t)(v)` is always what canonical JSON makes of `value_to_json(t, v)`. Fact records are never
written. Also: how large a value is, how long its text, and how the rule language writes it.
"""

import json
from collections.abc import Callable, Iterable
from json.encoder import encode_basestring
from typing import Any, Final, TypeAlias, assert_never

from bpc.core.formats.canonical_json import Json
from bpc.core.language.typed import Value
from bpc.core.language.types import (
    BOOL,
    DATE,
    INT,
    QTY_SCALE,
    TEXT,
    Dec,
    EnumType,
    FactRecordType,
    List,
    Map,
    Opt,
    Qty,
    Record,
    Scalar,
    Type,
    is_unit_size,
)

_QTY_ONE: Final = 10**QTY_SCALE

ValueWriter: TypeAlias = Callable[[Any], str]

quote_text: Final[Callable[[str], str]] = encode_basestring
"""A text as canonical JSON writes it; the texts rules hold have no lone surrogates."""


def value_to_json(kind: Type, value: Any) -> Json:  # noqa: PLR0911 - one row a type
    """A value of the type `kind` as the payload writes it."""
    match kind:
        case Dec(scale):
            return _format_decimal(value, scale)
        case Qty(unit):
            return {"unit": unit, "value": _format_amount(value)}
        case Opt(item):
            return None if value is None else value_to_json(item, value)
        case List(item):
            return [value_to_json(item, part) for part in value]
        case Map(item):
            return {name: value_to_json(item, value[name]) for name in sorted(value)}
        case Record(members):
            return {name: value_to_json(item, value[name]) for name, item in members}
        case FactRecordType():
            raise TypeError(f"a {kind} record is never written")
        case _:
            scalar: Json = value
            return scalar


def create_writer(kind: Type) -> ValueWriter:  # noqa: PLR0911 - one row a type
    """The function that writes a value of the type `kind` as canonical JSON."""
    match kind:
        case Dec(scale):
            return _create_decimal_writer(scale)
        case Qty(unit):
            before = f'{{"unit":{quote_text(unit)},"value":"'
            return lambda value: f'{before}{_format_amount(value)}"}}'
        case Opt(item):
            write = create_writer(item)
            return lambda value: "null" if value is None else write(value)
        case List(item):
            write = create_writer(item)
            return lambda value: f"[{','.join(map(write, value))}]"
        case Map(item):
            return _create_map_writer(create_writer(item))
        case Record(members):
            return _create_record_writer(tuple((name, create_writer(item)) for name, item in members))
        case FactRecordType():
            raise TypeError(f"a {kind} record is never written")
        case _:
            return _create_scalar_writer(kind)


def _format_decimal(count: int, scale: int) -> str:
    if scale == 0:
        return str(count)
    integer_part, fraction = divmod(abs(count), 10**scale)
    return f"{'-' if count < 0 else ''}{integer_part}.{fraction:0{scale}d}"


def _format_amount(count: int) -> str:
    if count >= 0:  # most amounts
        integer_part, fraction = divmod(count, _QTY_ONE)
        return f"{integer_part}.{fraction:0{QTY_SCALE}d}".rstrip("0") if fraction else str(integer_part)
    return _format_plain(count, QTY_SCALE)


def _format_plain(count: int, scale: int) -> str:
    """A number without zeros behind its decimals."""
    text = _format_decimal(count, scale)
    return text.rstrip("0").rstrip(".") if scale else text


def create_text_writer(kind: Type) -> ValueWriter:
    """The function `text` of the rule language, for values of the type `kind`."""
    match kind:
        case Dec(scale):
            return lambda count: _format_plain(count, scale)
        case Qty(unit):
            return lambda count: f"{_format_amount(count)} {unit}"
        case _ if kind == BOOL:
            return lambda value: "true" if value else "false"
        case _:
            return str


def _create_scalar_writer(kind: Type) -> ValueWriter:
    if kind == BOOL:
        return lambda value: "true" if value else "false"
    if kind == INT:
        return str
    if kind == TEXT:
        return quote_text
    # A day, or a member of an enumeration.
    return lambda word: f'"{word}"'


def _create_decimal_writer(scale: int) -> ValueWriter:
    if scale == 0:
        return lambda count: f'"{count}"'
    one = 10**scale
    positive, negative = f'"%d.%0{scale}d"', f'"-%d.%0{scale}d"'
    return lambda count: positive % divmod(count, one) if count >= 0 else negative % divmod(-count, one)


def _create_map_writer(write: ValueWriter) -> ValueWriter:
    # Sorted by code point, which is the order of the UTF-8 bytes.
    return lambda value: f"{{{','.join([f'{quote_text(name)}:{write(value[name])}' for name in sorted(value)])}}}"


def _create_record_writer(members: tuple[tuple[str, ValueWriter], ...]) -> ValueWriter:
    parts = tuple((name, f"{quote_text(name)}:", write) for name, write in members)
    return lambda value: f"{{{','.join([f'{before}{write(value[name])}' for name, before, write in parts])}}}"


# How large a value is, BPC-COST-1: what making it, comparing it and keeping it costs.
SizeMeasure: TypeAlias = Callable[[Any, int], int]
"""The size of a value, or something above the limit given with it."""


def create_size_measure(kind: Type) -> SizeMeasure:  # noqa: PLR0911 - one row a type
    match kind:
        case Opt(item):
            measure = create_size_measure(item)
            return lambda value, limit: 1 if value is None else measure(value, limit)
        case List(item) | Map(item) if is_unit_size(item):
            return lambda value, _limit: 1 + len(value)
        case List(item) if item == TEXT:
            return lambda texts, _limit: 1 + len(texts) + sum([len(text) // 64 for text in texts])
        case List(item):
            return _create_parts_measure(create_size_measure(item), iter)
        case Map(item):
            return _create_parts_measure(create_size_measure(item), dict.values)
        case Record(members):
            return _create_record_measure(
                tuple((name, create_size_measure(item)) for name, item in members if not is_unit_size(item))
            )
        case _:
            return (lambda text, _limit: 1 + len(text) // 64) if kind == TEXT else (lambda _value, _limit: 1)


def _create_parts_measure(measure: SizeMeasure, parts: Callable[[Any], Iterable[Any]]) -> SizeMeasure:
    def measure_parts(value: Any, limit: int) -> int:
        total = 1
        for part in parts(value):
            total += measure(part, limit - total)
            if total > limit:
                break
        return total

    return measure_parts


def _create_record_measure(measures: tuple[tuple[str, SizeMeasure], ...]) -> SizeMeasure:
    """Members of size 1 are only counted."""

    def measure_record(value: dict[str, Any], limit: int) -> int:
        total = 1 + len(value) - len(measures)
        for name, measure in measures:
            total += measure(value[name], limit - total)
            if total > limit:
                break
        return total

    return measure_record


# How long the text of a value is, before anybody writes it.
LengthMeasure: TypeAlias = Callable[[Any, int], int]
"""The length of the text of a value; 0 of one whose text is surely not longer than the limit given with it."""

_ExactLength: TypeAlias = Callable[[Any], int]

# A character of a text takes up to 6, so 64 · 6 for each unit of size; names of members and units take less.
_MAX_CHARACTERS_PER_UNIT: Final = 400


def create_length_measure(kind: Type) -> LengthMeasure:
    measure, exact = create_size_measure(kind), _create_exact_length(kind)
    if _contains_map(kind):  # whose keys have no size
        return lambda value, _limit: exact(value)
    if kind == TEXT:  # of which there are most: the same in one call
        return lambda text, limit: 0 if 1 + (len(text) >> 6) <= limit // _MAX_CHARACTERS_PER_UNIT else exact(text)
    if is_unit_size(kind):
        return lambda value, limit: 0 if limit >= _MAX_CHARACTERS_PER_UNIT else exact(value)

    def measure_length(value: Any, limit: int) -> int:
        surely = limit // _MAX_CHARACTERS_PER_UNIT
        return 0 if measure(value, surely) <= surely else exact(value)

    return measure_length


def _contains_map(kind: Type) -> bool:
    match kind:
        case Opt(item) | List(item):
            return _contains_map(item)
        case Record(members):
            return any(_contains_map(item) for _, item in members)
        case _:
            return isinstance(kind, Map)


def _create_exact_length(kind: Type) -> _ExactLength:
    match kind:
        case Opt(item):
            of_item = _create_exact_length(item)
            return lambda value: 4 if value is None else of_item(value)
        case List(item):
            of_item = _create_exact_length(item)
            return lambda value: 2 + len(value) + sum(map(of_item, value))
        case Map(item):
            of_item = _create_exact_length(item)
            return lambda value: 2 + sum(len(quote_text(name)) + 2 + of_item(part) for name, part in value.items())
        case Record(members):
            parts = tuple((name, len(quote_text(name)) + 2, _create_exact_length(item)) for name, item in members)
            return lambda value: 2 + sum(around + of_member(value[name]) for name, around, of_member in parts)
        case _:
            write = create_writer(kind)
            return lambda value: len(write(value))


# A value as the rule language writes it, for reports: what is shown can be copied into a test.
MAX_LENGTH: Final = 400


def format_as_literal(kind: Type, value: Value) -> str:
    """`value` as a constant of the language, cut where a report would become unreadable."""
    text = _format_any(kind, value)
    return text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}…"


def _format_any(kind: Type, value: Any) -> str:  # noqa: PLR0911 (one row a type)
    match kind:
        case Scalar():
            return _format_scalar(kind, value)
        case Dec():
            return str(value_to_json(kind, value))
        case Qty(unit):
            amount: Any = value_to_json(kind, value)
            return f"qty({amount['value']}, {unit})"
        case Opt(item):
            return "none" if value is None else f"some({_format_any(item, value)})"
        case List(item):
            return f"[{', '.join(_format_any(item, part) for part in value)}]"
        case Map(item):
            return f"{{{', '.join(f'{_quote(name)}: {_format_any(item, part)}' for name, part in value.items())}}}"
        case Record(members):
            return f"{{{', '.join(f'{name}: {_format_any(item, value[name])}' for name, item in members)}}}"
        case FactRecordType():
            return f"{kind} {_quote(value.key)}"
        case EnumType():
            return str(value)
        case _:
            assert_never(kind)


def _format_scalar(kind: Scalar, value: Any) -> str:
    if kind == BOOL:
        return "true" if value else "false"
    if kind == INT:
        return str(value)
    return f"date({_quote(value)})" if kind == DATE else _quote(value)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
