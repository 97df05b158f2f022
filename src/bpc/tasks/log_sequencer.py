"""The transparency log in a worker: one process that has the lock of its files writes it, every few seconds.

    outbox ─► Sequencer (bpc.storage.tlog.sequencer) ─► files ─► witnesses ─► proofs

Every worker tries; the lock, in the folder or bucket, lets one of them write. Before the first entry, versions and keys
from before the log are put into the outbox. At longer intervals, each tenant's audit log is committed to.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, LiteralString
from urllib.parse import urlsplit

from bpc.core.audit.checkpoint import hash_anchors
from bpc.core.audit.signing import parse_seed
from bpc.core.errors import Refusal
from bpc.core.formats.hashes import to_hex
from bpc.core.formats.ids import TenantId
from bpc.core.signing_forms import LOG_CHECKPOINT, LOG_KEY_ID
from bpc.core.tlog.checkpoints import parse_size, read_checkpoint_text
from bpc.core.tlog.cosignatures import read_cosignature_time
from bpc.core.tlog.entries import AUDIT_HEAD
from bpc.core.tlog.merkle import make_consistency_proof
from bpc.core.tlog.notes import (
    NoteSignature,
    NoteSigner,
    SignatureType,
    SignedNote,
    VerifierKey,
    parse_signature_line,
)
from bpc.core.tlog.policy import LogPolicy, Witness, parse_policy
from bpc.core.tlog.tiles import TileTree
from bpc.core.tlog.witness import CONFLICT, WitnessRequest
from bpc.outbound import Guard, OutboundAnswer
from bpc.runtime import clock
from bpc.runtime.key_ring import SigningService
from bpc.runtime.logs import get_logger
from bpc.runtime.settings import Settings
from bpc.runtime.settings.data_dir import load_log_seed
from bpc.runtime.signer_client import SignerClient
from bpc.storage.access import tenants_and_actors
from bpc.storage.access.tenants_and_actors import SYSTEM_TENANT
from bpc.storage.audit import audit_heads
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from bpc.storage.tlog import log_rows
from bpc.storage.tlog.log_bucket import open_log
from bpc.storage.tlog.log_files import LogStore
from bpc.storage.tlog.sequencer import BATCH, Sequencer
from bpc.tasks.log_time_stamps import keep_time_stamps

WITNESS_SECONDS: Final = 10.0  # for one witness to answer
LOCK_RETRY_SECONDS: Final = 5.0  # another worker has the lock
LONGEST_PAUSE: Final = 60.0  # after faults
IS_SILENT: Final[LiteralString] = """
    SELECT max(signed_at) < now() - interval '12 hours' FROM log_checkpoints HAVING NOT EXISTS (
      SELECT FROM log_outbox WHERE event_type = 'AUDIT_HEAD')
"""
MAX_SNAPSHOT_LENGTH: Final = 2_000  # it names every transaction that runs
LAST_EVENT: Final[LiteralString] = """
    SELECT event_id FROM events WHERE tenant_id = $1 ORDER BY recorded_in DESC, occurred_at DESC, event_id DESC LIMIT 1
"""
log = get_logger(__name__)


@dataclass(slots=True)
class WitnessClient:
    """Asks the witnesses of a policy for cosignatures (C2SP tlog-witness)."""

    policy: LogPolicy
    _sizes: dict[str, int] = field(default_factory=dict)  # what each witness cosigned last, as far as we know

    async def ask(self, note: SignedNote, tree: TileTree) -> Sequence[NoteSignature]:
        """The valid cosignatures of all witnesses that have an address and answer in time."""
        witnesses = {name: witness for name, witness in self.policy.witnesses.items() if witness.url is not None}
        answers = await asyncio.gather(
            *(self._ask_one(name, witness, note, tree) for name, witness in witnesses.items())
        )
        return [signature for signatures in answers for signature in signatures]

    async def _ask_one(self, name: str, witness: Witness, note: SignedNote, tree: TileTree) -> list[NoteSignature]:
        try:
            answer = await self._send(name, witness, note, tree)
            if answer.status == CONFLICT:  # it has cosigned another size than we thought
                self._sizes[name] = parse_size(answer.body.decode("ascii", "replace").strip())
                answer = await self._send(name, witness, note, tree)
            return self._read_answer(name, witness, note, answer)
        except Refusal as refusal:
            log.warning("a witness of the log did not cosign", witness=name, reason=refusal.says)
            return []

    async def _send(self, name: str, witness: Witness, note: SignedNote, tree: TileTree) -> OutboundAnswer:
        old_size = self._sizes.get(name, 0)
        if old_size > tree.size:
            raise Refusal(f"it has cosigned {old_size:,} entries, and the log has {tree.size:,}")
        proof = await asyncio.to_thread(make_consistency_proof, old_size, tree.size, tree.read)
        request = WitnessRequest(old_size=old_size, proof=proof, note=SignedNote(note.text, note.signatures[:1]))
        url = str(witness.url).rstrip("/")
        # The operator named this host in the policy; tenants have no part in it.
        guard = Guard(allow=(urlsplit(url).hostname or "",), https_only=False, max_seconds=WITNESS_SECONDS)
        return await guard.send("POST", f"{url}/add-checkpoint", headers={}, content=request.encode())

    def _read_answer(
        self, name: str, witness: Witness, note: SignedNote, answer: OutboundAnswer
    ) -> list[NoteSignature]:
        if answer.status != 200:
            raise Refusal(f"it answered {answer.status}")
        lines = answer.body.decode("utf-8", "replace").rstrip("\n").split("\n")
        signatures = [signature for signature in map(parse_signature_line, lines) if signature.is_of(witness.key)]
        if read_cosignature_time(SignedNote(note.text, tuple(signatures)), witness.key) is None:
            raise Refusal("its answer has no cosignature of its key")
        self._sizes[name] = read_checkpoint_text(note.text).size
        return signatures


def load_policy(path: Path | None) -> LogPolicy | None:
    """The policy of a file; None without one."""
    return None if path is None else parse_policy(path.read_bytes())


async def list_unlogged(database: Database) -> None:
    """Put what was there before the log into the outbox, once."""
    async with database.system() as conn:
        tenants = await tenants_and_actors.list_tenants(conn)
    for tenant in tenants:
        async with database.system(tenant.tenant_id) as conn:
            await log_rows.list_unlogged_versions(conn, tenant.tenant_id)
    async with database.system(SYSTEM_TENANT) as conn:
        if await log_rows.count_entries(conn) == 0:
            await log_rows.list_unlogged_keys(conn, SYSTEM_TENANT)
        await log_rows.mark_listed(conn)


@dataclass(slots=True)
class AuditHeads:
    """Commits to where the audit logs stand. A tenant whose log has not changed since is left out."""

    database: Database
    _last_events: dict[TenantId, object] = field(default_factory=dict)

    async def commit(self) -> int:
        """Put a statement for each changed tenant into the outbox; return how many."""
        async with self.database.system() as conn:
            tenants = await tenants_and_actors.list_tenants(conn)
        count = 0
        for tenant in tenants:
            async with self.database.system(tenant.tenant_id) as conn:
                count += await self._commit_tenant(conn, tenant.tenant_id)
        return count

    async def _commit_tenant(self, conn: Connection, tenant: TenantId) -> bool:
        last_event = await conn.fetchval(LAST_EVENT, tenant)
        # So that the log of an idle installation is not silent: retention compares its last checkpoint with the clock.
        is_due = tenant == SYSTEM_TENANT and bool(await conn.fetchval(IS_SILENT))
        if last_event is None or (self._last_events.get(tenant) == last_event and not is_due):
            return False
        seen = await audit_heads.load_seen(conn)
        heads = await audit_heads.load_heads_seen(conn, tenant, seen)
        digest = await asyncio.to_thread(hash_anchors, heads)
        self._last_events[tenant] = last_event
        earlier = await log_rows.find_last_statement(conn, tenant, AUDIT_HEAD)
        if isinstance(earlier, Mapping) and earlier.get("heads_hash") == to_hex(digest) and not is_due:
            return False
        members: dict[str, object] = {"chains": len(heads), "heads_hash": to_hex(digest)}
        if len(seen.snapshot) <= MAX_SNAPSHOT_LENGTH:
            members["seen"] = " ".join(seen)
        await log_rows.insert_tenant_statement(conn, tenant, AUDIT_HEAD, digest, members)
        return True


class SignerNotes:
    """Notes that the signer signs with the key of the log."""

    def __init__(self, verifier: VerifierKey, signer: SignerClient) -> None:
        self.verifier = verifier
        self._signer = signer

    async def sign_note(self, text: str) -> SignedNote:
        signature = await self._signer.sign(LOG_CHECKPOINT, text.encode())
        return SignedNote(text, (NoteSignature(self.verifier.name, self.verifier.key_id, signature),))


async def make_remote_sequencer(settings: Settings, database: Database, signer: SignerClient) -> Sequencer | None:
    """The sequencer whose key the signer has; None if it has none. Raises `SignerUnavailable`."""
    public_key = await signer.find_public_key(LOG_KEY_ID)
    if public_key is None:
        return None
    verifier = VerifierKey(settings.tlog_origin, SignatureType.ED25519, public_key)
    return _build_sequencer(settings, database, SignerNotes(verifier, signer))


def make_sequencer(settings: Settings, database: Database) -> Sequencer | None:
    """The sequencer of these settings, with its key here; None in prod without a key for the log."""
    seed = load_log_seed(settings)
    return (
        None
        if seed is None
        else _build_sequencer(settings, database, NoteSigner(settings.tlog_origin, parse_seed(seed)))
    )


def _build_sequencer(settings: Settings, database: Database, signer: NoteSigner | SignerNotes) -> Sequencer:
    policy = load_policy(settings.tlog_policy_file)
    return Sequencer(
        database,
        open_log(settings),
        signer,
        now=clock.now,
        policy=policy,
        ask_witnesses=None if policy is None else WitnessClient(policy).ask,
    )


@asynccontextmanager
async def keep_log(settings: Settings, database: Database, key_ring: SigningService) -> AsyncIterator[None]:
    """Write the log while the block runs, whenever this process has the lock of its files."""
    task = asyncio.create_task(_write_log(settings, database, key_ring))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _write_log(settings: Settings, database: Database, key_ring: SigningService) -> None:
    store: LogStore | None = None
    pause = LOCK_RETRY_SECONDS
    sequencer: Sequencer | None = None
    while True:
        try:
            if sequencer is None:
                sequencer = (
                    await make_remote_sequencer(settings, database, key_ring)
                    if isinstance(key_ring, SignerClient)
                    else make_sequencer(settings, database)
                )
            if sequencer is None:
                log.warning(
                    "no transparency log is kept: there is no key for it", setting="BPC_TLOG_ED25519_PRIVATE_KEY_BASE64"
                )
                return
            store = store or open_log(settings)
            async with _hold_lock(store) as is_ours:
                if is_ours:
                    async with keep_time_stamps(settings, store):
                        await _write_while_locked(settings, database, sequencer, store)
            pause = LOCK_RETRY_SECONDS
        except (Refusal, OSError) as error:
            says = error.says if isinstance(error, Refusal) else str(error)
            log.error("the transparency log could not be written; it is tried again", reason=says, seconds=pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        except Exception:
            log.exception("the transparency log could not be written; it is tried again", seconds=pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        await asyncio.sleep(pause)


@asynccontextmanager
async def _hold_lock(store: LogStore) -> AsyncIterator[bool]:
    """Whether we may write until the block ends. A bucket takes its time to answer."""
    is_ours = await asyncio.to_thread(store.take_lock)
    try:
        yield is_ours
    finally:
        if is_ours:
            await asyncio.to_thread(store.release_lock)


async def _write_while_locked(settings: Settings, database: Database, sequencer: Sequencer, store: LogStore) -> None:
    heads, loop = AuditHeads(database), asyncio.get_running_loop()
    await list_unlogged(database)
    heads_due = loop.time() + settings.tlog_checkpoint_seconds
    while True:
        if loop.time() >= heads_due:
            await heads.commit()
            heads_due = loop.time() + settings.tlog_audit_head_seconds
        await asyncio.to_thread(store.renew_lock)
        report = await sequencer.run_once()
        if report.added < BATCH:  # otherwise more is waiting
            await asyncio.sleep(settings.tlog_checkpoint_seconds)
