"""What one query may cost, decided before it runs.

Pure. A query is walked as it would be executed, fragments and all; the walk stops as soon as a limit is passed, so a
query that unfolds without end is refused as quickly as any other.

    depth     fields inside fields
    aliases   a field asked for under another name: the way to ask for the same thing many times
    cost      objects it could give: a list counts as many times as its `first` says
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLField,
    GraphQLList,
    GraphQLNonNull,
    GraphQLSchema,
    InlineFragmentNode,
    IntValueNode,
    OperationDefinitionNode,
    SelectionSetNode,
    VariableNode,
)

from bpc.api.paging import DEFAULT
from bpc.core.errors import Invalid

MOST_DEPTH: Final = 12
MOST_ALIASES: Final = 30
MOST_COST: Final = 5_000
MOST_TOKENS: Final = 2_000
MOST_FIELDS: Final = 20_000  # with fragments unfolded
WHOLE_LIST: Final = 20  # what a list that has no pages counts as


class TooExpensive(Invalid):
    """A query beyond a limit."""

    def __init__(self, limit: str, most: int) -> None:
        super().__init__(
            f"the query is beyond the limit: {limit} may be {most:,} at most",
            fix="ask for less at once: fewer levels, a smaller `first`, or several queries",
            details={"limit": limit, "most": most},
        )


@dataclass(slots=True)
class _Budget:
    """What is left."""

    aliases: int = MOST_ALIASES
    cost: int = MOST_COST
    steps: int = MOST_FIELDS

    def take_alias(self) -> None:
        self.aliases -= 1
        if self.aliases < 0:
            raise TooExpensive("aliases", MOST_ALIASES)

    def take_cost(self, count: int) -> None:
        self.cost -= count
        if self.cost < 0:
            raise TooExpensive("cost", MOST_COST)

    def take_step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise TooExpensive("fields", MOST_FIELDS)


@dataclass(frozen=True, slots=True)
class _Walk:
    fragments: Mapping[str, FragmentDefinitionNode]
    variables: Mapping[str, Any]
    budget: _Budget = field(default_factory=_Budget)

    def selection(
        self, chosen: SelectionSetNode | None, parent: Any, times: int, depth: int, spread: frozenset[str]
    ) -> None:
        if chosen is None:
            return
        for node in chosen.selections:
            self.budget.take_step()
            match node:
                case FieldNode():
                    self.field(node, parent, times, depth, spread)
                case InlineFragmentNode():
                    self.selection(node.selection_set, parent, times, depth, spread)
                case FragmentSpreadNode():
                    name = node.name.value
                    fragment = self.fragments.get(name)
                    # One that is spread inside itself is refused by validation, which comes later.
                    if fragment is not None and name not in spread:
                        self.selection(fragment.selection_set, parent, times, depth, spread | {name})
                case _:
                    pass  # there is no other kind

    def field(self, node: FieldNode, parent: Any, times: int, depth: int, spread: frozenset[str]) -> None:
        if depth > MOST_DEPTH:
            raise TooExpensive("depth", MOST_DEPTH)
        if node.alias is not None:
            self.budget.take_alias()
        known: GraphQLField | None = getattr(parent, "fields", {}).get(node.name.value)
        if node.selection_set is None:
            return
        of, is_list = (None, False) if known is None else _unwrapped(known.type)
        if getattr(parent, "name", "").endswith("Page"):
            count = times  # the page has been counted
        else:
            count = times * self.times(node, known, is_list=is_list)
            self.budget.take_cost(count)
        self.selection(node.selection_set, of, count, depth + 1, spread)

    def times(self, node: FieldNode, known: GraphQLField | None, *, is_list: bool) -> int:
        """How many objects a field could give."""
        if known is not None and "first" in known.args:
            return self.first(node)
        return WHOLE_LIST if is_list else 1

    def first(self, node: FieldNode) -> int:
        for argument in node.arguments or ():
            if argument.name.value != "first":
                continue
            value: Any = argument.value
            if isinstance(value, IntValueNode) and len(value.value) < 10:
                return max(1, int(value.value))
            if isinstance(value, VariableNode) and isinstance(self.variables.get(value.name.value), int):
                return max(1, int(self.variables[value.name.value]))
        return DEFAULT


def check(schema: GraphQLSchema, document: DocumentNode, variables: Mapping[str, Any]) -> None:
    """Raise `TooExpensive` if any operation of the document is beyond a limit."""
    fragments = {node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)}
    for node in document.definitions:
        if isinstance(node, OperationDefinitionNode):
            walk = _Walk(fragments, {**_defaults(node), **variables})
            walk.selection(node.selection_set, schema.query_type, 1, 1, frozenset())


def _defaults(operation: OperationDefinitionNode) -> dict[str, Any]:
    """What the whole numbers among its variables are where nothing is given."""
    return {
        definition.variable.name.value: int(definition.default_value.value)
        for definition in operation.variable_definitions or ()
        if isinstance(definition.default_value, IntValueNode) and len(definition.default_value.value) < 10
    }


def _unwrapped(kind: Any) -> tuple[Any, bool]:
    """The named type inside, and whether it comes as a list."""
    is_list = False
    while isinstance(kind, GraphQLNonNull | GraphQLList):
        is_list = is_list or isinstance(kind, GraphQLList)
        kind = kind.of_type
    return kind, is_list
