"""Layout: pieces of text with places where a line may end in, lines of at most `WIDTH` columns out; comments kept.

Pure. A group is written on one line if it fits, otherwise all of its own line ends are taken. Whatever must end a line
(a comment) breaks every group around it. Comments have no width: a long one pushes nothing else to another line.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from bpc.core.language.source import Source
from bpc.core.language.syntax import Comment

WIDTH: Final = 100
INDENT: Final = 2


@dataclass(slots=True, eq=False)
class LineBreak:
    """A line may end here; where it does not, `flat` stands instead."""

    flat: str
    newlines: int = 1
    is_hard: bool = field(default=False, kw_only=True)


@dataclass(slots=True, eq=False)
class CommentPiece:
    """A comment: it has no width, and the line has to end behind it."""

    text: str


class Group:
    """All of its own line ends are taken, or none."""

    __slots__ = ("is_hard", "part")

    def __init__(self, *parts: "Doc") -> None:
        self.part = parts[0] if len(parts) == 1 else Concat(parts)
        self.is_hard = is_hard(self.part)


class Nest:
    """Lines that start inside are indented one step more."""

    __slots__ = ("is_hard", "part")

    def __init__(self, *parts: "Doc") -> None:
        self.part = Concat(parts)
        self.is_hard = self.part.is_hard


class Concat:
    """One piece after the other."""

    __slots__ = ("is_hard", "parts")

    def __init__(self, parts: "Iterable[Doc]") -> None:
        self.parts = tuple(parts)
        self.is_hard = any(is_hard(part) for part in self.parts)


Doc: TypeAlias = str | LineBreak | CommentPiece | Group | Nest | Concat

SPACE: Final = LineBreak(" ")
NO_SPACE: Final = LineBreak("")
NEW_LINE: Final = LineBreak("", is_hard=True)
# Ends no line by itself, but breaks the groups around it, so that the line ends at what follows.
FORCED_BREAK: Final = LineBreak("", 0, is_hard=True)
BLANK_LINE: Final = LineBreak("", 2, is_hard=True)


def is_hard(doc: Doc) -> bool:
    """Whether a line has to end inside."""
    return not isinstance(doc, (str, CommentPiece)) and doc.is_hard


def render_layout(doc: Doc) -> str:
    """The text of `doc`, without blanks at line ends."""
    pieces: list[str] = []
    column = 0
    todo: list[tuple[int, bool, Doc]] = [(0, False, doc)]  # indentation, whether on one line, piece
    while todo:
        indent, is_flat, piece = todo.pop()
        if isinstance(piece, str):
            pieces.append(piece)
            column += len(piece)
        elif isinstance(piece, Concat):
            todo += [(indent, is_flat, part) for part in reversed(piece.parts)]
        elif isinstance(piece, Group):
            is_flat = is_flat or (not piece.is_hard and _fits(piece.part, WIDTH - column, todo))
            todo.append((indent, is_flat, piece.part))
        elif isinstance(piece, Nest):
            todo.append((indent + INDENT, is_flat, piece.part))
        elif isinstance(piece, CommentPiece):
            pieces.append(piece.text)
        elif is_flat:
            pieces.append(piece.flat)
            column += len(piece.flat)
        elif piece.newlines:
            _end_line(pieces, piece.newlines, indent)
            column = indent
    return "".join(pieces)


def flatten(doc: Doc) -> str:
    """The text of `doc` without any line end; it has no comments."""
    pieces: list[str] = []
    todo: list[Doc] = [doc]
    while todo:
        piece = todo.pop()
        if isinstance(piece, str):
            pieces.append(piece)
        elif isinstance(piece, Concat):
            todo += reversed(piece.parts)
        elif isinstance(piece, Group | Nest):
            todo.append(piece.part)
        elif isinstance(piece, LineBreak):
            pieces.append(piece.flat)
    return "".join(pieces)


def _end_line(pieces: list[str], newlines: int, indent: int) -> None:
    while pieces and not pieces[-1].rstrip(" "):
        pieces.pop()
    if pieces:
        pieces[-1] = pieces[-1].rstrip(" ")
    pieces.append("\n" * newlines)
    pieces.append(" " * indent)


def _fits(doc: Doc, room: int, following: list[tuple[int, bool, Doc]]) -> bool:
    """Whether `doc` on one line, and what follows it up to the next possible line end, has `room`."""
    todo: list[tuple[bool, Doc]] = [(True, doc)]
    at = len(following)
    while room >= 0:
        if not todo:
            if at == 0:
                return True
            at -= 1
            todo.append(following[at][1:])
            continue
        is_flat, piece = todo.pop()
        if isinstance(piece, str):
            room -= len(piece)
        elif isinstance(piece, Concat):
            todo += [(is_flat, part) for part in reversed(piece.parts)]
        elif isinstance(piece, (Group, Nest)):
            # A group behind this one decides for itself: it may break.
            todo.append((is_flat, piece.part))
        elif isinstance(piece, LineBreak):
            if not is_flat and piece.newlines:
                return True
            room -= len(piece.flat)
    return False


_BLANK: Final = re.compile(r"\n[ \t\r]*\n")


class PendingComments:
    """The comments of a file that are still to be written."""

    def __init__(self, comments: tuple[Comment, ...], source: Source) -> None:
        self._comments = comments
        self.text = source.text
        self._starts = [comment.span.start for comment in comments]
        self._next = 0

    def take_before(self, position: int, otherwise: Doc) -> Doc:
        """What separates the piece written last from the one at `position`: comments, or `otherwise`."""
        pending = self._take_until(position)
        if not pending:
            return otherwise
        parts: list[Doc] = [" " if self._is_trailing(pending[0]) else NEW_LINE]
        for comment in pending:
            parts += [CommentPiece(comment.text), NEW_LINE]
        return Concat(parts)

    def take_before_closing(self, position: int) -> Concat:
        """The comments before a closing bracket, as its last lines; the line end behind them is up to the bracket."""
        pending = self._take_until(position)
        parts: list[Doc] = []
        for index, comment in enumerate(pending):
            parts += [" " if not index and self._is_trailing(comment) else NEW_LINE, CommentPiece(comment.text)]
        return Concat((*parts, FORCED_BREAK)) if parts else Concat(())

    def take_between(self, end: int, position: int, least: LineBreak = NEW_LINE) -> Doc:
        """The same between two statements, with at most one blank line kept at each gap.

        `least` is what separates them at least, before the first comment that stands on its own line.
        """
        parts, end, separator = self._take_after(end, position, least)
        return Concat((*parts, self._choose_gap(end, position, separator)))

    def take_remaining(self, end: int) -> Doc:
        """All that is left behind the last item, which ended at `end`; nothing stands before them if that is 0."""
        return Concat(self._take_after(end, len(self.text) + 1, BLANK_LINE)[0])

    def _take_after(self, end: int, position: int, separator: LineBreak) -> tuple[list[Doc], int, LineBreak]:
        """The comments up to `position` behind what ended at `end`; where they end, and what must follow them."""
        pending = self._take_until(position)
        parts: list[Doc] = []
        if pending and end and self._is_trailing(pending[0]):
            comment = pending.pop(0)
            parts += [" ", CommentPiece(comment.text)]
            end = max(end, comment.span.end)
        for comment in pending:
            if end:
                parts.append(self._choose_gap(end, comment.span.start, separator))
            parts.append(CommentPiece(comment.text))
            end, separator = max(end, comment.span.end), NEW_LINE
        return parts, end, separator

    def take_leading(self, position: int) -> Doc:
        """The comments before the first item."""
        pending = self._take_until(position)
        parts: list[Doc] = []
        for index, comment in enumerate(pending):
            following = pending[index + 1].span.start if index + 1 < len(pending) else position
            parts += [CommentPiece(comment.text), self._choose_gap(comment.span.end, following, NEW_LINE)]
        return Concat(parts)

    def find_word(self, word: str, start: int, end: int) -> int:
        """Where `word` stands between two places, comments not counted."""
        position = self.text.find(word, start, end)
        while position >= 0:
            index = bisect_left(self._starts, position + 1) - 1
            if index < 0 or self._comments[index].span.end <= position:
                return position
            position = self.text.find(word, self._comments[index].span.end, end)
        return end

    def _take_until(self, position: int) -> list[Comment]:
        first, self._next = self._next, max(self._next, bisect_left(self._starts, position))
        return list(self._comments[first : self._next])

    def _is_trailing(self, comment: Comment) -> bool:
        start = comment.span.start
        line_start = self.text.rfind("\n", 0, start) + 1
        return self.text[line_start:start].strip(" \t\r") != ""

    def _choose_gap(self, end: int, start: int, separator: LineBreak) -> LineBreak:
        return BLANK_LINE if _BLANK.search(self.text, end, max(end, start)) else separator
