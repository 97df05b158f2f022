"""Catena-X bills of materials of one level: SingleLevelBomAsBuilt 1.x to 4.x, AsPlanned and AsSpecified.

Recognised by a list `childItems` beside the identifier of the part (`globalAssetId`, `catenaXId`, `assetId`). The SKU
is `manufacturerPartId`, if the sender puts it beside that, else the identifier. A part is named by its own identifier;
its supplier is the business partner. Versions differ in the names of the identifiers and of the quantity.
"""

from typing import Final

from bpc.core.documents.elements import FactElement, RawValue
from bpc.core.documents.public import DocumentNode, mapping
from bpc.core.documents.public.catena_pcf_and_bom import read_quantity
from bpc.core.documents.public.conversions import read_text
from bpc.core.documents.public.mapping import MapRow

_IDENTIFIERS: Final = ("globalAssetId", "catenaXId", "assetId")
_PART_IDENTIFIERS: Final = (*_IDENTIFIERS, "childCatenaXId", "ownerItemId", "childassetId", "childAssetId")
_QUANTITIES: Final = ("quantity", "itemQuantity")

_PART_ROWS: Final = (
    MapRow("name", "itemDescription"),
    MapRow("name", "nameAtManufacturer"),
    MapRow("part_number", "manufacturerPartId"),
    MapRow("part_number", "ownerItemId"),
    MapRow("supplier", "businessPartner"),
)


def _matches(document: dict[str, RawValue]) -> bool:
    return isinstance(document.get("childItems"), list) and any(name in document for name in _IDENTIFIERS)


def _read_elements(node: DocumentNode) -> list[FactElement]:
    names = ("partTypeInformation.manufacturerPartId", "manufacturerPartId", *_IDENTIFIERS)
    present = [node.at(name) for name in names if node.at(name).value is not None]
    sku = mapping.read_sku(*(present or [node.at(_IDENTIFIERS[0])]))
    if sku is None:
        return []
    for name in _IDENTIFIERS:
        node.at(name).take()
    parts = [part for child in node.at("childItems").items() for part in _list_parts(child)]
    elements = mapping.map_components(sku, parts, _PART_ROWS, _read_part_name)
    for part, component in zip(parts, elements, strict=True):
        for name in _QUANTITIES:
            if part.at(name).value is not None:
                component.members.update(read_quantity(part.at(name)))
        if part.at("hasAlternatives").take() is True:
            part.add_warning("has alternatives: a battery may have another part instead of this one")
    if not elements and node.state.notes.is_clean:
        node.at("childItems").add_problem("has no parts")
    return [FactElement("Battery", node.path, {"sku": sku}), *elements]


def _list_parts(child: DocumentNode) -> list[DocumentNode]:
    """The parts of a child; AsSpecified has several in each."""
    return child.at("item").items() if isinstance(child.value, dict) and "item" in child.value else [child]


def _read_part_name(part: DocumentNode) -> RawValue:
    for name in _PART_IDENTIFIERS:
        identifier = read_text(part.at(name))
        if isinstance(identifier, str):
            return mapping.shorten_identifier(identifier)
    part.at(_PART_IDENTIFIERS[0]).add_problem("is missing; it identifies the part")
    return None


FORMAT: Final = mapping.PublicFormat(
    name="a Catena-X bill of materials of one level",
    matches=_matches,
    list_kinds=mapping.serve_kinds("BOM"),
    read_elements=_read_elements,
    tables=(("Component", _PART_ROWS),),
)
