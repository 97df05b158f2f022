"""Trial: what rules would give for a product today, and whether its active version says that already.

Nothing is stored. A bulk compile leaves out the products whose passports would say the same again.
"""

from dataclasses import dataclass

from bpc.core.formats.ids import PassportId, PassportVersionId, SnapshotId, TenantId
from bpc.core.readiness.trial import ProductFacts, TrialRules, would_say_the_same
from bpc.pipeline.compile import ComputePool, choose_pool, run_in_child_or_thread
from bpc.pipeline.product_facts import load_product_evidence
from bpc.storage.connection import Connection
from bpc.storage.evidence import snapshots
from bpc.storage.passports import passport_versions
from bpc.storage.passports.products import ProductPassport


@dataclass(frozen=True, slots=True, kw_only=True)
class SameVersion:
    """An active version that says what a new one would say."""

    passport: PassportId
    version: PassportVersionId


async def find_same_version(
    conn: Connection,
    tenant: TenantId,
    product: ProductPassport,
    rules: TrialRules,
    *,
    snapshot: SnapshotId | None,
    pool: ComputePool | None,
) -> SameVersion | None:
    """The active version of a product, if a compile of what is known now, or of `snapshot`, would say the same."""
    if product.passport_id is None or product.active_version_id is None:
        return None
    payload = await passport_versions.load_artifact(conn, tenant, product.active_version_id, "payload")
    if snapshot is not None:
        facts = tuple(await snapshots.load_facts(conn, tenant, snapshot))
    else:
        facts = (await load_product_evidence(conn, tenant, product.sku)).facts
    if not facts:
        return None
    product_facts = ProductFacts(sku=product.sku, name=product.name, facts=facts)
    arguments = payload, rules, product_facts
    is_same = await run_in_child_or_thread(choose_pool(pool, rules.dsl), would_say_the_same, *arguments)
    return SameVersion(passport=product.passport_id, version=product.active_version_id) if is_same else None
