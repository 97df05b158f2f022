/** Fact schemas and units: tables that rules refer to by name. Made by tools/rule_tables.py. */

/** The members of fact types, and their types. @type {Record<string, Record<string, string>>} */
export const FACT_MEMBERS = {
 "Battery@1": {
  "sku": "Text",
  "name": "Text",
  "passport_uri": "Text",
  "previous_passport_uri": "Text",
  "granularity": "Text",
  "category": "Text",
  "vehicle_category": "Text",
  "external_storage": "Bool",
  "has_bms": "Bool",
  "model": "Text",
  "batch_number": "Text",
  "serial_number": "Text",
  "operator_id": "Text",
  "operator_name": "Text",
  "operator_address": "Text",
  "manufacturer_id": "Text",
  "manufacturer_name": "Text",
  "manufacturer_trade_mark": "Text",
  "manufacturer_address": "Text",
  "manufacturer_url": "Text",
  "manufacturer_email": "Text",
  "manufacturing_place": "Text",
  "manufacturing_country": "Text",
  "facility_id": "Text",
  "manufactured_on": "Date",
  "placed_on_market_on": "Date",
  "put_into_service_on": "Date",
  "mass_kg": "Dec(6)",
  "chemistry": "Text",
  "cathode": "Text",
  "anode": "Text",
  "electrolyte": "Text",
  "hazardous_substances": "List(Record(cas_number: Opt(Text), concentration_pct: Opt(Dec(4)), hazard_class: Opt(Text), impact: Opt(Text), location: Opt(Text), name: Opt(Text)))",
  "mercury_pct": "Dec(6)",
  "cadmium_pct": "Dec(6)",
  "lead_pct": "Dec(6)",
  "critical_raw_materials": "List(Text)",
  "extinguishing_agents": "List(Text)",
  "recycled_cobalt_pct": "Dec(2)",
  "recycled_cobalt_pre_pct": "Dec(2)",
  "recycled_cobalt_post_pct": "Dec(2)",
  "recycled_lithium_pct": "Dec(2)",
  "recycled_lithium_pre_pct": "Dec(2)",
  "recycled_lithium_post_pct": "Dec(2)",
  "recycled_nickel_pct": "Dec(2)",
  "recycled_nickel_pre_pct": "Dec(2)",
  "recycled_nickel_post_pct": "Dec(2)",
  "recycled_lead_pct": "Dec(2)",
  "recycled_lead_pre_pct": "Dec(2)",
  "recycled_lead_post_pct": "Dec(2)",
  "recycled_content_year": "Int",
  "recycled_content_plant": "Text",
  "renewable_content_pct": "Dec(2)",
  "capacity_kwh": "Dec(6)",
  "usable_energy_kwh": "Dec(6)",
  "certified_energy_kwh": "Dec(6)",
  "rated_capacity_ah": "Dec(6)",
  "minimum_voltage_v": "Dec(3)",
  "nominal_voltage_v": "Dec(3)",
  "maximum_voltage_v": "Dec(3)",
  "voltage_temperature_min_degc": "Dec(2)",
  "voltage_temperature_max_degc": "Dec(2)",
  "original_power_w": "Dec(3)",
  "original_power_by_charge": "List(Record(power_w: Opt(Dec(3)), state_of_charge_pct: Opt(Dec(2))))",
  "maximum_power_w": "Dec(3)",
  "power_limits": "List(Record(limit: Opt(Text), power_w: Opt(Dec(3)), temperature_max_degc: Opt(Dec(2)), temperature_min_degc: Opt(Dec(2))))",
  "power_to_energy_ratio": "Dec(6)",
  "initial_round_trip_efficiency_pct": "Dec(2)",
  "half_life_round_trip_efficiency_pct": "Dec(2)",
  "initial_cell_resistance_ohm": "Dec(6)",
  "initial_pack_resistance_ohm": "Dec(6)",
  "initial_self_discharge_pct_per_month": "Dec(4)",
  "expected_cycles": "Int",
  "expected_cycles_test": "Text",
  "cycle_test_c_rate": "Dec(3)",
  "expected_life_years": "Dec(2)",
  "capacity_threshold_pct": "Dec(2)",
  "idle_temperature_min_degc": "Dec(2)",
  "idle_temperature_max_degc": "Dec(2)",
  "idle_temperature_test": "Text",
  "warranty_months": "Int",
  "warranty_until_on": "Date",
  "separate_collection_label_url": "Text",
  "heavy_metal_label_url": "Text",
  "labels": "List(Record(meaning: Opt(Text), subject: Opt(Text), url: Opt(Text)))",
  "declaration_of_conformity_id": "Text",
  "declaration_of_conformity_url": "Text",
  "waste_prevention_url": "Text",
  "separate_collection_url": "Text",
  "collection_systems_url": "Text",
  "waste_safety_url": "Text",
  "label_meaning_url": "Text",
  "substance_impact_url": "Text",
  "instructions_url": "Text",
  "spare_part_sources": "List(Record(address: Opt(Text), email: Opt(Text), name: Opt(Text), part_numbers: Opt(List(Text)), url: Opt(Text)))",
  "dismantling_url": "Text",
  "exploded_diagram_url": "Text",
  "disassembly_sequence_url": "Text",
  "fastenings": "List(Text)",
  "disassembly_tools": "List(Text)",
  "disassembly_warnings": "List(Text)",
  "cell_count": "Int",
  "cell_layout": "Text",
  "safety_measures_url": "Text",
  "test_report_urls": "List(Text)",
  "state_recorded_on": "Date",
  "capacity_fade_pct": "Dec(2)",
  "power_w": "Dec(3)",
  "power_fade_pct": "Dec(2)",
  "internal_resistance_ohm": "Dec(6)",
  "internal_resistance_increase_pct": "Dec(2)",
  "round_trip_efficiency_pct": "Dec(2)",
  "round_trip_efficiency_fade_pct": "Dec(2)",
  "state_of_certified_energy_pct": "Dec(2)",
  "remaining_energy_kwh": "Dec(6)",
  "remaining_capacity_ah": "Dec(6)",
  "remaining_power_w": "Dec(3)",
  "self_discharge_pct_per_month": "Dec(4)",
  "self_discharge_evolution_pct": "Dec(2)",
  "ohmic_resistance_ohm": "Dec(6)",
  "status": "Text",
  "full_cycles": "Int",
  "energy_throughput_kwh": "Dec(6)",
  "capacity_throughput_ah": "Dec(6)",
  "negative_events": "List(Record(event: Opt(Text), occurred_on: Opt(Date), report_url: Opt(Text)))",
  "deep_discharge_events": "Int",
  "overcharge_events": "Int",
  "temperature_records": "List(Record(recorded_at: Opt(Text), temperature_degc: Opt(Dec(2))))",
  "minutes_in_extreme_heat": "Int",
  "minutes_in_extreme_cold": "Int",
  "minutes_charging_in_extreme_heat": "Int",
  "minutes_charging_in_extreme_cold": "Int",
  "state_of_charge_pct": "Dec(2)",
  "state_of_charge_records": "List(Record(recorded_at: Opt(Text), state_of_charge_pct: Opt(Dec(2))))"
 },
 "Component@1": {
  "sku": "Text",
  "part": "Text",
  "name": "Text",
  "part_number": "Text",
  "quantity": "Int",
  "supplier": "Text",
  "supplier_address": "Text",
  "supplier_email": "Text",
  "supplier_url": "Text",
  "origin_country": "Text",
  "material": "Text",
  "cas_number": "Text",
  "location": "Text",
  "mass_g": "Dec(6)",
  "mass_share_pct": "Dec(4)",
  "critical": "Bool",
  "hazardous": "Bool",
  "hazard_class": "Text",
  "hazard_impact": "Text",
  "active_material": "Bool",
  "cobalt_g": "Dec(6)",
  "lithium_g": "Dec(6)",
  "nickel_g": "Dec(6)",
  "lead_g": "Dec(6)",
  "recycled_pre_pct": "Dec(2)",
  "recycled_post_pct": "Dec(2)",
  "renewable_pct": "Dec(2)",
  "pcf_gco2e": "Dec(2)"
 },
 "PCF@1": {
  "sku": "Text",
  "model": "Text",
  "facility": "Text",
  "facility_country": "Text",
  "year": "Int",
  "study_url": "Text",
  "total_gco2e": "Dec(2)",
  "raw_material_gco2e": "Dec(2)",
  "production_gco2e": "Dec(2)",
  "distribution_gco2e": "Dec(2)",
  "end_of_life_gco2e": "Dec(2)",
  "functional_unit": "Text",
  "service_life_energy_kwh": "Dec(6)",
  "cycles_per_year": "Dec(2)",
  "service_life_years": "Dec(2)",
  "gco2e_per_kwh": "Dec(6)",
  "raw_material_gco2e_per_kwh": "Dec(6)",
  "production_gco2e_per_kwh": "Dec(6)",
  "distribution_gco2e_per_kwh": "Dec(6)",
  "end_of_life_gco2e_per_kwh": "Dec(6)",
  "performance_class": "Text",
  "label_url": "Text",
  "method": "Text",
  "primary_data_pct": "Dec(2)",
  "verified_by": "Text",
  "verified_on": "Date",
  "valid_until_on": "Date"
 },
 "DueDiligence@1": {
  "sku": "Text",
  "operator": "Text",
  "net_turnover_eur": "Dec(2)",
  "supplier": "Text",
  "materials": "List(Text)",
  "policy_url": "Text",
  "risk_assessment_url": "Text",
  "risks": "List(Record(category: Opt(Text), finding: Opt(Text), mitigation: Opt(Text)))",
  "grievance_url": "Text",
  "scheme": "Text",
  "notified_body": "Text",
  "notified_body_number": "Text",
  "approval_decision": "Text",
  "audited_on": "Date",
  "valid_until_on": "Date",
  "conforms": "Bool",
  "report_url": "Text",
  "report_year": "Int",
  "report_published_on": "Date"
 },
 "Reading@1": {
  "sku": "Text",
  "kind": "Text",
  "recorded_at": "Text",
  "recorded_on": "Date",
  "number": "Dec(6)",
  "text": "Text"
 },
 "ReadingSeries@1": {
  "sku": "Text",
  "kind": "Text",
  "count": "Int",
  "first_recorded_at": "Text",
  "last_recorded_at": "Text",
  "sha256": "Text"
 },
 "Finding@1": {
  "sku": "Text",
  "code": "Text",
  "severity": "Text",
  "fact_type": "Text",
  "fact_key": "Text",
  "members": "List(Text)",
  "message": "Text",
  "points": "List(Int)"
 },
 "Attachment@1": {
  "sku": "Text",
  "data_point": "Int",
  "title": "Text",
  "file_name": "Text",
  "mime_type": "Text",
  "size": "Int",
  "sha256": "Text",
  "document_version_id": "Text"
 },
 "Item@1": {
  "serial_number": "Text",
  "batch_number": "Text",
  "passport_uri": "Text",
  "previous_passport_uri": "Text",
  "operator_id": "Text",
  "operator_name": "Text",
  "operator_address": "Text",
  "manufacturing_place": "Text",
  "manufacturing_country": "Text",
  "facility_id": "Text",
  "manufactured_on": "Date",
  "placed_on_market_on": "Date",
  "put_into_service_on": "Date",
  "warranty_until_on": "Date",
  "state_recorded_on": "Date",
  "capacity_fade_pct": "Dec(2)",
  "power_w": "Dec(3)",
  "power_fade_pct": "Dec(2)",
  "internal_resistance_ohm": "Dec(6)",
  "internal_resistance_increase_pct": "Dec(2)",
  "round_trip_efficiency_pct": "Dec(2)",
  "round_trip_efficiency_fade_pct": "Dec(2)",
  "state_of_certified_energy_pct": "Dec(2)",
  "remaining_energy_kwh": "Dec(6)",
  "remaining_capacity_ah": "Dec(6)",
  "remaining_power_w": "Dec(3)",
  "self_discharge_pct_per_month": "Dec(4)",
  "self_discharge_evolution_pct": "Dec(2)",
  "ohmic_resistance_ohm": "Dec(6)",
  "status": "Text",
  "full_cycles": "Int",
  "energy_throughput_kwh": "Dec(6)",
  "capacity_throughput_ah": "Dec(6)",
  "negative_events": "List(Record(event: Opt(Text), occurred_on: Opt(Date), report_url: Opt(Text)))",
  "deep_discharge_events": "Int",
  "overcharge_events": "Int",
  "temperature_records": "List(Record(recorded_at: Opt(Text), temperature_degc: Opt(Dec(2))))",
  "minutes_in_extreme_heat": "Int",
  "minutes_in_extreme_cold": "Int",
  "minutes_charging_in_extreme_heat": "Int",
  "minutes_charging_in_extreme_cold": "Int",
  "state_of_charge_pct": "Dec(2)",
  "state_of_charge_records": "List(Record(recorded_at: Opt(Text), state_of_charge_pct: Opt(Dec(2))))"
 },
 "Batch@1": {
  "batch_number": "Text",
  "manufacturing_place": "Text",
  "manufacturing_country": "Text",
  "facility_id": "Text",
  "manufactured_on": "Date"
 }
};

/** How keys begin, and whether there is one fact. @type {Record<string, [string, boolean]>} */
export const FACT_KEYS = {
 "Battery": [
  "battery:",
  true
 ],
 "Component": [
  "component:",
  false
 ],
 "PCF": [
  "pcf:",
  true
 ],
 "DueDiligence": [
  "dd:",
  true
 ],
 "Reading": [
  "reading:",
  false
 ],
 "ReadingSeries": [
  "series:",
  false
 ],
 "Finding": [
  "finding:",
  false
 ],
 "Attachment": [
  "attachment:",
  false
 ],
 "Item": [
  "item:",
  true
 ],
 "Batch": [
  "batch:",
  true
 ]
};

/** Dimensions, and factors as fractions. @type {Record<string, [string, number, number]>} */
export const UNIT_FACTORS = {
 "mg": [
  "mass",
  1,
  1000
 ],
 "g": [
  "mass",
  1,
  1
 ],
 "kg": [
  "mass",
  1000,
  1
 ],
 "t": [
  "mass",
  1000000,
  1
 ],
 "Wh": [
  "energy",
  1,
  1
 ],
 "kWh": [
  "energy",
  1000,
  1
 ],
 "MWh": [
  "energy",
  1000000,
  1
 ],
 "gCO2e": [
  "emission",
  1,
  1
 ],
 "kgCO2e": [
  "emission",
  1000,
  1
 ],
 "tCO2e": [
  "emission",
  1000000,
  1
 ],
 "gCO2e_per_kWh": [
  "emission per energy",
  1,
  1
 ],
 "kgCO2e_per_kWh": [
  "emission per energy",
  1000,
  1
 ],
 "pct": [
  "share",
  1,
  1
 ],
 "each": [
  "count",
  1,
  1
 ],
 "cycle": [
  "cycles",
  1,
  1
 ],
 "mV": [
  "voltage",
  1,
  1000
 ],
 "V": [
  "voltage",
  1,
  1
 ],
 "mA": [
  "current",
  1,
  1000
 ],
 "A": [
  "current",
  1,
  1
 ],
 "mAh": [
  "charge",
  1,
  1000
 ],
 "Ah": [
  "charge",
  1,
  1
 ],
 "W": [
  "power",
  1,
  1
 ],
 "kW": [
  "power",
  1000,
  1
 ],
 "MW": [
  "power",
  1000000,
  1
 ],
 "mohm": [
  "resistance",
  1,
  1000
 ],
 "ohm": [
  "resistance",
  1,
  1
 ],
 "degC": [
  "temperature",
  1,
  1
 ],
 "s": [
  "time",
  1,
  3600
 ],
 "min": [
  "time",
  1,
  60
 ],
 "h": [
  "time",
  1,
  1
 ],
 "per_h": [
  "rate",
  1,
  1
 ],
 "month": [
  "calendar",
  1,
  1
 ],
 "year": [
  "calendar",
  12,
  1
 ],
 "pct_per_month": [
  "share per calendar",
  1,
  1
 ],
 "mm": [
  "length",
  1,
  1000
 ],
 "m": [
  "length",
  1,
  1
 ]
};

/** Units a, b and c with a = b · c. @type {[string, string, string][]} */
export const UNIT_RELATIONS = [
 [
  "gCO2e",
  "gCO2e_per_kWh",
  "kWh"
 ],
 [
  "kgCO2e",
  "kgCO2e_per_kWh",
  "kWh"
 ],
 [
  "Wh",
  "W",
  "h"
 ],
 [
  "kWh",
  "kW",
  "h"
 ],
 [
  "MWh",
  "MW",
  "h"
 ],
 [
  "Wh",
  "V",
  "Ah"
 ],
 [
  "Ah",
  "A",
  "h"
 ],
 [
  "W",
  "V",
  "A"
 ],
 [
  "V",
  "A",
  "ohm"
 ],
 [
  "A",
  "Ah",
  "per_h"
 ],
 [
  "W",
  "Wh",
  "per_h"
 ],
 [
  "kW",
  "kWh",
  "per_h"
 ],
 [
  "pct",
  "pct_per_month",
  "month"
 ]
];
