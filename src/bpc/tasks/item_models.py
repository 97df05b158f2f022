"""The model of batteries and batches: fixed when their passports are requested, opened again when they are issued.

product ── fix_model ──► PinnedModel, the active version of its passport, by hash
PinnedModel ── ModelCache.load_parts ──► what a child process compiles with
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bpc.core.errors import Conflict, NotFound
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import PassportVersionId, RulePackageVersionId, TenantId
from bpc.core.items.compile_order import ItemRun, LowerLayer
from bpc.core.items.row_batches import CompilerParts
from bpc.core.passport.receipt import read_receipt
from bpc.core.secret_box import SecretBox
from bpc.pipeline.sign import require_key_that_signs
from bpc.storage.audit import tenant_keys
from bpc.storage.connection import Connection
from bpc.storage.items import batch_versions
from bpc.storage.items.chunk_work import check_parts
from bpc.storage.items.pinned_model import PinnedModel
from bpc.storage.passports import passport_versions
from bpc.storage.passports.exports import load_bundle
from bpc.storage.passports.products import ProductPassport, find_products_by_sku
from bpc.storage.rules import packages

SECRET_BYTES: Final = 32
MODELS_KEPT: Final = 4  # in memory; one of the reference size takes a megabyte
# Runs a function with its arguments away from the event loop.
Compute = Callable[..., Awaitable[Any]]


class ModelNotIssued(Conflict):
    """The product has no passport that batteries could lie below."""

    def __init__(self, sku: str) -> None:
        super().__init__(
            f"product `{sku}` has no active passport",
            fix="compile and activate the passport of the product first: it is the model of its batteries",
        )


class OtherRules(Conflict):
    """The model was compiled with other rules than the run names."""

    def __init__(self, model: PassportVersionId, rules: RulePackageVersionId) -> None:
        super().__init__(
            "the active passport of the product was compiled with other rules than these",
            fix="compile and activate the product with these rules first, or name the rules of its passport",
            details={"model_version_id": str(model), "rule_package_version_id": str(rules)},
        )


class ModelChanged(Conflict):
    """The stored model is not the one that was pinned."""

    def __init__(self, model: PassportVersionId) -> None:
        super().__init__(
            f"the stored bytes of passport version `{model}` are not those that were pinned",
            fix="find out who changed them: `bpc audit verify` shows what is intact",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What of the installation a passport depends on."""

    compiler_build_id: str
    signing_key_id: str
    secret_box: SecretBox
    compute: Compute


async def fix_model(
    conn: Connection,
    tenant: TenantId,
    sku: str,
    installation: Installation,
    *,
    rules: RulePackageVersionId | None = None,
    layer: LowerLayer = "item",
) -> tuple[ProductPassport, PinnedModel]:
    """The product, and the active version of its passport with which batteries or batches of it are compiled."""
    product = (await find_products_by_sku(conn, tenant, [sku])).get(sku)
    if product is None:
        raise NotFound(f"there is no battery product with the SKU `{sku[:80]}`", fix="create it first")
    if product.active_version_id is None:
        raise ModelNotIssued(sku)
    await require_key_that_signs(conn, tenant, installation_key=installation.signing_key_id)
    model = await passport_versions.get_version(conn, tenant, product.active_version_id)
    if rules is not None and rules != model.rule_package_version_id:
        raise OtherRules(model.passport_version_id, rules)
    rule_version = await packages.lock_version_shared(conn, tenant, model.rule_package_version_id)
    pinned_model = PinnedModel(
        model_version_id=model.passport_version_id,
        rule_package_version_id=model.rule_package_version_id,
        model_receipt_hash=model.receipt_hash,
        dsl_sha256=rule_version.dsl_sha256,
        compiler_build_id=installation.compiler_build_id,
        signing_key_id=await tenant_keys.choose_key(conn, tenant, installation_key=installation.signing_key_id),
    )
    bundle = await load_bundle(conn, tenant, model.passport_version_id, with_events=False)
    parts = CompilerParts(tuple(bundle.entries.items()), make_run(tenant, pinned_model), layer=layer)
    await installation.compute(check_parts, parts)
    return product, pinned_model


def make_run(tenant: TenantId, model: PinnedModel) -> ItemRun:
    """What all that is compiled below a model has in common."""
    return ItemRun(
        tenant_id=tenant,
        rule_package_version_id=model.rule_package_version_id,
        compiler_build_id=model.compiler_build_id,
        signing_key_id=model.signing_key_id,
    )


class ModelCache:
    """Bundles of models that were used last, as parts for child processes."""

    def __init__(self) -> None:
        self._entries: OrderedDict[PassportVersionId, Mapping[str, bytes]] = OrderedDict()

    async def load_parts(
        self,
        conn: Connection,
        tenant: TenantId,
        model: PinnedModel,
        *,
        batch: PassportVersionId | None = None,
        layer: LowerLayer = "item",
    ) -> CompilerParts:
        """What a child process compiles with. Raises `ModelChanged` unless its hashes are those that were pinned."""
        entries = self._entries.get(model.model_version_id)
        if entries is None:
            entries = (await load_bundle(conn, tenant, model.model_version_id, with_events=False)).entries
            self._entries[model.model_version_id] = entries
            if len(self._entries) > MODELS_KEPT:
                self._entries.popitem(last=False)
        receipt = read_receipt(entries["receipt.json"])
        hashes = receipt.passport_version_id, receipt.hash(), sha256(entries["rules.bpc"])
        if hashes != (model.model_version_id, model.model_receipt_hash, model.dsl_sha256):
            raise ModelChanged(model.model_version_id)
        artifacts = None if batch is None else await batch_versions.load_artifacts(conn, tenant, batch)
        return CompilerParts(tuple(entries.items()), make_run(tenant, model), batch=artifacts, layer=layer)
