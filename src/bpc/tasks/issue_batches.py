"""Passports of batches: requested with their facts, then issued by the job ISSUE_BATCH, once.

    facts ── request_batch_passport ──► a version that waits, an ISSUE_BATCH job
                                   └──► the version that says the same already
    version ── ISSUE_BATCH ──► compiled below its model, signed, on record: batteries can pin it
                          └──► the rules refuse it: the version says why

Everything that the bytes depend on is fixed by the request: ids, moment, model, rules, key, build, secret, facts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from service_jobs import Context, Handler, Handlers, RequestQueue

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import BatteryBatchId, PassportVersionId, TenantId
from bpc.core.formats.timestamps import format_time
from bpc.core.items.batch_facts import build_batch_members
from bpc.core.items.compile_order import BATCH_FACT_TYPE, derive_item_key
from bpc.core.items.item_facts import encode_fact
from bpc.core.items.row_batches import CompilerParts, ResultRow, SourceRow, compile_rows, get_compiler
from bpc.core.secret_box import NONCE_BYTES, SecretBox
from bpc.pipeline.compile import run_in_child_or_thread
from bpc.runtime import clock
from bpc.runtime.key_ring import SigningService
from bpc.storage.audit import events
from bpc.storage.batteries import batches
from bpc.storage.batteries.batches import BatchRow
from bpc.storage.connection import Connection
from bpc.storage.items import batch_versions, runs
from bpc.storage.items.batch_versions import BatchOrder, IssuedBatch
from bpc.storage.items.chunk_work import IssuedItem, derive_snapshot_id
from bpc.storage.items.pinned_model import MODEL_MEMBERS, PinnedModel
from bpc.storage.jobs import make_subject
from bpc.tasks.issue_items import sign_receipts
from bpc.tasks.item_models import SECRET_BYTES, Installation, ModelCache, fix_model

AGGREGATE: Final = "BatteryBatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchVersionOrder:
    """The version to issue."""

    battery_batch_id: BatteryBatchId
    passport_version_id: PassportVersionId


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchVersionOutcome:
    """What became of it."""

    passport_version_id: PassportVersionId
    status: Literal["ISSUED", "ENDED_BEFORE", "REFUSED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequestOutcome:
    """The version of a request. One that is not new says the same below the same model."""

    passport_version_id: PassportVersionId
    is_new: bool = False


class BatchBeingIssued(Conflict):
    """Another version of the batch's passport waits to be issued."""

    def __init__(self, version: PassportVersionId) -> None:
        super().__init__(
            f"version `{version}` of the batch's passport is being issued, with other facts or below another model",
            fix="wait until it is issued, then request this one again",
            details={"passport_version_id": str(version)},
        )


def name_batch_secret(tenant: TenantId, version: PassportVersionId) -> str:
    """What the secret of a version is encrypted for."""
    return f"batch_passport_versions/{tenant}/{version}"


async def request_batch_passport(
    conn: Connection,
    queue: RequestQueue,
    job: Handler[BatchVersionOrder, Any],
    tenant: TenantId,
    batch_id: BatteryBatchId,
    statements: Mapping[str, str],
    *,
    installation: Installation,
    act: Act,
) -> BatchRequestOutcome:
    """Fix everything that the passport of a batch depends on, and submit the job that issues it."""
    batch = await batches.get_batch(conn, tenant, batch_id)
    product, model = await fix_model(conn, tenant, batch.sku, installation, layer="batch")
    await runs.lock_product(conn, tenant, product.battery_product_id)
    return await request_batch_below(
        conn, queue, job, tenant, batch, statements, model=model, installation=installation, act=act
    )


async def request_batch_below(
    conn: Connection,
    queue: RequestQueue,
    job: Handler[BatchVersionOrder, Any],
    tenant: TenantId,
    batch: BatchRow,
    statements: Mapping[str, str],
    *,
    model: PinnedModel,
    installation: Installation,
    act: Act,
) -> BatchRequestOutcome:
    """The same below a model that was fixed before, for who holds the lock of the product."""
    batch_id = batch.battery_batch_id
    members = build_batch_members(batch.batch_number, batch.plant, batch.manufactured_on, statements)
    facts = encode_fact(BATCH_FACT_TYPE, f"batch:{batch.sku}", members)
    earlier = await batch_versions.find_counting_version(conn, tenant, batch_id)
    if earlier is not None and (earlier.facts_hash, earlier.model_version_id) == (
        sha256(facts),
        model.model_version_id,
    ):
        return BatchRequestOutcome(passport_version_id=earlier.passport_version_id)
    if earlier is not None and earlier.status == "REQUESTED":
        raise BatchBeingIssued(earlier.passport_version_id)
    version, secret = PassportVersionId(clock.new_id()), clock.random_bytes(SECRET_BYTES).hex()
    order = BatchOrder(
        **{name: getattr(model, name) for name in MODEL_MEMBERS},
        passport_version_id=version,
        battery_batch_id=batch_id,
        secret=installation.secret_box.seal(
            secret, context=name_batch_secret(tenant, version), nonce=clock.random_bytes(NONCE_BYTES)
        ),
        facts=facts,
        requested_at=act.at,
        requested_by=act.actor_id,
    )
    await batch_versions.insert_order(conn, tenant, order)
    await _record_request(conn, tenant, order, act)
    job_order = BatchVersionOrder(battery_batch_id=batch_id, passport_version_id=version)
    await queue.submit(job, job_order, key=f"batch:{version}")
    return BatchRequestOutcome(passport_version_id=version, is_new=True)


def compile_batch_version(parts: CompilerParts, row: SourceRow) -> ResultRow:
    """Compile one batch, in a child process."""
    [result] = compile_rows(get_compiler(parts), [row])
    return result


def declare_batch_job(
    handlers: Handlers, *, key_ring: SigningService, load_box: Callable[[], SecretBox]
) -> Handler[BatchVersionOrder, BatchVersionOutcome]:
    """The job ISSUE_BATCH. A version that was issued or refused stays as it is."""
    models = ModelCache()

    @handlers.job(
        "ISSUE_BATCH",
        subject=lambda order: make_subject("battery_batch", order.battery_batch_id),
        description="Issues the passport of a batch, which its batteries can lie below.",
    )
    async def run(ctx: Context, job_order: BatchVersionOrder) -> BatchVersionOutcome:
        conn, tenant, version = await ctx.transaction(), TenantId(ctx.tenant), job_order.passport_version_id
        order = await batch_versions.lock_order(conn, tenant, version)
        if order.ended_at is not None:
            return BatchVersionOutcome(passport_version_id=version, status="ENDED_BEFORE")
        secret = bytes.fromhex(load_box().open(order.secret, context=name_batch_secret(tenant, version)))
        parts = await models.load_parts(conn, tenant, order, layer="batch")
        row = _make_row(order, secret)
        result: ResultRow = await run_in_child_or_thread(ctx.compute, compile_batch_version, parts, row)
        act = Act(order.requested_by, clock.now())
        item = _read_result(order, result)
        if item is None:
            await _refuse(conn, tenant, order, f"{result['error_code']}: {result['error']}", act)
            return BatchVersionOutcome(passport_version_id=version, status="REFUSED")
        [signature] = await sign_receipts(conn, tenant, order.signing_key_id, [item], key_ring)
        issued_batch = IssuedBatch(
            content=item.frame,
            signature=signature,
            receipt_hash=item.receipt_hash,
            fail_count=item.fail_count,
            warn_count=item.warn_count,
        )
        await _issue(conn, tenant, order, issued_batch, act)
        return BatchVersionOutcome(passport_version_id=version, status="ISSUED")

    return run


def _make_row(order: BatchOrder, secret: bytes) -> SourceRow:
    return SourceRow(
        battery_id=str(order.battery_batch_id),
        passport_version_id=str(order.passport_version_id),
        snapshot_id=str(derive_snapshot_id(order.passport_version_id)),
        issued_at=format_time(order.requested_at),
        blinding_key=derive_item_key(secret, order.battery_batch_id),
        facts=order.facts,
    )


def _read_result(order: BatchOrder, result: ResultRow) -> IssuedItem | None:
    """The compiled batch, whose content is not packed; None if it was refused."""
    content, receipt, receipt_hash = result["content"], result["receipt"], result["receipt_hash"]
    if content is None or receipt is None or receipt_hash is None:
        return None
    return IssuedItem(
        battery_id=order.battery_batch_id,
        passport_version_id=order.passport_version_id,
        input_hash=sha256(order.facts),
        receipt=receipt,
        receipt_hash=sha256(receipt),
        frame=content,
        fail_count=result["fail"] or 0,
        warn_count=result["warn"] or 0,
    )


async def _issue(conn: Connection, tenant: TenantId, order: BatchOrder, batch: IssuedBatch, act: Act) -> None:
    stored_hash = await batch_versions.set_issued(conn, tenant, order.passport_version_id, batch, at=act.at)
    payload = {
        "passport_version_id": str(order.passport_version_id),
        "model_version_id": str(order.model_version_id),
        "receipt_hash": to_hex(batch.receipt_hash),
        "content_sha256": to_hex(stored_hash),
        "signature_sha256": to_hex(sha256(batch.signature)),
        "fail_count": batch.fail_count,
        "warn_count": batch.warn_count,
    }
    await events.append_act(conn, act, tenant, AGGREGATE, order.battery_batch_id, "BATCH_PASSPORT_ISSUED", payload)


async def _refuse(conn: Connection, tenant: TenantId, order: BatchOrder, refusal: str, act: Act) -> None:
    await batch_versions.set_refused(conn, tenant, order.passport_version_id, refusal, at=act.at)
    payload = {"passport_version_id": str(order.passport_version_id), "refusal": refusal}
    await events.append_act(conn, act, tenant, AGGREGATE, order.battery_batch_id, "BATCH_PASSPORT_REFUSED", payload)


async def _record_request(conn: Connection, tenant: TenantId, order: BatchOrder, act: Act) -> None:
    payload = {
        "passport_version_id": str(order.passport_version_id),
        "model_version_id": str(order.model_version_id),
        "model_receipt_hash": to_hex(order.model_receipt_hash),
        "rule_package_version_id": str(order.rule_package_version_id),
        "dsl_sha256": to_hex(order.dsl_sha256),
        "compiler_build_id": order.compiler_build_id,
        "signing_key_id": order.signing_key_id,
        "facts_sha256": to_hex(sha256(order.facts)),
        "secret_sha256": to_hex(sha256(order.secret.encode())),
    }
    await events.append_act(conn, act, tenant, AGGREGATE, order.battery_batch_id, "BATCH_PASSPORT_REQUESTED", payload)
