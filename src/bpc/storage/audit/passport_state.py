"""The tables of rules, passports and webhooks that follow from events."""

from typing import Final, LiteralString

from bpc.storage.audit.state_table import StateTable, hash_bytes, hash_json_text, name_columns

# The same bytes as bpc.core.audit.row_hashes.
FIELD_LINE: Final[LiteralString] = """
    concat_ws(chr(31), f.field_path, f.field_type, array_to_string(f.audiences, ' '), f.required::text,
              coalesce(f.label, ''), coalesce(f.point, ''), coalesce(f.citation, ''))
"""
FIELDS_OF_VERSION: Final[LiteralString] = f"""
    (SELECT encode(sha256(convert_to(coalesce(
              string_agg(DISTINCT {FIELD_LINE} COLLATE "C", chr(30) ORDER BY {FIELD_LINE} COLLATE "C"), ''), 'UTF8')),
              'hex')
       FROM rule_fields f
      WHERE f.tenant_id = t.tenant_id AND f.rule_package_version_id = t.rule_package_version_id)
"""

PASSPORT_TABLES: Final = (
    StateTable(
        name="rule_packages",
        aggregate_type="RulePackage",
        owner="rule_package_id",
        key=("rule_package_id",),
        columns=name_columns("name", "description", "is_active", "created_at", "created_by"),
    ),
    StateTable(
        name="rule_catalogues",
        aggregate_type="RulePackage",
        owner="rule_package_id",
        key=("rule_package_id", "language"),
        columns=name_columns("sha256", "texts", "stored_at", content=hash_bytes("content")),
    ),
    StateTable(
        name="rule_package_versions",
        aggregate_type="RulePackageVersion",
        owner="rule_package_version_id",
        key=("rule_package_version_id",),
        columns=name_columns(
            "rule_package_id",
            "version",
            "created_at",
            "published_at",
            "compiler_min_build",
            "dsl_sha256",
            "tests_sha256",
            status="t.status::text",
            dsl_source=hash_bytes("dsl_source"),
            tests_source=hash_bytes("tests_source"),
            fields=FIELDS_OF_VERSION,
        ),
    ),
    StateTable(
        name="rule_tests_runs",
        aggregate_type="RulePackageVersion",
        owner="rule_package_version_id",
        key=("run_id",),
        columns=name_columns(
            "rule_package_version_id",
            "seed",
            "cases",
            "passed",
            "failed",
            "discarded",
            "status",
            details="json_build_object('coverage', t.coverage, 'failure', t.failure)::text",
        ),
        convert={"details": hash_json_text},
    ),
    StateTable(
        name="battery_products",
        aggregate_type="BatteryProduct",
        owner="battery_product_id",
        key=("battery_product_id",),
        columns=name_columns("sku", "name", "is_active", "created_at"),
    ),
    StateTable(
        name="passports",
        aggregate_type="Passport",
        owner="passport_id",
        key=("passport_id",),
        columns=name_columns("battery_product_id", "created_at"),
    ),
    StateTable(
        name="passport_versions",
        aggregate_type="PassportVersion",
        owner="passport_version_id",
        key=("passport_version_id",),
        columns=name_columns(
            "passport_id",
            "created_at",
            "activated_at",
            "superseded_at",
            "revoked_at",
            "snapshot_id",
            "rule_package_version_id",
            "compiler_build_id",
            "payload_hash",
            "proof_root_hash",
            "receipt_hash",
            "signing_key_id",
            "qr_payload",
            "replayed_at",
            "fail_count",
            "warn_count",
            "abandoned_at",
            "abandon_reason",
            status="t.status::text",
            payload_canonical=hash_bytes("payload_canonical"),
            proof_canonical=hash_bytes("proof_canonical"),
            receipt_canonical=hash_bytes("receipt_canonical"),
            signature=hash_bytes("signature"),
            qr_png=hash_bytes("qr_png"),
        ),
    ),
    StateTable(
        name="passport_waivers",
        aggregate_type="PassportVersion",
        owner="passport_version_id",
        key=("waiver_id",),
        columns=name_columns("passport_version_id", "code", "field", "entries", "reason", "waived_at", "waived_by"),
    ),
    StateTable(
        name="passport_exports",
        aggregate_type="PassportVersion",
        owner="passport_version_id",
        key=("export_id",),
        where="t.status = 'READY'",
        columns=name_columns("format", "audience", "sha256", content=hash_bytes("content")),
        may_vanish=True,
    ),
    StateTable(
        name="compile_runs",
        aggregate_type="CompileRun",
        owner="run_id",
        key=("run_id",),
        columns=name_columns(
            "rule_package_version_id", "activate", "total", "created_at", "created_by", "cancelled_at", "skip_unchanged"
        ),
    ),
    StateTable(
        name="webhook_endpoints",
        aggregate_type="WebhookEndpoint",
        owner="webhook_endpoint_id",
        key=("webhook_endpoint_id",),
        columns=name_columns(
            "url",
            "is_active",
            "created_at",
            "created_by",
            "rotated_at",
            "timeout_seconds",
            "retry_client_errors",
            "disabled_at",
            "disabled_reason",
        ),
    ),
    StateTable(
        name="webhook_subscriptions",
        aggregate_type="WebhookSubscription",
        owner="webhook_subscription_id",
        key=("webhook_subscription_id",),
        columns=name_columns("webhook_endpoint_id", "event_type", "created_at"),
    ),
)
