"""Fill a tenant with at least one row of everything."""

from base64 import b64encode
from datetime import timedelta

from service_jobs.schedules import Schedule, put_schedule

from bpc.core.audit.events import Act, EventStream
from bpc.core.audit.signing import derive_public_key, parse_seed
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import AggregateId
from bpc.core.policies import ROLES, encode_policy
from bpc.runtime import clock
from bpc.storage.access import api_keys, tenants_and_actors
from bpc.storage.audit import events, tenant_keys
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from bpc.storage.schedules import compute_schedule_id
from tests.api.battery_rows import insert_batteries, insert_transfers
from tests.api.conftest import PEPPER
from tests.api.evidence_rows import insert_documents
from tests.api.passport_rows import insert_passports, insert_rules, insert_status_documents
from tests.api.tenant_data import PAST_TIME, FilledTenant, StoredTenant, add_id, get_id, store_tenant
from tests.api.view_grant_rows import insert_view_grants
from tests.storage.statements import insert_row


async def fill_tenant(database: Database, slug: str) -> StoredTenant:
    """A new tenant, filled."""
    act, mark = Act(None, clock.now()), f"quokka-{slug}"
    tenant = await tenants_and_actors.create_tenant(database, slug=slug, name=f"{mark} tenant", act=act)
    tenant_data = FilledTenant(tenant, mark, {})
    async with database.tenant(tenant) as conn:
        keys = await _insert_people(conn, tenant_data, act)
        await insert_documents(conn, tenant_data)
        await insert_rules(conn, tenant_data)
        await insert_passports(conn, tenant_data)
        await insert_batteries(conn, tenant_data, act)
        await _insert_webhooks(conn, tenant_data, act)
        await _insert_approvals(conn, tenant_data)
        await insert_view_grants(conn, tenant_data, act)
    async with database.system(tenant) as conn:
        await _insert_signing_keys(conn, tenant_data, slug, act)
        await insert_status_documents(conn, tenant_data)
        await _insert_jobs(conn, tenant_data)
        await _insert_schedules(conn, tenant_data)
        await _insert_compile_run(conn, tenant_data)
    await insert_transfers(database, tenant_data, act)
    return store_tenant(tenant_data, keys)


async def _insert_people(conn: Connection, tenant_data: FilledTenant, act: Act) -> dict[str, str]:
    """Actors, roles and policies; return a key for each role."""
    tenant, mark = tenant_data.tenant, tenant_data.mark
    keys: dict[str, str] = {}
    for role in ROLES:
        actor = await tenants_and_actors.create_actor(
            conn, tenant, kind="API_CLIENT", display_name=f"{mark} {role}", roles=[role], act=act
        )
        issued = await api_keys.create_key(conn, tenant, actor, pepper=PEPPER, act=act)
        keys[role] = issued.api_key.text
    for name in ("actor_id", "idle_actor_id"):
        actor = await tenants_and_actors.create_actor(
            conn, tenant, kind="USER", display_name=f"{mark} spare", roles=["Auditor"], act=act
        )
        tenant_data.ids[name] = str(actor)
        for key in ("api_key_id", "idle_api_key_id") if name == "actor_id" else ():
            issued = await api_keys.create_key(conn, tenant, actor, pepper=PEPPER, act=act, label=f"{mark} label")
            tenant_data.ids[key] = str(issued.api_key_id)
    role_id = add_id(tenant_data, "role_id")
    await insert_row(conn, "roles", tenant_id=tenant, role_id=role_id, name=f"{mark} role")
    await insert_row(conn, "role_permissions", tenant_id=tenant, role_id=role_id, permission="docs:read")
    for start in ("", "idle_"):
        await _insert_policy(conn, tenant_data, start)
    return keys


async def _insert_signing_keys(conn: Connection, tenant_data: FilledTenant, slug: str, act: Act) -> None:
    """Three keys, of which nobody stops the newest: it signs."""
    tenant = await tenants_and_actors.get_tenant_by_slug(conn, slug)
    for number, name in enumerate(("idle_key_id", "stolen_key_id", "key_id")):
        tenant_data.ids[name] = f"{tenant_data.mark}-{number}"
        public_key = derive_public_key(parse_seed(sha256(tenant_data.ids[name].encode())))
        act = Act(None, act.at + timedelta(microseconds=number))
        await tenant_keys.create_tenant_key(conn, tenant, tenant_data.ids[name], public_key, act=act)


async def _insert_policy(conn: Connection, tenant_data: FilledTenant, start: str) -> None:
    """In force, and over since long: it decides nothing."""
    policy_json = {"not_after": PAST_TIME, "roles": [f"{tenant_data.mark} role"]}
    policy = add_id(tenant_data, f"{start}policy_id")
    await insert_row(
        conn, "policies", tenant_id=tenant_data.tenant, policy_id=policy, name=f"{tenant_data.mark} {start}policy"
    )
    await insert_row(
        conn,
        "policy_versions",
        tenant_id=tenant_data.tenant,
        policy_version_id=add_id(tenant_data, f"{start}policy_version_id"),
        policy_id=policy,
        version=1,
        effect="DENY",
        target="docs:read",
        policy_json=canonical_json.encode(policy_json).decode(),
        policy_canonical=encode_policy("DENY", policy_json, 100, "docs:read"),
        policy_hash=sha256(encode_policy("DENY", policy_json, 100, "docs:read")),
    )


async def _insert_approvals(conn: Connection, tenant_data: FilledTenant) -> None:
    """Requests that every role may confirm: an export of a passport version."""
    now = clock.now()
    for start in ("", "idle_"):
        await insert_row(
            conn,
            "approvals",
            tenant_id=tenant_data.tenant,
            approval_id=add_id(tenant_data, f"{start}approval_id"),
            action="activate",
            permission="passport:read",
            method="POST",
            path=f"/v1/passport-versions/{tenant_data.ids['passport_version_id']}/exports",
            content_type="application/json",
            body=b'{"format":"PDF"}',
            requested_by=get_id(tenant_data, "idle_actor_id"),
            requested_at=now,
            expires_at=now + timedelta(days=1),
        )


async def _insert_webhooks(conn: Connection, tenant_data: FilledTenant, act: Act) -> None:
    stream = EventStream(tenant_data.tenant, "Document", AggregateId(get_id(tenant_data, "document_id")))
    event = await events.append(
        conn, stream, act.new_event("DOCUMENT_CREATED", {"external_ref": f"{tenant_data.mark} ref"})
    )
    tenant_data.ids["event_id"] = str(event.event_id)
    for start in ("", "idle_"):
        endpoint = add_id(tenant_data, f"{start}webhook_endpoint_id")
        await insert_row(
            conn,
            "webhook_endpoints",
            tenant_id=tenant_data.tenant,
            webhook_endpoint_id=endpoint,
            url=f"https://example.com/{tenant_data.mark}",
            secret_base64=b64encode(sha256(f"{tenant_data.mark}{start}".encode())).decode(),
        )
        await insert_row(
            conn,
            "webhook_subscriptions",
            tenant_id=tenant_data.tenant,
            webhook_subscription_id=add_id(tenant_data, f"{start}webhook_subscription_id"),
            webhook_endpoint_id=endpoint,
            event_type="passport.version.active",
        )
        await insert_row(
            conn,
            "webhook_deliveries",
            tenant_id=tenant_data.tenant,
            webhook_delivery_id=add_id(tenant_data, f"{start}webhook_delivery_id"),
            webhook_endpoint_id=endpoint,
            event_id=event.event_id,
            status="FAILED",
        )
    for start, disabled_at in (("spare_", None), ("disabled_", clock.now())):
        await insert_row(
            conn,
            "webhook_endpoints",
            tenant_id=tenant_data.tenant,
            webhook_endpoint_id=add_id(tenant_data, f"{start}webhook_endpoint_id"),
            url=f"https://example.com/{tenant_data.mark}",
            secret_base64=b64encode(sha256(f"{tenant_data.mark}{start}".encode())).decode(),
            is_active=disabled_at is None,
            disabled_at=disabled_at,
            disabled_reason=None if disabled_at is None else "maintenance",
        )


async def _insert_jobs(conn: Connection, tenant_data: FilledTenant) -> None:
    order = canonical_json.encode(
        {"document_version_id": tenant_data.ids["document_version_id"], "actor_id": None}
    ).decode()
    for name, status in [("job_id", "QUEUED"), ("failed_job_id", "FAILED"), ("done_job_id", "SUCCEEDED")]:
        at = clock.now()
        if status == "QUEUED":
            submitted = await conn.fetchval(
                "SELECT jobs.submit($1, 'PARSE_FACTS', $2, $3, NULL, NULL, NULL, 1, 2::smallint, 5, 60, NULL, NULL,"
                " NULL, NULL, NULL)",
                tenant_data.tenant,
                [add_id(tenant_data, name)],
                [order],
            )
            tenant_data.ids[name] = str(submitted[0])
            continue
        await insert_row(
            conn,
            "jobs.job",
            tenant_id=tenant_data.tenant,
            job_id=add_id(tenant_data, name),
            type="PARSE_FACTS",
            status=status,
            attempts=1,
            max_attempts=5,
            payload=order,
            result="null" if status == "SUCCEEDED" else None,
            last_error=_ERROR if status == "FAILED" else None,
            created_at=at,
            scheduled_at=at,
            started_at=at,
            finished_at=at,
            failed_at=at if status == "FAILED" else None,
            keep_seconds=1_000_000,
        )


async def _insert_schedules(conn: Connection, tenant_data: FilledTenant) -> None:
    for name in ("schedule_id", "idle_schedule_id"):
        schedule = Schedule(
            name=f"{tenant_data.mark} {name}", cron="0 4 * * *", type="REPLAY_AUDIT", payload='{"sample": 1}'
        )
        await put_schedule(conn, tenant_data.tenant, schedule)
        tenant_data.ids[name] = str(compute_schedule_id(tenant_data.tenant, schedule.name))


async def _insert_compile_run(conn: Connection, tenant_data: FilledTenant) -> None:
    """A run that nobody begins: one row, without a job."""
    run = add_id(tenant_data, "run_id_of_compiles")
    of_run = {"tenant_id": tenant_data.tenant, "run_id": run, "activate": False}
    rules = get_id(tenant_data, "published_version_id")
    await insert_row(conn, "compile_runs", **of_run, rule_package_version_id=rules, total=1)
    await insert_row(
        conn,
        "compile_run_rows",
        **of_run,
        row_number=1,
        sku=f"SKU-{tenant_data.mark}-bulk",
        name=f"{tenant_data.mark} name",
    )


_ERROR = '{"code":"VALIDATION_ERROR","message":"the document has no battery","retryable":false,"details":{}}'
