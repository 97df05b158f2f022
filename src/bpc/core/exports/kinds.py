"""Types as proofs write them (`Opt(List(Dec(2)))`), read back into the types they name.

Pure. Reads exactly what `str` of a type gives; anything else is `NotAType`.
"""

import re
from typing import Final

from bpc.core.errors import Invalid
from bpc.core.rules.types import BOOL, DATE, INT, MAX_TYPE_DEPTH, TEXT, Dec, List, Map, Opt, Qty, Record, Type

_SCALARS: Final = {str(kind): kind for kind in (BOOL, INT, TEXT, DATE)}
_WORD: Final = re.compile("[A-Za-z0-9_]+")
_NUMBER: Final = re.compile("[0-9]{1,2}")


class NotAType(Invalid):
    """A text that no type is written as."""

    def __init__(self, text: str) -> None:
        super().__init__(f"`{text[:80]}` is not a type of the rule language")


def read_type(text: str) -> Type:
    """The type that is written as `text`."""
    reader = _Reader(text)
    kind = reader.type(1)
    if reader.rest or str(kind) != text:
        raise NotAType(text)
    return kind


class _Reader:
    """Goes through the text once; `rest` is what it has not seen."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    @property
    def rest(self) -> str:
        return self.text[self.at :]

    def type(self, depth: int) -> Type:
        if depth > MAX_TYPE_DEPTH:
            raise NotAType(self.text)
        name = self._word()
        if name in _SCALARS:
            return _SCALARS[name]
        self._expect("(")
        kind = self._of(name, depth + 1)
        self._expect(")")
        return kind

    def _of(self, name: str, depth: int) -> Type:
        match name:
            case "Dec":
                return Dec(self._number())
            case "Qty":
                return Qty(self._word())
            case "Opt":
                return Opt(self.type(depth))
            case "List":
                return List(self.type(depth))
            case "Map":
                self._expect("Text, ")
                return Map(self.type(depth))
            case "Record":
                return Record(tuple(self._members(depth)))
            case _:
                raise NotAType(self.text)

    def _members(self, depth: int) -> list[tuple[str, Type]]:
        members = [self._member(depth)]
        while self.text.startswith(", ", self.at):
            self._expect(", ")
            members.append(self._member(depth))
        return members

    def _member(self, depth: int) -> tuple[str, Type]:
        name = self._word()
        self._expect(": ")
        return name, self.type(depth)

    def _word(self) -> str:
        found = _WORD.match(self.text, self.at)
        if found is None:
            raise NotAType(self.text)
        self.at = found.end()
        return found.group()

    def _number(self) -> int:
        word = self._word()
        if _NUMBER.fullmatch(word) is None:
            raise NotAType(self.text)
        return int(word)

    def _expect(self, wanted: str) -> None:
        if not self.text.startswith(wanted, self.at):
            raise NotAType(self.text)
        self.at += len(wanted)
