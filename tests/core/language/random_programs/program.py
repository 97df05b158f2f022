"""Random rule packages that check: `program(seed)` gives the text of one and a world to evaluate it in.

Every text here means something, and what it means reaches all of the language: every operator with every operand type,
every built-in, every literal. Two programs of three are calm: they divide by what is not zero, assert what is true and
mostly come to an end. The rest take risks.
"""

from dataclasses import dataclass
from random import Random  # noqa: TID251 (seeded)

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.language.types import (
    BOOL,
    DATE,
    INT,
    TEXT,
    Dec,
    EnumType,
    FactRecordType,
    List,
    Map,
    Opt,
    Qty,
    Record,
    Type,
)
from tests.core.language.random_programs.abouts import write_about
from tests.core.language.random_programs.syntax import OPEN, ProgramSize, Way, write_type
from tests.core.language.random_programs.tables import TableWriter
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


def create_random_program(seed: int, size: ProgramSize | None = None, *, language: int = 1) -> RandomProgram:
    rng = Random(seed)
    wild = rng.random() < 0.35
    facts = draw_facts(rng, wild=wild)
    writer = _RuleWriter(rng, facts, size or ProgramSize(), wild=wild, language=language)
    rules = writer.write_rules()
    return RandomProgram(
        rules=rules,
        facts=facts,
        product_sku=rng.choice(["SKU-1", "SKU-2", "SKU-9", draw_text(rng)]) if wild else "SKU-1",
        product_name=draw_text(rng, 30),
        issued_on=draw_day(rng),
    )


class _RuleWriter(TableWriter):
    """Rules, and a few that pass a limit, or nearly."""

    def write_rules(self) -> str:
        texts = [*self.declare_enums(), *self.declare_tables()] if self.language > 1 else []
        for number in range(self.rng.randint(1, self.size.fields)):
            if self.language > 1:
                texts += [self.write_function() for _ in range(self.rng.choice([0, 0, 1]))]
                texts += [self.write_definition() for _ in range(self.rng.choice([0, 1, 1, 2]))]
            kind, body = self.write_rule()
            path = self.create_path(number)
            self.fields[path] = kind
            access = self.rng.sample(["@public", "@interest", "@authority"], self.rng.choice([0, 0, 1, 1, 2, 3]))
            about = write_about(self.rng) if self.language > 1 else ""
            texts.append(f"field {path}{' '.join(['', *access])}: {write_type(self.rng, kind)} =\n  {body}{about};\n")
        if self.language > 1:
            texts += [self.write_requirement(number) for number in range(self.rng.choice([0, 0, 1, 2, 3]))]
        self.rng.shuffle(texts)
        if self.language > 1:
            texts += [*self.write_overrides(texts), *self.write_cases()]
        comments = [self.rng.choice(["", "", "-- gemäß Anhang XIII ✓ 😀\n", "\r\n\t"]) for _ in texts]
        stated = f"language {self.language};\n" if self.language > 1 else ""
        return stated + "".join(comment + text for comment, text in zip(comments, texts, strict=True))

    def write_overrides(self, texts: list[str]) -> list[str]:
        """Some of the items once more, each in place of the one before it."""
        words = ("field ", "const ", "def ", "fn ", "require ", "table ", "enum ")
        items = [text for text in texts if text.startswith(words)]
        chosen = self.rng.sample(items, min(len(items), self.rng.choice([0, 0, 0, 1, 2])))
        return [f"override {quote_text(self.rng, draw_text(self.rng) + 'r')} {text}" for text in chosen]

    def write_cases(self) -> list[str]:
        """A fixture and a table of cases that expect an error that no rule has."""
        if self.rng.random() < 0.7:
            return []
        rows = "".join(f'  "{draw_day(self.rng)}", {self.rng.randint(0, 9)};\n' for _ in range(self.rng.randint(1, 3)))
        fact = 'fact f("Battery", "battery:SKU-1") = {"expected_cycles": n};'
        head = f"cases rows(day, n): with base, {{ issued(day); {fact} }} =>"
        expected = 'expectError("NEVER") because "so";'
        return ['fixture base: { product("SKU-1", "P"); };\n', f"{head} {expected}\n{{\n{rows}}};\n"]

    def write_function(self) -> str:
        """A function, which may call those that were written before it."""
        self.left = self.size.expressions // 3
        name, kinds = (
            f"fun_{len(self.functions)}",
            [self.choose_type(2) for _ in range(self.rng.choice([0, 1, 1, 2, 3]))],
        )
        result = self.choose_type(2)
        outer_scope, self.scope = self.scope, []
        for kind in kinds:
            self.scope.append((self.create_name(), kind))
        parameters = ", ".join(f"{own}: {write_type(self.rng, kind)}" for own, kind in self.scope)
        self.in_definition = True
        body = self.write_expression(result, self.size.depth - 2, type_known=True).text
        self.in_definition = False
        self.scope = outer_scope
        self.functions[name] = (kinds, result)
        return f"fn {name}({parameters}): {write_type(self.rng, result)} = {body};\n"

    def write_requirement(self, number: int) -> str:
        """A requirement with some of its clauses; it may need what is missing."""
        self.left = self.size.expressions // 2
        depth = self.size.depth - 3
        self.in_definition = True

        def write(kind: Type) -> str:
            return self.write_expression(kind, depth, type_known=True).parenthesise_for(OPEN + 1)

        title = self.write_interpolation(TEXT, depth, True).text
        title = title if title.startswith('"') else quote_text(self.rng, draw_text(self.rng))
        text = f"require R{number} {title}"
        if self.rng.random() < 0.4:
            text += f" when {write(BOOL)}"
        if self.rng.random() < 0.5:
            known = self.rng.random() < 0.5
            option = self.write_typed(Opt(DATE), depth).parenthesise_for(OPEN + 1)
            text += f" in force from {write(DATE) if known else option}"
            if self.rng.random() < 0.5:
                text += f" to {write(DATE)}"
            if self.rng.random() < 0.3:
                text += f" on {write(DATE)}"
        text += f": {write(BOOL)}"
        if self.rng.random() < 0.6:
            text += f" else {write(TEXT)}"
        severity = self.rng.choice(["", " severity warn", " severity fail"])
        text += self.rng.choice(["", severity, f'{severity} cite "Art. 8(2)"', f' cite "Art. 10"{severity}'])
        self.in_definition = False
        return f"{text};\n"

    def write_definition(self) -> str:
        """A constant, a definition, or one that may be missing; it may read what was written before it."""
        self.left = self.size.expressions // 2
        name, choice = f"def_{len(self.definitions)}", self.rng.random()
        self.in_definition = True
        if choice < 0.2:
            kind = self.choose_type(2)
            text = f"const {name}: {write_type(self.rng, kind)} = {self.write_leaf(kind, type_known=True).text};\n"
        elif choice < 0.5:
            kind = self.choose_let_type()
            kind = kind.item if isinstance(kind, Opt) else kind
            body = self.write_typed(Opt(kind), self.size.depth - 2).text
            code = f"{self.create_code()}, " if self.rng.random() < 0.5 else ""
            text = f"def {name} = {body} else missing({code}{quote_text(self.rng, draw_text(self.rng))});\n"
        else:
            kind = self.choose_let_type()
            text = f"def {name} = {self.write_typed(kind, self.size.depth - 2).text};\n"
        self.in_definition = False
        self.definitions[name] = kind
        return text

    def write_rule(self) -> tuple[Type, str]:
        """The type and the expression of a field: of one in five a special one."""
        self.left = self.size.expressions
        special = self.rng.random()
        if special < 0.2:
            return self.write_special_rule(special)
        if special < 0.24:
            return BOOL, self.write_emit(self.size.depth - 1).text
        kind = self.choose_type()
        if self.language > 1 and self.tables and special > 0.85:
            kind = Opt(self.rng.choice(self.tables).kind)
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
        lets = [f"let v0 = {self.write_expression(self.choose_type(2), 2, type_known=False).text};"]
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

    def list_ways(self, kind: Type) -> list[Way]:  # noqa: PLR0912 (one row a type)
        own: list[Way]
        anything: list[Way] = [
            self.write_choice,
            self.write_block,
            self.write_fold,
            self.write_literal,
            self.write_parentheses,
        ]
        if self.language > 1:
            anything += self.list_ways_of_level_two(kind)
        if not isinstance(kind, Opt):
            anything += [self.write_unwrap, self.write_require]
        if self.language > 1:
            anything += [self.write_match]
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
                if self.language > 1 and any(table.kind == kind.item for table in self.tables):
                    own += [self.write_lookup] * 8
                if isinstance(kind.item, EnumType):
                    own += [self.write_to_enum] * 4
            case List():
                own = [self.write_list, self.write_map, self.write_map, self.write_filter]
            case Record():
                own = [self.write_record] * 4
            case EnumType():
                own = [self.write_literal]
            case Map() | FactRecordType():
                more = self.list_ways_of_level_two(kind) if self.language > 1 else []
                return [self.write_literal, self.write_choice, self.write_block, *more]
            case _:
                own = self.list_scalar_ways(kind)
        if self.language > 1:
            own += self.list_function_ways(kind)
        return [*anything, *own, *own]

    def list_scalar_ways(self, kind: Type) -> list[Way]:
        if kind == BOOL:
            of_level_two = [self.write_presence, self.write_membership] if self.language > 1 else []
            return [
                *of_level_two,
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
            own: list[Way] = [self.write_interpolation] if self.language > 1 else []
            return [*own, self.write_concat, self.write_concat, self.write_product_text]
        return [self.write_issued_on]
