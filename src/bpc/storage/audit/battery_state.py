"""The tables of single batteries that follow from events."""

from typing import Final

from bpc.storage.audit.state_table import StateTable, hash_bytes, hash_json_text, name_columns

BATTERY_TABLES: Final = (
    StateTable(
        name="battery_identifications",
        aggregate_type="BatteryProduct",
        owner="battery_product_id",
        key=("battery_product_id",),
        # A product that says nothing gets a row with its first battery on the market, which no event of it tells.
        where="t.changed_at IS DISTINCT FROM t.fixed_at",
        columns=name_columns(
            "granularity", "scheme", "gtin", "base_url", "operator_scheme", "operator_id", "changed_at"
        ),
    ),
    StateTable(
        name="battery_batches",
        aggregate_type="BatteryBatch",
        owner="battery_batch_id",
        key=("battery_batch_id",),
        columns=name_columns(
            "battery_product_id", "batch_number", "plant", "created_at", manufactured_on="t.manufactured_on::text"
        ),
    ),
    StateTable(
        name="item_runs",
        aggregate_type="ItemRun",
        owner="item_run_id",
        key=("item_run_id",),
        columns=name_columns(
            "battery_product_id",
            "model_version_id",
            "rule_package_version_id",
            "compiler_build_id",
            "signing_key_id",
            "total",
            "unchanged",
            "requested_at",
            "requested_by",
            "stopped_at",
            "resumed",
            model_receipt_hash="encode(t.model_receipt_hash, 'hex')",
            dsl_sha256="encode(t.dsl_sha256, 'hex')",
            request_hash="encode(t.request_hash, 'hex')",
            secret="encode(sha256(convert_to(t.secret, 'UTF8')), 'hex')",  # noqa: S106 (SQL)
        ),
    ),
    StateTable(
        name="batch_passport_versions",
        aggregate_type="BatteryBatch",
        owner="battery_batch_id",
        key=("passport_version_id",),
        columns=name_columns(
            "battery_batch_id",
            "model_version_id",
            "rule_package_version_id",
            "compiler_build_id",
            "signing_key_id",
            "requested_at",
            "requested_by",
            "ended_at",
            "fail_count",
            "warn_count",
            "refusal",
            model_receipt_hash="encode(t.model_receipt_hash, 'hex')",
            dsl_sha256="encode(t.dsl_sha256, 'hex')",
            receipt_hash="encode(t.receipt_hash, 'hex')",
            facts=hash_bytes("facts"),
            content=hash_bytes("content"),
            signature=hash_bytes("signature"),
            secret="encode(sha256(convert_to(t.secret, 'UTF8')), 'hex')",  # noqa: S106 (SQL)
        ),
    ),
    StateTable(
        name="battery_registrations",
        aggregate_type="BatteryRegistration",
        owner="registration_id",
        key=("registration_id",),
        columns=name_columns("total", "root", "registered_at", "registered_by"),
    ),
    StateTable(
        name="reading_deliveries",
        aggregate_type="ReadingDelivery",
        owner="delivery_id",
        key=("delivery_id",),
        columns=name_columns("source", "sender", "sha256", "received", "received_at", "received_by"),
    ),
    StateTable(
        name="battery_changes",
        aggregate_type="Battery",
        owner="battery_id",
        key=("battery_id", "number"),
        columns=name_columns(
            "kind",
            "status",
            "changed_at",
            "changed_by",
            effective_on="t.effective_on::text",
            said="t.said::text",
        ),
        convert={"said": hash_json_text},
    ),
    StateTable(
        name="battery_transfers",
        aggregate_type="BatteryTransfer",
        owner="transfer_id",
        key=("transfer_id",),
        columns=name_columns(
            "side",
            "other_tenant_id",
            "state",
            "battery_id",
            "offered_at",
            "expires_at",
            "accepted_at",
            "ended_at",
            "reason",
            offer=hash_bytes("offer"),
            acceptance=hash_bytes("acceptance"),
            entry=hash_bytes("entry"),
            gives_statement=hash_bytes("gives_statement"),
            takes_statement=hash_bytes("takes_statement"),
        ),
    ),
)
