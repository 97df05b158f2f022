"""What-if: which fields of active passports other rules, or documents that are not accepted yet, would change.

Nothing is stored. Rules are tried on the facts that a passport was compiled from, at its own time of issue, so that
nothing but the rules makes a difference. Documents are uploaded and read as always, in a part of the transaction that
is rolled back: so ranks of suppliers, decisions and corrections count as they would.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from service_jobs import Handler, LimitedProcesses, Rejection

from bpc.core.audit.events import Act
from bpc.core.errors import Invalid
from bpc.core.formats.ids import DocumentId, DocumentVersionId, PassportId, PassportVersionId, TenantId
from bpc.core.readiness.trial import ProductFacts, Trial, TrialRules
from bpc.core.readiness.what_if import (
    PassportTrial,
    RuleTrial,
    TrialDifference,
    compare_passports_with_trials,
    try_products,
)
from bpc.pipeline.compile import ComputePool, run_in_child_or_thread
from bpc.pipeline.facts import ParseOrder, parse
from bpc.pipeline.product_facts import load_product_evidence
from bpc.pipeline.upload import FileUpload, upload
from bpc.runtime import clock
from bpc.storage.connection import Connection
from bpc.storage.evidence import documents, snapshots, statements
from bpc.storage.evidence.documents import DocumentKind
from bpc.storage.passports import passport_versions
from bpc.storage.passports.products import ProductPassport, find_products_by_sku, list_skus_of_version
from bpc.storage.rules import packages


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedDocument:
    """A document that is not accepted yet. With `document_id` it is a new version of that document."""

    kind: DocumentKind
    mime_type: str
    content: bytes
    document_id: DocumentId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassportChange:
    """An active passport, and what would change in it."""

    sku: str
    passport_id: PassportId
    passport_version_id: PassportVersionId
    difference: TrialDifference


class ProposalRejected(Invalid):
    """A document that would be rejected: its position in the request, and why."""

    def __init__(self, position: int, rejection: Rejection) -> None:
        error = rejection.error
        super().__init__(
            f"document {position + 1} would be rejected: {error.message}",
            fix="correct the document",
            details={"position": position, "code": error.code, "details": error.details},
        )


async def try_other_rules(
    conn: Connection, tenant: TenantId, skus: Sequence[str], dsl: bytes, *, max_steps: int, pool: ComputePool | None
) -> list[PassportChange]:
    """What these rules would change in the active passports of products; of products without one, nothing."""
    products = await _find_active(conn, tenant, skus)
    results: list[PassportChange] = []
    for piece in _split(products):
        trials = []
        for product, version_id in piece:
            version = await passport_versions.get_version(conn, tenant, version_id)
            facts = await snapshots.load_facts(conn, tenant, version.snapshot_id)
            rules = TrialRules(dsl=dsl, issued_at=version.created_at, max_steps=max_steps)
            product_facts = ProductFacts(sku=product.sku, name=product.name, facts=tuple(facts))
            payload = await _load_payload(conn, tenant, version_id)
            trials.append(PassportTrial(payload=payload, now=RuleTrial(rules, product_facts)))
        results += await _compare(piece, trials, pool)
    return results


async def try_documents(
    conn: Connection,
    tenant: TenantId,
    proposals: Sequence[ProposedDocument],
    *,
    after: str,
    limit: int,
    issued_at: datetime,
    max_steps: int,
    parse_job: Handler[ParseOrder, Any],
    reader_pool: LimitedProcesses,
    pool: ComputePool | None,
    act: Act,
) -> tuple[list[PassportChange], str | None]:
    """What these documents would change in the active passports of their products, SKU by SKU after `after`.

    The second part of the answer is the SKU to go on after, if there are more than `limit`. Raises `ProposalRejected`.
    """
    async with roll_back(conn):
        skus = await _upload_all(conn, tenant, proposals, parse_job, reader_pool, act)
        skus_after = sorted(sku for sku in skus if sku > after)
        products = await _find_active(conn, tenant, skus_after[:limit])
        trial_with_documents: dict[str, Trial] = {}  # only what the rules gave is held of all products, not their facts
        for piece in _split(products):
            rule_trials = await _load_rule_trials(conn, tenant, piece, issued_at=issued_at, max_steps=max_steps)
            trials = await run_in_child_or_thread(pool, try_products, rule_trials)
            trial_with_documents |= {product.sku: trial for (product, _), trial in zip(piece, trials, strict=True)}
    results: list[PassportChange] = []
    for piece in _split(products):
        rule_trials = await _load_rule_trials(conn, tenant, piece, issued_at=issued_at, max_steps=max_steps)
        passports = [
            PassportTrial(
                payload=await _load_payload(conn, tenant, version_id),
                now=now,
                trial_with_documents=trial_with_documents.pop(product.sku),
            )
            for (product, version_id), now in zip(piece, rule_trials, strict=True)
        ]
        results += await _compare(piece, passports, pool)
    return results, skus_after[limit - 1] if len(skus_after) > limit else None


@asynccontextmanager
async def roll_back(conn: Connection) -> AsyncIterator[None]:
    """A part of a transaction whose writes are undone at its end, whatever happens in it."""
    transaction = conn.transaction()
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()


class _NoQueue:
    """Accepts jobs that nobody will run, because what they are about is rolled back."""

    async def submit(self, *_: Any, **__: Any) -> UUID:
        return clock.new_id()


async def _upload_all(
    conn: Connection,
    tenant: TenantId,
    proposals: Sequence[ProposedDocument],
    parse_job: Handler[ParseOrder, Any],
    reader_pool: LimitedProcesses,
    act: Act,
) -> set[str]:
    """Let the documents say what is proposed. Return the SKUs that they are about, or were about before."""
    version_ids: list[DocumentVersionId] = []
    for position, each in enumerate(proposals):
        document = each.document_id
        if document is None:
            document = (
                await documents.create_document(conn, tenant, kind=each.kind, external_ref=None, act=act)
            ).document_id
        earlier = await statements.find_statement_in_force(conn, tenant, document)
        if earlier is not None and earlier.document_version_id is not None:
            version_ids.append(earlier.document_version_id)
        version = await upload(
            conn,
            _NoQueue(),
            parse_job,
            tenant,
            document,
            FileUpload(content=each.content, mime_type=each.mime_type),
            act=act,
        )
        outcome = await parse(conn, tenant, version.document_version_id, reader_pool=reader_pool, act=act)
        if isinstance(outcome, Rejection):
            raise ProposalRejected(position, outcome)
        version_ids.append(version.document_version_id)
    return {sku for version in version_ids for sku in await list_skus_of_version(conn, tenant, version)}


async def _find_active(
    conn: Connection, tenant: TenantId, skus: Sequence[str]
) -> list[tuple[ProductPassport, PassportVersionId]]:
    products = await find_products_by_sku(conn, tenant, skus)
    named_products = (products[sku] for sku in skus if sku in products)
    return [(product, product.active_version_id) for product in named_products if product.active_version_id is not None]


async def _load_rule_trials(
    conn: Connection,
    tenant: TenantId,
    piece: Sequence[tuple[ProductPassport, PassportVersionId]],
    *,
    issued_at: datetime,
    max_steps: int,
) -> list[RuleTrial]:
    """What is known of products now, with the rules of their active passports."""
    trials = []
    for product, version_id in piece:
        version = await passport_versions.get_version(conn, tenant, version_id)
        sources = await packages.load_sources(conn, tenant, version.rule_package_version_id)
        evidence = await load_product_evidence(conn, tenant, product.sku)
        trials.append(
            RuleTrial(
                TrialRules(dsl=sources.dsl, issued_at=issued_at, max_steps=max_steps),
                ProductFacts(sku=product.sku, name=product.name, facts=evidence.facts),
            )
        )
    return trials


async def _load_payload(conn: Connection, tenant: TenantId, version: PassportVersionId) -> bytes:
    return await passport_versions.load_artifact(conn, tenant, version, "payload")


def _split(
    products: Sequence[tuple[ProductPassport, PassportVersionId]], *, size: int = 10
) -> Iterator[Sequence[tuple[ProductPassport, PassportVersionId]]]:
    """Pieces of a few products, so that only their facts are held at the same time."""
    for start in range(0, len(products), size):
        yield products[start : start + size]


async def _compare(
    piece: Sequence[tuple[ProductPassport, PassportVersionId]],
    trials: Sequence[PassportTrial],
    pool: ComputePool | None,
) -> list[PassportChange]:
    differences = await run_in_child_or_thread(pool, compare_passports_with_trials, trials)
    return [
        PassportChange(
            sku=product.sku,
            passport_id=product.passport_id,
            passport_version_id=version,
            difference=difference,
        )
        for (product, version), difference in zip(piece, differences, strict=True)
        if product.passport_id is not None
    ]
