"""What one audience sees of a battery, BPC-ITEM-VIEW-1: model, batch and battery as one passport with one verdict.

Pure. A view of a battery holds that of the layer above it. Merging takes each field from the lowest layer that has it:
the passport of a model also has the battery's fields, as far as the product alone can fill them.

    ItemArtifacts, view above, audience ── make_item_view ──► canonical bytes, which `verify_item_view` checks
    view ── merge_view ──► MergedPassport
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.items.content import ItemArtifacts
from bpc.core.items.layer_pins import VIEW_VERSIONS_BELOW
from bpc.core.items.receipt import read_item_receipt
from bpc.core.language.typed import Layer
from bpc.core.verify.canonical import VIEW_AUDIENCES, may_see
from bpc.core.verify.item_view import ItemViewParts, open_item_view


class ItemViewImpossible(Invalid):
    """There is no such view of this battery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedPassport:
    """One passport of all layers: the visible fields by path with the layer each is from, and the one verdict.

    `verdict` is FAIL if any entry of any layer is. `versions` are the passport versions by layer.
    """

    audience: str
    subject_id: str
    product: Mapping[str, Json]
    fields: Mapping[str, Json]
    layers: Mapping[str, Layer]
    verdict: str
    versions: Mapping[Layer, str]


def make_item_view(artifacts: ItemArtifacts, *, above_view: bytes, audience: str) -> bytes:
    """The view for `audience`. `above_view` is the view of the layer above for the same audience."""
    if audience not in VIEW_AUDIENCES:
        raise ItemViewImpossible(
            f"there is no audience `{audience[:80]}`", fix=f"the audiences are {', '.join(reversed(VIEW_AUDIENCES))}"
        )
    if read_item_receipt(artifacts.receipt).signature is None:
        raise ItemViewImpossible("the receipt of this battery is not signed yet", fix="sign it first")
    if _read_audience(above_view) != audience:
        raise ItemViewImpossible(f"the view of the layer above is not for the audience `{audience}`")
    proof: Any = canonical_json.decode(artifacts.proof)
    own_members = canonical_json.encode_typed(
        {
            "audience": audience,
            "fields": [field for field in proof["fields"] if may_see(field["access"], audience)],
            "receipt": canonical_json.decode(artifacts.receipt),
            "root": proof["root"],
            "view_version": VIEW_VERSIONS_BELOW[artifacts.layer],
        }
    )
    # `above` sorts before all others and is canonical already: many batteries share it.
    return b'{"above":%b,%b' % (above_view, own_members[1:])


@lru_cache(maxsize=16)
def _read_audience(view: bytes) -> object:
    """The audience of a view, which must be canonical."""
    members: Any = canonical_json.decode(view)
    return members.get("audience")


def merge_view(view: bytes) -> MergedPassport:
    """One passport of all layers of a view. Verify the view first: this only reads it."""
    parts = open_item_view(view)
    fields: dict[str, Json] = {}
    layers: dict[str, Layer] = {}
    versions: dict[Layer, str] = {}
    _merge_into(parts, fields, layers, versions)
    return MergedPassport(
        audience=parts.audience,
        subject_id=parts.root["subject_id"],
        product=parts.root["battery_product"],
        fields=dict(sorted(fields.items())),
        layers=layers,
        verdict=parts.root["verdict"],
        versions=versions,
    )


def _merge_into(
    parts: ItemViewParts, fields: dict[str, Json], layers: dict[str, Layer], versions: dict[Layer, str]
) -> None:
    above = parts.above
    if isinstance(above, ItemViewParts):
        _merge_into(above, fields, layers, versions)
    else:
        versions["model"] = str(above.receipt.passport_version_id)
        for field in above.fields:
            fields[field["data"]["path"]] = field["data"]["value"]
            layers[field["data"]["path"]] = "model"
    versions[parts.layer] = str(parts.receipt.passport_version_id)
    for field in parts.fields:
        fields[field["path"]] = field["value"]
        layers[field["path"]] = parts.layer


def list_item_compliance(payload: bytes, above_entries: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The entries of a battery: those of the layers above, then its own."""
    document: Any = canonical_json.decode(payload)
    return [*above_entries, *document["compliance"]]
