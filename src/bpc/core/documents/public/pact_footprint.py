"""PACT footprints 3.x and 2.x: one, the answer of a service, or the event that fulfils a request.

Recognised by an object `pcf` beside a `specVersion` such as `3.0.0`. The SKU is the first of `productIds`. The total is
the figure without biogenic uptake, in kg CO2e for the declared amount of the declared unit. A fact has the figures of
one product: those of several pieces are divided if that is exact, and those of a kilogram or a litre cannot be read.
Catena-X derived its Pcf from this format; both share what is below.

The share of primary data and the verification are members of a footprint. Ratings of the data quality are not: a
warning names them.
"""

import re
from collections.abc import Mapping
from typing import Final

from bpc.core.documents import DocumentNote
from bpc.core.documents.elements import ExactNumber, FactElement, NumberText, RawValue, format_decimal, parse_exact
from bpc.core.documents.fact_members import report_unreadable
from bpc.core.documents.public import DocumentNode, mapping, units
from bpc.core.documents.public.conversions import (
    map_text,
    read_amount,
    read_day_silently,
    read_text,
    to_country_code,
    to_plain_value,
    to_thousandfold,
)
from bpc.core.documents.public.mapping import MapRow
from bpc.core.language.types import TEXT, Type

_VERSION: Final = re.compile(r"[23]\.[0-9]{1,3}\.[0-9]{1,3}(-[0-9]{8})?")
_OWN_MEMBERS: Final = frozenset({"ipccCharacterizationFactors", "verification", "assurance"})
_YEAR_START: Final = re.compile(r"([0-9]{4})-01-01T00:00(:00(\.0+)?)?(Z|[+-]00:?00)")
RATINGS: Final = {"technologicalDQR": "technology", "geographicalDQR": "geography", "temporalDQR": "time"}
HIGHEST_RATING: Final = 5


def is_pact_footprint(document: Mapping[str, RawValue]) -> bool:
    """Whether it is one footprint of PACT, not one of Catena-X."""
    footprint, version = document.get("pcf"), document.get("specVersion")
    if not isinstance(footprint, dict):
        return False
    if isinstance(version, str):
        return _VERSION.fullmatch(version) is not None
    return version is None and "productIds" in document and not _OWN_MEMBERS.isdisjoint(footprint)


def _list_footprints(document: Mapping[str, RawValue]) -> tuple[str, list[RawValue]] | None:
    """The path to the footprints in the answer of a service or in an event, and the footprints."""
    data = document.get("data")
    holder, path = (data.get("pfs"), "data.pfs") if isinstance(data, dict) else (data, "data")
    footprints = holder if isinstance(holder, list) else []
    is_answer = bool(footprints) and all(isinstance(item, dict) and is_pact_footprint(item) for item in footprints)
    return (path, footprints) if is_answer else None


def _matches(document: dict[str, RawValue]) -> bool:
    return is_pact_footprint(document) or _list_footprints(document) is not None


def _to_last_year(node: DocumentNode, _: Type) -> RawValue:
    """The year a period ends in. Its end is exclusive: a period that ends as a year begins is of the year before."""
    start_of_year = _YEAR_START.fullmatch(node.value) if isinstance(node.value, str) else None
    if start_of_year:
        node.take()
        return NumberText(str(int(start_of_year[1]) - 1))
    day = read_day_silently(node)
    return NumberText(str(int(day[:4]))) if isinstance(day, str) else None


def _to_standards(node: DocumentNode, kind: Type) -> RawValue:
    """The standards of a footprint, each a text or an object with one."""
    standard_nodes = [
        item.at("crossSectoralStandard") if isinstance(item.value, dict) else item for item in node.items()
    ]
    return "; ".join(text for item in standard_nodes if isinstance(text := to_plain_value(item, kind), str)) or None


_ROWS: Final = (
    MapRow("model", "productNameCompany"),
    MapRow("facility_country", "pcf.geographyCountry", to_country_code),
    MapRow("facility_country", "pcf.geographyCountrySubdivision", map_text(lambda text, _: text[:2])),
    MapRow("year", "pcf.referencePeriodEnd", _to_last_year),
    MapRow("valid_until_on", "validityPeriodEnd"),
    MapRow("total_gco2e", "pcf.pcfExcludingBiogenicUptake", to_thousandfold),
    MapRow("total_gco2e", "pcf.pCfExcludingBiogenic", to_thousandfold),
    MapRow("total_gco2e", "pcf.pcfExcludingBiogenic", to_thousandfold),
    MapRow("distribution_gco2e", "pcf.outboundLogisticsGhgEmissions", to_thousandfold),
    MapRow("primary_data_pct", "pcf.primaryDataShare"),
    MapRow("method", "pcf.crossSectoralStandards", _to_standards),
    MapRow("method", "pcf.crossSectoralStandardsUsed", _to_standards),
    MapRow("verified_by", "pcf.verification.providerName"),
    MapRow("verified_by", "pcf.assurance.providerName"),
    MapRow("verified_on", "pcf.verification.completedAt"),
    MapRow("verified_on", "pcf.assurance.completedAt"),
)


def _read_elements(document: DocumentNode) -> list[FactElement]:
    footprint_list = _list_footprints(document.value) if isinstance(document.value, dict) else None
    nodes = document.at(footprint_list[0]).items() if footprint_list else [document]
    return [element for node in nodes for element in _read_footprint(node)]


def _read_footprint(node: DocumentNode) -> list[FactElement]:
    product = node.at("productIds").first()
    sku = mapping.read_sku(product.at("productId") if isinstance(product.value, dict) else product)
    members = mapping.map_members("PCF", node, _ROWS)
    amount = choose_present(node.at("pcf.declaredUnitAmount"), node.at("pcf.unitaryProductAmount"))
    unit = choose_present(node.at("pcf.declaredUnitOfMeasurement"), node.at("pcf.declaredUnit"))
    warn_of_ratings(node.at("pcf.dqi"))
    if node.at("status").take() == "Deprecated":
        node.at("status").add_warning("means that its sender has replaced this footprint; ask for the current one")
    if "total_gco2e" not in members and node.state.notes.is_clean:
        node.add_problem("has no footprint: `pcfExcludingBiogenicUptake` is missing")
    members = fit_to_one_product(node, members, amount, unit)
    return [] if sku is None else [FactElement("PCF", node.path, {"sku": sku, **members})]


def choose_present(*nodes: DocumentNode) -> DocumentNode:
    """The first of these nodes that has a value, else the first."""
    return next((node for node in nodes if node.value is not None), nodes[0])


def fit_to_one_product(
    node: DocumentNode,
    members: dict[str, RawValue],
    count: DocumentNode,
    unit: DocumentNode,
    scope: DocumentNode | None = None,
) -> dict[str, RawValue]:
    """The members with figures for one product, and what the figures are for.

    Figures that are for anything else than pieces, or that cannot be divided exactly, are left out as unreadable.
    """
    how_many, name = read_amount(count), read_text(unit)
    reach = None if scope is None else to_plain_value(scope, TEXT)
    if scope is not None and reach == "Cradle-to-gate":
        scope.add_warning("means that the total is from cradle to gate, without use and end of life")
    if not isinstance(name, str):
        return members
    pieces = ExactNumber(1, 0) if how_many is None else how_many
    is_piece = units.find_factor(units.PIECES, name) is not None
    figures = {member: value for member, value in members.items() if member.endswith("_gco2e")}
    member_figures = {member: _divide_figure(value, pieces) if is_piece else None for member, value in figures.items()}
    if None in member_figures.values():
        says = f"is for {pieces} {name}, not for one product; ask for the figure of one product"
        return lose_figures(node, members, says)
    if str(pieces) != "1":
        count.add_warning(f"means that the figures are for {pieces} {name}; they were divided by {pieces}")
    declared_unit = f"1 {name}"
    return {
        **members,
        **member_figures,
        "functional_unit": f"{declared_unit}, {reach}" if isinstance(reach, str) else declared_unit,
    }


def _divide_figure(figure: RawValue, pieces: ExactNumber) -> RawValue:
    """A figure divided by a number of pieces; None if the result has more decimals than the figure."""
    value = parse_exact(figure.text) if isinstance(figure, NumberText) else None
    if value is None or pieces.count <= 0:
        return None
    dividend: int = value.count * 10**pieces.scale
    count, remainder = divmod(dividend, pieces.count)
    return None if remainder else NumberText(format_decimal(count, value.scale))


def lose_figures(node: DocumentNode, members: Mapping[str, RawValue], says: str) -> dict[str, RawValue]:
    """The members without the figures, which are named as unreadable."""
    origins = node.state.find_origins("PCF", node.path)
    figures = [member for member in members if member.endswith("_gco2e")]
    for member in figures:
        problem = DocumentNote(origins.places.get(member, node.path), says)
        origins.unreadable[member] = report_unreadable(member, [problem], node.state.notes)
    return {member: value for member, value in members.items() if member not in figures}


def warn_of_ratings(node: DocumentNode) -> None:
    """Name the ratings of the data quality, which no fact has, and those that are no ratings."""
    if not isinstance(node.value, dict):
        return
    ratings: list[str] = []
    for name, subject in RATINGS.items():
        rating = read_amount(node.at(name))
        if rating is not None:
            ratings.append(f"{rating} for {subject}")
            if not 10**rating.scale <= rating.count <= HIGHEST_RATING * 10**rating.scale:
                node.at(name).add_warning(f"is {rating}, not a rating from 1 to {HIGHEST_RATING}")
    if ratings:
        node.add_warning(f"rates the data quality {', '.join(ratings)}; no fact has ratings, so they were left out")


FORMAT: Final = mapping.PublicFormat(
    name="a PACT footprint",
    matches=_matches,
    list_kinds=mapping.serve_kinds("PCF"),
    read_elements=_read_elements,
    tables=(("PCF", _ROWS),),
)
