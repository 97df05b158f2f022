"""Everything that is stored of a passport version, gathered from all tables it stands on: its bundle.

Equal rows give equal bytes. What is gathered is not checked here: whoever gets the bundle does that.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, LiteralString

from bpc.core import canon
from bpc.core.bundle import Bundle, bundle_of
from bpc.core.digest import to_hex
from bpc.core.errors import Conflict
from bpc.core.events import Stored, Stream
from bpc.core.facts_file import sealed
from bpc.core.ids import AggregateId, PassportVersionId, TenantId
from bpc.core.timestamps import format_time
from bpc.db import events, passport_versions, rules, signing_keys, snapshots
from bpc.db.connection import Connection
from bpc.db.passport_versions import Version

ANCHORED: Final[LiteralString] = """
    SELECT EXISTS (SELECT FROM event_anchors WHERE tenant_id = $1 AND aggregate_type = $2 AND aggregate_id = $3)
"""


class NotIssued(Conflict):
    """The version is not signed, or its QR code is not there yet."""

    def __init__(self, version: Version) -> None:
        missing = "is COMPILING" if version.status == "COMPILING" else f"is {version.status} and has no QR code"
        super().__init__(
            f"passport version `{version.passport_version_id}` {missing}",
            fix=None if version.status == "REVOKED" else "wait for its jobs",
            details={"status": version.status},
        )


async def bundle(
    conn: Connection, tenant: TenantId, version_id: PassportVersionId, *, with_events: bool = True
) -> Bundle:
    """The bundle of a version that is signed and has its QR code."""
    version = await passport_versions.get(conn, tenant, version_id)
    stored = await passport_versions.stored(conn, tenant, version_id)
    if version.signing_key_id is None or stored.qr_png is None:
        raise NotIssued(version)
    snapshot = await snapshots.get(conn, tenant, version.snapshot_id)
    sources = await rules.sources(conn, tenant, version.rule_package_version_id)
    key = await signing_keys.public_key(conn, version.signing_key_id)
    if snapshot.snapshot_canonical is None or key is None:
        raise NotIssued(version)  # the database's own constraints keep this from happening
    facts = await snapshots.facts_of(conn, tenant, version.snapshot_id)
    return bundle_of(
        payload=stored.payload,
        proof=stored.proof,
        receipt=stored.receipt,
        snapshot=snapshot.snapshot_canonical,
        facts=(await asyncio.to_thread(sealed, facts)).lines,  # there may be many
        rules=sources.dsl,
        tests=sources.tests,
        public_key=key,
        qr_png=stored.qr_png,
        events=await _events(conn, tenant, version_id) if with_events else None,
    )


async def _events(conn: Connection, tenant: TenantId, version: PassportVersionId) -> bytes | None:
    """The version's chain; None where retention has removed its beginning, without which nobody can check it."""
    stream = Stream(tenant, "PassportVersion", AggregateId(version))
    if await conn.fetchval(ANCHORED, *stream):
        return None
    return events_file(await events.read_chain(conn, stream))


def events_file(chain: Sequence[Stored]) -> bytes:
    """A chain as `events.jsonl`: a canonical line for each event, its hashed members, its hash and its payload."""
    return b"".join(_line(stored) for stored in chain)


def _line(stored: Stored) -> bytes:
    event = stored.event
    before = event.prev_event_hash
    members = {
        "tenant_id": str(event.stream.tenant_id),
        "aggregate_type": event.stream.aggregate_type,
        "aggregate_id": str(event.stream.aggregate_id),
        "aggregate_version": event.version,
        "event_type": event.event_type,
        "occurred_at": format_time(event.occurred_at),
        "actor_id": None if event.actor_id is None else str(event.actor_id),
        "payload_hash": to_hex(event.payload_hash),
        "prev_event_hash": None if before is None else to_hex(before),
        "event_hash": to_hex(event.event_hash),
        "payload": canon.decode(event.payload_canonical),
    }
    return canon.encode(members) + b"\n"
