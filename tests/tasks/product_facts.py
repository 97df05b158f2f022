"""Products that something is known of: their facts, as if documents had said them."""

from collections.abc import Sequence
from datetime import datetime

from bpc import fresh
from bpc.core import canon
from bpc.core.digest import sha256
from bpc.core.documents import ReadFact
from bpc.core.facts import SnapshotFact
from bpc.core.ids import DocumentVersionId, TenantId
from bpc.db import facts
from bpc.db.connection import Connection
from tests.db.rows import insert


def battery(sku: str, capacity: str = "75.500000") -> SnapshotFact:
    return _fact("Battery", f"battery:{sku}", {"sku": sku, "capacity_kwh": capacity})


def footprint(sku: str, total: str = "6040.00") -> SnapshotFact:
    return _fact("PCF", f"pcf:{sku}", {"sku": sku, "total_gco2e": total})


def component(sku: str, part: str) -> SnapshotFact:
    return _fact("Component", f"component:{sku}:{part}", {"sku": sku, "part": part})


async def say(
    conn: Connection, tenant: TenantId, said: Sequence[SnapshotFact], *, at: datetime | None = None
) -> DocumentVersionId:
    """A document that says these facts, uploaded at this moment."""
    document, version, at = fresh.new_id(), DocumentVersionId(fresh.new_id()), at or fresh.now()
    content = str(version).encode()
    await insert(conn, "documents", tenant_id=tenant, document_id=document, kind="BOM")
    await insert(
        conn,
        "document_versions",
        tenant_id=tenant,
        document_version_id=version,
        document_id=document,
        version=1,
        status="VALIDATED",
        mime_type="application/json",
        sha256=sha256(content),
        content=content,
        uploaded_at=at,
    )
    await facts.add(conn, tenant, version, [_read(fact) for fact in said], at=at)
    return version


async def describe(conn: Connection, tenant: TenantId, *skus: str) -> None:
    """All that the rules of the tests read, of each of these."""
    for sku in skus:
        await say(conn, tenant, [battery(sku), footprint(sku), component(sku, "cell")])


def _fact(kind: str, key: str, payload: dict[str, str]) -> SnapshotFact:
    return SnapshotFact(fact_type=kind, fact_key=key, schema_version=1, payload=payload)


def _read(fact: SnapshotFact) -> ReadFact:
    canonical = canon.encode(fact.payload)
    return ReadFact(
        fact_type=fact.fact_type,
        fact_key=fact.fact_key,
        schema_version=fact.schema_version,
        payload_canonical=canonical,
        payload_hash=sha256(canonical),
        source_path="/",
    )
