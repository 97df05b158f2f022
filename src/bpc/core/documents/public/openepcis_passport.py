"""OpenEPCIS battery passports: EN 18223 compressed or expanded, and JSON-LD, with GS1 units and terms as URLs.

Recognised by `digitalProductPassportId` or `uniqueProductIdentifier` beside parts of a passport or `elements`; or by
terms of a vocabulary (`eubat:hasTechnicalSpecifications`). `linked_data` gives all of them the same names. The SKU is
`gtin`, else the GTIN in the identifier of the product. The figures of the footprint are per kWh if the functional unit
is.
"""

from typing import Final

from bpc.core.documents import quote_text
from bpc.core.documents.elements import FactElement, NumberText, RawValue
from bpc.core.documents.public import DocumentNode, mapping, units
from bpc.core.documents.public.conversions import parse_category, to_unit
from bpc.core.documents.public.linked_data import name_terms, shorten_term
from bpc.core.documents.public.mapping import MapRow
from bpc.core.documents.public.openepcis_rows import (
    BATTERY_ROWS,
    CLASSIFICATION,
    COMPONENT_ROWS,
    DUE_DILIGENCE_ROWS,
    FOOTPRINT_CONTEXT_ROWS,
    FOOTPRINT_ROWS,
    SPECIFICATIONS,
    STAGE_SOURCES,
    read_part_name,
)
from bpc.core.formats.ascii_case import lower_ascii
from bpc.core.language.types import Type

_PARTS: Final = {
    "gtin",
    "technicalSpecifications",
    "carbonFootprintDeclaration",
    "materialComposition",
    "endOfLifeInfo",
    "batteryChemistry",
    "productName",
    "elements",
}
_IDENTIFIERS: Final = {"digitalProductPassportId", "uniqueProductIdentifier", "dppSchemaVersion"}
# One of these with the prefix of a vocabulary is enough.
_TERMS: Final = _PARTS - {"gtin", "productName", "elements"} | {"recycledContent", "hazardousSubstances"}


def _matches(document: dict[str, RawValue]) -> bool:
    terms = {shorten_term(name) for name in document}
    prefixed_terms = {shorten_term(name) for name in document if ":" in name}
    return bool(_IDENTIFIERS & terms and _PARTS & terms) or bool(_TERMS & prefixed_terms)


def _read_elements(document: DocumentNode) -> list[FactElement]:
    passport = DocumentNode(name_terms(document.value), document.path, document.state)
    document.state.view = passport.value
    identifiers = ("gtin", "uniqueProductIdentifier", "digitalProductPassportId", "batteryPassportIdentifier", "id")
    sku = mapping.read_sku(*(passport.at(name) for name in identifiers))
    if sku is None:
        return []
    passport.at("uniqueProductIdentifier").take()
    battery = mapping.map_members("Battery", passport, BATTERY_ROWS)
    mapping.add_parts_list(passport.at("dismantlingDocuments"), "documentUrl", battery)
    _warn_of_categories(passport)
    mapping.warn_of_power(passport.at(SPECIFICATIONS), battery)
    elements = [FactElement("Battery", passport.path, {"sku": sku, **battery})]
    elements += mapping.map_components(sku, passport.at("materialComposition").items(), COMPONENT_ROWS, read_part_name)
    elements += _read_footprint(sku, passport)
    diligence = passport.at("supplyChainDueDiligence")
    diligence_members = mapping.map_members("DueDiligence", diligence, DUE_DILIGENCE_ROWS)
    return elements + mapping.build_due_diligence(sku, diligence, diligence_members, battery.get("operator_name"))


def _warn_of_categories(passport: DocumentNode) -> None:
    node = passport.at("category")
    own, classification = node.take(), passport.at(CLASSIFICATION).value
    if not isinstance(own, str) or not isinstance(classification, str):
        return
    own_category, classified_category = parse_category(own), parse_category(classification)
    if own_category is not None and classified_category is not None and own_category != classified_category:
        node.add_warning(
            f"is `{own_category}`, but the classification {quote_text(classification)} is `{classified_category}`;"
            " the classification was used"
        )


def _to_grams(node: DocumentNode, kind: Type) -> RawValue:
    """A mass of CO2e. A bare number may be in g or in kg, so it is left out like one with an unknown unit."""
    if isinstance(node.value, NumberText):
        node.take()
        node.add_problem("is a number without a unit; write `value` and `unitCode`, such as `KGM`")
        return None
    return to_unit(units.GRAMS)(node, kind)


def _read_footprint(sku: str, passport: DocumentNode) -> list[FactElement]:
    node = passport.at("carbonFootprintDeclaration")
    members = mapping.map_members("PCF", node, FOOTPRINT_ROWS)
    unit = members.get("functional_unit")
    per_kwh = isinstance(unit, str) and "kwh" in lower_ascii(unit)
    rows = [
        MapRow(mapping.name_stage_member(stage, per_kwh=per_kwh), source, _to_grams) for stage, source in STAGE_SOURCES
    ]
    figures = mapping.map_members("PCF", node, rows)
    mapping.warn_of_sums(node, figures)
    if not figures:
        return []
    context = mapping.map_members("PCF", passport, FOOTPRINT_CONTEXT_ROWS)
    return [FactElement("PCF", node.path, {"sku": sku, **members, **figures, **context})]


FORMAT: Final = mapping.PublicFormat(
    name="an OpenEPCIS battery passport (EN 18223)",
    matches=_matches,
    list_kinds=mapping.serve_kinds(*mapping.ALL_KINDS),
    read_elements=_read_elements,
    tables=(
        ("Battery", BATTERY_ROWS),
        ("Component", COMPONENT_ROWS),
        ("PCF", (*FOOTPRINT_ROWS, *FOOTPRINT_CONTEXT_ROWS)),
        ("DueDiligence", DUE_DILIGENCE_ROWS),
    ),
)
