"""Folds of single batteries: registrations, readings, what happened to them, transfers, and passports of batches."""

import json
from collections.abc import Mapping
from typing import Final

from bpc.core.audit.row_hashes import hash_json
from bpc.core.audit.state import ExpectedRows, StateEvent, take, take_time
from bpc.core.formats.hashes import to_hex

_NOT_YET = (
    "battery_id",
    "acceptance",
    "entry",
    "gives_statement",
    "takes_statement",
    "accepted_at",
    "ended_at",
    "reason",
)

_NOT_ISSUED = ("content", "signature", "receipt_hash", "fail_count", "warn_count", "refusal", "ended_at")

# Whose payload is the new status, the day, and what was said.
_CHANGES: Final[Mapping[str, str]] = {
    "BATTERY_PLACED_ON_MARKET": "PLACED",
    "BATTERY_REPAIRED": "REPAIRED",
    "BATTERY_BECAME_WASTE": "WASTE",
    "BATTERY_RECYCLED": "RECYCLED",
    "BATTERY_SUCCEEDED": "SUCCEEDED",
    "BATTERY_LIFE_BEGUN": "BEGUN",
}


def fold_registration(rows: ExpectedRows, event: StateEvent) -> None:
    """Batteries that were registered together: how many, and the root over them."""
    if event.type == "BATTERIES_REGISTERED":
        columns = take(event.payload, "root", total="count")
        times = {"registered_at": event.at, "registered_by": event.actor_id}
        rows.put("battery_registrations", event.aggregate_id, **columns, **times)


def fold_delivery(rows: ExpectedRows, event: StateEvent) -> None:
    """Readings that were sent together: what sent them, how many, and the hash of the bytes."""
    if event.type == "READINGS_RECEIVED":
        columns = take(event.payload, "source", "sha256", "received")
        times = {"received_at": event.at, "received_by": event.actor_id}
        rows.put("reading_deliveries", event.aggregate_id, sender=event.payload.get("sender"), **columns, **times)


def fold_battery(rows: ExpectedRows, event: StateEvent) -> None:
    """What happened to a battery: a row for each event that tells a change."""
    kind = _CHANGES.get(event.type)
    if kind is None:
        return
    columns = take(event.payload, "status", "effective_on")
    statements = {name: value for name, value in event.payload.items() if name not in columns}
    number = str(len(rows.get("battery_changes")) + 1)
    times = {"changed_at": event.at, "changed_by": event.actor_id}
    said_hash = to_hex(hash_json(json.dumps(statements)))
    rows.put("battery_changes", event.aggregate_id, number, kind=kind, said=said_hash, **columns, **times)


def fold_batch(rows: ExpectedRows, event: StateEvent) -> None:
    """A batch, and its passports: requested, then issued or refused."""
    payload, table = event.payload, "batch_passport_versions"
    if event.type == "BATCH_CREATED":
        columns = take(payload, "battery_product_id", "batch_number", "plant", "manufactured_on")
        rows.put("battery_batches", event.aggregate_id, created_at=event.at, **columns)
    elif event.type == "BATCH_PASSPORT_REQUESTED":
        columns = take(
            payload,
            *("model_version_id", "model_receipt_hash", "rule_package_version_id", "dsl_sha256", "compiler_build_id"),
            "signing_key_id",
            facts="facts_sha256",
            secret="secret_sha256",  # noqa: S106 (the hash of what is stored, which is encrypted)
        )
        request = {"battery_batch_id": event.aggregate_id, "requested_at": event.at, "requested_by": event.actor_id}
        rows.put(table, payload["passport_version_id"], **dict.fromkeys(_NOT_ISSUED), **columns, **request)
    elif event.type == "BATCH_PASSPORT_ISSUED":
        columns = take(
            payload,
            "receipt_hash",
            "fail_count",
            "warn_count",
            content="content_sha256",
            signature="signature_sha256",
        )
        rows.change(table, payload["passport_version_id"], ended_at=event.at, **columns)
    elif event.type == "BATCH_PASSPORT_REFUSED":
        rows.change(table, payload["passport_version_id"], ended_at=event.at, refusal=payload["refusal"])


def fold_item_run(rows: ExpectedRows, event: StateEvent) -> None:
    """A run of batteries: what it was asked for, and whether it is stopped."""
    payload, key = event.payload, event.aggregate_id
    if event.type == "ITEM_RUN_REQUESTED":
        columns = take(
            payload,
            *("model_version_id", "model_receipt_hash", "rule_package_version_id", "dsl_sha256", "compiler_build_id"),
            *("signing_key_id", "total", "battery_product_id", "unchanged", "request_hash"),
            secret="secret_sha256",  # noqa: S106 (the hash of what is stored, which is encrypted)
        )
        request = {"requested_at": event.at, "requested_by": event.actor_id, "stopped_at": None, "resumed": 0}
        rows.put("item_runs", key, **columns, **request)
    elif event.type == "ITEM_RUN_STOPPED":
        rows.change("item_runs", key, stopped_at=event.at)
    elif event.type == "ITEM_RUN_RESUMED":
        resumed = rows.get("item_runs").get((key,), {}).get("resumed")
        count = {} if resumed is None else {"resumed": resumed + 1}
        rows.change("item_runs", key, stopped_at=None, **count)


def fold_transfer(rows: ExpectedRows, event: StateEvent) -> None:
    """A transfer, as one of its two tenants sees it. Its first event tells which side that is."""
    key, payload = event.aggregate_id, event.payload
    state = event.type.removeprefix("BATTERY_TRANSFER_")
    if state == event.type:
        return
    if "side" in payload:
        columns = take(payload, "side", "other_tenant_id", offer="offer_sha256")
        times = take_time(payload, "offered_at") | take_time(payload, "expires_at")
        rows.put("battery_transfers", key, **dict.fromkeys(_NOT_YET), **columns, **times)
    terms = take(
        payload,
        "battery_id",
        "reason",
        acceptance="acceptance_sha256",
        entry="entry_sha256",
        gives_statement="gives_sha256",
        takes_statement="takes_sha256",
    )
    if state not in {"OFFERED", "ACCEPTED"}:
        terms["ended_at"] = event.at
    rows.change("battery_transfers", key, state=state, **terms, **take_time(payload, "accepted_at"))
