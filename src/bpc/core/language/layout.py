"""Layout: pieces of text with places where a line may end in, lines of at most `WIDTH` columns out.

Pure. A group is written on one line if it fits, otherwise all of its own line ends are taken. Whatever must end a line
(a comment) breaks every group around it. Comments have no width: a long one pushes nothing else to another line.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

WIDTH: Final = 100
INDENT: Final = 2


class Line:
    """A line may end here; where it does not, `flat` stands instead."""

    __slots__ = ("flat", "is_hard", "newlines")

    def __init__(self, flat: str, newlines: int = 1, *, is_hard: bool = False) -> None:
        self.flat = flat
        self.newlines = newlines
        self.is_hard = is_hard


class Remark:
    """A comment: it has no width, and the line has to end behind it."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class Group:
    """All of its own line ends are taken, or none."""

    __slots__ = ("is_hard", "part")

    def __init__(self, *parts: "Doc") -> None:
        self.part = parts[0] if len(parts) == 1 else Row(parts)
        self.is_hard = is_hard(self.part)


class Nest:
    """Lines that start inside are indented one step more."""

    __slots__ = ("is_hard", "part")

    def __init__(self, *parts: "Doc") -> None:
        self.part = Row(parts)
        self.is_hard = self.part.is_hard


class Row:
    """One piece after the other."""

    __slots__ = ("is_hard", "parts")

    def __init__(self, parts: "Iterable[Doc]") -> None:
        self.parts = tuple(parts)
        self.is_hard = any(is_hard(part) for part in self.parts)


Doc: TypeAlias = str | Line | Remark | Group | Nest | Row

SPACE: Final = Line(" ")
NO_SPACE: Final = Line("")
NEW_LINE: Final = Line("", is_hard=True)
# Ends no line by itself, but breaks the groups around it, so that the line ends at what follows.
MUST_END: Final = Line("", 0, is_hard=True)
BLANK_LINE: Final = Line("", 2, is_hard=True)


def is_hard(doc: Doc) -> bool:
    """Whether a line has to end inside."""
    return not isinstance(doc, (str, Remark)) and doc.is_hard


def laid_out(doc: Doc) -> str:
    """The text of `doc`, without blanks at line ends."""
    written: list[str] = []
    column = 0
    todo: list[tuple[int, bool, Doc]] = [(0, False, doc)]  # indentation, whether on one line, piece
    while todo:
        indent, is_flat, piece = todo.pop()
        if isinstance(piece, str):
            written.append(piece)
            column += len(piece)
        elif isinstance(piece, Row):
            todo += [(indent, is_flat, part) for part in reversed(piece.parts)]
        elif isinstance(piece, Group):
            is_flat = is_flat or (not piece.is_hard and _fits(piece.part, WIDTH - column, todo))
            todo.append((indent, is_flat, piece.part))
        elif isinstance(piece, Nest):
            todo.append((indent + INDENT, is_flat, piece.part))
        elif isinstance(piece, Remark):
            written.append(piece.text)
        elif is_flat:
            written.append(piece.flat)
            column += len(piece.flat)
        elif piece.newlines:
            _end_line(written, piece.newlines, indent)
            column = indent
    return "".join(written)


def _end_line(written: list[str], newlines: int, indent: int) -> None:
    while written and not written[-1].rstrip(" "):
        written.pop()
    if written:
        written[-1] = written[-1].rstrip(" ")
    written.append("\n" * newlines)
    written.append(" " * indent)


def _fits(doc: Doc, room: int, behind: list[tuple[int, bool, Doc]]) -> bool:
    """Whether `doc` on one line, and what follows it up to the next possible line end, has `room`."""
    todo: list[tuple[bool, Doc]] = [(True, doc)]
    at = len(behind)
    while room >= 0:
        if not todo:
            if at == 0:
                return True
            at -= 1
            todo.append(behind[at][1:])
            continue
        is_flat, piece = todo.pop()
        if isinstance(piece, str):
            room -= len(piece)
        elif isinstance(piece, Row):
            todo += [(is_flat, part) for part in reversed(piece.parts)]
        elif isinstance(piece, (Group, Nest)):
            # A group behind this one decides for itself: it may break.
            todo.append((is_flat, piece.part))
        elif isinstance(piece, Line):
            if not is_flat and piece.newlines:
                return True
            room -= len(piece.flat)
    return False
