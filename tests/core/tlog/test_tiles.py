"""Tiles: the files of C2SP tlog-tiles, however the log grew; and everything else is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.tlog.merkle import hash_leaf, hash_tree, read_leaves
from bpc.core.tlog.tiles import (
    BadTile,
    Tile,
    list_tiles,
    parse_tile_path,
    read_entry_bundle,
    split_hashes,
    write_entry_bundle,
)
from tests.core.tlog.sample_log import SampleLog, make_log


@pytest.mark.parametrize(
    ("tile", "path"),
    [
        (Tile(level=0, index=0), "tile/0/000"),
        (Tile(level=1, index=1234067), "tile/1/x001/x234/067"),
        (Tile(level=None, index=999, width=7), "tile/entries/999.p/7"),
        (Tile(level=63, index=1000, width=255), "tile/63/x001/000.p/255"),
    ],
)
def test_a_tile_has_the_path_of_the_standard(tile: Tile, path: str) -> None:
    assert tile.path == path
    assert parse_tile_path(path) == tile


@pytest.mark.parametrize(
    "path",
    [
        *("tile/64/000", "tile/00/000", "tile/0/0", "tile/0/x000/001", "tile/0/001/002", "tile/0/000.p/0"),
        *("tile/0/000.p/256", "tile/0/000.p/01", "tile/0/000.p", "tile/data/000", "tile/0/000/", "/tile/0/000"),
        *("tile/0/../000", "tile/0/000\n", "tile/0/٠٠٠", "checkpoint", ""),
    ],
)
def test_a_path_in_any_other_form_is_refused(path: str) -> None:
    with pytest.raises(BadTile):
        parse_tile_path(path)


def test_a_tree_of_70000_has_the_tiles_that_the_standard_counts() -> None:
    tiles = list(list_tiles(70_000))

    assert sum(tile.is_full for tile in tiles if tile.level == 0) == 273
    partial = [(tile.level, tile.index, tile.width) for tile in tiles if not tile.is_full]
    assert partial == [(None, 273, 112), (0, 273, 112), (1, 1, 17), (2, 0, 1)]
    assert [tile.path for tile in list_tiles(256)] == ["tile/entries/000", "tile/0/000", "tile/1/000.p/1"]
    assert list(list_tiles(0)) == []


@given(st.lists(st.integers(0, 400), max_size=6))
def test_the_files_depend_on_the_entries_and_not_on_the_steps(steps: list[int]) -> None:
    log = SampleLog()
    for step in steps:
        log.append([b"entry %d" % number for number in range(len(log.entries), len(log.entries) + step)])

    size = sum(steps)
    leaves = [hash_leaf(entry) for entry in log.entries]
    assert hash_tree(size, log.tree.read) == hash_tree(size, read_leaves(leaves))
    whole = make_log(size)
    assert {tile.path: log.files[tile.path] for tile in list_tiles(size)} == whole.files


def test_entries_come_back_from_their_bundle() -> None:
    entries, tile = [b"", b"a" * 65_535, b"b"], Tile(level=None, index=0, width=3)

    assert read_entry_bundle(write_entry_bundle(entries), tile) == entries
    with pytest.raises(BadTile, match="at most 65,535"):
        write_entry_bundle([b"a" * 65_536])


@pytest.mark.parametrize("data", [b"\x00", b"\x00\x02a", b"\x00\x01a\x00", b"\x00\x01a\x00\x00"])
def test_a_bundle_with_a_loose_end_or_another_count_is_refused(data: bytes) -> None:
    with pytest.raises(BadTile):
        read_entry_bundle(data, Tile(level=None, index=0, width=1))


def test_a_tile_of_another_length_is_refused() -> None:
    with pytest.raises(BadTile, match="31 bytes, not 32"):
        split_hashes(b"a" * 31, Tile(level=0, index=0, width=1))
    with pytest.raises(BadTile):
        Tile(level=0, index=-1)
    with pytest.raises(BadTile):
        Tile(level=0, index=0, width=257)
