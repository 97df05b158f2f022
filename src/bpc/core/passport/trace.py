"""What the evaluator did for each field, without a single value: for the log level `debug`.

Pure. It is read from the proof, so it says exactly what was computed: which operations, how many of each, in the order
of evaluation.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bpc.core.formats import canonical_json


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldTrace:
    """A field: the node of its proof, how many nodes it was derived from, and its operations by name."""

    path: str
    node: int
    nodes: int
    operations: Mapping[str, int]


def trace_fields(proof: bytes) -> Iterator[FieldTrace]:
    """Every field in the order of evaluation. Nodes that an earlier field has computed are not counted again."""
    document: Any = canonical_json.decode(proof)
    nodes, visited_ids = document["nodes"], set[int]()
    for path, first in sorted(document["field_index"].items(), key=lambda entry: entry[1]):
        operations, pending = Counter[str](), list(nodes[first]["children"])
        while pending:
            position = pending.pop()
            if position in visited_ids:
                continue
            visited_ids.add(position)
            node = nodes[position]
            operations[node["data"].get("op") or node["type"]] += 1
            pending += node["children"]
        yield FieldTrace(path=path, node=first, nodes=operations.total(), operations=dict(sorted(operations.items())))
