"""Helpers of the tests of the log: events that the log shows, a sequencer, and a check of a folder."""

from pathlib import Path

from bpc.core.audit.events import Act, EventStream
from bpc.core.audit.signing import Seed
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import AggregateId, PassportVersionId, TenantId
from bpc.core.tlog.checkpoints import open_checkpoint, read_checkpoint_text
from bpc.core.tlog.merkle import hash_leaf, hash_tree, read_leaves
from bpc.core.tlog.notes import NoteSigner, parse_note
from bpc.core.tlog.tiles import list_tiles, read_entry_bundle, split_hashes
from bpc.runtime import clock
from bpc.runtime.object_store import Bucket
from bpc.storage.audit import events
from bpc.storage.database import Database
from bpc.storage.tlog.log_files import LogFolder
from bpc.storage.tlog.sequencer import Sequencer

SIGNER = NoteSigner("log.example/passports", Seed(b"\x07" * 32))


def make_sequencer(database: Database, folder: Path, *, signer: NoteSigner = SIGNER) -> Sequencer:
    folder.mkdir(parents=True, exist_ok=True)
    return Sequencer(database, LogFolder(folder), signer, now=clock.now)


async def append_signed_events(database: Database, tenant: TenantId, act: Act, count: int) -> list[PassportVersionId]:
    """Record that as many passport versions were signed."""
    versions = [PassportVersionId(clock.new_id()) for _ in range(count)]
    async with database.tenant(tenant) as conn:
        for version in versions:
            payload = {"receipt_hash": to_hex(sha256(version.bytes)), "signing_key_id": "key-1"}
            stream = EventStream(tenant, "PassportVersion", AggregateId(version))
            await events.append(conn, stream, act.new_event("PASSPORT_SIGNED", payload))
    return versions


def copy_bucket(bucket: Bucket, folder: Path) -> None:
    """Write every object of a bucket as a file."""
    for entry in bucket.list_objects():
        target = folder / entry.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(bucket.get(entry.path))


def check_folder(folder: Path) -> list[bytes]:
    """Check every file of a log against its checkpoint; return the entries."""
    checkpoint = open_checkpoint((folder / "checkpoint").read_bytes(), SIGNER.verifier).checkpoint
    entries = check_entries(folder)
    assert hash_tree(checkpoint.size, read_leaves([hash_leaf(entry) for entry in entries])) == checkpoint.root
    return entries


def check_entries(folder: Path) -> list[bytes]:
    """Check every tile of level 0 against its entries; return these."""
    checkpoint = read_checkpoint_text(parse_note((folder / "checkpoint").read_bytes()).text)
    entries, leaves = list[bytes](), list[bytes]()
    for tile in list_tiles(checkpoint.size):
        data = (folder / tile.path).read_bytes()
        if tile.level is None:
            entries += read_entry_bundle(data, tile)
        elif tile.level == 0:
            leaves += split_hashes(data, tile)
    assert [hash_leaf(entry) for entry in entries] == leaves
    return entries
