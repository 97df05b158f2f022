"""Products with facts, stored as if they had been read from documents."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from bpc.core.audit.events import Act
from bpc.core.documents.elements import UnreadableMember
from bpc.core.documents.reader import ExtractedFact
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import DocumentId, DocumentVersionId, TenantId
from bpc.runtime import clock
from bpc.storage.connection import Connection
from bpc.storage.evidence import facts, statements
from tests.storage.evidence_rows import insert_document_version


def make_battery(sku: str, capacity: str = "75.500000") -> SnapshotFact:
    return make_fact("Battery", f"battery:{sku}", {"sku": sku, "capacity_kwh": capacity})


def make_footprint(sku: str, total: str = "6040.00") -> SnapshotFact:
    return make_fact("PCF", f"pcf:{sku}", {"sku": sku, "total_gco2e": total})


def make_component(sku: str, part: str) -> SnapshotFact:
    return make_fact("Component", f"component:{sku}:{part}", {"sku": sku, "part": part})


async def insert_document_facts(
    conn: Connection,
    tenant: TenantId,
    snapshot_facts: Sequence[SnapshotFact],
    *,
    member_places: Mapping[str, str] | None = None,
    unreadable: Mapping[str, tuple[str, str]] | None = None,
    at: datetime | None = None,
) -> DocumentVersionId:
    """A document that says these facts, uploaded at this moment; `unreadable` has the place and reason of members."""
    document, at = DocumentId(clock.new_id()), at or clock.now()
    version = DocumentVersionId(
        await insert_document_version(conn, tenant, status="VALIDATED", document=document, uploaded_at=at)
    )
    await statements.insert_statement(conn, tenant, document, version, act=Act(None, at))
    extracted = [_to_read_fact(fact, member_places or {}, unreadable or {}) for fact in snapshot_facts]
    await facts.insert_facts(conn, tenant, version, extracted, at=at)
    return version


async def insert_product_facts(conn: Connection, tenant: TenantId, *skus: str) -> None:
    """All that the rules of the tests read, of each of these."""
    for sku in skus:
        await insert_document_facts(conn, tenant, [make_battery(sku), make_footprint(sku), make_component(sku, "cell")])


def make_fact(kind: str, key: str, payload: Mapping[str, Json]) -> SnapshotFact:
    return SnapshotFact(fact_type=kind, fact_key=key, schema_version=1, payload=payload)


def _to_read_fact(
    fact: SnapshotFact, member_places: Mapping[str, str], unreadable: Mapping[str, tuple[str, str]]
) -> ExtractedFact:
    canonical = canonical_json.encode(fact.payload)
    return ExtractedFact(
        fact_type=fact.fact_type,
        fact_key=fact.fact_key,
        schema_version=fact.schema_version,
        payload_canonical=canonical,
        payload_hash=sha256(canonical),
        source_path="$",
        member_places=member_places,
        unreadable=tuple(UnreadableMember(member, *values) for member, values in unreadable.items()),
    )
