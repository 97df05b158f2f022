"""What is kept of one battery, packed: BPC-ITEM-CONTENT-1 in a zstd frame, with a dictionary.

Batteries of one model differ in a few values. The dictionary is the content of one of them, as it is, so a packed
battery is little more than those values. Whoever has the dictionary, which is kept once for each model version, and any
zstd library can unpack it. No rule is evaluated.

    contents ── build_dictionary ──► ItemDictionary
    content ── pack_item ──► bytes ── unpack_item ──► ItemArtifacts
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from zstandard import DICT_TYPE_RAWCONTENT, ZstdCompressionDict, ZstdCompressor, ZstdDecompressor, ZstdError

from bpc.core.formats.hashes import Digest, sha256
from bpc.core.items.content import BadContent, ItemArtifacts, restore_item

MAX_UNPACKED_BYTES: Final = 1 << 20
_LEVEL: Final = 3


class ItemDictionary(NamedTuple):
    """The bytes that packed batteries refer to, and their hash, which is the dictionary's name."""

    data: bytes
    sha256: Digest


def build_dictionary(contents: Sequence[bytes]) -> ItemDictionary:
    """The dictionary for batteries like these; one content is enough if all have the same fields."""
    data = b"".join(contents)
    return ItemDictionary(data, sha256(data))


def pack_item(content: bytes, dictionary: ItemDictionary) -> bytes:
    """The content in one zstd frame. The same library gives the same bytes; any other gives some that unpack alike."""
    return _open_compressor(dictionary.data).compress(content)


def unpack_content(packed_content: bytes, dictionary: ItemDictionary) -> bytes:
    """The content that was packed; `BadContent` if these bytes are not a frame made with this dictionary."""
    try:
        return _open_decompressor(dictionary.data).decompress(packed_content, max_output_size=MAX_UNPACKED_BYTES)
    except ZstdError as error:
        raise BadContent(f"cannot be unpacked with the dictionary {dictionary.sha256.hex()[:16]}…: {error}") from None


def unpack_item(packed_content: bytes, dictionary: ItemDictionary, signature: bytes | None = None) -> ItemArtifacts:
    """All artifacts of a packed battery, the receipt with its signature if there is one.

    Compare `receipt_hash` with the hash on record: it covers every artifact.
    """
    return restore_item(unpack_content(packed_content, dictionary), signature)


@lru_cache(maxsize=32)
def _open_compressor(data: bytes) -> ZstdCompressor:
    dictionary = ZstdCompressionDict(data, dict_type=DICT_TYPE_RAWCONTENT)
    dictionary.precompute_compress(level=_LEVEL)
    # Sizes, checksums and ids would be said again for each of millions; the receipt's hash says more than a checksum.
    return ZstdCompressor(
        level=_LEVEL, dict_data=dictionary, write_content_size=True, write_checksum=False, write_dict_id=False
    )


@lru_cache(maxsize=32)
def _open_decompressor(data: bytes) -> ZstdDecompressor:
    return ZstdDecompressor(dict_data=ZstdCompressionDict(data, dict_type=DICT_TYPE_RAWCONTENT))
