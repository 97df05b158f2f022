"""Snapshot, BPC-SNAPSHOT-1: the facts a passport is compiled from, in one byte string.

Pure. The order facts are handed over in does not matter: they are sorted by type, key and payload hash, each
as UTF-8 bytes. Whether two facts may share a type and a key is decided where the snapshot is built.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from bpc.core import canon
from bpc.core.digest import Digest, to_hex
from bpc.core.ids import SnapshotId

SNAPSHOT_VERSION: Final = "BPC-SNAPSHOT-1"


class FactRef(NamedTuple):
    """A fact as a snapshot knows it: its name, and the hash of its payload's canonical bytes."""

    fact_type: str
    fact_key: str
    payload_hash: Digest


def snapshot_bytes(snapshot_id: SnapshotId, facts: Iterable[FactRef]) -> bytes:
    """The canonical bytes of a snapshot; their SHA-256 is the snapshot's hash."""
    return canon.encode_typed(
        {
            "facts": [
                {"fact_key": key, "fact_type": kind, "payload_hash": to_hex(payload_hash)}
                # Strings compare by code point, which is the order of their UTF-8 bytes.
                for kind, key, payload_hash in sorted(facts)
            ],
            "snapshot_id": str(snapshot_id),
            "snapshot_version": SNAPSHOT_VERSION,
        }
    )
