"""The tree over a chunk: one root for its rows, whose paths do not tell how many there are."""

from bpc.core.formats.hashes import Digest, sha256
from bpc.core.formats.ids import BatteryId, ItemChunkId, PassportVersionId
from bpc.core.items.chunk_tree import (
    CHUNK_SIZE,
    choose_places,
    compute_chunk_root,
    derive_tree_seed,
    fill_tree,
    hash_item_leaf,
    make_item_path,
    split_leaf_hashes,
)
from bpc.core.tlog.merkle import check_inclusion
from tests.core.items.sample_layers import make_id

SEED = derive_tree_seed(bytes(32), ItemChunkId(make_id(1)))


def make_leaves(count: int) -> list[Digest]:
    return [
        hash_item_leaf(
            BatteryId(make_id(number)), PassportVersionId(make_id(5000 + number)), sha256(b"%d" % number), "ISSUED"
        )
        for number in range(count)
    ]


def test_every_row_has_a_path_of_the_same_length_to_the_root() -> None:
    for count in (1, 3, CHUNK_SIZE):
        leaves = make_leaves(count)
        root = compute_chunk_root(leaves, SEED)
        for number in {0, count // 2, count - 1}:
            place, path = make_item_path(leaves, SEED, number)
            assert len(path) == 10
            check_inclusion(leaves[number], place, CHUNK_SIZE, path, root)


def test_another_row_order_seed_or_number_of_rows_is_another_root() -> None:
    leaves = make_leaves(3)
    other_seed = derive_tree_seed(bytes(32), ItemChunkId(make_id(2)))
    roots = {
        compute_chunk_root(rows, seed)
        for rows, seed in (
            (leaves, SEED),
            (leaves[:2], SEED),
            ([*leaves[1:], leaves[0]], SEED),
            (make_leaves(4), SEED),
            (leaves, other_seed),
        )
    }

    assert len(roots) == 5


def test_rows_are_spread_and_all_places_are_filled_with_different_hashes() -> None:
    tree = fill_tree(make_leaves(3), SEED)

    assert sorted(choose_places(SEED)) == list(range(CHUNK_SIZE))
    assert choose_places(SEED)[:3] != [0, 1, 2]
    assert len(set(tree)) == CHUNK_SIZE
    assert split_leaf_hashes(b"".join(tree)) == tree
