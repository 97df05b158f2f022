"""What a random program has of any type: branches, blocks, options taken apart, lambdas."""

from collections.abc import Iterator
from contextlib import contextmanager

from bpc.core.rules.types import BOOL, INT, TEXT, Dec, Fact, List, Map, Opt, Type
from bpc.core.schemas import SCHEMAS
from tests.core.rules.program_literals import Literals
from tests.core.rules.program_worlds import any_text, quoted
from tests.core.rules.program_writing import AND, OPEN, Text, any_type


class Blocks(Literals):
    def choice(self, kind: Type, depth: int, wanted: bool) -> Text:
        bodies = self.agreeing(kind, depth, wanted, self.rng.choice([2, 2, 2, 3, 5]))
        conditions = [self.expr(BOOL, depth - 1, wanted=True).text for _ in bodies[1:]]
        text = "".join(
            f"if ({condition}) then {body} else " for condition, body in zip(conditions, bodies, strict=False)
        )
        return Text(text + bodies[-1], OPEN)

    def agreeing(self, kind: Type, depth: int, wanted: bool, count: int) -> list[str]:
        """Expressions of one type; unless it is wanted, the first that is not bare gives it to the others."""
        if wanted:
            return [self.expr(kind, depth, wanted=True).text for _ in range(count)]
        solid = self.rng.randrange(count)
        bare = [self.bare(kind) for _ in range(solid)]
        if any(text is None for text in bare):
            bare = []
        rest = [self.expr(kind, depth, wanted=True).text for _ in range(count - len(bare) - 1)]
        return [*(text.text for text in bare if text), self.typed(kind, depth).text, *rest]

    def block(self, kind: Type, depth: int, wanted: bool) -> Text:
        texts = []
        bound = len(self.scope)
        for _ in range(self.rng.choice([1, 1, 2, 3])):
            if self.rng.random() < 0.25:
                texts.append(self.asserted(depth))
            else:
                of, value = self.bound_value(depth)
                name = self.name()
                texts.append(f"let {name} = {value};")
                self.scope.append((name, of))
            texts.append(self.rng.choice([" ", " ", "\n  ", " -- Größe\n"]))
        body = self.expr(kind, depth, wanted=wanted)
        del self.scope[bound:]
        return Text("".join(texts) + body.text, OPEN)

    def bound_value(self, depth: int) -> tuple[Type, str]:
        """What a let binds; sometimes what another name is bound to already, or the same literal."""
        if self.scope and self.rng.random() < 0.15:
            name, of = self.rng.choice(self.scope)
            return of, name
        of = self.let_type()
        if of in {INT, TEXT} and self.rng.random() < 0.5:
            return of, {INT: "1", TEXT: '"component:SKU-1"'}[of]
        return of, self.expr(of, depth - 1, wanted=False).text

    def let_type(self) -> Type:
        choice = self.rng.random()
        if choice < 0.2:
            return self.rng.choice(list(SCHEMAS))
        if choice < 0.35:
            return List(self.rng.choice(list(SCHEMAS)))
        if choice < 0.4:
            return Opt(self.rng.choice(list(SCHEMAS)))
        if choice < 0.45:
            return Dec(self.rng.randint(19, 36))
        maps = self.map_types()
        return self.rng.choice(maps) if maps and choice < 0.55 else any_type(self.rng, 2)

    def asserted(self, depth: int) -> str:
        condition = self.expr(BOOL, depth - 1, wanted=True)
        text = condition.text if self.risks() else f"{condition.at(AND)} || true"
        return f"assert({text}, {self.code()}, {quoted(self.rng, any_text(self.rng))});"

    def parenthesised(self, kind: Type, depth: int, wanted: bool) -> Text:
        inner = self.expr(kind, depth, wanted=wanted)
        return Text(f"({inner.text})", bare=inner.bare)

    def unwrapped(self, kind: Type, depth: int, _: bool) -> Text:
        option = self.typed(Opt(kind), depth).text
        return Text(f"unwrapOr({option}, {self.expr(kind, depth, wanted=True).text}{self.comma()})")

    def required(self, kind: Type, depth: int, _: bool) -> Text:
        option = self.typed(Opt(kind), depth).text if self.risks() else f"some({self.typed(kind, depth).text})"
        return self.require(option)

    def folded(self, kind: Type, depth: int, wanted: bool) -> Text:
        if self.lambdas >= 3 or isinstance(kind, Fact | Map):
            return self.literal(kind, depth, wanted)
        of, items = self.some_list(depth)
        init = self.expr(kind, depth, wanted=True) if wanted else self.typed(kind, depth)
        total, item = self.name(), ""
        with self.bound(total, kind):
            item = self.name()
            with self.bound(item, of):
                body = self.uses() + self.expr(kind, depth, wanted=True).text
        return Text(f"fold({items}, {init.text}, fn({total}, {item}) => {body})")

    @contextmanager
    def bound(self, name: str, kind: Type) -> Iterator[None]:
        """Inside a lambda, with its parameter in sight."""
        self.scope.append((name, kind))
        self.lambdas += 1
        yield
        self.lambdas -= 1
        del self.scope[-1]

    def uses(self) -> str:
        """Sometimes, at the start of a lambda: a let that uses what is in sight, and reads by it."""
        if self.rng.random() > 0.3:
            return ""
        names = [name for name, _ in self.scope]
        counts = [f"count([{name}])" for name in self.rng.sample(names, min(3, len(names)))]
        texts = [name for name, known in self.scope if known == TEXT]
        reads = [f'count([getFact("Component", {self.rng.choice(texts)})])'] if texts else []
        # A lambda inside this one sees more names, so this one is free there.
        return f"let used{len(names)} = {' + '.join([*counts, *reads])}; "

    def some_list(self, depth: int) -> tuple[Type, str]:
        """Some list and the type of what is in it; mostly facts, or what is in sight anyhow."""
        seen = [known.item for _, known in [*self.scope, *self.fields.items()] if isinstance(known, List)]
        components: list[Type] = [Fact("Component", 1), *SCHEMAS]
        item = self.rng.choice([*components, *components, *seen, any_type(self.rng, 2)])
        found = self.known(List(item)) if isinstance(item, Map) else None
        return item, (found or self.typed(List(item), depth - 1)).text
