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

from bpc.api.http.models import DEFAULT_PAGE_SIZE
from bpc.core.errors import Invalid

MAX_DEPTH: Final = 12
MAX_TOKENS: Final = 2_000
MAX_ALIASES: Final = 30
MAX_COUNTS: Final = {"aliases": MAX_ALIASES, "cost": 5_000, "fields": 20_000}  # fields: with fragments unfolded
UNPAGED_LIST_COST: Final = 20  # what a list that has no pages counts as


class QueryTooExpensive(Invalid):
    """A query beyond a limit."""

    def __init__(self, limit: str, most: int) -> None:
        super().__init__(
            f"the query is beyond the limit: {limit} may be {most:,} at most",
            fix="ask for less at once: fewer levels, a smaller `first`, or several queries",
            details={"limit": limit, "most": most},
        )


@dataclass(frozen=True, slots=True)
class _QueryWalk:
    fragments: Mapping[str, FragmentDefinitionNode]
    variables: Mapping[str, Any]
    left: dict[str, int] = field(default_factory=lambda: dict(MAX_COUNTS))

    def take(self, limit: str, count: int = 1) -> None:
        self.left[limit] -= count
        if self.left[limit] < 0:
            raise QueryTooExpensive(limit, MAX_COUNTS[limit])

    def walk_selection(
        self, selection_set: SelectionSetNode | None, parent: Any, times: int, depth: int, spread: frozenset[str]
    ) -> None:
        if selection_set is None:
            return
        for node in selection_set.selections:
            self.take("fields")
            match node:
                case FieldNode():
                    self.walk_field(node, parent, times, depth, spread)
                case InlineFragmentNode():
                    self.walk_selection(node.selection_set, parent, times, depth, spread)
                case FragmentSpreadNode():
                    name = node.name.value
                    fragment = self.fragments.get(name)
                    # One that is spread inside itself is refused by validation, which comes later.
                    if fragment is not None and name not in spread:
                        self.walk_selection(fragment.selection_set, parent, times, depth, spread | {name})
                case _:
                    pass  # there is no other kind

    def walk_field(self, node: FieldNode, parent: Any, times: int, depth: int, spread: frozenset[str]) -> None:
        if depth > MAX_DEPTH:
            raise QueryTooExpensive("depth", MAX_DEPTH)
        if node.alias is not None:
            self.take("aliases")
        definition: GraphQLField | None = getattr(parent, "fields", {}).get(node.name.value)
        if node.selection_set is None:
            return
        inner_type, is_list = (None, False) if definition is None else _unwrap(definition.type)
        if getattr(parent, "name", "").endswith("Page"):
            count = times  # the page has been counted
        else:
            count = times * self.count_objects(node, definition, is_list=is_list)
            self.take("cost", count)
        self.walk_selection(node.selection_set, inner_type, count, depth + 1, spread)

    def count_objects(self, node: FieldNode, definition: GraphQLField | None, *, is_list: bool) -> int:
        """Count the objects that a field could give."""
        if definition is not None and "first" in definition.args:
            return self.read_first(node)
        return UNPAGED_LIST_COST if is_list else 1

    def read_first(self, node: FieldNode) -> int:
        for argument in node.arguments or ():
            if argument.name.value != "first":
                continue
            value: Any = argument.value
            if isinstance(value, IntValueNode) and len(value.value) < 10:
                return max(1, int(value.value))
            if isinstance(value, VariableNode) and isinstance(self.variables.get(value.name.value), int):
                return max(1, int(self.variables[value.name.value]))
        return DEFAULT_PAGE_SIZE


def check_query_limits(schema: GraphQLSchema, document: DocumentNode, variables: Mapping[str, Any]) -> None:
    """Raise `QueryTooExpensive` if any operation of the document is beyond a limit."""
    fragments = {node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)}
    for node in document.definitions:
        if isinstance(node, OperationDefinitionNode):
            walk = _QueryWalk(fragments, {**_read_defaults(node), **variables})
            walk.walk_selection(node.selection_set, schema.query_type, 1, 1, frozenset())


def _read_defaults(operation: OperationDefinitionNode) -> dict[str, Any]:
    """Return the default values of its variables that are whole numbers."""
    return {
        definition.variable.name.value: int(definition.default_value.value)
        for definition in operation.variable_definitions or ()
        if isinstance(definition.default_value, IntValueNode) and len(definition.default_value.value) < 10
    }


def _unwrap(kind: Any) -> tuple[Any, bool]:
    """Return the named type inside, and whether it is in a list."""
    is_list = False
    while isinstance(kind, GraphQLNonNull | GraphQLList):
        is_list = is_list or isinstance(kind, GraphQLList)
        kind = kind.of_type
    return kind, is_list
