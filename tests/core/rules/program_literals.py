"""Literals of random programs, and what reads facts: the leaves that every other expression ends in."""

from bpc.core.rules.types import BOOL, INT, TEXT, Dec, Fact, List, Map, Opt, Qty, Record, Type
from bpc.core.schemas import SCHEMAS
from tests.core.rules.program_worlds import PREFIXES, any_day, any_digits, any_text, keys_of, quoted
from tests.core.rules.program_writing import PRODUCT, UNARY, Text, Writing


class Literals(Writing):
    def literal(self, kind: Type, depth: int, wanted: bool) -> Text:
        return self.leaf(kind, wanted=wanted)

    def leaf(self, kind: Type, *, wanted: bool) -> Text:
        """The smallest text of this type."""
        match kind:
            case Dec(scale):
                return self.dec_leaf(scale, wanted=wanted)
            case Qty(unit):
                number = any_digits(self.rng, 18, wild=self.wild)
                return Text(f"qty({self.rng.choice(['', '-'])}{number}, {unit})")
            case Opt() | List():
                return self.bare_or_filled(kind, wanted=wanted)
            case Record(members):
                parts = [f"{name}: {self.leaf(item, wanted=wanted).text}" for name, item in members]
                return Text("{" + ", ".join(parts) + self.comma() + "}")
            case Fact() | Map():
                option = self.fact_option(kind) if isinstance(kind, Fact) else self.map_option(kind)
                return (self.known(kind) if isinstance(kind, Map) else None) or self.require(option)
            case _:
                return self.scalar_leaf(kind)

    def scalar_leaf(self, kind: Type) -> Text:
        if kind == BOOL:
            return Text(self.rng.choice(["true", "false"]))
        if kind == INT:
            return self.number(any_digits(self.rng, 0, wild=self.wild))
        if kind == TEXT:
            return Text(quoted(self.rng, any_text(self.rng)))
        return Text(f'date("{any_day(self.rng)}")')

    def dec_leaf(self, scale: int, *, wanted: bool) -> Text:
        """Where its type is wanted a number may have fewer decimals, and zeros behind those that there is room for."""
        if scale > 18:
            first = self.rng.randint(scale - 18, 18)
            return Text(f"{self.exactly(first)} * {self.exactly(scale - first)}", PRODUCT)
        if wanted:
            digits = any_digits(self.rng, scale, wild=self.wild)
            return self.number(
                digits + "0" * self.rng.choice([0, 0, 1]) if "." in digits and len(digits) < 15 else digits
            )
        return self.number(self.exactly(scale)) if scale else Text(f"toDec(0, {self.exactly(self.rng.randint(1, 3))})")

    def exactly(self, scale: int) -> str:
        """A number literal that is a Dec of this scale by itself."""
        if scale == 0:
            return f"toDec(0, {self.rng.randrange(100)})"
        return f"{self.rng.randrange(1000)}.{str(self.rng.randrange(10**scale)).rjust(scale, '0')}"

    def number(self, digits: str) -> Text:
        return Text(f"-{digits}", UNARY, bare=True) if self.rng.random() < 0.2 else Text(digits, bare=True)

    def bare_or_filled(self, kind: Opt | List, *, wanted: bool) -> Text:
        if wanted and self.rng.random() < 0.4:
            return Text("none" if isinstance(kind, Opt) else "[]", bare=True)
        if isinstance(kind.item, Fact):
            return Text(self.fact_option(kind.item)) if isinstance(kind, Opt) else self.facts_list(kind.item)
        if isinstance(kind, Opt):
            if isinstance(kind.item, Map):
                return Text(self.map_option(kind.item))
            return Text(f"some({self.leaf(kind.item, wanted=wanted).text})")
        return Text(f"[{self.leaf(kind.item, wanted=wanted).text}{self.comma()}]")

    def bare(self, kind: Type) -> Text | None:
        """A text that takes this type from what stands beside it."""
        match kind:
            case Opt():
                return Text("none", bare=True)
            case List():
                return Text("[]", bare=True)
            case Dec(scale) if scale <= 18:
                return self.number(any_digits(self.rng, scale, wild=self.wild))
            case _:
                return self.number(any_digits(self.rng, 0, wild=self.wild)) if kind == INT else None

    def solid(self, kind: Type) -> Text:
        """A small text that says its type by itself and is no bare number."""
        match kind:
            case Dec(scale) if scale <= 18:
                return Text(f"toDec({scale}, {any_digits(self.rng, 18, wild=self.wild)})")
            case _:
                return (
                    Text(f"count({self.leaf(List(INT), wanted=False).text})")
                    if kind == INT
                    else self.leaf(kind, wanted=False)
                )

    def require(self, option: str) -> Text:
        return Text(f"requireSome({option}, {self.code()}, {quoted(self.rng, any_text(self.rng))})")

    def fact_option(self, fact: Fact, depth: int = 0) -> str:
        keys = keys_of(self.facts, fact)
        key = quoted(self.rng, self.rng.choice(keys)) if keys else '"nobody"'
        if self.rng.random() < 0.15 and (self.wild or PREFIXES[fact.name] + "SKU-1" in keys):
            key = f'concat("{PREFIXES[fact.name]}", productSku())'
        elif depth > 0 and self.rng.random() < 0.3:
            key = (self.known(TEXT) or self.expr(TEXT, depth - 1, wanted=True)).text
        return f"getFact({self.fact_name(fact)}, {key})"

    def facts_list(self, fact: Fact) -> Text:
        prefix = self.rng.choice([quoted(self.rng, PREFIXES[fact.name]), '""', '"component:SKU-1"', "productSku()"])
        return Text(f"getFactsByPrefix({self.fact_name(fact)}, {prefix})")

    def fact_name(self, fact: Fact) -> str:
        return quoted(self.rng, f"{fact.name}@{fact.version}" if self.rng.random() < 0.3 else fact.name)

    def map_types(self) -> list[Map]:
        return [kind for members in SCHEMAS.values() for kind in members.values() if isinstance(kind, Map)]

    def map_option(self, kind: Map) -> str:
        homes = [(fact, name) for fact, members in SCHEMAS.items() for name, of in members.items() if of == kind]
        if not homes:
            return "none"
        fact, name = self.rng.choice(homes)
        return f'recordGet({self.leaf(fact, wanted=False).text}, "{name}")'
