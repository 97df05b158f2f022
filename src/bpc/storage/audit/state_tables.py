"""Which tables follow from events, and which do not and why: the one list.

A new table belongs into one of the lists of `STATE_TABLES`, with a fold for its aggregate in bpc.core.audit.folds, or
into `TABLES_WITHOUT_FOLD` with a reason. A column that is not compared has its reason in `COLUMNS_WITHOUT_FOLD`. A test
compares all three with the schema.
"""

from collections.abc import Mapping
from typing import Final

from bpc.storage.audit.access_state import ACCESS_TABLES
from bpc.storage.audit.battery_state import BATTERY_TABLES
from bpc.storage.audit.evidence_state import EVIDENCE_TABLES
from bpc.storage.audit.passport_state import PASSPORT_TABLES
from bpc.storage.audit.state_table import ConsistencyCheck

STATE_TABLES: Final = (*ACCESS_TABLES, *BATTERY_TABLES, *EVIDENCE_TABLES, *PASSPORT_TABLES)

CONSISTENCY_CHECKS: Final = (
    ConsistencyCheck(
        table="passports",
        column="current_passport_version_id",
        key="t.passport_id",
        is_right="""
            ARRAY(SELECT v.passport_version_id FROM passport_versions v
                   WHERE v.tenant_id = t.tenant_id AND v.passport_id = t.passport_id AND v.status = 'ACTIVE')
            = array_remove(ARRAY[t.current_passport_version_id], NULL)
        """,
        says="it is not the active version of the passport",
    ),
    ConsistencyCheck(
        table="policy_versions",
        column="policy_json",
        key="t.policy_version_id",
        is_right="""
            CASE WHEN sha256(t.policy_canonical) = t.policy_hash
                 THEN convert_from(t.policy_canonical, 'UTF8')::jsonb -> 'policy_json' = t.policy_json ELSE true END
        """,
        says="it differs from the canonical text of the policy",
    ),
    ConsistencyCheck(
        table="api_key_prefixes",
        column="key_prefix",
        key="t.key_prefix",
        is_right="""
            EXISTS (SELECT FROM api_keys k WHERE k.tenant_id = t.tenant_id AND k.key_prefix = t.key_prefix)
        """,
        says="no API key has this prefix",
    ),
    ConsistencyCheck(
        table="facts",
        column="payload_canonical",
        key="t.fact_id",
        is_right="sha256(t.payload_canonical) = t.payload_hash",
        says="it does not have the hash of the fact",
    ),
    ConsistencyCheck(
        table="facts",
        column="payload",
        key="t.fact_id",
        is_right="""
            CASE WHEN sha256(t.payload_canonical) = t.payload_hash
                 THEN t.payload = convert_from(t.payload_canonical, 'UTF8')::jsonb ELSE true END
        """,
        says="it differs from the canonical payload of the fact",
    ),
    ConsistencyCheck(
        table="data_snapshots",
        column="snapshot_items",
        key="t.snapshot_id",
        is_right="""
            CASE WHEN sha256(t.snapshot_canonical) = t.snapshot_hash THEN NOT EXISTS (
              (SELECT f.fact_type, f.fact_key, encode(f.payload_hash, 'hex') FROM snapshot_items i
                 JOIN facts f ON f.tenant_id = i.tenant_id AND f.fact_id = i.fact_id
                WHERE i.tenant_id = t.tenant_id AND i.snapshot_id = t.snapshot_id
               EXCEPT
               SELECT x ->> 'fact_type', x ->> 'fact_key', x ->> 'payload_hash'
                 FROM json_array_elements(convert_from(t.snapshot_canonical, 'UTF8')::json -> 'facts') AS x)
              UNION ALL
              (SELECT x ->> 'fact_type', x ->> 'fact_key', x ->> 'payload_hash'
                 FROM json_array_elements(convert_from(t.snapshot_canonical, 'UTF8')::json -> 'facts') AS x
               EXCEPT
               SELECT f.fact_type, f.fact_key, encode(f.payload_hash, 'hex') FROM snapshot_items i
                 JOIN facts f ON f.tenant_id = i.tenant_id AND f.fact_id = i.fact_id
                WHERE i.tenant_id = t.tenant_id AND i.snapshot_id = t.snapshot_id))
            ELSE true END
        """,
        says="the facts in it are not those that it was sealed with",
    ),
    ConsistencyCheck(
        table="batteries",
        column="status",
        key="t.battery_id",
        is_right="""
            coalesce((SELECT (t.status, t.ceased_at, t.successor) IS NOT DISTINCT FROM
                             (c.status, CASE c.kind WHEN 'RECYCLED' THEN c.changed_at END,
                              CASE c.kind WHEN 'SUCCEEDED' THEN c.said ->> 'successor' END)
                        FROM battery_changes c
                       WHERE c.tenant_id = t.tenant_id AND c.battery_id = t.battery_id
                       ORDER BY c.number DESC LIMIT 1),
                     t.status = 'original' AND t.ceased_at IS NULL AND t.successor IS NULL)
        """,
        says="status, end and successor are not those of its last change",
    ),
    ConsistencyCheck(
        table="batteries",
        column="placed_on",
        key="t.battery_id",
        is_right="""
            coalesce((SELECT t.placed_on IS NOT DISTINCT FROM c.effective_on FROM battery_changes c
                       WHERE c.tenant_id = t.tenant_id AND c.battery_id = t.battery_id AND c.kind = 'PLACED'
                       LIMIT 1), true)
        """,
        says="it is not the day on which it was placed on the market",
    ),
    ConsistencyCheck(
        table="status_entries",
        column="state",
        key="t.passport_version_id",
        is_right="""
            coalesce((SELECT t.state = CASE v.status::text WHEN 'REVOKED' THEN 2 WHEN 'SUPERSEDED' THEN 1 ELSE 0 END
                        FROM passport_versions v
                       WHERE v.tenant_id = t.tenant_id AND v.passport_version_id = t.passport_version_id), true)
        """,
        says="it is not the status of the passport version",
    ),
    ConsistencyCheck(
        table="status_entries",
        column="statement_due",
        key="t.passport_version_id",
        is_right="""
            t.statement_due OR EXISTS (
              SELECT FROM status_statements s WHERE s.tenant_id = t.tenant_id
                 AND s.passport_version_id = t.passport_version_id AND s.state = t.state)
        """,
        says="nothing is due, and no signed statement tells the status",
    ),
    ConsistencyCheck(
        table="passport_versions",
        column="status",
        key="t.passport_version_id",
        # Versions from before status lists get their place when a worker starts.
        is_right="""
            t.status::text NOT IN ('SIGNED', 'ACTIVE', 'SUPERSEDED', 'REVOKED')
            OR EXISTS (SELECT FROM status_entries e
                        WHERE e.tenant_id = t.tenant_id AND e.passport_version_id = t.passport_version_id)
            OR t.created_at < (SELECT applied_at FROM schema_migrations
                                WHERE component = 'bpc' AND name LIKE '%\\_status\\_lists.sql')
        """,
        says="it has no place in a status list, so verifiers are not told",
    ),
    ConsistencyCheck(
        table="status_statements",
        column="document",
        key="t.passport_version_id",
        is_right="""
            EXISTS (
              SELECT FROM status_entries e
               CROSS JOIN LATERAL (SELECT convert_from(t.document, 'UTF8')::jsonb AS said) AS d
               WHERE e.tenant_id = t.tenant_id AND e.passport_version_id = t.passport_version_id
                 AND jsonb_path_query_first(d.said, '$.**.statusListIndex') #>> '{}' = e.list_index::text
                 AND jsonb_path_query_first(d.said, '$.**.statusListCredential') #>> '{}' LIKE '%/' || e.list_id)
        """,
        says="it names another place in the status lists than the version has",
    ),
    ConsistencyCheck(
        table="battery_identifications",
        column="fixed_at",
        key="t.battery_product_id",
        is_right="""
            (t.fixed_at IS NOT NULL) = EXISTS (
              SELECT FROM batteries b WHERE b.tenant_id = t.tenant_id
                 AND b.battery_product_id = t.battery_product_id AND b.placed_on IS NOT NULL)
        """,
        says="it does not fit the batteries of the product that are on the market",
    ),
    ConsistencyCheck(
        table="battery_identifications",
        column="granularity",
        key="t.battery_product_id",
        is_right="""
            t.changed_at IS DISTINCT FROM t.fixed_at
            OR (t.granularity = 'ITEM' AND t.scheme = 'OWN'
                AND num_nonnulls(t.gtin, t.base_url, t.operator_scheme, t.operator_id) = 0)
        """,
        says="no event of the product tells how its batteries are identified",
    ),
)

TABLES_WITHOUT_FOLD: Final[Mapping[str, str]] = {
    "api_key_prefixes": "a copy of api_keys for finding a key; checked against it",
    "batteries": "each row is compared with the hash of its leaf, whose root is in BATTERIES_REGISTERED; `status` and "
    "`placed_on` are checked",
    "battery_readings": "those of a delivery are compared with the hash of all of them in READINGS_RECEIVED",
    "compile_run_rows": "what a bulk compile still has to do; each result is a passport version with events of its own",
    "document_texts": "made from the bytes of a document, and can be made again",
    "event_anchors": "checked with the chains of events",
    "events": "the events themselves; checked by their hashes",
    "fact_sources": "compared with the hash in FACTS_PARSED, as `facts` of document_versions",
    "facts": "compared with the hashes in FACTS_PARSED and SNAPSHOT_SEALED; payloads with their own hashes",
    "idempotency_keys": "answers that are kept for a day, in case a request is sent again",
    "item_chunks": "root, count and pack are compared with ITEMS_ISSUED; of one that waits, nothing",
    "item_passport_versions": "each row is compared with the hash of its leaf, whose root is in ITEMS_ISSUED",
    "jobs.batch": "work to do, no record",
    "jobs.job": "work to do, no record: what a job changes has events of its own",
    "jobs.job_dependency": "work to do, no record",
    "jobs.job_later": "work to do, no record",
    "jobs.job_lease": "work to do, no record",
    "jobs.job_ready": "work to do, no record",
    "jobs.job_slot": "work to do, no record",
    "jobs.job_worker": "which workers run now",
    "log_checkpoints": "checked when the log is audited",
    "log_entries": "checked when the log is audited",
    "log_openings": "checked when the log is audited; each logged event must have one",
    "log_outbox": "what is not in the log yet; each logged event must be here or there",
    "log_proofs": "checked when the log is audited",
    "log_state": "checked when the log is audited",
    "permissions": "the permissions of this release, put there by migrations",
    "rate_limit_buckets": "how many requests a key may send now",
    "removed_events": "checked with the events of retention",
    "retention_anchors": "checked with the events of retention",
    "rule_fields": "compared with the hash in RULE_VERSION_CREATED, as `fields` of rule_package_versions",
    "schema_migrations": "which migrations ran; each is compared with its file at every start",
    "snapshot_items": "compared with the hash in SNAPSHOT_SEALED; before that, as `items` of data_snapshots",
    "status_entries": "a place in a list is random, and checked against the signed statement; `state` is checked "
    "against the status of the version",
    "status_lists": "signed documents that are made again every day from status_entries",
    "status_statements": "signed documents, which show by their signatures what was changed; their place is checked",
    "webhook_deliveries": "attempts to send; the event that is sent is the record",
}

COLUMNS_WITHOUT_FOLD: Final[Mapping[str, Mapping[str, str]]] = {
    "actor_roles": {"created_at": "when the row was written, not used", "role_id": "compared by the name of the role"},
    "actors": {"email": "personal data, which events do not keep, so that it can be removed"},
    "api_keys": {
        "key_hash": "compared as key_hash_sha256",
        "last_used_at": "when the key was last used",
        "pepper_id": "which pepper the hash was made with; the hash itself is compared",
    },
    "console_sessions": {
        "last_used_at": "when the session was last used",
        "provider_tokens": "encrypted, and only for asking the provider which groups somebody is in",
        "reading_since": "which request asks the provider now",
        "roles_read_at": "when the provider was last asked; the roles themselves are compared",
        "secret_hash": "compared as secret_hash_sha256",
    },
    "approvals": {"body": "compared as body_sha256"},
    "battery_identifications": {"fixed_at": "checked: it is there if a battery of the product is on the market"},
    "battery_registrations": {"leaf_hashes": "checked: they give the root, and each battery has the hash of its leaf"},
    "compile_runs": {"batch_id": "the jobs of the run", "is_open": "whether jobs of the run still wait"},
    "document_versions": {
        "content_removed_at": "follows from `content`, whose removal a RetentionApplied event tells",
        "reread_sha256": "compared as sha256",
    },
    "jobs.schedule": dict.fromkeys(
        (
            "catch_up",
            "created_at",
            "cron",
            "keep_seconds",
            "last_at",
            "limit_at_most",
            "limit_key",
            "max_attempts",
            "next_at",
            "payload",
            "priority",
            "subject_group",
            "subject_id",
            "subject_kind",
            "time_zone",
            "type",
        ),
        "when jobs run; workers declare their own schedules. A pause of retention is compared",
    ),
    "passport_exports": {
        "created_at": "exports can be made again; their bytes are compared",
        "created_by": "exports can be made again; their bytes are compared",
        "file_name": "exports can be made again; their bytes are compared",
        "finished_at": "exports can be made again; their bytes are compared",
        "job_id": "the job that makes it",
        "language": "exports can be made again; their bytes are compared",
        "last_error": "why an export is not ready",
        "mime_type": "exports can be made again; their bytes are compared",
        "passport_version_id": "the chain that its event is in",
        "status": "only exports that are ready are compared",
    },
    "passport_versions": {"signature_alg": "one value, which the table checks"},
    "passports": {"current_passport_version_id": "checked: it is the version whose status is ACTIVE"},
    "policy_versions": {"policy_json": "checked against policy_canonical"},
    "reading_deliveries": {
        "public_key": "the sender's, which its signature shows to be right",
        "signature": "the sender's, over `sha256`, which is compared",
    },
    "rule_tests_runs": {
        "coverage": "compared in `details`",
        "created_at": "the order of runs: the time of the event, or a microsecond after the run before",
        "failure": "compared in `details`",
    },
    "signing_keys": {"created_at": "when the row was written; the event has its own time"},
    "tenants": {
        "access_version": "random; changes with every change of keys, actors, roles and policies, which are compared",
        "created_at": "when the row was written; the event has its own time",
    },
    "view_grants": {
        "code_hash": "compared as code_hash_sha256",
        "pepper_id": "which pepper the hash was made with; the hash itself is compared",
    },
    "webhook_endpoints": {
        "failed_attempts": "how the endpoint does now",
        "failing_since": "how the endpoint does now",
        "previous_secret_base64": "a secret, of which events keep nothing",
        "secret_base64": "a secret, of which events keep nothing",
    },
}
