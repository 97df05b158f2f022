"""Random rule packages that check: `program(seed)` gives the text of one and a world to evaluate it in.

Every text here means something, and what it means reaches all of the language: every operator with every operand type,
every built-in, every literal. Two programs of three are calm: they divide by what is not zero, assert what is true and
mostly come to an end. The rest take risks.
"""

from dataclasses import dataclass
from random import Random  # noqa: TID251 (seeded)

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.language.types import BOOL, INT, TEXT, Dec, FactRecordType, List, Map, Opt, Qty, Record, Type
from tests.core.language.random_programs.syntax import ProgramSize, Way, choose_type, write_type
from tests.core.language.random_programs.values import ValueWriter
from tests.core.language.random_programs.worlds import draw_day, draw_facts, draw_text, quote_text

__all__ = ["ProgramSize", "RandomProgram", "create_random_program"]

_SEGMENTS = ["battery", "mass", "if", "field", "true", "x", "Annex", "_"]


@dataclass(frozen=True, slots=True)
class RandomProgram:
    rules: str
    facts: list[SnapshotFact]
    product_sku: str
    product_name: str
    issued_on: str


def create_random_program(seed: int, size: ProgramSize | None = None) -> RandomProgram:
    rng = Random(seed)
    wild = rng.random() < 0.35
    facts = draw_facts(rng, wild=wild)
    writer = _RuleWriter(rng, facts, size or ProgramSize(), wild=wild)
    rules = writer.write_rules()
    return RandomProgram(
        rules=rules,
        facts=facts,
        product_sku=rng.choice(["SKU-1", "SKU-2", "SKU-9", draw_text(rng)]) if wild else "SKU-1",
        product_name=draw_text(rng, 30),
        issued_on=draw_day(rng),
    )


class _RuleWriter(ValueWriter):
    """Rules, and a few that pass a limit, or nearly."""

    def write_rules(self) -> str:
        texts = []
        for number in range(self.rng.randint(1, self.size.fields)):
            kind, body = self.write_rule()
            path = self.create_path(number)
            self.fields[path] = kind
            access = self.rng.sample(["@public", "@interest", "@authority"], self.rng.choice([0, 0, 1, 1, 2, 3]))
            texts.append(f"field {path}{' '.join(['', *access])}: {write_type(self.rng, kind)} =\n  {body};\n")
        self.rng.shuffle(texts)
        comments = [self.rng.choice(["", "", "-- gemäß Anhang XIII ✓ 😀\n", "\r\n\t"]) for _ in texts]
        return "".join(comment + text for comment, text in zip(comments, texts, strict=True))

    def write_rule(self) -> tuple[Type, str]:
        """The type and the expression of a field: of one in five a special one."""
        self.left = self.size.expressions
        special = self.rng.random()
        if special < 0.2:
            return self.write_special_rule(special)
        if special < 0.24:
            return BOOL, self.write_emit(self.size.depth - 1).text
        kind = choose_type(self.rng)
        return kind, self.write_expression(kind, self.size.depth, type_known=True).text

    def write_special_rule(self, special: float) -> tuple[Type, str]:
        if special < 0.03:
            return INT, self.write_large_text()
        if special < 0.06:
            return BOOL, self.write_large_value()
        if special < 0.08:
            return INT, self.write_nested_loops()
        if special < 0.10:
            return (Opt(Map(INT)), "none") if special < 0.09 else (List(Map(TEXT)), "[]")
        return (
            self.write_largest_number()
            if self.wild
            else (TEXT, self.write_expression(TEXT, self.size.depth, type_known=True).text)
        )

    def create_path(self, number: int) -> str:
        above = [self.rng.choice(_SEGMENTS) for _ in range(self.rng.choice([0, 1, 1, 2, 5]))]
        return ".".join([*above, f"{self.rng.choice('abz')}{number}"])

    def write_large_text(self) -> str:
        name, times = self.create_name(), self.rng.randint(2, 18)
        if self.rng.random() < 0.5:
            lets = [f"let t0 = {quote_text(self.rng, draw_text(self.rng, 40))};"]
            lets += [f"let t{step + 1} = concat(t{step}, t{step});" for step in range(times)]
            return f"{' '.join(lets)} count([t{times}, t0])"
        parts = self.write_facts_list(FactRecordType("Component", 1)).text
        return f'count([fold({parts}, "0123456789abcdef", fn({name}, part) => concat({name}, {name}))])'

    def write_large_value(self) -> str:
        times = self.rng.randint(1, 11)
        lets = [f"let v0 = {self.write_expression(choose_type(self.rng, 2), 2, type_known=False).text};"]
        # A type has at most 1,000 parts, and a record of two has twice those of one.
        records = set(self.rng.sample(range(12), 3))
        for step in range(times):
            item = f"v{step}"
            twice = f"{{a: {item}, b: {item}}}" if step in records else f"[{item}, {item}]"
            lets.append(f"let v{step + 1} = {twice};")
        return f"{' '.join(lets)} v{times} == v{times} && isSome(some(v{times})) && [v{times}] != [v{times}, v{times}]"

    def write_nested_loops(self) -> str:
        parts = self.write_facts_list(FactRecordType("Component", 1)).text
        inner = self.rng.choice(["c", "[a, b, c]", 'recordGet(c, "mass_g")', 'concat(productName(), "-")'])
        inner = f"map(xs, fn(c) => {inner})"
        if self.rng.random() < 0.5:
            inner = f"map(xs, fn(b) => {inner})".replace("[a, b, c]", "[a, c, b]")
        else:
            inner = inner.replace("[a, b, c]", "[a, c]")
        return f"let xs = {parts}; count(map(xs, fn(a) => {inner}))"

    def write_largest_number(self) -> tuple[Type, str]:
        """Just below 10^36, rounded up, summed up or converted: perhaps no longer."""
        number = "9" * 36 + self.rng.choice(["", ".4", ".5", ".99"])
        other = self.rng.choice([f"-{number}", "0.01", "1", number])
        rules: list[tuple[Type, str]] = [
            (Dec(0), f"toDec(0, {number})"),
            (Dec(1), f"toDec(1, -{number})"),
            (Dec(3), f"sumDec(3, [toDec(2, {number}), {other}])"),
            (Qty("kg"), f'sumQty("kg", [qty({number}, kg), qty({other}, kg)])'),
            (Qty("g"), f'convert("kg", "g", qty({number[:33]}, kg) + qty({other}, kg))'),
            (Qty("h"), f"-qty({number}, h) + qty({other}, h)"),
            (Dec(18), f"amount(qty({number}, V) / qty(1, V) * qty(1, V))"),
        ]
        return self.rng.choice(rules)

    def list_ways(self, kind: Type) -> list[Way]:
        own: list[Way]
        anything: list[Way] = [
            self.write_choice,
            self.write_block,
            self.write_fold,
            self.write_literal,
            self.write_parentheses,
        ]
        if not isinstance(kind, Opt):
            anything += [self.write_unwrap, self.write_require]
        match kind:
            case Dec():
                own = [
                    self.write_sum,
                    self.write_sum,
                    self.write_product,
                    self.write_product,
                    self.write_to_dec,
                    self.write_sum_dec,
                    self.write_negation,
                ]
                if kind.scale == 18:
                    own += [self.write_quotient, self.write_quotient, self.write_quotient, self.write_amount]
            case Qty():
                own = [
                    self.write_sum,
                    self.write_product,
                    self.write_quotient,
                    self.write_to_qty,
                    self.write_convert,
                    self.write_sum_qty,
                    self.write_negation,
                ]
            case Opt():
                own = [self.write_option] * 4
            case List():
                own = [self.write_list, self.write_map, self.write_map, self.write_filter]
            case Record():
                own = [self.write_record] * 4
            case Map() | FactRecordType():
                return [self.write_literal, self.write_choice, self.write_block]
            case _:
                own = self.list_scalar_ways(kind)
        return [*anything, *own, *own]

    def list_scalar_ways(self, kind: Type) -> list[Way]:
        if kind == BOOL:
            return [
                self.write_logic,
                self.write_logic,
                self.write_comparison,
                self.write_comparison,
                self.write_equality,
                self.write_is_some,
                self.write_truth,
            ]
        if kind == INT:
            return [self.write_sum, self.write_product, self.write_count, self.write_negation]
        if kind == TEXT:
            return [self.write_concat, self.write_concat, self.write_product_text]
        return [self.write_issued_on]
