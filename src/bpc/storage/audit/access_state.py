"""The tables of access that follow from events: tenants, roles, actors, keys, policies, approvals."""

from typing import Final

from bpc.storage.audit.state_table import StateTable, hash_bytes, name_columns

ACCESS_TABLES: Final = (
    StateTable(
        name="tenants",
        aggregate_type="Tenant",
        owner="tenant_id",
        key=("tenant_id",),
        where="t.tenant_id <> '00000000-0000-4000-8000-000000000001'",  # made by the first migration
        columns=name_columns("slug", "name", "is_active", "storage_quota_bytes", "public_host"),
    ),
    StateTable(
        name="tenant_settings",
        aggregate_type="Tenant",
        owner="tenant_id",
        key=("tenant_id",),
        columns=name_columns(
            "activation_blocked_by", "minimum_branch_coverage_pct", "four_eyes", "changed_at", "changed_by"
        ),
    ),
    StateTable(
        name="jobs.schedule",
        aggregate_type="Tenant",
        owner="tenant_id",
        key=("name",),
        where="t.name = 'retention'",
        columns=name_columns("paused"),
        may_vanish=True,
        may_appear=True,
    ),
    StateTable(
        name="roles",
        aggregate_type="Role",
        owner="role_id",
        key=("role_id",),
        columns=name_columns("name", "created_at"),
    ),
    StateTable(
        name="role_permissions",
        aggregate_type="Role",
        owner="role_id",
        key=("role_id", "permission"),
        columns={},
    ),
    StateTable(
        name="actors",
        aggregate_type="Actor",
        owner="actor_id",
        key=("actor_id",),
        columns=name_columns("display_name", "is_active", "created_at", type="t.type::text"),
    ),
    StateTable(
        name="actor_roles",
        aggregate_type="Actor",
        owner="actor_id",
        key=(
            "actor_id",
            "(SELECT r.name FROM roles r WHERE r.tenant_id = t.tenant_id AND r.role_id = t.role_id)",
        ),
        columns={},
    ),
    StateTable(
        name="api_keys",
        aggregate_type="ApiKey",
        owner="api_key_id",
        key=("api_key_id",),
        columns=name_columns(
            "actor_id",
            "key_prefix",
            "label",
            "created_at",
            "expires_at",
            "revoked_at",
            key_hash_sha256=hash_bytes("key_hash"),
        ),
    ),
    StateTable(
        name="policies",
        aggregate_type="Policy",
        owner="policy_id",
        key=("policy_id",),
        columns=name_columns("name", "created_at", "created_by"),
    ),
    StateTable(
        name="policy_versions",
        aggregate_type="Policy",
        owner="policy_id",
        key=("policy_version_id",),
        columns=name_columns(
            "policy_id",
            "version",
            "is_active",
            "target",
            "priority",
            "policy_hash",
            "created_at",
            effect="t.effect::text",
            policy_canonical=hash_bytes("policy_canonical"),
        ),
    ),
    StateTable(
        name="approvals",
        aggregate_type="Approval",
        owner="approval_id",
        key=("approval_id",),
        columns=name_columns(
            "action",
            "permission",
            "method",
            "path",
            "content_type",
            "requested_by",
            "requested_at",
            "expires_at",
            "status",
            "decided_by",
            "decided_at",
            body_sha256=hash_bytes("body"),
        ),
    ),
    StateTable(
        name="signing_keys",
        aggregate_type="SigningKey",
        owner=None,
        key=("key_id",),
        columns=name_columns(
            "public_key",
            "retired_at",
            "owner_tenant_id",
            "valid_from",
            "valid_until",
            "compromised_since",
            status="t.status::text",
        ),
    ),
)
