"""Catena-X Pcf, of 9.0.0 (everything in lists of one) and of 7.x and 8.x (flat, with a member `pcf`).

The SKU is the first of `productIds`. The figure without biogenic uptake is the total; it is in kg CO2e for the declared
amount of the declared unit, which the fact names.
"""

from collections.abc import Sequence
from typing import Final

from bpc.core.documents.elements import Element
from bpc.core.documents.public.conversions import amount, plain, shown, text, times_ten, truth, two_letters, year
from bpc.core.documents.public.formats import Format, always
from bpc.core.documents.public.identifiers import sku_of
from bpc.core.documents.public.places import Place
from bpc.core.documents.public.tables import Row, joined, members
from bpc.core.documents.values import Given
from bpc.core.rules.types import TEXT

_GRAMS_OF_KILOGRAMS: Final = times_ten(3)


def _version_names_pcf(document: dict[str, Given]) -> bool:
    version = document.get("specVersion")
    given = version[0] if isinstance(version, list) and version else version
    return isinstance(given, str) and "catenax.pcf" in given


def _is_nested(document: dict[str, Given]) -> bool:
    return "productLifeCycleStagesAndEmissions" in document or "scopeOfPcfForm" in document


def _is_flat(document: dict[str, Given]) -> bool:
    has_figures = isinstance(document.get("pcf"), dict) and ("productIds" in document or "companyIds" in document)
    return has_figures or _version_names_pcf(document)


_PRODUCT: Final = "companyAndProductInformation.productInformation"
_ASSESSMENT: Final = "pcfAssessmentAndMethodology.pcfAssessmentInformation"
_METHOD: Final = "pcfAssessmentAndMethodology.pcfMethodology"
_STAGES: Final = "productLifeCycleStagesAndEmissions"

_ATTESTATION: Final = (
    Row("verified_by", "attestationOfConformance.providerName"),
    Row("verified_on", "attestationOfConformance.completedAt"),
)

_NESTED: Final = (
    Row("model", f"{_PRODUCT}.productNameCompany"),
    Row("facility_country", f"{_ASSESSMENT}.geography.geographyCountry", two_letters),
    Row("year", f"{_ASSESSMENT}.time.referencePeriodEnd", year),
    Row("valid_until_on", f"{_ASSESSMENT}.time.validityPeriodEnd"),
    Row("total_gco2e", f"{_STAGES}.productionStage.pcfExcludingBiogenicUptake", _GRAMS_OF_KILOGRAMS),
    Row("primary_data_pct", "pcfAssessmentAndMethodology.dataSourcesAndQuality.primaryDataShare"),
    Row("method", f"{_METHOD}.standards.crossSectoralStandards", joined()),
    *_ATTESTATION,
)

_FLAT: Final = (
    Row("model", "productNameCompany"),
    Row("model", "productName"),
    Row("facility_country", "pcf.geographyCountry", two_letters),
    Row("year", "pcf.referencePeriodEnd", year),
    Row("valid_until_on", "validityPeriodEnd"),
    Row("total_gco2e", "pcf.pcfExcludingBiogenicUptake", _GRAMS_OF_KILOGRAMS),
    Row("total_gco2e", "pcf.pcfExcludingBiogenic", _GRAMS_OF_KILOGRAMS),
    Row("primary_data_pct", "pcf.primaryDataShare"),
    Row("method", "pcf.crossSectoralStandards", joined()),
    Row("method", "pcf.crossSectoralStandardsUsed", joined("crossSectoralStandard")),
    *_ATTESTATION,
)

_DISTRIBUTION: Final = (
    Row("distribution_gco2e", "distributionStagePcfExcludingBiogenicUptake", _GRAMS_OF_KILOGRAMS),
    Row("distribution_gco2e", "distributionStagePcfExcludingBiogenic", _GRAMS_OF_KILOGRAMS),
)


def _nested(place: Place) -> list[Element]:
    product = place.at(_PRODUCT)
    scope = place.at("scopeOfPcfForm.partialFullPcf")
    unit = (product.at("declaredUnitAmount"), product.at("declaredUnitOfMeasurement"))
    distribution = place.at(f"{_STAGES}.distributionStage")
    return _footprint(place, _NESTED, product.at("productIds"), unit, scope, distribution)


def _flat(place: Place) -> list[Element]:
    amounts = [place.at("pcf.declaredUnitAmount"), place.at("pcf.unitaryProductAmount")]
    units = [place.at("pcf.declaredUnitOfMeasurement"), place.at("pcf.declaredUnit")]
    unit = (_present(amounts), _present(units))
    return _footprint(place, _FLAT, place.at("productIds"), unit, place.at("partialFullPcf"), place.at("pcf"))


def _present(places: Sequence[Place]) -> Place:
    return next((place for place in places if place.value is not None), places[0])


def _footprint(
    place: Place,
    rows: Sequence[Row],
    products: Place,
    unit: tuple[Place, Place],
    scope: Place,
    distribution: Place,
) -> list[Element]:
    sku = sku_of(products.first())
    made = members("PCF", place, rows)
    made |= _distribution(distribution)
    made |= _functional_unit(*unit, scope)
    if "total_gco2e" not in made and place.reading.notes.is_clean:
        place.problem("has no footprint: `pcfExcludingBiogenicUptake` is missing")
    return [] if sku is None else [Element("PCF", place.path, {"sku": sku, **made})]


def _distribution(place: Place) -> dict[str, Given]:
    """The figure of the distribution stage, if the document counts that stage."""
    included = truth(place.at("distributionStageIncluded"))
    made = members("PCF", place, _DISTRIBUTION)
    if included is False and made:
        place.warning("gives a figure for distribution and says that it is not included; it was left out")
        return {}
    return made


def _functional_unit(count: Place, unit: Place, scope: Place) -> dict[str, Given]:
    how_many, name, reach = amount(count), text(unit), plain(scope, TEXT)
    if name is None:
        return {}
    of = f"{'1' if how_many is None else shown(how_many)} {name}"
    if name != "piece":
        unit.warning(f"makes the figures those of {of}, not of a whole product")
    if reach == "Cradle-to-gate":
        scope.warning("makes the total one from cradle to gate; use and end of life are not in it")
    return {"functional_unit": f"{of}, {reach}" if isinstance(reach, str) else of}


NESTED: Final = Format(
    name="a Catena-X Pcf of version 9",
    is_it=_is_nested,
    kinds=always("PCF"),
    elements=_nested,
    tables=(("PCF", _NESTED),),
)
FLAT: Final = Format(
    name="a Catena-X Pcf of version 7 or 8",
    is_it=_is_flat,
    kinds=always("PCF"),
    elements=_flat,
    tables=(("PCF", _FLAT),),
)
