"""How members of facts are read: JSON of the type that a schema says in, a value as rules hold it out.

Pure. A reader is made once for each member of each schema. What does not fit is a `MemberError`: a path and a reason.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, Final, TypeAlias

from bpc.core.formats.canonical_json import Json
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, List, Map, Opt, Record, Type

MAX_MAGNITUDE: Final = 10**36
# 36 digits before the point, 18 behind it, and some leading zeros that nobody should write.
MAX_NUMBER_TEXT: Final = 80
# A number of so many characters is below the limit whatever it says.
_MAX_QUICK_DIGITS: Final = 36
_DIGITS: Final = "0123456789"

_DECIMAL: Final = re.compile("(-?)([0-9]+)(?:[.]([0-9]+))?")
_DAY: Final = re.compile("([0-9]{4})-([0-9]{2})-([0-9]{2})")


MemberReader: TypeAlias = Callable[[Json, str], Any]


class MemberError(Exception):
    """What is wrong with one member, before anybody has said which fact it is of."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


def make_reader(kind: Type) -> MemberReader:
    """How a value of this type is read; made once for each member of each schema."""
    match kind:
        case Dec(scale):
            return _make_decimal_reader(scale)
        case List(item):
            return _make_list_reader(make_reader(item))
        case Map(item):
            return _make_map_reader(make_reader(item))
        case Record(members):
            return _make_record_reader({name: make_reader(item) for name, item in members})
        case Opt(item):
            read = make_reader(item)
            return lambda value, path: None if value is None else read(value, path)
        case _:
            return _SCALARS[kind]


def _make_decimal_reader(scale: int) -> MemberReader:
    powers: list[int] = [10**missing for missing in range(scale, -1, -1)]  # by how many decimals there are
    most_digits = _MAX_QUICK_DIGITS

    def read_decimal(value: Json, path: str) -> int:
        # Most are short and plain; all others, and whatever is wrong, take the long way.
        if type(value) is str and len(value) <= most_digits:
            whole, point, fraction = value.partition(".")
            digits = whole + fraction
            if not digits.strip(_DIGITS) and whole and len(fraction) <= scale and (fraction or not point):
                count: int = int(digits) * powers[len(fraction)]
                return count
        return _read_decimal(value, scale, path)

    return read_decimal


def _make_list_reader(read: MemberReader) -> MemberReader:
    def read_list(value: Json, path: str) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise MemberError(path, f"is {_describe_type(value)}, not a list")
        return [read(part, f"{path}[{index}]") for index, part in enumerate(value)]

    return read_list


def _make_map_reader(read: MemberReader) -> MemberReader:
    def read_map(value: Json, path: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise MemberError(path, f"is {_describe_type(value)}, not an object")
        return {name: read(value[name], f"{path}.{name}") for name in sorted(value)}

    return read_map


def _make_record_reader(readers: Mapping[str, MemberReader]) -> MemberReader:
    def read_record(value: Json, path: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise MemberError(path, f"is {_describe_type(value)}, not an object")
        return {name: read(value.get(name), f"{path}.{name}") for name, read in readers.items()}

    return read_record


def _read_bool(value: Json, path: str) -> bool:
    if not isinstance(value, bool):
        raise MemberError(path, f"is {_describe_type(value)}, not a Bool")
    return value


def _read_int(value: Json, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise MemberError(path, f"is {_describe_type(value)}, not an Int")
    if abs(value) >= MAX_MAGNITUDE:
        raise MemberError(path, "is not below 10^36")
    return value


def read_text(value: Json, path: str) -> str:
    if not isinstance(value, str):
        raise MemberError(path, f"is {_describe_type(value)}, not a Text")
    return value


def _read_date(value: Json, path: str) -> str:
    if not isinstance(value, str):
        raise MemberError(path, f"is {_describe_type(value)}, not a Date")
    if not is_day(value):
        raise MemberError(path, f"is `{value[:40]}`, not a day written like 2027-02-18")
    return value


_SCALARS: Final[Mapping[Type, MemberReader]] = {BOOL: _read_bool, INT: _read_int, TEXT: read_text, DATE: _read_date}


def _read_decimal(value: Json, scale: int, path: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        count: int = _read_int(value, path) * 10**scale
        return count
    if not isinstance(value, str):
        raise MemberError(path, f'is {_describe_type(value)}, not a number written as text, like "75.5"')
    parts = _DECIMAL.fullmatch(value) if len(value) <= MAX_NUMBER_TEXT else None
    if parts is None:
        raise MemberError(path, f'is `{value[:40]}`, not a plain decimal number like "75.5"')
    sign, integer_digits, fraction = parts.groups(default="")
    if len(fraction) > scale:
        raise MemberError(path, f"has {len(fraction)} decimals, and there is room for {scale}")
    count = int(integer_digits + fraction.ljust(scale, "0"))
    if count >= MAX_MAGNITUDE * 10**scale:
        raise MemberError(path, "is not below 10^36")
    return -count if sign else count


def is_day(text: str) -> bool:
    """Whether `text` is a day of the years 0001 to 9999 as it is written here."""
    parts = _DAY.fullmatch(text)
    if parts is None:
        return False
    try:
        date(*map(int, parts.groups()))
    except ValueError:  # a 30th of February
        return False
    return True


def _describe_type(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a truth value"
        case int():
            return "a number"
        case str():
            return "a text"
        case list() | tuple():
            return "a list"
        case _:
            return "an object"
