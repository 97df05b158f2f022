"""Policies in force: what the active versions say, as it is decided by."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import orjson

from bpc.core.ids import TenantId
from bpc.core.policies import Policy, read_conditions
from bpc.db.connection import Connection

ALL: Final[LiteralString] = """
    SELECT v.policy_id, v.policy_version_id, v.version, v.effect::text AS effect, v.target, v.priority,
           v.policy_json::text AS policy_json, p.name
      FROM policy_versions v
      JOIN policies p ON p.tenant_id = v.tenant_id AND p.policy_id = v.policy_id
     WHERE v.tenant_id = $1 AND v.is_active
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """A policy and what it is called."""

    policy: Policy
    name: str


async def all_of(conn: Connection, tenant: TenantId) -> list[InForce]:
    """Every policy of a tenant that is in force, in no order."""
    return [
        InForce(policy=policy_of(dict(row), orjson.loads(row["policy_json"])), name=row["name"])
        for row in await conn.fetch(ALL, tenant)
    ]


def policy_of(version: Mapping[str, Any], words: Mapping[str, Any]) -> Policy:
    """A version of a policy, as it is decided by; `words` are its conditions."""
    return Policy(
        policy_id=version["policy_id"],
        policy_version_id=version["policy_version_id"],
        version=version["version"],
        effect=version["effect"],
        target=version["target"],
        priority=version["priority"],
        conditions=read_conditions(words),
    )
