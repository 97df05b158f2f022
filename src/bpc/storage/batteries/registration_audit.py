"""Comparing batteries with their registrations: each row that was added, removed or changed.

    event BATTERIES_REGISTERED ─► root, count ─► the registration ─► hashes of its leaves ─► its batteries

That root and count of a registration are those of its event is compared with the other tables that follow from events.
Here, the kept hashes must give the root, and each battery the hash of its leaf. What changes in a battery's life is not
part of its leaf: it follows from the events of its own chain.
"""

from collections.abc import Sequence
from typing import Final, LiteralString
from uuid import UUID

import asyncpg

from bpc.core.audit.state import ADDED, CHANGED, DELETED, StateFault
from bpc.core.batteries.registration import compute_root, encode_leaf, hash_leaves
from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import TenantId
from bpc.storage.connection import LOWEST_ID, Connection

REGISTRATIONS_TABLE: Final = "battery_registrations"
BATTERIES_TABLE: Final = "batteries"
MAX_FAULTS: Final = 1000
HASH_BYTES: Final = 32
# One at a time: a registration has up to 100,000 hashes.
SELECT_REGISTRATION: Final[LiteralString] = """
    SELECT registration_id, root, leaf_hashes FROM battery_registrations
     WHERE tenant_id = $1 AND registration_id > $2 ORDER BY registration_id LIMIT 1
"""
# The day that a later change told is not part of the leaf.
SELECT_BATTERIES: Final[LiteralString] = """
    SELECT b.leaf_number, b.battery_id, b.battery_product_id, b.serial_number, b.battery_batch_id, b.plant,
           b.manufactured_on, b.link, b.predecessor,
           CASE WHEN EXISTS (SELECT FROM battery_changes c WHERE c.tenant_id = $1 AND c.battery_id = b.battery_id
                                AND c.kind = 'PLACED') THEN NULL ELSE b.placed_on END AS placed_on
      FROM batteries b WHERE b.tenant_id = $1 AND b.registration_id = $2
     ORDER BY b.leaf_number
"""
SELECT_STRAYS: Final[LiteralString] = f"""
    SELECT b.battery_id FROM batteries b
     WHERE b.tenant_id = $1 AND NOT EXISTS (
       SELECT FROM battery_registrations r WHERE r.tenant_id = $1 AND r.registration_id = b.registration_id)
     LIMIT {MAX_FAULTS}
"""


async def verify_registrations(conn: Connection, tenant: TenantId) -> tuple[int, list[StateFault]]:
    """How many batteries were compared, and which of them are not as they were registered."""
    count, faults, after = 0, list[StateFault](), LOWEST_ID
    while registration := await conn.fetchrow(SELECT_REGISTRATION, tenant, after):
        after = registration["registration_id"]
        hashes = _split_hashes(registration["leaf_hashes"])
        if compute_root(hashes) != registration["root"]:
            says = "they do not give its root"
            faults.append(_make_fault(REGISTRATIONS_TABLE, after, CHANGED, says, column="leaf_hashes"))
            continue
        rows = await conn.fetch(SELECT_BATTERIES, tenant, after)
        count += len(rows)
        faults += _compare_batteries(after, hashes, rows)
    for row in await conn.fetch(SELECT_STRAYS, tenant):
        faults.append(_make_fault(BATTERIES_TABLE, row[0], ADDED, "its registration is not there"))
    return count, faults[:MAX_FAULTS]


def _compare_batteries(
    registration: UUID, hashes: Sequence[Digest], rows: Sequence[asyncpg.Record]
) -> list[StateFault]:
    faults, places = list[StateFault](), set[int]()
    for row in rows:
        number = row["leaf_number"]
        if number >= len(hashes) or number in places:
            says = f"registration {registration} has {len(hashes)} batteries, and this is one more"
            faults.append(_make_fault(BATTERIES_TABLE, row["battery_id"], ADDED, says))
        elif _hash_stored(row) != hashes[number]:
            says = f"it is not battery {number} of registration {registration}, as that was registered"
            faults.append(_make_fault(BATTERIES_TABLE, row["battery_id"], CHANGED, says))
        places.add(number)
    for number in sorted(set(range(len(hashes))) - places):
        says = f"battery {number} of registration {registration} is not there"
        faults.append(_make_fault(BATTERIES_TABLE, f"{registration}/{number}", DELETED, says))
    return faults


def _hash_stored(row: asyncpg.Record) -> Digest:
    leaf = encode_leaf(
        row["battery_id"],
        row["battery_product_id"],
        row["serial_number"],
        row["battery_batch_id"],
        row["plant"],
        row["manufactured_on"],
        row["placed_on"],
        row["link"],
        row["predecessor"],
    )
    return hash_leaves([leaf])[0]


def _split_hashes(content: bytes) -> list[Digest]:
    return [Digest(content[at : at + HASH_BYTES]) for at in range(0, len(content), HASH_BYTES)]


def _make_fault(table: str, row_id: object, problem: str, says: str, *, column: str | None = None) -> StateFault:
    return StateFault(table=table, row_id=str(row_id), column=column, problem=problem, says=says)
