"""Packs, BPC-ITEM-PACK-1: what is kept of the batteries of one chunk, in one file that is never changed.

    BPC-ITEM-PACK-1 newline
    header, canonical JSON: chunk, dictionary, lengths, run, tenant; newline
    dictionary, a zstd frame
    for each battery: the signature of its receipt, 64 bytes, and its BPC-ITEM-CONTENT-1 as a zstd frame

A pack needs nothing else to be read: with any zstd library, all artifacts of its batteries come out of it. Where each
battery begins is also in the database; a reader compares the hash of its receipt with the one there.

    <data folder>/packs/<two digits>/<sha256>.pack

A pack appears under its name only when it is whole and on disk. Writing one that is there already changes nothing: its
name says that it is the same. A pack of a transaction that was rolled back is named by nobody: a sweep removes it.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from zstandard import ZstdCompressor, ZstdDecompressor, ZstdError

from bpc.core.errors import Conflict, Refusal
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import Digest, from_hex, sha256, to_hex
from bpc.core.formats.ids import ItemChunkId, ItemRunId, TenantId, parse_uuid
from bpc.core.items.content import ItemArtifacts, read_content_facts
from bpc.runtime import clock
from bpc.storage.passports.item_packing import MAX_UNPACKED_BYTES, ItemDictionary, unpack_content, unpack_item

MAGIC: Final = b"BPC-ITEM-PACK-1\n"
SIGNATURE_BYTES: Final = 64
MAX_HEADER_BYTES: Final = 1 << 16
PACKS_FOLDER: Final = "packs"
UNFINISHED_PREFIX: Final = ".new-"


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


class PackMissing(Conflict):
    """A pack that the database names is not in the folder of packs."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"the pack `{path.name}` is not there", fix="restore the folder of packs from a backup", details={}
        )


class PackFolder:
    """The folder with the packs of an installation."""

    def __init__(self, data_dir: Path) -> None:
        self.folder = data_dir / PACKS_FOLDER

    def locate(self, digest: Digest) -> Path:
        name = digest.hex()
        return self.folder / name[:2] / f"{name}.pack"

    def write(self, pack: bytes) -> Digest:
        """Keep a pack; return the hash of its bytes, which is its name."""
        digest = sha256(pack)
        path = self.locate(digest)
        if path.exists():
            return digest
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f"{UNFINISHED_PREFIX}{clock.new_id()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(pack)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another process was quicker, with the same bytes
                os.link(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(path.parent)
        return digest

    def read_item(self, digest: Digest, place: PackPlace, receipt_hash: Digest) -> ItemArtifacts:
        """All artifacts of a battery. Raises `BadPack` unless its receipt has this hash, which covers all of them."""
        path = self.locate(digest)
        try:
            with path.open("rb") as file:
                head = _read_head(file.fileno())
                data = os.pread(file.fileno(), place.length, place.offset)
        except FileNotFoundError:
            raise PackMissing(path) from None
        if place not in head.places or len(data) != place.length:
            raise BadPack(f"`{path.name}` has no battery at {place.offset}")
        entry = split_entry(data)
        try:
            artifacts = unpack_item(entry.frame, head.dictionary, entry.signature)
        except (Refusal, LookupError, TypeError, ValueError) as wrong:  # whatever somebody wrote there
            raise BadPack(f"`{path.name}` has no battery at {place.offset}: {wrong}") from None
        if artifacts.receipt_hash != receipt_hash:
            raise BadPack(f"`{path.name}` holds another battery at {place.offset} than the one on record")
        return artifacts

    def list_old(self, before: datetime) -> list[OldPack]:
        """The packs that were written before a time. What a killed process left half written is removed."""
        old_packs = []
        for path in sorted(self.folder.glob("??/*")):
            status = path.stat()
            if status.st_mtime >= before.timestamp():
                continue
            if path.name.startswith(UNFINISHED_PREFIX):
                path.unlink(missing_ok=True)
            elif (pack := _read_old_pack(path, status.st_size)) is not None:
                old_packs.append(pack)
        return old_packs

    def remove(self, digest: Digest) -> None:
        """Remove a pack that nobody names."""
        self.locate(digest).unlink(missing_ok=True)

    def read_facts(self, digest: Digest, places: Sequence[PackPlace]) -> list[list[SnapshotFact]]:
        """The facts of some batteries of a pack, whose bytes are compared with its name as a whole."""
        path = self.locate(digest)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise PackMissing(path) from None
        if sha256(data) != digest:
            raise BadPack(f"`{path.name}` was changed")
        head = read_pack_head(data)
        frames = [split_entry(data[place.offset : place.offset + place.length]).frame for place in places]
        return [read_content_facts(unpack_content(frame, head.dictionary)) for frame in frames]

    def check(self, digest: Digest) -> str | None:
        """What is wrong with a pack as a whole: it is missing, or its bytes have another hash."""
        path = self.locate(digest)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return f"its pack `{path.name}` is missing"
        return None if sha256(data) == digest else f"its pack `{path.name}` was changed"


def _read_old_pack(path: Path, size: int) -> OldPack | None:
    """What a pack says of itself; None if it is no pack, which is for somebody to look at."""
    with path.open("rb") as file:
        data = file.read(MAX_HEADER_BYTES)
    head, newline, _ = data.removeprefix(MAGIC).partition(b"\n")
    if not data.startswith(MAGIC) or not newline or path.suffix != ".pack":
        return None
    try:
        header: Any = canonical_json.decode(head)
        tenant, chunk = TenantId(parse_uuid(header["tenant"])), ItemChunkId(parse_uuid(header["chunk"]))
        return OldPack(from_hex(path.stem), tenant, chunk, size)
    except (Refusal, LookupError, TypeError, ValueError):
        return None


def _read_head(descriptor: int) -> PackHead:
    data = os.pread(descriptor, MAX_HEADER_BYTES, 0)
    size = measure_head(data)
    if size > len(data):
        data += os.pread(descriptor, size - len(data), len(data))
    return read_pack_head(data)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
