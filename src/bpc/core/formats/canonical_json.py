"""Canonical JSON, BPC-CJSON-1: a value in, the one byte string that stands for it out.

Pure. Equal values give equal bytes on every machine and every Python, so a hash of the bytes is a hash of
the value. What has no canonical form (a fraction, a set, a lone surrogate) is refused with its path; nothing
is rounded, renamed or dropped. The format itself is in docs/formats/canonical-json.md.

    value ── encode ──► canonical bytes ── decode ──► value
             encode_typed (the same, for values that cannot be wrong)
    values ── encode_parts ──► canonical bytes of each ── decode_parts ──► values    (many at once)
    any JSON text ── read_json ──► value          (fractions, duplicate keys and the like are refused)
    any JSON text ── canonicalize ──► canonical bytes

Every check exists twice: a quick one at C speed that only says yes or no, and `_refuse_first_wrong`, which
runs once something is known to be wrong or out of the ordinary, and says where and what.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NoReturn, TypeAlias

import orjson

from bpc.core.errors import Invalid
from bpc.core.formats.strict_json import MAX_DEPTH, JsonTextError, RejectedValue, StrictJsonReader

Json: TypeAlias = "bool | int | str | Sequence[Json] | Mapping[str, Json] | None"

MAX_DIGITS: Final = 600

_INTEGER_LIMIT: Final = 10**MAX_DIGITS
_LISTS: Final = frozenset({list, tuple})
_CONTAINERS: Final = _LISTS | {dict}
_TYPES: Final = _CONTAINERS | {str, int, bool, type(None)}
_TEXT_ONLY: Final = frozenset({str})
# orjson sorts keys by their UTF-8 bytes. The pass-through options make it refuse what it would translate.
_ORJSON: Final = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
)
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_MANY_DIGITS: Final = re.compile(rb"[0-9]{%d}" % (MAX_DIGITS + 1))
_PLAIN_KEY: Final = re.compile("[A-Za-z_][A-Za-z0-9_]{0,63}")


class NotCanonical(Invalid):
    """A value or a text without canonical form.

    `path` (`$.cells[3]`) says where in a value; `line` and `column`, from 1, where in a text.
    """

    def __init__(
        self,
        says: str,
        *,
        path: str | None = None,
        line: int | None = None,
        column: int | None = None,
        fix: str | None = None,
    ) -> None:
        place = {"path": path, "line": line, "column": column}
        super().__init__(says, fix=fix, details={name: at for name, at in place.items() if at is not None})
        self.path = path
        self.line = line
        self.column = column


class _CanonicalReader(StrictJsonReader):
    """Numbers are whole, without exponent and sign of zero, and have at most 600 digits."""

    def read_integer(self, text: str) -> object:
        if len(text.removeprefix("-")) > MAX_DIGITS:
            return self.reject(f"has more than {MAX_DIGITS} digits")
        return int(text) if text != "-0" else self.reject("is `-0`; zero has no sign")

    def read_fraction(self, text: str) -> object:
        return self.reject(f"is `{text[:64]}`; numbers are whole and without exponent", fix="write it as a string")


def encode(value: object) -> bytes:
    """The canonical bytes of `value`, or `NotCanonical` with the path of the first thing that has none.

    Only the exact types `dict`, `list`, `tuple`, `str`, `int`, `bool` and `None` pass: an enum or another
    subclass may print as something else than what it is.
    """
    if _is_well_typed(value):
        try:
            return orjson.dumps(value, option=_ORJSON)
        except TypeError:  # an integer above 64 bits, or a lone surrogate
            pass
        try:
            return _encode_large(value)
        except ValueError:  # 601 digits in a row, a lone surrogate, or more digits than Python prints
            pass
    _refuse_first_wrong(value)
    return _encode_with_standard_library(value)


def encode_parts(values: list[object]) -> list[bytes] | None:
    """`encode` of each part of a list, guarded together in a fraction of the time.

    None if one of them needs a closer look: it is not well typed, has an integer above 64 bits, or is so deep that the
    list would have no canonical form. Then `encode` says which.
    """
    if not _is_well_typed(values):
        return None
    try:
        # Copied: what orjson gives holds a kilobyte of room, and to keep many of those is slow.
        return [b"%b" % orjson.dumps(value, option=_ORJSON) for value in values]
    except TypeError:
        return None


def encode_typed(value: Json) -> bytes:
    """`encode` without its guard, for values that are right by construction.

    The caller promises what the type checker cannot see: no float, enum or UUID hides behind an `Any`, and
    nothing is nested deeper than 128. orjson would write those without a word. Everything else it refuses
    itself (lone surrogates, other key types, subclasses) or hands on to `encode` (integers above 64 bits).
    """
    try:
        return orjson.dumps(value, option=_ORJSON)
    except TypeError:
        return encode(value)


def decode(data: bytes) -> Json:
    """The value `data` stands for; `NotCanonical` unless encoding it again gives exactly `data`."""
    try:
        value: Json = orjson.loads(data)
        # orjson reads integers above 64 bits as floats and keeps the last of two equal keys: the first is
        # not well typed, the second does not give `data` again, and both are left to the strict reader.
        if _is_well_typed(value) and orjson.dumps(value, option=_ORJSON) == data:
            return value
    except (orjson.JSONDecodeError, TypeError):
        pass
    value = read_json(data)
    canonical_bytes = encode_typed(value)
    if canonical_bytes != data:
        raise NotCanonical(
            f"this is JSON, but not canonical from byte {find_first_difference(data, canonical_bytes)} on"
        )
    return value


def decode_parts(texts: Sequence[bytes]) -> list[Json] | None:
    """`decode` of each, read and guarded as one list; None if one of them needs a closer look."""
    try:
        values: list[Json] = orjson.loads(b"[%b]" % b",".join(texts))
        if len(values) != len(texts) or not _is_well_typed(values):
            return None
        # Each is written again by itself: the list could be cut elsewhere than its texts are.
        pairs = zip(values, texts, strict=True)
        return values if all(orjson.dumps(value, option=_ORJSON) == text for value, text in pairs) else None
    except (orjson.JSONDecodeError, TypeError):
        return None


def canonicalize(text: bytes) -> bytes:
    """The canonical bytes of any JSON text that has some."""
    return encode_typed(read_json(text))


def read_json(text: bytes) -> Json:
    """The value of a JSON text, read strictly.

    Refused: fractions and exponents, `-0`, `NaN` and `Infinity`, an object with the same key twice, lone
    surrogates, a byte order mark, bytes that are not UTF-8, more than 600 digits, nesting deeper than 128.
    Every refusal takes time linear in the text, whatever the text is.
    """
    if not isinstance(text, bytes):
        raise TypeError(f"JSON is read from bytes, not from {type(text).__name__}")
    reader = _CanonicalReader()
    try:
        value: Json = reader.read(text)  # type: ignore[assignment]
    except JsonTextError as wrong:
        raise NotCanonical(wrong.says, line=wrong.line, column=wrong.column) from None
    if reader.has_rejected or not _is_well_typed(value) or _SURROGATE_ESCAPE.search(text):
        _refuse_first_wrong(value)
    return value


def find_first_difference(one: bytes, other: bytes) -> int:
    """Where two byte strings begin to differ: at most the length of the shorter one."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


def _encode_large(value: object) -> bytes:
    text = _encode_with_standard_library(value)
    if _MANY_DIGITS.search(text):
        raise ValueError("perhaps a number that is too long, perhaps only text")
    return text


def _encode_with_standard_library(value: object) -> bytes:
    # Sorted by code point, which is the order of the UTF-8 bytes.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def _is_well_typed(value: object) -> bool:
    """Whether `value` has only our types, string keys and at most `MAX_DEPTH` levels, seen level by level.

    A container met twice in a level is opened once, so a value that contains itself ends at the limit.
    """
    level: list[object] = [value]
    for _ in range(MAX_DEPTH + 1):
        kinds = set(map(type, level))
        if not kinds <= _TYPES:
            return False
        if kinds.isdisjoint(_CONTAINERS):
            return True
        distinct = {id(container): container for container in level if type(container) in _CONTAINERS}.values()
        objects = [container for container in distinct if type(container) is dict]
        if not set(map(type, chain.from_iterable(objects))) <= _TEXT_ONLY:
            return False
        lists = [container for container in distinct if isinstance(container, (list, tuple))]
        level = [*chain.from_iterable(map(dict.values, objects)), *chain.from_iterable(lists)]
    return False


def _refuse_first_wrong(value: object) -> None:
    """Raise for the first thing without canonical form (an object's keys before its values), if any."""
    pending: list[tuple[str, int, object]] = [("$", 0, value)]
    seen: set[tuple[int, int]] = set()
    while pending:
        path, depth, current = pending.pop()
        if type(current) in _CONTAINERS:
            if depth == MAX_DEPTH:
                _refuse(path, f"is nested deeper than {MAX_DEPTH}")
            if (id(current), depth) not in seen:
                seen.add((id(current), depth))
                pending.extend(reversed([(at, depth + 1, child) for at, child in _iterate_children(path, current)]))
        else:
            _refuse_wrong_leaf(path, current)


def _iterate_children(path: str, container: object) -> Iterator[tuple[str, object]]:
    if type(container) is dict:
        for key, child in container.items():
            if type(key) is not str:
                _refuse(path, f"has a key of type `{type(key).__name__}`; keys are strings")
            at = path + _format_path_step(key)
            if _LONE_SURROGATE.search(key):
                _refuse(at, "has a lone surrogate in its key")
            if isinstance(child, RejectedValue) and child.of_key:
                _refuse(at, child.says)
            yield at, child
    elif isinstance(container, (list, tuple)):
        for index, child in enumerate(container):
            yield f"{path}[{index}]", child


def _refuse_wrong_leaf(path: str, leaf: object) -> None:
    if isinstance(leaf, RejectedValue):
        _refuse(path, leaf.says, fix=leaf.fix)
    kind = type(leaf)
    if kind not in _TYPES:
        fix = "write it as a string" if kind.__name__ in {"float", "Decimal"} else None
        _refuse(path, f"has the type `{kind.__name__}`, which has no canonical form", fix=fix)
    if kind is str and _LONE_SURROGATE.search(str(leaf)):
        _refuse(path, "has a lone surrogate")
    if isinstance(leaf, int) and not -_INTEGER_LIMIT < leaf < _INTEGER_LIMIT:
        _refuse(path, f"has more than {MAX_DIGITS} digits")


def _refuse(path: str, says: str, *, fix: str | None = None) -> NoReturn:
    short_path = path if len(path) <= 160 else f"{path[:80]}…{path[-60:]}"
    raise NotCanonical(f"`{short_path}` {says}", path=path, fix=fix)


def _format_path_step(key: str) -> str:
    # Escaped to ASCII, so that a path can be printed whatever the key; cut, so that a message stays readable.
    return f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{json.dumps(key[:64])}]"
