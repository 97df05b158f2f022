"""Policies, their versions, and the rule that somebody must be able to administer access.

A version never changes; at most one version of a policy is active. Whatever changes access locks it first
(`lock_access`) and ends with `require_administrator`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString, cast
from uuid import UUID

import asyncpg
import orjson

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict, UnknownResource
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import ActorId, PolicyId, PolicyVersionId, TenantId
from bpc.core.grants import Holder
from bpc.core.policies import (
    MAX_BYTES_IN_FORCE,
    MAX_POLICIES_IN_FORCE,
    AccessRequest,
    Effect,
    PolicyInForce,
    Resource,
    encode_policy,
    is_always_allowed,
    parse_conditions,
)
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery, fetch_rows, make_page_query

SELECT_ACTIVE_POLICIES: Final[LiteralString] = """
    SELECT v.policy_id, v.policy_version_id, v.version, v.effect::text AS effect, v.target, v.priority,
           v.policy_json::text AS policy_json, p.name
      FROM policy_versions v
      JOIN policies p ON p.tenant_id = v.tenant_id AND p.policy_id = v.policy_id
     WHERE v.tenant_id = $1 AND v.is_active
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivePolicy:
    """A policy in force, and its name."""

    policy: PolicyInForce
    name: str


async def list_active_policies(conn: Connection, tenant: TenantId) -> list[ActivePolicy]:
    """Every policy of a tenant that is in force, in no order."""
    return [
        ActivePolicy(policy=parse_policy(dict(row), orjson.loads(row["policy_json"])), name=row["name"])
        for row in await conn.fetch(SELECT_ACTIVE_POLICIES, tenant)
    ]


def parse_policy(version: Mapping[str, Any], conditions: Mapping[str, Any]) -> PolicyInForce:
    """A version of a policy, as access decisions use it."""
    return PolicyInForce(
        policy_id=version["policy_id"],
        policy_version_id=version["policy_version_id"],
        version=version["version"],
        effect=version["effect"],
        target=version["target"],
        priority=version["priority"],
        conditions=parse_conditions(conditions),
    )


# Administrators: actors that have `access:admin` by a role, and that no policy stops ---------------------------------

ADMIN_PERMISSION: Final = "access:admin"

LOCK_ACCESS: Final[LiteralString] = "SELECT pg_advisory_xact_lock(hashtextextended('administrators/' || $1::text, 0))"
# Of the actor `a`, in the order of the names.
ROLE_NAMES_OF_ACTOR: Final[LiteralString] = """
           array(SELECT r.name FROM actor_roles ar
                   JOIN roles r ON r.tenant_id = ar.tenant_id AND r.role_id = ar.role_id
                  WHERE ar.tenant_id = a.tenant_id AND ar.actor_id = a.actor_id ORDER BY r.name)
"""
SELECT_ADMINISTRATORS: Final[LiteralString] = f"""
    SELECT a.actor_id, a.type::text AS actor_type, {ROLE_NAMES_OF_ACTOR} AS roles
      FROM actors a
     WHERE a.tenant_id = $1 AND a.is_active
       AND EXISTS (SELECT FROM actor_roles ar
                     JOIN role_permissions rp ON rp.tenant_id = ar.tenant_id AND rp.role_id = ar.role_id
                    WHERE ar.tenant_id = a.tenant_id AND ar.actor_id = a.actor_id AND rp.permission = 'access:admin')
"""


async def lock_access(conn: Connection, tenant: TenantId) -> None:
    """Until the transaction ends, nobody else changes roles, actors or policies of the tenant."""
    await conn.execute(LOCK_ACCESS, str(tenant))


async def list_administrators(conn: Connection, tenant: TenantId) -> list[Holder]:
    """The active actors that have `access:admin` by a role. Of their permissions, only that one is told."""
    rows = await conn.fetch(SELECT_ADMINISTRATORS, tenant)
    return [Holder(**row, permissions=(ADMIN_PERMISSION,)) for row in rows]


async def require_administrator(conn: Connection, tenant: TenantId, now: datetime) -> None:
    """Refuse if, in this transaction, nobody can administer access: nobody could change access any more."""
    policies = [active.policy for active in await list_active_policies(conn, tenant)]
    for administrator in await list_administrators(conn, tenant):
        question = AccessRequest(
            actor_id=ActorId(cast("UUID", administrator.actor_id)),
            actor_type=administrator.actor_type,
            roles=administrator.roles,
            permission=ADMIN_PERMISSION,
            resource=Resource(type="Policy"),
            now=now,
        )
        if is_always_allowed(question, policies):
            return
    raise Conflict(
        "this would leave no active actor that can administer access",
        fix="give another active actor a role with `access:admin` that no policy denies",
    )


# Policies and their versions --------------------------------------------------------------------------------------

INSERT_POLICY: Final[LiteralString] = """
    INSERT INTO policies (tenant_id, policy_id, name, created_at, created_by) VALUES ($1, $2, $3, $4, $5)
"""
INSERT_POLICY_VERSION: Final[LiteralString] = """
    INSERT INTO policy_versions (tenant_id, policy_version_id, policy_id, version, is_active, effect, target, priority,
                                 policy_json, policy_canonical, policy_hash, created_at)
    SELECT $1, $2, $3, coalesce(max(version), 0) + 1, true, $4::access_decision, $5, $6, $7::jsonb, $8, $9, $10
      FROM policy_versions WHERE tenant_id = $1 AND policy_id = $3
    RETURNING version
"""
DEACTIVATE_VERSION: Final[LiteralString] = """
    UPDATE policy_versions SET is_active = false WHERE tenant_id = $1 AND policy_id = $2 AND is_active
    RETURNING version
"""
COUNT_ACTIVE: Final[LiteralString] = """
    SELECT count(*) AS policies, sum(octet_length(policy_canonical)) AS bytes FROM policy_versions
     WHERE tenant_id = $1 AND is_active
"""
SELECT_POLICIES: Final[LiteralString] = "SELECT policy_id, name, created_at, created_by FROM policies"
SELECT_POLICY: Final[LiteralString] = f"{SELECT_POLICIES} WHERE tenant_id = $1 AND policy_id = $2"
SELECT_POLICY_PAGE: Final[LiteralString] = make_page_query(SELECT_POLICIES, time="created_at", key="policy_id")
SELECT_VERSIONS: Final[LiteralString] = """
    SELECT policy_version_id, policy_id, version, is_active, effect::text AS effect, target, priority,
           policy_json::text AS policy_json, policy_hash, created_at
      FROM policy_versions
"""
SELECT_ACTIVE_VERSIONS: Final[LiteralString] = f"""
    {SELECT_VERSIONS} WHERE tenant_id = $1 AND policy_id = ANY($2::uuid[]) AND is_active
"""
SELECT_VERSION_PAGE: Final[LiteralString] = make_page_query(
    SELECT_VERSIONS, time="created_at", key="policy_version_id", where="AND policy_id = $5"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyText:
    """The content of a version; the caller has checked it."""

    effect: Effect
    target: str
    priority: int
    policy_json: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyVersionRow:
    """A version of a policy, and whether it is active."""

    policy_version_id: PolicyVersionId
    policy_id: PolicyId
    version: int
    is_active: bool
    effect: Effect
    target: str
    priority: int
    policy_json: Mapping[str, Any]
    policy_hash: Digest
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """A policy; `active` is its active version, if it has one."""

    policy_id: PolicyId
    name: str
    created_at: datetime
    created_by: ActorId | None
    active: PolicyVersionRow | None


async def create_policy(conn: Connection, tenant: TenantId, *, name: str, text: PolicyText, act: Act) -> PolicyRow:
    """Create a policy with an active version 1, and append an event."""
    await lock_access(conn, tenant)
    policy = PolicyId(clock.new_id())
    await conn.execute(INSERT_POLICY, tenant, policy, name, act.at, act.actor_id)
    version = await _activate_version(conn, tenant, policy, text, act)
    payload = {"name": name, **_version_payload(version)}
    await events.append_act(conn, act, tenant, "Policy", policy, "POLICY_CREATED", payload)
    return PolicyRow(policy_id=policy, name=name, created_at=act.at, created_by=act.actor_id, active=version)


async def insert_policy_version(
    conn: Connection, tenant: TenantId, policy: PolicyId, text: PolicyText, *, act: Act
) -> PolicyVersionRow:
    """Create a version that replaces the active one, and append an event."""
    await lock_access(conn, tenant)
    await get_policy(conn, tenant, policy)
    await conn.execute(DEACTIVATE_VERSION, tenant, policy)
    version = await _activate_version(conn, tenant, policy, text, act)
    await events.append_act(conn, act, tenant, "Policy", policy, "POLICY_CHANGED", _version_payload(version))
    return version


async def deactivate_policy(conn: Connection, tenant: TenantId, policy: PolicyId, *, act: Act) -> PolicyRow:
    """Deactivate the active version of a policy, and append an event."""
    await lock_access(conn, tenant)
    await get_policy(conn, tenant, policy)
    version = await conn.fetchval(DEACTIVATE_VERSION, tenant, policy)
    if version is None:
        raise Conflict("no version of this policy is in force", fix="nothing to do")
    await require_administrator(conn, tenant, act.at)
    payload = {"deactivated_version": version}
    await events.append_act(conn, act, tenant, "Policy", policy, "POLICY_CHANGED", payload)
    return await get_policy(conn, tenant, policy)


async def get_policy(conn: Connection, tenant: TenantId, policy: PolicyId) -> PolicyRow:
    row = await conn.fetchrow(SELECT_POLICY, tenant, policy)
    if row is None:
        raise UnknownResource("policy", policy)
    [policy_row] = await _load_active_versions(conn, tenant, [row])
    return policy_row


async def list_policies(conn: Connection, tenant: TenantId, page: PageQuery) -> Sequence[PolicyRow]:
    """Policies with their active version, newest first."""
    return await _load_active_versions(conn, tenant, await conn.fetch(SELECT_POLICY_PAGE, tenant, *page))


async def list_policy_versions(
    conn: Connection, tenant: TenantId, policy: PolicyId, page: PageQuery
) -> Sequence[PolicyVersionRow]:
    """The versions of a policy, newest first."""
    return await fetch_rows(conn, _to_policy_version_row, SELECT_VERSION_PAGE, tenant, *page, policy)


async def _activate_version(
    conn: Connection, tenant: TenantId, policy: PolicyId, text: PolicyText, act: Act
) -> PolicyVersionRow:
    version_id = PolicyVersionId(clock.new_id())
    canonical = encode_policy(text.effect, text.policy_json, text.priority, text.target)
    number: int = await conn.fetchval(
        INSERT_POLICY_VERSION,
        tenant,
        version_id,
        policy,
        text.effect,
        text.target,
        text.priority,
        orjson.dumps(text.policy_json).decode(),
        canonical,
        sha256(canonical),
        act.at,
    )
    totals = await conn.fetchrow(COUNT_ACTIVE, tenant)
    if totals is None or totals["policies"] > MAX_POLICIES_IN_FORCE or totals["bytes"] > MAX_BYTES_IN_FORCE:
        raise Conflict(  # every request reads all active policies, so there is a limit
            f"more than {MAX_POLICIES_IN_FORCE} policies, or {MAX_BYTES_IN_FORCE:,} bytes of them, would be in force",
            fix="merge or shorten policies, or deactivate some",
            details={"most": MAX_POLICIES_IN_FORCE, "most_bytes": MAX_BYTES_IN_FORCE},
        )
    await require_administrator(conn, tenant, act.at)
    return PolicyVersionRow(
        policy_version_id=version_id,
        policy_id=policy,
        version=number,
        is_active=True,
        effect=text.effect,
        target=text.target,
        priority=text.priority,
        policy_json=text.policy_json,
        policy_hash=sha256(canonical),
        created_at=act.at,
    )


async def _load_active_versions(conn: Connection, tenant: TenantId, rows: Sequence[asyncpg.Record]) -> list[PolicyRow]:
    ids = [row["policy_id"] for row in rows]
    versions = await fetch_rows(conn, _to_policy_version_row, SELECT_ACTIVE_VERSIONS, tenant, ids)
    active = {version.policy_id: version for version in versions}
    return [PolicyRow(**row, active=active.get(row["policy_id"])) for row in rows]


def _to_policy_version_row(*, policy_json: str, **columns: Any) -> PolicyVersionRow:
    return PolicyVersionRow(policy_json=orjson.loads(policy_json), **columns)


def _version_payload(version: PolicyVersionRow) -> dict[str, object]:
    return {
        "policy_version_id": str(version.policy_version_id),
        "version": version.version,
        "effect": version.effect,
        "target": version.target,
        "priority": version.priority,
        "policy_hash": to_hex(version.policy_hash),
    }
