"""How a lower layer pins the layers above it, and the names of the formats of each layer.

Pure. A pin names one version of one layer by the hash of its receipt and the hash of its proof's root. The pins of a
battery stand in the root of its proof: first the model, then the batch if there is one.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from bpc.core.errors import Invalid
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import Digest, to_hex
from bpc.core.formats.ids import PassportVersionId
from bpc.core.items.compile_order import LowerLayer
from bpc.core.language.typed import Layer

PAYLOAD_VERSIONS_BELOW: Final[Mapping[LowerLayer, str]] = {
    "batch": "BPC-BATCH-PAYLOAD-1",
    "item": "BPC-ITEM-PAYLOAD-1",
}
PROOF_VERSIONS_BELOW: Final[Mapping[LowerLayer, str]] = {"batch": "BPC-BATCH-PROOF-1", "item": "BPC-ITEM-PROOF-1"}
VIEW_VERSIONS_BELOW: Final[Mapping[LowerLayer, str]] = {"batch": "BPC-BATCH-VIEW-1", "item": "BPC-ITEM-VIEW-1"}
BUNDLE_VERSIONS_BELOW: Final[Mapping[LowerLayer, str]] = {"batch": "BPC-BATCH-BUNDLE-1", "item": "BPC-ITEM-BUNDLE-1"}


class LayerMismatch(Invalid):
    """Layers that do not belong together: other rules, another product, another version."""


class LayerPin(NamedTuple):
    """One version of an upper layer."""

    layer: Layer
    passport_version_id: PassportVersionId
    receipt_hash: Digest
    proof_root_hash: Digest

    def to_json(self) -> dict[str, Json]:
        return {
            "layer": self.layer,
            "passport_version_id": str(self.passport_version_id),
            "proof_root_hash": to_hex(self.proof_root_hash),
            "receipt_hash": to_hex(self.receipt_hash),
        }


def list_own_layers(layer: LowerLayer, pins: Sequence[LayerPin]) -> tuple[Layer, ...]:
    """The layer itself, and those above it that nobody pinned."""
    pinned_layers = {pin.layer for pin in pins}
    return ("batch", "item") if layer == "item" and "batch" not in pinned_layers else (layer,)
