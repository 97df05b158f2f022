"""The steps of a proof as the reference evaluator makes them: numbered when first made, equal ones once.

A node is known by the canonical bytes of its type, data and children: Python's own equality takes `True` for 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bpc.core import canon
from bpc.core.canon import Json
from bpc.core.errors import Refusal
from bpc.core.rules.source import Span

# Stands for the node of whatever is evaluated inside a lambda, where nothing but reads makes nodes.
NO_NODE: Final = -1


@dataclass(frozen=True, slots=True)
class Node:
    """One node, and for people the field it was first made in and the place in the rules it stands for."""

    type: str
    data: dict[str, Json]
    children: list[int]
    field: str | None
    span: Span | None


class NodesTooLarge(Refusal):
    """The nodes would take more room than the caller allows."""

    code = "PROOF_TOO_LARGE"


class Steps:
    """The nodes made so far. Ids count from `first`; `most_bytes` bounds what all of them say."""

    def __init__(self, first: int, most_bytes: int | None = None) -> None:
        self.first = first
        self.nodes: list[Node] = []
        self._ids: dict[bytes, int] = {}
        self._has_parent: set[int] = set()
        self._room = most_bytes

    def make(
        self,
        kind: str,
        data: dict[str, Json],
        children: Sequence[int] = (),
        *,
        field: str | None,
        span: Span | None,
    ) -> int:
        """The id of this node, a new one only if there was none like it."""
        key = canon.encode_typed([kind, data, list(children)])
        known = self._ids.get(key)
        if known is not None:
            return known
        self._spend(len(key))
        made = self._ids[key] = self.next_id
        self.nodes.append(Node(kind, data, list(children), field, span))
        self._has_parent.update(children)
        return made

    @property
    def next_id(self) -> int:
        return self.first + len(self.nodes)

    def parentless_from(self, start: int) -> list[int]:
        """Those with at least the id `start` that no node refers to, in order."""
        return [made for made in range(start, self.next_id) if made not in self._has_parent]

    def _spend(self, size: int) -> None:
        if self._room is None:
            return
        self._room -= size
        if self._room < 0:
            raise NodesTooLarge("the steps of the derivation take more room than there is")
