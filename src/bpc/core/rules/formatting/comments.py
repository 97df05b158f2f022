"""Where comments go when a text is written anew.

A comment is kept until something is written that stood behind it; it goes before that. A comment that stood at the
end of a line stays at the end of a line, one on a line of its own stays on its own. So each is written exactly once,
in order, and near where it was.
"""

import re
from bisect import bisect_left
from typing import Final

from bpc.core.rules.formatting.layout import BLANK_LINE, MUST_END, NEW_LINE, Doc, Line, Remark, Row
from bpc.core.rules.source import Source
from bpc.core.rules.syntax import Comment

_BLANK: Final = re.compile(r"\n[ \t\r]*\n")


class Comments:
    """The comments of a file that are still to be written."""

    def __init__(self, comments: tuple[Comment, ...], source: Source) -> None:
        self._comments = comments
        self.text = source.text
        self._starts = [comment.span.start for comment in comments]
        self._next = 0

    def before(self, position: int, otherwise: Doc) -> Doc:
        """What separates the piece written last from the one at `position`: comments, or `otherwise`."""
        pending = self._pending(position)
        if not pending:
            return otherwise
        parts: list[Doc] = [" " if self._is_trailing(pending[0]) else NEW_LINE]
        for comment in pending:
            parts += [Remark(comment.text), NEW_LINE]
        return Row(parts)

    def closing(self, position: int) -> Row:
        """The comments before a closing bracket, as its last lines; the line end behind them is up to the bracket."""
        pending = self._pending(position)
        parts: list[Doc] = []
        for index, comment in enumerate(pending):
            parts += [" " if not index and self._is_trailing(comment) else NEW_LINE, Remark(comment.text)]
        return Row((*parts, MUST_END)) if parts else Row(())

    def between(self, end: int, position: int, least: Line = NEW_LINE) -> Doc:
        """The same between two statements, with at most one blank line kept at each gap.

        `least` is what separates them at least, before the first comment that stands on its own line.
        """
        pending = self._pending(position)
        parts: list[Doc] = []
        if pending and self._is_trailing(pending[0]):
            comment = pending.pop(0)
            parts += [" ", Remark(comment.text)]
            end = max(end, comment.span.end)
        separator = least
        for comment in pending:
            parts += [self._gap(end, comment.span.start, separator), Remark(comment.text)]
            end, separator = max(end, comment.span.end), NEW_LINE
        parts.append(self._gap(end, position, separator))
        return Row(parts)

    def rest(self, end: int) -> Doc:
        """All that is left behind the last item, which ended at `end`; nothing stands before them if that is 0."""
        pending = self._pending(len(self.text) + 1)
        parts: list[Doc] = []
        if pending and end and self._is_trailing(pending[0]):
            comment = pending.pop(0)
            parts += [" ", Remark(comment.text)]
            end = max(end, comment.span.end)
        separator = BLANK_LINE
        for comment in pending:
            if end:
                parts.append(self._gap(end, comment.span.start, separator))
            parts.append(Remark(comment.text))
            end, separator = max(end, comment.span.end), NEW_LINE
        return Row(parts)

    def first(self, position: int) -> Doc:
        """The comments before the first item."""
        pending = self._pending(position)
        parts: list[Doc] = []
        for index, comment in enumerate(pending):
            following = pending[index + 1].span.start if index + 1 < len(pending) else position
            parts += [Remark(comment.text), self._gap(comment.span.end, following, NEW_LINE)]
        return Row(parts)

    def place_of(self, word: str, start: int, end: int) -> int:
        """Where `word` stands between two places, comments not counted."""
        at = self.text.find(word, start, end)
        while at >= 0:
            index = bisect_left(self._starts, at + 1) - 1
            if index < 0 or self._comments[index].span.end <= at:
                return at
            at = self.text.find(word, self._comments[index].span.end, end)
        return end

    def _pending(self, position: int) -> list[Comment]:
        first, self._next = self._next, max(self._next, bisect_left(self._starts, position))
        return list(self._comments[first : self._next])

    def _is_trailing(self, comment: Comment) -> bool:
        start = comment.span.start
        line_start = self.text.rfind("\n", 0, start) + 1
        return self.text[line_start:start].strip(" \t\r") != ""

    def _gap(self, end: int, start: int, separator: Line) -> Line:
        return BLANK_LINE if _BLANK.search(self.text, end, max(end, start)) else separator
