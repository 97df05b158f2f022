"""Enumerations of random programs of level 2: declarations, `match`, and members from texts."""

from bpc.core.language.types import TEXT, EnumType, Opt, Type
from tests.core.language.random_programs.functions import FunctionWriter
from tests.core.language.random_programs.syntax import ExpressionText
from tests.core.language.random_programs.worlds import quote_text

_MEMBERS = {"Category": ["EV", "LMT", "INDUSTRIAL", "OTHER"], "Metal": ["COBALT", "Li", "OTHER"], "match_": ["ONLY"]}
_SPELLINGS = ["ev", "electric vehicle", "Größe", "", "Z", "a b"]


class EnumWriter(FunctionWriter):
    def declare_enums(self) -> list[str]:
        """Declare some enumerations; the texts of their declarations."""
        texts = []
        for name in self.rng.sample(list(_MEMBERS), self.rng.randint(1, len(_MEMBERS))):
            spellings = {member: member for member in _MEMBERS[name]}
            parts = []
            for member in _MEMBERS[name]:
                own = [text for text in self.rng.sample(_SPELLINGS, 2) if text not in spellings]
                own = own[: self.rng.choice([0, 1, 2])]
                spellings |= dict.fromkeys(own, member)
                parts.append(" ".join([member, *(quote_text(self.rng, text) for text in own)]))
            self.enums += (EnumType(name, tuple(_MEMBERS[name]), spellings),)
            texts.append(f"enum {name} = {self.rng.choice([' | ', chr(10) + '  | ']).join(parts)};\n")
        return texts

    def write_match(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        enum = self.rng.choice(self.enums)
        is_option = self.rng.random() < 0.4
        subject = self.write_typed(Opt(enum) if is_option else enum, depth)
        names = [*enum.members, *(["none"] if is_option else [])]
        self.rng.shuffle(names)
        groups = [names[start : start + 2] for start in range(0, len(names), 2)]
        labels = [" | ".join(group) for group in groups]
        if self.rng.random() < 0.5:
            labels[-1] = "else"
        bodies = self.write_same_type(kind, depth, type_known, len(labels))
        arms = [f"{label} => {body}" for label, body in zip(labels, bodies, strict=True)]
        return ExpressionText(f"match {subject.text} {{ {', '.join(arms)}{self.write_comma()} }}")

    def write_to_enum(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        if not isinstance(kind, Opt) or not isinstance(kind.item, EnumType):
            return self.write_literal(kind, depth, type_known)
        kinds: list[Type] = [TEXT, Opt(TEXT)]
        text = self.write_typed(self.rng.choice(kinds), depth).text
        if self.rng.random() < 0.6:
            text = quote_text(self.rng, self.rng.choice(sorted(kind.item.spellings)))
        return ExpressionText(f"{kind.item.name}({text})")
