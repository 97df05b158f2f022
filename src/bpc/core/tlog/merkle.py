"""The Merkle tree of RFC 6962: its hashes, and proofs that an entry is in it or that it only grew.

Pure. A tree is read through one function, `read(height, index)`: the hash of the complete subtree over the leaves
`index * 2**height` to `(index + 1) * 2**height`. Tiles give it (bpc.core.tlog.tiles), or a list of leaf hashes.

    index, size, read ─► make_inclusion_proof ─► hashes ─► check_inclusion(…, root)
    old size, new size, read ─► make_consistency_proof ─► hashes ─► check_consistency(…, old root, new root)
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from bpc.core.errors import Invalid
from bpc.core.formats.hashes import Digest, sha256

ReadSubtree: TypeAlias = Callable[[int, int], Digest]

# RFC 6962 2.1: what a leaf and an inner node begin with, so that neither can pass for the other.
LEAF_PREFIX: Final = b"\x00"
NODE_PREFIX: Final = b"\x01"
EMPTY_ROOT: Final = sha256(b"")
MAX_TREE_SIZE: Final = 1 << 62


class BadMerkleProof(Invalid):
    """The hashes of a proof do not lead to the root."""


def hash_leaf(entry: bytes) -> Digest:
    return sha256(LEAF_PREFIX + entry)


def hash_children(left: Digest, right: Digest) -> Digest:
    return sha256(NODE_PREFIX + left + right)


def hash_complete_tree(hashes: Sequence[Digest]) -> Digest:
    """The root over a power of two of hashes."""
    level = list(hashes)
    while len(level) > 1:
        level = [hash_children(left, right) for left, right in zip(level[::2], level[1::2], strict=True)]
    return level[0]


def read_leaves(leaves: Sequence[Digest]) -> ReadSubtree:
    """The reader of a tree whose leaf hashes are all at hand."""

    def read(height: int, index: int) -> Digest:
        return hash_complete_tree(leaves[index << height : (index + 1) << height])

    return read


def hash_tree(size: int, read: ReadSubtree) -> Digest:
    """The root of the tree of the first `size` leaves."""
    return EMPTY_ROOT if size == 0 else _hash_range(0, size, read)


def make_inclusion_proof(index: int, size: int, read: ReadSubtree) -> tuple[Digest, ...]:
    """RFC 6962 2.1.1: the hashes that lead from leaf `index` to the root of `size` leaves, the sibling first."""
    if not 0 <= index < size:
        raise Invalid(f"entry {index:,} is not in a log of {size:,} entries", fix="give an index below the size")
    start, end, proof = 0, size, list[Digest]()
    while end - start > 1:
        split = start + _largest_power_below(end - start)
        if index < split:
            proof.append(_hash_range(split, end, read))
            end = split
        else:
            proof.append(_hash_range(start, split, read))
            start = split
    return tuple(reversed(proof))


def make_consistency_proof(old_size: int, new_size: int, read: ReadSubtree) -> tuple[Digest, ...]:
    """RFC 6962 2.1.2: the hashes that lead from the tree of `old_size` to that of `new_size`."""
    if not 0 <= old_size <= new_size:
        raise Invalid(
            f"a log of {new_size:,} entries did not grow from {old_size:,}", fix="give the smaller size first"
        )
    if old_size in {0, new_size}:
        return ()
    start, end, is_whole, proof = 0, new_size, True, list[Digest]()
    while end != old_size:
        split = start + _largest_power_below(end - start)
        if old_size <= split:
            proof.append(_hash_range(split, end, read))
            end = split
        else:
            proof.append(_hash_range(start, split, read))
            start, is_whole = split, False
    if not is_whole:
        proof.append(_hash_range(start, end, read))
    return tuple(reversed(proof))


def check_inclusion(leaf: Digest, index: int, size: int, proof: Sequence[Digest], root: Digest) -> None:
    """Raise `BadMerkleProof` unless `proof` leads from the leaf hash to the root (RFC 9162 2.1.3.2)."""
    if not 0 <= index < size <= MAX_TREE_SIZE:
        raise BadMerkleProof(f"entry {index:,} cannot be in a tree of {size:,} entries")
    position, last, node = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            raise BadMerkleProof("the inclusion proof has too many hashes")
        if position & 1 or position == last:
            node = hash_children(sibling, node)
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            node = hash_children(node, sibling)
        position, last = position >> 1, last >> 1
    if last != 0:
        raise BadMerkleProof("the inclusion proof has too few hashes")
    if node != root:
        raise BadMerkleProof("the inclusion proof does not lead to the root of the checkpoint")


def check_consistency(
    old_size: int, new_size: int, old_root: Digest, new_root: Digest, proof: Sequence[Digest]
) -> None:
    """Raise `BadMerkleProof` unless the old tree is the beginning of the new one (RFC 9162 2.1.4.2)."""
    if not 0 <= old_size <= new_size <= MAX_TREE_SIZE:
        raise BadMerkleProof(f"a tree of {new_size:,} entries cannot have grown from one of {old_size:,}")
    if old_size in {0, new_size}:
        _check_trivial_consistency(old_size, new_size, old_root, new_root, proof)
        return
    hashes = list(proof)
    if old_size & (old_size - 1) == 0:  # a complete tree is a node of the new one, and not repeated in the proof
        hashes.insert(0, old_root)
    if not hashes:
        raise BadMerkleProof("the consistency proof has too few hashes")
    position, last = old_size - 1, new_size - 1
    while position & 1:
        position, last = position >> 1, last >> 1
    old_node = new_node = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            raise BadMerkleProof("the consistency proof has too many hashes")
        if position & 1 or position == last:
            old_node, new_node = hash_children(sibling, old_node), hash_children(sibling, new_node)
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            new_node = hash_children(new_node, sibling)
        position, last = position >> 1, last >> 1
    if last != 0:
        raise BadMerkleProof("the consistency proof has too few hashes")
    if (old_node, new_node) != (old_root, new_root):
        raise BadMerkleProof("the consistency proof does not lead from the old root to the new one")


def _check_trivial_consistency(
    old_size: int, new_size: int, old_root: Digest, new_root: Digest, proof: Sequence[Digest]
) -> None:
    if proof:
        raise BadMerkleProof("the consistency proof must be empty between these sizes")
    if old_size == 0 and old_root != EMPTY_ROOT:
        raise BadMerkleProof("the old tree is empty, and its root is not that of an empty tree")
    if old_size == new_size and old_root != new_root:
        raise BadMerkleProof("two trees of the same size have different roots")


def _hash_range(start: int, end: int, read: ReadSubtree) -> Digest:
    """The hash over the leaves from `start` to `end`, where `start` is a multiple of the size of its left part."""
    count = end - start
    if count & (count - 1) == 0:
        height = count.bit_length() - 1
        return read(height, start >> height)
    split = start + _largest_power_below(count)
    return hash_children(_hash_range(start, split, read), _hash_range(split, end, read))


def _largest_power_below(count: int) -> int:
    """The largest power of two that is smaller than `count`, which is at least 2."""
    return 1 << ((count - 1).bit_length() - 1)
