"""Fact schemas: the members of each fact type and version. A table, append-only.

A schema that was published never changes; a later build adds versions and types, so that an old rule package keeps its
meaning. Every member is optional, also those of a record in a list. Keys: `battery:<sku>`, `component:<sku>:<part>`,
`pcf:<sku>`, `dd:<sku>`. A name says its unit: `_kg`, `_pct`, `_degc`; a Date ends in `_on`, an address in `_url`.

No document holds a `Finding`, a `ReadingSeries` or an `Attachment`: they are made with a product's snapshot. Keys:
`reading:<sku>:<kind>:<time>`, `series:<sku>:<kind>`, `finding:<sku>:<code>:<number>`,
`attachment:<sku>:<data point>:<first 16 digits of the hash>`.

An `Item` is one battery and a `Batch` one batch of the product. They are in the snapshots of their own passports, which
lie below that of the product: `item:<sku>`, `batch:<sku>`.

`points` are the numbers of the data points a member serves in the Commission's guidance on battery passports (version
1.0 of 28 July 2026). The written reference, docs/rules/facts.md, is made from this table.
"""

from collections.abc import Mapping
from typing import Final

from bpc.core.facts.item_schemas import (
    AMOUNT,
    BATCH,
    ITEM,
    POWER,
    SHARE,
    STATES,
    TEMPERATURE,
    TEXTS,
    VOLTAGE,
    SchemaMember,
    list_records,
)
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, FactRecordType, List, Type

SCHEMA_VERSION: Final = 1  # the one that documents are read into


_BATTERY: Final[Mapping[str, SchemaMember]] = {
    # Which battery this is
    "sku": SchemaMember(TEXT, "the manufacturer's article number"),
    "name": SchemaMember(TEXT, "the name it is sold under"),
    "passport_uri": SchemaMember(TEXT, "the unique identifier its data carrier holds", (1,)),
    "previous_passport_uri": SchemaMember(TEXT, "the passport of its first life, if it is a second-life battery"),
    "granularity": SchemaMember(TEXT, "what the passport is of: `model`, `batch` or `item`"),
    "category": SchemaMember(TEXT, "`ev`, `lmt`, `industrial` or `stationary`", (6,)),
    "vehicle_category": SchemaMember(TEXT, "for an EV battery the vehicle's category, such as `M1`"),
    "external_storage": SchemaMember(BOOL, "whether it works with external storage only"),
    "has_bms": SchemaMember(BOOL, "whether it has a battery management system"),
    "model": SchemaMember(TEXT, "the model identifier", (7,)),
    "batch_number": SchemaMember(TEXT, "the batch", (7,)),
    "serial_number": SchemaMember(TEXT, "the serial number", (7,)),
    # Who answers for it
    "operator_id": SchemaMember(TEXT, "identifier of the operator responsible for the passport", (2,)),
    "operator_name": SchemaMember(TEXT, "that operator's name", (2,)),
    "operator_address": SchemaMember(TEXT, "that operator's postal address", (2,)),
    "manufacturer_id": SchemaMember(TEXT, "identifier of the manufacturer", (3,)),
    "manufacturer_name": SchemaMember(TEXT, "the manufacturer's name", (3,)),
    "manufacturer_trade_mark": SchemaMember(TEXT, "registered trade name or trade mark", (3,)),
    "manufacturer_address": SchemaMember(TEXT, "the manufacturer's postal address", (4,)),
    "manufacturer_url": SchemaMember(TEXT, "the manufacturer's web address", (5,)),
    "manufacturer_email": SchemaMember(TEXT, "the manufacturer's e-mail address", (5,)),
    # Where and when it was made
    "manufacturing_place": SchemaMember(TEXT, "address of the plant", (8,)),
    "manufacturing_country": SchemaMember(TEXT, "country of the plant, two letters", (8,)),
    "facility_id": SchemaMember(TEXT, "identifier of the plant", (8,)),
    "manufactured_on": SchemaMember(DATE, "day of manufacture (of a month: its first)", (9,)),
    "placed_on_market_on": SchemaMember(DATE, "day it was placed on the market, which decides what law applies"),
    "put_into_service_on": SchemaMember(DATE, "day it was put into service"),
    # What it is made of
    "mass_kg": SchemaMember(AMOUNT, "mass", (10,)),
    "chemistry": SchemaMember(TEXT, "chemistry, such as `NMC811`", (12,)),
    "cathode": SchemaMember(TEXT, "cathode material in words", (45,)),
    "anode": SchemaMember(TEXT, "anode material in words", (45,)),
    "electrolyte": SchemaMember(TEXT, "electrolyte in words", (45,)),
    "hazardous_substances": SchemaMember(
        list_records(
            name=TEXT, cas_number=TEXT, hazard_class=TEXT, concentration_pct=Dec(4), location=TEXT, impact=TEXT
        ),
        "hazardous substances other than mercury, cadmium and lead",
        (13, 16, 43),
    ),
    "mercury_pct": SchemaMember(AMOUNT, "mercury by mass"),
    "cadmium_pct": SchemaMember(AMOUNT, "cadmium by mass", (41,)),
    "lead_pct": SchemaMember(AMOUNT, "lead by mass", (41,)),
    "critical_raw_materials": SchemaMember(TEXTS, "critical raw materials above 0.1 % by mass", (15, 16)),
    "extinguishing_agents": SchemaMember(TEXTS, "usable extinguishing agents", (14,)),
    # What of it was recycled
    "recycled_cobalt_pct": SchemaMember(SHARE, "recovered share of the active materials' cobalt", (20,)),
    "recycled_cobalt_pre_pct": SchemaMember(SHARE, "of that, from manufacturing waste", (20,)),
    "recycled_cobalt_post_pct": SchemaMember(SHARE, "of that, from post-consumer waste", (20,)),
    "recycled_lithium_pct": SchemaMember(SHARE, "recovered share of the active materials' lithium", (21,)),
    "recycled_lithium_pre_pct": SchemaMember(SHARE, "of that, from manufacturing waste", (21,)),
    "recycled_lithium_post_pct": SchemaMember(SHARE, "of that, from post-consumer waste", (21,)),
    "recycled_nickel_pct": SchemaMember(SHARE, "recovered share of the active materials' nickel", (22,)),
    "recycled_nickel_pre_pct": SchemaMember(SHARE, "of that, from manufacturing waste", (22,)),
    "recycled_nickel_post_pct": SchemaMember(SHARE, "of that, from post-consumer waste", (22,)),
    "recycled_lead_pct": SchemaMember(SHARE, "recovered share of the battery's lead", (23,)),
    "recycled_lead_pre_pct": SchemaMember(SHARE, "of that, from manufacturing waste", (23,)),
    "recycled_lead_post_pct": SchemaMember(SHARE, "of that, from post-consumer waste", (23,)),
    "recycled_content_year": SchemaMember(INT, "year the recycled shares are declared for", (20, 21, 22, 23)),
    "recycled_content_plant": SchemaMember(TEXT, "plant the recycled shares are declared for", (20, 21, 22, 23)),
    "renewable_content_pct": SchemaMember(SHARE, "share of renewable content", (24,)),
    # What it can do
    "capacity_kwh": SchemaMember(AMOUNT, "rated energy"),
    "usable_energy_kwh": SchemaMember(AMOUNT, "usable energy at the beginning of its life"),
    "certified_energy_kwh": SchemaMember(AMOUNT, "certified usable battery energy", (61,)),
    "rated_capacity_ah": SchemaMember(AMOUNT, "rated capacity", (11, 25, 51)),
    "minimum_voltage_v": SchemaMember(VOLTAGE, "minimum voltage", (26,)),
    "nominal_voltage_v": SchemaMember(VOLTAGE, "nominal voltage", (27,)),
    "maximum_voltage_v": SchemaMember(VOLTAGE, "maximum voltage", (28,)),
    "voltage_temperature_min_degc": SchemaMember(TEMPERATURE, "lowest temperature the voltages hold for", (26, 27, 28)),
    "voltage_temperature_max_degc": SchemaMember(
        TEMPERATURE, "highest temperature the voltages hold for", (26, 27, 28)
    ),
    "original_power_w": SchemaMember(POWER, "original power capability", (29,)),
    "original_power_by_charge": SchemaMember(
        list_records(state_of_charge_pct=SHARE, power_w=POWER), "original power at states of charge", (29,)
    ),
    "maximum_power_w": SchemaMember(POWER, "the highest power it permits", (30,)),
    "power_limits": SchemaMember(
        list_records(limit=TEXT, power_w=POWER, temperature_min_degc=TEMPERATURE, temperature_max_degc=TEMPERATURE),
        "power limits, each with the temperatures it holds for",
        (30,),
    ),
    "power_to_energy_ratio": SchemaMember(AMOUNT, "nominal power over energy, W per Wh"),
    "initial_round_trip_efficiency_pct": SchemaMember(SHARE, "initial round trip energy efficiency", (36,)),
    "half_life_round_trip_efficiency_pct": SchemaMember(SHARE, "the same at half of its cycle life", (37,)),
    "initial_cell_resistance_ohm": SchemaMember(AMOUNT, "internal resistance of a cell when new", (38,)),
    "initial_pack_resistance_ohm": SchemaMember(AMOUNT, "internal resistance of the pack when new", (38,)),
    "initial_self_discharge_pct_per_month": SchemaMember(Dec(4), "self-discharge when new", (65,)),
    # How long it lasts
    "expected_cycles": SchemaMember(INT, "expected lifetime in cycles", (31, 59)),
    "expected_cycles_test": SchemaMember(TEXT, "the reference test of that", (32,)),
    "cycle_test_c_rate": SchemaMember(Dec(3), "C-rate of that test", (39,)),
    "expected_life_years": SchemaMember(Dec(2), "expected lifetime in calendar years", (60,)),
    "capacity_threshold_pct": SchemaMember(SHARE, "capacity at which it counts as exhausted", (33,)),
    "idle_temperature_min_degc": SchemaMember(TEMPERATURE, "lowest temperature it withstands when not in use", (34,)),
    "idle_temperature_max_degc": SchemaMember(TEMPERATURE, "highest temperature it withstands when not in use", (34,)),
    "idle_temperature_test": SchemaMember(TEXT, "the reference test of that", (34,)),
    "warranty_months": SchemaMember(INT, "commercial warranty for the calendar life", (35,)),
    "warranty_until_on": SchemaMember(DATE, "last day of that warranty", (35,)),
    # Papers for everyone
    "separate_collection_label_url": SchemaMember(TEXT, "the symbol for separate collection, Art. 13(4)", (40,)),
    "heavy_metal_label_url": SchemaMember(TEXT, "the symbols for cadmium and lead, Art. 13(5)", (41,)),
    "labels": SchemaMember(
        list_records(subject=TEXT, url=TEXT, meaning=TEXT), "further labels and what they mean", (40, 41)
    ),
    "declaration_of_conformity_id": SchemaMember(TEXT, "number of the EU declaration of conformity", (42,)),
    "declaration_of_conformity_url": SchemaMember(TEXT, "the EU declaration of conformity", (42,)),
    "waste_prevention_url": SchemaMember(TEXT, "what users can do to prevent waste, Art. 74(1)(a)", (43,)),
    "separate_collection_url": SchemaMember(TEXT, "what users can do for separate collection, (b)", (43,)),
    "collection_systems_url": SchemaMember(TEXT, "collection, second life and treatment at hand, (c)", (43,)),
    "waste_safety_url": SchemaMember(TEXT, "handling waste batteries safely, (d)", (43,)),
    "label_meaning_url": SchemaMember(TEXT, "what labels and symbols mean, (e)", (43,)),
    "substance_impact_url": SchemaMember(TEXT, "what its substances do to health and environment, (f)", (43,)),
    "instructions_url": SchemaMember(TEXT, "instructions for use, printable", (44,)),
    # Papers for those with a legitimate interest, and for authorities
    "spare_part_sources": SchemaMember(
        list_records(name=TEXT, address=TEXT, email=TEXT, url=TEXT, part_numbers=TEXTS),
        "where replacement parts come from, with their numbers",
        (46, 47),
    ),
    "dismantling_url": SchemaMember(TEXT, "dismantling information as one document", (48,)),
    "exploded_diagram_url": SchemaMember(TEXT, "exploded diagrams with the cells' place", (48,)),
    "disassembly_sequence_url": SchemaMember(TEXT, "disassembly sequences", (48,)),
    "fastenings": SchemaMember(TEXTS, "kind and number of fastenings to open", (48,)),
    "disassembly_tools": SchemaMember(TEXTS, "tools for disassembly", (48,)),
    "disassembly_warnings": SchemaMember(TEXTS, "warnings where parts may be damaged", (48,)),
    "cell_count": SchemaMember(INT, "number of cells", (48,)),
    "cell_layout": SchemaMember(TEXT, "how the cells are laid out", (48,)),
    "safety_measures_url": SchemaMember(TEXT, "safety measures", (49,)),
    "test_report_urls": SchemaMember(TEXTS, "test reports that prove compliance", (50,)),
    **STATES,
}

_COMPONENT: Final[Mapping[str, SchemaMember]] = {
    "sku": SchemaMember(TEXT, "article number of the battery it is part of"),
    "part": SchemaMember(TEXT, "what it is called in that battery"),
    "name": SchemaMember(TEXT, "what it is, in words"),
    "part_number": SchemaMember(TEXT, "the number it is ordered by", (46,)),
    "quantity": SchemaMember(INT, "how many of it the battery has", (46,)),
    "supplier": SchemaMember(TEXT, "who supplies it", (47,)),
    "supplier_address": SchemaMember(TEXT, "the supplier's postal address", (47,)),
    "supplier_email": SchemaMember(TEXT, "the supplier's e-mail address", (47,)),
    "supplier_url": SchemaMember(TEXT, "the supplier's web address", (47,)),
    "origin_country": SchemaMember(TEXT, "country it comes from, two letters"),
    "material": SchemaMember(TEXT, "material", (15, 16, 45)),
    "cas_number": SchemaMember(TEXT, "the material's CAS number", (13, 45)),
    "location": SchemaMember(TEXT, "where in the battery: `cathode`, `anode`, `electrolyte`, `casing` …", (45,)),
    "mass_g": SchemaMember(AMOUNT, "mass of all of it", (45,)),
    "mass_share_pct": SchemaMember(Dec(4), "share of the battery's mass", (13, 15, 45)),
    "critical": SchemaMember(BOOL, "whether it is a critical raw material", (15,)),
    "hazardous": SchemaMember(BOOL, "whether it is a hazardous substance", (13,)),
    "hazard_class": SchemaMember(TEXT, "its hazard class", (13,)),
    "hazard_impact": SchemaMember(TEXT, "what it does to health and environment", (13, 43)),
    "active_material": SchemaMember(BOOL, "whether it counts as active material", (20, 21, 22)),
    "cobalt_g": SchemaMember(AMOUNT, "cobalt in it", (20,)),
    "lithium_g": SchemaMember(AMOUNT, "lithium in it", (21,)),
    "nickel_g": SchemaMember(AMOUNT, "nickel in it", (22,)),
    "lead_g": SchemaMember(AMOUNT, "lead in it", (23,)),
    "recycled_pre_pct": SchemaMember(SHARE, "recovered from manufacturing waste", (20, 21, 22, 23)),
    "recycled_post_pct": SchemaMember(SHARE, "recovered from post-consumer waste", (20, 21, 22, 23)),
    "renewable_pct": SchemaMember(SHARE, "share of renewable content", (24,)),
    "pcf_gco2e": SchemaMember(Dec(2), "its own carbon footprint", (17,)),
}

_PCF: Final[Mapping[str, SchemaMember]] = {
    "sku": SchemaMember(TEXT, "article number of the battery"),
    "model": SchemaMember(TEXT, "the battery model it was computed for", (17,)),
    "facility": SchemaMember(TEXT, "the plant it was computed for", (17,)),
    "facility_country": SchemaMember(TEXT, "that plant's country, two letters", (17,)),
    "year": SchemaMember(INT, "reference year", (17,)),
    "study_url": SchemaMember(TEXT, "the public study", (17,)),
    "total_gco2e": SchemaMember(Dec(2), "over the whole life cycle", (17,)),
    "raw_material_gco2e": SchemaMember(Dec(2), "raw material acquisition and pre-processing", (17,)),
    "production_gco2e": SchemaMember(Dec(2), "main product production", (17,)),
    "distribution_gco2e": SchemaMember(Dec(2), "distribution", (17,)),
    "end_of_life_gco2e": SchemaMember(Dec(2), "end of life and recycling", (17,)),
    "functional_unit": SchemaMember(TEXT, "what the figures per kWh refer to", (17,)),
    "service_life_energy_kwh": SchemaMember(AMOUNT, "energy it provides over its service life", (17,)),
    "cycles_per_year": SchemaMember(Dec(2), "full equivalent cycles a year", (17,)),
    "service_life_years": SchemaMember(Dec(2), "years of operation", (17,)),
    "gco2e_per_kwh": SchemaMember(AMOUNT, "declared footprint per kWh provided", (17,)),
    "raw_material_gco2e_per_kwh": SchemaMember(AMOUNT, "of that, raw materials", (17,)),
    "production_gco2e_per_kwh": SchemaMember(AMOUNT, "of that, production", (17,)),
    "distribution_gco2e_per_kwh": SchemaMember(AMOUNT, "of that, distribution", (17,)),
    "end_of_life_gco2e_per_kwh": SchemaMember(AMOUNT, "of that, end of life", (17,)),
    "performance_class": SchemaMember(TEXT, "carbon footprint performance class", (18,)),
    "label_url": SchemaMember(TEXT, "the carbon footprint label", (18,)),
    "method": SchemaMember(TEXT, "the rules it was computed by", (17,)),
    "primary_data_pct": SchemaMember(SHARE, "share of primary data", (17,)),
    "verified_by": SchemaMember(TEXT, "who verified it", (17,)),
    "verified_on": SchemaMember(DATE, "when it was verified", (17,)),
    "valid_until_on": SchemaMember(DATE, "last day it is valid", (17,)),
}

_DUE_DILIGENCE: Final[Mapping[str, SchemaMember]] = {
    "sku": SchemaMember(TEXT, "article number of the battery"),
    "operator": SchemaMember(TEXT, "the operator who owes due diligence", (19,)),
    "net_turnover_eur": SchemaMember(Dec(2), "that operator's net turnover, Art. 47"),
    "supplier": SchemaMember(TEXT, "the supplier it is about", (19,)),
    "materials": SchemaMember(TEXTS, "raw materials in scope: cobalt, natural graphite, lithium, nickel", (19,)),
    "policy_url": SchemaMember(TEXT, "due diligence policy, Art. 48 and 49", (19,)),
    "risk_assessment_url": SchemaMember(TEXT, "risk management plan, Art. 50", (19,)),
    "risks": SchemaMember(
        list_records(category=TEXT, finding=TEXT, mitigation=TEXT), "risks that were found and what is done", (19,)
    ),
    "grievance_url": SchemaMember(TEXT, "where to complain, Art. 49", (19,)),
    "scheme": SchemaMember(TEXT, "recognised due diligence scheme, Art. 53", (19,)),
    "notified_body": SchemaMember(TEXT, "the notified body that verified it, Art. 51", (19,)),
    "notified_body_number": SchemaMember(TEXT, "that body's number", (19,)),
    "approval_decision": SchemaMember(TEXT, "number of its approval decision", (19,)),
    "audited_on": SchemaMember(DATE, "day of the last audit", (19,)),
    "valid_until_on": SchemaMember(DATE, "last day the verification is valid", (19,)),
    "conforms": SchemaMember(BOOL, "whether the audit found conformity", (19,)),
    "report_url": SchemaMember(TEXT, "the public report, Art. 52(3)", (19,)),
    "report_year": SchemaMember(INT, "year of that report", (19,)),
    "report_published_on": SchemaMember(DATE, "day it was published", (19,)),
}

_READING: Final[Mapping[str, SchemaMember]] = {
    "sku": SchemaMember(TEXT, "article number of the battery"),
    "kind": SchemaMember(TEXT, "the Battery member it is a reading of, such as `capacity_fade_pct`"),
    "recorded_at": SchemaMember(TEXT, "when it was recorded, as `2027-02-18T00:00:00.000000Z`"),
    "recorded_on": SchemaMember(DATE, "the day of that, in UTC"),
    "number": SchemaMember(Dec(6), "its value, if that is a number"),
    "text": SchemaMember(TEXT, "its value, if that is a text"),
}

_READING_SERIES: Final[Mapping[str, SchemaMember]] = {
    "sku": SchemaMember(TEXT, "article number of the battery"),
    "kind": SchemaMember(TEXT, "the Battery member it is a series of"),
    "count": SchemaMember(INT, "how many readings there are"),
    "first_recorded_at": SchemaMember(TEXT, "when the oldest was recorded"),
    "last_recorded_at": SchemaMember(TEXT, "when the newest was recorded"),
    "sha256": SchemaMember(TEXT, "hash of the whole series"),
}

_FINDING: Final[Mapping[str, SchemaMember]] = {
    "sku": SchemaMember(TEXT, "article number of the battery"),
    "code": SchemaMember(TEXT, "the check, such as `VOLTAGE_ORDER`"),
    "severity": SchemaMember(TEXT, "`error`, `warning` or `note`"),
    "fact_type": SchemaMember(TEXT, "type of the fact it is about"),
    "fact_key": SchemaMember(TEXT, "key of that fact"),
    "members": SchemaMember(TEXTS, "the members it is about"),
    "message": SchemaMember(TEXT, "what is implausible, with the numbers"),
    "points": SchemaMember(List(INT), "the data points it concerns"),
}

_ATTACHMENT: Final[Mapping[str, SchemaMember]] = {
    "sku": SchemaMember(TEXT, "article number of the battery"),
    "data_point": SchemaMember(INT, "number of the data point that the file is for: 40 to 43, 47 to 50"),
    "title": SchemaMember(TEXT, "what the file is, in words"),
    "file_name": SchemaMember(TEXT, "the name it was uploaded with"),
    "mime_type": SchemaMember(TEXT, "its media type, by its bytes"),
    "size": SchemaMember(INT, "its number of bytes"),
    "sha256": SchemaMember(TEXT, "the SHA-256 of its bytes, 64 hexadecimal digits"),
    "document_version_id": SchemaMember(TEXT, "the document version that holds its bytes"),
}

SCHEMA_MEMBERS: Final[Mapping[FactRecordType, Mapping[str, SchemaMember]]] = {
    FactRecordType("Battery", 1): _BATTERY,
    FactRecordType("Component", 1): _COMPONENT,
    FactRecordType("PCF", 1): _PCF,
    FactRecordType("DueDiligence", 1): _DUE_DILIGENCE,
    FactRecordType("Reading", 1): _READING,
    FactRecordType("ReadingSeries", 1): _READING_SERIES,
    FactRecordType("Finding", 1): _FINDING,
    FactRecordType("Attachment", 1): _ATTACHMENT,
    FactRecordType("Item", 1): ITEM,
    FactRecordType("Batch", 1): BATCH,
}

SCHEMAS: Final[Mapping[FactRecordType, Mapping[str, Type]]] = {
    fact: {name: member.type for name, member in members.items()} for fact, members in SCHEMA_MEMBERS.items()
}

# How the keys of a type's facts begin before the SKU, and whether there is only one such fact for a product.
KEY_PREFIXES: Final[Mapping[str, tuple[str, bool]]] = {
    "Battery": ("battery:", True),
    "Component": ("component:", False),
    "PCF": ("pcf:", True),
    "DueDiligence": ("dd:", True),
    "Reading": ("reading:", False),
    "ReadingSeries": ("series:", False),
    "Finding": ("finding:", False),
    "Attachment": ("attachment:", False),
    "Item": ("item:", True),
    "Batch": ("batch:", True),
}

# The members of a Battery that change while it is used. Readings are of these; the day they were taken is not one.
STATE_MEMBERS: Final = frozenset(STATES) - {"state_recorded_on"}
