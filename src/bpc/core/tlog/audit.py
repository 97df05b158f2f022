"""Auditing a log: read all of it, compute all of it again, and name the first difference.

Pure. Nothing is trusted but the log's key and checkpoints that somebody kept.

    checkpoint, read_tile ─► audit_files ─► every entry, one by one; `LogFault` at the first difference
    older checkpoints ─► check_earlier ─► `LogFault` if the log did not grow from one of them
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from bpc.core.errors import Invalid
from bpc.core.formats.hashes import Digest
from bpc.core.tlog.checkpoints import LogCheckpoint
from bpc.core.tlog.entries import read_readable_entry
from bpc.core.tlog.merkle import hash_complete_tree, hash_leaf, hash_tree
from bpc.core.tlog.tiles import (
    TILE_WIDTH,
    ReadTile,
    Tile,
    TileTree,
    count_hashes,
    find_tile,
    read_entry_bundle,
    split_hashes,
)

T = TypeVar("T")


class LogFault(Invalid):
    """The first thing that is wrong with a log; `where` names the file, the entry or the size."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}", details={"where": where})
        self.where = where


def audit_files(checkpoint: LogCheckpoint, read_tile: ReadTile) -> Iterator[bytes]:
    """Every entry of the log, each after it was checked.

    Checks:
      1. each entry is sealed or readable, in its one form
      2. each hash of level 0 is that of its entry
      3. each hash of a level above is that of the full tile below
      4. the root of the checkpoint is that of the entries
    """
    hashes: list[Digest] = []  # of full tiles of the level below
    for index in range((checkpoint.size + TILE_WIDTH - 1) // TILE_WIDTH):
        bundle = find_tile(None, index, checkpoint.size)
        entries = _read(bundle.path, partial(_read_entries, bundle, read_tile))
        for number, entry in enumerate(entries):
            _read(f"entry {index * TILE_WIDTH + number:,}", partial(read_readable_entry, entry))  # 1
        leaves = [hash_leaf(entry) for entry in entries]
        _check_tile(0, index, checkpoint.size, leaves, read_tile)  # 2
        if len(leaves) == TILE_WIDTH:
            hashes.append(hash_complete_tree(leaves))
        yield from entries
    _check_upper_levels(checkpoint.size, hashes, read_tile)  # 3
    root = _read("the tree", lambda: hash_tree(checkpoint.size, TileTree(checkpoint.size, read_tile).read))
    if root != checkpoint.root:  # 4
        raise LogFault("checkpoint", f"its {checkpoint.size:,} entries do not have the root that it names")


def check_earlier(checkpoint: LogCheckpoint, earlier: LogCheckpoint, read_tile: ReadTile) -> None:
    """Raise `LogFault` unless the log that was audited begins with the tree of an earlier checkpoint."""
    where = f"the checkpoint of {earlier.size:,} entries"
    if earlier.origin != checkpoint.origin:
        raise LogFault(where, f"it is of the log `{earlier.origin[:80]}`")
    if earlier.size > checkpoint.size:
        raise LogFault(where, f"the log has only {checkpoint.size:,} entries: it was rolled back")
    root = _read(where, lambda: hash_tree(earlier.size, TileTree(checkpoint.size, read_tile).read))
    if root != earlier.root:
        raise LogFault(where, "the log does not begin with the tree of this checkpoint: its history was changed")


def _read_entries(bundle: Tile, read_tile: ReadTile) -> list[bytes]:
    return read_entry_bundle(read_tile(bundle), bundle)


def _check_upper_levels(size: int, hashes: list[Digest], read_tile: ReadTile) -> None:
    level = 1
    while count_hashes(level, size):
        upper: list[Digest] = []
        for index in range((len(hashes) + TILE_WIDTH - 1) // TILE_WIDTH):
            part = hashes[index * TILE_WIDTH : (index + 1) * TILE_WIDTH]
            _check_tile(level, index, size, part, read_tile)
            if len(part) == TILE_WIDTH:
                upper.append(hash_complete_tree(part))
        hashes, level = upper, level + 1


def _check_tile(level: int, index: int, size: int, expected: list[Digest], read_tile: ReadTile) -> None:
    tile = find_tile(level, index, size)
    hashes = _read(tile.path, lambda: split_hashes(read_tile(tile), tile))
    for number, (digest, expected_digest) in enumerate(zip(hashes, expected, strict=True)):
        if digest != expected_digest:
            what = (
                f"entry {index * TILE_WIDTH + number:,}"
                if level == 0
                else f"tile {index * TILE_WIDTH + number:,} below"
            )
            raise LogFault(tile.path, f"its hash {number} is not that of {what}")


def _read(where: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except Invalid as wrong:
        raise LogFault(where, wrong.says) from None
