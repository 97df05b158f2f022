"""Parse what level 2 of the language adds for enumerations: their declarations, and `match`."""

from typing import Final

from bpc.core.language import syntax
from bpc.core.language.parsing.definitions import DefinitionParser
from bpc.core.language.parsing.lexer import MAX_NAME_LENGTH, NAME, TEXT

# So that a member, which is held as the text of its name, has size 1 (BPC-COST-1).
MAX_MEMBER_LENGTH: Final = MAX_NAME_LENGTH - 1
_REST: Final = "else"


class EnumerationParser(DefinitionParser):
    """Parses enumerations and `match`."""

    def parse_enum(self) -> syntax.EnumDeclaration:
        first = self.index
        self.advance()
        name = self.parse_name("the name of the enumeration")
        self.expect("=", "`=` and the members, as in `enum Category = EV | LMT;`")
        members = [self._parse_enum_member()]
        while self.accept("|"):
            members.append(self._parse_enum_member())
        if self.kind == ",":
            self.raise_unexpected("`|`, a spelling in quotes or `;`", "members are separated by `|`")
        self.expect_semicolon("the enumeration", "`|`, a spelling in quotes")
        return syntax.EnumDeclaration(name, tuple(members), span=self.span_from(first))

    def _parse_enum_member(self) -> syntax.EnumMember:
        first = self.index
        name = self.parse_variable("the name of a member", "a member")
        if len(name.text) > MAX_MEMBER_LENGTH:
            message = f"the name of a member has at most {MAX_MEMBER_LENGTH} characters"
            self.report("name-too-long", message, name.span)
        spellings = []
        while self.kind == TEXT:
            spellings.append(self.parse_text("a spelling"))
        return syntax.EnumMember(name, tuple(spellings), span=self.span_from(first))

    def parse_match(self) -> syntax.Match:
        first, level = self.index, self.level
        self.advance()
        self.enter_level()
        subject = self.parse_expr()
        self.level = level
        subject_height = self.height
        if self.kind != "{":
            self.raise_unexpected("an operator, or `{` and the cases")
        arms = self.parse_items(first, "}", self._parse_arm)
        self.record_height(max(subject_height, self.height - 1), first)
        return syntax.Match(subject, tuple(arms), span=self.span_from(first))

    def _parse_arm(self) -> syntax.MatchArm:
        first = self.index
        patterns = [self._parse_pattern()]
        while self.accept("|"):
            patterns.append(self._parse_pattern())
        if len(patterns) > 1 and any(pattern.text == _REST for pattern in patterns):
            message = "`else` stands alone: it means all members that no other case names"
            self.report("unexpected-token", message, self.span_from(first))
        self.expect("=>", "`|` or `=>` and the value of this case")
        body = self.parse_expr()
        if self.kind == ";":
            self.raise_unexpected("an operator, `,` or `}`", "the cases of a `match` are separated by `,`")
        return syntax.MatchArm(tuple(patterns), body, span=self.span_from(first))

    def _parse_pattern(self) -> syntax.Name:
        if self.kind not in (NAME, "none", _REST):
            help_ = "write the name of a member, without quotes" if self.kind == TEXT else None
            self.raise_unexpected("a member, `none` or `else`", help_)
        pattern = syntax.Name(self.texts[self.index], span=self.current_span())
        self.advance()
        return pattern
