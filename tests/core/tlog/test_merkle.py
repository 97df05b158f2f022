"""Merkle proofs: a true one is accepted at every index and size, and nothing else ever is."""

import random  # noqa: TID251 (seeded)

import pytest

from bpc.core.errors import Invalid
from bpc.core.formats.hashes import Digest, from_hex, sha256
from bpc.core.tlog.merkle import (
    EMPTY_ROOT,
    BadMerkleProof,
    check_consistency,
    check_inclusion,
    hash_leaf,
    hash_tree,
    make_consistency_proof,
    make_inclusion_proof,
    read_leaves,
)

# Published with the first implementation of RFC 6962.
INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = {
    0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}
LEAVES = [hash_leaf(b"%d" % number) for number in range(256)]
READ = read_leaves(LEAVES)
TREE_ROOTS = [hash_tree(size, READ) for size in range(257)]
OTHER = sha256(b"other")


@pytest.mark.parametrize("size", list(ROOTS))
def test_the_published_roots_come_out(size: int) -> None:
    leaves = [hash_leaf(bytes.fromhex(text)) for text in INPUTS[:size]]

    assert hash_tree(size, read_leaves(leaves)) == from_hex(ROOTS[size])


def check_all_pairs(sizes: range) -> int:
    """Check every proof of these sizes; return how many."""
    count = 0
    for size in sizes:
        for index in range(size):
            check_inclusion(LEAVES[index], index, size, make_inclusion_proof(index, size, READ), TREE_ROOTS[size])
        for old_size in range(size + 1):
            proof = make_consistency_proof(old_size, size, READ)
            check_consistency(old_size, size, TREE_ROOTS[old_size], TREE_ROOTS[size], proof)
        count += 2 * size + 1
    return count


def test_every_index_and_size_up_to_48_is_proved() -> None:
    assert check_all_pairs(range(1, 49)) == 2400


@pytest.mark.long
def test_every_index_and_size_up_to_256_is_proved() -> None:
    assert check_all_pairs(range(1, 257)) == 66_048


def forge(proof: tuple[Digest, ...], chance: random.Random) -> list[Digest]:
    """Another list of hashes than the proof."""
    hashes = list(proof)
    at = chance.randrange(len(hashes) + 1)
    if at < len(hashes) and chance.random() < 0.7:
        hashes[at : at + 1] = chance.choice([[], [OTHER], [hashes[at], hashes[at]]])
    else:
        hashes.insert(at, OTHER)
    return hashes


def test_no_forged_inclusion_is_accepted() -> None:
    chance = random.Random(17)
    for _ in range(2000):
        size = chance.randrange(1, 257)
        index = chance.randrange(size)
        proof, root = make_inclusion_proof(index, size, READ), TREE_ROOTS[size]

        with pytest.raises(BadMerkleProof):
            check_inclusion(LEAVES[index], index, size, forge(proof, chance), root)
        with pytest.raises(BadMerkleProof):
            check_inclusion(OTHER, index, size, proof, root)
        with pytest.raises(BadMerkleProof):
            check_inclusion(LEAVES[index], index, size, proof, OTHER)
        if size > 1:
            with pytest.raises(BadMerkleProof):
                check_inclusion(LEAVES[index], index ^ 1, size, proof, root)


def test_no_forged_consistency_is_accepted() -> None:
    chance = random.Random(18)
    for _ in range(2000):
        new_size = chance.randrange(1, 257)
        old_size = chance.randrange(1, new_size + 1)
        proof = make_consistency_proof(old_size, new_size, READ)
        old_root, new_root = TREE_ROOTS[old_size], TREE_ROOTS[new_size]

        with pytest.raises(BadMerkleProof):
            check_consistency(old_size, new_size, old_root, new_root, forge(proof, chance))
        with pytest.raises(BadMerkleProof):
            check_consistency(old_size, new_size, OTHER, new_root, proof)
        with pytest.raises(BadMerkleProof):
            check_consistency(old_size, new_size, old_root, OTHER, proof)


def test_an_empty_tree_grows_to_any_tree_without_hashes() -> None:
    check_consistency(0, 5, EMPTY_ROOT, TREE_ROOTS[5], ())

    with pytest.raises(BadMerkleProof, match="must be empty"):
        check_consistency(0, 5, EMPTY_ROOT, TREE_ROOTS[5], [OTHER])
    with pytest.raises(BadMerkleProof, match="different roots"):
        check_consistency(5, 5, TREE_ROOTS[5], OTHER, ())
    with pytest.raises(BadMerkleProof, match="cannot have grown"):
        check_consistency(6, 5, TREE_ROOTS[6], TREE_ROOTS[5], ())


def test_an_entry_that_does_not_exist_has_no_proof() -> None:
    with pytest.raises(Invalid, match="entry 5 is not in a log of 5 entries"):
        make_inclusion_proof(5, 5, READ)
    with pytest.raises(Invalid, match="did not grow from 6"):
        make_consistency_proof(6, 5, READ)
    with pytest.raises(BadMerkleProof, match="cannot be in a tree"):
        check_inclusion(LEAVES[0], 5, 5, (), OTHER)
