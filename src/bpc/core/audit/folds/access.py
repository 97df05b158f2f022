"""Folds of access: tenants, roles, actors, keys, sessions, policies, approvals, view grants, signing keys."""

from datetime import timedelta
from typing import Any, Final

from bpc.core.audit.signing import from_base64
from bpc.core.audit.state import ExpectedRows, StateEvent, take, take_time

# What a tenant has without a row of its own.
DEFAULT_SETTINGS: Final[dict[str, Any]] = {
    "activation_blocked_by": "FAIL",
    "minimum_branch_coverage_pct": 80,
    "four_eyes": [],
    "bundles_for": "NOBODY",
    "request_words_days": 365,
    "brand_name": None,
    "brand_palette": "standard",
    "brand_logo": None,
}
APPROVAL_VALID_FOR: Final = timedelta(days=7)


def fold_tenant(rows: ExpectedRows, event: StateEvent) -> None:
    """The tenant itself, and its settings. Of its logo, events have the hash."""
    key, payload = event.aggregate_id, event.payload
    match event.type:
        case "TENANT_CREATED":
            rows.put(
                "tenants",
                key,
                is_active=True,
                storage_quota_bytes=None,
                public_host=None,
                **take(payload, "slug", "name"),
            )
        case "TENANT_CHANGED":
            rows.change("tenants", key, **take(payload, "is_active"))
        case "TENANT_QUOTA_CHANGED" | "TENANT_DOMAIN_CHANGED":
            rows.change("tenants", key, **{name: change["to"] for name, change in payload.items()})
        case "TENANT_SETTINGS_CHANGED":
            if (key,) not in rows.get("tenant_settings"):
                rows.put("tenant_settings", key, **DEFAULT_SETTINGS)
            values = {name.removesuffix("_sha256"): change["to"] for name, change in payload.items()}
            rows.change("tenant_settings", key, changed_at=event.at, changed_by=event.actor_id, **values)
        case "RETENTION_PAUSED" | "RETENTION_RESUMED":
            rows.put("jobs.schedule", "retention", paused=event.type == "RETENTION_PAUSED")
        case _:
            pass


def fold_role(rows: ExpectedRows, event: StateEvent) -> None:
    """A role, and its permissions."""
    key, payload = event.aggregate_id, event.payload
    if event.type == "ROLE_CREATED":
        rows.put("roles", key, created_at=event.at, **take(payload, "name"))
    if event.type in {"ROLE_CREATED", "ROLE_CHANGED"} and "permissions" in payload:
        rows.replace("role_permissions", [(key, permission) for permission in payload["permissions"]])


def fold_actor(rows: ExpectedRows, event: StateEvent) -> None:
    """An actor, and the names of its roles."""
    key, payload = event.aggregate_id, event.payload
    match event.type:
        case "ACTOR_CREATED":
            rows.put("actors", key, created_at=event.at, is_active=True, **take(payload, "type", "display_name"))
        case "ACTOR_IDENTIFIED":
            columns = take(payload, "issuer", "identity_hash")
            rows.put("actor_identities", key, created_at=event.at, **columns)
        case "ACTOR_CHANGED":
            rows.change("actors", key, **take(payload, "display_name", "is_active"))
        case _:
            pass
    if event.type in {"ACTOR_CREATED", "ACTOR_CHANGED"} and "roles" in payload:
        rows.replace("actor_roles", [(key, role) for role in payload["roles"]])


def fold_api_key(rows: ExpectedRows, event: StateEvent) -> None:
    """An API key. Of its hash, events have the hash."""
    key, payload = event.aggregate_id, event.payload
    match event.type:
        case "API_KEY_CREATED":
            columns = take(payload, "actor_id", "key_prefix", "label", "key_hash_sha256")
            rows.put(
                "api_keys", key, created_at=event.at, revoked_at=None, **columns, **take_time(payload, "expires_at")
            )
        case "API_KEY_CHANGED":
            rows.change("api_keys", key, **take_time(payload, "expires_at"))
        case "API_KEY_REHASHED":
            rows.change("api_keys", key, **take(payload, "key_hash_sha256"))
        case "API_KEY_REVOKED":
            rows.change("api_keys", key, revoked_at=event.at)
        case _:
            pass


def fold_session(rows: ExpectedRows, event: StateEvent) -> None:
    """A session of the console. Of its cookie, events have the hash of the hash."""
    key, payload = event.aggregate_id, event.payload
    match event.type:
        case "CONSOLE_SESSION_STARTED":
            columns = take(payload, "actor_id", "sign_in", "device", "secret_hash_sha256", "link_hash")
            rows.put(
                "console_sessions",
                key,
                created_at=event.at,
                ended_at=None,
                issuer=payload.get("issuer"),  # sessions of earlier releases had none
                **columns,
                **take_time(payload, "expires_at"),
            )
        case "CONSOLE_SESSION_ENDED":
            rows.change("console_sessions", key, ended_at=event.at)
        case _:
            pass


def fold_policy(rows: ExpectedRows, event: StateEvent) -> None:
    """A policy, and its versions."""
    key, payload = event.aggregate_id, event.payload
    if event.type not in {"POLICY_CREATED", "POLICY_CHANGED"}:
        return
    if event.type == "POLICY_CREATED":
        rows.put("policies", key, created_at=event.at, created_by=event.actor_id, **take(payload, "name"))
    for version in rows.get("policy_versions"):  # at most one is active
        rows.change("policy_versions", *version, is_active=False)
    if "policy_version_id" in payload:
        columns = take(
            payload, "version", "effect", "target", "priority", "policy_hash", policy_canonical="policy_hash"
        )
        rows.put(
            "policy_versions",
            payload["policy_version_id"],
            policy_id=key,
            is_active=True,
            created_at=event.at,
            **columns,
        )


def fold_approval(rows: ExpectedRows, event: StateEvent) -> None:
    """A request that waits for a second person, and its answer."""
    key, payload = event.aggregate_id, event.payload
    match event.type:
        case "APPROVAL_REQUESTED":
            rows.put(
                "approvals",
                key,
                status="PENDING",
                requested_by=event.actor_id,
                requested_at=event.at,
                expires_at=event.at + APPROVAL_VALID_FOR,
                decided_by=None,
                decided_at=None,
                **take(payload, "action", "permission", "method", "path", "body_sha256", "content_type"),
            )
        case "APPROVAL_GRANTED" | "APPROVAL_REJECTED":
            status = "APPROVED" if event.type == "APPROVAL_GRANTED" else "REJECTED"
            rows.change("approvals", key, status=status, decided_by=event.actor_id, decided_at=event.at)
        case _:
            pass


def fold_view_request(rows: ExpectedRows, event: StateEvent) -> None:
    """What a person asked to see, and the answer. Of their words, events have the hash."""
    key, payload = event.aggregate_id, event.payload
    match event.type:
        case "VIEW_REQUESTED":
            rows.put(
                "view_requests",
                key,
                requested_at=event.at,
                status="PENDING",
                decided_by=None,
                decided_at=None,
                reason=None,
                said=payload["said_sha256"],
                **take(payload, "passport_id", "battery_id", "audience", "said_sha256"),
            )
        case "VIEW_REQUEST_APPROVED" | "VIEW_REQUEST_REJECTED":
            status = event.type.removeprefix("VIEW_REQUEST_")
            reason = payload.get("reason")
            rows.change(
                "view_requests", key, status=status, decided_by=event.actor_id, decided_at=event.at, reason=reason
            )
        case "VIEW_REQUEST_WORDS_REMOVED":
            rows.change("view_requests", key, said=None)
        case _:
            pass


def fold_view_grant(rows: ExpectedRows, event: StateEvent) -> None:
    """Who may see the view of an audience. Of the hash of the code, events have the hash."""
    key, payload = event.aggregate_id, event.payload
    match event.type:
        case "VIEW_GRANTED":
            columns = take(
                payload,
                "grantee",
                "audience",
                "scope",
                "passport_id",
                "battery_id",
                "terms",
                "may_delegate",
                "parent_id",
                "view_request_id",
                "code_prefix",
                "code_hash_sha256",
            )
            ends = dict.fromkeys(("terms_accepted_at", "revoked_at", "revoked_by", "reason"))
            times = {"created_at": event.at, "created_by": event.actor_id, **take_time(payload, "expires_at")}
            rows.put("view_grants", key, **columns, **ends, **times)
        case "VIEW_TERMS_ACCEPTED":
            rows.change("view_grants", key, terms_accepted_at=event.at)
        case "VIEW_GRANT_REHASHED":
            rows.change("view_grants", key, **take(payload, "code_hash_sha256"))
        case "VIEW_GRANT_REVOKED":
            rows.change("view_grants", key, revoked_at=event.at, revoked_by=event.actor_id, **take(payload, "reason"))
        case _:
            pass


def fold_signing_key(rows: ExpectedRows, event: StateEvent) -> None:
    """The public half of a signing key, of the installation or of a tenant. Its chain is named after it."""
    payload = event.payload
    match event.type:
        case "SIGNING_KEY_CREATED" | "TENANT_KEY_CREATED":
            window = {"valid_from": None, "valid_until": None}
            window |= take_time(payload, "valid_from") | take_time(payload, "valid_until")
            rows.put(
                "signing_keys",
                payload["key_id"],
                public_key=from_base64(payload["public_key"]).hex(),
                status="ACTIVE",
                retired_at=None,
                compromised_since=None,
                owner_tenant_id=payload["tenant_id"] if event.type == "TENANT_KEY_CREATED" else None,
                **window,
            )
        case "SIGNING_KEY_CHANGED" | "TENANT_KEY_RETIRED":
            rows.change("signing_keys", payload["key_id"], status=payload["status"], retired_at=event.at)
        case "SIGNING_KEY_COMPROMISED" | "TENANT_KEY_COMPROMISED":
            rows.change(
                "signing_keys", payload["key_id"], status="COMPROMISED", **take_time(payload, "compromised_since")
            )
        case _:
            pass
