"""Policies and their versions. A version's words never change; at most one version of a policy is in force."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString

import asyncpg
import orjson

from bpc import fresh
from bpc.core.digest import Digest, sha256, to_hex
from bpc.core.errors import Conflict, NotFound
from bpc.core.events import Act, Stream
from bpc.core.ids import ActorId, AggregateId, PolicyId, PolicyVersionId, TenantId
from bpc.core.policies import MOST_BYTES_IN_FORCE, MOST_IN_FORCE, Effect, canonical_policy
from bpc.db import administrators, events
from bpc.db.connection import Connection
from bpc.db.pages import Ask

INSERT: Final[LiteralString] = """
    INSERT INTO policies (tenant_id, policy_id, name, created_at, created_by) VALUES ($1, $2, $3, $4, $5)
"""
INSERT_VERSION: Final[LiteralString] = """
    INSERT INTO policy_versions (tenant_id, policy_version_id, policy_id, version, is_active, effect, target, priority,
                                 policy_json, policy_canonical, policy_hash, created_at)
    SELECT $1, $2, $3, coalesce(max(version), 0) + 1, true, $4::access_decision, $5, $6, $7::jsonb, $8, $9, $10
      FROM policy_versions WHERE tenant_id = $1 AND policy_id = $3
    RETURNING version
"""
END_VERSION: Final[LiteralString] = """
    UPDATE policy_versions SET is_active = false WHERE tenant_id = $1 AND policy_id = $2 AND is_active
    RETURNING version
"""
IN_FORCE: Final[LiteralString] = """
    SELECT count(*) AS policies, sum(octet_length(policy_canonical)) AS bytes FROM policy_versions
     WHERE tenant_id = $1 AND is_active
"""
VERSION_COLUMNS: Final[LiteralString] = """
    policy_version_id, policy_id, version, is_active, effect::text AS effect, target, priority,
    policy_json::text AS policy_json, policy_hash, created_at
"""
ONE: Final[LiteralString] = """
    SELECT policy_id, name, created_at, created_by FROM policies WHERE tenant_id = $1 AND policy_id = $2
"""
PAGE: Final[LiteralString] = """
    SELECT policy_id, name, created_at, created_by FROM policies
     WHERE tenant_id = $1 AND (created_at, policy_id) < ($2, $3)
     ORDER BY created_at DESC, policy_id DESC
     LIMIT $4
"""
ACTIVE: Final[LiteralString] = f"""
    SELECT {VERSION_COLUMNS} FROM policy_versions
     WHERE tenant_id = $1 AND policy_id = ANY($2::uuid[]) AND is_active
"""
VERSIONS: Final[LiteralString] = f"""
    SELECT {VERSION_COLUMNS} FROM policy_versions
     WHERE tenant_id = $1 AND policy_id = $5 AND (created_at, policy_version_id) < ($2, $3)
     ORDER BY created_at DESC, policy_version_id DESC
     LIMIT $4
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What a version says, checked."""

    effect: Effect
    target: str
    priority: int
    policy_json: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version of a policy as it was made, and whether it is in force."""

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
class Named:
    """A policy; `active` is the version in force, None where none is."""

    policy_id: PolicyId
    name: str
    created_at: datetime
    created_by: ActorId | None
    active: Version | None


class PolicyUnknown(NotFound):
    def __init__(self, policy: PolicyId) -> None:
        super().__init__(f"there is no policy `{policy}`", fix="GET /v1/policies lists those there are")


class TooManyPolicies(Conflict):
    """Every request would have to read them all."""

    def __init__(self) -> None:
        super().__init__(
            f"more than {MOST_IN_FORCE} policies, or {MOST_BYTES_IN_FORCE:,} bytes of them, would be in force",
            fix="say the same with fewer and shorter ones, or deactivate some",
            details={"most": MOST_IN_FORCE, "most_bytes": MOST_BYTES_IN_FORCE},
        )


async def create(conn: Connection, tenant: TenantId, *, name: str, words: Words, act: Act) -> Named:
    """A new policy and its version 1, in force and on record."""
    await administrators.lock(conn, tenant)
    policy = PolicyId(fresh.new_id())
    await conn.execute(INSERT, tenant, policy, name, act.at, act.actor_id)
    version = await _put_in_force(conn, tenant, policy, words, act)
    said = act.says("POLICY_CREATED", {"name": name, **_told(version)})
    await events.append(conn, Stream(tenant, "Policy", AggregateId(policy)), said)
    return Named(policy_id=policy, name=name, created_at=act.at, created_by=act.actor_id, active=version)


async def add_version(conn: Connection, tenant: TenantId, policy: PolicyId, words: Words, *, act: Act) -> Version:
    """A new version, in force instead of the one before, on record."""
    await administrators.lock(conn, tenant)
    await get(conn, tenant, policy)
    await conn.execute(END_VERSION, tenant, policy)
    version = await _put_in_force(conn, tenant, policy, words, act)
    said = act.says("POLICY_CHANGED", _told(version))
    await events.append(conn, Stream(tenant, "Policy", AggregateId(policy)), said)
    return version


async def deactivate(conn: Connection, tenant: TenantId, policy: PolicyId, *, act: Act) -> Named:
    """Leave no version of a policy in force, on record."""
    await administrators.lock(conn, tenant)
    await get(conn, tenant, policy)
    ended = await conn.fetchval(END_VERSION, tenant, policy)
    if ended is None:
        raise Conflict("no version of this policy is in force", fix="nothing is left to do")
    await administrators.require_one(conn, tenant, act.at)
    said = act.says("POLICY_CHANGED", {"deactivated_version": ended})
    await events.append(conn, Stream(tenant, "Policy", AggregateId(policy)), said)
    return await get(conn, tenant, policy)


async def get(conn: Connection, tenant: TenantId, policy: PolicyId) -> Named:
    row = await conn.fetchrow(ONE, tenant, policy)
    if row is None:
        raise PolicyUnknown(policy)
    [found] = await _with_active(conn, tenant, [row])
    return found


async def page(conn: Connection, tenant: TenantId, ask: Ask) -> Sequence[Named]:
    """Policies with the version in force, newest first."""
    return await _with_active(conn, tenant, await conn.fetch(PAGE, tenant, *ask))


async def versions(conn: Connection, tenant: TenantId, policy: PolicyId, ask: Ask) -> Sequence[Version]:
    """The versions of a policy, newest first."""
    return [_version(row) for row in await conn.fetch(VERSIONS, tenant, *ask, policy)]


async def _put_in_force(conn: Connection, tenant: TenantId, policy: PolicyId, words: Words, act: Act) -> Version:
    version_id = PolicyVersionId(fresh.new_id())
    canonical = canonical_policy(words.effect, words.policy_json, words.priority, words.target)
    number: int = await conn.fetchval(
        INSERT_VERSION,
        tenant,
        version_id,
        policy,
        words.effect,
        words.target,
        words.priority,
        orjson.dumps(words.policy_json).decode(),
        canonical,
        sha256(canonical),
        act.at,
    )
    in_force = await conn.fetchrow(IN_FORCE, tenant)
    if in_force is None or in_force["policies"] > MOST_IN_FORCE or in_force["bytes"] > MOST_BYTES_IN_FORCE:
        raise TooManyPolicies
    await administrators.require_one(conn, tenant, act.at)
    return Version(
        policy_version_id=version_id,
        policy_id=policy,
        version=number,
        is_active=True,
        effect=words.effect,
        target=words.target,
        priority=words.priority,
        policy_json=words.policy_json,
        policy_hash=sha256(canonical),
        created_at=act.at,
    )


async def _with_active(conn: Connection, tenant: TenantId, rows: Sequence[asyncpg.Record]) -> list[Named]:
    found = await conn.fetch(ACTIVE, tenant, [row["policy_id"] for row in rows])
    active = {row["policy_id"]: _version(row) for row in found}
    return [Named(**dict(row), active=active.get(row["policy_id"])) for row in rows]


def _version(row: asyncpg.Record) -> Version:
    return Version(**{**dict(row), "policy_json": orjson.loads(row["policy_json"])})


def _told(version: Version) -> dict[str, object]:
    return {
        "policy_version_id": str(version.policy_version_id),
        "version": version.version,
        "effect": version.effect,
        "target": version.target,
        "priority": version.priority,
        "policy_hash": to_hex(version.policy_hash),
    }
