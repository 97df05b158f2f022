"""Attacks on a tenant's history: by SQL as superuser, by rewriting chains, by forged retention, on the log's files.

`ATTACKS` change the database, or the log's files with it; `FILE_ATTACKS` change the files alone.
"""

import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import orjson

from bpc.core.audit.checkpoint import Checkpoint
from bpc.core.audit.events import Act, AuditEvent, ChainHead, EventStream, NewEvent
from bpc.core.formats.ids import AggregateId, TenantId
from bpc.core.tlog.checkpoints import LogCheckpoint
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection
from bpc.tasks.retention import Cutoffs, RetentionOrder, remove_expired


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What was kept elsewhere."""

    audit: Checkpoint
    log: LogCheckpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    tenant: TenantId
    folder: Path
    outside: Outside
    old_folder: Path
    old_size: int
    old_time: datetime


Attack = Callable[[Connection, Installation], Awaitable[None]]
ATTACKS: dict[str, Attack] = {}


def attack(name: str) -> Callable[[Attack], Attack]:
    def add(function: Attack) -> Attack:
        ATTACKS[name] = function
        return function

    return add


def attack_by_sql(name: str, *statements: str) -> None:
    async def run(conn: Connection, place: Installation) -> None:
        for statement in statements:
            await conn.execute(statement, *([place.tenant] if "$1" in statement else []))

    ATTACKS[name] = run


attack_by_sql("edit the payload of an event", """
    UPDATE events SET payload = '{"x": 1}', payload_canonical = '{"x":1}' WHERE tenant_id = $1
       AND event_type = 'PASSPORT_REVOKED'""")  # fmt: skip
attack_by_sql("edit the time of an event", """
    UPDATE events SET occurred_at = occurred_at - interval '1 day' WHERE tenant_id = $1
       AND event_type = 'PASSPORT_ACTIVATED'""")  # fmt: skip
attack_by_sql(
    "delete an event in the middle",
    "DELETE FROM events WHERE tenant_id = $1 AND event_type = 'QR_GENERATED'",
)
attack_by_sql(
    "delete the last event of a chain that the log shows",
    "DELETE FROM events WHERE tenant_id = $1 AND event_type = 'PASSPORT_REVOKED'",
)
attack_by_sql(
    "delete the last event of another chain, and undo its change",
    "DELETE FROM events WHERE tenant_id = $1 AND event_type = 'WEBHOOK_ENDPOINT_DISABLED'",
    "UPDATE webhook_endpoints SET is_active = true, disabled_at = NULL, disabled_reason = NULL WHERE tenant_id = $1",
)
attack_by_sql("delete all events of a tenant", "DELETE FROM events WHERE tenant_id = $1")
attack_by_sql("truncate the events", "TRUNCATE events CASCADE")
attack_by_sql("truncate the events, and everything else of the tenant", "TRUNCATE events, tenants CASCADE")
attack_by_sql(
    "swap two events of a chain",
    """UPDATE events SET aggregate_version = 1000 - aggregate_version WHERE tenant_id = $1
          AND aggregate_type = 'PassportVersion' AND aggregate_version IN (2, 3)""",
    """UPDATE events SET aggregate_version = aggregate_version - 995 WHERE tenant_id = $1
          AND aggregate_type = 'PassportVersion' AND aggregate_version > 995""",
)
attack_by_sql(
    "put an anchor, and delete what is before it",
    """INSERT INTO event_anchors (tenant_id, aggregate_type, aggregate_id, aggregate_version, event_hash)
       SELECT tenant_id, aggregate_type, aggregate_id, aggregate_version, event_hash FROM events
        WHERE tenant_id = $1 AND event_type = 'PASSPORT_SIGNED'""",
    """DELETE FROM events WHERE tenant_id = $1 AND aggregate_type = 'PassportVersion' AND aggregate_version <= 2""",
)
attack_by_sql("delete an aggregate: a policy, its versions and its events", """
    DELETE FROM events WHERE tenant_id = $1 AND aggregate_type = 'Policy'
    """, "DELETE FROM policy_versions WHERE tenant_id = $1", "DELETE FROM policies WHERE tenant_id = $1")  # fmt: skip
attack_by_sql(
    "delete an issued passport version and its events",
    "DELETE FROM passport_versions WHERE tenant_id = $1 AND status = 'REVOKED'",
    """DELETE FROM events WHERE tenant_id = $1 AND aggregate_id IN (
         SELECT aggregate_id FROM events WHERE tenant_id = $1 AND event_type = 'PASSPORT_REVOKED')""",
)
attack_by_sql(
    "the same, with what opens its entries in the log",
    """DELETE FROM log_openings WHERE tenant_id = $1 AND aggregate_id IN (
         SELECT aggregate_id FROM events WHERE tenant_id = $1 AND event_type = 'PASSPORT_REVOKED')""",
    "DELETE FROM passport_versions WHERE tenant_id = $1 AND status = 'REVOKED'",
    """DELETE FROM events WHERE tenant_id = $1 AND aggregate_id IN (
         SELECT aggregate_id FROM events WHERE tenant_id = $1 AND event_type = 'PASSPORT_REVOKED')""",
)
attack_by_sql(
    "keep an event out of the log",
    "DELETE FROM log_openings WHERE tenant_id = $1 AND kind = 'PASSPORT_REVOKED'",
)
attack_by_sql("edit an entry of the log in the database", "UPDATE log_entries SET entry = '\\x01' WHERE log_index = 1")
attack_by_sql("delete the end of the log in the database", "DELETE FROM log_entries WHERE log_index > 3")
attack_by_sql("change a signing key of the installation", "UPDATE signing_keys SET public_key = sha256('x')")
attack_by_sql(
    "retire a signing key of the installation", "UPDATE signing_keys SET status = 'RETIRED', retired_at = now()"
)
attack_by_sql("add a signing key of the installation", """
    INSERT INTO signing_keys (key_id, public_key) VALUES ('forged', sha256('x'))""")  # fmt: skip


@attack("remove young events by a forged retention, with a right list and event")
async def forge_retention(conn: Connection, place: Installation) -> None:
    await _apply_retention(conn, place.tenant)
    await conn.execute("DELETE FROM log_outbox")


@attack("the same, on its way into the log, with cutoffs of ten years ago")
async def forge_logged_retention(conn: Connection, place: Installation) -> None:
    await _apply_retention(conn, place.tenant)
    stream = EventStream(place.tenant, "Tenant", AggregateId(place.tenant))
    payload = orjson.loads((await events.read_chain(conn, stream))[-1].event.payload_canonical)
    payload["cutoffs"] = dict.fromkeys(payload["cutoffs"], "2016-01-01T00:00:00.000000Z")
    last = await _rewrite_last_event(conn, stream, payload)
    for table, column in (("retention_anchors", "event_id"), ("removed_events", "removed_by")):
        await conn.execute(f"UPDATE {table} SET {column} = $2 WHERE tenant_id = $1", place.tenant, last.event_id)
    await conn.execute(
        "UPDATE log_outbox SET event_hash = $1, payload_canonical = $2", last.event_hash, last.payload_canonical
    )


@attack("write the end of a chain anew with right hashes, and the row with it")
async def rewrite_chain(conn: Connection, place: Installation) -> None:
    row = await conn.fetchrow(
        """SELECT aggregate_id FROM events WHERE tenant_id = $1 AND aggregate_type = 'Policy'
            ORDER BY occurred_at DESC LIMIT 1""",
        place.tenant,
    )
    if row is None:
        raise AssertionError
    stream = EventStream(place.tenant, "Policy", AggregateId(row["aggregate_id"]))
    payload = orjson.loads((await events.read_chain(conn, stream))[-1].event.payload_canonical)
    if "name" in payload:
        payload["name"] = "another"
        await conn.execute("UPDATE policies SET name = 'another' WHERE policy_id = $1", row["aggregate_id"])
    else:
        payload["deactivated_version"] = 1
    await _rewrite_last_event(conn, stream, payload)


@attack("write the events of an issued passport anew with right hashes, and the row with it")
async def rewrite_revocation(conn: Connection, place: Installation) -> None:
    row = await conn.fetchrow(
        "SELECT aggregate_id FROM events WHERE tenant_id = $1 AND event_type = 'PASSPORT_REVOKED'", place.tenant
    )
    if row is None:
        raise AssertionError
    stream = EventStream(place.tenant, "PassportVersion", AggregateId(row["aggregate_id"]))
    payload = orjson.loads((await events.read_chain(conn, stream))[-1].event.payload_canonical)
    await _rewrite_last_event(conn, stream, {**payload, "reason": "something else"})


@attack("roll the database back, the log's files stay")
async def roll_back_database(conn: Connection, place: Installation) -> None:
    for table in ("log_proofs", "log_openings", "log_entries"):
        await conn.execute(f"DELETE FROM {table} WHERE log_index >= $1", place.old_size)
    await conn.execute("DELETE FROM log_checkpoints WHERE size > $1", place.old_size)
    await conn.execute("DELETE FROM events WHERE occurred_at > $1", place.old_time)
    await conn.execute("UPDATE battery_products SET is_active = true")


@attack("roll the database and the log's files back")
async def roll_everything_back(conn: Connection, place: Installation) -> None:
    await roll_back_database(conn, place)
    _replace_folder(place.folder, place.old_folder)


FileAttack = Callable[[Path, Path], None]
FILE_ATTACKS: dict[str, FileAttack] = {}


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.chmod(0o600)
    file.write_bytes(content)


def _find_tile(folder: Path, name: str) -> Path:
    return max(path for path in (folder / "tile" / name).rglob("*") if path.is_file())


def _replace_folder(folder: Path, old_folder: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(old_folder, folder)


FILE_ATTACKS["change an entry in the log's files"] = lambda folder, _: _flip(_find_tile(folder, "entries"))
FILE_ATTACKS["change a hash in the log's files"] = lambda folder, _: _flip(_find_tile(folder, "0"))
FILE_ATTACKS["change the checkpoint of the log"] = lambda folder, _: _flip(folder / "checkpoint")
FILE_ATTACKS["delete a file of the log"] = lambda folder, _: _find_tile(folder, "0").unlink()
FILE_ATTACKS["roll the log's files back, the database stays"] = _replace_folder


async def _apply_retention(conn: Connection, tenant: TenantId) -> None:
    """Remove all events that retention would remove in a hundred years, and nothing else."""
    now, long_ago = clock.now(), clock.now() - timedelta(days=36500)
    order = RetentionOrder(
        run_id=clock.new_id(),
        cutoffs=Cutoffs(document_versions=long_ago, passport_versions=long_ago, passport_exports=long_ago, events=now),
    )
    await conn.execute("ALTER TABLE events ENABLE ALWAYS TRIGGER events_join_the_log")
    await conn.execute("SELECT set_config('app.tenant_id', $1, true)", str(tenant))
    await remove_expired(conn, tenant, order, act=Act(None, now))


async def _rewrite_last_event(conn: Connection, stream: EventStream, payload: object) -> AuditEvent:
    """Replace the last event of a chain by one with another payload and right hashes."""
    chain = await events.read_chain(conn, stream)
    last = chain[-1].event
    head = ChainHead(last.version - 1, last.prev_event_hash)
    new_event = NewEvent(
        event_type=last.event_type,
        payload=payload,  # type: ignore[arg-type]
        actor_id=last.actor_id,
        occurred_at=last.occurred_at,
    )
    forged = AuditEvent.chain_after(head, stream, new_event)
    await conn.execute(
        """UPDATE events SET event_id = $2, payload = $3::jsonb, payload_canonical = $4, payload_hash = $5,
                             event_hash = $6 WHERE tenant_id = $1 AND event_id = $7""",
        stream.tenant_id,
        forged.event_id,
        forged.payload_canonical.decode(),
        forged.payload_canonical,
        forged.payload_hash,
        forged.event_hash,
        last.event_id,
    )
    return forged
