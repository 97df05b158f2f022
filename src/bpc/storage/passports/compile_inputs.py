"""What a compile needs besides its facts, in one query: the product of the passport, and the rules."""

from dataclasses import dataclass
from typing import Final, LiteralString

from bpc.core.errors import UnknownResource
from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import BatteryProductId, PassportId, RulePackageVersionId, TenantId
from bpc.storage.connection import Connection
from bpc.storage.rules.packages import VERSION_KIND

# The hashes are computed from the texts, not read from the columns beside them: a changed text must be noticed.
SELECT_COMPILE_INPUT: Final[LiteralString] = """
    SELECT p.battery_product_id, r.compiler_min_build, sha256(r.dsl_source) AS dsl_sha256,
           sha256(r.tests_source) AS tests_sha256
      FROM (SELECT) AS one
      LEFT JOIN passports p ON p.tenant_id = $1 AND p.passport_id = $2
      LEFT JOIN rule_package_versions r ON r.tenant_id = $1 AND r.rule_package_version_id = $3
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileInputRow:
    """The product of a passport; the oldest build that can compile the rules, and the hashes of their texts."""

    battery_product_id: BatteryProductId
    compiler_min_build: str
    dsl_sha256: Digest
    tests_sha256: Digest


async def load_compile_input(
    conn: Connection, tenant: TenantId, passport: PassportId, rules: RulePackageVersionId
) -> CompileInputRow:
    """Raises `UnknownResource` if there is no such passport or version."""
    row = await conn.fetchrow(SELECT_COMPILE_INPUT, tenant, passport, rules)
    if row is None or row["battery_product_id"] is None:
        raise UnknownResource("passport", passport)
    if row["compiler_min_build"] is None:
        raise UnknownResource(VERSION_KIND, rules)
    return CompileInputRow(**row)
