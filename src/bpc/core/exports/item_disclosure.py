"""What the public page of a battery shows: the passport of its model, with what batch and battery say themselves.

Pure. A field of a lower layer counts before that of the layer above with the same path, as in merged views. Receipt and
code stay those of the model; those of the battery are in `ItemViewParts`.

    DisclosedPassport of the model, view of the battery, entries ─► disclose_item ─► DisclosedPassport
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bpc.core.exports.data_points import find_exempt_points
from bpc.core.exports.disclosure import DisclosedField, DisclosedPassport, parse_type
from bpc.core.language.typed import FieldAbout
from bpc.core.verify.item_view import ItemViewParts


def disclose_item(
    model: DisclosedPassport,
    view: ItemViewParts,
    entries: Sequence[Mapping[str, Any]],
    abouts: Mapping[str, FieldAbout],
) -> DisclosedPassport:
    """One passport of all layers. `entries` are the compliance entries of batch and battery."""
    fields = {field.path: field for field in model.fields}
    for layer in _iterate_layers(view):
        fields |= {field["path"]: _build_field(field, abouts) for field in layer.fields}
    compliance = [*model.compliance, *(entry for entry in entries if entry["field"] in fields)]
    return replace(
        model,
        fields=[fields[path] for path in sorted(fields)],
        compliance=compliance,
        exempt_points=find_exempt_points(compliance),
    )


def _iterate_layers(view: ItemViewParts) -> Iterator[ItemViewParts]:
    """The layers below the model, the highest first."""
    if isinstance(view.above, ItemViewParts):
        yield from _iterate_layers(view.above)
    yield view


def _build_field(field: Mapping[str, Any], abouts: Mapping[str, FieldAbout]) -> DisclosedField:
    path = field["path"]
    return DisclosedField(
        path, parse_type(field["type"]), field["access"], field["value"], field["id"], abouts.get(path)
    )
