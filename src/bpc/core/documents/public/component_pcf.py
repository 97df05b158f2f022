"""Catena-X PcfForBatteryComponentSupplier 1.0.0: the footprint of a part, per kilogram or per piece.

The SKU is the supplier's own number, `manufacturerPartId`: the fact is about the part, not about its battery.
"""

from typing import Final

from bpc.core.documents.elements import Element
from bpc.core.documents.public.conversions import text, times_ten
from bpc.core.documents.public.footprints import warn_of_sums
from bpc.core.documents.public.formats import Format, always
from bpc.core.documents.public.identifiers import sku_of
from bpc.core.documents.public.places import Place, named
from bpc.core.documents.public.tables import Row, members
from bpc.core.documents.values import Given

_GRAMS_OF_KILOGRAMS: Final = times_ten(3)
_STAGES: Final = "pcfValues.sharesPerStage"

_ROWS: Final = (
    Row("facility", "siteIdentifier"),
    Row("study_url", "pcfValues.webLinkToCarbonFootPrintStudy"),
    Row("performance_class", "pcfValues.pcfPerformanceClass"),
    Row("total_gco2e", f"{_STAGES}.absPcfValue.stageValue", _GRAMS_OF_KILOGRAMS),
    Row("raw_material_gco2e", f"{_STAGES}.stage1RawMaterialAquisitionPreProcessing.stageValue", _GRAMS_OF_KILOGRAMS),
    Row("production_gco2e", f"{_STAGES}.stage2MainProductProduction.stageValue", _GRAMS_OF_KILOGRAMS),
    Row("distribution_gco2e", f"{_STAGES}.stage3Distribution.stageValue", _GRAMS_OF_KILOGRAMS),
    Row("end_of_life_gco2e", f"{_STAGES}.stage4EndOfLifeRecycling.stageValue", _GRAMS_OF_KILOGRAMS),
    Row("primary_data_pct", "primaryDataShare"),
    Row("valid_until_on", "validityPeriod.validTo"),
)

_UNITS: Final = {"CO2KG/KG": "1 kg of the part", "CO2KG/piece": "1 piece of the part"}


def _is_it(document: dict[str, Given]) -> bool:
    values = document.get("pcfValues")
    return isinstance(values, dict) and ("sharesPerStage" in values or "manufacturerPartId" in document)


def _elements(place: Place) -> list[Element]:
    sku = sku_of(place.at("manufacturerPartId"))
    made = members("PCF", place, _ROWS)
    unit = place.at(f"{_STAGES}.declaredUnit")
    name = text(unit)
    if isinstance(name, str) and name in _UNITS:
        made["functional_unit"] = _UNITS[name]
        unit.warning(f"makes the figures those of {_UNITS[name]}, not of a whole battery")
    elif made.keys() & {"total_gco2e", "raw_material_gco2e", "production_gco2e"}:
        says = "is missing" if name is None else f"is {named(name)}"
        unit.problem(f"{says}; it says what the figures are of: {' or '.join(f'`{unit}`' for unit in _UNITS)}")
    if not any("gco2e" in member for member in made) and place.reading.notes.is_clean:
        place.problem("has no footprint in `pcfValues.sharesPerStage`")
    warn_of_sums(place.at(_STAGES), made)
    return [] if sku is None else [Element("PCF", place.path, {"sku": sku, **made})]


FORMAT: Final = Format(
    name="a Catena-X PcfForBatteryComponentSupplier",
    is_it=_is_it,
    kinds=always("PCF"),
    elements=_elements,
    tables=(("PCF", _ROWS),),
)
