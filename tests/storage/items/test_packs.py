"""Packs: created once, self-contained, compared at each read, backed up; and the models that batteries pin."""

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from bpc.core.audit.events import Act
from bpc.core.formats.hashes import Digest, sha256
from bpc.core.formats.ids import ItemChunkId, ItemRunId, TenantId
from bpc.core.items.content import restore_item
from bpc.runtime import clock
from bpc.storage.access.storage_quota import measure_use
from bpc.storage.audit import retention
from bpc.storage.backup import check_backup, take_backup
from bpc.storage.database import Database
from bpc.storage.items.pack_format import BadPack, PackEntry, PackPlace, build_pack, read_pack_head, split_entry
from bpc.storage.items.packs import PackFolder, PackMissing
from bpc.storage.passports.item_packing import build_dictionary, pack_item, unpack_item
from bpc.storage.restore import restore_packs
from bpc.tasks.sweep_packs import remove_unnamed_packs
from tests.core.items import sample_layers as sample
from tests.fixtures import TestServer
from tests.storage import rows
from tests.storage.battery_rows import build_item_pack, insert_battery_rows, insert_item_rows, name_items

ITEMS = [sample.get_compiler().compile(sample.make_item_row(number)) for number in range(5)]
SIGNATURES = [sample.SIGNER.sign(item.receipt_hash) for item in ITEMS]


def build_sample() -> tuple[bytes, list[PackPlace]]:
    dictionary = build_dictionary([ITEMS[0].content])
    entries = [
        PackEntry(signature, pack_item(item.content, dictionary))
        for item, signature in zip(ITEMS, SIGNATURES, strict=True)
    ]
    ids = TenantId(UUID(int=1)), ItemRunId(UUID(int=2)), ItemChunkId(UUID(int=3))
    return build_pack(*ids, dictionary, entries)


def test_a_pack_needs_nothing_else_to_be_read() -> None:
    pack, places = build_sample()

    head = read_pack_head(pack)

    assert list(head.places) == places
    for item, signature, place in zip(ITEMS, SIGNATURES, head.places, strict=True):
        entry = split_entry(pack[place.offset : place.offset + place.length])
        assert unpack_item(entry.frame, head.dictionary, entry.signature) == restore_item(item.content, signature)


def test_a_pack_is_created_once_and_every_battery_is_compared(tmp_path: Path) -> None:
    folder, (pack, places) = PackFolder(tmp_path), build_sample()

    digest = folder.write(pack)
    inode = folder.locate(digest).stat().st_ino

    assert folder.write(pack) == digest == sha256(pack)
    assert folder.locate(digest).stat().st_ino == inode
    assert [path.name for path in (tmp_path / "packs").rglob("*") if path.is_file()] == [f"{digest.hex()}.pack"]
    for item, signature, place in zip(ITEMS, SIGNATURES, places, strict=True):
        assert folder.read_item(digest, place, item.receipt_hash) == restore_item(item.content, signature)
    with pytest.raises(BadPack, match="holds another battery"):
        folder.read_item(digest, places[1], ITEMS[2].receipt_hash)
    with pytest.raises(BadPack, match="has no battery at"):
        folder.read_item(digest, PackPlace(places[1].offset + 1, 80), ITEMS[1].receipt_hash)
    with pytest.raises(PackMissing):
        folder.read_item(Digest(bytes(32)), places[1], ITEMS[1].receipt_hash)


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    folder, (pack, places) = PackFolder(tmp_path), build_sample()
    digest = folder.write(pack)
    path = folder.locate(digest)
    assert folder.check(digest) is None
    noticed = 0
    tries = range(0, len(pack), 37)

    for at in tries:
        path.write_bytes(pack[:at] + bytes([pack[at] ^ 1]) + pack[at + 1 :])
        assert folder.check(digest) is not None
        place, item = places[2], ITEMS[2]
        try:
            artifacts = folder.read_item(digest, place, item.receipt_hash)
        except Exception:  # noqa: BLE001 (whatever the reason)
            noticed += 1
        else:  # outside of this battery, or in its signature, which the verifier of the passport checks
            expected = restore_item(item.content, SIGNATURES[2])
            assert artifacts.payload == expected.payload
            assert artifacts.receipt_hash == expected.receipt_hash
    assert noticed > 0
    path.unlink()
    assert "is missing" in (folder.check(digest) or "")


def test_a_restore_brings_back_what_is_missing_and_changes_nothing_else(tmp_path: Path) -> None:
    pack, _ = build_sample()
    digest = PackFolder(tmp_path / "backup").write(pack)

    restore_packs(tmp_path / "backup", tmp_path / "data")
    restore_packs(tmp_path / "backup", tmp_path / "data")
    restore_packs(tmp_path / "nothing", tmp_path / "data")

    assert PackFolder(tmp_path / "data").check(digest) is None


async def test_an_ended_version_stays_as_long_as_a_battery_pins_it(
    database: Database, tenant: TenantId, act: Act
) -> None:
    await rows.insert_signing_keys(database)
    ended = act.at - timedelta(days=10)
    async with database.system(tenant) as conn:
        pinned, free = [
            await rows.insert_passport_version(
                conn,
                tenant,
                status="SUPERSEDED",
                qr_png=b"png",
                qr_payload="{}",
                activated_at=ended,
                superseded_at=ended,
            )
            for _ in range(2)
        ]
        battery = await insert_battery_rows(conn, tenant, act)
        ids = name_items(tenant, battery, *(clock.new_id() for _ in range(3)))
        await insert_item_rows(conn, ids, pinned, at=act.at)
        times = dict.fromkeys(("documents", "passports", "exports", "events"), act.at)

        count = (await retention.count_removable(conn, tenant, **times))["passport_versions"]
        removed = await retention.remove_versions(conn, tenant, before=act.at, limit=10)

        assert (count, removed.ids) == (1, [free])
        assert await conn.fetchval("SELECT passport_version_id FROM passport_versions") == pinned


async def test_a_backup_has_the_packs_and_a_restore_puts_them_back(
    server: TestServer, database: Database, tenant: TenantId, tmp_path: Path
) -> None:
    pack, _ = build_item_pack(name_items(tenant, *(clock.new_id() for _ in range(4))))
    digest = PackFolder(tmp_path / "data").write(pack)
    unfinished = tmp_path / "data" / "packs" / ".new-1"
    unfinished.write_bytes(b"half")
    source = server.admin.with_database(database.address.database)

    folder, _ = await take_backup(
        tmp_path / "backups", source, None, keys=None, build="test", at=clock.now(), packs=tmp_path / "data" / "packs"
    )

    contents = check_backup(folder)
    assert [path for path in contents.files if path.startswith("packs/")] == [
        f"packs/{digest.hex()[:2]}/{digest.hex()}.pack"
    ]
    restore_packs(folder, tmp_path / "restored")
    assert PackFolder(tmp_path / "restored").check(digest) is None


async def test_a_sweep_removes_what_no_chunk_names_and_nothing_else(
    database: Database, tenant: TenantId, act: Act, tmp_path: Path
) -> None:
    """Old packs are the one on record, one of a rolled-back transaction, and one of another database; and a new one."""
    folder = PackFolder(tmp_path)
    await rows.insert_signing_keys(database)
    async with database.system(tenant) as conn:
        model = await rows.insert_passport_version(conn, tenant, status="SIGNED")
        battery = await insert_battery_rows(conn, tenant, act)
        ids = name_items(tenant, battery, *(clock.new_id() for _ in range(3)))
        await insert_item_rows(conn, ids, model, at=act.at)
    elsewhere = name_items(tenant, *(clock.new_id() for _ in range(4)))
    named = folder.write(build_item_pack(ids)[0])
    lost = folder.write(build_item_pack(replace(ids, run=elsewhere.run))[0])
    unknown = folder.write(build_item_pack(elsewhere)[0])
    (folder.folder / "00").mkdir(exist_ok=True)
    half, note = folder.folder / "00" / ".new-1", folder.folder / "00" / "readme.txt"
    half.write_bytes(b"half")
    note.write_bytes(b"whose is this?")
    for path in folder.folder.glob("??/*"):
        os.utime(path, (0, 0))
    young = folder.write(build_item_pack(replace(ids, run=ItemRunId(clock.new_id())))[0])

    outcome = await remove_unnamed_packs(folder, database.tenant)
    again = await remove_unnamed_packs(folder, database.tenant)

    assert (outcome.looked_at, outcome.removed, again.removed) == (3, 1, 0)
    assert [folder.check(digest) is None for digest in (named, unknown, young)] == [True, True, True]
    assert "is missing" in (folder.check(lost) or "")
    assert (half.exists(), note.exists()) == (False, True)


async def test_packs_and_batches_count_for_what_a_tenant_stores(database: Database, tenant: TenantId, act: Act) -> None:
    await rows.insert_signing_keys(database)
    async with database.system(tenant) as conn:
        model = await rows.insert_passport_version(conn, tenant, status="SIGNED")
        before = await measure_use(conn, tenant)
        battery = await insert_battery_rows(conn, tenant, act)
        ids = name_items(tenant, battery, *(clock.new_id() for _ in range(3)))
        await insert_item_rows(conn, ids, model, at=act.at)
        after = await measure_use(conn, tenant)

    size = len(build_item_pack(ids)[0])
    assert (before.battery_passports, after.battery_passports > size) == (0, True)
    assert after.total - before.total == after.battery_passports
