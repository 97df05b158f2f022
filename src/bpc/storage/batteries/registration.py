"""Registrations: many batteries stored at once, under one event, with the hashes of their leaves.

A battery that is registered already with the same data is left as it is, so a file that is sent twice changes nothing.
One with other data is a fault of its row.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, LiteralString

import asyncpg

from bpc.core.audit.events import EMPTY_CHAIN, Act
from bpc.core.batteries.registration import BatteryEntry, check_entries, compute_root, encode_leaf, hash_leaves
from bpc.core.batteries.row_files import RowFault, RowFile
from bpc.core.formats.hashes import to_hex
from bpc.core.formats.ids import BatteryBatchId, BatteryId, BatteryProductId, RegistrationId, TenantId
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.batteries.batches import BatchName, NewBatch, create_missing_batches, find_batches
from bpc.storage.batteries.identification import fix_identifications, load_identities
from bpc.storage.connection import Connection

SELECT_EXISTING: Final[LiteralString] = """
    SELECT w.place, b.battery_batch_id, b.plant, b.manufactured_on, b.placed_on, b.link
      FROM unnest($2::uuid[], $3::text[]) WITH ORDINALITY AS w(product, serial, place)
      JOIN batteries b ON b.tenant_id = $1 AND b.serial_number = w.serial AND b.battery_product_id = w.product
"""
SELECT_LINKS: Final[LiteralString] = """
    SELECT w.place FROM unnest($2::text[]) WITH ORDINALITY AS w(link, place)
      JOIN batteries b ON b.tenant_id = $1 AND b.link = w.link
"""
INSERT_REGISTRATION: Final[LiteralString] = """
    INSERT INTO battery_registrations (tenant_id, registration_id, total, root, leaf_hashes, registered_at,
                                       registered_by)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
"""
INSERT_BATTERIES: Final[LiteralString] = """
    INSERT INTO batteries (tenant_id, registration_id, registered_at, predecessor, status, battery_id,
                           battery_product_id, serial_number, battery_batch_id, plant, manufactured_on, placed_on, link,
                           leaf_number)
    SELECT $1, $2, $3, $12, $13, w.battery_id, w.product, w.serial, w.batch, w.plant, w.made, w.placed, w.link,
           w.place - 1
      FROM unnest($4::uuid[], $5::uuid[], $6::text[], $7::uuid[], $8::text[], $9::date[], $10::date[], $11::text[])
           WITH ORDINALITY AS w(battery_id, product, serial, batch, plant, made, placed, link, place)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationOutcome:
    """What became of the rows of a file."""

    total: int
    registered: int
    unchanged: int
    faults: Sequence[RowFault]
    registration_id: RegistrationId | None = None
    battery_ids: Sequence[BatteryId] = ()


async def register_batteries(
    conn: Connection, tenant: TenantId, file: RowFile, *, validate_only: bool = False, act: Act
) -> RegistrationOutcome:
    """Check all rows, then register those that are new. With a fault in any of them, nothing is stored."""
    identities = await load_identities(
        conn, tenant, sorted({row.cells["sku"] for row in file.rows if "sku" in row.cells})
    )
    entries, faults = check_entries(file.rows, identities)
    batches = await find_batches(conn, tenant, _list_batch_names(entries))
    new_entries, stored_faults = await _compare_with_stored(conn, tenant, entries, batches)
    all_faults = sorted([*file.faults, *faults, *stored_faults], key=lambda fault: fault.line)
    outcome = RegistrationOutcome(
        total=len(file.rows),
        registered=len(new_entries),
        unchanged=len(entries) - len(new_entries) - len(stored_faults),
        faults=all_faults,
    )
    if all_faults or validate_only or not new_entries:
        return outcome
    registration, battery_ids = await insert_entries(conn, tenant, new_entries, act=act)
    return replace(outcome, registration_id=registration, battery_ids=battery_ids)


async def insert_entries(
    conn: Connection,
    tenant: TenantId,
    entries: Sequence[BatteryEntry],
    *,
    status: str = "original",
    predecessor: str | None = None,
    battery_ids: Sequence[BatteryId] | None = None,
    act: Act,
) -> tuple[RegistrationId, Sequence[BatteryId]]:
    """Store new batteries under one event. Returns their ids in the order of the entries; they may be given."""
    wanted_batches = {_name_batch(entry): _to_new_batch(entry) for entry in entries}
    missing = [batch for name, batch in wanted_batches.items() if name is not None and batch is not None]
    if missing:
        await create_missing_batches(conn, tenant, missing, act=act)
    batches = await find_batches(conn, tenant, _list_batch_names(entries))
    registration = RegistrationId(clock.new_id())
    battery_ids = battery_ids or [BatteryId(clock.new_id()) for _ in entries]
    batch_ids = [_find_batch(entry, batches) for entry in entries]
    leaf_hashes = hash_leaves(
        encode_leaf(
            battery,
            entry.battery_product_id,
            entry.serial_number,
            batch,
            entry.plant,
            entry.manufactured_on,
            entry.placed_on,
            entry.link,
            predecessor,
        )
        for battery, entry, batch in zip(battery_ids, entries, batch_ids, strict=True)
    )
    root, total = compute_root(leaf_hashes), len(entries)
    await conn.execute(
        INSERT_REGISTRATION, tenant, registration, total, root, b"".join(leaf_hashes), act.at, act.actor_id
    )
    await conn.execute(
        INSERT_BATTERIES,
        tenant,
        registration,
        act.at,
        battery_ids,
        [entry.battery_product_id for entry in entries],
        [entry.serial_number for entry in entries],
        batch_ids,
        [entry.plant for entry in entries],
        [entry.manufactured_on for entry in entries],
        [entry.placed_on for entry in entries],
        [entry.link for entry in entries],
        predecessor,
        status,
    )
    if placed_products := sorted({entry.battery_product_id for entry in entries if entry.placed_on is not None}):
        await fix_identifications(conn, tenant, placed_products, act=act)
    payload = {"count": total, "root": to_hex(root)}
    await events.append_act(
        conn, act, tenant, "BatteryRegistration", registration, "BATTERIES_REGISTERED", payload, head=EMPTY_CHAIN
    )
    return registration, battery_ids


async def _compare_with_stored(
    conn: Connection, tenant: TenantId, entries: Sequence[BatteryEntry], batches: Mapping[BatchName, BatteryBatchId]
) -> tuple[list[BatteryEntry], list[RowFault]]:
    """The entries that are new, and faults of those that are registered with other data."""
    products, serials = [entry.battery_product_id for entry in entries], [entry.serial_number for entry in entries]
    existing = {row["place"]: row for row in await conn.fetch(SELECT_EXISTING, tenant, products, serials)}
    links = [entry.link for entry in entries]
    taken_places = {row["place"] for row in await conn.fetch(SELECT_LINKS, tenant, links)} if any(links) else set()
    new_entries, faults = list[BatteryEntry](), list[RowFault]()
    for place, entry in enumerate(entries, start=1):
        row = existing.get(place)
        if row is None and place in taken_places:
            faults.append(RowFault(entry.line, "has the address of another battery", "address"))
        elif row is None:
            new_entries.append(entry)
        elif (column := _find_difference(entry, row, batches)) is not None:
            says = f"the battery `{entry.serial_number}` is registered with another {column.replace('_', ' ')}"
            faults.append(RowFault(entry.line, says, column))
    return new_entries, faults


def _find_difference(
    entry: BatteryEntry, row: asyncpg.Record, batches: Mapping[BatchName, BatteryBatchId]
) -> str | None:
    if entry.batch_number is not None and _find_batch(entry, batches) != row["battery_batch_id"]:
        return "batch_number"
    values = {
        "plant": entry.plant,
        "manufactured_on": entry.manufactured_on,
        "placed_on": entry.placed_on,
        "link": entry.link,
    }
    return next((name for name, value in values.items() if value is not None and value != row[name]), None)


def _name_batch(entry: BatteryEntry) -> BatchName | None:
    return None if entry.batch_number is None else (entry.battery_product_id, entry.batch_number)


def _list_batch_names(entries: Iterable[BatteryEntry]) -> list[BatchName]:
    return sorted({name for entry in entries if (name := _name_batch(entry)) is not None})


def _find_batch(entry: BatteryEntry, batches: Mapping[BatchName, BatteryBatchId]) -> BatteryBatchId | None:
    name = _name_batch(entry)
    return None if name is None else batches.get(name)


def _to_new_batch(entry: BatteryEntry) -> NewBatch | None:
    if entry.batch_number is None:
        return None
    return NewBatch(battery_product_id=BatteryProductId(entry.battery_product_id), batch_number=entry.batch_number)
