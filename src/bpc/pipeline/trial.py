"""Trial: what rules would give for a product today, and whether its active version says that already.

Nothing is stored. A bulk compile leaves out the products whose passports would say the same again.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.findings import Finding
from bpc.core.formats.ids import PassportId, PassportVersionId, SnapshotId, TenantId
from bpc.core.readiness.rule_reads import RuleReads
from bpc.core.readiness.trial import Trial, says_the_same, try_rules
from bpc.pipeline.compile import ComputePool, build_machine, choose_pool, run_in_child_or_thread
from bpc.pipeline.product_facts import load_product_evidence
from bpc.storage.connection import Connection
from bpc.storage.evidence import snapshots
from bpc.storage.passports import passport_versions
from bpc.storage.passports.products_by_sku import ProductPassport


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRules:
    """The rules of a trial, and the moment that they take for the time of issue."""

    dsl: bytes
    issued_at: datetime
    max_steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductFacts:
    """What a trial needs of one product."""

    sku: str
    name: str
    facts: tuple[SnapshotFact, ...]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SameVersion:
    """An active version that says what a new one would say."""

    passport: PassportId
    version: PassportVersionId


def try_product(rules: TrialRules, product: ProductFacts) -> Trial:
    """What the rules give for a product. Pure, and may run in a child process."""
    return try_rules(
        build_machine(rules.dsl),
        product.facts,
        sku=product.sku,
        name=product.name,
        issued_at=rules.issued_at,
        max_steps=rules.max_steps,
    )


@lru_cache(maxsize=8)
def build_reads(dsl: bytes) -> RuleReads:
    """What rules read. Pure and expensive, so the last few are cached."""
    return RuleReads(build_machine(dsl).program)


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
    if payload is None or not facts:
        return None
    product_facts = ProductFacts(sku=product.sku, name=product.name, facts=facts)
    arguments = payload, rules, product_facts
    is_same = await run_in_child_or_thread(choose_pool(pool, rules.dsl), would_say_the_same, *arguments)
    return SameVersion(passport=product.passport_id, version=product.active_version_id) if is_same else None


def would_say_the_same(payload: bytes, rules: TrialRules, product: ProductFacts) -> bool:
    """Whether a compile would give what the payload says. Pure, and may run in a child process."""
    trial, machine = try_product(rules, product), build_machine(rules.dsl)
    return says_the_same(payload, trial, machine, sku=product.sku, name=product.name)
