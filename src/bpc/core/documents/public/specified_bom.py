"""Catena-X BomAsSpecified 1.0.1: the parts a product is promised to have.

The product's `identifier` is the SKU, each part a component under its `ownerPartId`. A quantity in pieces is a number
of parts, one in a mass is a mass; both count as often as the item they are in. A quantity in any other unit (the
published example has `litre`, which its own schema forbids) or in none is no reason to lose the whole bill: the part is
read without it.
"""

from typing import Final

from bpc.core.documents.elements import Element
from bpc.core.documents.notes import quoted
from bpc.core.documents.public.conversions import amount, fitted, shown, text
from bpc.core.documents.public.formats import Format, always
from bpc.core.documents.public.identifiers import sku_of
from bpc.core.documents.public.measures import GRAMS, PIECES, factor_of, times
from bpc.core.documents.public.places import Place
from bpc.core.documents.public.tables import Row, components
from bpc.core.documents.values import Exact, Given
from bpc.core.rules.types import INT, Dec

_PART: Final = (Row("name", "partDescription"), Row("part_number", "ownerPartId"))


def _is_it(document: dict[str, Given]) -> bool:
    items = document.get("item")
    return isinstance(items, list) and ("identifier" in document or _has_parts(items))


def _has_parts(items: list[Given]) -> bool:
    return any(isinstance(item, dict) and isinstance(item.get("part"), list) for item in items)


def _elements(place: Place) -> list[Element]:
    sku = sku_of(place.at("identifier"))
    if sku is None:
        return []
    found = [Element("Battery", place.path, {"sku": sku})]
    parts = [(item, part) for item in place.at("item").items() for part in item.at("part").items()]
    made = components(sku, [part for _, part in parts], _PART, _name)
    for (item, part), component in zip(parts, made, strict=True):
        component.members.update(_quantity(item, part.at("partQuantity")))
    if not made and place.reading.notes.is_clean:
        place.at("item").problem("has no parts")
    return found + made


def _name(part: Place) -> Given:
    name = text(part.at("ownerPartId"))
    if name is None:
        part.at("ownerPartId").problem("is missing; it says which part this is")
    return name


def _quantity(item: Place, place: Place) -> dict[str, Given]:
    count, unit = amount(place.at("quantityNumber")), text(place.at("measurementUnit"))
    if count is None:
        return {}
    total = times(count, amount(item.at("quantity")) or Exact(1, 0))
    if not isinstance(unit, str):
        place.warning(f"is {shown(total)} without a `measurementUnit`; the part was read without it")
        return {}
    pieces, mass = factor_of(PIECES, unit), factor_of(GRAMS, unit)
    if mass is not None:
        return {"mass_g": fitted(place.at("quantityNumber"), times(total, mass), Dec(6))}
    if pieces is not None and total.at_scale(0) is not None:
        return {"quantity": fitted(place.at("quantityNumber"), total, INT)}
    kind = "no whole number of pieces" if pieces is not None else "neither a number of pieces nor a mass"
    place.warning(f"is {shown(total)} {quoted(unit)}, {kind}; the part was read without it")
    return {}


FORMAT: Final = Format(
    name="a Catena-X BomAsSpecified",
    is_it=_is_it,
    kinds=always("BOM"),
    elements=_elements,
    tables=(("Component", _PART),),
)
