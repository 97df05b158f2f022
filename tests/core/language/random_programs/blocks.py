"""What a random program has of any type: branches, blocks, options taken apart, lambdas."""

from collections.abc import Iterator
from contextlib import contextmanager

from bpc.core.facts.schemas import SCHEMAS
from bpc.core.language.types import BOOL, INT, TEXT, Dec, FactRecordType, List, Map, Opt, Type
from tests.core.language.random_programs.literals import LiteralWriter
from tests.core.language.random_programs.syntax import AND, OPEN, ExpressionText
from tests.core.language.random_programs.worlds import draw_text, quote_text


class BlockWriter(LiteralWriter):
    def write_choice(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        bodies = self.write_same_type(kind, depth, type_known, self.rng.choice([2, 2, 2, 3, 5]))
        conditions = [self.write_expression(BOOL, depth - 1, type_known=True).text for _ in bodies[1:]]
        text = "".join(
            f"if ({condition}) then {body} else " for condition, body in zip(conditions, bodies, strict=False)
        )
        return ExpressionText(text + bodies[-1], OPEN)

    def write_same_type(self, kind: Type, depth: int, type_known: bool, count: int) -> list[str]:
        """Expressions of one type; unless it is wanted, the first that is not bare gives it to the others."""
        if type_known:
            return [self.write_expression(kind, depth, type_known=True).text for _ in range(count)]
        solid = self.rng.randrange(count)
        bare = [self.write_bare(kind) for _ in range(solid)]
        if any(text is None for text in bare):
            bare = []
        others = [self.write_expression(kind, depth, type_known=True).text for _ in range(count - len(bare) - 1)]
        return [*(text.text for text in bare if text), self.write_typed(kind, depth).text, *others]

    def write_block(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        texts = []
        bound = len(self.scope)
        for _ in range(self.rng.choice([1, 1, 2, 3])):
            if self.rng.random() < 0.25:
                texts.append(self.write_assert(depth))
            else:
                of, value = self.write_bound_value(depth)
                name = self.create_name()
                texts.append(f"let {name} = {value};")
                self.scope.append((name, of))
            texts.append(self.rng.choice([" ", " ", "\n  ", " -- Größe\n"]))
        body = self.write_expression(kind, depth, type_known=type_known)
        del self.scope[bound:]
        return ExpressionText("".join(texts) + body.text, OPEN)

    def write_bound_value(self, depth: int) -> tuple[Type, str]:
        """What a let binds; sometimes what another name is bound to already, or the same literal."""
        if self.scope and self.rng.random() < 0.15:
            name, of = self.rng.choice(self.scope)
            return of, name
        of = self.choose_let_type()
        if of in {INT, TEXT} and self.rng.random() < 0.5:
            return of, {INT: "1", TEXT: '"component:SKU-1"'}[of]
        return of, self.write_expression(of, depth - 1, type_known=False).text

    def choose_let_type(self) -> Type:
        choice = self.rng.random()
        if choice < 0.2:
            return self.rng.choice(list(SCHEMAS))
        if choice < 0.35:
            return List(self.rng.choice(list(SCHEMAS)))
        if choice < 0.4:
            return Opt(self.rng.choice(list(SCHEMAS)))
        if choice < 0.45:
            return Dec(self.rng.randint(19, 36))
        maps = self.list_map_types()
        return self.rng.choice(maps) if maps and choice < 0.55 else self.choose_type(2)

    def write_assert(self, depth: int) -> str:
        condition = self.write_expression(BOOL, depth - 1, type_known=True)
        text = condition.text if self.takes_risk() else f"{condition.parenthesise_for(AND)} || true"
        return f"assert({text}, {self.create_code()}, {quote_text(self.rng, draw_text(self.rng))});"

    def write_parentheses(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        inner = self.write_expression(kind, depth, type_known=type_known)
        return ExpressionText(f"({inner.text})", bare=inner.bare)

    def write_unwrap(self, kind: Type, depth: int, _: bool) -> ExpressionText:
        option = self.write_typed(Opt(kind), depth).text
        return ExpressionText(
            f"unwrapOr({option}, {self.write_expression(kind, depth, type_known=True).text}{self.write_comma()})"
        )

    def write_require(self, kind: Type, depth: int, _: bool) -> ExpressionText:
        option = (
            self.write_typed(Opt(kind), depth).text
            if self.takes_risk()
            else f"some({self.write_typed(kind, depth).text})"
        )
        return self.write_require_some(option)

    def write_fold(self, kind: Type, depth: int, type_known: bool) -> ExpressionText:
        if self.lambdas >= 3 or isinstance(kind, FactRecordType | Map):
            return self.write_literal(kind, depth, type_known)
        of, items = self.write_some_list(depth)
        init = self.write_expression(kind, depth, type_known=True) if type_known else self.write_typed(kind, depth)
        total, item = self.create_name(), ""
        with self.bind_parameter(total, kind):
            item = self.create_name()
            with self.bind_parameter(item, of):
                body = self.write_uses() + self.write_expression(kind, depth, type_known=True).text
        return ExpressionText(f"fold({items}, {init.text}, fn({total}, {item}) => {body})")

    @contextmanager
    def bind_parameter(self, name: str, kind: Type) -> Iterator[None]:
        """Inside a lambda, with its parameter in sight."""
        self.scope.append((name, kind))
        self.lambdas += 1
        yield
        self.lambdas -= 1
        del self.scope[-1]

    def write_uses(self) -> str:
        """Sometimes, at the start of a lambda: a let that uses what is in sight, and reads by it."""
        if self.rng.random() > 0.3:
            return ""
        names = [name for name, _ in self.scope]
        counts = [f"count([{name}])" for name in self.rng.sample(names, min(3, len(names)))]
        texts = [name for name, known in self.scope if known == TEXT]
        reads = [f'count([getFact("Component", {self.rng.choice(texts)})])'] if texts else []
        # A lambda inside this one sees more names, so this one is free there.
        return f"let used{len(names)} = {' + '.join([*counts, *reads])}; "

    def write_some_list(self, depth: int) -> tuple[Type, str]:
        """Some list and the type of what is in it; mostly facts, or what is in sight anyhow."""
        seen = [known.item for _, known in [*self.scope, *self.fields.items()] if isinstance(known, List)]
        components: list[Type] = [FactRecordType("Component", 1), *SCHEMAS]
        item = self.rng.choice([*components, *components, *seen, self.choose_type(2)])
        known_list = self.write_known(List(item)) if isinstance(item, Map) else None
        return item, (known_list or self.write_typed(List(item), depth - 1)).text
