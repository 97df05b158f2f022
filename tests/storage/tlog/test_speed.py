"""What the log costs: entries a second from the outbox onto disk, bytes for a million, what issuing notices."""

import time
from pathlib import Path
from statistics import median

import pytest

from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.core.passport.bundle import LOG_PROOF_ENTRY, read_bundle
from bpc.core.tlog.entries import parse_opening
from bpc.core.tlog.proofs import check_log_proof, parse_log_proof
from bpc.storage.database import Database
from tests.core.verify.test_log_step import log_bundle, make_policy
from tests.measurements import RecordMeasurement, choose_effort
from tests.storage.tlog.log_fixtures import append_signed_events, check_folder, make_sequencer

EVENTS = 20  # in one transaction
FILL_OUTBOX = """
    INSERT INTO log_outbox (tenant_id, event_type, aggregate_type, aggregate_id, aggregate_version, occurred_at,
                            event_hash, payload_canonical)
    SELECT $1, 'PASSPORT_SIGNED', 'PassportVersion', gen_random_uuid(), 2, now() + n * interval '1 microsecond',
           sha256(n::text::bytea), convert_to('{"receipt_hash":"' || encode(sha256(n::text::bytea), 'hex')
                                              || '","signing_key_id":"key-1"}', 'UTF8')
      FROM generate_series(1, $2) AS n
"""
TABLE_BYTES = """
    SELECT sum(pg_total_relation_size(c))
      FROM unnest(ARRAY['log_entries', 'log_openings', 'log_proofs']::regclass[]) AS c
"""


@pytest.mark.slow
async def test_entries_get_their_places_faster_than_passports_are_issued(
    database: Database, tenant: TenantId, tmp_path: Path, record_measurement: RecordMeasurement
) -> None:
    count = choose_effort(test=2_000, shown=100_000, campaign=1_000_000)
    async with database.system() as conn:
        await conn.execute(FILL_OUTBOX, tenant, count)
    sequencer, started_at, added = make_sequencer(database, tmp_path), time.perf_counter(), 0
    while added < count:
        added += (await sequencer.run_once()).added
    seconds = time.perf_counter() - started_at

    entries = check_folder(tmp_path)
    assert len(set(entries)) == count
    async with database.system() as conn:
        assert await conn.fetchval("SELECT count(*) FROM log_proofs") == count
        table_bytes = await conn.fetchval(TABLE_BYTES)
    folder_bytes = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    record_measurement(
        "log-sequencer",
        entries=count,
        entries_per_second=round(count / seconds),
        megabytes_of_files_per_million=round(folder_bytes / count),
        megabytes_of_tables_per_million=round(table_bytes / count),
    )
    assert count / seconds > 200


@pytest.mark.slow
async def test_joining_the_log_costs_issuers_little(
    database: Database, tenant: TenantId, act: Act, record_measurement: RecordMeasurement
) -> None:
    rounds = choose_effort(test=5, shown=100, campaign=300)
    await append_signed_events(database, tenant, act, EVENTS)  # to warm up
    logged, plain = list[float](), list[float]()
    for _ in range(rounds):  # in turns, so that other work on the machine disturbs both alike
        logged.append(await _measure(database, tenant, act))
        await _switch_trigger(database, "DISABLE")
        plain.append(await _measure(database, tenant, act))
        await _switch_trigger(database, "ENABLE")

    cost = (median(logged) - median(plain)) / EVENTS
    record_measurement(
        "log-outbox",
        events=rounds * EVENTS,
        microseconds_without=round(median(plain) / EVENTS * 1e6),
        microseconds_for_the_log=round(cost * 1e6),
    )
    assert cost < 0.01


async def _measure(database: Database, tenant: TenantId, act: Act) -> float:
    started_at = time.perf_counter()
    await append_signed_events(database, tenant, act, EVENTS)
    return time.perf_counter() - started_at


async def _switch_trigger(database: Database, state: str) -> None:
    async with database.plain() as conn, conn.transaction():
        await conn.execute(f"SET LOCAL ROLE bpc_owner; ALTER TABLE events {state} TRIGGER events_join_the_log")


def test_a_proof_with_two_witnesses_is_verified_in_milliseconds(record_measurement: RecordMeasurement) -> None:
    """The bytes of a proof in, its checkpoint, both cosignatures (Ed25519, ML-DSA-44) and the entry checked."""
    bundle, policy = read_bundle(log_bundle()), make_policy()
    proof_bytes = bundle.entries[LOG_PROOF_ENTRY]
    opening = parse_log_proof(proof_bytes).extra
    assert opening is not None
    times, seen_by = list[float](), list[int]()
    for _ in range(choose_effort(test=20, shown=500, campaign=500)):
        started_at = time.perf_counter()
        inclusion = check_log_proof(parse_log_proof(proof_bytes), parse_opening(opening).leaf, policy)
        times.append(time.perf_counter() - started_at)
        seen_by.append(len(inclusion.witnesses))

    assert set(seen_by) == {2}
    record_measurement(
        "log-proof", proofs=len(times), bytes=len(proof_bytes), milliseconds=round(median(times) * 1e3, 2)
    )
    assert median(times) < 0.2
