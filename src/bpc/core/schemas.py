"""Fact schemas: the members of each fact type and version. A table, append-only.

A schema that was published never changes; a later build adds versions and types, so that an old rule package keeps its
meaning. Every member is optional, also those of a record in a list. Keys: `battery:<sku>`, `component:<sku>:<part>`,
`pcf:<sku>`, `dd:<sku>`. A name says its unit: `_kg`, `_pct`, `_degc`; a Date ends in `_on`, an address in `_url`.

`points` are the numbers of the data points a member serves in the Commission's guidance on battery passports (version
1.0 of 28 July 2026). The written reference, docs/rules/facts.md, is made from this table.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from bpc.core.rules.types import BOOL, DATE, INT, TEXT, Dec, Fact, List, Opt, Record, Type

SCHEMA_VERSION: Final = 1  # the one that documents are read into


class Member(NamedTuple):
    """A member's type, what it says in a few words, and the data points it serves."""

    type: Type
    says: str
    points: tuple[int, ...] = ()


def _records(**members: Type) -> List:
    """A list of records, every member of which may be missing."""
    return List(Record(tuple((name, Opt(kind)) for name, kind in members.items())))


_TEXTS: Final = List(TEXT)
_SHARE: Final = Dec(2)
_TEMPERATURE: Final = Dec(2)
_VOLTAGE: Final = Dec(3)
_POWER: Final = Dec(3)
_AMOUNT: Final = Dec(6)

_BATTERY: Final[Mapping[str, Member]] = {
    # Which battery this is
    "sku": Member(TEXT, "the manufacturer's article number"),
    "name": Member(TEXT, "the name it is sold under"),
    "passport_uri": Member(TEXT, "the unique identifier its data carrier holds", (1,)),
    "previous_passport_uri": Member(TEXT, "the passport of its first life, if it is a second-life battery"),
    "granularity": Member(TEXT, "what the passport is of: `model`, `batch` or `item`"),
    "category": Member(TEXT, "`ev`, `lmt`, `industrial` or `stationary`", (6,)),
    "vehicle_category": Member(TEXT, "for an EV battery the vehicle's category, such as `M1`"),
    "external_storage": Member(BOOL, "whether it works with external storage only"),
    "has_bms": Member(BOOL, "whether it has a battery management system"),
    "model": Member(TEXT, "the model identifier", (7,)),
    "batch_number": Member(TEXT, "the batch", (7,)),
    "serial_number": Member(TEXT, "the serial number", (7,)),
    # Who answers for it
    "operator_id": Member(TEXT, "identifier of the operator responsible for the passport", (2,)),
    "operator_name": Member(TEXT, "that operator's name", (2,)),
    "operator_address": Member(TEXT, "that operator's postal address", (2,)),
    "manufacturer_id": Member(TEXT, "identifier of the manufacturer", (3,)),
    "manufacturer_name": Member(TEXT, "the manufacturer's name", (3,)),
    "manufacturer_trade_mark": Member(TEXT, "registered trade name or trade mark", (3,)),
    "manufacturer_address": Member(TEXT, "the manufacturer's postal address", (4,)),
    "manufacturer_url": Member(TEXT, "the manufacturer's web address", (5,)),
    "manufacturer_email": Member(TEXT, "the manufacturer's e-mail address", (5,)),
    # Where and when it was made
    "manufacturing_place": Member(TEXT, "address of the plant", (8,)),
    "manufacturing_country": Member(TEXT, "country of the plant, two letters", (8,)),
    "facility_id": Member(TEXT, "identifier of the plant", (8,)),
    "manufactured_on": Member(DATE, "day of manufacture (of a month: its first)", (9,)),
    "placed_on_market_on": Member(DATE, "day it was placed on the market, which decides what law applies"),
    "put_into_service_on": Member(DATE, "day it was put into service"),
    # What it is made of
    "mass_kg": Member(_AMOUNT, "mass", (10,)),
    "chemistry": Member(TEXT, "chemistry, such as `NMC811`", (12,)),
    "cathode": Member(TEXT, "cathode material in words", (45,)),
    "anode": Member(TEXT, "anode material in words", (45,)),
    "electrolyte": Member(TEXT, "electrolyte in words", (45,)),
    "hazardous_substances": Member(
        _records(name=TEXT, cas_number=TEXT, hazard_class=TEXT, concentration_pct=Dec(4), location=TEXT, impact=TEXT),
        "hazardous substances other than mercury, cadmium and lead",
        (13, 16, 43),
    ),
    "mercury_pct": Member(_AMOUNT, "mercury by mass"),
    "cadmium_pct": Member(_AMOUNT, "cadmium by mass", (41,)),
    "lead_pct": Member(_AMOUNT, "lead by mass", (41,)),
    "critical_raw_materials": Member(_TEXTS, "critical raw materials above 0.1 % by mass", (15, 16)),
    "extinguishing_agents": Member(_TEXTS, "usable extinguishing agents", (14,)),
    # What of it was recycled
    "recycled_cobalt_pct": Member(_SHARE, "recovered share of the active materials' cobalt", (20,)),
    "recycled_cobalt_pre_pct": Member(_SHARE, "of that, from manufacturing waste", (20,)),
    "recycled_cobalt_post_pct": Member(_SHARE, "of that, from post-consumer waste", (20,)),
    "recycled_lithium_pct": Member(_SHARE, "recovered share of the active materials' lithium", (21,)),
    "recycled_lithium_pre_pct": Member(_SHARE, "of that, from manufacturing waste", (21,)),
    "recycled_lithium_post_pct": Member(_SHARE, "of that, from post-consumer waste", (21,)),
    "recycled_nickel_pct": Member(_SHARE, "recovered share of the active materials' nickel", (22,)),
    "recycled_nickel_pre_pct": Member(_SHARE, "of that, from manufacturing waste", (22,)),
    "recycled_nickel_post_pct": Member(_SHARE, "of that, from post-consumer waste", (22,)),
    "recycled_lead_pct": Member(_SHARE, "recovered share of the battery's lead", (23,)),
    "recycled_lead_pre_pct": Member(_SHARE, "of that, from manufacturing waste", (23,)),
    "recycled_lead_post_pct": Member(_SHARE, "of that, from post-consumer waste", (23,)),
    "recycled_content_year": Member(INT, "year the recycled shares are declared for", (20, 21, 22, 23)),
    "recycled_content_plant": Member(TEXT, "plant the recycled shares are declared for", (20, 21, 22, 23)),
    "renewable_content_pct": Member(_SHARE, "share of renewable content", (24,)),
    # What it can do
    "capacity_kwh": Member(_AMOUNT, "rated energy"),
    "usable_energy_kwh": Member(_AMOUNT, "usable energy at the beginning of its life"),
    "certified_energy_kwh": Member(_AMOUNT, "certified usable battery energy", (61,)),
    "rated_capacity_ah": Member(_AMOUNT, "rated capacity", (11, 25, 51)),
    "minimum_voltage_v": Member(_VOLTAGE, "minimum voltage", (26,)),
    "nominal_voltage_v": Member(_VOLTAGE, "nominal voltage", (27,)),
    "maximum_voltage_v": Member(_VOLTAGE, "maximum voltage", (28,)),
    "voltage_temperature_min_degc": Member(_TEMPERATURE, "lowest temperature the voltages hold for", (26, 27, 28)),
    "voltage_temperature_max_degc": Member(_TEMPERATURE, "highest temperature the voltages hold for", (26, 27, 28)),
    "original_power_w": Member(_POWER, "original power capability", (29,)),
    "original_power_by_charge": Member(
        _records(state_of_charge_pct=_SHARE, power_w=_POWER), "original power at states of charge", (29,)
    ),
    "maximum_power_w": Member(_POWER, "the highest power it permits", (30,)),
    "power_limits": Member(
        _records(limit=TEXT, power_w=_POWER, temperature_min_degc=_TEMPERATURE, temperature_max_degc=_TEMPERATURE),
        "power limits, each with the temperatures it holds for",
        (30,),
    ),
    "power_to_energy_ratio": Member(_AMOUNT, "nominal power over energy, W per Wh"),
    "initial_round_trip_efficiency_pct": Member(_SHARE, "initial round trip energy efficiency", (36,)),
    "half_life_round_trip_efficiency_pct": Member(_SHARE, "the same at half of its cycle life", (37,)),
    "initial_cell_resistance_ohm": Member(_AMOUNT, "internal resistance of a cell when new", (38,)),
    "initial_pack_resistance_ohm": Member(_AMOUNT, "internal resistance of the pack when new", (38,)),
    "initial_self_discharge_pct_per_month": Member(Dec(4), "self-discharge when new", (65,)),
    # How long it lasts
    "expected_cycles": Member(INT, "expected lifetime in cycles", (31, 59)),
    "expected_cycles_test": Member(TEXT, "the reference test of that", (32,)),
    "cycle_test_c_rate": Member(Dec(3), "C-rate of that test", (39,)),
    "expected_life_years": Member(Dec(2), "expected lifetime in calendar years", (60,)),
    "capacity_threshold_pct": Member(_SHARE, "capacity at which it counts as exhausted", (33,)),
    "idle_temperature_min_degc": Member(_TEMPERATURE, "lowest temperature it withstands when not in use", (34,)),
    "idle_temperature_max_degc": Member(_TEMPERATURE, "highest temperature it withstands when not in use", (34,)),
    "idle_temperature_test": Member(TEXT, "the reference test of that", (34,)),
    "warranty_months": Member(INT, "commercial warranty for the calendar life", (35,)),
    "warranty_until_on": Member(DATE, "last day of that warranty", (35,)),
    # Papers for everyone
    "separate_collection_label_url": Member(TEXT, "the symbol for separate collection, Art. 13(4)", (40,)),
    "heavy_metal_label_url": Member(TEXT, "the symbols for cadmium and lead, Art. 13(5)", (41,)),
    "labels": Member(_records(subject=TEXT, url=TEXT, meaning=TEXT), "further labels and what they mean", (40, 41)),
    "declaration_of_conformity_id": Member(TEXT, "number of the EU declaration of conformity", (42,)),
    "declaration_of_conformity_url": Member(TEXT, "the EU declaration of conformity", (42,)),
    "waste_prevention_url": Member(TEXT, "what users can do to prevent waste, Art. 74(1)(a)", (43,)),
    "separate_collection_url": Member(TEXT, "what users can do for separate collection, (b)", (43,)),
    "collection_systems_url": Member(TEXT, "collection, second life and treatment at hand, (c)", (43,)),
    "waste_safety_url": Member(TEXT, "handling waste batteries safely, (d)", (43,)),
    "label_meaning_url": Member(TEXT, "what labels and symbols mean, (e)", (43,)),
    "substance_impact_url": Member(TEXT, "what its substances do to health and environment, (f)", (43,)),
    "instructions_url": Member(TEXT, "instructions for use, printable", (44,)),
    # Papers for those with a legitimate interest, and for authorities
    "spare_part_sources": Member(
        _records(name=TEXT, address=TEXT, email=TEXT, url=TEXT, part_numbers=_TEXTS),
        "where replacement parts come from, with their numbers",
        (46, 47),
    ),
    "dismantling_url": Member(TEXT, "dismantling information as one document", (48,)),
    "exploded_diagram_url": Member(TEXT, "exploded diagrams with the cells' place", (48,)),
    "disassembly_sequence_url": Member(TEXT, "disassembly sequences", (48,)),
    "fastenings": Member(_TEXTS, "kind and number of fastenings to open", (48,)),
    "disassembly_tools": Member(_TEXTS, "tools for disassembly", (48,)),
    "disassembly_warnings": Member(_TEXTS, "warnings where parts may be damaged", (48,)),
    "cell_count": Member(INT, "number of cells", (48,)),
    "cell_layout": Member(TEXT, "how the cells are laid out", (48,)),
    "safety_measures_url": Member(TEXT, "safety measures", (49,)),
    "test_report_urls": Member(_TEXTS, "test reports that prove compliance", (50,)),
    # How it is now
    "state_recorded_on": Member(DATE, "day the values below were taken"),
    "capacity_fade_pct": Member(_SHARE, "capacity fade", (52,)),
    "power_w": Member(_POWER, "power", (53,)),
    "power_fade_pct": Member(_SHARE, "power fade", (54,)),
    "internal_resistance_ohm": Member(_AMOUNT, "internal resistance", (55,)),
    "internal_resistance_increase_pct": Member(_SHARE, "increase of the internal resistance", (56,)),
    "round_trip_efficiency_pct": Member(_SHARE, "round trip energy efficiency", (57, 64)),
    "round_trip_efficiency_fade_pct": Member(_SHARE, "fade of that efficiency", (58,)),
    "state_of_certified_energy_pct": Member(_SHARE, "state of certified energy (SOCE)", (61,)),
    "remaining_energy_kwh": Member(_AMOUNT, "remaining usable energy", (61,)),
    "remaining_capacity_ah": Member(_AMOUNT, "remaining capacity", (62,)),
    "remaining_power_w": Member(_POWER, "remaining power capability", (63,)),
    "self_discharge_pct_per_month": Member(Dec(4), "self-discharge", (65,)),
    "self_discharge_evolution_pct": Member(_SHARE, "change of the self-discharge", (65,)),
    "ohmic_resistance_ohm": Member(_AMOUNT, "ohmic resistance", (66,)),
    "status": Member(TEXT, "`original`, `repurposed`, `re-used`, `remanufactured` or `waste`", (67,)),
    # What it went through
    "full_cycles": Member(INT, "charging and discharging cycles done", (68,)),
    "energy_throughput_kwh": Member(_AMOUNT, "energy that went through it", (68,)),
    "capacity_throughput_ah": Member(_AMOUNT, "charge that went through it", (68,)),
    "negative_events": Member(
        _records(occurred_on=DATE, event=TEXT, report_url=TEXT), "accidents and other harmful events", (69,)
    ),
    "deep_discharge_events": Member(INT, "deep discharges", (69,)),
    "overcharge_events": Member(INT, "overcharges", (69,)),
    "temperature_records": Member(
        _records(recorded_at=TEXT, temperature_degc=_TEMPERATURE), "temperatures of its environment", (70,)
    ),
    "minutes_in_extreme_heat": Member(INT, "minutes above the upper boundary", (70,)),
    "minutes_in_extreme_cold": Member(INT, "minutes below the lower boundary", (70,)),
    "minutes_charging_in_extreme_heat": Member(INT, "minutes of charging above the upper boundary", (70,)),
    "minutes_charging_in_extreme_cold": Member(INT, "minutes of charging below the lower boundary", (70,)),
    "state_of_charge_pct": Member(_SHARE, "state of charge", (71,)),
    "state_of_charge_records": Member(
        _records(recorded_at=TEXT, state_of_charge_pct=_SHARE), "states of charge over time", (71,)
    ),
}

_COMPONENT: Final[Mapping[str, Member]] = {
    "sku": Member(TEXT, "article number of the battery it is part of"),
    "part": Member(TEXT, "what it is called in that battery"),
    "name": Member(TEXT, "what it is, in words"),
    "part_number": Member(TEXT, "the number it is ordered by", (46,)),
    "quantity": Member(INT, "how many of it the battery has", (46,)),
    "supplier": Member(TEXT, "who supplies it", (47,)),
    "supplier_address": Member(TEXT, "the supplier's postal address", (47,)),
    "supplier_email": Member(TEXT, "the supplier's e-mail address", (47,)),
    "supplier_url": Member(TEXT, "the supplier's web address", (47,)),
    "origin_country": Member(TEXT, "country it comes from, two letters"),
    "material": Member(TEXT, "material", (15, 16, 45)),
    "cas_number": Member(TEXT, "the material's CAS number", (13, 45)),
    "location": Member(TEXT, "where in the battery: `cathode`, `anode`, `electrolyte`, `casing` …", (45,)),
    "mass_g": Member(_AMOUNT, "mass of all of it", (45,)),
    "mass_share_pct": Member(Dec(4), "share of the battery's mass", (13, 15, 45)),
    "critical": Member(BOOL, "whether it is a critical raw material", (15,)),
    "hazardous": Member(BOOL, "whether it is a hazardous substance", (13,)),
    "hazard_class": Member(TEXT, "its hazard class", (13,)),
    "hazard_impact": Member(TEXT, "what it does to health and environment", (13, 43)),
    "active_material": Member(BOOL, "whether it counts as active material", (20, 21, 22)),
    "cobalt_g": Member(_AMOUNT, "cobalt in it", (20,)),
    "lithium_g": Member(_AMOUNT, "lithium in it", (21,)),
    "nickel_g": Member(_AMOUNT, "nickel in it", (22,)),
    "lead_g": Member(_AMOUNT, "lead in it", (23,)),
    "recycled_pre_pct": Member(_SHARE, "recovered from manufacturing waste", (20, 21, 22, 23)),
    "recycled_post_pct": Member(_SHARE, "recovered from post-consumer waste", (20, 21, 22, 23)),
    "renewable_pct": Member(_SHARE, "share of renewable content", (24,)),
    "pcf_gco2e": Member(Dec(2), "its own carbon footprint", (17,)),
}

_PCF: Final[Mapping[str, Member]] = {
    "sku": Member(TEXT, "article number of the battery"),
    "model": Member(TEXT, "the battery model it was computed for", (17,)),
    "facility": Member(TEXT, "the plant it was computed for", (17,)),
    "facility_country": Member(TEXT, "that plant's country, two letters", (17,)),
    "year": Member(INT, "reference year", (17,)),
    "study_url": Member(TEXT, "the public study", (17,)),
    "total_gco2e": Member(Dec(2), "over the whole life cycle", (17,)),
    "raw_material_gco2e": Member(Dec(2), "raw material acquisition and pre-processing", (17,)),
    "production_gco2e": Member(Dec(2), "main product production", (17,)),
    "distribution_gco2e": Member(Dec(2), "distribution", (17,)),
    "end_of_life_gco2e": Member(Dec(2), "end of life and recycling", (17,)),
    "functional_unit": Member(TEXT, "what the figures per kWh refer to", (17,)),
    "service_life_energy_kwh": Member(_AMOUNT, "energy it provides over its service life", (17,)),
    "cycles_per_year": Member(Dec(2), "full equivalent cycles a year", (17,)),
    "service_life_years": Member(Dec(2), "years of operation", (17,)),
    "gco2e_per_kwh": Member(_AMOUNT, "declared footprint per kWh provided", (17,)),
    "raw_material_gco2e_per_kwh": Member(_AMOUNT, "of that, raw materials", (17,)),
    "production_gco2e_per_kwh": Member(_AMOUNT, "of that, production", (17,)),
    "distribution_gco2e_per_kwh": Member(_AMOUNT, "of that, distribution", (17,)),
    "end_of_life_gco2e_per_kwh": Member(_AMOUNT, "of that, end of life", (17,)),
    "performance_class": Member(TEXT, "carbon footprint performance class", (18,)),
    "label_url": Member(TEXT, "the carbon footprint label", (18,)),
    "method": Member(TEXT, "the rules it was computed by", (17,)),
    "primary_data_pct": Member(_SHARE, "share of primary data", (17,)),
    "verified_by": Member(TEXT, "who verified it", (17,)),
    "verified_on": Member(DATE, "when it was verified", (17,)),
    "valid_until_on": Member(DATE, "last day it is valid", (17,)),
}

_DUE_DILIGENCE: Final[Mapping[str, Member]] = {
    "sku": Member(TEXT, "article number of the battery"),
    "operator": Member(TEXT, "the operator who owes due diligence", (19,)),
    "net_turnover_eur": Member(Dec(2), "that operator's net turnover, Art. 47"),
    "supplier": Member(TEXT, "the supplier it is about", (19,)),
    "materials": Member(_TEXTS, "raw materials in scope: cobalt, natural graphite, lithium, nickel", (19,)),
    "policy_url": Member(TEXT, "due diligence policy, Art. 48 and 49", (19,)),
    "risk_assessment_url": Member(TEXT, "risk management plan, Art. 50", (19,)),
    "risks": Member(
        _records(category=TEXT, finding=TEXT, mitigation=TEXT), "risks that were found and what is done", (19,)
    ),
    "grievance_url": Member(TEXT, "where to complain, Art. 49", (19,)),
    "scheme": Member(TEXT, "recognised due diligence scheme, Art. 53", (19,)),
    "notified_body": Member(TEXT, "the notified body that verified it, Art. 51", (19,)),
    "notified_body_number": Member(TEXT, "that body's number", (19,)),
    "approval_decision": Member(TEXT, "number of its approval decision", (19,)),
    "audited_on": Member(DATE, "day of the last audit", (19,)),
    "valid_until_on": Member(DATE, "last day the verification is valid", (19,)),
    "conforms": Member(BOOL, "whether the audit found conformity", (19,)),
    "report_url": Member(TEXT, "the public report, Art. 52(3)", (19,)),
    "report_year": Member(INT, "year of that report", (19,)),
    "report_published_on": Member(DATE, "day it was published", (19,)),
}

MEMBERS: Final[Mapping[Fact, Mapping[str, Member]]] = {
    Fact("Battery", 1): _BATTERY,
    Fact("Component", 1): _COMPONENT,
    Fact("PCF", 1): _PCF,
    Fact("DueDiligence", 1): _DUE_DILIGENCE,
}

SCHEMAS: Final[Mapping[Fact, Mapping[str, Type]]] = {
    fact: {name: member.type for name, member in members.items()} for fact, members in MEMBERS.items()
}
