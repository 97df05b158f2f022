"""The members of an element, typed by its fact's schema: what goes into the fact's payload.

A Dec(n) is written with exactly n decimals, an Int as a whole number, both from a number or a plain decimal text of
the same value; nothing is rounded. A null is absent. A member the schema does not know is left out with a warning.
Every problem is noted; a payload is worth something only where there is none.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from bpc.core.canon import Json
from bpc.core.documents.notes import Notes, quoted, step
from bpc.core.documents.values import Given, Number, exact, is_plain
from bpc.core.facts import MAX_MAGNITUDE, is_day
from bpc.core.rules.types import BOOL, DATE, INT, TEXT, Dec, List, Opt, Record, Type

UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")


def payload_of(
    fact_type: str, schema: Mapping[str, Type], members: Mapping[str, Given], path: str, notes: Notes
) -> dict[str, Json]:
    """The payload of a fact of this type."""
    payload: dict[str, Json] = {}
    for name, given in members.items():
        kind = schema.get(name)
        if kind is None:
            _unknown(fact_type, schema, name, path, notes)
        elif given is not None:
            payload[name] = _value(kind, given, f"{path}.{name}", notes)
    return payload


def _unknown(of: str, schema: Mapping[str, Type], name: str, path: str, notes: Notes) -> None:
    meant = notes.suggestions.help(name, schema)
    notes.warning(step(path, name), f"is not a member of {of} and was left out" + (f"; {meant}" if meant else ""))


def _value(kind: Type, given: Given, path: str, notes: Notes) -> Json:
    match kind:
        case Opt(item):
            return _value(item, given, path, notes)
        case Dec(scale):
            return _decimal(given, scale, path, notes)
        case List(item):
            return _list(item, given, path, notes)
        case Record(members):
            return _record(dict(members), given, path, notes)
        case _:
            return _SCALARS[kind](given, path, notes)


def _list(item: Type, given: Given, path: str, notes: Notes) -> list[Json]:
    if not isinstance(given, list):
        notes.problem(path, f"is {kind_named(given)}, not a list")
        return []
    made: list[Json] = []
    for index, part in enumerate(given):
        at = f"{path}[{index}]"
        if part is None:
            notes.problem(at, "is null; leave it out of the list")
        else:
            made.append(_value(item, part, at, notes))
    return made


def _record(schema: Mapping[str, Type], given: Given, path: str, notes: Notes) -> dict[str, Json]:
    if not isinstance(given, dict):
        notes.problem(path, f"is {kind_named(given)}, not an object")
        return {}
    return payload_of("this object", schema, given, path, notes)


def _decimal(given: Given, scale: int, path: str, notes: Notes) -> str:
    count = _number(given, scale, path, "a decimal number", notes)
    digits = str(abs(count)).rjust(scale + 1, "0")
    sign = "-" if count < 0 else ""
    return sign + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


def _number(given: Given, scale: int, path: str, wanted: str, notes: Notes) -> int:
    """A number counted in units of 10^-scale; 0 where there is a problem."""
    if not isinstance(given, Number | str):
        notes.problem(path, f"is {kind_named(given)}, not {wanted}")
        return 0
    if isinstance(given, str) and not is_plain(given):
        notes.problem(path, f"is {quoted(given)}, not {wanted} such as {'12' if scale == 0 else '75.5'}")
        return 0
    value = exact(given if isinstance(given, str) else given.text)
    if value is None or not abs(value.count) < MAX_MAGNITUDE * 10**value.scale:
        notes.problem(path, "is not below 10^36")
        return 0
    count = value.at_scale(scale)
    if count is None:
        notes.problem(path, "is not a whole number" if scale == 0 else f"has more than {scale} decimals")
    return count or 0


def _text(given: Given, path: str, notes: Notes) -> str:
    if not isinstance(given, str):
        notes.problem(path, f"is {kind_named(given)}, not a text" + ("; put it in quotes" * isinstance(given, Number)))
        return ""
    if UNSTORABLE.search(given):
        notes.problem(path, "has a character that is none: U+0000 or half of a surrogate pair")
    return given


def _date(given: Given, path: str, notes: Notes) -> str:
    if not isinstance(given, str) or not is_day(given):
        shown = quoted(given) if isinstance(given, str) else kind_named(given)
        notes.problem(path, f"is {shown}, not a day written like 2027-02-18")
        return ""
    return given


def _bool(given: Given, path: str, notes: Notes) -> bool:
    if not isinstance(given, bool):
        notes.problem(path, f"is {kind_named(given)}, not true or false")
    return given is True


def _int(given: Given, path: str, notes: Notes) -> int:
    return _number(given, 0, path, "a whole number", notes)


_SCALARS: Final[Mapping[Type, Callable[[Given, str, Notes], Json]]] = {
    BOOL: _bool,
    INT: _int,
    TEXT: _text,
    DATE: _date,
}


def kind_named(given: Given) -> str:
    """What a value is, for a sentence that says what it should have been."""
    match given:
        case None:
            return "null"
        case bool():
            return "a truth value"
        case Number():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"
