"""Tiles, C2SP tlog-tiles: the tree and its entries as files that never change once they are full.

Pure. A tile holds up to 256 hashes of one level of the tree, an entry bundle the entries of a tile of level 0.

    tile/<level>/<index>[.p/<width>]        hashes, 32 bytes each
    tile/entries/<index>[.p/<width>]        entries, each after its length in two bytes

    old size, new entries, what was there ─► grow_tiles ─► every file that the larger tree needs
    size, read_tile ─► TileTree ─► a reader for bpc.core.tlog.merkle
"""

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from bpc.core.errors import Invalid
from bpc.core.formats.hashes import DIGEST_BYTES, Digest
from bpc.core.tlog.merkle import hash_children, hash_complete_tree, hash_leaf

TILE_HEIGHT: Final = 8
TILE_WIDTH: Final = 1 << TILE_HEIGHT
MAX_LEVEL: Final = 63
MAX_ENTRY_BYTES: Final = (1 << 16) - 1
ENTRY_BUNDLES: Final = "entries"
T = TypeVar("T")
_LENGTH: Final = struct.Struct(">H")
_PATH: Final = re.compile(
    r"tile/(?P<level>entries|0|[1-9][0-9]?)/(?P<index>(?:x[0-9]{3}/)*[0-9]{3})(?:\.p/(?P<width>[1-9][0-9]{0,2}))?"
)


class BadTile(Invalid):
    """The bytes are not the tile or entry bundle that they should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One file of the log: hashes of one level, or with level None the entries themselves. Its width is 1 to 256."""

    level: int | None
    index: int
    width: int = TILE_WIDTH

    def __post_init__(self) -> None:
        if not (self.level is None or 0 <= self.level <= MAX_LEVEL) or self.index < 0:
            raise BadTile("there is no tile of this level and index")
        if not 1 <= self.width <= TILE_WIDTH:
            raise BadTile(f"a tile has 1 to {TILE_WIDTH} entries, not {self.width}")

    @property
    def is_full(self) -> bool:
        return self.width == TILE_WIDTH

    @property
    def path(self) -> str:
        """Where the tile is below the address or folder of the log."""
        level = ENTRY_BUNDLES if self.level is None else str(self.level)
        partial = "" if self.is_full else f".p/{self.width}"
        return f"tile/{level}/{_format_index(self.index)}{partial}"


ReadTile: TypeAlias = Callable[[Tile], bytes]


def parse_tile_path(path: str) -> Tile:
    """The tile of a path; `BadTile` unless the path is written in its one form."""
    match = _PATH.fullmatch(path)
    if match is None:
        raise BadTile("this is not the path of a tile")
    level = None if match["level"] == ENTRY_BUNDLES else int(match["level"])
    tile = Tile(
        level=level,
        index=int(match["index"].replace("x", "").replace("/", "")),
        width=int(match["width"] or TILE_WIDTH),
    )
    if tile.path != path:
        raise BadTile("this is not the path of a tile")
    return tile


def _format_index(index: int) -> str:
    groups = [f"{index % 1000:03d}"]
    while index := index // 1000:
        groups.append(f"x{index % 1000:03d}")
    return "/".join(reversed(groups))


def find_tile(level: int | None, index: int, size: int) -> Tile:
    """The tile as it is in a tree of `size` leaves: full, or as wide as the tree reaches."""
    width = count_hashes(level or 0, size) - index * TILE_WIDTH
    if width < 1:
        raise BadTile(f"a tree of {size:,} entries has no tile {index:,} at this level")
    return Tile(level=level, index=index, width=min(width, TILE_WIDTH))


def count_hashes(level: int, size: int) -> int:
    """How many hashes a level of tiles has in a tree of `size` leaves."""
    return size >> (TILE_HEIGHT * level)


def list_tiles(size: int) -> Iterator[Tile]:
    """Every tile and entry bundle of a tree of `size` leaves: entries, then level by level."""
    for level in (None, *range(MAX_LEVEL + 1)):
        hashes = count_hashes(level or 0, size)
        if hashes == 0:
            return
        for index in range((hashes + TILE_WIDTH - 1) // TILE_WIDTH):
            yield find_tile(level, index, size)


def split_hashes(data: bytes, tile: Tile) -> list[Digest]:
    """The hashes of a tile, as many as it must have."""
    if len(data) != tile.width * DIGEST_BYTES:
        raise BadTile(f"`{tile.path}` has {len(data):,} bytes, not {tile.width * DIGEST_BYTES:,}")
    return [Digest(data[at : at + DIGEST_BYTES]) for at in range(0, len(data), DIGEST_BYTES)]


def write_entry_bundle(entries: Sequence[bytes]) -> bytes:
    for entry in entries:
        if len(entry) > MAX_ENTRY_BYTES:
            raise BadTile(f"an entry has {len(entry):,} bytes, and at most {MAX_ENTRY_BYTES:,} are allowed")
    return b"".join(_LENGTH.pack(len(entry)) + entry for entry in entries)


def read_entry_bundle(data: bytes, tile: Tile) -> list[bytes]:
    """The entries of a bundle, as many as it must have, with nothing behind them."""
    entries, offset = [], 0
    while offset < len(data):
        if len(data) < offset + _LENGTH.size:
            raise BadTile(f"`{tile.path}` ends inside an entry")
        (length,) = _LENGTH.unpack_from(data, offset)
        offset += _LENGTH.size
        if len(data) < offset + length:
            raise BadTile(f"`{tile.path}` ends inside an entry")
        entries.append(data[offset : offset + length])
        offset += length
    if len(entries) != tile.width:
        raise BadTile(f"`{tile.path}` has {len(entries):,} entries, not {tile.width}")
    return entries


def grow_tiles(old_size: int, entries: Sequence[bytes], read_tile: ReadTile) -> Iterator[tuple[Tile, bytes]]:
    """The files that the tree of `old_size` needs when `entries` are appended; `read_tile` reads those that it has.

    Entries come first and each level after the one below, so whoever stores them in this order never has a hash of
    something that is not stored.
    """
    size = old_size + len(entries)
    if not entries:
        return
    for index, old_width, new_items in _split_growth(old_size, entries):
        data = read_tile(find_tile(None, index, old_size)) if old_width else b""
        yield find_tile(None, index, size), data + write_entry_bundle(new_items)
    new_hashes: list[Digest] = [hash_leaf(entry) for entry in entries]
    level = 0
    while new_hashes:
        old_count, upper_hashes = count_hashes(level, old_size), list[Digest]()
        for index, old_width, new_items in _split_growth(old_count, new_hashes):
            data = (read_tile(find_tile(level, index, old_size)) if old_width else b"") + b"".join(new_items)
            tile = find_tile(level, index, size)
            if tile.is_full:
                upper_hashes.append(hash_complete_tree(split_hashes(data, tile)))
            yield tile, data
        new_hashes, level = upper_hashes, level + 1


def _split_growth(old_count: int, new_items: Sequence[T]) -> Iterator[tuple[int, int, Sequence[T]]]:
    """For each tile that grows: its index, how many it had, and what is added to it."""
    at = 0
    while at < len(new_items):
        index, old_width = divmod(old_count + at, TILE_WIDTH)
        part = new_items[at : at + TILE_WIDTH - old_width]
        yield index, old_width, part
        at += len(part)


class TileTree:
    """The tree of `size` leaves that tiles hold. Each tile is read once, and each hash computed once."""

    def __init__(self, size: int, read_tile: ReadTile) -> None:
        self.size = size
        self._read_tile = read_tile
        self._tiles: dict[tuple[int, int], list[Digest]] = {}
        self._subtrees: dict[tuple[int, int], Digest] = {}

    def read(self, height: int, index: int) -> Digest:
        """The hash of a complete subtree, for bpc.core.tlog.merkle."""
        level, inner_height = divmod(height, TILE_HEIGHT)
        if inner_height == 0:
            tile_index, position = divmod(index, TILE_WIDTH)
            return self._load_hashes(level, tile_index)[position]
        digest = self._subtrees.get((height, index))
        if digest is None:
            digest = hash_children(self.read(height - 1, 2 * index), self.read(height - 1, 2 * index + 1))
            self._subtrees[height, index] = digest
        return digest

    def _load_hashes(self, level: int, index: int) -> list[Digest]:
        hashes = self._tiles.get((level, index))
        if hashes is None:
            tile = find_tile(level, index, self.size)
            hashes = self._tiles[level, index] = split_hashes(self._read_tile(tile), tile)
        return hashes
