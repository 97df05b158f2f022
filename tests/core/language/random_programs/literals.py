"""Literals of random programs, and what reads facts: the leaves that every other expression ends in."""

from bpc.core.facts.schemas import KEY_PREFIXES, SCHEMAS
from bpc.core.language.types import BOOL, INT, TEXT, Dec, EnumType, FactRecordType, List, Map, Opt, Qty, Record, Type
from tests.core.language.random_programs.syntax import PRIMARY, PRODUCT, UNARY, ExpressionText, ExpressionWriter
from tests.core.language.random_programs.worlds import PREFIXES, draw_day, draw_digits, draw_text, list_keys, quote_text

QUOTED_SKU = '"SKU-1"'


class LiteralWriter(ExpressionWriter):
    def write_literal(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        return self.write_leaf(kind, type_known=type_known)

    def write_leaf(self, kind: Type, *, type_known: bool) -> ExpressionText:  # noqa: PLR0911 (one row a type)
        """The smallest text of this type."""
        match kind:
            case Dec(scale):
                return self.write_dec_leaf(scale, type_known=type_known)
            case Qty(unit):
                number = draw_digits(self.rng, 18, wild=self.wild)
                return ExpressionText(f"qty({self.rng.choice(['', '-'])}{number}, {unit})")
            case Opt() | List():
                return self.write_bare_or_filled(kind, type_known=type_known)
            case Record(members):
                parts = [f"{name}: {self.write_leaf(item, type_known=type_known).text}" for name, item in members]
                return ExpressionText("{" + ", ".join(parts) + self.write_comma() + "}")
            case EnumType():
                return self.write_member(kind, type_known=type_known)
            case FactRecordType() | Map():
                option = (
                    self.write_fact_option(kind) if isinstance(kind, FactRecordType) else self.write_map_option(kind)
                )
                return (self.write_known(kind) if isinstance(kind, Map) else None) or self.write_require_some(option)
            case _:
                return self.write_scalar_leaf(kind)

    def write_member(self, kind: EnumType, *, type_known: bool) -> ExpressionText:
        """A member; where its type is not known, one that no other enumeration has."""
        others = {name for other in self.enums if other != kind for name in other.members}
        names = [name for name in kind.members if type_known or name not in others]
        if self.rng.random() < 0.2:
            return ExpressionText(f"{kind.name}.{self.rng.choice(kind.members)}")
        return ExpressionText(self.rng.choice(names))

    def write_scalar_leaf(self, kind: Type) -> ExpressionText:
        if kind == BOOL:
            return ExpressionText(self.rng.choice(["true", "false"]))
        if kind == INT:
            return self.write_number(draw_digits(self.rng, 0, wild=self.wild))
        if kind == TEXT:
            return ExpressionText(quote_text(self.rng, draw_text(self.rng)))
        return ExpressionText(f'date("{draw_day(self.rng)}")')

    def write_dec_leaf(self, scale: int, *, type_known: bool) -> ExpressionText:
        """Where its type is wanted a number may have fewer decimals, and zeros behind those that there is room for."""
        if scale > 18:
            first = self.rng.randint(scale - 18, 18)
            return ExpressionText(
                f"{self.write_exact_number(first)} * {self.write_exact_number(scale - first)}", PRODUCT
            )
        if type_known:
            digits = draw_digits(self.rng, scale, wild=self.wild)
            return self.write_number(
                digits + "0" * self.rng.choice([0, 0, 1]) if "." in digits and len(digits) < 15 else digits
            )
        return (
            self.write_number(self.write_exact_number(scale))
            if scale
            else ExpressionText(f"toDec(0, {self.write_exact_number(self.rng.randint(1, 3))})")
        )

    def write_exact_number(self, scale: int) -> str:
        """A number literal that is a Dec of this scale by itself."""
        if scale == 0:
            return f"toDec(0, {self.rng.randrange(100)})"
        return f"{self.rng.randrange(1000)}.{str(self.rng.randrange(10**scale)).rjust(scale, '0')}"

    def write_number(self, digits: str) -> ExpressionText:
        return (
            ExpressionText(f"-{digits}", UNARY, bare=True)
            if self.rng.random() < 0.2
            else ExpressionText(digits, bare=True)
        )

    def write_bare_or_filled(self, kind: Opt | List, *, type_known: bool) -> ExpressionText:
        if type_known and self.rng.random() < 0.4:
            return ExpressionText("none" if isinstance(kind, Opt) else "[]", bare=True)
        if isinstance(kind.item, FactRecordType):
            return (
                self.write_fact_text(self.write_fact_option(kind.item))
                if isinstance(kind, Opt)
                else self.write_facts_list(kind.item)
            )
        if isinstance(kind, Opt):
            if isinstance(kind.item, Map):
                return ExpressionText(self.write_map_option(kind.item))
            return ExpressionText(f"some({self.write_leaf(kind.item, type_known=type_known).text})")
        return ExpressionText(f"[{self.write_leaf(kind.item, type_known=type_known).text}{self.write_comma()}]")

    def write_bare(self, kind: Type) -> ExpressionText | None:
        """A text that takes this type from what stands beside it."""
        match kind:
            case Opt():
                return ExpressionText("none", bare=True)
            case List():
                return ExpressionText("[]", bare=True)
            case Dec(scale) if scale <= 18:
                return self.write_number(draw_digits(self.rng, scale, wild=self.wild))
            case _:
                return self.write_number(draw_digits(self.rng, 0, wild=self.wild)) if kind == INT else None

    def write_solid(self, kind: Type) -> ExpressionText:
        """A small text that says its type by itself and is no bare number."""
        match kind:
            case Dec(scale) if scale <= 18:
                return ExpressionText(f"toDec({scale}, {draw_digits(self.rng, 18, wild=self.wild)})")
            case _:
                return (
                    ExpressionText(f"count({self.write_leaf(List(INT), type_known=False).text})")
                    if kind == INT
                    else self.write_leaf(kind, type_known=False)
                )

    def write_require_some(self, option: str) -> ExpressionText:
        return ExpressionText(
            f"requireSome({option}, {self.create_code()}, {quote_text(self.rng, draw_text(self.rng))})"
        )

    def write_fact_option(self, fact: FactRecordType, depth: int = 0) -> str:
        keys = list_keys(self.facts, fact)
        key = quote_text(self.rng, self.rng.choice(keys)) if keys else '"nobody"'
        if self.rng.random() < 0.15 and (self.wild or PREFIXES[fact.name] + "SKU-1" in keys):
            key = f'concat("{PREFIXES[fact.name]}", productSku())'
        elif depth > 0 and self.rng.random() < 0.3:
            key = (self.write_known(TEXT) or self.write_expression(TEXT, depth - 1, type_known=True)).text
        if self.language > 1 and fact.name in KEY_PREFIXES and KEY_PREFIXES[fact.name][1] and self.rng.random() < 0.4:
            sku = self.rng.choice(["productSku()", '"SKU-1"', '"nobody"'])
            return f"{fact.name} for {sku}"
        return f"getFact({self.write_fact_name(fact)}, {key})"

    def write_fact_text(self, text: str) -> ExpressionText:
        """A member that is read behind `for key` is one of the key."""
        return ExpressionText(text, UNARY if " for " in text else PRIMARY)

    def write_facts_list(self, fact: FactRecordType) -> ExpressionText:
        if self.language > 1 and fact.name in KEY_PREFIXES and not KEY_PREFIXES[fact.name][1]:
            return self.write_fact_text(f"all {fact.name} for {self.rng.choice(['productSku()', QUOTED_SKU])}")
        prefix = self.rng.choice([quote_text(self.rng, PREFIXES[fact.name]), '""', '"component:SKU-1"', "productSku()"])
        return ExpressionText(f"getFactsByPrefix({self.write_fact_name(fact)}, {prefix})")

    def write_fact_name(self, fact: FactRecordType) -> str:
        return quote_text(self.rng, f"{fact.name}@{fact.version}" if self.rng.random() < 0.3 else fact.name)

    def list_map_types(self) -> list[Map]:
        return [kind for members in SCHEMAS.values() for kind in members.values() if isinstance(kind, Map)]

    def write_map_option(self, kind: Map) -> str:
        homes = [(fact, name) for fact, members in SCHEMAS.items() for name, of in members.items() if of == kind]
        if not homes:
            return "none"
        fact, name = self.rng.choice(homes)
        return f'recordGet({self.write_leaf(fact, type_known=False).text}, "{name}")'
