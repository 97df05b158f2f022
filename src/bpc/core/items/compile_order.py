"""What the passport of one battery, or of one batch, is compiled from beside the layers above it.

Pure. Ids, moment and secret are fixed by the caller, so every engine gives the same bytes.

    ItemRun    what all rows of a run share: tenant, rules, build, key
    ItemRow    one battery: its ids, its moment, its secret, its facts
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias
from uuid import UUID

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.schemas import SCHEMA_VERSION
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.ids import BatteryId, PassportVersionId, RulePackageVersionId, SnapshotId, TenantId

LowerLayer: TypeAlias = Literal["batch", "item"]
"""The layers that this folder compiles. The layer `model` is the passport of a product, BPC-PASSPORT-2."""

ITEM_FACT_TYPE: Final = "Item"
BATCH_FACT_TYPE: Final = "Batch"
ITEM_KEY_DOMAIN: Final = b"BPC-ITEM-BLIND-1\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRun:
    """What all batteries of a run share."""

    tenant_id: TenantId
    rule_package_version_id: RulePackageVersionId
    compiler_build_id: str
    signing_key_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRow:
    """One battery, or one batch.

    `subject_id` is the id of the battery or the batch; it stays when the passport is issued again. `facts` are those of
    the layer's own types, without the secret: `Item`, `Reading`, `ReadingSeries` for a battery, `Batch` for a batch.
    `blinding_key` has 32 bytes and is sealed in the snapshot: `derive_item_key`.
    """

    subject_id: BatteryId
    passport_version_id: PassportVersionId
    snapshot_id: SnapshotId
    issued_at: datetime
    blinding_key: bytes
    facts: tuple[SnapshotFact, ...]


def derive_item_key(run_secret: bytes, subject_id: UUID) -> bytes:
    """The secret of one battery's snapshot. It tells nothing about the run's secret, nor about other batteries."""
    return hmac.digest(run_secret, ITEM_KEY_DOMAIN + str(subject_id).encode(), "sha256")


def build_item_fact(sku: str, members: Mapping[str, Json]) -> SnapshotFact:
    """The fact of type `Item` of a battery of the product `sku`. Members: docs/rules/facts.md."""
    return SnapshotFact(
        fact_type=ITEM_FACT_TYPE, fact_key=f"item:{sku}", schema_version=SCHEMA_VERSION, payload={**members}
    )


def build_batch_fact(sku: str, members: Mapping[str, Json]) -> SnapshotFact:
    """The fact of type `Batch` of a batch of the product `sku`."""
    return SnapshotFact(
        fact_type=BATCH_FACT_TYPE, fact_key=f"batch:{sku}", schema_version=SCHEMA_VERSION, payload={**members}
    )
