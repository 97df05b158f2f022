"""Arithmetic of random programs: every operator and every conversion, with every pair of types it takes."""

from bpc.core.rules.types import INT, Dec, List, Qty, Type
from bpc.core.units import RELATIONS, UNITS, same_dimension
from tests.core.rules.program_blocks import Blocks
from tests.core.rules.program_writing import PRODUCT, SUM, UNARY, Text


class Numbers(Blocks):
    def sum(self, kind: Type, depth: int, wanted: bool) -> Text:
        if isinstance(kind, Dec | Qty) or kind == INT:
            if wanted and not isinstance(kind, Qty) and self.rng.random() < 0.1:
                sides = [self.bare(kind), self.bare(kind)]
                if all(sides):
                    return Text(f" {self.rng.choice('+-')} ".join(side.text for side in sides if side), SUM)
            return self.longer_sum(kind, depth)
        raise TypeError(kind)

    def longer_sum(self, kind: Type, depth: int) -> Text:
        """The first operand is solid; then come numbers, Ints beside Decs, and whatever else."""
        first = INT if isinstance(kind, Dec) and kind.scale <= 18 and self.rng.random() < 0.2 else kind
        text = self.typed(first, depth).at(PRODUCT)
        links = self.rng.choice([1, 1, 2, 3])
        for link in range(links):
            other = self.typed(kind, depth)
            if first == kind or link:
                other = self.rng.choice([other, self.bare(kind) or other])
            if isinstance(kind, Dec) and first == kind and self.rng.random() < 0.2:
                other = self.typed(INT, depth)
            text += f" {self.rng.choice('+-')} {other.at(PRODUCT)}"
        return Text(text, SUM)

    def product(self, kind: Type, depth: int, _: bool) -> Text:
        one, other = self.rng.choice(self.factors(kind))
        return Text(f"{self.factor(one, depth).at(PRODUCT)} * {self.factor(other, depth).at(UNARY)}", PRODUCT)

    def factor(self, kind: Type, depth: int) -> Text:
        """A number in a product keeps its own scale, so it may be bare, but not a sum's worth of context."""
        return self.expr(kind, depth, wanted=False)

    def factors(self, kind: Type) -> list[tuple[Type, Type]]:
        match kind:
            case Dec(scale):
                one = self.rng.randint(max(0, scale - 18), min(18, scale))
                return [(Dec(one), Dec(scale - one))] * 2 + [(INT, kind), (kind, INT)]
            case Qty(unit):
                number = self.any_number(36)
                related = [(one, other) for made, one, other in RELATIONS if made == unit]
                units: list[tuple[Type, Type]] = [(Qty(one), Qty(other)) for one, other in related]
                units += [(Qty(other), Qty(one)) for one, other in related]
                return [(kind, number), (number, kind), *units, *units]
            case _:
                return [(INT, INT)]

    def quotient(self, kind: Type, depth: int, _: bool) -> Text:
        one, other = self.rng.choice(self.shares(kind))
        return Text(f"{self.factor(one, depth).at(PRODUCT)} / {self.divisor(other, depth)}", PRODUCT)

    def shares(self, kind: Type) -> list[tuple[Type, Type]]:
        numbers: list[Type] = [INT, Dec(self.rng.randint(0, 18)), Dec(self.rng.choice([6, 18, 19, 36]))]
        if isinstance(kind, Qty):
            units: list[tuple[Type, Type]] = []
            for made, one, other in RELATIONS:
                units += [(Qty(made), Qty(other))] * (one == kind.unit) + [(Qty(made), Qty(one))] * (other == kind.unit)
            return [(kind, self.rng.choice(numbers)), (kind, INT), *units, *units]
        unit = Qty(self.rng.choice(list(UNITS)))
        return [(self.rng.choice(numbers), self.rng.choice(numbers)), (unit, unit), (INT, INT)]

    def divisor(self, kind: Type, depth: int) -> str:
        if self.risks():
            zeros = {INT: "0", Dec(2): "0.00", Dec(18): "toDec(18, 0)"}
            zero = f"qty(0, {kind.unit})" if isinstance(kind, Qty) else zeros.get(kind)
            return self.rng.choice([zero or "0", self.factor(kind, depth).at(UNARY)])
        zero, one = (f"qty(0, {kind.unit})", f"qty(1, {kind.unit})") if isinstance(kind, Qty) else ("0", "1")
        name = self.name()
        value = self.typed(kind, depth).text
        if isinstance(kind, Dec) and kind.scale > 18:
            one = self.dec_leaf(kind.scale, wanted=False).text
        return f"(let {name} = {value}; if ({name} != {zero}) then {name} else {one})"

    def negated(self, kind: Type, depth: int, _: bool) -> Text:
        operand = self.typed(kind, depth).at(UNARY)
        return Text(f"-({operand})" if operand.startswith("-") else f"-{operand}", UNARY)

    def to_dec(self, kind: Type, depth: int, _: bool) -> Text:
        if not isinstance(kind, Dec) or kind.scale > 18:
            return self.product(kind, depth, False)
        return Text(f"toDec({kind.scale}, {self.expr(self.any_number(36), depth, wanted=False).text}{self.comma()})")

    def to_qty(self, kind: Type, depth: int, _: bool) -> Text:
        unit = kind.unit if isinstance(kind, Qty) else "kg"
        return Text(f'toQty("{unit}", {self.expr(self.any_number(18), depth, wanted=False).text})')

    def any_number(self, largest: int) -> Type:
        numbers: list[Type] = [INT, Dec(self.rng.randint(0, largest)), Dec(self.rng.choice([2, 3, 6]))]
        return self.rng.choice(numbers)

    def amount(self, _: Type, depth: int, __: bool) -> Text:
        return Text(f"amount({self.expr(Qty(self.rng.choice(list(UNITS))), depth, wanted=False).text})")

    def converted(self, kind: Type, depth: int, _: bool) -> Text:
        unit = kind.unit if isinstance(kind, Qty) else "kg"
        source = self.rng.choice([unit, *same_dimension(unit), *same_dimension(unit)])
        return Text(f'convert("{source}", "{unit}", {self.expr(Qty(source), depth, wanted=False).text})')

    def sum_dec(self, kind: Type, depth: int, _: bool) -> Text:
        if not isinstance(kind, Dec) or kind.scale > 18:
            return self.product(kind, depth, False)
        of = Dec(self.rng.choice([kind.scale, self.rng.randint(0, kind.scale)]))
        return Text(f"sumDec({kind.scale}, {self.typed(List(of), depth).text})")

    def sum_qty(self, kind: Type, depth: int, _: bool) -> Text:
        unit = kind.unit if isinstance(kind, Qty) else "kg"
        return Text(f'sumQty("{unit}", {self.typed(List(kind), depth).text})')

    def counted(self, _: Type, depth: int, __: bool) -> Text:
        return Text(f"count({self.some_list(depth)[1]})")
