"""What one query may cost.

Pure. Before it runs, a query is walked as it would be executed, fragments and all; the walk stops as soon as a limit is
passed, so a query that unfolds without end is refused as quickly as any other.

    depth     fields inside fields
    aliases   a field asked for under another name: the way to ask for the same thing many times
    fields    all fields, with fragments unfolded
    cost      objects that it gives: counted while it runs, by what its lists really hold
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
    OperationDefinitionNode,
    SelectionSetNode,
)

from bpc.core.errors import Invalid

MAX_DEPTH: Final = 12
MAX_TOKENS: Final = 1_000
MAX_ALIASES: Final = 30
MAX_COST: Final = 5_000
MAX_COUNTS: Final = {"aliases": MAX_ALIASES, "fields": 20_000}


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
    left: dict[str, int] = field(default_factory=lambda: dict(MAX_COUNTS))

    def take(self, limit: str, count: int = 1) -> None:
        self.left[limit] -= count
        if self.left[limit] < 0:
            raise QueryTooExpensive(limit, MAX_COUNTS[limit])

    def walk_selection(
        self, selection_set: SelectionSetNode | None, parent: Any, depth: int, spread: frozenset[str]
    ) -> None:
        if selection_set is None:
            return
        for node in selection_set.selections:
            self.take("fields")
            match node:
                case FieldNode():
                    self.walk_field(node, parent, depth, spread)
                case InlineFragmentNode():
                    self.walk_selection(node.selection_set, parent, depth, spread)
                case FragmentSpreadNode():
                    name = node.name.value
                    fragment = self.fragments.get(name)
                    # One that is spread inside itself is refused by validation, which comes later.
                    if fragment is not None and name not in spread:
                        self.walk_selection(fragment.selection_set, parent, depth, spread | {name})
                case _:
                    pass  # there is no other kind

    def walk_field(self, node: FieldNode, parent: Any, depth: int, spread: frozenset[str]) -> None:
        if depth > MAX_DEPTH:
            raise QueryTooExpensive("depth", MAX_DEPTH)
        if node.alias is not None:
            self.take("aliases")
        definition: GraphQLField | None = getattr(parent, "fields", {}).get(node.name.value)
        if node.selection_set is None:
            return
        inner_type = None if definition is None else _unwrap(definition.type)
        self.walk_selection(node.selection_set, inner_type, depth + 1, spread)


class QueryBudget:
    """The objects that one query may still give."""

    def __init__(self, most: int = MAX_COST) -> None:
        self._most = most
        self._left = most

    def charge(self, count: int) -> None:
        """Take `count` objects. Raises `QueryTooExpensive` if they are too many, and from then on each time."""
        self._left -= count
        if self._left < 0:
            raise QueryTooExpensive("cost", self._most)


def check_query_limits(schema: GraphQLSchema, document: DocumentNode) -> None:
    """Raise `QueryTooExpensive` if any operation of the document is beyond a limit."""
    fragments = {node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)}
    for node in document.definitions:
        if isinstance(node, OperationDefinitionNode):
            _QueryWalk(fragments).walk_selection(node.selection_set, schema.query_type, 1, frozenset())


def _unwrap(kind: Any) -> Any:
    """Return the named type inside."""
    while isinstance(kind, GraphQLNonNull | GraphQLList):
        kind = kind.of_type
    return kind
