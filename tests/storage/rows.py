"""The smallest honest row of every table, written by the roles the product writes with, never by the superuser.

    async with database.tenant(tenant) as conn:
        version = await a_passport_version(conn, tenant, status="SIGNED")   # with everything it stands on
    await one_of_everything(database, tenant, act)                          # at least one row in every tenant's table

A builder makes what its row refers to, unless it is given. What has a status gets it on insertion, so every
status can be had without walking there.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

import asyncpg

from bpc import fresh
from bpc.core.anchors import claim
from bpc.core.digest import sha256
from bpc.core.events import Act, Head, Stream
from bpc.core.ids import ActorId, AggregateId, SnapshotId, TenantId
from bpc.core.snapshot import FactRef, snapshot_bytes
from bpc.db import actors, anchors, apikeys, events
from bpc.db.connection import Connection
from bpc.db.database import Database

PEPPER: Final = b"pepper"
SIGNATURE: Final = bytes(64)
SIGNED_RECEIPT: Final = b'{"receipt_version":"BPC-RECEIPT-1","signature":"AA=="}'
KEY_ID: Final = "key-of-the-tests"
OTHER_KEY_ID: Final = "another-key-of-the-tests"

DOCUMENT_STATUSES: Final = ("UPLOADED", "PARSED", "VALIDATED", "REJECTED")
SNAPSHOT_STATUSES: Final = ("BUILDING", "READY", "SEALED")
RULE_STATUSES: Final = ("DRAFT", "VALIDATED", "PUBLISHED", "DEPRECATED", "RETIRED")
PASSPORT_STATUSES: Final = ("COMPILING", "SIGNED", "ACTIVE", "SUPERSEDED", "REVOKED")


async def insert(conn: Connection, table: str, **values: object) -> None:
    """One row of `table`."""
    marks = ", ".join(f"${number}" for number in range(1, len(values) + 1))
    await conn.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", *values.values())


async def outcome(conn: Connection, statement: str, *arguments: object) -> str:
    """What the database makes of `statement`: its command tag, or the SQLSTATE it refuses with. Nothing of it stays."""
    async with rolled_back(conn):
        try:
            return await conn.execute(statement, *arguments)
        except asyncpg.PostgresError as refused:
            return str(refused.sqlstate)


@asynccontextmanager
async def rolled_back(conn: Connection) -> AsyncIterator[None]:
    """A transaction, or a savepoint of the one that is open, of which nothing stays."""
    transaction = conn.transaction()
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()


@asynccontextmanager
async def acting(conn: Connection, role: str, tenant: TenantId | None = None) -> AsyncIterator[None]:
    """A transaction in which `conn` is `role`, bound to `tenant`; nothing of it stays."""
    async with rolled_back(conn):
        await conn.execute(f"SET LOCAL ROLE {role}")
        await conn.execute(f"SET LOCAL app.tenant_id = '{tenant or ''}'")
        yield


async def an_actor(conn: Connection, tenant: TenantId, act: Act) -> ActorId:
    return await actors.create(conn, tenant, kind="USER", display_name="Somebody", roles=["Admin"], act=act)


async def an_event(conn: Connection, tenant: TenantId, act: Act) -> UUID:
    stream = Stream(tenant, "Document", AggregateId(fresh.new_id()))
    return (await events.append(conn, stream, act.says("DOCUMENT_CREATED", {}))).event_id


async def an_anchor(conn: Connection, tenant: TenantId, act: Act) -> None:
    """A chain whose only event retention has removed; takes the system role."""
    stream = Stream(tenant, "Document", AggregateId(fresh.new_id()))
    event = await events.append(conn, stream, act.says("DOCUMENT_CREATED", {}))
    await cut(conn, stream, Head(event.version, event.event_hash), act)


async def cut(conn: Connection, stream: Stream, at: Head, act: Act) -> None:
    """A chain whose beginning goes, on record, as retention does it; takes the system role."""
    anchors_put = {stream: at}
    own_chain = Stream(stream.tenant_id, "Tenant", AggregateId(stream.tenant_id))
    said = act.says("RetentionApplied", {"anchors": claim(anchors_put)})
    await anchors.put(conn, stream.tenant_id, anchors_put)
    await anchors.vouch(conn, stream.tenant_id, await events.append(conn, own_chain, said), anchors_put)
    await conn.execute(
        "DELETE FROM events WHERE aggregate_id = $1 AND aggregate_version <= $2", stream.aggregate_id, at.version
    )


async def a_document_text(conn: Connection, tenant: TenantId) -> None:
    version = await a_document_version(conn, tenant)
    await insert(conn, "document_texts", tenant_id=tenant, document_version_id=version, pages=1, text="Stückliste")


async def a_document_version(conn: Connection, tenant: TenantId, *, status: str = "UPLOADED") -> UUID:
    document, version = fresh.new_id(), fresh.new_id()
    content = b'{"document":"%s"}' % str(document).encode()
    await insert(conn, "documents", tenant_id=tenant, document_id=document, kind="BOM")
    await insert(
        conn,
        "document_versions",
        tenant_id=tenant,
        document_version_id=version,
        document_id=document,
        version=1,
        status=status,
        mime_type="application/json",
        sha256=sha256(content),
        content=content,
    )
    return version


async def a_fact(conn: Connection, tenant: TenantId) -> UUID:
    document_version, fact = await a_document_version(conn, tenant, status="VALIDATED"), fresh.new_id()
    payload = b'{"sku":"%s"}' % str(fact).encode()
    await insert(
        conn,
        "facts",
        tenant_id=tenant,
        fact_id=fact,
        fact_type="Battery",
        fact_key=str(fact),
        schema_version=1,
        source_document_version_id=document_version,
        source_path="/battery",
        payload=payload.decode(),
        payload_canonical=payload,
        payload_hash=sha256(payload),
    )
    await insert(
        conn,
        "fact_sources",
        tenant_id=tenant,
        fact_id=fact,
        document_version_id=document_version,
        source_path="/battery",
    )
    return fact


async def a_snapshot(
    conn: Connection, tenant: TenantId, *, status: str = "BUILDING", fact: UUID | None = None
) -> SnapshotId:
    """A snapshot, with `fact` in it if there is one."""
    snapshot = SnapshotId(fresh.new_id())
    await insert(conn, "data_snapshots", tenant_id=tenant, snapshot_id=snapshot, status="BUILDING")
    if fact is not None:
        await insert(conn, "snapshot_items", tenant_id=tenant, snapshot_id=snapshot, fact_id=fact)
    if status != "BUILDING":
        await conn.execute("UPDATE data_snapshots SET status = 'READY' WHERE snapshot_id = $1", snapshot)
    if status == "SEALED":
        await seal(conn, snapshot)
    return snapshot


async def seal(conn: Connection, snapshot: SnapshotId) -> None:
    """Seal a snapshot that is READY: first its lock, then its list."""
    await conn.execute("SELECT FROM data_snapshots WHERE snapshot_id = $1 FOR UPDATE", snapshot)
    found = await conn.fetch(
        "SELECT fact_type, fact_key, payload_hash FROM snapshot_items JOIN facts USING (tenant_id, fact_id)"
        " WHERE snapshot_id = $1",
        snapshot,
    )
    canonical = snapshot_bytes(snapshot, [FactRef(*row.values()) for row in found])
    await conn.execute(
        "UPDATE data_snapshots SET status = 'SEALED', sealed_at = now(), snapshot_canonical = $2, snapshot_hash = $3"
        " WHERE snapshot_id = $1",
        snapshot,
        canonical,
        sha256(canonical),
    )


async def _moved_on(conn: Connection, version: UUID, status: str) -> None:
    """A rule version gets where it is step by step: its fields come while it is a draft."""
    steps = ["VALIDATED", "PUBLISHED", "DEPRECATED", "RETIRED"]
    for step in steps[: steps.index(status) + 1] if status in steps else []:
        await conn.execute(
            """UPDATE rule_package_versions SET status = $2::rule_pkg_status,
                      published_at = CASE WHEN $2 = 'PUBLISHED' THEN $3 ELSE published_at END
                WHERE rule_package_version_id = $1""",
            version,
            step,
            fresh.now(),
        )


async def a_rule_version(conn: Connection, tenant: TenantId, *, status: str = "DRAFT") -> UUID:
    """A version of a package of its own, with one field and one test run."""
    package, version = fresh.new_id(), fresh.new_id()
    source = b"-- %s" % str(version).encode()
    await insert(conn, "rule_packages", tenant_id=tenant, rule_package_id=package, name=f"rules {package}")
    await insert(
        conn,
        "rule_package_versions",
        tenant_id=tenant,
        rule_package_version_id=version,
        rule_package_id=package,
        version=1,
        status="DRAFT",
        compiler_min_build="1",
        dsl_source=source,
        dsl_sha256=sha256(source),
        tests_source=b"",
        tests_sha256=sha256(b""),
    )
    await insert(
        conn,
        "rule_fields",
        tenant_id=tenant,
        rule_field_id=fresh.new_id(),
        rule_package_version_id=version,
        field_path="sku",
        field_type="Text",
        audiences=["public"],
    )
    await insert(
        conn,
        "rule_tests_runs",
        tenant_id=tenant,
        run_id=fresh.new_id(),
        rule_package_version_id=version,
        seed=1,
        cases=500,
        passed=500,
        failed=0,
        discarded=0,
        status="PASSED",
    )
    await _moved_on(conn, version, status)
    return version


async def a_passport(conn: Connection, tenant: TenantId) -> UUID:
    product, passport = fresh.new_id(), fresh.new_id()
    await insert(
        conn, "battery_products", tenant_id=tenant, battery_product_id=product, sku=f"SKU-{product}", name="Cell"
    )
    await insert(conn, "passports", tenant_id=tenant, passport_id=passport, battery_product_id=product)
    return passport


async def a_passport_version(
    conn: Connection, tenant: TenantId, *, status: str = "COMPILING", passport: UUID | None = None, **other: object
) -> UUID:
    """A version in any status, with what that status brings; `other` sets columns besides. Needs `signing_keys`."""
    version, now = fresh.new_id(), fresh.now()
    payload = b'{"version":"%s"}' % str(version).encode()
    is_signed = status != "COMPILING"
    values: dict[str, object] = {
        "tenant_id": tenant,
        "passport_version_id": version,
        "passport_id": passport or await a_passport(conn, tenant),
        "status": status,
        "activated_at": now if status in {"ACTIVE", "SUPERSEDED"} else None,
        "superseded_at": now if status == "SUPERSEDED" else None,
        "revoked_at": now if status == "REVOKED" else None,
        "snapshot_id": await a_snapshot(conn, tenant, status="SEALED"),
        "rule_package_version_id": await a_rule_version(conn, tenant, status="PUBLISHED"),
        "compiler_build_id": "bpc-0",
        "payload_canonical": payload,
        "payload_hash": sha256(payload),
        "proof_canonical": b"{}",
        "proof_root_hash": sha256(b"{}"),
        "receipt_canonical": SIGNED_RECEIPT if is_signed else b'{"receipt_version":"BPC-RECEIPT-1"}',
        "receipt_hash": sha256(b'{"receipt_version":"BPC-RECEIPT-1"}'),
        "signature_alg": "ED25519",
        "signature": SIGNATURE if is_signed else None,
        "signing_key_id": KEY_ID if is_signed else None,
    }
    await insert(conn, "passport_versions", **(values | other))
    return version


async def an_export(
    conn: Connection, tenant: TenantId, *, version: UUID | None = None, status: str = "PENDING", **other: object
) -> UUID:
    """An export in any status, of `version` or of one of its own. Needs `signing_keys`."""
    export, content = fresh.new_id(), b"<passport/>" if status == "READY" else None
    values: dict[str, object] = {
        "tenant_id": tenant,
        "export_id": export,
        "passport_version_id": version or await a_passport_version(conn, tenant, status="SIGNED"),
        "format": "XML",
        "audience": "tenant",
        "status": status,
        "mime_type": "application/xml",
        "file_name": "passport.xml",
        "content": content,
        "sha256": None if content is None else sha256(content),
        "last_error": "{}" if status == "FAILED" else None,
        "job_id": fresh.new_id(),
        "finished_at": None if status == "PENDING" else fresh.now(),
    }
    await insert(conn, "passport_exports", **(values | other))
    return export


async def a_compile_run(conn: Connection, tenant: TenantId, rules: UUID) -> UUID:
    """A run with one row."""
    run = fresh.new_id()
    await insert(
        conn,
        "compile_runs",
        tenant_id=tenant,
        run_id=run,
        rule_package_version_id=rules,
        activate=False,
        total=1,
        cancelled_at=fresh.now(),
    )
    await insert(
        conn,
        "compile_run_rows",
        tenant_id=tenant,
        run_id=run,
        row_number=1,
        sku="SKU-1",
        activate=False,
        passport_version_id=fresh.new_id(),
    )
    return run


async def a_policy_version(conn: Connection, tenant: TenantId) -> UUID:
    policy, version = fresh.new_id(), fresh.new_id()
    await insert(conn, "policies", tenant_id=tenant, policy_id=policy, name=f"policy {policy}")
    await insert(
        conn,
        "policy_versions",
        tenant_id=tenant,
        policy_version_id=version,
        policy_id=policy,
        version=1,
        effect="DENY",
        target="passport:read",
        policy_json="{}",
        policy_canonical=b"{}",
        policy_hash=sha256(b"{}"),
    )
    return version


async def a_webhook(conn: Connection, tenant: TenantId, event: UUID) -> UUID:
    """An endpoint, subscribed to one type, with one delivery of `event`."""
    endpoint = fresh.new_id()
    await insert(
        conn,
        "webhook_endpoints",
        tenant_id=tenant,
        webhook_endpoint_id=endpoint,
        url="https://example.com/hook",
        secret_base64="AA==",
    )
    await insert(
        conn,
        "webhook_subscriptions",
        tenant_id=tenant,
        webhook_subscription_id=fresh.new_id(),
        webhook_endpoint_id=endpoint,
        event_type="passport.version.active",
    )
    await insert(
        conn,
        "webhook_deliveries",
        tenant_id=tenant,
        webhook_delivery_id=fresh.new_id(),
        webhook_endpoint_id=endpoint,
        event_id=event,
        status="PENDING",
    )
    return endpoint


async def an_idempotency_key(conn: Connection, tenant: TenantId) -> None:
    await insert(
        conn,
        "idempotency_keys",
        tenant_id=tenant,
        key="once",
        request_hash=sha256(b"request"),
        response_status=201,
        response_headers="{}",
        response_body=b"{}",
    )


async def a_rate_bucket(conn: Connection, tenant: TenantId) -> None:
    await insert(
        conn,
        "rate_limit_buckets",
        tenant_id=tenant,
        key_hash=sha256(b"key"),
        capacity=10,
        tokens=10,
        refill_per_second=1,
        updated_at=fresh.now(),
    )


async def signing_keys(database: Database) -> None:
    """Two keys of the installation, once."""
    async with database.system() as conn:
        for key_id in (KEY_ID, OTHER_KEY_ID):
            await conn.execute(
                "INSERT INTO signing_keys (key_id, public_key) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                key_id,
                sha256(key_id.encode()),
            )


async def one_of_everything(database: Database, tenant: TenantId, act: Act) -> None:
    """At least one row in every table that has tenants' rows."""
    await signing_keys(database)
    async with database.tenant(tenant) as conn:
        actor = await an_actor(conn, tenant, act)
        await apikeys.create(conn, tenant, actor, pepper=PEPPER, act=act)
        await a_snapshot(conn, tenant, fact=await a_fact(conn, tenant))
        await a_document_text(conn, tenant)
        await an_export(conn, tenant, version=await a_passport_version(conn, tenant, status="SIGNED"))
        await a_compile_run(conn, tenant, await a_rule_version(conn, tenant))
        await a_policy_version(conn, tenant)
        await a_webhook(conn, tenant, await an_event(conn, tenant, act))
        await an_idempotency_key(conn, tenant)
        await a_rate_bucket(conn, tenant)
    async with database.system(tenant) as conn:
        await an_anchor(conn, tenant, act)
        await jobs_in_every_place(conn, tenant)


async def jobs_in_every_place(conn: Connection, tenant: TenantId) -> None:
    """A job that is ready, one that is due later, one that runs, one that waits for the others; a batch, a schedule."""
    batch, at = fresh.new_id(), fresh.now()
    ready, runs = await submitted(conn, tenant, limit_key="press", batch=batch), await submitted(conn, tenant)
    await submitted(conn, tenant, delay=3600.0)
    await submitted(conn, tenant, needs=[ready, runs])
    await conn.execute("DELETE FROM jobs.job_ready WHERE tenant_id = $1 AND job_id = $2", tenant, runs)
    of_job = {"tenant_id": tenant, "job_id": runs, "type": "WORK", "priority": 2, "limit_key": ""}
    await insert(conn, "jobs.job_lease", **of_job, owner="w", attempt=1, started_at=at, lease_until=at)
    await insert(conn, "jobs.batch", tenant_id=tenant, batch_id=batch, total=1, created_at=at)
    when = {"cron": "0 0 * * *", "time_zone": "UTC", "catch_up": "skip", "next_at": at, "created_at": at}
    what = {"type": "WORK", "payload": "{}", "max_attempts": 1, "keep_seconds": 0}
    await insert(conn, "jobs.schedule", tenant_id=tenant, name="nightly", **when, **what)


async def submitted(
    conn: Connection,
    tenant: TenantId,
    *,
    limit_key: str | None = None,
    delay: float | None = None,
    batch: UUID | None = None,
    needs: list[UUID] | None = None,
) -> UUID:
    """A job, submitted in the transaction of `conn`."""
    ids: list[UUID] = await conn.fetchval(
        "SELECT jobs.submit($1, 'WORK', $2, $3, NULL, $4, $5, 1, 2::smallint, 5, 60, $6, $7, NULL, NULL, NULL)",
        tenant,
        [fresh.new_id()],
        ["{}"],
        None if delay is None else [delay],
        None if limit_key is None else [limit_key],
        batch,
        needs,
    )
    return ids[0]
