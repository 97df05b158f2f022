"""The sequencer: gives what waits its place in the log, makes the files, signs, and asks witnesses.

One step after the other, each of which may be repeated:

    1. reconcile     a database that was restored learns from the files what it has forgotten; the files win
    2. give places   rows of the outbox become entries, in one transaction: from here on the order is fixed
    3. write files   tiles follow from the entries alone; whoever repeats this writes the same bytes
    4. sign          the root of a size is stored before it is published, and a size has one root for ever
    5. witnesses     cosignatures are added; with the first quorum, passport versions get their proofs

A fault anywhere leaves at worst files that the next run writes again. Two processes cannot fork the log: places are
given under a lock of the database, files are only created, and both follow from the same rows.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol, TypeAlias

from bpc.core.errors import Conflict
from bpc.core.tlog.checkpoints import LogCheckpoint, OpenedCheckpoint, open_checkpoint
from bpc.core.tlog.entries import LOG_RESTORED, make_entry
from bpc.core.tlog.merkle import hash_leaf, hash_tree, make_inclusion_proof, read_leaves
from bpc.core.tlog.notes import NoteSignature, NoteSigner, SignedNote, VerifierKey, parse_note
from bpc.core.tlog.policy import LogPolicy
from bpc.core.tlog.proofs import find_witnesses
from bpc.core.tlog.tiles import TILE_WIDTH, Tile, TileTree, find_tile, grow_tiles, read_entry_bundle
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from bpc.storage.tlog import log_rows
from bpc.storage.tlog.log_files import LogForked, LogStore
from bpc.storage.tlog.log_rows import EntryProof, StoredCheckpoint

BATCH: Final = 10_000  # rows that get their places in one transaction
FILE_BATCH: Final = 1 << 16  # entries whose files are written in one go

# A checkpoint and its tree; cosignatures of witnesses, which may be none.
AskWitnesses: TypeAlias = Callable[[SignedNote, TileTree], Awaitable[Sequence[NoteSignature]]]


class RemoteNoteSigner(Protocol):
    """The key of the log in another process, which signs no second tree of a size."""

    verifier: VerifierKey

    async def sign_note(self, text: str) -> SignedNote:
        """The note with the log's signature."""


class LogKeyDiffers(Conflict):
    """The log of this database was begun with another key or under another name."""

    def __init__(self, known: str, configured: str) -> None:
        super().__init__(
            f"the log of this database is `{known}`, and the settings name `{configured}`",
            fix="configure the name and the private key of the log that it was begun with",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SequencerReport:
    """How large the log is, how many entries this run added, and whether the newest checkpoint has its quorum."""

    size: int
    added: int
    has_quorum: bool


class Sequencer:
    """Writes one log. Only one should write: the caller holds the lock of the files."""

    def __init__(
        self,
        database: Database,
        store: LogStore,
        signer: NoteSigner | RemoteNoteSigner,
        *,
        now: Callable[[], datetime],
        policy: LogPolicy | None = None,
        ask_witnesses: AskWitnesses | None = None,
    ) -> None:
        self._database = database
        self._store = store
        self._signer = signer
        self._now = now
        self._policy = policy
        self._ask_witnesses = ask_witnesses

    async def run_once(self) -> SequencerReport:
        """Bring the log up to date with the outbox."""
        published = await asyncio.to_thread(self._open_published)
        size, added = await self._give_places(published)
        checkpoint_row = await self._find_stored(size)
        published_note = None if published is None else published.note.encode()
        if checkpoint_row is None or published is None or published.checkpoint.size != size:
            start = 0 if published is None else published.checkpoint.size
            await self._write_files(start, size)
            checkpoint_row = await self._sign(size)
            await asyncio.to_thread(self._publish, start, checkpoint_row)
            published_note = checkpoint_row.note
        if not checkpoint_row.has_quorum:
            checkpoint_row = await self._gather_cosignatures(checkpoint_row)
        if published_note != checkpoint_row.note:
            await asyncio.to_thread(self._store.publish_checkpoint, checkpoint_row.note)
        return SequencerReport(size=size, added=added, has_quorum=checkpoint_row.has_quorum)

    # 1 and 2 --------------------------------------------------------------------------------------------------------

    def _open_published(self) -> OpenedCheckpoint | None:
        """The checkpoint that is published; refused if another key signed it."""
        data = self._store.read_checkpoint_to_replace()
        return None if data is None else open_checkpoint(data, self._signer.verifier)

    async def _give_places(self, published: OpenedCheckpoint | None) -> tuple[int, int]:
        """The size of the log after giving places, and how many."""
        async with self._database.system() as conn:
            await log_rows.lock_log(conn)
            state = await log_rows.load_state(conn, str(self._signer.verifier))
            if state.verifier_key != str(self._signer.verifier):
                raise LogKeyDiffers(state.verifier_key, str(self._signer.verifier))
            old_size = await self._reconcile(conn, published, is_restored=state.restored_at is not None)
            waiting = await log_rows.load_waiting(conn, limit=BATCH)
            if waiting:
                await log_rows.give_places(conn, old_size, waiting)
            return old_size + len(waiting), len(waiting)

    async def _reconcile(self, conn: Connection, published: OpenedCheckpoint | None, *, is_restored: bool) -> int:
        """Compare the database with what is published; the size of the log according to both."""
        size = await log_rows.count_entries(conn)
        known_size = size
        if published is not None:
            checkpoint_row = await log_rows.find_checkpoint(conn, published.checkpoint.size)
            if checkpoint_row is None:
                size = await self._adopt(conn, published, size)
                is_restored = True
            elif checkpoint_row.root != published.checkpoint.root:
                raise LogForked(f"the published tree of {checkpoint_row.size:,} entries is not the one in the database")
        if is_restored:
            entry = make_entry(LOG_RESTORED, self._now(), {"restored_size": known_size, "size": size}, salt=None)
            await log_rows.insert_entries(conn, size, [entry.data])
            await log_rows.clear_restored(conn)
            size += 1
        return size

    async def _adopt(self, conn: Connection, published: OpenedCheckpoint, size: int) -> int:
        """Take over entries that were published and that a restored database does not have; the new size.

        Rows that wait and were published before the restore find their entry again, because salts are in the outbox.
        """
        checkpoint = published.checkpoint
        entries = await asyncio.to_thread(self._read_entries, checkpoint.size)
        leaves = [hash_leaf(entry) for entry in entries]
        if hash_tree(len(leaves), read_leaves(leaves)) != checkpoint.root:
            raise LogForked("the published entries do not have the root of its checkpoint")
        known = await log_rows.load_entries(conn, 0, min(size, checkpoint.size))
        if known != entries[: len(known)]:
            raise LogForked("the entries in the database and those that were published differ")
        missing = entries[size:]
        if missing:
            await log_rows.insert_entries(conn, size, missing)
            places = {entry: size + number for number, entry in enumerate(missing)}
            waiting = await log_rows.load_waiting(conn, limit=2_000_000_000)
            await log_rows.keep_openings(
                conn, [(places[row.entry.data], row) for row in waiting if row.entry.data in places]
            )
        has_quorum = self._has_quorum(published.note)
        await log_rows.insert_checkpoint(
            conn,
            StoredCheckpoint(
                size=checkpoint.size, root=checkpoint.root, note=published.note.encode(), has_quorum=has_quorum
            ),
        )
        if has_quorum:
            await self._insert_proofs(conn, checkpoint.size)
        return max(size, checkpoint.size)

    def _read_entries(self, size: int) -> list[bytes]:
        entries: list[bytes] = []
        while len(entries) < size:
            tile = find_tile(None, len(entries) // TILE_WIDTH, size)
            entries += read_entry_bundle(self._store.read_tile(tile), tile)
        return entries

    # 3 --------------------------------------------------------------------------------------------------------------

    async def _write_files(self, start: int, size: int) -> None:
        """Write the files of the entries from `start` to `size`; those before are there."""
        while start < size:
            end = min(size, (start // FILE_BATCH + 1) * FILE_BATCH)
            async with self._database.system() as conn:
                entries = await log_rows.load_entries(conn, start, end)
            if len(entries) != end - start:
                raise LogForked(f"the database lacks entries of the log between {start:,} and {end:,}")
            await asyncio.to_thread(self._write_tiles, start, entries)
            start = end

    def _write_tiles(self, start: int, entries: Sequence[bytes]) -> None:
        for tile, data in grow_tiles(start, entries, self._store.read_tile):
            self._store.write_tile(tile, data)

    # 4 --------------------------------------------------------------------------------------------------------------

    async def _find_stored(self, size: int) -> StoredCheckpoint | None:
        async with self._database.system() as conn:
            return await log_rows.find_checkpoint(conn, size)

    async def _sign(self, size: int) -> StoredCheckpoint:
        """Store the root of this size, signed; from here on the size has no other."""
        root = await asyncio.to_thread(lambda: hash_tree(size, self._make_tree(size).read))
        checkpoint = LogCheckpoint(origin=self._signer.verifier.name, size=size, root=root)
        if isinstance(self._signer, NoteSigner):
            note = self._signer.sign(checkpoint.text)
        else:
            note = await self._signer.sign_note(checkpoint.text)
        has_quorum = self._has_quorum(note)
        async with self._database.system() as conn:
            await log_rows.lock_log(conn)
            checkpoint_row = await log_rows.insert_checkpoint(
                conn, StoredCheckpoint(size=size, root=root, note=note.encode(), has_quorum=has_quorum)
            )
            if checkpoint_row.root != root:
                raise LogForked(f"the database has signed another tree of {size:,} entries")
            if has_quorum:
                await self._insert_proofs(conn, size)
        return checkpoint_row

    def _publish(self, start: int, checkpoint_row: StoredCheckpoint) -> None:
        self._store.publish_checkpoint(checkpoint_row.note)
        self._store.remove_partial_tiles(list_completed_tiles(start, checkpoint_row.size))

    def _make_tree(self, size: int) -> TileTree:
        return TileTree(size, self._store.read_tile)

    def _has_quorum(self, note: SignedNote) -> bool:
        """Whether the note is enough for the policy; without a policy, the log's own signature is."""
        if self._policy is None:
            return True
        return self._policy.is_met([witness.name for witness in find_witnesses(note, self._policy)])

    # 5 --------------------------------------------------------------------------------------------------------------

    async def _gather_cosignatures(self, checkpoint_row: StoredCheckpoint) -> StoredCheckpoint:
        """Ask the witnesses; with a quorum, the note and the proofs are stored for ever."""
        if self._ask_witnesses is None:
            return checkpoint_row
        note = parse_note(checkpoint_row.note)
        cosigned_note = note.add(await self._ask_witnesses(note, self._make_tree(checkpoint_row.size)))
        has_quorum = self._has_quorum(cosigned_note)
        if has_quorum:
            async with self._database.system() as conn:
                await log_rows.lock_log(conn)
                if await log_rows.set_quorum(conn, checkpoint_row.size, cosigned_note.encode()):
                    await self._insert_proofs(conn, checkpoint_row.size)
                else:  # another process was faster, and its note is the one that counts
                    return await log_rows.find_checkpoint(conn, checkpoint_row.size) or checkpoint_row
        return StoredCheckpoint(
            size=checkpoint_row.size, root=checkpoint_row.root, note=cosigned_note.encode(), has_quorum=has_quorum
        )

    async def _insert_proofs(self, conn: Connection, size: int) -> None:
        unproved = await log_rows.list_unproved(conn, size)
        if unproved:
            tree = self._make_tree(size)
            proofs = await asyncio.to_thread(
                lambda: [
                    EntryProof(tenant, index, make_inclusion_proof(index, size, tree.read))
                    for tenant, index in unproved
                ]
            )
            await log_rows.insert_proofs(conn, size, proofs)


def list_completed_tiles(old_size: int, new_size: int) -> list[Tile]:
    """Tiles that were partial in the old tree and are full in the new one."""
    tiles = []
    for level in (None, 0, *range(1, 64)):
        count = (old_size >> 8 * (level or 0), new_size >> 8 * (level or 0))
        if count[1] == 0:
            break
        index, kept = divmod(count[0], TILE_WIDTH)
        if kept and count[1] >= (index + 1) * TILE_WIDTH:
            tiles.append(Tile(level=level, index=index))
    return tiles
