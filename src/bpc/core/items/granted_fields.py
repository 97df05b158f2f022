"""The fields of a battery on the page of its model: each from the lowest layer of a view that has it.

Pure. The view was made for the same audience as the passport, so nothing else can be among them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from bpc.core.exports.disclosure import DisclosedField, DisclosedPassport, parse_type
from bpc.core.verify.item_view import ItemViewParts, open_item_view


def merge_battery_fields(passport: DisclosedPassport, view: bytes) -> DisclosedPassport:
    """The passport of a model with the fields of a battery's view in the place of its own."""
    fields = {field.path: field for field in passport.fields}
    for data in _list_fields(open_item_view(view)):
        path = data["path"]
        about = fields[path].about if path in fields else None
        kind = parse_type(data["type"])
        fields[path] = DisclosedField(path, kind, data["access"], data["value"], data["id"], about)
    return replace(passport, fields=[fields[path] for path in sorted(fields)])


def _list_fields(parts: ItemViewParts) -> Iterator[Mapping[str, Any]]:
    """The fields of a batch, if there is one above, then those of the battery."""
    if isinstance(parts.above, ItemViewParts):
        yield from _list_fields(parts.above)
    yield from parts.fields
