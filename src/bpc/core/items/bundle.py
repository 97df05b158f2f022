"""Bundles of lower layers, BPC-ITEM-BUNDLE-1 and BPC-BATCH-BUNDLE-1: everything that is needed to check a battery.

Pure. A zip file with one form, as BPC-BUNDLE-1 is. `above.zip` is the bundle of the layer above as it is: that of the
batch, which holds that of the model, or that of the model itself. Rules and tests are in the model's. The secret of the
run is in no bundle, so the bundle of one battery opens no other.

    ItemArtifacts, bundle above, key ── build_item_bundle ──► bytes ── read_item_bundle ──► ItemBundle
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bpc.core.audit.signing import PublicKey, from_base64, to_base64
from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import NotCanonical
from bpc.core.formats.ids import PassportVersionId, parse_uuid
from bpc.core.items.compile_order import LowerLayer
from bpc.core.items.content import ItemArtifacts
from bpc.core.items.layer_pins import BUNDLE_VERSIONS_BELOW
from bpc.core.items.receipt import read_item_receipt
from bpc.core.passport.bundle import (
    MANIFEST_MEMBERS,
    MAX_ARCHIVE_BYTES,
    PUBLIC_KEY_BYTES,
    BadBundle,
    read_archive,
    write_archive,
)
from bpc.core.passport.receipt import require_name

ABOVE_ENTRY: Final = "above.zip"
# Each entry and the bytes it may have at most.
ITEM_ENTRIES: Final[Mapping[str, int]] = {
    ABOVE_ENTRY: MAX_ARCHIVE_BYTES,
    "facts.jsonl": 1 << 22,
    "manifest.json": 1 << 12,
    "payload.json": 1 << 22,
    "proof.json": 1 << 22,
    "receipt.json": 1 << 14,
    "snapshot.json": 1 << 22,
}
_LAYERS_BY_BUNDLE: Final[Mapping[str, LowerLayer]] = {name: layer for layer, name in BUNDLE_VERSIONS_BELOW.items()}


@dataclass(frozen=True, slots=True)
class ItemBundle:
    """The entries of a bundle by name, all that `ITEM_ENTRIES` names and no others."""

    entries: Mapping[str, bytes]

    def __post_init__(self) -> None:
        for name, content in self.entries.items():
            largest = ITEM_ENTRIES.get(name)
            if largest is None:
                raise BadBundle(f"has an unknown entry `{name[:80]}`", entry=name)
            if len(content) > largest:
                says = f"has a `{name}` of {len(content):,} bytes, and at most {largest:,} are allowed"
                raise BadBundle(says, entry=name)
        missing = next((name for name in ITEM_ENTRIES if name not in self.entries), None)
        if missing is not None:
            raise BadBundle(f"has no `{missing}`", entry=missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemManifest:
    """Which layer and version the bundle is of, and under which key it says it is signed."""

    layer: LowerLayer
    passport_version_id: PassportVersionId
    signing_key_id: str
    public_key: PublicKey


def build_item_bundle(artifacts: ItemArtifacts, *, above: bytes, public_key: PublicKey) -> bytes:
    """The bundle of a signed battery or batch; `above` is the bundle of the layer above."""
    receipt = read_item_receipt(artifacts.receipt)
    if receipt.signature is None:
        raise BadBundle("needs a signed receipt", entry="receipt.json")
    manifest = canonical_json.encode_typed(
        {
            "bundle_version": BUNDLE_VERSIONS_BELOW[artifacts.layer],
            "passport_version_id": str(receipt.passport_version_id),
            "public_key": to_base64(public_key),
            "signing_key_id": receipt.signing_key_id,
        }
    )
    bundle = ItemBundle(
        {
            ABOVE_ENTRY: above,
            "facts.jsonl": artifacts.facts,
            "manifest.json": manifest,
            "payload.json": artifacts.payload,
            "proof.json": artifacts.proof,
            "receipt.json": artifacts.receipt,
            "snapshot.json": artifacts.snapshot,
        }
    )
    return write_archive(bundle.entries)


def read_item_bundle(data: bytes) -> ItemBundle:
    """The bundle these bytes are; `BadBundle` unless writing it again gives exactly these bytes."""
    return ItemBundle(read_archive(data))


def is_item_bundle(entries: Mapping[str, bytes]) -> bool:
    """Whether these entries say they are a bundle of a lower layer."""
    return ABOVE_ENTRY in entries


def read_item_manifest(data: bytes) -> ItemManifest:
    """The manifest these bytes are. The key is not yet one to rely on."""
    try:
        document: Any = canonical_json.decode(data)
    except NotCanonical as wrong:
        raise _manifest_error(f"is not canonical: {wrong.says}") from None
    if not isinstance(document, Mapping) or tuple(sorted(document)) != MANIFEST_MEMBERS:
        raise _manifest_error(f"is not an object of {', '.join(MANIFEST_MEMBERS)}")
    if not all(isinstance(value, str) for value in document.values()):
        raise _manifest_error("has a member that is not a text")
    layer = _LAYERS_BY_BUNDLE.get(document["bundle_version"])
    if layer is None:
        raise _manifest_error(f"must have {' or '.join(_LAYERS_BY_BUNDLE)} as its `bundle_version`")
    parsers: Mapping[str, Callable[[str], Any]] = {
        "passport_version_id": parse_uuid,
        "public_key": partial(from_base64, size=PUBLIC_KEY_BYTES),
        "signing_key_id": require_name,
    }
    values: dict[str, Any] = {}
    for name, parse in parsers.items():
        try:
            values[name] = parse(document[name])
        except Invalid as wrong:
            raise _manifest_error(f"has an invalid `{name}`: {wrong.says}") from None
    return ItemManifest(layer=layer, **values)


def _manifest_error(reason: str) -> BadBundle:
    return BadBundle(f"has a manifest that {reason}", entry="manifest.json")
