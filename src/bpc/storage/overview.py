"""Where a tenant stands, in figures: how much there is of each step, and what needs somebody.

A count ends at `MOST_COUNTED`, so that it takes the same few milliseconds for a million rows: each statement reads one
index, and no more of it than that.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, LiteralString

from bpc.core.formats.ids import TenantId
from bpc.storage.connection import Connection

MOST_COUNTED: Final = 10_000
EXPIRES_SOON: Final = timedelta(days=30)


def _count(table: LiteralString, where: LiteralString = "true") -> LiteralString:
    return f"(SELECT count(*) FROM (SELECT FROM {table} WHERE tenant_id = $1 AND {where} LIMIT $2) AS counted)"


EVIDENCE_COUNTS: Final[Mapping[str, LiteralString]] = {
    "documents": _count("document_versions"),
    "facts": _count("facts", "fact_type <> 'Blinding'"),
    "rejected_documents": _count("document_versions", "status = 'REJECTED'"),
}
SNAPSHOT_COUNTS: Final[Mapping[str, LiteralString]] = {"snapshots": _count("data_snapshots", "status = 'SEALED'")}
PASSPORT_COUNTS: Final[Mapping[str, LiteralString]] = {
    "products": _count("battery_products", "is_active"),
    "compiled": _count("passport_versions"),
    "compiling": _count("passport_versions", "status = 'COMPILING' AND abandoned_at IS NULL"),
    "signed": _count("passport_versions", "status <> 'COMPILING'"),
    "coded": _count("passport_versions", "status <> 'COMPILING' AND qr_png IS NOT NULL"),
    "active": _count("passport_versions", "status = 'ACTIVE'"),
    "replayed": _count("passport_versions", "status = 'ACTIVE' AND replayed_at IS NOT NULL"),
    "can_be_activated": _count("passport_versions", "status = 'SIGNED' AND abandoned_at IS NULL AND fail_count = 0"),
}
JOB_COUNTS: Final[Mapping[str, LiteralString]] = {
    "failed_jobs": _count("jobs.job", "failed_at IS NOT NULL AND status IN ('FAILED', 'DEAD_LETTER')")
}
APPROVAL_COUNTS: Final[Mapping[str, LiteralString]] = {
    "waiting_approvals": _count("approvals", "status = 'PENDING' AND expires_at > $3")
}
KEY_COUNTS: Final[Mapping[str, LiteralString]] = {
    "expiring_keys": _count("api_keys", "revoked_at IS NULL AND expires_at > $3 AND expires_at < $4")
}


async def count_rows(
    conn: Connection, tenant: TenantId, counts: Mapping[str, LiteralString], *, now: datetime
) -> dict[str, int]:
    """These counts, each at most `MOST_COUNTED`."""
    if not counts:
        return {}
    columns = ", ".join(f"{expression} AS {name}" for name, expression in counts.items())
    # Every parameter has a type, also where no count needs it.
    query = f"SELECT {columns}, $3::timestamptz AS now, $4::timestamptz AS soon"
    row = await conn.fetchrow(query, tenant, MOST_COUNTED, now, now + EXPIRES_SOON)
    return {} if row is None else {name: row[name] for name in counts}
