"""Variables: which are visible, where each was bound, and which a lambda takes from around it.

A name may not be bound where it is visible, so one flat table is enough; a block takes its names out again when it
ends. A variable's level is the number of lambdas around its binding.
"""

from typing import Literal

from bpc.core.rules import syntax
from bpc.core.rules.source import Span
from bpc.core.rules.types import Type


class Variable:
    """A bound name. `type` is None if its value is wrong; `value` is what a let binds, or the list of a parameter."""

    __slots__ = ("by", "level", "span", "type", "used", "value")

    def __init__(
        self,
        kind: Type | None,
        span: Span,
        by: Literal["let", "parameter", "forall"],
        value: "syntax.Expr | None",
        level: int,
    ) -> None:
        self.type = kind
        self.span = span
        self.by = by
        self.value = value
        self.level = level
        self.used = False


class Scope:
    """The variables visible at one place."""

    __slots__ = ("_lambdas", "names")

    def __init__(self) -> None:
        self.names: dict[str, Variable] = {}
        # For each lambda around the place, outermost first: the variables it mentions that are bound outside of it,
        # and where each is first mentioned. What is checked first need not be what is written first.
        self._lambdas: list[dict[str, int]] = []

    @property
    def level(self) -> int:
        return len(self._lambdas)

    def bind(self, name: str, variable: Variable) -> Variable | None:
        """Make a name visible; the answer is the variable that had it, to be given back to `unbind`."""
        before = self.names.get(name)
        self.names[name] = variable
        return before

    def unbind(self, name: str, before: Variable | None) -> None:
        if before is None:
            del self.names[name]
        else:
            self.names[name] = before

    def mention(self, name: str, at: int) -> Variable | None:
        """Look a variable up for use: every lambda between its binding and here takes it from outside."""
        variable = self.names.get(name)
        if variable is not None:
            variable.used = True
            for mentioned in self._lambdas[variable.level :]:
                mentioned[name] = min(at, mentioned.get(name, at))
        return variable

    def enter_lambda(self) -> None:
        self._lambdas.append({})

    def leave_lambda(self) -> tuple[str, ...]:
        """The outer variables the lambda mentioned, in order of first mention."""
        mentioned = self._lambdas.pop()
        return tuple(sorted(mentioned, key=mentioned.__getitem__))
