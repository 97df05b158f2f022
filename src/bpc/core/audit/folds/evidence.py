"""Folds of evidence: documents and what they state, their versions, suppliers, snapshots."""

from typing import Final

from bpc.core.audit.row_hashes import hash_rows
from bpc.core.audit.state import ExpectedRows, StateEvent, take
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import to_hex

NO_FACTS: Final = to_hex(hash_rows(()))


def fold_document(rows: ExpectedRows, event: StateEvent) -> None:
    """A document, its references, what it states, decisions for it, and where its files are attached."""
    key, payload = event.aggregate_id, event.payload
    match event.type:
        case "DOCUMENT_CREATED":
            declaration = {"supplier_id": None, "number_locale": None, "name": None}
            declaration |= take(payload, "supplier_id", "name", number_locale="locale")
            columns = take(payload, "kind", "external_ref") | declaration
            rows.put("documents", key, created_at=event.at, created_by=event.actor_id, is_active=True, **columns)
        case "DOCUMENT_CHANGED":
            rows.change("documents", key, **take(payload, "supplier_id", number_locale="locale"))
        case "DOCUMENT_RENAMED":
            rows.change("documents", key, name=payload["to"])
        case "DOCUMENT_DEACTIVATED" | "DOCUMENT_REACTIVATED":
            rows.change("documents", key, is_active=event.type == "DOCUMENT_REACTIVATED")
        case "REFERENCE_CLAIMED" if "version_ref" in payload:
            row_key = key, payload["version_ref"]
            rows.put("document_version_refs", *row_key, **take(payload, "document_version_id"))
        case "REFERENCE_CLAIMED":
            rows.put("document_refs", payload["external_ref"], document_id=key)
        case "DOCUMENT_STATED" | "DOCUMENT_WITHDRAWN":
            _put_statement(rows, event)
        case "CONFLICT_RESOLVED" if "decision_id" in payload:
            columns = take(payload, "fact_type", "fact_key", "member", "reason")
            rows.put(
                "fact_decisions",
                payload["decision_id"],
                document_id=key,
                decided_at=event.at,
                decided_by=event.actor_id,
                **columns,
            )
        case "ATTACHMENT_ADDED":
            columns = take(payload, "sku", "data_point", "document_version_id", "title", "mime_type")
            times = {"attached_at": event.at, "attached_by": event.actor_id}
            rows.put("attachments", payload["attachment_id"], **columns, **times)
        case "ATTACHMENT_WITHDRAWN":
            times = {"withdrawn_at": event.at, "withdrawn_by": event.actor_id}
            rows.put("attachment_withdrawals", payload["attachment_id"], reason=payload["reason"], **times)
        case _:
            pass


def _put_statement(rows: ExpectedRows, event: StateEvent) -> None:
    columns = {"reason": None, "file_name": None, "document_version_id": None}
    columns |= take(event.payload, "sequence", "reason", "file_name", "document_version_id")
    rows.put(
        "document_statements",
        event.payload["statement_id"],
        document_id=event.aggregate_id,
        stated_at=event.at,
        stated_by=event.actor_id,
        **columns,
    )


def fold_document_version(rows: ExpectedRows, event: StateEvent) -> None:
    """A version of a document: its bytes by their hash, how it was read, and the facts it states by their hash."""
    key, payload = event.aggregate_id, event.payload
    match event.type:
        case "DOCUMENT_UPLOADED":
            rows.put(
                "document_versions",
                key,
                status="UPLOADED",
                uploaded_at=event.at,
                content_restored_at=None,
                content=payload["sha256"],
                facts=NO_FACTS,
                read_options=canonical_json.encode(payload.get("options", {})).hex(),
                **take(payload, "document_id", "version", "mime_type", "sha256"),
            )
        case "FACTS_PARSED":
            rows.forget("document_versions", key, "facts")
            rows.change("document_versions", key, status="VALIDATED", **take(payload, facts="facts_sha256"))
        case "DOCUMENT_REJECTED":
            rows.change("document_versions", key, status="REJECTED")
        case "DOCUMENT_CONTENT_RESTORED":
            rows.change("document_versions", key, content_restored_at=event.at)
        case _:
            pass


def fold_supplier(rows: ExpectedRows, event: StateEvent) -> None:
    """A supplier, and the column mappings that were accepted for it."""
    key, payload = event.aggregate_id, event.payload
    match event.type:
        case "SUPPLIER_CREATED":
            rows.put("suppliers", key, created_at=event.at, rank=None, **take(payload, "name", number_locale="locale"))
        case "SUPPLIER_CHANGED":
            rows.change("suppliers", key, **take(payload, "rank", number_locale="locale"))
        case "COLUMN_MAPPING_ACCEPTED":
            row_key = key, payload["kind"], str(payload["version"])
            mapping = canonical_json.encode(payload["mapping"]).hex()
            rows.put("column_mappings", *row_key, mapping=mapping, accepted_at=event.at, accepted_by=event.actor_id)
        case _:
            pass


def fold_snapshot(rows: ExpectedRows, event: StateEvent) -> None:
    """A snapshot, and which facts are in it: by their ids until it is sealed, then by its hash."""
    key, payload = event.aggregate_id, event.payload
    match event.type:
        case "SNAPSHOT_CREATED":
            rows.put(
                "data_snapshots",
                key,
                status="BUILDING",
                created_at=event.at,
                created_by=event.actor_id,
                sealed_at=None,
                snapshot_hash=None,
                snapshot_canonical=None,
                items=[],
                **take(payload, "label"),
            )
        case "SNAPSHOT_ITEMS_CHANGED":
            items = set(rows.get("data_snapshots").get((key,), {}).get("items") or ())
            items = items - set(payload["removed"]) | set(payload["added"])
            rows.change("data_snapshots", key, status="BUILDING", items=sorted(items))
        case "SNAPSHOT_READY":
            rows.change("data_snapshots", key, status="READY")
        case "SNAPSHOT_SEALED":
            digest = payload["snapshot_hash"]
            rows.change(
                "data_snapshots",
                key,
                status="SEALED",
                sealed_at=event.at,
                snapshot_hash=digest,
                snapshot_canonical=digest,
                items=None,  # from now on the hash tells them
            )
        case _:
            pass
