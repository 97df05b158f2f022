"""What the parser takes from a text that was parsed before: the items before an edit, and those after it.

Pure. An item is what stands between two places; the parser needs nothing else to read it. So an item before the edit
and before any mistake is the same item, and from the first item after the edit and after all mistakes on, everything is
the same, only further on in the text.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar, overload

from bpc.core.language import syntax
from bpc.core.language.parsing.token_cursor import make_span
from bpc.core.language.source import MAX_ERRORS, Diagnostic, Span
from bpc.core.language.tree_nodes import change_node, list_members

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ParsedRules:
    """The part of a file without mistakes, and every mistake.

    `has_unparsed_declaration` says that a name may be declared in the part that could not be parsed.
    """

    tree: syntax.SyntaxTree
    diagnostics: tuple[Diagnostic, ...]
    unparsed_fields: tuple[str, ...] = ()
    unparsed_definitions: tuple[str, ...] = ()
    has_unparsed_declaration: bool = False


class ParsedText(NamedTuple):
    """A text that was parsed, and what was parsed of it."""

    text: str
    parsed: ParsedRules


class CommonEnd(NamedTuple):
    """The end of an earlier text, which stands `distance` further on; which item starts at which place."""

    tree: syntax.SyntaxTree
    distance: int
    starts: Mapping[int, int]

    def move_rest(self, place: int, position: int) -> syntax.SyntaxTree:
        """Everything from the item that starts at `place` on; before it stand `position` items."""
        first, distance, before = self.starts[place], self.distance, place - self.distance
        overrides = [override for override in self.tree.overrides if override.position >= first]
        return syntax.SyntaxTree(
            tuple(_move_item(item, distance) for item in self.tree.items[first:]),
            tuple(move_node(comment, distance) for comment in self.tree.comments if comment.span.start > before),
            overrides=tuple(
                change_node(move_node(override, distance), position=override.position - first + position)
                for override in overrides
            ),
        )


def find_common_start(text: str, earlier: ParsedText, language: int) -> syntax.SyntaxTree:
    """The items of the earlier text that the parser would find again: before the edit and before any mistake.

    The parser looks two words ahead, so the last item before the edit is parsed again.
    """
    before, parsed_rules = earlier
    tree = parsed_rules.tree
    common_length = _count_common(text, before)
    end = min([common_length, *(diagnostic.span.start for diagnostic in parsed_rules.diagnostics)])
    count = bisect_right(tree.items, end, key=lambda item: item.span.end) - 1
    if count < 1 or tree.language != language:
        return syntax.SyntaxTree(())
    behind = tree.items[count - 1].span.end
    return syntax.SyntaxTree(
        tree.items[:count],
        tuple(comment for comment in tree.comments if comment.span.start < behind),
        tree.language,
        tree.stated_at,
        tuple(override for override in tree.overrides if override.position < count),
    )


def find_common_end(text: str, earlier: ParsedText, language: int) -> CommonEnd | None:
    """The items of the earlier text after the edit and after every mistake."""
    before, parsed_rules = earlier
    tree = parsed_rules.tree
    if tree.language != language or len(parsed_rules.diagnostics) >= MAX_ERRORS:
        return None
    first = len(before) - _count_common(text[::-1], before[::-1])
    first = max([first, *(diagnostic.span.end + 1 for diagnostic in parsed_rules.diagnostics)])
    overrides = {override.position: override.span.start for override in tree.overrides}
    places = [overrides.get(position, item.span.start) for position, item in enumerate(tree.items)]
    distance = len(text) - len(before)
    return CommonEnd(
        tree, distance, {place + distance: number for number, place in enumerate(places) if place >= first}
    )


def _count_common(text: str, other: str) -> int:
    """How many characters both begin with."""
    low, high = 0, min(len(text), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if text[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


# Moving

_UNMOVED: Final = frozenset((str, int, bool, type(None)))


def move_node(node: T, distance: int) -> T:
    """The same node, further on in the text; so is everything in it."""
    copy = object.__new__(node.__class__)
    for name in list_members(node):
        setattr(copy, name, _move_member(getattr(node, name), distance))
    return copy


def _move_member(value: Any, distance: int) -> Any:
    kind = value.__class__
    if kind in _UNMOVED:
        return value
    if kind is Span:
        return make_span((value[0] + distance, value[1] + distance))
    if kind is tuple:
        return tuple([_move_member(part, distance) for part in value]) if value else value
    copy = object.__new__(kind)
    for name in list_members(value):
        member = getattr(value, name)
        member_kind = member.__class__
        if member_kind is Span:  # half of all members: no call for them
            setattr(copy, name, make_span((member[0] + distance, member[1] + distance)))
        elif member_kind in _UNMOVED:
            setattr(copy, name, member)
        else:
            setattr(copy, name, _move_member(member, distance))
    return copy


def _move_item(item: syntax.Item, distance: int) -> syntax.Item:
    """The item further on. The rows of a table of cases, of which there are thousands, move when they are read."""
    if not isinstance(item, syntax.CaseTable):
        return move_node(item, distance)
    head = move_node(change_node(item, rows=()), distance)
    return change_node(head, rows=_move_rows(item.rows, distance))


def _move_rows(rows: Sequence[syntax.CaseRow], distance: int) -> "MovedRows":
    if isinstance(rows, MovedRows):
        return MovedRows(rows.origin, rows.distance + distance)
    return MovedRows(rows, distance)


class MovedRows(Sequence[syntax.CaseRow]):
    """The rows `origin`, further on in the text."""

    __slots__ = ("distance", "origin")

    def __init__(self, origin: Sequence[syntax.CaseRow], distance: int) -> None:
        self.origin = origin
        self.distance = distance

    def __len__(self) -> int:
        return len(self.origin)

    @overload
    def __getitem__(self, index: int) -> syntax.CaseRow: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[syntax.CaseRow]: ...
    def __getitem__(self, index: int | slice) -> syntax.CaseRow | Sequence[syntax.CaseRow]:
        if isinstance(index, slice):
            return MovedRows(self.origin[index], self.distance)
        return move_node(self.origin[index], self.distance)

    def __iter__(self) -> Iterator[syntax.CaseRow]:
        return (move_node(row, self.distance) for row in self.origin)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return tuple(self).__hash__()
