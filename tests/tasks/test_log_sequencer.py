"""The log in a worker: what was there before it is listed, audit logs are committed to, witnesses make proofs."""

import asyncio
from pathlib import Path

from bpc.core.audit.events import Act
from bpc.core.audit.signing import derive_public_key, parse_seed
from bpc.core.formats.ids import PassportVersionId, TenantId
from bpc.core.tlog.entries import parse_opening, read_readable_entry
from bpc.core.tlog.notes import SignatureType, VerifierKey
from bpc.core.tlog.policy import parse_policy
from bpc.core.tlog.proofs import LogProof, check_log_proof
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.settings import Settings
from bpc.runtime.static_server import serve_requests
from bpc.runtime.witness_state import WitnessState, answer_witness_request, open_witness
from bpc.storage.audit import events, signing_keys
from bpc.storage.database import Database
from bpc.storage.tlog import log_rows
from bpc.storage.tlog.log_files import LogFolder
from bpc.storage.tlog.sequencer import Sequencer
from bpc.tasks.log_sequencer import AuditHeads, WitnessClient, keep_log, list_unlogged
from tests.signer.test_signer import open_signer, read_record
from tests.storage.rows import insert_passport_version, insert_signing_keys
from tests.storage.tlog.log_fixtures import SIGNER, append_signed_events, check_folder, make_sequencer


def open_test_witness(folder: Path, name: str) -> WitnessState:
    return open_witness(folder, name, {SIGNER.verifier.name: SIGNER.verifier}, now=clock.now)


async def test_enough_witnesses_make_the_proof_and_it_never_changes(
    database: Database, tenant: TenantId, act: Act, tmp_path: Path
) -> None:
    [version] = await append_signed_events(database, tenant, act, 1)
    states = [open_test_witness(tmp_path / f"w{number}", f"w{number}.example") for number in range(2)]
    with (
        serve_requests("127.0.0.1", 0, lambda *request: answer_witness_request(states[0], *request)) as port,
        serve_requests("127.0.0.1", 0, lambda *request: answer_witness_request(states[1], *request)) as other_port,
    ):
        lines = [
            f"log {SIGNER.verifier}",
            f"witness ed {states[0].cosigners[0].key} http://127.0.0.1:{port}",
            f"witness ml {states[1].cosigners[1].key} http://127.0.0.1:{other_port}/",
            f"witness gone {make_absent_witness()} http://127.0.0.1:1",
            "group both 2 ed ml gone",
            "quorum both",
        ]
        policy = parse_policy("\n".join(lines).encode())
        sequencer = Sequencer(
            database,
            LogFolder(tmp_path / "log"),
            SIGNER,
            now=clock.now,
            policy=policy,
            ask_witnesses=WitnessClient(policy).ask,
        )
        (tmp_path / "log").mkdir()
        assert (await sequencer.run_once()).has_quorum
        first = await load_proof(database, tenant, version)
        await append_signed_events(database, tenant, act, 300)
        assert (await sequencer.run_once()).has_quorum

    proof = await load_proof(database, tenant, version)
    assert proof is not None
    assert proof == first
    entry = parse_opening(proof.extra or b"")
    inclusion = check_log_proof(proof, entry.leaf, policy)
    assert [witness.name for witness in inclusion.witnesses] == ["ed", "ml"]
    assert entry.read_statement()["aggregate_id"] == str(version)
    for state in states:
        state.close()


def make_absent_witness() -> VerifierKey:
    return VerifierKey("w9.example", SignatureType.COSIGNATURE_ED25519, derive_public_key(parse_seed(bytes(32))))


async def load_proof(database: Database, tenant: TenantId, version: PassportVersionId) -> LogProof | None:
    async with database.tenant(tenant) as conn:
        return await log_rows.find_version_proof(conn, tenant, version)


async def test_below_the_quorum_the_log_is_pending(
    database: Database, tenant: TenantId, act: Act, tmp_path: Path
) -> None:
    [version] = await append_signed_events(database, tenant, act, 1)
    state = open_test_witness(tmp_path / "w", "w.example")
    policy = parse_policy(f"witness w {state.cosigners[0].key} http://127.0.0.1:1\nquorum w".encode())
    client = WitnessClient(policy)
    (tmp_path / "log").mkdir()
    sequencer = Sequencer(
        database, LogFolder(tmp_path / "log"), SIGNER, now=clock.now, policy=policy, ask_witnesses=client.ask
    )

    report = await sequencer.run_once()

    assert (report.size, report.has_quorum) == (1, False)
    assert await load_proof(database, tenant, version) is None
    assert len(check_folder(tmp_path / "log")) == 1, "it is published all the same"
    with serve_requests("127.0.0.1", 0, lambda *request: answer_witness_request(state, *request)) as port:
        reachable = parse_policy(f"witness w {state.cosigners[0].key} http://127.0.0.1:{port}\nquorum w".encode())
        later = Sequencer(
            database,
            LogFolder(tmp_path / "log"),
            SIGNER,
            now=clock.now,
            policy=reachable,
            ask_witnesses=WitnessClient(reachable).ask,
        )
        assert (await later.run_once()).has_quorum
    assert await load_proof(database, tenant, version) is not None
    state.close()


async def test_versions_and_keys_from_before_the_log_existed_by_its_beginning(
    database: Database, tenant: TenantId, act: Act, tmp_path: Path
) -> None:
    public_key = derive_public_key(parse_seed(bytes(range(32))))
    await signing_keys.register_key(database, "old-key", public_key, act=act)
    await insert_signing_keys(database)
    async with database.tenant(tenant) as conn:
        version = PassportVersionId(await insert_passport_version(conn, tenant, status="SIGNED"))
    await append_signed_events(database, tenant, act, 1)  # of a version that retention removed since
    await append_event_of(database, tenant, act, version)
    async with database.system() as conn:
        await conn.execute("DELETE FROM log_outbox")  # as it was before there was a log

    await list_unlogged(database)
    await list_unlogged(database)
    await make_sequencer(database, tmp_path).run_once()

    entries = check_folder(tmp_path)
    statements = [statement for entry in entries if (statement := read_readable_entry(entry)) is not None]
    assert [(statement["kind"], statement["key_id"]) for statement in statements] == [("KEY_ADDED", "old-key")]
    assert len(entries) == 2
    proof = await load_proof(database, tenant, version)
    assert proof is not None
    assert parse_opening(proof.extra or b"").read_statement()["kind"] == "PASSPORT_EXISTED"


async def append_event_of(database: Database, tenant: TenantId, act: Act, version: PassportVersionId) -> None:

    payload = {"receipt_hash": "ab" * 32, "signing_key_id": "old-key"}
    async with database.tenant(tenant) as conn:
        await events.append_act(conn, act, tenant, "PassportVersion", version, "PASSPORT_SIGNED", payload)


async def test_audit_logs_are_committed_to_when_they_have_changed(
    database: Database, tenant: TenantId, act: Act, tmp_path: Path
) -> None:
    heads = AuditHeads(database)
    await append_signed_events(database, tenant, act, 1)

    first = await heads.commit()
    assert first >= 1
    assert await heads.commit() == 0
    await make_sequencer(database, tmp_path).run_once()
    assert await AuditHeads(database).commit() == 0, "a process that starts anew finds what was committed"
    await append_signed_events(database, tenant, act, 1)
    assert await heads.commit() == 1


async def test_a_worker_keeps_the_log(database: Database, tenant: TenantId, act: Act, tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, env="test", tlog_checkpoint_seconds=0.1)
    [version] = await append_signed_events(database, tenant, act, 1)

    async with keep_log(settings, database, KeyRing({})), asyncio.timeout(20):
        while await load_proof(database, tenant, version) is None:
            await asyncio.sleep(0.05)

    assert (tmp_path / "log" / "checkpoint").exists()
    assert (tmp_path / "keys" / "log.key").stat().st_mode & 0o777 == 0o600


async def test_the_key_of_the_log_may_be_the_signer_s(
    database: Database, tenant: TenantId, act: Act, tmp_path: Path
) -> None:
    settings = Settings(data_dir=tmp_path, env="test", tlog_checkpoint_seconds=0.1)
    [version] = await append_signed_events(database, tenant, act, 1)

    async with open_signer(settings) as signer, keep_log(settings, database, signer), asyncio.timeout(20):
        while await load_proof(database, tenant, version) is None:
            await asyncio.sleep(0.05)

    kinds = [entry.get("kind") for entry in read_record(settings)]
    assert set(kinds) == {None, "log-checkpoint"}


async def test_prod_without_a_key_keeps_no_log_and_loses_nothing(
    database: Database, tenant: TenantId, act: Act, tmp_path: Path
) -> None:
    settings = Settings(data_dir=tmp_path, env="test").model_copy(update={"env": "prod"})
    await append_signed_events(database, tenant, act, 1)

    async with keep_log(settings, database, KeyRing({})):
        await asyncio.sleep(0)

    assert not (tmp_path / "log").exists()
    async with database.system() as conn:
        assert await log_rows.count_waiting(conn) == 1
