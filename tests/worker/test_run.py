"""Specification of what a worker does beside its jobs: it counts compiles, and removes old answers."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import asyncpg
import pytest
from prometheus_client import CollectorRegistry
from service_jobs import Metrics

from bpc.core.audit.events import Act
from bpc.core.audit.signing import PublicKey
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import TenantId
from bpc.core.passport.compile import CompiledPassport
from bpc.core.passport.gate import ComplianceCounts
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.settings import Settings
from bpc.runtime.signer_client import SignerUnavailable
from bpc.storage.access import api_requests
from bpc.storage.access.api_requests import IdempotentResponse
from bpc.storage.audit import signing_keys, tenant_keys
from bpc.storage.database import Database
from bpc.worker import run
from bpc.worker.monitoring import PipelineMetrics

NAMES = {
    *("bpc_compiles_total", "bpc_compile_duration_seconds_count", "bpc_payload_bytes_count"),
    *("bpc_proof_bytes_count", "bpc_receipt_bytes_count"),
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(env="test", data_dir=tmp_path)


async def _insert_answer(database: Database, tenant: TenantId, *keys: str) -> None:
    answer = IdempotentResponse(request_hash=sha256(b""), status=201, headers={}, body=b"{}")
    async with database.tenant(tenant) as conn:
        for key in keys:
            await api_requests.store_response(conn, tenant, key, answer)


async def _list_stored_keys(superuser: "asyncpg.Connection[asyncpg.Record]") -> set[str]:
    return {row["key"] for row in await superuser.fetch("SELECT key FROM idempotency_keys")}


async def test_stored_answers_of_all_tenants_are_removed_after_their_time(
    database: Database,
    tenant: TenantId,
    other_tenant: TenantId,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "DELETE_BATCH", 2)
    await _insert_answer(database, tenant, *(f"old {number}" for number in range(5)), "recent")
    await _insert_answer(database, other_tenant, "old, theirs", "recent, theirs")
    await superuser.execute(
        "UPDATE idempotency_keys SET created_at = now() - interval '30 days 1 minute' WHERE key LIKE 'old%'"
    )
    await superuser.execute("UPDATE idempotency_keys SET created_at = now() - interval '29 days' WHERE key = 'recent'")

    async with database.plain() as conn:
        await run.make_idempotency_cleanup(database, days=30).run(conn)

    assert await _list_stored_keys(superuser) == {"recent", "recent, theirs"}


async def test_a_worker_removes_old_answers_and_counts_compiles_in_the_registry_it_gets(
    database: Database, tenant: TenantId, settings: Settings, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    metrics = Metrics("bpc")
    await _insert_answer(database, tenant, "old")
    await superuser.execute("UPDATE idempotency_keys SET created_at = now() - interval '31 days'")

    async with run.run_worker(settings, database, key_ring=KeyRing({}), metrics=metrics):
        async with asyncio.timeout(60):
            while await _list_stored_keys(superuser):
                await asyncio.sleep(0.01)

    assert {line.split("{")[0].split(" ")[0] for line in metrics.render_text().decode().splitlines()} >= NAMES


class RecordingSigner:
    """A holder of keys that is away at first, and remembers what it was told."""

    provider_seconds = None

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.is_away = True

    async def sign(self, kind: str, document: bytes) -> bytes:
        raise AssertionError(kind, document)

    async def sign_many(self, kind: str, documents: Sequence[bytes]) -> list[bytes]:
        raise AssertionError(kind, documents)

    async def create_key(self, key_id: str, tenant_id: str | None) -> PublicKey:
        raise AssertionError(key_id, tenant_id)

    async def stop_key(self, key_id: str, status: Literal["RETIRED", "COMPROMISED"]) -> None:
        if self.is_away:
            raise SignerUnavailable("here", "it is away")
        self.told.append((key_id, status))


async def test_the_signer_is_told_once_of_each_key_that_was_retired_or_reported(database: Database) -> None:
    act = Act(None, clock.now())
    for key_id in ("used", "retired"):
        await signing_keys.register_key(database, key_id, PublicKey(sha256(key_id.encode())), act=act)
    await signing_keys.retire_key(database, "retired", act=act)
    signer = RecordingSigner()
    chore = run.make_signer_update(database, signer)
    async with database.plain() as conn:
        with pytest.raises(SignerUnavailable):
            await chore.run(conn)
        signer.is_away = False

        await chore.run(conn)
        await chore.run(conn)
        assert signer.told == [("retired", "RETIRED")]
        await tenant_keys.report_installation_compromise(
            database, "retired", since=act.at, reason="a lost disk", act=act
        )
        await chore.run(conn)

    assert signer.told == [("retired", "RETIRED"), ("retired", "COMPROMISED")]


async def test_whoever_runs_a_worker_hears_when_it_ends(database: Database, settings: Settings) -> None:
    ended = asyncio.Event()

    async with run.run_worker(settings, database, key_ring=KeyRing({}), on_end=ended.set) as worker:
        assert not ended.is_set()
        worker.stop()
        async with asyncio.timeout(30):
            await ended.wait()


def test_replays_and_webhooks_are_counted_by_how_they_end() -> None:
    registry = CollectorRegistry()
    metrics = PipelineMetrics(registry)

    for verdict in ("SAME", "MISMATCH", "ERROR"):
        metrics.record_replay(verdict)
    for result in ("DELIVERED", "RETRIED", "RETRIED"):
        metrics.record_delivery(result)
    metrics.record_disabled_endpoint("GONE")

    samples = {
        "bpc_replays_total": 3,
        "bpc_replay_mismatches_total": 1,
        "bpc_replay_errors_total": 1,
    }
    assert {name: registry.get_sample_value(name) for name in samples} == samples
    for status, count in (("DELIVERED", 1), ("RETRIED", 2), ("FAILED", 0)):
        assert registry.get_sample_value("bpc_webhook_deliveries_total", {"status": status}) == count
    for cause, count in (("GONE", 1), ("FAILING", 0)):
        assert registry.get_sample_value("bpc_webhook_endpoints_disabled_total", {"cause": cause}) == count


def make_compiled_passport(*, payload: bytes, proof: bytes, receipt: bytes) -> CompiledPassport:
    digest = sha256(b"")
    return CompiledPassport(
        payload=payload,
        payload_hash=digest,
        proof=proof,
        proof_root_hash=digest,
        receipt=receipt,
        receipt_hash=digest,
        snapshot=b"",
        snapshot_hash=digest,
        facts=b"",
        compliance=ComplianceCounts(fail=0, warn=0),
    )


def test_a_failed_compile_has_a_duration_and_no_sizes() -> None:
    registry = CollectorRegistry()
    metrics = PipelineMetrics(registry)

    metrics.record_compile(0.1, make_compiled_passport(payload=bytes(1000), proof=bytes(2000), receipt=bytes(300)))
    metrics.record_compile(0.2, None)

    assert registry.get_sample_value("bpc_compiles_total", {"result": "SUCCEEDED"}) == 1
    assert registry.get_sample_value("bpc_compiles_total", {"result": "FAILED"}) == 1
    assert registry.get_sample_value("bpc_compile_duration_seconds_sum", {"result": "FAILED"}) == 0.2
    for name, size in (("payload", 1000), ("proof", 2000), ("receipt", 300)):
        assert registry.get_sample_value(f"bpc_{name}_bytes_sum") == size
        assert registry.get_sample_value(f"bpc_{name}_bytes_count") == 1
