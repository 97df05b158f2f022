"""Suppliers: who sends documents, how they write numbers, whom to believe first, and which of their columns is what.

A supplier's column mappings are versions of it: rows that are only added. The newest of a kind of document is in force.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal, LiteralString
from uuid import UUID

import orjson

from bpc.core.audit.events import Act
from bpc.core.documents.number_texts import NumberLocale
from bpc.core.formats.ids import ActorId, SupplierId, TenantId
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query

TableKind = Literal["BOM", "PCF", "DUE_DILIGENCE"]

INSERT_SUPPLIER: Final[LiteralString] = """
    INSERT INTO suppliers (tenant_id, supplier_id, name, number_locale, created_at)
    VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (tenant_id, name) DO NOTHING
    RETURNING supplier_id
"""
SELECT_SUPPLIERS: Final[LiteralString] = """
    SELECT supplier_id, name, number_locale AS locale, rank, created_at FROM suppliers
"""
SELECT_SUPPLIER: Final[LiteralString] = f"{SELECT_SUPPLIERS} WHERE tenant_id = $1 AND supplier_id = $2"
SELECT_SUPPLIER_FOR_UPDATE: Final[LiteralString] = f"{SELECT_SUPPLIER} FOR NO KEY UPDATE"
SELECT_SUPPLIER_BY_NAME: Final[LiteralString] = f"{SELECT_SUPPLIERS} WHERE tenant_id = $1 AND name = $2"
SELECT_SUPPLIER_PAGE: Final[LiteralString] = make_page_query(SELECT_SUPPLIERS, time="created_at", key="supplier_id")
SELECT_SUPPLIER_PAGE_BY_NAME: Final[LiteralString] = make_page_query(
    SELECT_SUPPLIERS, time="created_at", key="supplier_id", where="AND name = $5"
)
UPDATE_SUPPLIER: Final[LiteralString] = """
    UPDATE suppliers SET number_locale = $3, rank = $4 WHERE tenant_id = $1 AND supplier_id = $2
"""
# The supplier's row is locked, so nobody else takes the same number.
INSERT_MAPPING: Final[LiteralString] = """
    INSERT INTO column_mappings (tenant_id, supplier_id, kind, version, mapping, accepted_at, accepted_by)
    SELECT $1, $2, $3::document_kind, coalesce(max(version), 0) + 1, $4::jsonb, $5, $6
      FROM column_mappings WHERE tenant_id = $1 AND supplier_id = $2 AND kind = $3::document_kind
    RETURNING version
"""
SELECT_MAPPINGS: Final[LiteralString] = """
    SELECT md5(supplier_id::text || kind::text || version)::uuid AS column_mapping_id, kind::text AS kind, version,
           mapping::text AS mapping, accepted_at, accepted_by
      FROM column_mappings
"""
SELECT_MAPPING_PAGE: Final[LiteralString] = make_page_query(
    SELECT_MAPPINGS,
    time="accepted_at",
    key="md5(supplier_id::text || kind::text || version)::uuid",
    where="AND supplier_id = $5 AND ($6::document_kind IS NULL OR kind = $6::document_kind)",
)
SELECT_MAPPING_IN_FORCE: Final[LiteralString] = f"""
    {SELECT_MAPPINGS}
     WHERE tenant_id = $1 AND supplier_id = $2 AND kind = $3::document_kind ORDER BY version DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplierRow:
    """Who sends documents. A supplier with a rank is believed before those with a higher number or none."""

    supplier_id: SupplierId
    name: str
    locale: NumberLocale | None
    rank: int | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMappingRow:
    """Which column of a supplier's tables is which member, as JSON, since `accepted_at`."""

    column_mapping_id: UUID
    kind: TableKind
    version: int
    mapping: Mapping[str, Any]
    accepted_at: datetime
    accepted_by: ActorId | None


async def create_supplier(
    conn: Connection, tenant: TenantId, *, name: str, locale: NumberLocale | None, act: Act
) -> SupplierRow | None:
    """Create a supplier and append an event; None if one has this name."""
    supplier = SupplierId(clock.new_id())
    if await conn.fetchval(INSERT_SUPPLIER, tenant, supplier, name, locale, act.at) is None:
        return None
    payload = {"name": name, "locale": locale}
    await events.append_act(conn, act, tenant, "Supplier", supplier, "SUPPLIER_CREATED", payload)
    return SupplierRow(supplier_id=supplier, name=name, locale=locale, rank=None, created_at=act.at)


async def get_supplier(conn: Connection, tenant: TenantId, supplier: SupplierId) -> SupplierRow:
    return await fetch_one(conn, SupplierRow, SELECT_SUPPLIER, tenant, supplier, kind="supplier")


async def lock_supplier(conn: Connection, tenant: TenantId, supplier: SupplierId) -> SupplierRow:
    """A supplier. Until the transaction ends, nobody else changes it or adds a mapping to it."""
    return await fetch_one(conn, SupplierRow, SELECT_SUPPLIER_FOR_UPDATE, tenant, supplier, kind="supplier")


async def find_supplier(conn: Connection, tenant: TenantId, name: str) -> SupplierRow | None:
    """The supplier with this name."""
    rows = await fetch_rows(conn, SupplierRow, SELECT_SUPPLIER_BY_NAME, tenant, name)
    return rows[0] if rows else None


async def list_suppliers(
    conn: Connection, tenant: TenantId, page: PageQuery, *, name: str | None = None
) -> Sequence[SupplierRow]:
    """Suppliers, newest first; only the one with this name, if it is named."""
    if name is None:
        return await fetch_rows(conn, SupplierRow, SELECT_SUPPLIER_PAGE, tenant, *page)
    return await fetch_rows(conn, SupplierRow, SELECT_SUPPLIER_PAGE_BY_NAME, tenant, *page, name)


async def set_supplier_locale(
    conn: Connection, tenant: TenantId, supplier: SupplierRow, locale: NumberLocale | None, *, act: Act
) -> SupplierRow:
    """Set how a supplier writes numbers; append an event if that changes it. The supplier must be locked."""
    return await _change_supplier(conn, tenant, supplier, replace(supplier, locale=locale), act)


async def set_supplier_rank(
    conn: Connection, tenant: TenantId, supplier: SupplierRow, rank: int | None, *, act: Act
) -> SupplierRow:
    """Set whom to believe first; append an event if that changes it. The supplier must be locked."""
    return await _change_supplier(conn, tenant, supplier, replace(supplier, rank=rank), act)


async def _change_supplier(
    conn: Connection, tenant: TenantId, supplier: SupplierRow, new_row: SupplierRow, act: Act
) -> SupplierRow:
    if new_row != supplier:
        await conn.execute(UPDATE_SUPPLIER, tenant, new_row.supplier_id, new_row.locale, new_row.rank)
        payload = {"locale": new_row.locale, "rank": new_row.rank}
        await events.append_act(conn, act, tenant, "Supplier", new_row.supplier_id, "SUPPLIER_CHANGED", payload)
    return new_row


# Column mappings --------------------------------------------------------------------------------------------------


async def insert_column_mapping(
    conn: Connection, tenant: TenantId, supplier: SupplierId, kind: TableKind, mapping: Mapping[str, Any], *, act: Act
) -> ColumnMappingRow:
    """Add the next version of a supplier's mapping, and append an event. The supplier must be locked.

    The mapping that is in force is not added again.
    """
    in_force = await find_column_mapping(conn, tenant, supplier, kind)
    if in_force is not None and in_force.mapping == mapping:
        return in_force
    text = orjson.dumps(mapping).decode()
    version = await conn.fetchval(INSERT_MAPPING, tenant, supplier, kind, text, act.at, act.actor_id)
    payload = {"kind": kind, "version": version, "mapping": mapping}
    await events.append_act(conn, act, tenant, "Supplier", supplier, "COLUMN_MAPPING_ACCEPTED", payload)
    [row] = await fetch_rows(conn, _to_mapping_row, SELECT_MAPPING_IN_FORCE, tenant, supplier, kind)
    return row


async def list_column_mappings(
    conn: Connection, tenant: TenantId, supplier: SupplierId, page: PageQuery, *, kind: TableKind | None
) -> Sequence[ColumnMappingRow]:
    """The mappings of a supplier, newest first; only those for documents of `kind`, if it is named."""
    return await fetch_rows(conn, _to_mapping_row, SELECT_MAPPING_PAGE, tenant, *page, supplier, kind)


async def find_column_mapping(
    conn: Connection, tenant: TenantId, supplier: SupplierId, kind: str
) -> ColumnMappingRow | None:
    """The mapping that is in force for a supplier's documents of a kind."""
    rows = await fetch_rows(conn, _to_mapping_row, SELECT_MAPPING_IN_FORCE, tenant, supplier, kind)
    return rows[0] if rows else None


def _to_mapping_row(*, mapping: str, **columns: Any) -> ColumnMappingRow:
    return ColumnMappingRow(mapping=orjson.loads(mapping), **columns)
