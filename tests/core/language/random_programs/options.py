"""Values that may be absent, in random programs of level 2: `??`, `if some`, `is present`, `.member`, `in`."""

from bpc.core.facts.schemas import SCHEMAS
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, Map, Opt, Qty, Record, Type, contains_fact_record
from tests.core.language.random_programs.enums import EnumWriter
from tests.core.language.random_programs.syntax import (
    COALESCED,
    COMPARED,
    OPEN,
    PRIMARY,
    SUM,
    ExpressionText,
    Way,
)


class OptionWriter(EnumWriter):
    def list_ways_of_level_two(self, kind: Type) -> list[Way]:
        """For any type."""
        if isinstance(kind, Opt):
            own: list[Way] = [self.write_coalesced_options, self.write_fact_member_option]
            return [self.write_if_some, self.write_function_call, *own]
        if isinstance(kind, Map) or contains_fact_record(kind):
            return [self.write_if_some, self.write_coalesce]
        return [self.write_if_some, self.write_coalesce, self.write_own_member, self.write_function_call]

    def write_function_call(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        names = [name for name, (_, result) in self.functions.items() if result == kind]
        if not names:
            return self.write_literal(kind, depth, type_known)
        name = self.rng.choice(names)
        arguments = [self.write_expression(of, depth - 1, type_known=True).text for of in self.functions[name][0]]
        return ExpressionText(f"{name}({', '.join(arguments)}{self.write_comma() if arguments else ''})")

    def write_if_some(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        of = self.rng.choice([*SCHEMAS, self.choose_type(2), self.choose_type(2)])
        of = of.item if isinstance(of, Opt) else of
        option = self.write_typed(Opt(of), depth - 1).parenthesise_for(OPEN + 1)
        name = self.create_name()
        self.scope.append((name, of))
        body = self.write_expression(kind, depth, type_known=True) if type_known else self.write_typed(kind, depth)
        self.scope.pop()
        branch = f"if some {name} = {option} then {body.text} else"
        if self.rng.random() < 0.3:
            otherwise = self.write_expression(kind, depth - 1, type_known=True)
            condition = self.write_expression(BOOL, depth - 1, type_known=True).parenthesise_for(OPEN + 1)
            branch = f"{branch} if {condition} then {otherwise.text} else"
        return ExpressionText(f"{branch} {self.write_expression(kind, depth, type_known=True).text}", OPEN)

    def write_coalesce(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        sides = [self.write_typed(Opt(kind), depth).parenthesise_for(SUM) for _ in range(self.rng.choice([1, 1, 2]))]
        last = self.write_expression(kind, depth, type_known=True) if type_known else self.write_typed(kind, depth)
        return ExpressionText(" ?? ".join([*sides, last.parenthesise_for(SUM)]), COALESCED)

    def write_coalesced_options(self, kind: Type, depth: int, _: bool) -> ExpressionText:
        sides = [self.write_typed(kind, depth).parenthesise_for(SUM) for _ in range(self.rng.choice([2, 2, 3]))]
        if self.rng.random() < 0.1:
            sides[-1] = "none"
        return ExpressionText(" ?? ".join(sides), COALESCED)

    def write_own_member(self, kind: Type, depth: int, _: bool) -> ExpressionText:
        """A member of a record, which is there; in a chain of members, too."""
        record: Type = Record((("a", kind), ("b", self.choose_type(1))))
        path = ".a"
        if self.rng.random() < 0.3:
            record, path = Record((("in", record),)), ".in.a"
        return ExpressionText(f"{self.write_typed(record, depth).parenthesise_for(PRIMARY)}{path}")

    def write_fact_member_option(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        item = kind.item if isinstance(kind, Opt) else kind
        homes = [(fact, name) for fact, members in SCHEMAS.items() for name, of in members.items() if of == item]
        if not homes and contains_fact_record(item):
            return self.write_literal(kind, depth, type_known)
        if not homes:
            record: Type = Opt(Record((("a", self.rng.choice([item, kind])),)))
            return ExpressionText(f"{self.write_typed(record, depth).parenthesise_for(PRIMARY)}.a")
        fact, name = self.rng.choice(homes)
        holder = self.write_typed(fact if self.rng.random() < 0.5 else Opt(fact), depth)
        return ExpressionText(f"{holder.parenthesise_for(PRIMARY)}.{name}")

    def write_interpolation(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        """A text with expressions in it; none of them may contain a text."""
        pieces: list[str] = []
        for _ in range(self.rng.choice([1, 2, 3])):
            kinds: list[Type] = [INT, BOOL, DATE, TEXT, Dec(2), Dec(18), Qty("kg")]
            of = self.rng.choice(kinds)
            text = self.write_expression(of, depth, type_known=False).text
            if '"' not in text and "--" not in text and "\n" not in text:
                name = self.rng.choice(["", "", f"n{len(pieces)}: "])
                pieces.append(f"{{{name}{text}}}")
        if not pieces:
            return self.write_concat(kind, depth, type_known)
        before, after = self.rng.choice(["", "a ", "ß"]), self.rng.choice(["", "\\{}", "."])
        return ExpressionText(f'"{before}{", ".join(pieces)}{after}"')

    def write_presence(self, _: Type, depth: int, __: bool) -> ExpressionText:
        kind = self.rng.choice([*SCHEMAS, self.choose_type(2)])
        option = self.write_typed(kind if isinstance(kind, Opt) else Opt(kind), depth)
        return ExpressionText(f"{option.parenthesise_for(SUM)} is {self.rng.choice(['present', 'absent'])}", COMPARED)

    def write_membership(self, _: Type, depth: int, __: bool) -> ExpressionText:
        kind = self.choose_type(2)
        value = self.write_typed(kind, depth).parenthesise_for(SUM)
        items = self.write_same_type(kind, depth, True, self.rng.choice([1, 2, 3]))
        if self.rng.random() < 0.3:
            items.append(value)
        return ExpressionText(f"{value} in [{', '.join(items)}]", COMPARED)
