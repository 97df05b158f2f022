"""Truths, texts, options, lists and records of random programs."""

from bpc.core.rules.types import BOOL, DATE, INT, TEXT, Dec, Fact, List, Map, Opt, Qty, Record, Type, contains_fact
from bpc.core.schemas import SCHEMAS
from bpc.core.units import UNITS
from tests.core.rules.program_numbers import Numbers
from tests.core.rules.program_worlds import any_digits, quoted
from tests.core.rules.program_writing import AND, COMPARED, OR, SUM, UNARY, Text, any_type

_STATUSES = ["PASS", "FAIL", "WARN", "NOT_APPLICABLE"]
_COMPARATORS = ["==", "!=", "<", "<=", ">", ">="]


class Values(Numbers):
    def truth(self, _: Type, depth: int, __: bool) -> Text:
        if self.lambdas == 0 and self.rng.random() < 0.6:
            return self.emit(depth)
        return Text(f"!{self.expr(BOOL, depth, wanted=False).at(UNARY)}", UNARY)

    def emit(self, depth: int) -> Text:
        status = self.status(depth, self.rng.choice([0, 0, 1, 2]))
        message = self.expr(TEXT, depth - 1, wanted=True).text
        return Text(f"emitCompliance({self.code()}, {status}, {message}{self.comma()})")

    def status(self, depth: int, ifs: int) -> str:
        if ifs == 0:
            return f'"{self.rng.choice(_STATUSES)}"'
        condition = self.expr(BOOL, depth - 1, wanted=True).text
        return f"if ({condition}) then {self.status(depth, 0)} else {self.status(depth, ifs - 1)}"

    def logic(self, _: Type, depth: int, __: bool) -> Text:
        op, tightness = self.rng.choice([("&&", AND), ("||", OR)])
        sides = [self.expr(BOOL, depth, wanted=False).at(tightness + 1) for _ in range(self.rng.choice([2, 2, 3, 4]))]
        return Text(f" {op} ".join(sides), tightness)

    def comparison(self, _: Type, depth: int, __: bool) -> Text:
        """Of what has an order, or of numbers: Decs of any scales, and a bare number beside one."""
        dec, qty = Dec(self.rng.choice([0, 2, 6, 18, 24])), Qty(self.rng.choice(list(UNITS)))
        kinds: list[Type] = [INT, TEXT, DATE, dec, qty]
        kind = self.rng.choice(kinds)
        left, right = self.typed(kind, depth), self.typed(kind, depth)
        if isinstance(kind, Dec):
            number = Text(any_digits(self.rng, 18, wild=self.wild))
            right = self.rng.choice([number, self.typed(Dec(self.rng.randint(0, 36)), depth)])
        elif kind == INT and self.rng.random() < 0.4:
            right = Text(any_digits(self.rng, 0, wild=self.wild))
        sides = [left.at(SUM), right.at(SUM)]
        self.rng.shuffle(sides)
        return Text(f" {self.rng.choice(_COMPARATORS)} ".join(sides), COMPARED)

    def equality(self, _: Type, depth: int, __: bool) -> Text:
        maps = self.map_types()
        kind = self.rng.choice(maps) if maps and self.rng.random() < 0.2 else any_type(self.rng, 3)
        left, right = self.typed(kind, depth), self.typed(kind, depth)
        if isinstance(kind, Opt | List):
            right = self.rng.choice([right, self.bare(kind) or right])
        sides = [left.at(SUM), right.at(SUM)]
        self.rng.shuffle(sides)
        return Text(f" {self.rng.choice(['==', '!='])} ".join(sides), COMPARED)

    def is_some(self, _: Type, depth: int, __: bool) -> Text:
        kind = self.rng.choice([*SCHEMAS, any_type(self.rng, 2)])
        return Text(f"isSome({self.typed(kind if isinstance(kind, Opt) else Opt(kind), depth).text})")

    def concat(self, _: Type, depth: int, __: bool) -> Text:
        parts = [self.expr(TEXT, depth, wanted=True).text for _ in range(self.rng.choice([1, 2, 2, 3, 5]))]
        return Text(f"concat({', '.join(parts)}{self.comma()})")

    def product_text(self, _: Type, __: int, ___: bool) -> Text:
        return Text(self.rng.choice(["productSku()", "productName()"]))

    def issued(self, _: Type, __: int, ___: bool) -> Text:
        return Text("issuedOn()")

    def option(self, kind: Type, depth: int, wanted: bool) -> Text:
        if not isinstance(kind, Opt):
            raise TypeError(kind)
        read = self.member_of_fact(kind.item, depth)
        if read is not None and self.rng.random() < 0.6:
            return read
        if isinstance(kind.item, Fact):
            return Text(self.fact_option(kind.item, depth))
        if isinstance(kind.item, Map):
            return Text(self.map_option(kind.item))
        if self.rng.random() < 0.4 and not contains_fact(kind.item):
            return self.member_of_record(kind.item, depth)
        return Text(f"some({self.expr(kind.item, depth, wanted=wanted).text})")

    def member_of_fact(self, kind: Type, depth: int) -> Text | None:
        homes = [(fact, name) for fact, members in SCHEMAS.items() for name, of in members.items() if of == kind]
        seen = [known for _, known in self.scope if isinstance(known, Map)]
        maps = [of for of in [*self.map_types(), *seen] if of.item == kind]
        if maps and self.rng.random() < 0.5:
            return Text(
                f"mapGet({self.expr(maps[0], depth, wanted=False).text}, {self.expr(TEXT, 1, wanted=True).text})"
            )
        if not homes:
            return None
        fact, name = self.rng.choice(homes)
        return Text(f"recordGet({self.expr(fact, depth, wanted=False).text}, {quoted(self.rng, name)})")

    def member_of_record(self, kind: Type, depth: int) -> Text:
        """A record's member; one that is an option itself stays as it is."""
        of = Opt(kind) if self.rng.random() < 0.3 else kind
        record = Record((("a", of), (self.rng.choice(["b", "if"]), any_type(self.rng, 1))))
        return Text(f'recordGet({self.typed(record, depth).text}, "a")')

    def list_literal(self, kind: Type, depth: int, wanted: bool) -> Text:
        if not isinstance(kind, List):
            raise TypeError(kind)
        items = self.agreeing(kind.item, depth, wanted, self.rng.choice([1, 2, 2, 3, 6]))
        return Text(f"[{', '.join(items)}{self.comma()}]")

    def record_literal(self, kind: Type, depth: int, wanted: bool) -> Text:
        if not isinstance(kind, Record):
            raise TypeError(kind)
        members = list(kind.members)
        self.rng.shuffle(members)
        parts = [f"{name}: {self.expr(item, depth, wanted=wanted).text}" for name, item in members]
        return Text("{" + ", ".join(parts) + self.comma() + "}")

    def mapped(self, kind: Type, depth: int, wanted: bool) -> Text:
        if not isinstance(kind, List) or self.lambdas >= 3:
            return self.literal(kind, depth, wanted)
        of, items = self.some_list(depth)
        name = self.name()
        with self.bound(name, of):
            body = self.uses() + self.typed(kind.item, depth).text
        return Text(f"map({items}, fn({name}) => {body})")

    def filtered(self, kind: Type, depth: int, wanted: bool) -> Text:
        if not isinstance(kind, List) or self.lambdas >= 3:
            return self.literal(kind, depth, wanted)
        items = self.typed(kind, depth).text
        name = self.name()
        with self.bound(name, kind.item):
            body = self.uses() + self.expr(BOOL, depth, wanted=True).text
        return Text(f"filter({items}, fn({name}) => {body}{self.comma()})")
