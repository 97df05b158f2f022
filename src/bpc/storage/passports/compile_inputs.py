"""What a compile looks up beside its facts, in one statement: whose passport it is, and which rules these are today."""

from dataclasses import dataclass
from typing import Final, LiteralString

from bpc.core.digest import Digest
from bpc.core.ids import BatteryProductId, PassportId, RulePackageVersionId, TenantId
from bpc.db.connection import Connection
from bpc.db.passports import PassportUnknown
from bpc.db.rules import RuleVersionUnknown

# The hashes are those of the texts as they are, not those that were stored with them.
FOUND: Final[LiteralString] = """
    SELECT p.battery_product_id, r.compiler_min_build, sha256(r.dsl_source) AS dsl_sha256,
           sha256(r.tests_source) AS tests_sha256
      FROM (SELECT) AS one
      LEFT JOIN passports p ON p.tenant_id = $1 AND p.passport_id = $2
      LEFT JOIN rule_package_versions r ON r.tenant_id = $1 AND r.rule_package_version_id = $3
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The product of a passport, and of the rules the least build that compiles them and the hashes of their texts."""

    battery_product_id: BatteryProductId
    compiler_min_build: str
    dsl_sha256: Digest
    tests_sha256: Digest


async def found(conn: Connection, tenant: TenantId, passport: PassportId, rules: RulePackageVersionId) -> Found:
    """Raises `PassportUnknown` or `RuleVersionUnknown`."""
    row = await conn.fetchrow(FOUND, tenant, passport, rules)
    if row is None or row["battery_product_id"] is None:
        raise PassportUnknown(passport)
    if row["compiler_min_build"] is None:
        raise RuleVersionUnknown(rules)
    return Found(**dict(row))
