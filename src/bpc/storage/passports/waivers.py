"""Waivers: compliance entries of one passport version that do not block its activation. Rows are only added.

A waiver belongs to one version. The next version of the passport has none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString

from bpc.core.audit.events import Act
from bpc.core.formats.ids import ActorId, PassportVersionId, TenantId, WaiverId
from bpc.core.passport.gate import EntryName
from bpc.runtime import clock
from bpc.storage.connection import Connection, PageQuery, fetch_rows, make_page_query
from bpc.storage.passports.passports import load_subject_of_version
from bpc.storage.webhooks.webhook_fanout import append_and_announce

INSERT_WAIVERS: Final[LiteralString] = """
    INSERT INTO passport_waivers (tenant_id, waiver_id, passport_version_id, code, field, entries, reason, waived_at,
                                  waived_by)
    SELECT $1, w.waiver_id, $2, w.code, w.field, w.entries, $3, $4, $5
      FROM unnest($6::uuid[], $7::text[], $8::text[], $9::int[]) AS w(waiver_id, code, field, entries)
"""
SELECT_WAIVERS: Final[LiteralString] = """
    SELECT waiver_id, passport_version_id, code, field, entries, reason, waived_at, waived_by FROM passport_waivers
"""
SELECT_WAIVERS_OF_VERSION: Final[LiteralString] = f"""
    {SELECT_WAIVERS} WHERE tenant_id = $1 AND passport_version_id = $2
     ORDER BY field COLLATE "C", code COLLATE "C"
"""
SELECT_WAIVER_PAGE: Final[LiteralString] = make_page_query(
    SELECT_WAIVERS, time="waived_at", key="waiver_id", where="AND passport_version_id = $5"
)
COUNT_WAIVED: Final[LiteralString] = """
    SELECT coalesce(sum(entries), 0)::int FROM passport_waivers WHERE tenant_id = $1 AND passport_version_id = $2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaiverRow:
    """All FAIL and WARN entries of a version with this code that the rule of this field reported: `entries` of them."""

    waiver_id: WaiverId
    passport_version_id: PassportVersionId
    code: str
    field: str
    entries: int
    reason: str
    waived_at: datetime
    waived_by: ActorId | None

    @property
    def name(self) -> EntryName:
        return EntryName(self.code, self.field)


async def insert_waivers(
    conn: Connection,
    tenant: TenantId,
    version: PassportVersionId,
    entries: Mapping[EntryName, int],
    *,
    reason: str,
    act: Act,
) -> Sequence[WaiverRow]:
    """Waive entries of a version, each with its number; append one event, which webhooks announce."""
    rows = [
        WaiverRow(
            waiver_id=WaiverId(clock.new_id()),
            passport_version_id=version,
            code=name.code,
            field=name.field,
            entries=number,
            reason=reason,
            waived_at=act.at,
            waived_by=act.actor_id,
        )
        for name, number in entries.items()
    ]
    columns = [[getattr(row, name) for row in rows] for name in ("waiver_id", "code", "field", "entries")]
    await conn.execute(INSERT_WAIVERS, tenant, version, reason, act.at, act.actor_id, *columns)
    subject = await load_subject_of_version(conn, tenant, version)
    payload = {"reason": reason, "waived": describe_waivers(rows), **subject.to_event_payload()}
    await append_and_announce(conn, act, tenant, "PassportVersion", version, "PASSPORT_WAIVED", payload)
    return rows


async def load_waivers(conn: Connection, tenant: TenantId, version: PassportVersionId) -> Sequence[WaiverRow]:
    """All waivers of a version, by field and code."""
    return await fetch_rows(conn, WaiverRow, SELECT_WAIVERS_OF_VERSION, tenant, version)


async def list_waivers(
    conn: Connection, tenant: TenantId, version: PassportVersionId, page: PageQuery
) -> Sequence[WaiverRow]:
    """The waivers of a version, newest first."""
    return await fetch_rows(conn, WaiverRow, SELECT_WAIVER_PAGE, tenant, *page, version)


async def count_waived(conn: Connection, tenant: TenantId, version: PassportVersionId) -> int:
    """How many compliance entries of a version are waived."""
    number: int = await conn.fetchval(COUNT_WAIVED, tenant, version)
    return number


def describe_waivers(rows: Sequence[WaiverRow]) -> list[dict[str, object]]:
    """Waivers as events name them."""
    return [
        {"waiver_id": str(row.waiver_id), "code": row.code, "field": row.field, "entries": row.entries} for row in rows
    ]
