"""Where packs are kept, each under the hash of its bytes: written once, never changed, read by parts.

    write ─► <two digits>/<sha256>.pack      in `packs` below the data folder, or in a bucket (pack_bucket)
    read_item ◄─ head, and the bytes of one battery

A pack appears under its name only when it is whole. Writing one that is there already changes nothing: its name says
that it is the same. A pack of a transaction that was rolled back is named by nobody: a sweep removes it.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from bpc.core.errors import Conflict, Refusal
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats.hashes import Digest, from_hex, sha256
from bpc.core.items.content import ItemArtifacts, read_content_facts
from bpc.runtime import clock
from bpc.storage.items.pack_format import (
    MAX_HEADER_BYTES,
    BadPack,
    OldPack,
    PackHead,
    PackPlace,
    measure_head,
    read_owner,
    read_pack_head,
    split_entry,
)
from bpc.storage.passports.item_packing import unpack_content, unpack_item

PACKS_FOLDER: Final = "packs"
UNFINISHED_PREFIX: Final = ".new-"


class PackMissing(Conflict):
    """A pack that the database names is not where packs are kept."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the pack `{name}` is not there", fix="restore the packs from a backup", details={})


def name_pack(digest: Digest) -> str:
    """The path of a pack, below the place of all packs."""
    name = digest.hex()
    return f"{name[:2]}/{name}.pack"


class PackStore(ABC):
    """The packs of an installation. A subclass reads and writes bytes; this class checks what they are."""

    @abstractmethod
    def write(self, pack: bytes) -> Digest:
        """Keep a pack; return the hash of its bytes, which is its name."""

    @abstractmethod
    def read(self, digest: Digest) -> bytes:
        """All bytes of a pack. Raises `PackMissing`."""

    @abstractmethod
    def read_part(self, digest: Digest, start: int, length: int) -> bytes:
        """Some bytes of a pack, fewer if it ends before. Raises `PackMissing`."""

    @abstractmethod
    def list_old(self, before: datetime) -> list[OldPack]:
        """The packs that were written before a time. What a killed process left half written is removed."""

    @abstractmethod
    def remove(self, digest: Digest) -> None:
        """Remove a pack that nobody names."""

    def read_item(self, digest: Digest, place: PackPlace, receipt_hash: Digest) -> ItemArtifacts:
        """All artifacts of a battery. Raises `BadPack` unless its receipt has this hash, which covers all of them."""
        head, name = self.read_head(digest), name_pack(digest)
        data = self.read_part(digest, place.offset, place.length) if place in head.places else b""
        if len(data) != place.length:
            raise BadPack(f"`{name}` has no battery at {place.offset}")
        entry = split_entry(data)
        try:
            artifacts = unpack_item(entry.frame, head.dictionary, entry.signature)
        except (Refusal, LookupError, TypeError, ValueError) as wrong:  # whatever somebody wrote there
            raise BadPack(f"`{name}` has no battery at {place.offset}: {wrong}") from None
        if artifacts.receipt_hash != receipt_hash:
            raise BadPack(f"`{name}` holds another battery at {place.offset} than the one on record")
        return artifacts

    def read_head(self, digest: Digest) -> PackHead:
        """What a pack begins with."""
        data = self.read_part(digest, 0, MAX_HEADER_BYTES)
        size = measure_head(data)
        if size > len(data):
            data += self.read_part(digest, len(data), size - len(data))
        return read_pack_head(data)

    def read_facts(self, digest: Digest, places: Sequence[PackPlace]) -> list[list[SnapshotFact]]:
        """The facts of some batteries of a pack, whose bytes are compared with its name as a whole."""
        data = self.read(digest)
        if sha256(data) != digest:
            raise BadPack(f"`{name_pack(digest)}` was changed")
        head = read_pack_head(data)
        frames = [split_entry(data[place.offset : place.offset + place.length]).frame for place in places]
        return [read_content_facts(unpack_content(frame, head.dictionary)) for frame in frames]

    def check(self, digest: Digest) -> str | None:
        """What is wrong with a pack as a whole: it is missing, or its bytes have another hash."""
        try:
            data = self.read(digest)
        except PackMissing:
            return f"its pack `{name_pack(digest)}` is missing"
        return None if sha256(data) == digest else f"its pack `{name_pack(digest)}` was changed"


class PackFolder(PackStore):
    """Packs in a folder that API and workers see."""

    def __init__(self, data_dir: Path) -> None:
        self.folder = data_dir / PACKS_FOLDER

    def locate(self, digest: Digest) -> Path:
        return self.folder / name_pack(digest)

    def write(self, pack: bytes) -> Digest:
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

    def read(self, digest: Digest) -> bytes:
        try:
            return self.locate(digest).read_bytes()
        except FileNotFoundError:
            raise PackMissing(name_pack(digest)) from None

    def read_part(self, digest: Digest, start: int, length: int) -> bytes:
        try:
            with self.locate(digest).open("rb", buffering=0) as file:
                return os.pread(file.fileno(), length, start)
        except FileNotFoundError:
            raise PackMissing(name_pack(digest)) from None

    def list_old(self, before: datetime) -> list[OldPack]:
        old_packs = []
        for path in sorted(self.folder.glob("??/*")):
            status = path.stat()
            if status.st_mtime >= before.timestamp():
                continue
            if path.name.startswith(UNFINISHED_PREFIX):
                path.unlink(missing_ok=True)
            elif path.suffix == ".pack" and (pack := _read_owner(path, status.st_size)) is not None:
                old_packs.append(pack)
        return old_packs

    def remove(self, digest: Digest) -> None:
        self.locate(digest).unlink(missing_ok=True)


def _read_owner(path: Path, size: int) -> OldPack | None:
    with path.open("rb") as file:
        data = file.read(MAX_HEADER_BYTES)
    try:
        return read_owner(from_hex(path.stem), data, size)
    except Refusal:  # not named as packs are
        return None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
