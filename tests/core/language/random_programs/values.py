"""Truths, texts, options, lists and records of random programs."""

from bpc.core.facts.schemas import SCHEMAS
from bpc.core.facts.units import UNITS
from bpc.core.language.types import (
    BOOL,
    DATE,
    INT,
    TEXT,
    Dec,
    FactRecordType,
    List,
    Map,
    Opt,
    Qty,
    Record,
    Type,
    contains_fact_record,
)
from tests.core.language.random_programs.numbers import NumberWriter
from tests.core.language.random_programs.syntax import AND, COMPARED, OR, SUM, UNARY, ExpressionText
from tests.core.language.random_programs.worlds import draw_digits, quote_text

_STATUSES = ["PASS", "FAIL", "WARN", "NOT_APPLICABLE"]
_COMPARATORS = ["==", "!=", "<", "<=", ">", ">="]


class ValueWriter(NumberWriter):
    def write_truth(self, _: Type, depth: int, __: bool) -> ExpressionText:
        if self.lambdas == 0 and not self.in_definition and self.rng.random() < 0.6:
            return self.write_emit(depth)
        return ExpressionText(f"!{self.write_expression(BOOL, depth, type_known=False).parenthesise_for(UNARY)}", UNARY)

    def write_emit(self, depth: int) -> ExpressionText:
        status = self.write_status(depth, self.rng.choice([0, 0, 1, 2]))
        message = self.write_expression(TEXT, depth - 1, type_known=True).text
        return ExpressionText(f"emitCompliance({self.create_code()}, {status}, {message}{self.write_comma()})")

    def write_status(self, depth: int, ifs: int) -> str:
        if ifs == 0:
            return f'"{self.rng.choice(_STATUSES)}"'
        condition = self.write_expression(BOOL, depth - 1, type_known=True).text
        return f"if ({condition}) then {self.write_status(depth, 0)} else {self.write_status(depth, ifs - 1)}"

    def write_logic(self, _: Type, depth: int, __: bool) -> ExpressionText:
        op, tightness = self.rng.choice([("&&", AND), ("||", OR)])
        sides = [
            self.write_expression(BOOL, depth, type_known=False).parenthesise_for(tightness + 1)
            for _ in range(self.rng.choice([2, 2, 3, 4]))
        ]
        return ExpressionText(f" {op} ".join(sides), tightness)

    def write_comparison(self, _: Type, depth: int, __: bool) -> ExpressionText:
        """Of what has an order, or of numbers: Decs of any scales, and a bare number beside one."""
        dec, qty = Dec(self.rng.choice([0, 2, 6, 18, 24])), Qty(self.rng.choice(list(UNITS)))
        kinds: list[Type] = [INT, TEXT, DATE, dec, qty]
        kind = self.rng.choice(kinds)
        left, right = self.write_typed(kind, depth), self.write_typed(kind, depth)
        if isinstance(kind, Dec):
            number = ExpressionText(draw_digits(self.rng, 18, wild=self.wild))
            right = self.rng.choice([number, self.write_typed(Dec(self.rng.randint(0, 36)), depth)])
        elif kind == INT and self.rng.random() < 0.4:
            right = ExpressionText(draw_digits(self.rng, 0, wild=self.wild))
        sides = [left.parenthesise_for(SUM), right.parenthesise_for(SUM)]
        self.rng.shuffle(sides)
        return ExpressionText(f" {self.rng.choice(_COMPARATORS)} ".join(sides), COMPARED)

    def write_equality(self, _: Type, depth: int, __: bool) -> ExpressionText:
        maps = self.list_map_types()
        kind = self.rng.choice(maps) if maps and self.rng.random() < 0.2 else self.choose_type(3)
        left, right = self.write_typed(kind, depth), self.write_typed(kind, depth)
        if isinstance(kind, Opt | List):
            right = self.rng.choice([right, self.write_bare(kind) or right])
        sides = [left.parenthesise_for(SUM), right.parenthesise_for(SUM)]
        self.rng.shuffle(sides)
        return ExpressionText(f" {self.rng.choice(['==', '!='])} ".join(sides), COMPARED)

    def write_is_some(self, _: Type, depth: int, __: bool) -> ExpressionText:
        kind = self.rng.choice([*SCHEMAS, self.choose_type(2)])
        return ExpressionText(f"isSome({self.write_typed(kind if isinstance(kind, Opt) else Opt(kind), depth).text})")

    def write_concat(self, _: Type, depth: int, __: bool) -> ExpressionText:
        parts = [
            self.write_expression(TEXT, depth, type_known=True).text for _ in range(self.rng.choice([1, 2, 2, 3, 5]))
        ]
        return ExpressionText(f"concat({', '.join(parts)}{self.write_comma()})")

    def write_product_text(self, _: Type, __: int, ___: bool) -> ExpressionText:
        return ExpressionText(self.rng.choice(["productSku()", "productName()"]))

    def write_issued_on(self, _: Type, __: int, ___: bool) -> ExpressionText:
        return ExpressionText("issuedOn()")

    def write_option(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        if not isinstance(kind, Opt):
            raise TypeError(kind)
        read = self.write_fact_member(kind.item, depth)
        if read is not None and self.rng.random() < 0.6:
            return read
        if isinstance(kind.item, FactRecordType):
            return self.write_fact_text(self.write_fact_option(kind.item, depth))
        if isinstance(kind.item, Map):
            return ExpressionText(self.write_map_option(kind.item))
        if self.rng.random() < 0.4 and not contains_fact_record(kind.item):
            return self.write_record_member(kind.item, depth)
        return ExpressionText(f"some({self.write_expression(kind.item, depth, type_known=type_known).text})")

    def write_fact_member(self, kind: Type, depth: int) -> ExpressionText | None:
        homes = [(fact, name) for fact, members in SCHEMAS.items() for name, of in members.items() if of == kind]
        seen = [known for _, known in self.scope if isinstance(known, Map)]
        maps = [of for of in [*self.list_map_types(), *seen] if of.item == kind]
        if maps and self.rng.random() < 0.5:
            value = self.write_expression(maps[0], depth, type_known=False).text
            key = self.write_expression(TEXT, 1, type_known=True).text
            return ExpressionText(f"mapGet({value}, {key})")
        if not homes:
            return None
        fact, name = self.rng.choice(homes)
        return ExpressionText(
            f"recordGet({self.write_expression(fact, depth, type_known=False).text}, {quote_text(self.rng, name)})"
        )

    def write_record_member(self, kind: Type, depth: int) -> ExpressionText:
        """A record's member; one that is an option itself stays as it is."""
        of = Opt(kind) if self.rng.random() < 0.3 else kind
        record = Record((("a", of), (self.rng.choice(["b", "if"]), self.choose_type(1))))
        return ExpressionText(f'recordGet({self.write_typed(record, depth).text}, "a")')

    def write_list(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        if not isinstance(kind, List):
            raise TypeError(kind)
        items = self.write_same_type(kind.item, depth, type_known, self.rng.choice([1, 2, 2, 3, 6]))
        return ExpressionText(f"[{', '.join(items)}{self.write_comma()}]")

    def write_record(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        if not isinstance(kind, Record):
            raise TypeError(kind)
        members = list(kind.members)
        self.rng.shuffle(members)
        parts = [f"{name}: {self.write_expression(item, depth, type_known=type_known).text}" for name, item in members]
        return ExpressionText("{" + ", ".join(parts) + self.write_comma() + "}")

    def write_map(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        if not isinstance(kind, List) or self.lambdas >= 3:
            return self.write_literal(kind, depth, type_known)
        of, items = self.write_some_list(depth)
        name = self.create_name()
        with self.bind_parameter(name, of):
            body = self.write_uses() + self.write_typed(kind.item, depth).text
        return ExpressionText(f"map({items}, fn({name}) => {body})")

    def write_filter(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        if not isinstance(kind, List) or self.lambdas >= 3:
            return self.write_literal(kind, depth, type_known)
        items = self.write_typed(kind, depth).text
        name = self.create_name()
        with self.bind_parameter(name, kind.item):
            body = self.write_uses() + self.write_expression(BOOL, depth, type_known=True).text
        return ExpressionText(f"filter({items}, fn({name}) => {body}{self.write_comma()})")
