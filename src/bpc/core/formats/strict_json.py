"""Strict JSON: the one place that reads a JSON text from bytes nobody has checked.

Pure, and linear in the length of the text. It refuses whatever two programs could read differently: bytes that are not
UTF-8, a byte order mark, an object with the same key twice, `NaN` and `Infinity`, nesting deeper than 128. What a
number may look like is for a subclass to say: canonical JSON allows whole numbers, documents keep a number's text.

    bytes ── StrictJsonReader.read ──► value      `has_rejected`: some values in it are `RejectedValue`
                             └───────► JsonTextError(reason, line, column)
"""

import json
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Final, NoReturn

MAX_DEPTH: Final = 128
# The reasons of a `JsonTextError`.
BYTE_ORDER_MARK: Final = "the text starts with a byte order mark"
NOT_UTF8: Final = "the text is not UTF-8"
NOT_JSON: Final = "the text is not JSON"
TOO_DEEP: Final = f"the text is nested deeper than {MAX_DEPTH}"

# From its beginning as far as every string that begins also ends.
_COMPLETE_STRINGS: Final = re.compile(rb'(?:[^"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STRING_OR_BRACKET: Final = re.compile(_STRING.pattern + rb"|[\[\]{}]", re.DOTALL)
_PIECE_BYTES: Final = 262_144
_BRACKETS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_BRACKETS_AT_ONCE: Final = MAX_DEPTH // 2
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in _BRACKETS)
_NO_MARKS: Final = bytes(byte for byte in _NO_BRACKETS if byte != ord('"'))


class JsonTextError(Exception):
    """The bytes are not a strict JSON text; `line` and `column`, from 1, say where the reading stopped."""

    def __init__(self, reason: str, *, line: int, column: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column

    @property
    def says(self) -> str:
        """The reason and its place, which goes without saying for a byte order mark."""
        return (
            self.reason
            if self.reason == BYTE_ORDER_MARK
            else f"{self.reason} at line {self.line}, column {self.column}"
        )


class RejectedValue:
    """Takes the place of a value that is refused, until its path is known. `of_key`: its key is there twice."""

    __slots__ = ("fix", "of_key", "says")

    def __init__(self, says: str, *, fix: str | None = None, of_key: bool = False) -> None:
        self.says = says
        self.fix = fix
        self.of_key = of_key


class StrictJsonReader:
    """Read one text. The parser does not know paths, so refused values are marked; the caller looks for the marks."""

    def __init__(self) -> None:
        self.has_rejected = False

    def read(self, content: bytes) -> object:
        """The value of a JSON text. Raises `JsonTextError`."""
        if content.startswith(b"\xef\xbb\xbf"):
            raise JsonTextError(BYTE_ORDER_MARK, line=1, column=1)
        try:
            text = content.decode()
        except UnicodeDecodeError as wrong:
            _refuse_at(content[: wrong.start].decode(), NOT_UTF8)
        _check_depth(content)
        try:
            return json.loads(
                text,
                object_pairs_hook=self._read_object,
                parse_int=self.read_integer,
                parse_float=self.read_fraction,
                parse_constant=self._reject_constant,
            )
        except json.JSONDecodeError as wrong:
            _refuse_at(text[: wrong.pos], NOT_JSON)

    def read_integer(self, text: str) -> object:
        """A number without fraction and exponent."""
        raise NotImplementedError

    def read_fraction(self, text: str) -> object:
        """Any other number."""
        raise NotImplementedError

    def reject(self, says: str, *, fix: str | None = None, of_key: bool = False) -> RejectedValue:
        self.has_rejected = True
        return RejectedValue(says, fix=fix, of_key=of_key)

    def _read_object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        members = dict(pairs)
        if len(members) != len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    members[key] = self.reject("is given twice", of_key=True)
                seen.add(key)
        return members

    def _reject_constant(self, text: str) -> RejectedValue:
        return self.reject(f"is `{text}`, which is not a JSON number")


def _refuse_at(before: str, reason: str) -> NoReturn:
    line = before.count("\n") + 1
    column = len(before) - before.rfind("\n")
    raise JsonTextError(reason, line=line, column=column)


def _check_depth(content: bytes) -> None:
    """Count brackets before the parser recurses into them."""
    if content.count(b"[") + content.count(b"{") <= MAX_DEPTH:
        return
    depth = 0
    for start, piece in _split_between_strings(content):
        depth_after = _follow_depth(_drop_strings_quickly(piece), depth)
        if depth_after is None:
            depth_after = _follow_depth(_STRING.sub(b"", piece).translate(None, delete=_NO_BRACKETS), depth)
        if depth_after is None:
            excess = start + _find_excess(piece, depth)
            _refuse_at(content[:excess].decode(), TOO_DEEP)
        depth = depth_after


def _drop_strings_quickly(piece: bytes) -> bytes:
    """The brackets outside of strings: every quote that is not escaped begins or ends a string.

    Behind an escape outside of strings this may be wrong. The parser never gets there, but the depth is counted again.
    """
    plain = piece.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in piece else piece
    marks = plain.translate(None, delete=_NO_MARKS).replace(b'""', b"")
    return b"".join(marks.split(b'"')[::2])


def _follow_depth(brackets: bytes, depth: int) -> int | None:
    """The depth behind `brackets`, which begin at `depth`; None if one of them is too deep."""
    for first in range(0, len(brackets), _BRACKETS_AT_ONCE):
        group = brackets[first : first + _BRACKETS_AT_ONCE]
        open_count = group.count(b"[") + group.count(b"{")
        # Bracket by bracket only where some of them may be too deep.
        if depth + open_count > MAX_DEPTH and depth + max(accumulate(map(_BRACKETS.__getitem__, group))) > MAX_DEPTH:
            return None
        depth += 2 * open_count - len(group)
    return depth


def _split_between_strings(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Pieces of the text that end outside of strings, and where they start.

    All of the text at once would take many times its size. A string that never ends ends the pieces: the parser stops
    there too.
    """
    start, size = 0, _PIECE_BYTES
    if len(content) <= size:
        yield start, content
        return
    while start < len(content):
        complete = _COMPLETE_STRINGS.match(content[start : start + size])
        if complete and complete.end():
            yield start, complete[0]
            start, size = start + complete.end(), _PIECE_BYTES
        elif start + size >= len(content):
            return
        else:
            size *= 2


def _find_excess(piece: bytes, depth: int) -> int:
    """Where in `piece`, which starts at `depth`, the first bracket that is too deep stands."""
    for match in _STRING_OR_BRACKET.finditer(piece):
        depth += _BRACKETS.get(match[0][0], 0)
        if depth > MAX_DEPTH:
            return match.start()
    raise ValueError("no bracket of this piece is too deep")
