"""Arithmetic of random programs: every operator and every conversion, with every pair of types it takes."""

from bpc.core.facts.units import RELATIONS, UNITS, list_convertible_units
from bpc.core.language.types import INT, Dec, List, Qty, Type
from tests.core.language.random_programs.blocks import BlockWriter
from tests.core.language.random_programs.syntax import PRODUCT, SUM, UNARY, ExpressionText


class NumberWriter(BlockWriter):
    def write_sum(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        if isinstance(kind, Dec | Qty) or kind == INT:
            if type_known and not isinstance(kind, Qty) and self.rng.random() < 0.1:
                sides = [self.write_bare(kind), self.write_bare(kind)]
                if all(sides):
                    return ExpressionText(f" {self.rng.choice('+-')} ".join(side.text for side in sides if side), SUM)
            return self.write_longer_sum(kind, depth)
        raise TypeError(kind)

    def write_longer_sum(self, kind: Type, depth: int) -> ExpressionText:
        """The first operand is solid; then come numbers, Ints beside Decs, and whatever else."""
        first = INT if isinstance(kind, Dec) and kind.scale <= 18 and self.rng.random() < 0.2 else kind
        text = self.write_typed(first, depth).parenthesise_for(PRODUCT)
        links = self.rng.choice([1, 1, 2, 3])
        for link in range(links):
            other = self.write_typed(kind, depth)
            if first == kind or link:
                other = self.rng.choice([other, self.write_bare(kind) or other])
            if isinstance(kind, Dec) and first == kind and self.rng.random() < 0.2:
                other = self.write_typed(INT, depth)
            text += f" {self.rng.choice('+-')} {other.parenthesise_for(PRODUCT)}"
        return ExpressionText(text, SUM)

    def write_product(self, kind: Type, depth: int, _: bool) -> ExpressionText:
        one, other = self.rng.choice(self.choose_factors(kind))
        left = self.write_factor(one, depth).parenthesise_for(PRODUCT)
        right = self.write_factor(other, depth).parenthesise_for(UNARY)
        return ExpressionText(f"{left} * {right}", PRODUCT)

    def write_factor(self, kind: Type, depth: int) -> ExpressionText:
        """A number in a product keeps its own scale, so it may be bare, but not a sum's worth of context."""
        return self.write_expression(kind, depth, type_known=False)

    def choose_factors(self, kind: Type) -> list[tuple[Type, Type]]:
        match kind:
            case Dec(scale):
                one = self.rng.randint(max(0, scale - 18), min(18, scale))
                return [(Dec(one), Dec(scale - one))] * 2 + [(INT, kind), (kind, INT)]
            case Qty(unit):
                number = self.choose_number_type(36)
                related = [(one, other) for result_unit, one, other in RELATIONS if result_unit == unit]
                units: list[tuple[Type, Type]] = [(Qty(one), Qty(other)) for one, other in related]
                units += [(Qty(other), Qty(one)) for one, other in related]
                return [(kind, number), (number, kind), *units, *units]
            case _:
                return [(INT, INT)]

    def write_quotient(self, kind: Type, depth: int, _: bool) -> ExpressionText:
        one, other = self.rng.choice(self.choose_quotient_types(kind))
        return ExpressionText(
            f"{self.write_factor(one, depth).parenthesise_for(PRODUCT)} / {self.write_divisor(other, depth)}", PRODUCT
        )

    def choose_quotient_types(self, kind: Type) -> list[tuple[Type, Type]]:
        numbers: list[Type] = [INT, Dec(self.rng.randint(0, 18)), Dec(self.rng.choice([6, 18, 19, 36]))]
        if isinstance(kind, Qty):
            units: list[tuple[Type, Type]] = []
            for result_unit, one, other in RELATIONS:
                units += [(Qty(result_unit), Qty(other))] * (one == kind.unit) + [(Qty(result_unit), Qty(one))] * (
                    other == kind.unit
                )
            return [(kind, self.rng.choice(numbers)), (kind, INT), *units, *units]
        unit = Qty(self.rng.choice(list(UNITS)))
        return [(self.rng.choice(numbers), self.rng.choice(numbers)), (unit, unit), (INT, INT)]

    def write_divisor(self, kind: Type, depth: int) -> str:
        if self.takes_risk():
            zeros: dict[Type, str] = {INT: "0", Dec(2): "0.00", Dec(18): "toDec(18, 0)"}
            zero = f"qty(0, {kind.unit})" if isinstance(kind, Qty) else zeros.get(kind)
            return self.rng.choice([zero or "0", self.write_factor(kind, depth).parenthesise_for(UNARY)])
        zero, one = (f"qty(0, {kind.unit})", f"qty(1, {kind.unit})") if isinstance(kind, Qty) else ("0", "1")
        name = self.create_name()
        value = self.write_typed(kind, depth).text
        if isinstance(kind, Dec) and kind.scale > 18:
            one = self.write_dec_leaf(kind.scale, type_known=False).text
        return f"(let {name} = {value}; if ({name} != {zero}) then {name} else {one})"

    def write_negation(self, kind: Type, depth: int, _: bool) -> ExpressionText:
        operand = self.write_typed(kind, depth).parenthesise_for(UNARY)
        return ExpressionText(f"-({operand})" if operand.startswith("-") else f"-{operand}", UNARY)

    def write_to_dec(self, kind: Type, depth: int, _: bool) -> ExpressionText:
        if not isinstance(kind, Dec) or kind.scale > 18:
            return self.write_product(kind, depth, False)
        number = self.write_expression(self.choose_number_type(36), depth, type_known=False).text
        return ExpressionText(f"toDec({kind.scale}, {number}{self.write_comma()})")

    def write_to_qty(self, kind: Type, depth: int, _: bool) -> ExpressionText:
        unit = kind.unit if isinstance(kind, Qty) else "kg"
        return ExpressionText(
            f'toQty("{unit}", {self.write_expression(self.choose_number_type(18), depth, type_known=False).text})'
        )

    def choose_number_type(self, largest: int) -> Type:
        numbers: list[Type] = [INT, Dec(self.rng.randint(0, largest)), Dec(self.rng.choice([2, 3, 6]))]
        return self.rng.choice(numbers)

    def write_amount(self, _: Type, depth: int, __: bool) -> ExpressionText:
        return ExpressionText(
            f"amount({self.write_expression(Qty(self.rng.choice(list(UNITS))), depth, type_known=False).text})"
        )

    def write_convert(self, kind: Type, depth: int, _: bool) -> ExpressionText:
        unit = kind.unit if isinstance(kind, Qty) else "kg"
        source = self.rng.choice([unit, *list_convertible_units(unit), *list_convertible_units(unit)])
        return ExpressionText(
            f'convert("{source}", "{unit}", {self.write_expression(Qty(source), depth, type_known=False).text})'
        )

    def write_sum_dec(self, kind: Type, depth: int, _: bool) -> ExpressionText:
        if not isinstance(kind, Dec) or kind.scale > 18:
            return self.write_product(kind, depth, False)
        of = Dec(self.rng.choice([kind.scale, self.rng.randint(0, kind.scale)]))
        return ExpressionText(f"sumDec({kind.scale}, {self.write_typed(List(of), depth).text})")

    def write_sum_qty(self, kind: Type, depth: int, _: bool) -> ExpressionText:
        unit = kind.unit if isinstance(kind, Qty) else "kg"
        return ExpressionText(f'sumQty("{unit}", {self.write_typed(List(kind), depth).text})')

    def write_count(self, _: Type, depth: int, __: bool) -> ExpressionText:
        return ExpressionText(f"count({self.write_some_list(depth)[1]})")
