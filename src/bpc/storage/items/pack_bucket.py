"""Packs in a bucket, for API and workers that share no folder; and which of the two an installation has.

    PackLocation ── open_packs ─┬─► PackBucket, if there is an address of a bucket
                                └─► PackFolder, below the data folder

A pack is written only if there is none of its name, so two workers with the same bytes do not disturb each other.
"""

from collections import OrderedDict
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from bpc.core.errors import Refusal
from bpc.core.formats.hashes import Digest, from_hex, sha256
from bpc.runtime.object_store import PACKS_SETTING, Bucket, StoredObject
from bpc.runtime.settings import Settings
from bpc.storage.items.pack_format import MAX_HEADER_BYTES, OldPack, PackHead, read_owner
from bpc.storage.items.packs import PackFolder, PackMissing, PackStore, name_pack

HEADS_KEPT: Final = 64  # in memory, of some kilobytes each: readers ask for batteries of the same chunks


class PackLocation(NamedTuple):
    """Where packs are: in a bucket, or below the data folder."""

    data_dir: Path
    bucket_url: str | None = None


def locate_packs(settings: Settings) -> PackLocation:
    """Where this installation keeps its packs."""
    return PackLocation(settings.data_dir, settings.pack_store)


@lru_cache(maxsize=8)
def open_packs(location: PackLocation) -> PackStore:
    """The packs of a place; those of a bucket are opened once in a process."""
    if location.bucket_url is None:
        return PackFolder(location.data_dir)
    return PackBucket(Bucket(location.bucket_url, setting=PACKS_SETTING))


class PackBucket(PackStore):
    """Packs as objects of a bucket."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._heads: OrderedDict[Digest, PackHead] = OrderedDict()

    def write(self, pack: bytes) -> Digest:
        digest = sha256(pack)
        self._bucket.put_new(name_pack(digest), pack)
        return digest

    def read(self, digest: Digest) -> bytes:
        try:
            return self._bucket.get(name_pack(digest))
        except FileNotFoundError:
            raise PackMissing(name_pack(digest)) from None

    def read_part(self, digest: Digest, start: int, length: int) -> bytes:
        try:
            return self._bucket.get_part(name_pack(digest), start, length)
        except FileNotFoundError:
            raise PackMissing(name_pack(digest)) from None

    def read_head(self, digest: Digest) -> PackHead:
        head = self._heads.get(digest)
        if head is None:
            head = self._heads[digest] = super().read_head(digest)
            if len(self._heads) > HEADS_KEPT:
                self._heads.popitem(last=False)
        return head

    def list_old(self, before: datetime) -> list[OldPack]:
        old_packs = (self._read_owner(entry) for entry in self._bucket.list_objects() if entry.written_at < before)
        return [pack for pack in old_packs if pack is not None]

    def remove(self, digest: Digest) -> None:
        self._bucket.delete(name_pack(digest))

    def _read_owner(self, entry: StoredObject) -> OldPack | None:
        try:
            digest = from_hex(Path(entry.path).stem)
        except Refusal:  # not named as packs are
            return None
        return read_owner(digest, self.read_part(digest, 0, MAX_HEADER_BYTES), entry.size)
