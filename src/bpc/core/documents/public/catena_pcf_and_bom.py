"""Catena-X footprints and bills of materials.

    Pcf 9.0.0, 8.x and 7.x                  9 has everything in lists of one; the others are flat, with a member `pcf`
    PcfForBatteryComponentSupplier 1.0.0    the footprint of a part; only figures for a piece are read
    BomAsSpecified 1.0.1                    the parts that a product is specified to have

The SKU of a Pcf is the first of `productIds`. Its total is the figure without biogenic uptake, in kg CO2e for one
product (see `pact_footprint`).
"""

from collections.abc import Sequence
from typing import Final

from bpc.core.documents import quote_text
from bpc.core.documents.elements import FactElement, RawValue, describe_value
from bpc.core.documents.public import DocumentNode, mapping, units
from bpc.core.documents.public.conversions import (
    ONE,
    fit_decimals,
    read_amount,
    read_bool,
    read_text,
    to_country_code,
    to_thousandfold,
    to_year,
)
from bpc.core.documents.public.mapping import MapRow, join_texts
from bpc.core.documents.public.pact_footprint import (
    choose_present,
    fit_to_one_product,
    is_pact_footprint,
    lose_figures,
    warn_of_ratings,
)
from bpc.core.language.types import INT, Dec


def _version_names_pcf(document: dict[str, RawValue]) -> bool:
    version = document.get("specVersion")
    name = version[0] if isinstance(version, list) and version else version
    return isinstance(name, str) and "catenax.pcf" in name


def _matches_pcf_9(document: dict[str, RawValue]) -> bool:
    return "productLifeCycleStagesAndEmissions" in document or "scopeOfPcfForm" in document


def _matches_pcf_7(document: dict[str, RawValue]) -> bool:
    has_pcf = isinstance(document.get("pcf"), dict) and ("productIds" in document or "companyIds" in document)
    return (has_pcf and not is_pact_footprint(document)) or _version_names_pcf(document)


_PRODUCT: Final = "companyAndProductInformation.productInformation"
_ASSESSMENT: Final = "pcfAssessmentAndMethodology.pcfAssessmentInformation"
_METHOD: Final = "pcfAssessmentAndMethodology.pcfMethodology"
_STAGES: Final = "productLifeCycleStagesAndEmissions"

_ATTESTATION_ROWS: Final = (
    MapRow("verified_by", "attestationOfConformance.providerName"),
    MapRow("verified_on", "attestationOfConformance.completedAt"),
)

_PCF_9_ROWS: Final = (
    MapRow("model", f"{_PRODUCT}.productNameCompany"),
    MapRow("facility_country", f"{_ASSESSMENT}.geography.geographyCountry", to_country_code),
    MapRow("year", f"{_ASSESSMENT}.time.referencePeriodEnd", to_year),
    MapRow("valid_until_on", f"{_ASSESSMENT}.time.validityPeriodEnd"),
    MapRow("total_gco2e", f"{_STAGES}.productionStage.pcfExcludingBiogenicUptake", to_thousandfold),
    MapRow("primary_data_pct", "pcfAssessmentAndMethodology.dataSourcesAndQuality.primaryDataShare"),
    MapRow("method", f"{_METHOD}.standards.crossSectoralStandards", join_texts()),
    *_ATTESTATION_ROWS,
)

_PCF_7_ROWS: Final = (
    MapRow("model", "productNameCompany"),
    MapRow("model", "productName"),
    MapRow("facility_country", "pcf.geographyCountry", to_country_code),
    MapRow("year", "pcf.referencePeriodEnd", to_year),
    MapRow("valid_until_on", "validityPeriodEnd"),
    MapRow("total_gco2e", "pcf.pcfExcludingBiogenicUptake", to_thousandfold),
    MapRow("total_gco2e", "pcf.pcfExcludingBiogenic", to_thousandfold),
    MapRow("primary_data_pct", "pcf.primaryDataShare"),
    MapRow("method", "pcf.crossSectoralStandards", join_texts()),
    MapRow("method", "pcf.crossSectoralStandardsUsed", join_texts("crossSectoralStandard")),
    *_ATTESTATION_ROWS,
)

_DISTRIBUTION_ROWS: Final = (
    MapRow("distribution_gco2e", "distributionStagePcfExcludingBiogenicUptake", to_thousandfold),
    MapRow("distribution_gco2e", "distributionStagePcfExcludingBiogenic", to_thousandfold),
)


def _read_pcf_9(node: DocumentNode) -> list[FactElement]:
    product = node.at(_PRODUCT)
    scope = node.at("scopeOfPcfForm.partialFullPcf")
    unit = (product.at("declaredUnitAmount"), product.at("declaredUnitOfMeasurement"))
    distribution = node.at(f"{_STAGES}.distributionStage")
    warn_of_ratings(node.at("pcfAssessmentAndMethodology.dataSourcesAndQuality").first())
    return _read_pcf(node, _PCF_9_ROWS, product.at("productIds"), unit, scope, distribution)


def _read_pcf_7(node: DocumentNode) -> list[FactElement]:
    amount = choose_present(node.at("pcf.declaredUnitAmount"), node.at("pcf.unitaryProductAmount"))
    unit = (amount, choose_present(node.at("pcf.declaredUnitOfMeasurement"), node.at("pcf.declaredUnit")))
    warn_of_ratings(node.at("pcf.dataQualityRating"))
    return _read_pcf(node, _PCF_7_ROWS, node.at("productIds"), unit, node.at("partialFullPcf"), node.at("pcf"))


def _read_pcf(
    node: DocumentNode,
    rows: Sequence[MapRow],
    products: DocumentNode,
    unit: tuple[DocumentNode, DocumentNode],
    scope: DocumentNode,
    distribution: DocumentNode,
) -> list[FactElement]:
    sku = mapping.read_sku(products.first())
    members = mapping.map_members("PCF", node, rows)
    members |= _read_distribution(distribution)
    if "total_gco2e" not in members and node.state.notes.is_clean:
        node.add_problem("has no footprint: `pcfExcludingBiogenicUptake` is missing")
    members = fit_to_one_product(node, members, *unit, scope)
    return [] if sku is None else [FactElement("PCF", node.path, {"sku": sku, **members})]


def _read_distribution(node: DocumentNode) -> dict[str, RawValue]:
    """The figure of the distribution stage, if the document counts that stage."""
    has_distribution = read_bool(node.at("distributionStageIncluded"))
    members = mapping.map_members("PCF", node, _DISTRIBUTION_ROWS)
    if has_distribution is False and members:
        node.add_warning("has a figure for distribution but says it is not included; the figure was left out")
        return {}
    return members


PCF_9: Final = mapping.PublicFormat(
    name="a Catena-X Pcf of version 9",
    matches=_matches_pcf_9,
    list_kinds=mapping.serve_kinds("PCF"),
    read_elements=_read_pcf_9,
    tables=(("PCF", _PCF_9_ROWS),),
)
PCF_7: Final = mapping.PublicFormat(
    name="a Catena-X Pcf of version 7 or 8",
    matches=_matches_pcf_7,
    list_kinds=mapping.serve_kinds("PCF"),
    read_elements=_read_pcf_7,
    tables=(("PCF", _PCF_7_ROWS),),
)

_COMPONENT_STAGES: Final = "pcfValues.sharesPerStage"

_COMPONENT_ROWS: Final = (
    MapRow("facility", "siteIdentifier"),
    MapRow("study_url", "pcfValues.webLinkToCarbonFootPrintStudy"),
    MapRow("performance_class", "pcfValues.pcfPerformanceClass"),
    MapRow("total_gco2e", f"{_COMPONENT_STAGES}.absPcfValue.stageValue", to_thousandfold),
    MapRow(
        "raw_material_gco2e",
        f"{_COMPONENT_STAGES}.stage1RawMaterialAquisitionPreProcessing.stageValue",
        to_thousandfold,
    ),
    MapRow("production_gco2e", f"{_COMPONENT_STAGES}.stage2MainProductProduction.stageValue", to_thousandfold),
    MapRow("distribution_gco2e", f"{_COMPONENT_STAGES}.stage3Distribution.stageValue", to_thousandfold),
    MapRow("end_of_life_gco2e", f"{_COMPONENT_STAGES}.stage4EndOfLifeRecycling.stageValue", to_thousandfold),
    MapRow("primary_data_pct", "primaryDataShare"),
    MapRow("valid_until_on", "validityPeriod.validTo"),
)

_PER_PIECE: Final = "CO2KG/piece"
_COMPONENT_UNITS: Final = ("CO2KG/KG", _PER_PIECE)


def _matches_component_pcf(document: dict[str, RawValue]) -> bool:
    values = document.get("pcfValues")
    return isinstance(values, dict) and ("sharesPerStage" in values or "manufacturerPartId" in document)


def _read_component_pcf(node: DocumentNode) -> list[FactElement]:
    sku = mapping.read_sku(node.at("manufacturerPartId"))
    members = mapping.map_members("PCF", node, _COMPONENT_ROWS)
    if not mapping.has_figures(members) and node.state.notes.is_clean:
        node.add_problem("has no footprint in `pcfValues.sharesPerStage`")
    unit = node.at(f"{_COMPONENT_STAGES}.declaredUnit")
    name = read_text(unit)
    mapping.warn_of_sums(node.at(_COMPONENT_STAGES), members)
    if name == _PER_PIECE:
        members["functional_unit"] = "1 piece of the part"
        unit.add_warning("means that the figures are for 1 piece of the part, not for a whole battery")
    elif name in _COMPONENT_UNITS:
        members = lose_figures(
            node, members, "is for 1 kg of the part, not for one piece; ask for the figure of a piece"
        )
    elif members.keys() & {"total_gco2e", "raw_material_gco2e", "production_gco2e"}:
        says = "is missing" if name is None else f"is {describe_value(name)}"
        unit.add_problem(f"{says}; it must be {' or '.join(f'`{unit}`' for unit in _COMPONENT_UNITS)}")
    return [] if sku is None else [FactElement("PCF", node.path, {"sku": sku, **members})]


COMPONENT_PCF: Final = mapping.PublicFormat(
    name="a Catena-X PcfForBatteryComponentSupplier",
    matches=_matches_component_pcf,
    list_kinds=mapping.serve_kinds("PCF"),
    read_elements=_read_component_pcf,
    tables=(("PCF", _COMPONENT_ROWS),),
)

_BOM_PART_ROWS: Final = (MapRow("name", "partDescription"), MapRow("part_number", "ownerPartId"))


def _matches_bom(document: dict[str, RawValue]) -> bool:
    items = document.get("item")
    return isinstance(items, list) and ("identifier" in document or _has_parts(items))


def _has_parts(items: list[RawValue]) -> bool:
    return any(isinstance(item, dict) and isinstance(item.get("part"), list) for item in items)


def _read_bom(node: DocumentNode) -> list[FactElement]:
    sku = mapping.read_sku(node.at("identifier"))
    if sku is None:
        return []
    battery = [FactElement("Battery", node.path, {"sku": sku})]
    parts = [(item, part) for item in node.at("item").items() for part in item.at("part").items()]
    part_elements = mapping.map_components(sku, [part for _, part in parts], _BOM_PART_ROWS, _read_part_name)
    for (item, part), component in zip(parts, part_elements, strict=True):
        component.members.update(read_quantity(part.at("partQuantity"), item.at("quantity")))
    if not part_elements and node.state.notes.is_clean:
        node.at("item").add_problem("has no parts")
    return battery + part_elements


def _read_part_name(part: DocumentNode) -> RawValue:
    name = read_text(part.at("ownerPartId"))
    if name is None:
        part.at("ownerPartId").add_problem("is missing; it identifies the part")
    return name


def read_quantity(node: DocumentNode, factor: DocumentNode | None = None) -> dict[str, RawValue]:
    """How many of a part there are, or how much they weigh: a value with its unit, under the names of any version.

    `factor` is a number that multiplies it.
    """
    value = choose_present(node.at("value"), node.at("quantityNumber"))
    unit_node = choose_present(node.at("unit"), node.at("measurementUnit"))
    count = read_amount(value)
    unit = read_text(unit_node.at("lexicalValue") if isinstance(unit_node.value, dict) else unit_node)
    if count is None:
        return {}
    total = count * ((None if factor is None else read_amount(factor)) or ONE)
    if not isinstance(unit, str):
        node.add_warning(f"is {total} without a unit; the part was read without a quantity")
        return {}
    pieces, mass = units.find_factor(units.PIECES, unit), units.find_factor(units.GRAMS, unit)
    if mass is not None:
        return {"mass_g": fit_decimals(value, total * mass, Dec(6))}
    if pieces is not None and total.at_scale(0) is not None:
        return {"quantity": fit_decimals(value, total, INT)}
    kind = "not a whole number of pieces" if pieces is not None else "neither a number of pieces nor a mass"
    node.add_warning(f"is {total} {quote_text(unit)}, {kind}; the part was read without a quantity")
    return {}


BOM_AS_SPECIFIED: Final = mapping.PublicFormat(
    name="a Catena-X BomAsSpecified",
    matches=_matches_bom,
    list_kinds=mapping.serve_kinds("BOM"),
    read_elements=_read_bom,
    tables=(("Component", _BOM_PART_ROWS),),
)
