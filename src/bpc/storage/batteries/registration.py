"""Registrations: many batteries stored at once, under one event, with the hashes of their leaves.

A battery that is registered already with the same data is left as it is, so a file that is sent twice changes nothing.
One with other data is a fault of its row.

A file may have 100,000 rows, and others wait for the event loop: what is computed for all of them is computed in a
thread, and the database is asked for some of them at a time.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, LiteralString, NamedTuple

import asyncpg

from bpc.core.audit.events import EMPTY_CHAIN, Act
from bpc.core.batteries.registration import (
    BatteryEntry,
    ProductIdentity,
    check_entries,
    compute_root,
    encode_leaf,
    hash_leaves,
)
from bpc.core.batteries.row_files import RowFault, RowFile
from bpc.core.formats.hashes import Digest, to_hex
from bpc.core.formats.ids import BatteryBatchId, BatteryId, BatteryProductId, RegistrationId, TenantId
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.batteries.batches import BatchName, NewBatch, create_missing_batches, find_batches
from bpc.storage.batteries.identification import fix_identifications, load_identities
from bpc.storage.connection import ROWS_AT_ONCE, Connection, split_rows

# `>=` with an order instead of `=`: a table that was just filled has no statistics yet, and without them an index of
# all batteries of a product looks as good as the unique one: it would read the whole product for each row of a file.
SELECT_EXISTING: Final[LiteralString] = """
    SELECT w.place, b.battery_batch_id, b.plant, b.manufactured_on, b.placed_on, b.link
      FROM unnest($2::uuid[], $3::text[]) WITH ORDINALITY AS w(product, serial, place)
     CROSS JOIN LATERAL (
       SELECT * FROM batteries
        WHERE tenant_id = $1 AND (serial_number, battery_product_id) >= (w.serial, w.product)
        ORDER BY serial_number, battery_product_id LIMIT 1) AS b
     WHERE b.serial_number = w.serial AND b.battery_product_id = w.product
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
           $14 + w.place - 1
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


class _CheckedRows(NamedTuple):
    entries: Sequence[BatteryEntry]
    faults: Sequence[RowFault]
    batch_names: Sequence[BatchName]


class _Leaves(NamedTuple):
    """The batteries of a registration as its tree has them."""

    battery_ids: Sequence[BatteryId]
    batch_ids: Sequence[BatteryBatchId | None]
    hashes: bytes
    root: Digest


async def register_batteries(
    conn: Connection, tenant: TenantId, file: RowFile, *, validate_only: bool = False, act: Act
) -> RegistrationOutcome:
    """Check all rows, then register those that are new. With a fault in any of them, nothing is stored."""
    skus = await asyncio.to_thread(list_skus, file)
    identities = await load_identities(conn, tenant, skus)
    checked = await asyncio.to_thread(_check_rows, file, identities)
    batches = await find_batches(conn, tenant, checked.batch_names)
    new_entries, stored_faults = await _compare_with_stored(conn, tenant, checked.entries, batches)
    all_faults = await asyncio.to_thread(sorted, [*checked.faults, *stored_faults], key=_get_line)
    outcome = RegistrationOutcome(
        total=len(file.rows),
        registered=len(new_entries),
        unchanged=len(checked.entries) - len(new_entries) - len(stored_faults),
        faults=all_faults,
    )
    if all_faults or validate_only or not new_entries:
        return outcome
    registration, battery_ids = await insert_entries(conn, tenant, new_entries, act=act)
    return replace(outcome, registration_id=registration, battery_ids=battery_ids)


def list_skus(file: RowFile) -> list[str]:
    """The products that rows name."""
    return sorted({row.cells["sku"] for row in file.rows if "sku" in row.cells})


def _check_rows(file: RowFile, identities: Mapping[str, ProductIdentity]) -> _CheckedRows:
    entries, faults = check_entries(file.rows, identities)
    return _CheckedRows(entries, [*file.faults, *faults], _list_batch_names(entries))


def _get_line(fault: RowFault) -> int:
    return fault.line


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
    batch_names = await asyncio.to_thread(_list_batch_names, entries)
    if batch_names:
        await create_missing_batches(conn, tenant, [_to_new_batch(name) for name in batch_names], act=act)
    batches = await find_batches(conn, tenant, batch_names)
    registration = RegistrationId(clock.new_id())
    leaves = await asyncio.to_thread(_build_leaves, entries, battery_ids, batches, predecessor)
    total = len(entries)
    await conn.execute(
        INSERT_REGISTRATION, tenant, registration, total, leaves.root, leaves.hashes, act.at, act.actor_id
    )
    for start in range(0, total, ROWS_AT_ONCE):
        await _insert_batteries(conn, tenant, registration, entries, leaves, start, act, predecessor, status)
    placed_products = await asyncio.to_thread(_list_placed_products, entries)
    if placed_products:
        await fix_identifications(conn, tenant, placed_products, act=act)
    payload = {"count": total, "root": to_hex(leaves.root)}
    await events.append_act(
        conn, act, tenant, "BatteryRegistration", registration, "BATTERIES_REGISTERED", payload, head=EMPTY_CHAIN
    )
    return registration, leaves.battery_ids


async def _insert_batteries(
    conn: Connection,
    tenant: TenantId,
    registration: RegistrationId,
    all_entries: Sequence[BatteryEntry],
    leaves: _Leaves,
    start: int,
    act: Act,
    predecessor: str | None,
    status: str,
) -> None:
    """Insert some batteries of a registration, from `start` on."""
    rows = slice(start, start + ROWS_AT_ONCE)
    entries = all_entries[rows]
    await conn.execute(
        INSERT_BATTERIES,
        tenant,
        registration,
        act.at,
        leaves.battery_ids[rows],
        [entry.battery_product_id for entry in entries],
        [entry.serial_number for entry in entries],
        leaves.batch_ids[rows],
        [entry.plant for entry in entries],
        [entry.manufactured_on for entry in entries],
        [entry.placed_on for entry in entries],
        [entry.link for entry in entries],
        predecessor,
        status,
        start,
    )


def _build_leaves(
    entries: Sequence[BatteryEntry],
    battery_ids: Sequence[BatteryId] | None,
    batches: Mapping[BatchName, BatteryBatchId],
    predecessor: str | None,
) -> _Leaves:
    battery_ids = battery_ids or [BatteryId(clock.new_id()) for _ in entries]
    batch_ids = [_find_batch(entry, batches) for entry in entries]
    hashes = hash_leaves(
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
    return _Leaves(battery_ids, batch_ids, b"".join(hashes), compute_root(hashes))


def _list_placed_products(entries: Sequence[BatteryEntry]) -> list[BatteryProductId]:
    return sorted({entry.battery_product_id for entry in entries if entry.placed_on is not None})


async def _compare_with_stored(
    conn: Connection, tenant: TenantId, entries: Sequence[BatteryEntry], batches: Mapping[BatchName, BatteryBatchId]
) -> tuple[list[BatteryEntry], list[RowFault]]:
    """The entries that are new, and faults of those that are registered with other data."""
    new_entries, faults = list[BatteryEntry](), list[RowFault]()
    for part in split_rows(entries):
        products, serials = [entry.battery_product_id for entry in part], [entry.serial_number for entry in part]
        existing = {row["place"]: row for row in await conn.fetch(SELECT_EXISTING, tenant, products, serials)}
        links = [entry.link for entry in part]
        taken_places = {row["place"] for row in await conn.fetch(SELECT_LINKS, tenant, links)} if any(links) else set()
        for place, entry in enumerate(part, start=1):
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


def _to_new_batch(name: BatchName) -> NewBatch:
    product, batch_number = name
    return NewBatch(battery_product_id=product, batch_number=batch_number)
