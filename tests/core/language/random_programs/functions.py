"""The functions of level 2 in random programs: texts, days, what has an order, lists."""

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
    Type,
    contains_fact_record,
)
from tests.core.language.random_programs.syntax import ExpressionText, Way
from tests.core.language.random_programs.values import ValueWriter
from tests.core.language.random_programs.worlds import draw_digits, quote_text

_SEPARATORS = ["", ",", " ", "-", "a", "\n", "ä"]
_PADDING = ["", " ", "\t ", "\r\n"]


def is_ordered(kind: Type) -> bool:
    return kind in {INT, TEXT, DATE} or isinstance(kind, Dec | Qty)


class FunctionWriter(ValueWriter):
    def list_function_ways(self, kind: Type) -> list[Way]:
        """How an expression of this type can be a call of what level 2 adds."""
        ways: list[Way] = []
        if is_ordered(kind):
            ways += [self.write_extreme]
        if kind == INT or isinstance(kind, Dec | Qty):
            ways += [self.write_abs, self.write_plain_sum]
        match kind:
            case Dec() | Qty():
                ways += [self.write_round]
            case Opt(item):
                ways += [self.write_end, self.write_latest]
                if is_ordered(item):
                    ways += [self.write_extreme_option, self.write_extreme_of_list]
                if item == DATE:
                    ways += [self.write_later_day] * 2
            case List():
                ways += self.list_list_ways(kind)
            case _:
                ways += self.list_scalar_function_ways(kind)
        return ways

    def list_list_ways(self, kind: List) -> list[Way]:
        ways: list[Way] = [] if contains_fact_record(kind) else [self.write_distinct]
        ways += [self.write_sorted, self.write_group_sizes] if kind == List(INT) else [self.write_sorted]
        if not isinstance(kind.item, Opt):
            ways += [self.write_present]
        return [*ways, self.write_split, self.write_split] if kind.item == TEXT else ways

    def list_scalar_function_ways(self, kind: Type) -> list[Way]:
        if kind == BOOL:
            return [self.write_text_test, self.write_is_empty, self.write_search, self.write_search]
        if kind == INT:
            return [self.write_days_between, self.write_part_of_day, self.write_length]
        if kind == TEXT:
            return [self.write_text, self.write_text, self.write_trim]
        return [self.write_later_day, self.write_later_day] if kind == DATE else []

    # Texts

    def write_text(self, _: Type, depth: int, __: bool) -> ExpressionText:
        scales: list[Type] = [Dec(self.rng.choice([0, 1, 2, 6, 18, 24])), Qty(self.rng.choice(list(UNITS)))]
        kind = self.rng.choice([BOOL, INT, TEXT, DATE, *scales, *scales, *self.enums])
        return ExpressionText(f"text({self.write_expression(kind, depth, type_known=False).text}{self.write_comma()})")

    def write_text_test(self, _: Type, depth: int, __: bool) -> ExpressionText:
        function = self.rng.choice(["startsWith", "endsWith", "contains"])
        text = self.write_expression(TEXT, depth, type_known=False).text
        part = self.rng.choice([quote_text(self.rng, self.rng.choice(_SEPARATORS)), self.write_part(depth)])
        return ExpressionText(f"{function}({text}, {part})")

    def write_part(self, depth: int) -> str:
        return self.write_expression(TEXT, depth - 1, type_known=False).text

    def write_trim(self, _: Type, depth: int, __: bool) -> ExpressionText:
        around = [quote_text(self.rng, self.rng.choice(_PADDING)) for _ in range(2)]
        return ExpressionText(f"trim(concat({around[0]}, {self.write_part(depth)}, {around[1]}))")

    def write_length(self, _: Type, depth: int, __: bool) -> ExpressionText:
        return ExpressionText(f"length({self.write_part(depth)})")

    def write_split(self, _: Type, depth: int, __: bool) -> ExpressionText:
        separator = self.rng.choice([quote_text(self.rng, self.rng.choice(_SEPARATORS)), self.write_part(depth)])
        return ExpressionText(f"split({self.write_part(depth)}, {separator})")

    # Days

    def write_days_between(self, _: Type, depth: int, __: bool) -> ExpressionText:
        days = [self.write_expression(DATE, depth, type_known=True).text for _ in range(2)]
        return ExpressionText(f"daysBetween({', '.join(days)})")

    def write_part_of_day(self, _: Type, depth: int, __: bool) -> ExpressionText:
        function = self.rng.choice(["year", "month", "day"])
        return ExpressionText(f"{function}({self.write_expression(DATE, depth, type_known=True).text})")

    def write_later_day(self, kind: Type, depth: int, _: bool) -> ExpressionText:
        if self.rng.random() < 0.3:
            return self.write_extreme_day(kind, depth)
        function = self.rng.choice(["addDays", "addMonths", "addYears"])
        number = str(self.rng.choice([0, 1, 11, 12, 24, 27, 366, self.rng.randrange(1500)]))
        number = self.rng.choice([number, f"-{number}"])
        if self.takes_risk():
            number = self.write_expression(INT, depth, type_known=True).text
        return ExpressionText(f"{function}({self.write_typed(kind, depth).text}, {number})")

    def write_extreme_day(self, kind: Type, depth: int) -> ExpressionText:
        function = self.rng.choice(["laterOf", "latestOf", "earlierOf"])
        other = self.rng.choice([kind, DATE])
        days = [self.write_typed(kind, depth).text, self.write_typed(other, depth).text]
        self.rng.shuffle(days)
        return ExpressionText(f"{function}({', '.join(days)})")

    # What has an order

    def write_extreme(self, kind: Type, depth: int, _: bool) -> ExpressionText:
        sides = [self.write_typed(kind, depth).text, self.write_other_side(kind, depth)]
        self.rng.shuffle(sides)
        return ExpressionText(f"{self.rng.choice(['min', 'max'])}({', '.join(sides)})")

    def write_other_side(self, kind: Type, depth: int) -> str:
        """Another value of this type; a Dec may have fewer decimals, and a number may be bare."""
        if kind == INT and self.rng.random() < 0.4:
            return draw_digits(self.rng, 0, wild=self.wild)
        if isinstance(kind, Dec):
            if self.rng.random() < 0.3:
                return draw_digits(self.rng, min(kind.scale, 18), wild=self.wild)
            kind = Dec(self.rng.choice([kind.scale, self.rng.randint(0, kind.scale)]))
        return self.write_typed(kind, depth).text

    def write_extreme_option(self, kind: Type, depth: int, _: bool) -> ExpressionText:
        item = kind.item if isinstance(kind, Opt) else kind
        other = self.rng.choice([self.write_typed(kind, depth).text, self.write_other_side(item, depth), "none"])
        sides = [self.write_typed(kind, depth).text, other]
        self.rng.shuffle(sides)
        return ExpressionText(f"{self.rng.choice(['min', 'max'])}({', '.join(sides)})")

    def write_extreme_of_list(self, kind: Type, depth: int, _: bool) -> ExpressionText:
        item = kind.item if isinstance(kind, Opt) else kind
        return ExpressionText(f"{self.rng.choice(['min', 'max'])}({self.write_typed(List(item), depth).text})")

    def write_abs(self, kind: Type, depth: int, _: bool) -> ExpressionText:
        return ExpressionText(f"abs({self.write_typed(kind, depth).text})")

    def write_round(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        if isinstance(kind, Qty):
            decimals = self.rng.choice([0, 1, 2, 17, 18])
            return ExpressionText(f"round({decimals}, {self.write_typed(kind, depth).text})")
        if not isinstance(kind, Dec) or kind.scale > 18:
            return self.write_abs(kind, depth, type_known)
        number = self.write_expression(self.choose_number_type(36), depth, type_known=False).text
        return ExpressionText(f"round({kind.scale}, {number})")

    def write_plain_sum(self, kind: Type, depth: int, _: bool) -> ExpressionText:
        return ExpressionText(f"sum({self.write_typed(List(kind), depth).text})")

    # Lists

    def write_end(self, kind: Type, depth: int, _: bool) -> ExpressionText:
        if not isinstance(kind, Opt):
            raise TypeError(kind)
        # Of a list of options the first is one already; maps come from facts only.
        item = kind if self.rng.random() < 0.3 and not isinstance(kind.item, FactRecordType | Map) else kind.item
        items = self.write_typed(List(item), depth).text
        return ExpressionText(f"{self.rng.choice(['first', 'last'])}({items})")

    def write_distinct(self, kind: Type, depth: int, _: bool) -> ExpressionText:
        return ExpressionText(f"distinct({self.write_typed(kind, depth).text})")

    def write_present(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        if not isinstance(kind, List) or isinstance(kind.item, Map):
            return self.write_literal(kind, depth, type_known)
        return ExpressionText(f"present({self.write_typed(List(Opt(kind.item)), depth).text})")

    def write_is_empty(self, _: Type, depth: int, __: bool) -> ExpressionText:
        return ExpressionText(f"isEmpty({self.write_some_list(depth)[1]})")

    # What takes a lambda

    def write_search(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        if self.lambdas >= 3:
            return self.write_literal(kind, depth, type_known)
        of, items = self.write_some_list(depth)
        function = self.rng.choice(["any", "all"])
        return ExpressionText(f"{function}({items}, {self.write_lambda(of, BOOL, depth)})")

    def write_lambda(self, of: Type, kind: Type, depth: int) -> str:
        name = self.create_name()
        with self.bind_parameter(name, of):
            return f"fn({name}) => {self.write_uses()}{self.write_typed(kind, depth).text}"

    def choose_key_type(self) -> Type:
        scales: list[Type] = [Dec(self.rng.choice([0, 2, 6])), Qty(self.rng.choice(list(UNITS)))]
        kind = self.rng.choice([INT, INT, TEXT, DATE, *scales])
        return Opt(kind) if self.rng.random() < 0.4 else kind

    def write_sorted(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        if not isinstance(kind, List) or isinstance(kind.item, Map) or self.lambdas >= 3:
            return self.write_literal(kind, depth, type_known)
        items = self.write_typed(kind, depth).text
        return ExpressionText(f"sortBy({items}, {self.write_lambda(kind.item, self.choose_key_type(), depth)})")

    def write_latest(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        if not isinstance(kind, Opt) or isinstance(kind.item, Map) or self.lambdas >= 3:
            return self.write_literal(kind, depth, type_known)
        items = self.write_typed(List(kind.item), depth).text
        return ExpressionText(f"latestBy({items}, {self.write_lambda(kind.item, self.choose_key_type(), depth)})")

    def write_group_sizes(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        """Groups of anything, facts too, by any key, and what is in each."""
        if self.lambdas >= 2:
            return self.write_literal(kind, depth, type_known)
        of, items = self.write_some_list(depth)
        key = self.rng.choice([BOOL, self.choose_key_type(), self.choose_type(2)])
        groups = f"groupBy({items}, {self.write_lambda(of, key, depth)})"
        group = f"v{len(self.scope)}_group"
        counted = self.rng.choice([f'unwrapOr(recordGet({group}, "items"), [])', f'[recordGet({group}, "key")]'])
        return ExpressionText(f"map({groups}, fn({group}) => count({counted}))")
