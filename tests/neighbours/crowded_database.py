"""Two tenants on one installation: `loud`, with much of everything, and `quiet`, who reads a short list."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from bpc.core.audit.events import EMPTY_CHAIN, Act, AuditEvent, ChainHead, EventStream
from bpc.core.audit.signing import derive_public_key
from bpc.core.formats.ids import AggregateId, RulePackageVersionId, TenantId
from bpc.runtime import clock
from bpc.storage.access import api_keys, tenants_and_actors
from bpc.storage.audit import signing_keys
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from tests.api.conftest import KEY_ID, PEPPER, SEED, create_key
from tests.pipeline.compile_fixtures import publish_rules
from tests.storage.evidence_rows import insert_document_version
from tests.tasks.product_facts import insert_product_facts

INSERT_DOCUMENTS = """
    INSERT INTO documents (tenant_id, document_id, kind, name, created_at)
    SELECT $1, gen_random_uuid(), 'OTHER', 'document ' || n, now() - make_interval(secs => n)
      FROM generate_series(1, $2) AS n
"""
INSERT_VERSIONS = """
    INSERT INTO document_versions
           (tenant_id, document_version_id, document_id, version, status, mime_type, sha256, content)
    SELECT d.tenant_id, gen_random_uuid(), d.document_id, n, 'VALIDATED', 'application/json',
           sha256((d.document_id::text || n)::bytea), (d.document_id::text || n)::bytea
      FROM documents d, generate_series(1, $2) AS n
     WHERE d.tenant_id = $1
"""
EVENT_COLUMNS = (
    "tenant_id",
    "event_id",
    "aggregate_type",
    "aggregate_id",
    "aggregate_version",
    "event_type",
    "occurred_at",
    "actor_id",
    "payload",
    "payload_canonical",
    "payload_hash",
    "prev_event_hash",
    "event_hash",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdedInstallation:
    """Keys and ids that the abuses and the neighbour use."""

    quiet_key: str
    loud_key: str
    auditor_key: str
    revoked_key: str
    rules: RulePackageVersionId
    large_document: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """How much `loud` has."""

    documents: int = 200
    versions: int = 20
    events: int = 20_000
    products: int = 200
    download_bytes: int = 20_000_000


async def fill_installation(database: Database, superuser: Any, amounts: Amounts) -> CrowdedInstallation:
    act = Act(None, clock.now())
    await signing_keys.register_key(database, KEY_ID, derive_public_key(SEED), act=act)
    quiet = await tenants_and_actors.create_tenant(database, slug="quiet", name="Quiet", act=act)
    loud = await tenants_and_actors.create_tenant(database, slug="loud", name="Loud", act=act)
    async with database.tenant(quiet) as conn:
        await conn.execute(INSERT_DOCUMENTS, quiet, 10)
    async with database.tenant(loud) as conn:
        await conn.execute(INSERT_DOCUMENTS, loud, amounts.documents)
        await conn.execute(INSERT_VERSIONS, loud, amounts.versions)
        large = await insert_document_version(
            conn, loud, status="VALIDATED", content=clock.random_bytes(amounts.download_bytes)
        )
        await insert_product_facts(conn, loud, *(f"SKU-{number}" for number in range(amounts.products)))
        rules = await publish_rules(conn, loud, act)
    await insert_events(superuser, loud, amounts.events)
    await superuser.execute("ANALYZE")
    return CrowdedInstallation(
        quiet_key=await create_key(database, quiet, "Admin", act),
        loud_key=await create_key(database, loud, "Admin", act),
        auditor_key=await create_key(database, loud, "Auditor", act),
        revoked_key=await _create_revoked_key(database, loud, act),
        rules=rules,
        large_document=large,
    )


async def _create_revoked_key(database: Database, tenant: TenantId, act: Act) -> str:
    async with database.tenant(tenant) as conn:
        actor = await tenants_and_actors.create_actor(
            conn, tenant, kind="API_CLIENT", display_name="gone", roles=["Auditor"], act=act
        )
        issued = await api_keys.create_key(conn, tenant, actor, pepper=PEPPER, act=act)
        await conn.execute("UPDATE api_keys SET revoked_at = now() WHERE actor_id = $1", actor)
    return issued.api_key.text


async def insert_events(superuser: Connection, tenant: TenantId, count: int, *, chain_length: int = 100) -> None:
    """Valid chains of events, as many as `count` events fill."""
    act, rows = Act(None, clock.now()), []
    for _ in range(count // chain_length):
        stream, head = EventStream(tenant, "Document", AggregateId(clock.new_id())), EMPTY_CHAIN
        for number in range(chain_length):
            event = AuditEvent.chain_after(head, stream, act.new_event("DOCUMENT_CREATED", {"number": number}))
            head = ChainHead(event.version, event.event_hash)
            rows.append(_to_row(event))
    await superuser.copy_records_to_table("events", records=rows, columns=EVENT_COLUMNS)


def _to_row(event: AuditEvent) -> tuple[object, ...]:
    return (
        event.stream.tenant_id,
        event.event_id,
        event.stream.aggregate_type,
        event.stream.aggregate_id,
        event.version,
        event.event_type,
        event.occurred_at,
        None,
        event.payload_canonical.decode(),
        event.payload_canonical,
        event.payload_hash,
        event.prev_event_hash,
        event.event_hash,
    )
