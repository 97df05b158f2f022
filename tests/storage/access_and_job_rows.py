"""The smallest honest rows of policies, view grants, webhooks, idempotency keys, rate limits, the log and jobs."""

from datetime import timedelta
from uuid import UUID

from bpc.core.audit.events import Act
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import PassportId, TenantId
from bpc.core.view_grants import GrantBounds, GrantSubject, RequestWords
from bpc.runtime import clock
from bpc.storage.access import view_grants, view_requests
from bpc.storage.access.view_grants import NewViewGrant
from bpc.storage.connection import Connection
from tests.storage.statements import insert_row


async def insert_policy_version(conn: Connection, tenant: TenantId) -> UUID:
    policy, version = clock.new_id(), clock.new_id()
    await insert_row(conn, "policies", tenant_id=tenant, policy_id=policy, name=f"policy {policy}")
    await insert_row(
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


async def insert_log_rows(conn: Connection, tenant: TenantId) -> None:
    """A row that waits for the log, and an entry with its opening, checkpoint and proof. Needs the system role."""
    index = int.from_bytes(clock.random_bytes(4))  # another one for each tenant
    aggregate = {"aggregate_type": "PassportVersion", "aggregate_id": clock.new_id()}
    await insert_row(
        conn,
        "log_outbox",
        tenant_id=tenant,
        event_type="PASSPORT_SIGNED",
        aggregate_version=1,
        occurred_at=clock.now(),
        event_hash=sha256(b"event"),
        payload_canonical=b"{}",
        **aggregate,
    )
    await insert_row(conn, "log_entries", log_index=index, entry=b"\x01" + sha256(b"entry"))
    await insert_row(
        conn,
        "log_openings",
        tenant_id=tenant,
        log_index=index,
        kind="PASSPORT_ISSUED",
        statement=b"{}",
        salt=bytes(32),
        **aggregate,
    )
    await insert_row(conn, "log_checkpoints", size=index + 1, root=sha256(b"root"), note=b"note", has_quorum=True)
    await insert_row(conn, "log_proofs", tenant_id=tenant, log_index=index, size=index + 1, hashes=sha256(b"hash"))


async def insert_status_rows(conn: Connection, tenant: TenantId) -> None:
    """A signed list with one entry, and a statement about it. Needs the system role."""
    version, list_id, now = clock.new_id(), clock.new_id(), clock.now()
    await insert_row(conn, "status_lists", tenant_id=tenant, list_id=list_id)
    await conn.execute(
        "UPDATE status_lists SET document = '{}', signed_at = $2, valid_until = $2 WHERE list_id = $1", list_id, now
    )
    about = {"tenant_id": tenant, "passport_version_id": version}
    await insert_row(conn, "status_entries", list_id=list_id, list_index=7, **about)
    await insert_row(conn, "status_statements", state=0, document=b"{}", signed_at=now, **about)


async def insert_webhook(conn: Connection, tenant: TenantId, event: UUID) -> UUID:
    """An endpoint, subscribed to one type, with one delivery of `event`."""
    endpoint = clock.new_id()
    await insert_row(
        conn,
        "webhook_endpoints",
        tenant_id=tenant,
        webhook_endpoint_id=endpoint,
        url="https://example.com/hook",
        secret_base64="AA==",
    )
    await insert_row(
        conn,
        "webhook_subscriptions",
        tenant_id=tenant,
        webhook_subscription_id=clock.new_id(),
        webhook_endpoint_id=endpoint,
        event_type="passport.version.active",
    )
    await insert_row(
        conn,
        "webhook_deliveries",
        tenant_id=tenant,
        webhook_delivery_id=clock.new_id(),
        webhook_endpoint_id=endpoint,
        event_id=event,
        status="PENDING",
    )
    return endpoint


async def insert_session(conn: Connection, tenant: TenantId, actor: UUID) -> None:
    """A session of the console that has ended, of somebody whom a provider knows."""
    now = clock.now()
    await insert_row(
        conn,
        "actor_identities",
        tenant_id=tenant,
        identity_hash=sha256(actor.bytes),
        actor_id=actor,
        issuer="https://login.example",
        created_at=now,
    )
    await insert_row(
        conn,
        "console_sessions",
        tenant_id=tenant,
        session_id=clock.new_id(),
        actor_id=actor,
        secret_hash=bytes(32),
        sign_in="OIDC",
        device="Firefox, Linux",
        created_at=now,
        expires_at=now,
        ended_at=now,
    )


async def insert_approval(conn: Connection, tenant: TenantId, actor: UUID) -> None:
    """A request that waited for a second person, and was taken back."""
    now = clock.now()
    await insert_row(
        conn,
        "approvals",
        tenant_id=tenant,
        approval_id=clock.new_id(),
        action="revoke",
        permission="passport:revoke",
        method="POST",
        path="/v1/passport-versions",
        content_type="application/json",
        body=b"{}",
        requested_by=actor,
        requested_at=now,
        expires_at=now,
        status="REJECTED",
        decided_by=actor,
        decided_at=now,
    )


async def insert_view_grants(conn: Connection, tenant: TenantId, passport: UUID, act: Act) -> None:
    """A request that was approved and whose words were removed, and a grant that was revoked."""
    subject = GrantSubject(passport_id=PassportId(passport))
    words = RequestWords(name="A", contact="B", purpose="C")
    request = await view_requests.ask(conn, tenant, subject, "interest", words, now=act.at)
    await view_requests.record_approved_request(conn, tenant, request, act=act)
    await view_requests.remove_words(conn, tenant, request, act=act)
    bounds = GrantBounds(scope="ALL", expires_at=act.at + timedelta(days=1))
    grant = NewViewGrant(grantee="A", audience="interest", bounds=bounds, view_request_id=request)
    issued = await view_grants.create_grant(conn, tenant, grant, pepper=b"pepper", act=act)
    await view_grants.accept_terms(conn, tenant, issued.grant.view_grant_id, "terms", now=act.at)
    await view_grants.revoke_grant(conn, tenant, issued.grant.view_grant_id, reason="over", act=act)


async def insert_idempotency_key(conn: Connection, tenant: TenantId) -> None:
    await insert_row(
        conn,
        "idempotency_keys",
        tenant_id=tenant,
        key="once",
        request_hash=sha256(b"request"),
        response_status=201,
        response_headers="{}",
        response_body=b"{}",
    )


async def insert_rate_bucket(conn: Connection, tenant: TenantId) -> None:
    await insert_row(
        conn,
        "rate_limit_buckets",
        tenant_id=tenant,
        key_hash=sha256(b"key"),
        capacity=10,
        tokens=10,
        refill_per_second=1,
        updated_at=clock.now(),
    )


async def insert_jobs_in_every_state(conn: Connection, tenant: TenantId) -> None:
    """A job that is ready, one that is due later, one that runs, one that waits for the others; a batch, a schedule."""
    batch, at = clock.new_id(), clock.now()
    ready, running = await submit_job(conn, tenant, limit_key="press", batch=batch), await submit_job(conn, tenant)
    await submit_job(conn, tenant, delay=3600.0)
    await submit_job(conn, tenant, needs=[ready, running])
    await conn.execute("DELETE FROM jobs.job_ready WHERE tenant_id = $1 AND job_id = $2", tenant, running)
    job_columns = {"tenant_id": tenant, "job_id": running, "type": "WORK", "priority": 2, "limit_key": ""}
    await insert_row(conn, "jobs.job_lease", **job_columns, owner="w", attempt=1, started_at=at, lease_until=at)
    await insert_row(conn, "jobs.batch", tenant_id=tenant, batch_id=batch, total=1, created_at=at)
    schedule_columns = {"cron": "0 0 * * *", "time_zone": "UTC", "catch_up": "skip", "next_at": at, "created_at": at}
    template_columns = {"type": "WORK", "payload": "{}", "max_attempts": 1, "keep_seconds": 0}
    await insert_row(conn, "jobs.schedule", tenant_id=tenant, name="nightly", **schedule_columns, **template_columns)


async def submit_job(
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
        [clock.new_id()],
        ["{}"],
        None if delay is None else [delay],
        None if limit_key is None else [limit_key],
        batch,
        needs,
    )
    return ids[0]
