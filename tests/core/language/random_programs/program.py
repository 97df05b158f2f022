"""Random rule packages that check: `program(seed)` gives the text of one and a world to evaluate it in.

Every text here means something, and what it means reaches all of the language: every operator with every operand type,
every built-in, every literal. Two programs of three are calm: they divide by what is not zero, assert what is true and
mostly come to an end. The rest take risks.
"""

from dataclasses import dataclass
from random import Random  # noqa: TID251 (seeded)

from bpc.core.facts import SnapshotFact
from bpc.core.rules.types import BOOL, INT, TEXT, Dec, Fact, List, Map, Opt, Qty, Record, Type
from tests.core.rules.program_values import Values
from tests.core.rules.program_worlds import any_day, any_facts, any_text, quoted
from tests.core.rules.program_writing import Size, Way, any_type, type_text

__all__ = ["GeneratedProgram", "Size", "program"]

_SEGMENTS = ["battery", "mass", "if", "field", "true", "x", "Annex", "_"]


@dataclass(frozen=True, slots=True)
class GeneratedProgram:
    rules: str
    facts: list[SnapshotFact]
    product_sku: str
    product_name: str
    issued_on: str


def program(seed: int, size: Size | None = None) -> GeneratedProgram:
    rng = Random(seed)
    wild = rng.random() < 0.35
    facts = any_facts(rng, wild=wild)
    writer = _Writer(rng, facts, size or Size(), wild=wild)
    rules = writer.rules()
    return GeneratedProgram(
        rules=rules,
        facts=facts,
        product_sku=rng.choice(["SKU-1", "SKU-2", "SKU-9", any_text(rng)]) if wild else "SKU-1",
        product_name=any_text(rng, 30),
        issued_on=any_day(rng),
    )


class _Writer(Values):
    """Rules, and a few that pass a limit, or nearly."""

    def rules(self) -> str:
        texts = []
        for number in range(self.rng.randint(1, self.size.fields)):
            kind, body = self.rule()
            path = self.path(number)
            self.fields[path] = kind
            access = self.rng.sample(["@public", "@interest", "@authority"], self.rng.choice([0, 0, 1, 1, 2, 3]))
            texts.append(f"field {path}{' '.join(['', *access])}: {type_text(self.rng, kind)} =\n  {body};\n")
        self.rng.shuffle(texts)
        comments = [self.rng.choice(["", "", "-- gemäß Anhang XIII ✓ 😀\n", "\r\n\t"]) for _ in texts]
        return "".join(comment + text for comment, text in zip(comments, texts, strict=True))

    def rule(self) -> tuple[Type, str]:
        """The type and the expression of a field: of one in five a special one."""
        self.left = self.size.expressions
        special = self.rng.random()
        if special < 0.2:
            return self.special_rule(special)
        if special < 0.24:
            return BOOL, self.emit(self.size.depth - 1).text
        kind = any_type(self.rng)
        return kind, self.expr(kind, self.size.depth, wanted=True).text

    def special_rule(self, special: float) -> tuple[Type, str]:
        if special < 0.03:
            return INT, self.large_text()
        if special < 0.06:
            return BOOL, self.large_value()
        if special < 0.08:
            return INT, self.nested_loops()
        if special < 0.10:
            return (Opt(Map(INT)), "none") if special < 0.09 else (List(Map(TEXT)), "[]")
        return self.largest_number() if self.wild else (TEXT, self.expr(TEXT, self.size.depth, wanted=True).text)

    def path(self, number: int) -> str:
        above = [self.rng.choice(_SEGMENTS) for _ in range(self.rng.choice([0, 1, 1, 2, 5]))]
        return ".".join([*above, f"{self.rng.choice('abz')}{number}"])

    def large_text(self) -> str:
        name, times = self.name(), self.rng.randint(2, 18)
        if self.rng.random() < 0.5:
            lets = [f"let t0 = {quoted(self.rng, any_text(self.rng, 40))};"]
            lets += [f"let t{step + 1} = concat(t{step}, t{step});" for step in range(times)]
            return f"{' '.join(lets)} count([t{times}, t0])"
        parts = self.facts_list(Fact("Component", 1)).text
        return f'count([fold({parts}, "0123456789abcdef", fn({name}, part) => concat({name}, {name}))])'

    def large_value(self) -> str:
        times = self.rng.randint(1, 11)
        lets = [f"let v0 = {self.expr(any_type(self.rng, 2), 2, wanted=False).text};"]
        # A type has at most 1,000 parts, and a record of two has twice those of one.
        records = set(self.rng.sample(range(12), 3))
        for step in range(times):
            item = f"v{step}"
            twice = f"{{a: {item}, b: {item}}}" if step in records else f"[{item}, {item}]"
            lets.append(f"let v{step + 1} = {twice};")
        return f"{' '.join(lets)} v{times} == v{times} && isSome(some(v{times})) && [v{times}] != [v{times}, v{times}]"

    def nested_loops(self) -> str:
        parts = self.facts_list(Fact("Component", 1)).text
        inner = self.rng.choice(["c", "[a, b, c]", 'recordGet(c, "mass_g")', 'concat(productName(), "-")'])
        inner = f"map(xs, fn(c) => {inner})"
        if self.rng.random() < 0.5:
            inner = f"map(xs, fn(b) => {inner})".replace("[a, b, c]", "[a, c, b]")
        else:
            inner = inner.replace("[a, b, c]", "[a, c]")
        return f"let xs = {parts}; count(map(xs, fn(a) => {inner}))"

    def largest_number(self) -> tuple[Type, str]:
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

    def ways(self, kind: Type) -> list[Way]:
        own: list[Way]
        anything: list[Way] = [self.choice, self.block, self.folded, self.literal, self.parenthesised]
        if not isinstance(kind, Opt):
            anything += [self.unwrapped, self.required]
        match kind:
            case Dec():
                own = [self.sum, self.sum, self.product, self.product, self.to_dec, self.sum_dec, self.negated]
                if kind.scale == 18:
                    own += [self.quotient, self.quotient, self.quotient, self.amount]
            case Qty():
                own = [self.sum, self.product, self.quotient, self.to_qty, self.converted, self.sum_qty, self.negated]
            case Opt():
                own = [self.option] * 4
            case List():
                own = [self.list_literal, self.mapped, self.mapped, self.filtered]
            case Record():
                own = [self.record_literal] * 4
            case Map() | Fact():
                return [self.literal, self.choice, self.block]
            case _:
                own = self.scalar_ways(kind)
        return [*anything, *own, *own]

    def scalar_ways(self, kind: Type) -> list[Way]:
        if kind == BOOL:
            return [self.logic, self.logic, self.comparison, self.comparison, self.equality, self.is_some, self.truth]
        if kind == INT:
            return [self.sum, self.product, self.counted, self.negated]
        if kind == TEXT:
            return [self.concat, self.concat, self.product_text]
        return [self.issued]
