"""Specification of what a worker does beside its jobs: it counts compiles, and removes old answers."""

import asyncio
from pathlib import Path

import asyncpg
import pytest
from prometheus_client import CollectorRegistry
from service_jobs import Metrics

from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import TenantId
from bpc.core.passport.compile import CompiledPassport
from bpc.core.passport.gate import ComplianceCounts
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.settings import Settings
from bpc.storage.access import api_requests
from bpc.storage.access.api_requests import IdempotentResponse
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
