"""Parsing of types: `Opt(List(Dec(2)))` as it is written."""

from collections.abc import Mapping
from typing import Final

from bpc.core.rules.parsing.cursor import Abandoned, Cursor
from bpc.core.rules.parsing.lex import NAME
from bpc.core.rules.syntax import (
    DecType,
    ListType,
    MapType,
    Name,
    OptType,
    QtyType,
    RecordType,
    SimpleType,
    TypeExpr,
)

MAX_TYPE_LEVELS: Final = 16

_SIMPLE: Final = ("Bool", "Int", "Text", "Date")
_WITH_PARTS: Final = ("Dec", "Qty", "Opt", "List", "Map", "Record")
# What other languages call them.
_MEANT: Final = {
    "boolean": "Bool",
    "integer": "Int",
    "number": "Int` or `Dec(2)",
    "decimal": "Dec(2)",
    "float": "Dec(2)",
    "double": "Dec(2)",
    "string": "Text",
    "str": "Text",
    "quantity": "Qty(kg)",
    "option": "Opt(…)",
    "optional": "Opt(…)",
    "array": "List(…)",
    "object": "Record(…)",
    **{name.translate({code: code + 32 for code in range(65, 91)}): name for name in (*_SIMPLE, *_WITH_PARTS)},
}
_AROUND: Final[Mapping[str, type[OptType | ListType | MapType]]] = {"Opt": OptType, "List": ListType, "Map": MapType}
_WRITTEN: Final = {
    "Dec": "Dec(2)",
    "Qty": "Qty(kg)",
    "Opt": "Opt(Int)",
    "List": "List(Int)",
    "Map": "Map(Text, Int)",
    "Record": "Record(name: Text)",
}


class TypeParser(Cursor):
    """A cursor that reads types."""

    def type(self, level: int = 1) -> TypeExpr:
        first, name = self.at, self.texts[self.at]
        if self.kind != NAME:
            self.unexpected("a type")
        if name not in _SIMPLE and name not in _WITH_PARTS:
            return self._unknown_type(name)
        if level > MAX_TYPE_LEVELS:
            says = f"types are nested at most {MAX_TYPE_LEVELS} levels deep"
            self.report("too-deep", says, self.token_span(), "give a part of it a field of its own")
            raise Abandoned
        self.advance()
        if name in _SIMPLE:
            return SimpleType(name, span=self.span_from(first))
        opening = self.at
        self.expect("(", help_=f"`{name}` is written as in `{_WRITTEN[name]}`")
        return self._parts(name, first, opening, level)

    def _unknown_type(self, name: str) -> TypeExpr:
        """Report it, pass over what stands in its parentheses, and go on with any type in its place."""
        first = self.at
        plain = name.translate({code: code + 32 for code in range(65, 91)})
        meant = plain if plain in _MEANT else self.suggestions.nearest(plain, _MEANT)
        help_ = None if meant is None else f"did you mean `{_MEANT[meant]}`?"
        self.report("unknown-type", f"there is no type `{name}`", self.token_span(), help_)
        self.advance()
        if self.accept("("):
            self.skip_to_closing(")")
        return SimpleType("Int", span=self.span_from(first))

    def _parts(self, name: str, first: int, opening: int, level: int) -> TypeExpr:
        """What stands in the parentheses of a type, and the type."""
        if name == "Dec":
            scale = int(self.natural("the number of decimals, such as `Dec(2)`").digits)
            self.expect_closing(")", opening)
            return DecType(scale, span=self.span_from(first))
        if name == "Qty":
            unit = self.name("a unit, such as `Qty(kg)`")
            self.expect_closing(")", opening)
            return QtyType(unit, span=self.span_from(first))
        if name == "Record":
            members = self._members(opening, level)
            return RecordType(members, span=self.span_from(first))
        if name == "Map":
            self._key_type()
        item = self.type(level + 1)
        self.expect_closing(")", opening)
        return _AROUND[name](item, span=self.span_from(first))

    def _key_type(self) -> None:
        if not self.is_word("Text"):
            self.unexpected("`Text`", "the keys of a map are texts, as in `Map(Text, Int)`")
        self.advance()
        self.expect(",", "`,` and the type of the values")

    def _members(self, opening: int, level: int) -> tuple[tuple[Name, TypeExpr], ...]:
        if self.kind == ")":
            self.report("empty-record", "a record needs at least one member", self.span_from(opening - 1))
            raise Abandoned
        members = [self._member(level)]
        while self.accept(","):
            members.append(self._member(level))
        self.expect_closing(")", opening, "`,` or ")
        return tuple(members)

    def _member(self, level: int) -> tuple[Name, TypeExpr]:
        name = self.name("a member's name")
        self.expect(":", "`:` and the member's type")
        return name, self.type(level + 1)
