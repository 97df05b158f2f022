"""JSON as a document may be written: with fractions and exponents, but with nothing that two readers take differently.

Refused, with its place: bytes that are not UTF-8, a byte order mark, the same key twice in an object, `NaN` and its
like, numbers too long for any fact, nesting deeper than 128, more values than any document needs. A number stays the
text it was written as.
"""

import json
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from bpc.core.canon import MAX_DEPTH
from bpc.core.documents.notes import Notes, step
from bpc.core.documents.values import Given, Number
from bpc.core.facts import MAX_NUMBER_TEXT

_TEXT: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
# From its beginning as far as every text that begins also ends.
_WHOLE: Final = re.compile(rb'(?:[^"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)
_PIECE: Final = 262_144
_BRACKETS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in _BRACKETS)
_AT_ONCE: Final = MAX_DEPTH // 2
# Fifty thousand facts with forty members each; and so many that are in no object, or in a text.
MOST_VALUES: Final = 2_000_000
MOST_LOOSE_VALUES: Final = 300_000
VALUES_AN_OBJECT: Final = 200


class _Wrong:
    """Stands in a value just read for something that is refused, until its place is known."""

    __slots__ = ("says",)

    def __init__(self, says: str) -> None:
        self.says = says


def read(content: bytes, notes: Notes) -> Given:
    """The value of a JSON text; None, and a problem in `notes`, where it has none."""
    if content.startswith(b"\xef\xbb\xbf"):
        notes.problem("line 1, column 1", "is a byte order mark; save the document as UTF-8 without one")
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError as wrong:
        notes.problem(_place(content[: wrong.start].decode()), "is not UTF-8")
        return None
    most = min(MOST_VALUES, MOST_LOOSE_VALUES + VALUES_AN_OBJECT * content.count(b"{"))
    if content.count(b",") > most:
        notes.problem("$", f"has more than {most:,} values; split the document")
        return None
    if _is_deep(content):
        notes.problem("$", f"is nested deeper than {MAX_DEPTH}")
        return None
    return _parsed(text, notes)


def _parsed(text: str, notes: Notes) -> Given:
    hooks = _Hooks()
    try:
        value: Given = json.loads(
            text,
            object_pairs_hook=hooks.object,
            parse_int=hooks.number,
            parse_float=hooks.number,
            parse_constant=hooks.constant,
        )
    except json.JSONDecodeError as wrong:
        notes.problem(_place(text[: wrong.pos]), "is where the text stops being JSON")
        return None
    if hooks.met_wrong:
        _report(value, "$", notes)
        return None
    return value


class _Hooks:
    """What the parser asks on its way. It does not know where it is, so what is wrong is marked and found later."""

    def __init__(self) -> None:
        self.met_wrong = False

    def object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        made = dict(pairs)
        if len(made) != len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    made[key] = self._wrong("is given twice")
                seen.add(key)
        return made

    def number(self, text: str) -> "Number | _Wrong":
        if len(text) > MAX_NUMBER_TEXT:
            return self._wrong(f"is a number of {len(text)} characters, and no fact has room for it")
        return Number(text)

    def constant(self, text: str) -> _Wrong:
        return self._wrong(f"is `{text}`, which is not JSON")

    def _wrong(self, says: str) -> _Wrong:
        self.met_wrong = True
        return _Wrong(says)


def _report(value: object, path: str, notes: Notes) -> None:
    """Note everything that was marked; no deeper than `MAX_DEPTH` calls."""
    if isinstance(value, _Wrong):
        notes.problem(path, value.says)
    elif isinstance(value, dict):
        for name, member in value.items():
            _report(member, step(path, name), notes)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _report(item, f"{path}[{index}]", notes)


def _is_deep(content: bytes) -> bool:
    """Whether brackets are nested deeper than the parser shall follow them."""
    if content.count(b"[") + content.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for some in _brackets(content):
        opened = some.count(b"[") + some.count(b"{")
        # Bracket by bracket only where some of them may be too deep.
        if depth + opened > MAX_DEPTH and depth + max(accumulate(map(_BRACKETS.__getitem__, some))) > MAX_DEPTH:
            return True
        depth += 2 * opened - len(some)
    return False


def _brackets(content: bytes) -> Iterator[bytes]:
    """The brackets that stand outside of texts, some at a time: all texts at once would take many times their size."""
    at, size = 0, _PIECE
    while at < len(content):
        piece = content[at : at + size]
        whole = _WHOLE.match(piece)
        end = whole.end() if whole else 0
        if end == 0 and at + size >= len(content):
            return  # a text without end, where the parser stops
        if end == 0:
            size *= 2
            continue
        found = _TEXT.sub(b"", piece[:end]).translate(None, delete=_NO_BRACKETS)
        yield from (found[start : start + _AT_ONCE] for start in range(0, len(found), _AT_ONCE))
        at, size = at + end, _PIECE


def _place(before: str) -> str:
    return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"
