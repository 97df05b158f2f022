"""Buckets: packs of batteries are the same in a bucket as in a folder.

The bucket is that of moto's server, which speaks the S3 protocol: `make engines` installs it and runs this test.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID

import pytest

from bpc.core.formats.hashes import Digest, sha256
from bpc.core.formats.ids import ItemChunkId, ItemRunId, TenantId
from bpc.core.items.content import restore_item
from bpc.runtime import clock
from bpc.runtime.object_store import Bucket, BucketUnavailable
from bpc.storage.items.pack_bucket import PackBucket
from bpc.storage.items.pack_format import BadPack, PackEntry, PackPlace, build_pack
from bpc.storage.items.packs import PackMissing, name_pack
from bpc.storage.passports.item_packing import build_dictionary, pack_item
from tests.core.items import sample_layers as sample
from tests.engines.s3_server import BUCKET, start_s3_server

ITEMS = [sample.get_compiler().compile(sample.make_item_row(number)) for number in range(5)]
TENANT, RUN, CHUNK = TenantId(UUID(int=1)), ItemRunId(UUID(int=2)), ItemChunkId(UUID(int=3))


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with start_s3_server():
        yield Bucket(f"s3://{BUCKET}/packs", setting="BPC_PACK_STORE")


def build_sample(chunk: ItemChunkId = CHUNK) -> tuple[bytes, list[PackPlace]]:
    dictionary = build_dictionary([ITEMS[0].content])
    entries = [PackEntry(sample.SIGNER.sign(item.receipt_hash), pack_item(item.content, dictionary)) for item in ITEMS]
    return build_pack(TENANT, RUN, chunk, dictionary, entries)


def test_a_battery_is_read_from_a_bucket_and_compared(bucket: Bucket) -> None:
    (pack, places), packs = build_sample(), PackBucket(bucket)

    digest = packs.write(pack)

    assert digest == sha256(pack)
    assert packs.check(digest) is None
    for item, place in zip(ITEMS, places, strict=True):
        artifacts = packs.read_item(digest, place, item.receipt_hash)
        assert artifacts == restore_item(item.content, sample.SIGNER.sign(item.receipt_hash))
    with pytest.raises(BadPack, match="holds another battery"):
        packs.read_item(digest, places[1], ITEMS[2].receipt_hash)
    with pytest.raises(PackMissing):
        packs.read_item(Digest(bytes(32)), places[1], ITEMS[1].receipt_hash)
    facts = packs.read_facts(digest, places)
    bucket.put(name_pack(digest), pack[:-1] + b"\0")
    assert "was changed" in (packs.check(digest) or "")
    with pytest.raises(BadPack, match="was changed"):
        packs.read_facts(digest, places)
    assert len(facts) == len(ITEMS)


def test_workers_that_write_the_same_pack_at_once_leave_one(bucket: Bucket) -> None:
    pack, _ = build_sample(ItemChunkId(UUID(int=4)))

    with ThreadPoolExecutor(8) as threads:
        digests = set(threads.map(lambda _: PackBucket(bucket).write(pack), range(8)))

    assert digests == {sha256(pack)}
    assert bucket.put_new(name_pack(sha256(pack)), b"something else") is False
    assert PackBucket(bucket).check(sha256(pack)) is None


def test_the_sweep_sees_whose_each_pack_is_and_removes_the_one_it_names(bucket: Bucket) -> None:
    pack, _ = build_sample(ItemChunkId(UUID(int=5)))
    packs = PackBucket(bucket)
    digest = packs.write(pack)
    bucket.put("notes.txt", b"of somebody")

    in_an_hour = clock.now() + timedelta(hours=1)
    old_packs = {old.digest: old for old in packs.list_old(in_an_hour)}
    assert (old_packs[digest].tenant, old_packs[digest].chunk) == (TENANT, UUID(int=5))
    assert packs.list_old(in_an_hour - timedelta(days=1)) == []

    packs.remove(digest)
    packs.remove(digest)

    assert "is missing" in (packs.check(digest) or "")


def test_a_bucket_that_refuses_is_named_as_the_reason(bucket: Bucket) -> None:
    assert bucket.list_objects()
    with pytest.raises(BucketUnavailable, match="the bucket cannot be used"):
        PackBucket(Bucket("s3://no-such-bucket", setting="BPC_PACK_STORE")).write(b"x")
