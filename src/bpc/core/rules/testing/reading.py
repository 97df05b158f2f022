"""Which facts, and which of their members, a program can look at: its rules and the claims of its properties.

Pure. `recordGet` with a name written out is the only way to look into a fact, so a member that is not found here cannot
make a difference to any field or test.
"""

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from bpc.core.rules.typed import Apply, GetFact, GetFacts, Program
from bpc.core.rules.types import Fact


@dataclass(frozen=True, slots=True)
class Reading:
    """The fact types that are asked for, in a fixed order, and the members named in a `recordGet` by fact type."""

    facts: tuple[Fact, ...]
    members: dict[Fact, frozenset[str]]


def reading_of(program: Program) -> Reading:
    facts = set(program.facts)
    members: dict[Fact, set[str]] = {}
    waiting: list[Any] = [field.body for field in program.fields]
    waiting += [side for of in program.properties for claim in of.claims for side in (claim.premise, claim.conclusion)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, GetFact | GetFacts):
            facts.add(node.fact)
        elif isinstance(node, Apply) and node.op == "recordGet" and isinstance(node.arguments[0].type, Fact):
            members.setdefault(node.arguments[0].type, set()).add(str(node.static["member"]))
        waiting += _parts(node)
    in_order = sorted(facts, key=lambda fact: (fact.name, fact.version))
    return Reading(tuple(in_order), {fact: frozenset(names) for fact, names in members.items()})


def _parts(node: object) -> list[Any]:
    if isinstance(node, tuple):
        return list(node)
    if not is_dataclass(node):
        return []
    # Not into types: a type of shared parts can be far larger than the memory it takes.
    return [getattr(node, part.name) for part in fields(node) if part.name != "type"]
