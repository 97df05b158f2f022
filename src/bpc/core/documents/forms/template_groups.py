"""The sheets of templates in the order of Annex XIII, and the place of members without a data point. Tables."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from bpc.core.documents.forms.template_words import Language
from bpc.core.exports.data_points import Category


class TemplateGroup(NamedTuple):
    """A sheet: the type of its rows, the first data point on it, and by language its title and legal source.

    The name of a sheet is its title with a number; `sheet_names` knows them all.
    """

    fact_type: str
    first_point: int
    titles: Mapping[Language, str]
    sources: Mapping[Language, str]


GROUPS: Final = (
    TemplateGroup(
        "Battery",
        1,
        {"en": "Identity and label data", "de": "Kennung und Kennzeichnung"},
        {"en": "Art. 77(3), Annex VI A", "de": "Art. 77 Abs. 3, Anhang VI Teil A"},
    ),
    TemplateGroup(
        "Battery",
        16,
        {"en": "Recycled content", "de": "Rezyklatanteil"},
        {"en": "Annex XIII 1(b) to (f)", "de": "Anhang XIII Nr. 1 Buchst. b bis f"},
    ),
    TemplateGroup(
        "Battery",
        25,
        {"en": "Performance and lifetime", "de": "Leistung und Lebensdauer"},
        {"en": "Annex XIII 1(g) to (p)", "de": "Anhang XIII Nr. 1 Buchst. g bis p"},
    ),
    TemplateGroup(
        "Battery",
        40,
        {"en": "Marking and documents", "de": "Zeichen und Unterlagen"},
        {"en": "Annex XIII 1(q) to (t)", "de": "Anhang XIII Nr. 1 Buchst. q bis t"},
    ),
    TemplateGroup(
        "Battery",
        45,
        {"en": "Dismantling and tests", "de": "Demontage und Prüfberichte"},
        {"en": "Annex XIII 2 and 3", "de": "Anhang XIII Nr. 2 und 3"},
    ),
    TemplateGroup(
        "Component",
        45,
        {"en": "Components", "de": "Bauteile"},
        {"en": "Annex XIII 2(a) and (b)", "de": "Anhang XIII Nr. 2 Buchst. a und b"},
    ),
    TemplateGroup(
        "Battery",
        51,
        {"en": "State of the battery", "de": "Zustand der Batterie"},
        {"en": "Annex XIII 4", "de": "Anhang XIII Nr. 4"},
    ),
    TemplateGroup(
        "PCF",
        17,
        {"en": "PCF", "de": "CO2-Fußabdruck"},
        {"en": "Annex XIII 1(c)", "de": "Anhang XIII Nr. 1 Buchst. c"},
    ),
    TemplateGroup(
        "DueDiligence",
        19,
        {"en": "Due diligence", "de": "Sorgfaltspflicht"},
        {"en": "Annex XIII 1(d)", "de": "Anhang XIII Nr. 1 Buchst. d"},
    ),
)
# Facts whose data points are pending: asked only where a list says that they are missing.
PENDING_TYPES: Final = frozenset({"PCF", "DueDiligence"})
KEYS: Final[Mapping[str, tuple[str, ...]]] = {"Component": ("sku", "part")}
# Members without a data point of their own: the point they stand beside, so that they have a place.
BESIDE: Final[Mapping[str, int]] = {
    "previous_passport_uri": 1,
    "granularity": 1,
    "vehicle_category": 6,
    "external_storage": 6,
    "has_bms": 6,
    "name": 7,
    "placed_on_market_on": 9,
    "put_into_service_on": 9,
    "capacity_kwh": 25,
    "usable_energy_kwh": 25,
    "power_to_energy_ratio": 30,
    "state_recorded_on": 51,
    "mercury_pct": 13,
}
# Members that say something about batteries of one category only.
OF_CATEGORY: Final[Mapping[str, Category]] = {"vehicle_category": "ev", "external_storage": "industrial"}
# How many records of a list have columns; for more, people add columns with the next number.
RECORDS: Final[Mapping[str, int]] = {
    "hazardous_substances": 3,
    "spare_part_sources": 2,
    "power_limits": 2,
    "original_power_by_charge": 2,
    "negative_events": 2,
}
# The member of a record that is asked first, where there is one.
FIRST_IN_RECORD: Final = ("name", "limit", "subject", "event", "recorded_at", "power_w")
