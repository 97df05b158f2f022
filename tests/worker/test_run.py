"""What a worker does beside its jobs: it counts what was compiled, and forgets answers whose time is over."""

import asyncio
from pathlib import Path

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from bpc.core.digest import sha256
from bpc.core.ids import TenantId
from bpc.core.signing import Signer
from bpc.db import idempotency
from bpc.db.database import Database
from bpc.db.idempotency import Answer
from bpc.jobs import Metrics
from bpc.settings import Settings
from bpc.worker import run
from bpc.worker.metrics import StepMetrics

NAMES = {
    *("bpc_compiles_total", "bpc_compile_duration_seconds_count", "bpc_payload_bytes_count"),
    *("bpc_proof_bytes_count", "bpc_receipt_bytes_count"),
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(env="test", data_dir=tmp_path)


async def _keep(database: Database, tenant: TenantId, *keys: str) -> None:
    answer = Answer(request_hash=sha256(b""), status=201, headers={}, body=b"{}")
    async with database.tenant(tenant) as conn:
        for key in keys:
            await idempotency.keep(conn, tenant, key, answer)


async def _kept(superuser: "asyncpg.Connection[asyncpg.Record]") -> set[str]:
    return {row["key"] for row in await superuser.fetch("SELECT key FROM idempotency_keys")}


async def test_answers_are_forgotten_when_their_time_is_over_whoever_they_belong_to(
    database: Database,
    tenant: TenantId,
    other_tenant: TenantId,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "AT_ONCE", 2)
    await _keep(database, tenant, *(f"old {number}" for number in range(5)), "recent")
    await _keep(database, other_tenant, "old, theirs", "recent, theirs")
    await superuser.execute(
        "UPDATE idempotency_keys SET created_at = now() - interval '30 days 1 minute' WHERE key LIKE 'old%'"
    )
    await superuser.execute("UPDATE idempotency_keys SET created_at = now() - interval '29 days' WHERE key = 'recent'")

    async with database.plain() as conn:
        await run.forgetting(database, days=30).run(conn)

    assert await _kept(superuser) == {"recent", "recent, theirs"}


async def test_a_worker_forgets_and_shows_what_it_compiled_among_the_figures_it_was_given(
    database: Database, tenant: TenantId, settings: Settings, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    metrics = Metrics()
    await _keep(database, tenant, "old")
    await superuser.execute("UPDATE idempotency_keys SET created_at = now() - interval '31 days'")

    async with run.working(settings, database, signer=_no_signer, metrics=metrics):
        async with asyncio.timeout(60):
            while await _kept(superuser):
                await asyncio.sleep(0.01)

    assert {line.split("{")[0].split(" ")[0] for line in metrics.text().decode().splitlines()} >= NAMES


def _no_signer(key_id: str) -> Signer | None:
    return None


def test_only_what_was_made_has_a_size() -> None:
    registry = CollectorRegistry()
    metrics = StepMetrics(registry)

    metrics.compiled("SUCCEEDED", 0.1, 1000, 2000, 300)
    metrics.compiled("FAILED", 0.2, None, None, None)

    assert registry.get_sample_value("bpc_compiles_total", {"result": "SUCCEEDED"}) == 1
    assert registry.get_sample_value("bpc_compiles_total", {"result": "FAILED"}) == 1
    assert registry.get_sample_value("bpc_compile_duration_seconds_sum", {"result": "FAILED"}) == 0.2
    for name, size in (("payload", 1000), ("proof", 2000), ("receipt", 300)):
        assert registry.get_sample_value(f"bpc_{name}_bytes_sum") == size
        assert registry.get_sample_value(f"bpc_{name}_bytes_count") == 1
