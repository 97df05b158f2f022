"""Readiness: what products still need for their passports. Everything is read, nothing is stored.

SKUs ─► what is known of each, in pieces ─► try the rules, in a child process ─► issues ─► where documents say it
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from bpc.core.facts.merge import FactStatement
from bpc.core.facts.provenance import DocumentOrigin, FactName
from bpc.core.formats.ids import TenantId
from bpc.core.readiness.assess import assess_products
from bpc.core.readiness.issues import IssueOrigin, Readiness, ReadinessIssue
from bpc.core.readiness.trial import ProductFacts, TrialRules
from bpc.pipeline.compile import ComputePool, run_in_child_or_thread
from bpc.pipeline.product_evidence import ProductEvidence, ProductFact
from bpc.pipeline.product_facts import load_product_evidence
from bpc.storage.connection import Connection
from bpc.storage.passports.products import ProductPassport, find_products_by_sku

MAX_FACTS_AT_ONCE: Final = 10_000  # facts of several products that are held at the same time


async def check_readiness(
    conn: Connection, tenant: TenantId, skus: Sequence[str], rules: TrialRules, *, pool: ComputePool | None
) -> list[Readiness]:
    """The readiness of each product, in the order of `skus`."""
    products = await find_products_by_sku(conn, tenant, skus)
    results: list[Readiness] = []
    piece: list[ProductEvidence] = []
    fact_count = 0  # facts of the piece
    for sku in skus:
        evidence = await load_product_evidence(conn, tenant, sku)
        piece.append(evidence)
        fact_count += len(evidence.facts)
        if fact_count >= MAX_FACTS_AT_ONCE:
            results += await _assess_piece(piece, products, rules, pool)
            piece, fact_count = [], 0
    return [*results, *(await _assess_piece(piece, products, rules, pool) if piece else ())]


async def _assess_piece(
    piece: Sequence[ProductEvidence],
    products: Mapping[str, ProductPassport],
    rules: TrialRules,
    pool: ComputePool | None,
) -> list[Readiness]:
    inputs = [
        ProductFacts(
            sku=evidence.sku,
            name=products[evidence.sku].name if evidence.sku in products else evidence.sku,
            facts=evidence.facts,
            findings=tuple(evidence.findings),
        )
        for evidence in piece
    ]
    results = await run_in_child_or_thread(pool, assess_products, rules, inputs)
    return [
        _add_evidence(readiness, evidence, is_known=evidence.sku in products)
        for readiness, evidence in zip(results, piece, strict=True)
    ]


def _add_evidence(readiness: Readiness, evidence: ProductEvidence, *, is_known: bool) -> Readiness:
    """Add to each issue the documents that speak of it, and an issue if there is no such product."""
    facts = {fact.name: fact for fact in evidence.product_facts}
    issues = [replace(issue, origins=tuple(_list_origins(issue, facts))) for issue in readiness.issues]
    if not is_known:
        issues.insert(0, _describe_unknown_product(readiness.sku))
    return replace(readiness, issues=tuple(issues))


def _describe_unknown_product(sku: str) -> ReadinessIssue:
    return ReadinessIssue(
        kind="missing", severity="error", says=f"there is no battery product with the SKU `{sku}`: create it first"
    )


def _list_origins(issue: ReadinessIssue, facts: Mapping[FactName, ProductFact]) -> Iterator[IssueOrigin]:
    fact = facts.get((issue.fact_type or "", issue.fact_key or ""))
    if fact is None:
        return
    if issue.kind == "missing":  # the suppliers of the same fact can be asked
        documents = dict.fromkeys(statement.document for statement in fact.statements)
        yield from (_to_origin(document) for document in documents)
        return
    for member in issue.members:
        naming = [statement for statement in fact.statements if statement.names(member)]
        if issue.kind != "conflicting":
            naming = [
                fact.merge_result.sources.get(member) or fact.merge_result.unreadable.get(member) or each
                for each in naming[:1]
            ]
        yield from (_locate(statement, member) for statement in naming)


def _locate(statement: FactStatement, member: str) -> IssueOrigin:
    place = statement.locate_member(member).place
    return _to_origin(statement.document)._replace(place=place, value=statement.payload.get(member))


def _to_origin(document: DocumentOrigin) -> IssueOrigin:
    return IssueOrigin(
        document_id=document.document_id,
        document_version_id=document.document_version_id,
        file_name=document.file_name,
        supplier=document.supplier,
        stated_at=document.stated_at,
    )
