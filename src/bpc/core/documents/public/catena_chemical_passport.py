"""Catena-X ChemicalMaterialPassport 1.x to 3.x: what a chemical product is made of.

Recognised by `specific` beside `generic` (1.x: `unspecific`) with `identification`. It is about a material, not about a
battery: its substances become components of the article number of the material, which a battery may name as a part.
There is no Battery fact. Safety data sheets, transport and compliance have no member.
"""

from typing import Final

from bpc.core.documents.elements import FactElement, RawValue
from bpc.core.documents.public import DocumentNode, mapping
from bpc.core.documents.public.catena_passport import read_substance_name, to_cas_number, to_first_name
from bpc.core.documents.public.conversions import to_share
from bpc.core.documents.public.mapping import MapRow

_GENERIC_PARTS: Final = ("generic", "unspecific")

_SUBSTANCE_ROWS: Final = (
    MapRow("material", "id", to_first_name),
    MapRow("cas_number", "id", to_cas_number),
    MapRow("location", "location"),
    MapRow("mass_share_pct", "", to_share("concentration", "unit")),
    MapRow("critical", "critical"),
    MapRow("renewable_pct", "renewable"),
)
_CONCERN_ROWS: Final = (
    MapRow("hazard_class", "hazardClassification.class"),
    MapRow("hazard_impact", "hazardClassification.statement"),
)
_SUPPLIER_ROWS: Final = (MapRow("supplier", "operation.manufacturer.manufacturer"),)


def _find_generic(document: dict[str, RawValue]) -> str | None:
    for name in _GENERIC_PARTS:
        part = document.get(name)
        if isinstance(part, dict) and "identification" in part and isinstance(document.get("specific"), dict):
            return name
    return None


def _read_elements(document: DocumentNode) -> list[FactElement]:
    name = _find_generic(document.value) if isinstance(document.value, dict) else None
    generic = document.at(name or _GENERIC_PARTS[0])
    sku = mapping.read_sku(generic.at("identification.type.manufacturerPartId"))
    if sku is None:
        return []
    generic.at("identification.type.manufacturerPartId").add_warning(
        f"is the article number of a material; its substances are components of `{sku}`, not of a battery"
    )
    supplier = mapping.map_members("Component", generic, _SUPPLIER_ROWS)
    concerns = _list_content(generic.at("materials.substancesOfConcern"))
    elements = mapping.map_components(sku, concerns, (*_SUBSTANCE_ROWS, *_CONCERN_ROWS), read_substance_name)
    for element in elements:
        element.members["hazardous"] = True
    composition = _list_content(generic.at("materials.materialComposition"))
    elements = _merge_substances(
        elements, mapping.map_components(sku, composition, _SUBSTANCE_ROWS, read_substance_name)
    )
    if not elements and document.state.notes.is_clean:
        generic.at("materials").add_problem("has no substances: `materialComposition.content` is missing")
    return [FactElement("Component", element.path, {**element.members, **supplier}) for element in elements]


def _merge_substances(concerns: list[FactElement], composition: list[FactElement]) -> list[FactElement]:
    """Both lists; a substance of the composition that is also one of concern is one component."""
    by_part = {element.members["part"]: element for element in concerns}
    others = [element for element in composition if element.members["part"] not in by_part]
    for element in composition:
        same = by_part.get(element.members["part"], element)
        for member, value in element.members.items():
            same.members.setdefault(member, value)
    return concerns + others


def _list_content(node: DocumentNode) -> list[DocumentNode]:
    """The items of a part that may not apply."""
    if isinstance(node.value, dict) and "content" in node.value:
        is_applicable = node.at("applicable").take() is not False
        return node.at("content").items() if is_applicable else []
    return node.items() if isinstance(node.value, list) else []


FORMAT: Final = mapping.PublicFormat(
    name="a Catena-X ChemicalMaterialPassport",
    matches=lambda document: _find_generic(document) is not None,
    list_kinds=mapping.serve_kinds("BOM"),
    read_elements=_read_elements,
    tables=(("Component", (*_SUBSTANCE_ROWS, *_CONCERN_ROWS, *_SUPPLIER_ROWS)),),
)
