"""Proof: a passport's computation, step by step, each step hash-linked to those it used.

Pure. A node's hash covers its children's hashes, so the root's hash covers the whole computation.
"""

from collections.abc import Iterable, Mapping

from bpc.core import canon
from bpc.core.canon import Json
from bpc.core.digest import Digest, sha256, to_hex


def node_hash(node_id: int, node_type: str, data: Mapping[str, Json], children_hashes: Iterable[Digest]) -> Digest:
    """BPC-PROOF-HASH-1: SHA-256 of the canonical object of the four, the children's hashes in their order."""
    return sha256(
        canon.encode_typed(
            {
                "children_hashes": [to_hex(child) for child in children_hashes],
                "data": data,
                "id": node_id,
                "type": node_type,
            }
        )
    )
