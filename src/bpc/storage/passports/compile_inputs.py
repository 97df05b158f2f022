"""What a compile needs besides its facts, in one query: the product of the passport, the rules, and who signs."""

from dataclasses import dataclass
from typing import Final, LiteralString

from bpc.core.audit.signing import PublicKey
from bpc.core.errors import UnknownResource
from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import BatteryProductId, PassportId, RulePackageVersionId, TenantId
from bpc.storage.audit.signing_keys import SIGNS_NOW
from bpc.storage.connection import Connection
from bpc.storage.rules.packages import VERSION_KIND

# The hashes are computed from the texts, not read from the columns beside them: a changed text must be noticed.
SELECT_COMPILE_INPUT: Final[LiteralString] = f"""
    SELECT p.battery_product_id, r.compiler_min_build, sha256(r.dsl_source) AS dsl_sha256,
           sha256(r.tests_source) AS tests_sha256,
           (SELECT k.public_key FROM signing_keys k
             WHERE k.key_id = $4 AND {SIGNS_NOW} AND (owner_tenant_id IS NULL OR owner_tenant_id = $1)) AS signing_key
      FROM (SELECT) AS one
      LEFT JOIN passports p ON p.tenant_id = $1 AND p.passport_id = $2
      LEFT JOIN rule_package_versions r ON r.tenant_id = $1 AND r.rule_package_version_id = $3
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileInputRow:
    """The product of a passport; the oldest build that can compile the rules, and the hashes of their texts.

    `signing_key` is the public half of the key, if that signs for the tenant now.
    """

    battery_product_id: BatteryProductId
    compiler_min_build: str
    dsl_sha256: Digest
    tests_sha256: Digest
    signing_key: PublicKey | None


async def load_compile_input(
    conn: Connection, tenant: TenantId, passport: PassportId, rules: RulePackageVersionId, signing_key_id: str
) -> CompileInputRow:
    """Raises `UnknownResource` if there is no such passport or version."""
    row = await conn.fetchrow(SELECT_COMPILE_INPUT, tenant, passport, rules, signing_key_id)
    if row is None or row["battery_product_id"] is None:
        raise UnknownResource("passport", passport)
    if row["compiler_min_build"] is None:
        raise UnknownResource(VERSION_KIND, rules)
    return CompileInputRow(**row)
