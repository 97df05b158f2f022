"""BPC-ITEM-PACK-1: what is kept of the batteries of one chunk, as bytes that are never changed.

    BPC-ITEM-PACK-1 newline
    header, canonical JSON: chunk, dictionary, lengths, run, tenant; newline
    dictionary, a zstd frame
    for each battery: the signature of its receipt, 64 bytes, and its BPC-ITEM-CONTENT-1 as a zstd frame

A pack needs nothing else to be read: with any zstd library, all artifacts of its batteries come out of it. Where each
battery begins is also in the database; a reader compares the hash of its receipt with the one there.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from zstandard import ZstdCompressor, ZstdDecompressor, ZstdError

from bpc.core.errors import Conflict, Refusal
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import Digest, from_hex, sha256, to_hex
from bpc.core.formats.ids import ItemChunkId, ItemRunId, TenantId, parse_uuid
from bpc.storage.passports.item_packing import MAX_UNPACKED_BYTES, ItemDictionary

MAGIC: Final = b"BPC-ITEM-PACK-1\n"
SIGNATURE_BYTES: Final = 64
MAX_HEADER_BYTES: Final = 1 << 16


class BadPack(Conflict):
    """The bytes are not a pack, or not the one that the database names."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the pack {reason}", fix="restore it from a backup")


class PackEntry(NamedTuple):
    """A battery in a pack: the signature of its receipt, and its packed content."""

    signature: bytes
    frame: bytes


class PackPlace(NamedTuple):
    """Where a battery is in a pack."""

    offset: int
    length: int


class PackHead(NamedTuple):
    """What a pack begins with: its dictionary, and where each battery is."""

    dictionary: ItemDictionary
    places: Sequence[PackPlace]


def build_pack(
    tenant: TenantId, run: ItemRunId, chunk: ItemChunkId, dictionary: ItemDictionary, entries: Sequence[PackEntry]
) -> tuple[bytes, list[PackPlace]]:
    """The bytes of a pack, and where each battery is in it."""
    dictionary_frame = ZstdCompressor(level=19).compress(dictionary.data)
    header = canonical_json.encode(
        {
            "chunk": str(chunk),
            "dictionary": {"bytes": len(dictionary_frame), "sha256": to_hex(dictionary.sha256)},
            "lengths": [SIGNATURE_BYTES + len(entry.frame) for entry in entries],
            "run": str(run),
            "tenant": str(tenant),
        }
    )
    pieces = [MAGIC, header, b"\n", dictionary_frame]
    offset = sum(len(piece) for piece in pieces)
    places = []
    for entry in entries:
        places.append(PackPlace(offset, SIGNATURE_BYTES + len(entry.frame)))
        pieces += entry
        offset += places[-1].length
    return b"".join(pieces), places


def read_pack_head(data: bytes) -> PackHead:
    """The head of a pack; `data` are its first bytes, at least up to the end of the dictionary."""
    head, newline, rest = data.removeprefix(MAGIC).partition(b"\n")
    if not data.startswith(MAGIC) or not newline:
        raise BadPack("does not begin as a pack does")
    return _open_head(head, bytes(rest[: _read_dictionary_size(head)]))


def split_entry(data: bytes) -> PackEntry:
    """A battery from its bytes in a pack."""
    return PackEntry(data[:SIGNATURE_BYTES], data[SIGNATURE_BYTES:])


def measure_head(data: bytes) -> int:
    """How many bytes the head of a pack has, by its first `MAX_HEADER_BYTES`."""
    head, newline, _ = data.removeprefix(MAGIC).partition(b"\n")
    if not data.startswith(MAGIC) or not newline:
        raise BadPack("does not begin as a pack does")
    return len(MAGIC) + len(head) + 1 + _read_dictionary_size(head)


def _read_dictionary_size(head: bytes) -> int:
    header: Any = canonical_json.decode(head)
    return int(header["dictionary"]["bytes"])


@lru_cache(maxsize=64)
def _open_head(head: bytes, dictionary_frame: bytes) -> PackHead:
    header: Any = canonical_json.decode(head)
    try:
        data = ZstdDecompressor().decompress(dictionary_frame, max_output_size=MAX_UNPACKED_BYTES)
    except ZstdError as error:
        raise BadPack(f"has a dictionary that cannot be read: {error}") from None
    if sha256(data) != from_hex(header["dictionary"]["sha256"]):
        raise BadPack("has another dictionary than its header names")
    offset, places = len(MAGIC) + len(head) + 1 + len(dictionary_frame), []
    for length in header["lengths"]:
        places.append(PackPlace(offset, length))
        offset += length
    return PackHead(ItemDictionary(data, sha256(data)), tuple(places))


class OldPack(NamedTuple):
    """A pack by its name, and whose its head says that it is."""

    digest: Digest
    tenant: TenantId
    chunk: ItemChunkId
    size: int


def read_owner(digest: Digest, data: bytes, size: int) -> OldPack | None:
    """What the first bytes of a pack say of it; None if it is no pack, which is for somebody to look at."""
    head, newline, _ = data.removeprefix(MAGIC).partition(b"\n")
    if not data.startswith(MAGIC) or not newline:
        return None
    try:
        header: Any = canonical_json.decode(head)
        tenant, chunk = TenantId(parse_uuid(header["tenant"])), ItemChunkId(parse_uuid(header["chunk"]))
        return OldPack(digest, tenant, chunk, size)
    except (Refusal, LookupError, TypeError, ValueError):
        return None
