"""The smallest honest row of every table, written by the roles the product writes with, never by the superuser.

    async with database.tenant(tenant) as conn:
        version = await insert_passport_version(conn, tenant, status="SIGNED")    # with everything it stands on
    await fill_every_table(database, tenant, act)    # at least one row in every tenant's table

A builder makes what its row refers to, unless it is given. What has a status gets it on insertion, so every
status can be had without walking there.
"""

from typing import Final
from uuid import UUID

from bpc.core.audit.checkpoint import describe_anchors
from bpc.core.audit.events import Act, AuditEvent, ChainHead, EventStream
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import ActorId, AggregateId, PassportVersionId, TenantId
from bpc.core.passport.gate import EntryName
from bpc.runtime import clock
from bpc.storage.access import api_keys, tenant_settings, tenants_and_actors
from bpc.storage.audit import events, retention
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from bpc.storage.passports import waivers
from tests.storage.access_and_job_rows import (
    insert_approval,
    insert_idempotency_key,
    insert_jobs_in_every_state,
    insert_log_rows,
    insert_policy_version,
    insert_rate_bucket,
    insert_session,
    insert_status_rows,
    insert_view_grants,
    insert_webhook,
)
from tests.storage.battery_rows import insert_battery_rows, insert_item_rows, name_items
from tests.storage.evidence_rows import (
    insert_attachment,
    insert_document_text,
    insert_fact,
    insert_snapshot,
    insert_statement_and_decision,
    insert_supplier_rows,
)
from tests.storage.statements import insert_row

PEPPER: Final = b"pepper"
SIGNATURE: Final = bytes(64)
SIGNED_RECEIPT: Final = b'{"receipt_version":"BPC-RECEIPT-1","signature":"AA=="}'
KEY_ID: Final = "key-of-the-tests"
OTHER_KEY_ID: Final = "another-key-of-the-tests"
RULE_STATUSES: Final = ("DRAFT", "VALIDATED", "PUBLISHED", "DEPRECATED", "RETIRED")
PASSPORT_STATUSES: Final = ("COMPILING", "SIGNED", "ACTIVE", "SUPERSEDED", "REVOKED")


async def insert_actor(conn: Connection, tenant: TenantId, act: Act) -> ActorId:
    return await tenants_and_actors.create_actor(
        conn, tenant, kind="USER", display_name="Somebody", roles=["Admin"], act=act
    )


async def insert_event(conn: Connection, tenant: TenantId, act: Act) -> UUID:
    stream = EventStream(tenant, "Document", AggregateId(clock.new_id()))
    return (await events.append(conn, stream, act.new_event("DOCUMENT_CREATED", {}))).event_id


async def insert_anchor(conn: Connection, tenant: TenantId, act: Act) -> None:
    """A chain whose only event retention has removed; takes the system role."""
    stream = EventStream(tenant, "Document", AggregateId(clock.new_id()))
    event = await events.append(conn, stream, act.new_event("DOCUMENT_CREATED", {}))
    cut = await cut_chain(conn, stream, ChainHead(event.version, event.event_hash), act)
    left = retention.RemovedEvent("Document", stream.aggregate_id, event.version, event.event_hash)
    await retention.insert_removed_events(conn, tenant, cut, [left])


async def cut_chain(conn: Connection, stream: EventStream, at: ChainHead, act: Act) -> AuditEvent:
    """Remove the beginning of a chain; return the event that says so. Needs the system role."""
    new_anchors = {stream: at}
    own_chain = EventStream(stream.tenant_id, "Tenant", AggregateId(stream.tenant_id))
    entry = act.new_event("RetentionApplied", {"anchors": describe_anchors(new_anchors)})
    await events.move_anchors(conn, stream.tenant_id, new_anchors)
    retention_event = await events.append(conn, own_chain, entry)
    await events.insert_retention_anchors(conn, stream.tenant_id, retention_event, new_anchors)
    await conn.execute(
        "DELETE FROM events WHERE aggregate_id = $1 AND aggregate_version <= $2", stream.aggregate_id, at.version
    )
    return retention_event


async def _set_rule_status(conn: Connection, version: UUID, status: str) -> None:
    """A rule version gets where it is step by step: its fields come while it is a draft."""
    steps = ["VALIDATED", "PUBLISHED", "DEPRECATED", "RETIRED"]
    for step in steps[: steps.index(status) + 1] if status in steps else []:
        await conn.execute(
            """UPDATE rule_package_versions SET status = $2::rule_pkg_status,
                      published_at = CASE WHEN $2 = 'PUBLISHED' THEN $3 ELSE published_at END
                WHERE rule_package_version_id = $1""",
            version,
            step,
            clock.now(),
        )


async def insert_rule_version(conn: Connection, tenant: TenantId, *, status: str = "DRAFT") -> UUID:
    """A version of a package of its own, with one field and one test run."""
    package, version = clock.new_id(), clock.new_id()
    source = b"-- %s" % str(version).encode()
    await insert_row(conn, "rule_packages", tenant_id=tenant, rule_package_id=package, name=f"rules {package}")
    await insert_row(
        conn,
        "rule_catalogues",
        tenant_id=tenant,
        rule_package_id=package,
        language="de",
        content=source,
        sha256=sha256(source),
        texts=0,
        stored_at=clock.now(),
    )
    await insert_row(
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
    await insert_row(
        conn,
        "rule_fields",
        tenant_id=tenant,
        rule_field_id=clock.new_id(),
        rule_package_version_id=version,
        field_path="sku",
        field_type="Text",
        audiences=["public"],
    )
    await insert_row(
        conn,
        "rule_tests_runs",
        tenant_id=tenant,
        run_id=clock.new_id(),
        rule_package_version_id=version,
        seed=1,
        cases=500,
        passed=500,
        failed=0,
        discarded=0,
        status="PASSED",
    )
    await _set_rule_status(conn, version, status)
    return version


async def insert_passport(conn: Connection, tenant: TenantId) -> UUID:
    product, passport = clock.new_id(), clock.new_id()
    await insert_row(
        conn, "battery_products", tenant_id=tenant, battery_product_id=product, sku=f"SKU-{product}", name="Cell"
    )
    await insert_row(conn, "passports", tenant_id=tenant, passport_id=passport, battery_product_id=product)
    return passport


async def insert_passport_version(
    conn: Connection, tenant: TenantId, *, status: str = "COMPILING", passport: UUID | None = None, **columns: object
) -> UUID:
    """A version in any status, with what that status brings; `other` sets columns besides. Needs `signing_keys`."""
    version, now = clock.new_id(), clock.now()
    payload = b'{"version":"%s"}' % str(version).encode()
    is_signed = status != "COMPILING"
    values: dict[str, object] = {
        "tenant_id": tenant,
        "passport_version_id": version,
        "passport_id": passport or await insert_passport(conn, tenant),
        "status": status,
        "activated_at": now if status in {"ACTIVE", "SUPERSEDED"} else None,
        "superseded_at": now if status == "SUPERSEDED" else None,
        "revoked_at": now if status == "REVOKED" else None,
        "snapshot_id": await insert_snapshot(conn, tenant, status="SEALED"),
        "rule_package_version_id": await insert_rule_version(conn, tenant, status="PUBLISHED"),
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
    await insert_row(conn, "passport_versions", **(values | columns))
    return version


async def insert_export(
    conn: Connection, tenant: TenantId, *, version: UUID | None = None, status: str = "PENDING", **columns: object
) -> UUID:
    """An export in any status, of `version` or of one of its own. Needs `signing_keys`."""
    export, content = clock.new_id(), b"<passport/>" if status == "READY" else None
    values: dict[str, object] = {
        "tenant_id": tenant,
        "export_id": export,
        "passport_version_id": version or await insert_passport_version(conn, tenant, status="SIGNED"),
        "format": "XML",
        "audience": "tenant",
        "status": status,
        "mime_type": "application/xml",
        "file_name": "passport.xml",
        "content": content,
        "sha256": None if content is None else sha256(content),
        "last_error": "{}" if status == "FAILED" else None,
        "job_id": clock.new_id(),
        "finished_at": None if status == "PENDING" else clock.now(),
    }
    await insert_row(conn, "passport_exports", **(values | columns))
    return export


async def insert_setting_and_waiver(
    conn: Connection, tenant: TenantId, act: Act, *, version: UUID | None = None
) -> None:
    """A setting that is not the default, and an entry of a version that is waived."""
    await tenant_settings.change_settings(conn, tenant, {"minimum_branch_coverage_pct": 90}, act=act)
    waived = PassportVersionId(version or await insert_passport_version(conn, tenant, status="SIGNED"))
    entries = {EntryName("C1", "battery.mass"): 1}
    await waivers.insert_waivers(conn, tenant, waived, entries, reason="It was weighed.", act=act)


async def insert_compile_run(conn: Connection, tenant: TenantId, rules: UUID) -> UUID:
    """A run with one row."""
    run = clock.new_id()
    await insert_row(
        conn,
        "compile_runs",
        tenant_id=tenant,
        run_id=run,
        rule_package_version_id=rules,
        activate=False,
        total=1,
        cancelled_at=clock.now(),
    )
    await insert_row(
        conn,
        "compile_run_rows",
        tenant_id=tenant,
        run_id=run,
        row_number=1,
        sku="SKU-1",
        activate=False,
        passport_version_id=clock.new_id(),
    )
    return run


async def insert_signing_keys(database: Database) -> None:
    """Two keys of the installation, once."""
    async with database.system() as conn:
        for key_id in (KEY_ID, OTHER_KEY_ID):
            await conn.execute(
                "INSERT INTO signing_keys (key_id, public_key) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                key_id,
                sha256(key_id.encode()),
            )


async def fill_every_table(database: Database, tenant: TenantId, act: Act) -> None:
    """At least one row in every table that has tenants' rows."""
    await insert_signing_keys(database)
    async with database.tenant(tenant) as conn:
        actor = await insert_actor(conn, tenant, act)
        await api_keys.create_key(conn, tenant, actor, pepper=PEPPER, act=act)
        await insert_snapshot(conn, tenant, fact=await insert_fact(conn, tenant))
        await insert_document_text(conn, tenant)
        await insert_statement_and_decision(conn, tenant, act)
        await insert_supplier_rows(conn, tenant)
        await insert_attachment(conn, tenant)
        await insert_export(conn, tenant, version=await insert_passport_version(conn, tenant, status="SIGNED"))
        await insert_compile_run(conn, tenant, await insert_rule_version(conn, tenant))
        await insert_setting_and_waiver(conn, tenant, act)
        await insert_policy_version(conn, tenant)
        await insert_webhook(conn, tenant, await insert_event(conn, tenant, act))
        await insert_idempotency_key(conn, tenant)
        await insert_approval(conn, tenant, actor)
        await insert_session(conn, tenant, actor)
        await insert_view_grants(conn, tenant, await insert_passport(conn, tenant), act)
        await insert_rate_bucket(conn, tenant)
        battery = await insert_battery_rows(conn, tenant, act)
        model = await insert_passport_version(conn, tenant, status="SIGNED")
        ids = name_items(tenant, battery, *(clock.new_id() for _ in range(3)))
        await insert_item_rows(conn, ids, model, at=act.at)
    async with database.system(tenant) as conn:
        await insert_anchor(conn, tenant, act)
        await insert_log_rows(conn, tenant)
        await insert_status_rows(conn, tenant)
        await insert_jobs_in_every_state(conn, tenant)
