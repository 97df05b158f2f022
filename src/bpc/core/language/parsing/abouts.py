"""Parse what a field is for people: `about DP10 "Mass of the battery" group "General" order 10 cite "Annex VI"`.

Its words are keywords only there. What they say is checked by `bpc.core.language.checking.abouts`.
"""

import re
from typing import Final

from bpc.core.language import syntax
from bpc.core.language.parsing.lexer import NAME, SUB_ITEM, TEXT
from bpc.core.language.parsing.token_cursor import TokenCursor

ABOUT_WORDS: Final = "`group`, `order`, `cite`, `unit`, `help`, `label`"

_CLAUSES: Final = frozenset(("group", "order", "cite", "unit", "help", "label"))
_POINT: Final = re.compile("DP[0-9]+")
_POINT_HELP: Final = "a data point is written `DP10`, or `DP43.2` for a part of one"


class AboutParser(TokenCursor):
    """Parses `about` and its clauses."""

    def parse_about(self) -> syntax.About:
        first = self.index
        self.advance()
        point = self._parse_point() if self.kind == NAME else None
        what = "the label in quotes" if point else "a data point such as `DP10`, or the label in quotes"
        label = self.parse_text(what)
        clauses = []
        while self.kind == NAME and self.texts[self.index] in _CLAUSES:
            clauses.append(self._parse_clause_of_about())
        if self.kind == NAME and not self.is_at_item():
            help_ = self.suggestions.suggest(self.texts[self.index], sorted(_CLAUSES))
            self.raise_unexpected(f"{ABOUT_WORDS} or `;`", help_)
        return syntax.About(point, label, tuple(clauses), span=self.span_from(first))

    def _parse_point(self) -> syntax.Name:
        first, text = self.index, self.texts[self.index]
        if not _POINT.fullmatch(text):
            self.raise_unexpected("a data point such as `DP10`, or the label in quotes", _POINT_HELP)
        self.advance()
        if self.kind == SUB_ITEM:
            text += self.texts[self.index]
            self.advance()
        return syntax.Name(text, span=self.span_from(first))

    def _parse_clause_of_about(self) -> syntax.AboutClause:
        first = self.index
        word = self.parse_name("a clause")
        if word.text == "order":
            number = self.parse_natural("a whole number, as in `order 10`")
            return syntax.AboutClause(word, None, number, span=self.span_from(first))
        language = None
        if word.text in ("label", "help") and self.kind != TEXT:
            language = self.parse_name(f'a language, as in `{word.text} de "…"`')
        elif word.text == "label":
            self.raise_unexpected('a language, as in `label de "…"`', "the English label stands after `about`")
        value = self.parse_text("a text in quotes")
        return syntax.AboutClause(word, language, value, span=self.span_from(first))
