"""The Merkle tree over the passports of a chunk: one root for all rows that a transaction wrote.

Pure. The tree always has 1,024 places. Which place a row has, and what fills the others, follows from a secret seed, so
a path to the root tells neither how many passports were issued nor which came first. The hashes of the rows are kept in
the order of the rows: a row that was added, removed or changed since can be named.

    run's secret, chunk ── derive_tree_seed ──► seed
    a row ── hash_item_leaf ──► leaf hashes, seed ── compute_chunk_root ──► root

A leaf is [battery, version, receipt hash, status]; since version 2 also the counts of FAIL and WARN, and the hash of
what the passport was made from. The event of a chunk says which version its leaves have; without a word it is 1.
"""

import hmac
from collections.abc import Sequence
from hashlib import shake_256
from typing import Final, NamedTuple
from uuid import UUID

from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import Digest, to_hex
from bpc.core.formats.ids import BatteryId, ItemChunkId, PassportVersionId
from bpc.core.tlog.merkle import hash_complete_tree, hash_leaf, make_inclusion_proof, read_leaves

CHUNK_SIZE: Final = 1024
LEAF_VERSION: Final = 2
_SEED_DOMAIN: Final = b"BPC-ITEM-CHUNK-1\0"


class LeafRow(NamedTuple):
    """What a row says of a battery's passport."""

    battery_id: BatteryId
    passport_version_id: PassportVersionId
    receipt_hash: Digest
    status: str
    fail_count: int
    warn_count: int
    input_hash: Digest


def derive_tree_seed(run_secret: bytes, chunk: ItemChunkId) -> bytes:
    """The seed of one chunk. It tells nothing about the run's secret."""
    return hmac.digest(run_secret, _SEED_DOMAIN + UUID(int=chunk.int).bytes, "sha256")


def hash_item_leaf(battery: BatteryId, version: PassportVersionId, receipt_hash: Digest, status: str) -> Digest:
    """The leaf of one row, version 1."""
    return hash_leaf(canonical_json.encode([str(battery), str(version), to_hex(receipt_hash), status]))


def hash_full_leaf(row: LeafRow) -> Digest:
    """The leaf of one row, version 2: all but its place in the pack, where the hash of the receipt is compared."""
    members: list[Json] = [
        *(str(row.battery_id), str(row.passport_version_id), to_hex(row.receipt_hash), row.status),
        *(row.fail_count, row.warn_count, to_hex(row.input_hash)),
    ]
    return hash_leaf(canonical_json.encode(members))


def choose_places(seed: bytes) -> list[int]:
    """The place of each row in the tree, by the number of the row."""
    stream = shake_256(b"place" + seed).digest(16 * CHUNK_SIZE)
    return sorted(range(CHUNK_SIZE), key=lambda number: stream[16 * number : 16 * number + 16])


def fill_tree(leaf_hashes: Sequence[Digest], seed: bytes) -> list[Digest]:
    """All places of the tree: the rows', and hashes that nobody can tell from theirs."""
    fillers = split_leaf_hashes(shake_256(b"empty" + seed).digest(32 * CHUNK_SIZE))
    tree = list(fillers)
    for place, leaf_hash in zip(choose_places(seed), [*leaf_hashes, *fillers[len(leaf_hashes) :]], strict=True):
        tree[place] = leaf_hash
    return tree


def compute_chunk_root(leaf_hashes: Sequence[Digest], seed: bytes) -> Digest:
    """The root that the event of the chunk names."""
    return hash_complete_tree(fill_tree(leaf_hashes, seed))


def make_item_path(leaf_hashes: Sequence[Digest], seed: bytes, number: int) -> tuple[int, tuple[Digest, ...]]:
    """The place of a row, and the hashes from there to the root."""
    place, tree = choose_places(seed)[number], fill_tree(leaf_hashes, seed)
    return place, make_inclusion_proof(place, CHUNK_SIZE, read_leaves(tree))


def split_leaf_hashes(data: bytes) -> list[Digest]:
    """Leaf hashes as they are kept: one after the other."""
    return [Digest(data[at : at + 32]) for at in range(0, len(data), 32)]
