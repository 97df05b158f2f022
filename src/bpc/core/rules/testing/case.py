"""One case of a property: what was drawn for it, or what was left of that after shrinking. A pure value."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from bpc.core.rules.typed import Value

Members: TypeAlias = Mapping[str, Value]
"""The members of a fact as rules hold them; an absent one is not there."""


@dataclass(frozen=True, slots=True)
class Case:
    """The members of each fact that is `any`, then the value of each claim's variable, both in written order."""

    number: int
    facts: tuple[Members, ...]
    variables: tuple[Value, ...]
