/* Made from packages/bpc-verify-js and page_source.js by tools/page_script.py. Licence: Apache-2.0. */

class CheckFailed extends Error {}
class NotChecked extends Error {}
const UTF8_WRITER = new TextEncoder();
const UTF8_READER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const HEX_HASH = /^[0-9a-f]{64}$/;
const BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
function encodeUtf8(text) {
  return UTF8_WRITER.encode(text);
}
function decodeUtf8(bytes) {
  try {
    return UTF8_READER.decode(bytes);
  } catch {
    throw new CheckFailed("it is not UTF-8");
  }
}
function joinBytes(...parts) {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
function areSameBytes(one, other) {
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}
function toHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
function fromHex(text) {
  if (!HEX_HASH.test(text)) throw new CheckFailed("it is not 64 lower-case hex digits");
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}
function toBase64(bytes) {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
function fromBase64(text) {
  let bytes;
  try {
    bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    throw new CheckFailed("it is not base64");
  }
  if (toBase64(bytes) !== text) throw new CheckFailed("it is not canonical base64");
  return bytes;
}
function toBase32(bytes) {
  let text = "";
  let buffer = 0;
  let bits = 0;
  for (const byte of bytes) {
    buffer = (buffer << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += BASE32[(buffer >> bits) & 31];
    }
    buffer &= (1 << bits) - 1;
  }
  return bits > 0 ? text + BASE32[(buffer << (5 - bits)) & 31] : text;
}
function compareTexts(one, other) {
  const shorter = Math.min(one.length, other.length);
  for (let at = 0; at < shorter; at++) {
    const left = one.charCodeAt(at);
    const right = other.charCodeAt(at);
    if (left !== right) return rankCodeUnit(left) - rankCodeUnit(right);
  }
  return one.length - other.length;
}
function rankCodeUnit(unit) {
  if (unit < 0xd800) return unit;
  return unit >= 0xe000 ? unit - 0x800 : unit + 0x2000;
}
async function hashBytes(bytes) {
  if (!globalThis.crypto?.subtle) throw new Error("this browser gives no WebCrypto to this page");
  return new Uint8Array(await globalThis.crypto.subtle.digest("SHA-256", (bytes)));
}
function shortenText(text) {
  return text.length <= 80 ? text : `${text.slice(0, 79)}…`;
}
const MAX_DEPTH = 128;
const MAX_DIGITS = 600;
const LONE_SURROGATE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const READ_ESCAPES = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
const WRITE_ESCAPES = { '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t" };
class JsonReader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }
  refuse(reason) {
    throw new CheckFailed(`it is not canonical JSON: ${reason} at character ${this.at}`);
  }
  readWhole() {
    const value = this.readValue(0);
    if (this.at !== this.text.length) this.refuse("something stands behind it");
    return value;
  }
  readValue(depth) {
    const letter = this.text[this.at];
    if (letter === "{") return this.readObject(depth + 1);
    if (letter === "[") return this.readList(depth + 1);
    if (letter === '"') return this.readText();
    for (const [word, value] of ([
      ["true", true],
      ["false", false],
      ["null", null],
    ])) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    return this.readNumber();
  }
  readObject(depth) {
    if (depth > MAX_DEPTH) this.refuse("it is nested too deeply");
    const value = Object.create(null);
    this.at += 1;
    if (this.takeLetter("}")) return value;
    do {
      if (this.text[this.at] !== '"') this.refuse("a name is missing");
      const name = this.readText();
      if (name in value) this.refuse("a name is there twice");
      if (!this.takeLetter(":")) this.refuse("a colon is missing");
      value[name] = this.readValue(depth);
    } while (this.takeLetter(","));
    if (!this.takeLetter("}")) this.refuse("an object does not end");
    return value;
  }
  readList(depth) {
    if (depth > MAX_DEPTH) this.refuse("it is nested too deeply");
    const value = [];
    this.at += 1;
    if (this.takeLetter("]")) return value;
    do value.push(this.readValue(depth));
    while (this.takeLetter(","));
    if (!this.takeLetter("]")) this.refuse("a list does not end");
    return value;
  }
  readText() {
    this.at += 1;
    let value = "";
    for (;;) {
      PLAIN.lastIndex = this.at;
      const plain = PLAIN.exec(this.text)?.[0] ?? "";
      value += plain;
      this.at += plain.length;
      if (this.takeLetter('"')) break;
      if (!this.takeLetter("\\")) this.refuse("a text does not end");
      value += this.readEscape();
    }
    if (LONE_SURROGATE.test(value)) this.refuse("a text has a lone surrogate");
    return value;
  }
  readEscape() {
    const letter = this.text[this.at] ?? "";
    this.at += 1;
    if (letter === "u") {
      const digits = this.text.slice(this.at, this.at + 4);
      if (!/^[0-9a-fA-F]{4}$/.test(digits)) this.refuse("an escape is wrong");
      this.at += 4;
      return String.fromCharCode(parseInt(digits, 16));
    }
    return READ_ESCAPES[letter] ?? this.refuse("an escape is wrong");
  }
  readNumber() {
    NUMBER.lastIndex = this.at;
    const text = NUMBER.exec(this.text)?.[0];
    if (text === undefined) return this.refuse("a value is missing");
    if (!/^-?[0-9]+$/.test(text)) this.refuse("a number is not whole");
    if (text === "-0") this.refuse("zero has a sign");
    if (text.replace("-", "").length > MAX_DIGITS) this.refuse("a number is too long");
    this.at += text.length;
    const number = Number(text);
    return Number.isSafeInteger(number) ? number : BigInt(text);
  }
  takeLetter(letter) {
    if (this.text[this.at] !== letter) return false;
    this.at += 1;
    return true;
  }
}
function decodeCanonical(bytes) {
  const value = new JsonReader(decodeUtf8(bytes)).readWhole();
  if (!areSameBytes(encodeCanonical(value), bytes)) throw new CheckFailed("it is JSON, but not canonical");
  return value;
}
function encodeCanonical(value) {
  return encodeUtf8(writeCanonical(value));
}
function writeCanonical(value) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number") {
    if (!Number.isSafeInteger(value) || Object.is(value, -0)) throw new CheckFailed("a number has no canonical form");
    return String(value);
  }
  if (typeof value === "string") return writeText(value);
  if (Array.isArray(value)) return `[${value.map(writeCanonical).join(",")}]`;
  const names = Object.keys(value).sort(compareTexts);
  return `{${names.map((name) => `${writeText(name)}:${writeCanonical(value[name])}`).join(",")}}`;
}
function writeText(text) {
  if (LONE_SURROGATE.test(text)) throw new CheckFailed("a text has a lone surrogate");
  const escaped = text.replace(
    /["\\\u0000-\u001f]/g,
    (letter) => WRITE_ESCAPES[letter] ?? `\\u00${letter.charCodeAt(0).toString(16).padStart(2, "0")}`,
  );
  return `"${escaped}"`;
}
const FACT_MEMBERS = {
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
const FACT_KEYS = {
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
const UNIT_FACTORS = {
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
const UNIT_RELATIONS = [
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
const QUANTITY_SCALE = 18;
const LARGEST_SCALE = 36;
class TypeTable {
  constructor() {
    this.known = new Map();
    this.BOOL = this.add({ k: "Bool", text: "Bool" });
    this.INT = this.add({ k: "Int", text: "Int" });
    this.TEXT = this.add({ k: "Text", text: "Text" });
    this.DATE = this.add({ k: "Date", text: "Date" });
  }
  add(type) {
    const known = this.known.get(type.text);
    if (known !== undefined) return known;
    const added = { hasFacts: false, ...type };
    this.known.set(type.text, added);
    return added;
  }
  dec(scale) {
    return this.add({ k: "Dec", scale, text: `Dec(${scale})` });
  }
  qty(unit) {
    return this.add({ k: "Qty", unit, text: `Qty(${unit})` });
  }
  opt(item) {
    return this.add({ k: "Opt", item, text: `Opt(${item.text})`, hasFacts: item.hasFacts });
  }
  list(item) {
    return this.add({ k: "List", item, text: `List(${item.text})`, hasFacts: item.hasFacts });
  }
  map(item) {
    return this.add({ k: "Map", item, text: `Map(Text, ${item.text})`, hasFacts: item.hasFacts });
  }
  record(members) {
    const sorted = [...members].sort(([one], [other]) => (one < other ? -1 : 1));
    const text = `Record(${sorted.map(([name, type]) => `${name}: ${type.text}`).join(", ")})`;
    return this.add({ k: "Record", members: new Map(sorted), text, hasFacts: sorted.some(([, type]) => type.hasFacts) });
  }
  fact(text) {
    if (!Object.hasOwn(FACT_MEMBERS, text)) return null;
    const [name, version] = text.split("@");
    return this.add({ k: "Fact", name, version: Number(version), text, hasFacts: true });
  }
  listMembers(type) {
    if (type.k === "Record") return type.members;
    type.members ??= new Map(Object.entries(FACT_MEMBERS[type.text]).map(([name, text]) => [name, this.read(text)]));
    return type.members;
  }
  read(text) {
    const parts = /^([A-Za-z]+)(?:\((.*)\))?$/.exec(text);
    if (parts === null) throw new Error(`${text} is not a type`);
    const [, name, inside] = parts;
    if (inside === undefined) return (this.known.get(name));
    if (name === "Dec") return this.dec(Number(inside));
    if (name === "Opt") return this.opt(this.read(inside));
    if (name === "List") return this.list(this.read(inside));
    if (name === "Map") return this.map(this.read(inside.replace("Text, ", "")));
    return this.record(splitMembers(inside).map((member) => [member.slice(0, member.indexOf(":")), this.read(member.slice(member.indexOf(":") + 2))]));
  }
}
function splitMembers(text) {
  const parts = [];
  let [start, depth] = [0, 0];
  for (let at = 0; at < text.length; at++) {
    if (text[at] === "(") depth += 1;
    if (text[at] === ")") depth -= 1;
    if (text[at] === "," && depth === 0) {
      parts.push(text.slice(start, at));
      start = at + 2;
    }
  }
  return [...parts, text.slice(start)];
}
function unwrapOption(type) {
  return type.k === "Opt" ? type.item : type;
}
function isNumberType(type) {
  return type.k === "Int" || type.k === "Dec" || type.k === "Qty";
}
function isOrderedType(type) {
  return isNumberType(type) || type.k === "Text" || type.k === "Date";
}
function getScaleOf(type) {
  if (type.k === "Dec") return (type.scale);
  return type.k === "Qty" ? QUANTITY_SCALE : 0;
}
function isUnit(unit) {
  return Object.hasOwn(UNIT_FACTORS, unit);
}
function multiplyUnits(one, other) {
  const relation = UNIT_RELATIONS.find(([, left, right]) => (left === one && right === other) || (left === other && right === one));
  return relation?.[0] ?? null;
}
function divideUnits(one, other) {
  for (const [product, left, right] of UNIT_RELATIONS) {
    if (product === one && left === other) return right;
    if (product === one && right === other) return left;
  }
  return null;
}
function findUnitFactor(source, target) {
  const [one, other] = [UNIT_FACTORS[source], UNIT_FACTORS[target]];
  if (one[0] !== other[0]) return null;
  return [BigInt(one[1]) * BigInt(other[2]), BigInt(one[2]) * BigInt(other[1])];
}
const STATUS_TEXTS = new Set(["PASS", "FAIL", "WARN", "NOT_APPLICABLE"]);
function makeCall(op, type, args, fixed = {}) {
  return { k: "call", op, t: type, args, fixed };
}
function requireTextLiteral(checker, node) {
  if (node.k !== "text") checker.refuse(node, "this must be a text in quotes");
  return node.value;
}
function requireScale(checker, node) {
  if (node.k !== "number" || node.negative || !/^0*[0-9]{1,2}$/.test(node.digits) || Number(node.digits) > QUANTITY_SCALE) checker.refuse(node, "the number of decimals must be a literal from 0 to 18");
  return Number(node.digits);
}
function requireUnit(checker, node) {
  const unit = requireTextLiteral(checker, node);
  if (!isUnit(unit)) checker.refuse(node, `there is no unit \`${unit.slice(0, 80)}\``);
  return unit;
}
function requireType(checker, node, accepts) {
  const expr = checker.check(node);
  if (!accepts(expr.t)) checker.refuse(node, `\`${expr.t.text.slice(0, 80)}\` does not fit here`);
  return expr;
}
const isPlainNumber = (type) => type.k === "Int" || type.k === "Dec";
function checkTexts(checker, node, op, result) {
  return makeCall(op, result, node.args.map((each) => checker.requireText(each)));
}
function makeExtreme(checker, op, one, other) {
  const [left, right] = [unwrapOption(one.t), unwrapOption(other.t)];
  const type = getScaleOf(right) > getScaleOf(left) ? right : left;
  const isOption = one.t.k === "Opt" || other.t.k === "Opt";
  return makeCall(op, isOption ? checker.types.opt(type) : type, [one, other], { of: type.k === "Dec" ? "Dec" : type.text });
}
function checkExtreme(checker, node, args) {
  if (args.length === 1) {
    const items = checker.requireList(args[0]);
    const type = items.t.item;
    if (!isOrderedType(type)) checker.refuse(node, "such values have no order");
    return makeCall(node.name, checker.types.opt(type), [items], { of: type.k === "Dec" ? "Dec" : type.text });
  }
  const isOpen = (each) => each.k === "number" || each.k === "none" || (each.k === "list" && each.items.length === 0);
  const known = args.map((each) => (isOpen(each) ? null : checker.check(each)));
  const numbers = args.filter((each) => each.k === "number");
  const type = known.find((each) => each !== null)?.t ?? (numbers.length === 2 ? checker.chooseNumberType(numbers) : null);
  const [one, other] = args.map((each, at) => {
    const side = known[at];
    if (side !== null) return side;
    if (type === null) return checker.check(each);
    return each.k === "number" ? checker.typeBeside(each, unwrapOption(type)) : checker.check(each, checker.types.opt(unwrapOption(type)));
  });
  const [left, right] = [unwrapOption(one.t), unwrapOption(other.t)];
  if ((left !== right && !(left.k === "Dec" && right.k === "Dec")) || !isOrderedType(left)) checker.refuse(node, "these have no common order");
  return makeExtreme(checker, node.name, one, other);
}
function checkExtremeDay(checker, node, args) {
  const [one, other] = args.map((each) => requireType(checker, each, (type) => unwrapOption(type) === checker.types.DATE));
  return makeExtreme(checker, node.name === "earlierOf" ? "min" : "max", one, other);
}
function checkRounding(checker, node, args) {
  const scale = requireScale(checker, args[0]);
  const number = requireType(checker, args[1], (type) => isPlainNumber(type) || (node.name === "round" && type.k === "Qty"));
  return number.t.k === "Qty" ? makeCall("round", number.t, [number], { scale }) : makeCall("toDec", checker.types.dec(scale), [number], { scale });
}
function checkLaterDay(checker, node, args) {
  const day = requireType(checker, args[0], (type) => unwrapOption(type) === checker.types.DATE);
  return makeCall(node.name, day.t, [day, checker.check(args[1], checker.types.INT)]);
}
function checkLoop(checker, node, args) {
  const { types } = checker;
  const items = checker.requireList(args[0]);
  const element = items.t.item;
  const { name } = node;
  const { body, captured } = checkLambda(checker, args[1], [element], null);
  let type;
  if (name === "map") type = types.list(body.t);
  else if (["filter", "any", "all"].includes(name)) {
    checker.requireBool(args[1], body);
    type = name === "filter" ? items.t : types.BOOL;
  } else if (name === "groupBy") {
    if (body.t.hasFacts) checker.refuse(node, "fact records cannot be compared");
    type = types.list(types.record([["key", body.t], ["items", types.list(element)]]));
  } else {
    if (!isOrderedType(unwrapOption(body.t))) checker.refuse(node, "such keys have no order");
    type = name === "sortBy" ? items.t : element.k === "Opt" ? element : types.opt(element);
  }
  return { k: "loop", op: name, t: type, items, init: null, parameters: args[1].parameters, body, captured, start: args[1].start, end: args[1].end };
}
function checkFold(checker, node, args, want) {
  const items = checker.requireList(args[0]);
  const init = checker.check(args[1], want);
  const counts = want === null && init.t === checker.types.INT && args[1].k === "number";
  const { body, captured } = checkLambda(checker, args[2], [init.t, items.t.item], counts ? null : init.t);
  if (body.t !== init.t) checker.refuse(node, "every step of a fold must give the type it starts with");
  return { k: "loop", op: "fold", t: init.t, items, init, parameters: args[2].parameters, body, captured, start: args[2].start, end: args[2].end };
}
function checkLambda(checker, fn, kinds, want) {
  if (fn.k !== "lambda" || fn.parameters.length !== kinds.length) checker.refuse(fn, "a function with other parameters is needed here");
  checker.lambdas.push(new Map());
  fn.parameters.forEach((name, at) => checker.bind(fn, name, kinds[at]));
  const body = checker.check(fn.body, want);
  for (const name of fn.parameters) checker.scope.delete(name);
  const mentioned = (checker.lambdas.pop());
  return { body, captured: [...mentioned.keys()].sort((one, other) => (mentioned.get(one)) - (mentioned.get(other))) };
}
function isStatus(node) {
  if (node.k === "if") return node.branches.every((branch) => isStatus(branch.body)) && isStatus(node.otherwise);
  return node.k === "text" && STATUS_TEXTS.has(node.value);
}
function checkEmit(checker, node, args) {
  const code = requireTextLiteral(checker, args[0]);
  if (!isStatus(args[1])) checker.refuse(args[1], "this is not a status");
  const status = checker.check(args[1]);
  const message = checker.requireText(args[2]);
  if (checker.lambdas.length || !checker.isInRule) checker.refuse(node, "`emitCompliance` can only be used in the rule of a field");
  return { k: "emit", t: checker.types.BOOL, code, status, message, verdict: null, args: [] };
}
function checkRecordGet(checker, node, args) {
  const record = requireType(checker, args[0], (type) => type.k === "Fact" || type.k === "Record");
  const member = requireTextLiteral(checker, args[1]);
  const type = checker.types.listMembers(record.t).get(member);
  if (type === undefined) return checker.refuse(node, `there is no member \`${member.slice(0, 80)}\``);
  return makeCall("recordGet", type.k === "Opt" ? type : checker.types.opt(type), [record], { member });
}
function checkMapGet(checker, _node, args) {
  const map = requireType(checker, args[0], (type) => type.k === "Map");
  const key = checker.requireText(args[1]);
  return makeCall("mapGet", map.t.item.k === "Opt" ? map.t.item : checker.types.opt(map.t.item), [map, key]);
}
function checkSome(checker, node, args, want) {
  if (args[0].k === "none") checker.refuse(node, "an option cannot contain an option");
  const item = checker.check(args[0], want?.k === "Opt" ? want.item : null, true);
  if (item.t.k === "Opt") checker.refuse(node, "an option cannot contain an option");
  return makeCall("some", checker.types.opt(item.t), [item]);
}
function checkConvert(checker, node, args) {
  const [source, target] = [requireUnit(checker, args[0]), requireUnit(checker, args[1])];
  if (findUnitFactor(source, target) === null) checker.refuse(node, `\`${source}\` cannot be converted to \`${target}\``);
  return makeCall("convert", checker.types.qty(target), [checker.check(args[2], checker.types.qty(source))], { from: source, to: target });
}
function checkSumOfDecs(checker, node, args) {
  const scale = requireScale(checker, args[0]);
  const items = checker.requireList(args[1]);
  if (items.t.item.k !== "Dec" || items.t.item.scale > scale) checker.refuse(node, "`sumDec` adds a list of Dec that fits");
  return makeCall("sumDec", checker.types.dec(scale), [items], { scale });
}
function checkSumOfQuantities(checker, node, args) {
  const unit = requireUnit(checker, args[0]);
  return makeCall("sumQty", checker.types.qty(unit), [checker.check(args[1], checker.types.list(checker.types.qty(unit)))], { unit });
}
function checkRequireSome(checker, _node, args) {
  const option = checker.requireOption(args[0]);
  return { k: "requireSome", t: option.t.item, option, code: requireTextLiteral(checker, args[1]), message: requireTextLiteral(checker, args[2]) };
}
function checkPresent(checker, node, args) {
  const items = checker.requireList(args[0]);
  if (items.t.item.k !== "Opt") checker.refuse(node, "`present` takes a list of options");
  return makeCall("present", checker.types.list(items.t.item.item), [items]);
}
function checkEnd(checker, node, args) {
  const items = checker.requireList(args[0]);
  return makeCall(node.name, items.t.item.k === "Opt" ? items.t.item : checker.types.opt(items.t.item), [items]);
}
const LEVEL_ONE_CALLS = {
  getFact: [2, 2, (checker, _, args) => {
    const fact = checker.resolveFact(requireTextLiteral(checker, args[0]), args[0]);
    return { k: "fact", t: checker.types.opt(fact), fact, key: checker.requireText(args[1]) };
  }],
  getFactsByPrefix: [2, 2, (checker, _, args) => {
    const fact = checker.resolveFact(requireTextLiteral(checker, args[0]), args[0]);
    return { k: "facts", t: checker.types.list(fact), fact, key: checker.requireText(args[1]) };
  }],
  recordGet: [2, 2, checkRecordGet],
  mapGet: [2, 2, checkMapGet],
  some: [1, 1, checkSome],
  isSome: [1, 1, (checker, _, args) => makeCall("isSome", checker.types.BOOL, [checker.requireOption(args[0])])],
  unwrapOr: [2, 2, (checker, _, args) => {
    const option = checker.requireOption(args[0]);
    return makeCall("unwrapOr", option.t.item, [option, checker.check(args[1], option.t.item)]);
  }],
  requireSome: [3, 3, checkRequireSome],
  toDec: [2, 2, checkRounding],
  toQty: [2, 2, (checker, _, args) => {
    const unit = requireUnit(checker, args[0]);
    return makeCall("toQty", checker.types.qty(unit), [requireType(checker, args[1], (type) => isPlainNumber(type) && getScaleOf(type) <= QUANTITY_SCALE)], { unit });
  }],
  convert: [3, 3, checkConvert],
  sumQty: [2, 2, checkSumOfQuantities],
  sumDec: [2, 2, checkSumOfDecs],
  amount: [1, 1, (checker, _, args) => makeCall("amount", checker.types.dec(QUANTITY_SCALE), [requireType(checker, args[0], (type) => type.k === "Qty")])],
  map: [2, 2, checkLoop],
  filter: [2, 2, checkLoop],
  fold: [3, 3, checkFold],
  count: [1, 1, (checker, _, args) => makeCall("count", checker.types.INT, [checker.requireList(args[0])])],
  concat: [1, Infinity, (checker, node) => checkTexts(checker, node, "concat", checker.types.TEXT)],
  emitCompliance: [3, 3, checkEmit],
  productSku: [0, 0, (checker) => makeCall("productSku", checker.types.TEXT, [])],
  productName: [0, 0, (checker) => makeCall("productName", checker.types.TEXT, [])],
  issuedOn: [0, 0, (checker) => makeCall("issuedOn", checker.types.DATE, [])],
};
const LEVEL_TWO_CALLS = {
  text: [1, 1, (checker, _, args) => checker.writeAsText(args[0], checker.check(args[0]))],
  startsWith: [2, 2, (checker, node) => checkTexts(checker, node, "startsWith", checker.types.BOOL)],
  endsWith: [2, 2, (checker, node) => checkTexts(checker, node, "endsWith", checker.types.BOOL)],
  contains: [2, 2, (checker, node) => checkTexts(checker, node, "contains", checker.types.BOOL)],
  split: [2, 2, (checker, node) => checkTexts(checker, node, "split", checker.types.list(checker.types.TEXT))],
  trim: [1, 1, (checker, node) => checkTexts(checker, node, "trim", checker.types.TEXT)],
  length: [1, 1, (checker, node) => checkTexts(checker, node, "length", checker.types.INT)],
  daysBetween: [2, 2, (checker, _, args) => makeCall("daysBetween", checker.types.INT, args.map((each) => checker.check(each, checker.types.DATE)))],
  addDays: [2, 2, checkLaterDay],
  addMonths: [2, 2, checkLaterDay],
  addYears: [2, 2, checkLaterDay],
  year: [1, 1, (checker, node, args) => makeCall("year", checker.types.INT, [checker.check(args[0], checker.types.DATE)])],
  month: [1, 1, (checker, node, args) => makeCall("month", checker.types.INT, [checker.check(args[0], checker.types.DATE)])],
  day: [1, 1, (checker, node, args) => makeCall("day", checker.types.INT, [checker.check(args[0], checker.types.DATE)])],
  laterOf: [2, 2, checkExtremeDay],
  latestOf: [2, 2, checkExtremeDay],
  earlierOf: [2, 2, checkExtremeDay],
  min: [1, 2, checkExtreme],
  max: [1, 2, checkExtreme],
  abs: [1, 1, (checker, _, args) => {
    const number = requireType(checker, args[0], isNumberType);
    return makeCall("abs", number.t, [number]);
  }],
  round: [2, 2, checkRounding],
  sum: [1, 1, (checker, _, args) => {
    const items = requireType(checker, args[0], (type) => type.k === "List" && isNumberType(type.item));
    return makeCall("sum", items.t.item, [items]);
  }],
  first: [1, 1, checkEnd],
  last: [1, 1, checkEnd],
  distinct: [1, 1, (checker, _, args) => {
    const items = requireType(checker, args[0], (type) => type.k === "List" && !type.hasFacts);
    return makeCall("distinct", items.t, [items]);
  }],
  present: [1, 1, checkPresent],
  isEmpty: [1, 1, (checker, _, args) => makeCall("isEmpty", checker.types.BOOL, [checker.requireList(args[0])])],
  any: [2, 2, checkLoop],
  all: [2, 2, checkLoop],
  sortBy: [2, 2, checkLoop],
  latestBy: [2, 2, checkLoop],
  groupBy: [2, 2, checkLoop],
};
function checkBuiltin(checker, node, want) {
  const calls = checker.language > 1 ? { ...LEVEL_ONE_CALLS, ...LEVEL_TWO_CALLS } : LEVEL_ONE_CALLS;
  if (!Object.hasOwn(calls, node.name)) return checker.refuse(node, `there is no function \`${node.name}\``);
  const [least, most, check] = calls[node.name];
  if (node.args.length < least || node.args.length > most) checker.refuse(node, `\`${node.name}\` takes another number of arguments`);
  return check(checker, node, node.args, want);
}
class RuleMistake extends CheckFailed {
  constructor(message, at) {
    super(message);
    this.at = at;
  }
}
const RESERVED_WORDS = new Set(["field", "example", "property", "let", "if", "then", "else", "assert", "fn", "true", "false", "none"]);
const LEXEME =
  /[ \t\r\n]+|--[^\n]*|(?<name>[A-Za-z_][A-Za-z0-9_]*)|(?<text>"(?:[^"\\\n]|\\[^\n])*")|(?<number>[0-9][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)|(?<part>\.[0-9]{1,2}(?![A-Za-z0-9_]))|(?<sign>=[>=]?|[<>!]=?|&&|\|\||\?\?|[(){}[\],;:@+*/.\-|])/y;
const LANGUAGE = /^(?:[ \t\r\n]|--[^\n]*\n)*language(?:[ \t\r\n]|--[^\n]*\n)*([0-9]+)(?![A-Za-z_.])/;
const GOOD_NUMBER = /^[0-9]+(?:\.[0-9]+)?$/;
const GOOD_TEXT = /^"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt{]|u(?!0000)[0-9A-Fa-f]{4}))*"$/;
const LONE_HALF = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;
const LONGEST_NAME = 64;
const LONGEST_NUMBER = 100;
const ESCAPED_LETTERS = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
function findLanguage(text) {
  return Number(LANGUAGE.exec(text)?.[1] ?? 1);
}
function lexRules(text, language, start = 0, end = text.length) {
  const tokens = [];
  let at = start;
  while (at < end) {
    LEXEME.lastIndex = at;
    const match = LEXEME.exec(text);
    if (match === null || at + match[0].length > end) throw new RuleMistake("unexpected character", at);
    const [word] = match;
    const groups = (match.groups);
    if (groups.name !== undefined) {
      if (word.length > LONGEST_NAME) throw new RuleMistake("the name is too long", at);
      tokens.push({ kind: RESERVED_WORDS.has(word) ? word : "name", text: word, start: at });
    } else if (groups.text !== undefined) {
      const isGood = GOOD_TEXT.test(word) && (language > 1 || !/\\\{/.test(word));
      if (!isGood || LONE_HALF.test(decodeRuleText(word))) throw new RuleMistake("a text with a character or an escape that is not allowed", at);
      tokens.push({ kind: "text", text: word, start: at });
    } else if (groups.number !== undefined) {
      if (!GOOD_NUMBER.test(word) || word.length > LONGEST_NUMBER) throw new RuleMistake("this is not a valid number", at);
      tokens.push({ kind: "number", text: word, start: at });
    } else if (groups.part !== undefined) {
      if (language === 1 || text[at - 1] === undefined || !/[0-9]/.test(text[at - 1])) throw new RuleMistake("a point needs digits before it", at);
      tokens.push({ kind: "part", text: word, start: at });
    } else if (groups.sign !== undefined) {
      if (language === 1 && (word === "|" || word === "??")) throw new RuleMistake("unexpected character", at);
      tokens.push({ kind: word, text: word, start: at });
    }
    at += word.length;
  }
  for (let count = 0; count < 3; count++) tokens.push({ kind: "", text: "", start: end });
  return tokens;
}
function decodeRuleText(lexeme) {
  return lexeme.slice(1, -1).replace(/\\(?:u([0-9A-Fa-f]{4})|(.))/gs, (_, unit, letter) => (unit === undefined ? (ESCAPED_LETTERS[letter] ?? letter) : String.fromCharCode(parseInt(unit, 16))));
}
const MAGNITUDE_DIGITS = 36;
const DAYS_BEFORE = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];
const LAST_YEAR = 9999;
const LIMITED = new Set(["toDec", "convert", "sumDec", "sumQty", "sum", "round"]);
const BLANKS = " \t\r\n";
const power = (exponent) => 10n ** BigInt(exponent);
function divideHalfEven(numerator, denominator) {
  const [top, bottom] = denominator < 0n ? [-numerator, -denominator] : [numerator, denominator];
  let quotient = top / bottom;
  let rest = top % bottom;
  if (rest < 0n) {
    quotient -= 1n;
    rest += bottom;
  }
  const roundsUp = 2n * rest > bottom || (2n * rest === bottom && quotient % 2n !== 0n);
  return roundsUp ? quotient + 1n : quotient;
}
function rescaleCount(count, source, target) {
  return divideHalfEven(count * power(getScaleOf(target)), power(getScaleOf(source)));
}
function calculateCount(op, leftType, left, rightType, right, result) {
  const [leftScale, rightScale, scale] = [getScaleOf(leftType), getScaleOf(rightType), getScaleOf(result)];
  let count;
  if (op === "*") count = divideHalfEven(left * right * power(scale), power(leftScale + rightScale));
  else if (op === "/") {
    if (right === 0n) throw new CheckFailed("the rules divide by zero");
    count = divideHalfEven(left * power(rightScale + scale), right * power(leftScale));
  } else {
    const [one, other] = [rescaleCount(left, leftType, result), rescaleCount(right, rightType, result)];
    count = op === "+" ? one + other : one - other;
  }
  return requireMagnitude(result, count);
}
function requireMagnitude(type, count) {
  const limit = power(MAGNITUDE_DIGITS + getScaleOf(type));
  if (count >= limit || -count >= limit) throw new CheckFailed("the rules give a number that is not below 10^36");
  return count;
}
function compareValues(one, other) {
  if (typeof one === "string") return compareTexts(one, other);
  return one < other ? -1 : one > other ? 1 : 0;
}
function areEqualValues(one, other) {
  if (one === other) return true;
  if (one === null || other === null || typeof one !== "object" || typeof other !== "object") return false;
  if (Array.isArray(one)) return one.length === other.length && one.every((each, at) => areEqualValues(each, other[at]));
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => name in other && areEqualValues(one[name], other[name]));
}
function compareSides(op, leftType, left, rightType, right) {
  let [one, other] = [left, right];
  if (leftType.k === "Dec" && rightType.k === "Dec") [one, other] = [left * power(getScaleOf(rightType)), right * power(getScaleOf(leftType))];
  if (op === "==") return areEqualValues(one, other);
  if (op === "!=") return !areEqualValues(one, other);
  const order = compareValues(one, other);
  if (op === "<") return order < 0;
  if (op === "<=") return order <= 0;
  return op === ">" ? order > 0 : order >= 0;
}
function writeValue(type, value) {
  switch (type.k) {
    case "Dec":
      return writeDecimal(value, getScaleOf(type));
    case "Qty":
      return { unit: type.unit, value: stripZeros(writeDecimal(value, QUANTITY_SCALE)) };
    case "Opt":
      return value === null ? null : writeValue(type.item, value);
    case "List":
      return value.map((each) => writeValue(type.item, each));
    case "Map":
      return makeObject(Object.keys(value).map((name) => [name, writeValue(type.item, value[name])]));
    case "Record":
      return makeObject([...type.members].map(([name, member]) => [name, writeValue(member, value[name])]));
    default:
      return value;
  }
}
function makeObject(members) {
  const object = Object.create(null);
  for (const [name, value] of members) object[name] = value;
  return object;
}
function writeDecimal(count, scale) {
  const digits = String(count < 0n ? -count : count).padStart(scale + 1, "0");
  const whole = digits.slice(0, digits.length - scale);
  return `${count < 0n ? "-" : ""}${whole}${scale ? `.${digits.slice(digits.length - scale)}` : ""}`;
}
function stripZeros(text) {
  return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
}
function writeAsWords(type, value) {
  const kind = unwrapOption(type);
  if (value === null) return "-";
  if (kind.k === "Dec") return stripZeros(writeDecimal(value, getScaleOf(kind)));
  if (kind.k === "Qty") return `${stripZeros(writeDecimal(value, QUANTITY_SCALE))} ${kind.unit}`;
  return String(value);
}
function splitDay(day) {
  const [year, month, number] = day.split("-").map(Number);
  return [year, month, number];
}
const isLeap = (year) => year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
function countDaysOfMonth(year, month) {
  return DAYS_BEFORE[month] - DAYS_BEFORE[month - 1] + (month === 2 && isLeap(year) ? 1 : 0);
}
function isCalendarDay(text) {
  if (!/^[0-9]{4}-[0-9]{2}-[0-9]{2}$/.test(text)) return false;
  const [year, month, day] = splitDay(text);
  return year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= countDaysOfMonth(year, month);
}
function countDaysBefore(year, month) {
  const years = year - 1;
  const days = years * 365 + Math.floor(years / 4) - Math.floor(years / 100) + Math.floor(years / 400) + DAYS_BEFORE[month - 1];
  return month > 2 && isLeap(year) ? days + 1 : days;
}
function countDays(day) {
  const [year, month, number] = splitDay(day);
  return countDaysBefore(year, month) + number;
}
function writeDay(year, month, day) {
  if (!(year >= 1 && year <= LAST_YEAR)) throw new CheckFailed("the rules give a day that is not in the years 0001 to 9999");
  return `${String(year).padStart(4, "0")}-${String(month).padStart(2, "0")}-${String(day).padStart(2, "0")}`;
}
function addDays(day, days) {
  if (day === null) return null;
  const total = countDays(day) + Number(days);
  let year = Math.floor((total - 1) / 366) + 1;
  if (!(year >= 1 && year <= LAST_YEAR + 30)) return writeDay(0, 1, 1);
  while (countDaysBefore(year + 1, 1) < total) year += 1;
  let month = 12;
  while (countDaysBefore(year, month) >= total) month -= 1;
  return writeDay(year, month, total - countDaysBefore(year, month));
}
function addMonths(day, months) {
  if (day === null) return null;
  const [oldYear, oldMonth, number] = splitDay(day);
  const total = oldYear * 12 + oldMonth - 1 + Number(months);
  const [year, month] = [Math.floor(total / 12), (((total % 12) + 12) % 12) + 1];
  return writeDay(year, month, Math.min(number, countDaysOfMonth(year, month)));
}
function chooseExtreme(call, values) {
  const target = unwrapOption(call.t);
  const scaled = values.length === 2 && target.k === "Dec" ? values.map((value, at) => (value === null ? null : rescaleCount(value, unwrapOption(call.args[at].t), target))) : values;
  const candidates = values.length === 1 ? values[0] : scaled;
  if (candidates.length === 0 || candidates.includes(null)) return null;
  return candidates.reduce((best, value) => {
    const order = compareValues(value, best);
    return (call.op === "min" ? order < 0 : order > 0) ? value : best;
  });
}
function pickDistinct(type, items) {
  const seen = new Set();
  return items.filter((item) => {
    const key = writeCanonical(writeValue(type.item, item));
    return !seen.has(key) && seen.add(key);
  });
}
function splitText(text, separator) {
  return separator === "" ? [text] : text.split(separator);
}
function trimText(text) {
  let [start, end] = [0, text.length];
  while (start < end && BLANKS.includes(text[start])) start += 1;
  while (end > start && BLANKS.includes(text[end - 1])) end -= 1;
  return text.slice(start, end);
}
const addCounts = (counts) => counts.reduce((sum, count) => sum + count, 0n);
function readMember(call, record) {
  return (record.isFact ? record.members : record)[call.fixed.member];
}
function roundQuantity(call, count) {
  const unit = power(QUANTITY_SCALE - call.fixed.scale);
  return divideHalfEven(count, unit) * unit;
}
function convertQuantity(call, count) {
  const [numerator, denominator] = (findUnitFactor(call.fixed.from, call.fixed.to));
  return divideHalfEven(count * numerator, denominator);
}
const FUNCTIONS = {
  some: (_, item) => item,
  recordGet: readMember,
  member: (call, record) => (record === null ? null : readMember(call, record)),
  in: (_, value, items) => items.some((item) => areEqualValues(item, value)),
  mapGet: (_, map, key) => (Object.hasOwn(map, key) ? map[key] : null),
  isSome: (_, option) => option !== null,
  unwrapOr: (_, option, other) => option ?? other,
  count: (_, items) => BigInt(items.length),
  concat: (_, ...texts) => texts.join(""),
  amount: (_, count) => count,
  toDec: (call, count) => rescaleCount(count, call.args[0].t, call.t),
  toQty: (call, count) => rescaleCount(count, call.args[0].t, call.t),
  sumDec: (call, counts) => rescaleCount(addCounts(counts), call.args[0].t.item, call.t),
  sumQty: (_, counts) => addCounts(counts),
  convert: convertQuantity,
  text: (call, value) => writeAsWords(call.args[0].t, value),
  startsWith: (_, text, part) => text.startsWith(part),
  endsWith: (_, text, part) => text.endsWith(part),
  contains: (_, text, part) => text.includes(part),
  split: (_, text, separator) => splitText(text, separator),
  trim: (_, text) => trimText(text),
  length: (_, text) => BigInt([...text].length),
  daysBetween: (_, start, end) => BigInt(countDays(end) - countDays(start)),
  addDays: (_, day, days) => addDays(day, days),
  addMonths: (_, day, months) => addMonths(day, months),
  addYears: (_, day, years) => addMonths(day, years * 12n),
  year: (_, day) => BigInt(splitDay(day)[0]),
  month: (_, day) => BigInt(splitDay(day)[1]),
  day: (_, day) => BigInt(splitDay(day)[2]),
  min: (call, ...values) => chooseExtreme(call, values),
  max: (call, ...values) => chooseExtreme(call, values),
  abs: (_, count) => (count < 0n ? -count : count),
  round: roundQuantity,
  sum: (_, counts) => addCounts(counts),
  first: (_, items) => (items.length ? items[0] : null),
  last: (_, items) => (items.length ? items[items.length - 1] : null),
  distinct: (call, items) => pickDistinct(call.t, items),
  present: (_, items) => items.filter((item) => item !== null),
  isEmpty: (_, items) => items.length === 0,
  toEnum: (call, text) => (text === null ? null : (unwrapOption(call.t).spellings?.get(text) ?? null)),
};
function applyFunction(call, values, world) {
  const result = call.op in FUNCTIONS ? FUNCTIONS[call.op](call, ...values) : world[call.op];
  return LIMITED.has(call.op) ? requireMagnitude(call.t, result) : result;
}
class RuleChecker {
  constructor(language, sees) {
    this.language = language;
    this.sees = sees;
    this.types = new TypeTable();
    this.fields = new Map();
    this.definitions = new Map();
    this.functions = new Map();
    this.enums = new Map();
    this.tables = new Map();
    this.facts = new Set();
    this.reads = new Set();
    this.isInRule = false;
    this.scope = new Map();
    this.lambdas = [];
    this.prepareDefinition = () => {};
  }
  refuse(node, message) {
    throw new RuleMistake(message, node.start ?? 0);
  }
  check(node, want = null, allowOption = false) {
    const expr = this.checkAny(node, want);
    if (want !== null && expr.t !== want && !(allowOption && expr.t.k === "Opt")) this.refuse(node, `expected \`${want.text}\`, but this is \`${expr.t.text}\``);
    return expr;
  }
  checkAny(node, want) {
    const { types } = this;
    switch (node.k) {
      case "number":
        return this.checkNumber(node, want);
      case "text":
        return { k: "const", t: types.TEXT, value: node.value };
      case "bool":
        return { k: "const", t: types.BOOL, value: node.value };
      case "none":
        if (want?.k !== "Opt") this.refuse(node, "the type of `none` is not known here");
        return { k: "const", t: want, value: null };
      case "date":
        if (!isCalendarDay(node.value)) this.refuse(node, "this is not a valid date");
        return { k: "const", t: types.DATE, value: node.value };
      case "quantity":
        return this.checkQuantity(node);
      case "fieldRef":
        if (!this.fields.has(node.path)) this.refuse(node, `there is no field \`${node.path.slice(0, 80)}\``);
        this.reads.add(node.path);
        return { k: "field", t: this.fields.get(node.path), path: node.path };
      case "variable":
        return this.checkVariable(node, want);
      case "query":
        return this.checkQuery(node);
      case "call":
        return this.checkCall(node, want);
      case "list":
        return this.checkList(node, want);
      case "record":
        return this.checkRecord(node, want);
      case "unary":
        return this.checkUnary(node);
      case "chain":
        return node.links[0].op === "??" ? this.checkCoalesce(node, want) : this.checkChain(node, want);
      case "comparison":
        return node.op === "in" ? this.checkMembership(node) : this.checkComparison(node);
      case "presence":
        return this.checkPresence(node);
      case "interpolation":
        return { k: "call", op: "concat", t: types.TEXT, args: node.parts.map((part) => this.checkPiece(part)), fixed: {} };
      case "member":
        return this.checkMember(node);
      case "if":
        return this.checkIf(node, want);
      case "scoped":
        return this.checkScoped(node, want);
      case "match":
        return this.checkMatch(node, want);
      case "block":
        return this.checkBlock(node, want);
      default:
        return this.refuse(node, "a function can only be an argument of a function on lists");
    }
  }
  requireNumberBounds(node) {
    const [whole, fraction = ""] = node.digits.split(".");
    if (whole.replace(/^0+/, "").length > 36 || fraction.length > QUANTITY_SCALE) this.refuse(node, "this number is too large, or has too many decimals");
  }
  checkNumber(node, want) {
    this.requireNumberBounds(node);
    if (want?.k !== "Dec") return this.typeAsWritten(node);
    const decimals = (node.digits.split(".")[1] ?? "").replace(/0+$/, "").length;
    if (decimals > getScaleOf(want)) this.refuse(node, "this number has too many decimals");
    return { k: "const", t: want, value: scaleDigits(node, getScaleOf(want)) };
  }
  typeAsWritten(node) {
    if (!node.digits.includes(".")) return { k: "const", t: this.types.INT, value: scaleDigits(node, 0) };
    const scale = node.digits.split(".")[1].length;
    return { k: "const", t: this.types.dec(scale), value: scaleDigits(node, scale) };
  }
  typeBeside(node, other) {
    this.requireNumberBounds(node);
    return other.k === "Dec" && !node.digits.includes(".") ? { k: "const", t: this.types.dec(0), value: scaleDigits(node, 0) } : this.typeAsWritten(node);
  }
  chooseNumberType(numbers) {
    const scales = numbers.filter((node) => node.digits.includes(".")).map((node) => node.digits.split(".")[1].length);
    return scales.length ? this.types.dec(Math.max(...scales)) : this.types.INT;
  }
  checkQuantity(node) {
    if (!isUnit(node.unit)) this.refuse(node, `there is no unit \`${node.unit}\``);
    this.requireNumberBounds(node.number);
    return { k: "const", t: this.types.qty(node.unit), value: scaleDigits(node.number, QUANTITY_SCALE) };
  }
  checkVariable(node, want) {
    const bound = this.scope.get(node.name);
    if (bound !== undefined) {
      for (const mentioned of this.lambdas.slice(bound.level)) mentioned.set(node.name, Math.min(node.start, mentioned.get(node.name) ?? node.start));
      return { k: "local", t: bound.type, name: node.name };
    }
    const definition = this.definitions.get(node.name);
    if (definition !== undefined && this.sees(node.start, definition.node.start)) {
      this.prepareDefinition(node.name);
      this.reads.add(`def ${node.name}`);
      return { k: "definition", t: definition.type, name: node.name };
    }
    const enums = this.listMemberEnums(node);
    const wanted = enums.filter((type) => type === want);
    if (enums.length === 1 || wanted.length) return { k: "const", t: wanted[0] ?? enums[0], value: node.name };
    return this.refuse(node, enums.length ? `\`${node.name}\` is a member of several enumerations` : `there is no variable \`${node.name}\` here`);
  }
  listMemberEnums(node) {
    return [...this.enums.values()].filter(({ type, start }) => type.members.includes(node.name) && this.sees(node.start, start)).map(({ type }) => type);
  }
  isAmbiguous(node) {
    return node.k === "variable" && !this.scope.has(node.name) && this.listMemberEnums(node).length > 1;
  }
  checkQuery(node) {
    const fact = this.resolveFact(node.fact, node);
    const key = this.requireText(node.key);
    const [prefix, isSingle] = FACT_KEYS[(fact.name)];
    if (isSingle === node.isPlural) this.refuse(node, "there is one such fact for each product, or several: `all` is missing, or too much");
    const args = [{ k: "const", t: this.types.TEXT, value: prefix }, key];
    if (node.isPlural) args.push({ k: "const", t: this.types.TEXT, value: ":" });
    const text = { k: "call", op: "concat", t: this.types.TEXT, args, fixed: {} };
    return node.isPlural ? { k: "facts", t: this.types.list(fact), fact, key: text } : { k: "fact", t: this.types.opt(fact), fact, key: text };
  }
  resolveFact(text, node) {
    const fact = this.types.fact(text.includes("@") ? text : `${text}@1`);
    if (fact === null) return this.refuse(node, `there is no fact type \`${text.slice(0, 80)}\``);
    this.facts.add(fact);
    return fact;
  }
  requireText(node) {
    const expr = this.check(node);
    if (expr.t !== this.types.TEXT) this.refuse(node, "this must be a `Text`");
    return expr;
  }
  requireBool(node, expr) {
    if (expr.t !== this.types.BOOL) this.refuse(node, "this must be a `Bool`");
    return expr;
  }
  checkCall(node, want) {
    const declared = this.functions.get(node.name) ?? this.enums.get(node.name) ?? this.tables.get(node.name);
    if (declared === undefined || !this.sees(node.start, declared.start ?? declared.node.start)) return checkBuiltin(this, node, want);
    if (this.functions.has(node.name)) {
      const { kinds, result } = declared;
      if (node.args.length !== kinds.length) this.refuse(node, "a call has another number of arguments than its function");
      this.reads.add(`fn ${node.name}`);
      return { k: "function", t: result, name: node.name, args: node.args.map((each, at) => this.check(each, kinds[at])) };
    }
    if (this.enums.has(node.name)) {
      const argument = this.check(node.args[0] ?? node);
      if (node.args.length !== 1 || unwrapOption(argument.t) !== this.types.TEXT) this.refuse(node, `\`${node.name}\` needs a \`Text\``);
      return { k: "call", op: "toEnum", t: this.types.opt(declared.type), args: [argument], fixed: { enum: node.name } };
    }
    if (node.args.length !== declared.columns.length) this.refuse(node, "a lookup has another number of arguments than its table has columns");
    const args = node.args.map((each, at) => this.check(each, declared.columns[at]));
    return { k: "table", t: this.types.opt(declared.type), table: node.name, args };
  }
  checkList(node, want) {
    if (node.items.length === 0) {
      if (want?.k !== "List") this.refuse(node, "the type of `[]` is not known here");
      return { k: "list", t: want, items: [] };
    }
    const [type, items] = this.checkSameType(node.items, want?.k === "List" ? want.item : null);
    return { k: "list", t: this.types.list(type), items };
  }
  checkSameType(nodes, want) {
    if (want !== null) return [want, nodes.map((node) => this.check(node, want))];
    const first = nodes.findIndex((node) => !isUndecided(node));
    if (first < 0) {
      const numbers = nodes.filter((node) => node.k === "number");
      if (numbers.length === 0) this.refuse(nodes[0], "the type is not known here");
      for (const number of numbers) this.requireNumberBounds(number);
      const type = this.chooseNumberType(numbers);
      return [type, nodes.map((node) => this.check(node, type))];
    }
    const decided = this.check(nodes[first]);
    return [decided.t, nodes.map((node, at) => (at === first ? decided : this.check(node, decided.t)))];
  }
  checkRecord(node, want) {
    const wanted = want?.k === "Record" ? want.members : new Map();
    const names = node.members.map((member) => member.name);
    if (new Set(names).size < names.length) this.refuse(node, "a member is listed twice");
    const members = node.members.map(({ name, value }) => ({ name, value: this.check(value, wanted.get(name) ?? null) }));
    for (const { value } of members) if (value.t.hasFacts) this.refuse(node, "a record cannot contain fact records");
    const type = this.types.record(members.map(({ name, value }) => [name, value.t]));
    return { k: "record", t: type, members };
  }
  checkMember(node) {
    const named = node.record;
    if (named.k === "variable" && !this.scope.has(named.name) && !this.definitions.has(named.name)) {
      const known = this.enums.get(named.name);
      if (known !== undefined && this.sees(node.start, known.start)) {
        if (!known.type.members.includes(node.name)) this.refuse(node, `\`${named.name}\` has no member \`${node.name}\``);
        return { k: "const", t: known.type, value: node.name };
      }
    }
    const record = this.check(named);
    const inner = unwrapOption(record.t);
    const type = inner.k === "Fact" || inner.k === "Record" ? this.types.listMembers(inner).get(node.name) : undefined;
    if (type === undefined) return this.refuse(node, `\`${record.t.text.slice(0, 80)}\` has no member \`${node.name}\``);
    const isOption = record.t !== inner || inner.k === "Fact";
    return { k: "call", op: "member", t: isOption && type.k !== "Opt" ? this.types.opt(type) : type, args: [record], fixed: { member: node.name } };
  }
  checkUnary(node) {
    const operand = this.check(node.operand);
    if (node.op === "!") return { k: "unary", op: "!", t: this.types.BOOL, operand: this.requireBool(node.operand, operand) };
    if (!isNumberType(operand.t)) this.refuse(node, "`-` needs an Int, a Dec or a Qty");
    return { k: "unary", op: "neg", t: operand.t, operand };
  }
  checkChain(node, want) {
    const nodes = [node.first, ...node.links.map((link) => link.operand)];
    const operands = nodes.map((each) => this.check(each));
    const { op } = node.links[0];
    if (op === "&&" || op === "||") {
      operands.forEach((operand, at) => this.requireBool(nodes[at], operand));
      return { k: "logic", op, t: this.types.BOOL, first: operands[0], operands: operands.slice(1) };
    }
    const scaled = op === "+" || op === "-" ? this.scaleLiterals(nodes, operands, want) : operands;
    scaled.forEach((operand, at) => isNumberType(operand.t) || this.refuse(nodes[at], "an operator works on Int, Dec and Qty"));
    let type = scaled[0].t;
    const steps = node.links.map((link, at) => {
      const result = this.findResultType(link.op, type, scaled[at + 1].t);
      if (result === null) return this.refuse(node, `\`${type.text} ${link.op} ${scaled[at + 1].t.text}\` is not possible`);
      type = result;
      return { op: link.op, operand: scaled[at + 1], t: type };
    });
    return { k: "arithmetic", t: type, first: scaled[0], steps };
  }
  scaleLiterals(nodes, operands, want) {
    const numbers = nodes.filter((node) => node.k === "number");
    if (numbers.length === 0) return operands;
    const others = operands.filter((_, at) => nodes[at].k !== "number").map((operand) => operand.t);
    const type = others.length ? (others.find((each) => each !== this.types.INT) ?? this.types.INT) : want === this.types.INT || want?.k === "Dec" ? want : this.chooseNumberType(numbers);
    return nodes.map((node, at) => {
      if (node.k !== "number") return operands[at];
      if (type.k === "Dec") return this.checkNumber(node, type);
      if (type === this.types.INT && node.digits.includes(".")) return this.checkNumber(node, this.chooseNumberType(numbers));
      return this.typeAsWritten(node);
    });
  }
  findResultType(op, one, other) {
    const { types } = this;
    if (op === "+" || op === "-") {
      if (one === other) return one;
      if (one === types.INT && other.k === "Dec") return other;
      return other === types.INT && one.k === "Dec" ? one : null;
    }
    if (op === "*") {
      if (one.k === "Qty" && other.k === "Qty") return this.findQuantity(multiplyUnits((one.unit), (other.unit)));
      if (one.k === "Qty") return one;
      if (other.k === "Qty" || one === types.INT) return other;
      if (other === types.INT) return one;
      const scale = getScaleOf(one) + getScaleOf(other);
      return scale <= LARGEST_SCALE ? types.dec(scale) : null;
    }
    if (other.k !== "Qty") return one.k === "Qty" ? one : types.dec(QUANTITY_SCALE);
    if (one === other) return types.dec(QUANTITY_SCALE);
    return one.k === "Qty" ? this.findQuantity(divideUnits((one.unit), (other.unit))) : null;
  }
  findQuantity(unit) {
    return unit === null ? null : this.types.qty(unit);
  }
  checkComparison(node) {
    const [left, right] = this.checkSides(node);
    const areDecs = left.t.k === "Dec" && right.t.k === "Dec";
    if (left.t !== right.t && !areDecs) this.refuse(node, `\`${left.t.text.slice(0, 80)}\` cannot be compared with \`${right.t.text.slice(0, 80)}\``);
    const isEquality = node.op === "==" || node.op === "!=";
    if (left.t.hasFacts || (!isEquality && !isOrderedType(left.t))) this.refuse(node, `\`${node.op}\` does not compare \`${left.t.text.slice(0, 80)}\``);
    return { k: "comparison", op: node.op, t: this.types.BOOL, of: left.t.k === "Dec" ? "Dec" : left.t.text, left, right };
  }
  checkSides({ op, left: one, right: other }) {
    if (isUndecided(one) && isUndecided(other)) {
      if (one.k === "number" && other.k === "number") {
        const type = this.chooseNumberType([one, other]);
        return [this.typeBeside(one, type), this.typeBeside(other, type)];
      }
      const right = this.check(other);
      return [this.checkLiteralSide(op, one, right), right];
    }
    if (isUndecided(one)) {
      const right = this.check(other);
      return [this.checkLiteralSide(op, one, right), right];
    }
    if (isUndecided(other)) {
      const left = this.check(one);
      return [left, this.checkLiteralSide(op, other, left)];
    }
    const takesType = (each) => this.isAmbiguous(each) || isSomeNumber(each);
    if (takesType(one) && !takesType(other)) {
      const right = this.check(other);
      return [this.checkBeside(one, right.t), right];
    }
    const left = this.check(one);
    return [left, takesType(other) ? this.checkBeside(other, left.t) : this.check(other)];
  }
  checkBeside(node, type) {
    const isTaken = !isSomeNumber(node) || (type.k === "Opt" && type.item.k === "Dec");
    return isTaken ? this.check(node, type) : this.check(node);
  }
  checkLiteralSide(op, literal, other) {
    if (literal.k === "number") return this.typeBeside(literal, other.t);
    if (op !== "==" && op !== "!=") this.refuse(literal, `\`${op}\` does not compare such values`);
    return this.check(literal, other.t);
  }
  checkCoalesce(node, want) {
    const nodes = [node.first, ...node.links.map((link) => link.operand)];
    const first = this.requireOption(nodes[0]);
    const option = first.t;
    const middle = nodes.slice(1, -1).map((each) => this.check(each, option));
    const lastNode = nodes[nodes.length - 1];
    let last;
    if (want === option || lastNode.k === "none") last = this.check(lastNode, option);
    else if (want === option.item || listResults(lastNode).every((each) => ["number", "list", "record"].includes(each.k))) last = this.check(lastNode, option.item);
    else last = this.check(lastNode);
    if (last.t !== option && last.t !== option.item) this.refuse(lastNode, `expected \`${option.item.text}\`, but this is \`${last.t.text}\``);
    return { k: "coalesce", t: last.t, first, operands: [...middle, last] };
  }
  requireOption(node) {
    const expr = this.check(node);
    if (expr.t.k !== "Opt") this.refuse(node, "this must be an option, a value that may be absent");
    return expr;
  }
  requireList(node) {
    const expr = this.check(node);
    if (expr.t.k !== "List") this.refuse(node, "this must be a List");
    return expr;
  }
  checkPresence(node) {
    const isSome = { k: "call", op: "isSome", t: this.types.BOOL, args: [this.requireOption(node.operand)], fixed: {} };
    return node.isPresent ? isSome : { k: "unary", op: "!", t: this.types.BOOL, operand: isSome };
  }
  checkMembership(node) {
    let value, items;
    if (isUndecided(node.left)) {
      items = this.requireList(node.right);
      value = this.check(node.left, items.t.item);
    } else {
      value = this.check(node.left);
      items = node.right.k === "list" ? this.check(node.right, this.types.list(value.t)) : this.requireList(node.right);
    }
    if (items.t.item !== value.t || value.t.hasFacts) this.refuse(node, "`in` needs a list of values of one type");
    return { k: "call", op: "in", t: this.types.BOOL, args: [value, items], fixed: {} };
  }
  checkPiece(node) {
    const expr = this.check(node);
    return expr.t === this.types.TEXT ? expr : this.writeAsText(node, expr);
  }
  writeAsText(node, expr) {
    const type = unwrapOption(expr.t);
    if (!["Bool", "Int", "Text", "Date", "Dec", "Qty", "Enum"].includes(type.k)) this.refuse(node, "this cannot be written as a text");
    return { k: "call", op: "text", t: this.types.TEXT, args: [expr], fixed: { of: type.k === "Dec" ? "Dec" : type.text } };
  }
  checkIf(node, want) {
    const conditions = node.branches.map((branch) => (branch.binding === null ? this.requireBool(branch.condition, this.check(branch.condition)) : this.requireOption(branch.condition)));
    const bodies = node.branches.map((branch, at) =>
      branch.binding === null || isUndecided(branch.body) ? branch.body : { k: "scoped", name: branch.binding, type: conditions[at].t.item, body: branch.body, start: branch.body.start },
    );
    const [type, exprs] = this.checkSameType([...bodies, node.otherwise], want);
    const branches = node.branches.map((branch, at) => ({ condition: conditions[at], binding: branch.binding, body: exprs[at] }));
    return { k: "if", t: type, branches, otherwise: exprs[exprs.length - 1] };
  }
  checkScoped(node, want) {
    this.bind(node, node.name, node.type);
    const body = this.checkAny(node.body, want);
    this.scope.delete(node.name);
    return body;
  }
  bind(node, name, type) {
    if (this.scope.has(name)) this.refuse(node, `the name \`${name}\` is already in use`);
    this.scope.set(name, { type, level: this.lambdas.length });
  }
  checkMatch(node, want) {
    const subject = this.check(node.subject);
    const type = unwrapOption(subject.t);
    if (type.k !== "Enum") this.refuse(node, "`match` needs an enumeration");
    const open = new Set([...type.members, ...(subject.t.k === "Opt" ? ["none"] : [])]);
    const members = node.arms.map((arm) => {
      const names = arm.patterns[0] === "else" ? [...open] : arm.patterns;
      for (const name of names) if (!open.delete(name)) this.refuse(node, `\`${name}\` is no member, or is taken by another case`);
      return names.map((name) => (name === "none" ? null : name));
    });
    if (open.size) this.refuse(node, "the match has no case for some members");
    const [result, bodies] = this.checkSameType(node.arms.map((arm) => arm.body), want);
    return { k: "match", t: result, subject, arms: bodies.map((body, at) => ({ members: members[at], body })) };
  }
  checkBlock(node, want) {
    const bound = [];
    const bindings = node.bindings.map((binding) => {
      if (binding.k === "assert") return { ...binding, condition: this.requireBool(binding.condition, this.check(binding.condition)) };
      const value = this.check(binding.value);
      this.bind(node, binding.name, value.t);
      bound.push(binding.name);
      return { k: "let", name: binding.name, value };
    });
    const body = this.check(node.body, want);
    for (const name of bound) this.scope.delete(name);
    return { k: "block", t: body.t, bindings, body };
  }
}
function isUndecided(node) {
  return node.k === "number" || node.k === "none" || (node.k === "list" && node.items.length === 0);
}
function isSomeNumber(node) {
  return node.k === "call" && node.name === "some" && node.args.length === 1 && node.args[0].k === "number";
}
function listResults(node) {
  if (node.k === "if") return [...node.branches.map((branch) => branch.body), node.otherwise].flatMap(listResults);
  return node.k === "block" ? listResults(node.body) : [node];
}
function scaleDigits(node, scale) {
  const [whole, fraction = ""] = node.digits.split(".");
  const count = BigInt(whole + fraction.slice(0, scale).padEnd(scale, "0"));
  return node.negative ? -count : count;
}
const PRECEDENCE = { "||": 1, "&&": 2, "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "??": 4, "+": 5, "-": 5, "*": 6, "/": 6 };
const COMPARISON_LEVEL = 3;
const SIMPLE_TYPES = new Set(["Bool", "Int", "Text", "Date"]);
const CONTAINERS = new Set(["Opt", "List", "Map"]);
const AUDIENCE_WORDS = new Set(["public", "interest", "authority"]);
const ABOUT_CLAUSES = new Set(["group", "order", "cite", "unit", "help", "label"]);
const TEST_WORDS = new Set(["example", "property", "fixture", "cases"]);
const LAYER_WORDS = new Set(["model", "batch", "item"]);
const PIECE_NAME = /^\{[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*:/;
class RuleParser {
  constructor(text, language, start = 0, end = text.length) {
    this.text = text;
    this.language = language;
    this.tokens = lexRules(text, language, start, end);
    this.at = 0;
  }
  get kind() {
    return this.tokens[this.at].kind;
  }
  get word() {
    return this.tokens[this.at].text;
  }
  refuse(message) {
    throw new RuleMistake(message, this.tokens[this.at].start);
  }
  isWord(word, ahead = 0) {
    const token = this.tokens[this.at + ahead];
    return token.kind === "name" && token.text === word;
  }
  isAnyWord(ahead = 0) {
    const { kind } = this.tokens[this.at + ahead];
    return kind === "name" || RESERVED_WORDS.has(kind);
  }
  accept(kind) {
    if (this.kind !== kind) return false;
    this.at += 1;
    return true;
  }
  expect(kind) {
    if (!this.accept(kind)) this.refuse(`expected \`${kind}\`, found \`${this.word.slice(0, 80)}\``);
  }
  expectWord(word) {
    if (!this.isWord(word)) this.refuse(`expected \`${word}\``);
    this.at += 1;
  }
  spanFrom(first) {
    const last = this.tokens[this.at - 1];
    return { start: this.tokens[first].start, end: last.start + last.text.length };
  }
  parseName() {
    if (!this.isAnyWord()) this.refuse("expected a name");
    this.at += 1;
    return this.tokens[this.at - 1].text;
  }
  parseVariable() {
    if (this.kind !== "name" || (this.language > 1 && this.word === "match")) this.refuse("expected a name that is not reserved");
    return this.parseName();
  }
  parseText() {
    if (this.kind !== "text") this.refuse("expected a text in quotes");
    this.at += 1;
    return decodeRuleText(this.tokens[this.at - 1].text);
  }
  parseAll() {
    const items = [];
    const newest = new Map();
    while (this.kind !== "") {
      if (this.isWord("language") && this.tokens[this.at + 1].kind === "number") {
        this.at += 2;
        this.expect(";");
        continue;
      }
      const isOverride = this.language > 1 && this.isWord("override") && this.tokens[this.at + 1].kind === "text";
      if (isOverride) this.at += 2;
      const item = this.parseItem();
      if (item === null) continue;
      const key = `${item.word} ${item.name}`;
      if (isOverride) {
        if (!newest.has(key)) this.refuse(`there is no \`${item.name}\` to override`);
        items[newest.get(key)] = null;
      } else if (newest.has(key)) throw new RuleMistake(`\`${item.name}\` is declared twice`, item.start);
      newest.set(key, items.length);
      items.push(item);
    }
    return items.filter((item) => item !== null);
  }
  parseItem() {
    if (this.kind === "field") return this.parseRule();
    if (TEST_WORDS.has(this.word)) return this.skipTest();
    if (this.language > 1) {
      if (this.kind === "fn") return this.parseFunction();
      if (this.isWord("def") || this.isWord("const")) return this.parseDefinition();
      if (this.isWord("require")) return this.parseRequirement();
      if (this.isWord("enum")) return this.parseEnum();
      if (this.isWord("table")) return this.parseTable();
    }
    return this.refuse(`expected \`field\`, found \`${this.word.slice(0, 80)}\``);
  }
  skipTest() {
    let depth = 0;
    do {
      if ("([{".includes(this.kind) && this.kind !== "") depth += 1;
      if (")]}".includes(this.kind) && this.kind !== "") depth -= 1;
      this.at += 1;
    } while (this.kind !== "" && (depth > 0 || !this.isAtItem()));
    return null;
  }
  isAtItem() {
    const before = this.tokens[this.at - 1].kind;
    if (before !== ";" && before !== "}") return false;
    const words = ["field", "example", "property", "fn", "def", "const", "require", "enum", "table", "fixture", "cases", "override", "language"];
    return words.includes(this.word);
  }
  parseRule() {
    const first = this.at++;
    const path = [this.parseName()];
    while (this.accept(".")) path.push(this.parseName());
    const access = [];
    while (this.accept("@")) {
      const audience = this.parseName();
      if (!AUDIENCE_WORDS.has(audience) || access.includes(audience)) this.refuse("an audience is unknown or listed twice");
      access.push(audience);
    }
    this.expect(":");
    const type = this.parseType();
    this.expect("=");
    const body = this.parseExpr();
    let layer = null;
    if (this.language > 1) {
      layer = this.parseLayer();
      if (this.isWord("about")) this.skipAbout();
    }
    this.expect(";");
    return { k: "rule", word: "field", name: path.join("."), access: access.sort(), type, body, layer, ...this.spanFrom(first) };
  }
  parseLayer() {
    if (!this.isWord("layer")) return null;
    this.at += 1;
    const layer = this.parseName();
    return LAYER_WORDS.has(layer) ? layer : this.refuse("there is no such layer");
  }
  skipAbout() {
    this.at += 1;
    if (this.kind === "name") {
      this.at += 1;
      this.accept("part");
    }
    this.parseText();
    while (this.kind === "name" && ABOUT_CLAUSES.has(this.word)) {
      const clause = this.parseName();
      if (clause === "order") this.expect("number");
      else {
        if (this.isAnyWord()) this.parseName();
        this.parseText();
      }
    }
  }
  parseDefinition() {
    const first = this.at;
    const word = this.parseName();
    const name = this.parseVariable();
    const type = this.accept(":") ? this.parseType() : null;
    this.expect("=");
    const body = this.parseExpr();
    let missing = null;
    if (this.kind === "else") {
      if (word === "const") this.refuse("a constant is never missing");
      this.at += 1;
      this.expectWord("missing");
      this.expect("(");
      let [code, message] = [`MISSING_${name.toUpperCase()}`, this.parseText()];
      if (this.accept(",")) [code, message] = [message, this.parseText()];
      this.expect(")");
      missing = { code, message };
    }
    this.expect(";");
    return { k: "definition", word, name, type, body, missing, ...this.spanFrom(first) };
  }
  parseFunction() {
    const first = this.at++;
    const name = this.parseVariable();
    this.expect("(");
    const parameters = [];
    while (this.kind !== ")") {
      const parameter = this.parseVariable();
      this.expect(":");
      parameters.push({ name: parameter, type: this.parseType() });
      if (!this.accept(",")) break;
    }
    this.expect(")");
    this.expect(":");
    const type = this.parseType();
    this.expect("=");
    const body = this.parseExpr();
    this.expect(";");
    return { k: "function", word: "fn", name, parameters, type, body, ...this.spanFrom(first) };
  }
  parseRequirement() {
    const first = this.at++;
    const name = this.parseName();
    const title = this.parsePrimary();
    if (title.k !== "text" && title.k !== "interpolation") this.refuse("expected the title of the requirement in quotes");
    const scope = this.parseClause("when");
    let [from, to, day] = [null, null, null];
    if (this.isWord("in")) {
      this.at += 1;
      this.expectWord("force");
      this.expectWord("from");
      from = this.parseExpr();
      to = this.parseClause("to");
      day = this.parseClause("on");
    }
    this.expect(":");
    const condition = this.parseExpr();
    const message = this.accept("else") ? this.parseExpr() : null;
    let isCited = this.parseCite();
    let severity = "fail";
    if (this.isWord("severity")) {
      this.at += 1;
      severity = this.parseName();
      if (severity !== "fail" && severity !== "warn") this.refuse("there is no such severity");
    }
    const layer = this.parseLayer();
    if (!isCited) isCited = this.parseCite();
    this.expect(";");
    return { k: "requirement", word: "require", name, title, scope, from, to, day, condition, message, severity, layer, ...this.spanFrom(first) };
  }
  parseClause(word) {
    if (!this.isWord(word)) return null;
    this.at += 1;
    return this.parseExpr();
  }
  parseCite() {
    if (!this.isWord("cite")) return false;
    this.at += 1;
    this.parseText();
    return true;
  }
  parseEnum() {
    const first = this.at++;
    const name = this.parseName();
    this.expect("=");
    const members = [];
    do {
      const member = { name: this.parseVariable(), spellings: ([]) };
      while (this.kind === "text") member.spellings.push(this.parseText());
      members.push(member);
    } while (this.accept("|"));
    this.expect(";");
    return { k: "enum", word: "enum", name, members, ...this.spanFrom(first) };
  }
  parseTable() {
    const first = this.at++;
    const name = this.parseName();
    this.expect("(");
    const columns = [];
    do {
      const column = this.parseName();
      this.expect(":");
      columns.push({ name: column, type: this.parseType() });
    } while (this.accept(","));
    this.expect(")");
    this.expect(":");
    const type = this.parseType();
    this.parseCite();
    this.expect("{");
    const rows = [];
    while (this.kind !== "}") {
      const cells = [this.parseCell()];
      while (this.accept(",")) cells.push(this.parseCell());
      this.expect(":");
      const value = this.parseConstant();
      this.parseCite();
      this.expect(";");
      rows.push({ cells, value });
    }
    this.expect("}");
    this.accept(";");
    return { k: "table", word: "table", name, columns, type, rows, ...this.spanFrom(first) };
  }
  parseCell() {
    if (this.isWord("from") || this.isWord("to")) {
      const low = this.parseBound("from");
      return { low, high: this.parseBound("to") };
    }
    const keys = [this.parseConstant()];
    while (this.accept("|")) keys.push(this.parseConstant());
    return { keys };
  }
  parseBound(word) {
    if (!this.isWord(word)) return null;
    this.at += 1;
    return this.parseConstant();
  }
  parseConstant() {
    const first = this.at;
    if (this.kind === "[") return { k: "list", items: this.parseItems("]", () => this.parseConstant()), ...this.spanFrom(first) };
    if (this.kind === "{") return { k: "record", members: this.parseItems("}", () => this.parseMember(() => this.parseConstant())), ...this.spanFrom(first) };
    if (this.kind === "-") {
      this.at += 1;
      return this.parseNumber(first);
    }
    if (this.isWord("some") && this.tokens[this.at + 1].kind === "(") {
      this.at += 2;
      const item = this.parseConstant();
      this.expect(")");
      return { k: "someConstant", item, ...this.spanFrom(first) };
    }
    const isCall = this.kind === "name" && this.tokens[this.at + 1].kind === "(" && !this.isWord("date") && !this.isWord("qty");
    if (isCall) this.refuse("expected a literal value");
    if (this.kind === "text") return { k: "text", value: this.parseText(), ...this.spanFrom(first) };
    if (!["number", "true", "false", "none", "name"].includes(this.kind)) this.refuse("expected a literal value");
    return this.parsePrimary();
  }
  parseType() {
    const first = this.at;
    if (this.kind !== "name") this.refuse("expected a type");
    const name = this.parseName();
    if (SIMPLE_TYPES.has(name)) return { k: "simple", name };
    if (name === "Dec" && this.accept("(")) {
      const scale = Number(this.word);
      this.expect("number");
      this.expect(")");
      return { k: "Dec", scale, ...this.spanFrom(first) };
    }
    if (name === "Qty" && this.accept("(")) {
      const unit = this.parseName();
      this.expect(")");
      return { k: "Qty", unit, ...this.spanFrom(first) };
    }
    if (name === "Record" && this.accept("(")) {
      const members = [];
      do {
        const member = this.parseName();
        this.expect(":");
        members.push({ name: member, type: this.parseType() });
      } while (this.accept(","));
      this.expect(")");
      return { k: "Record", members, ...this.spanFrom(first) };
    }
    if (CONTAINERS.has(name) && this.accept("(")) {
      if (name === "Map") {
        this.expectWord("Text");
        this.expect(",");
      }
      const item = this.parseType();
      this.expect(")");
      return { k: name, item, ...this.spanFrom(first) };
    }
    if (this.language === 1) this.refuse(`there is no type \`${name}\``);
    return { k: "named", name, ...this.spanFrom(first) };
  }
  parseExpr() {
    if (this.kind === "if") return this.parseIf();
    return this.kind === "let" || this.kind === "assert" ? this.parseBlock() : this.parseOperation();
  }
  parseOperation() {
    const first = this.at;
    return this.parseOperators(first, this.parseOperand());
  }
  parseOperand() {
    if (this.kind !== "-" && this.kind !== "!") return this.parseMembers(this.at, this.parsePrimary());
    const signs = [];
    while (this.kind === "-" || this.kind === "!") signs.push(this.at++);
    let operand;
    if (this.kind === "number" && this.tokens[this.at - 1].kind === "-") operand = this.parseNumber((signs.pop()));
    else operand = this.parseMembers(this.at, this.parsePrimary());
    for (const sign of signs.reverse()) operand = { k: "unary", op: this.tokens[sign].kind, operand, ...this.spanFrom(sign) };
    return operand;
  }
  parseMembers(first, operand) {
    let node = operand;
    while (this.language > 1 && this.accept(".")) node = { k: "member", record: node, name: this.parseName(), ...this.spanFrom(first) };
    return node;
  }
  getPrecedence() {
    if (this.kind === "name") return this.language > 1 && (this.isWord("in") || this.isWord("is")) && !this.isWord("force", 1) ? COMPARISON_LEVEL : 0;
    return PRECEDENCE[this.kind] ?? 0;
  }
  parseOperators(start, operand) {
    const chains = [];
    let [first, left] = [start, operand];
    for (;;) {
      const level = this.getPrecedence();
      while (chains.length && chains[chains.length - 1].level > level) {
        const chain = (chains.pop());
        left = this.closeChain(chain, left);
        first = chain.start;
      }
      if (level === 0) return left;
      const top = chains[chains.length - 1];
      if (this.isWord("is")) {
        if (top?.level === COMPARISON_LEVEL) this.refuse("comparisons cannot be chained");
        this.at += 1;
        const isPresent = this.isWord("present");
        if (!isPresent && !this.isWord("absent")) this.refuse("expected `present` or `absent`");
        this.at += 1;
        left = { k: "presence", operand: left, isPresent, ...this.spanFrom(first) };
        continue;
      }
      if (top?.level === level) {
        if (level === COMPARISON_LEVEL) this.refuse("comparisons cannot be chained");
        top.links.push({ op: top.op, operand: left });
      } else chains.push({ level, start: first, first: left, links: [], op: "" });
      chains[chains.length - 1].op = this.word;
      this.at += 1;
      first = this.at;
      left = this.parseOperand();
    }
  }
  closeChain(chain, right) {
    const span = this.spanFrom(chain.start);
    if (chain.level === COMPARISON_LEVEL) return { k: "comparison", op: chain.op, left: chain.first, right, ...span };
    return { k: "chain", first: chain.first, links: [...chain.links, { op: chain.op, operand: right }], ...span };
  }
  parseIf() {
    const first = this.at;
    const branches = [];
    do {
      this.expect("if");
      let binding = null;
      if (this.language > 1 && this.isWord("some") && this.tokens[this.at + 1].kind !== "(") {
        this.at += 1;
        binding = this.parseVariable();
        this.expect("=");
      }
      const condition = this.language > 1 ? this.parseOperation() : this.parseParenthesis();
      this.expect("then");
      branches.push({ condition, binding, body: this.parseExpr() });
      this.expect("else");
    } while (this.kind === "if");
    const otherwise = this.parseExpr();
    return { k: "if", branches, otherwise, ...this.spanFrom(first) };
  }
  parseBlock() {
    const first = this.at;
    const bindings = [];
    while (this.kind === "let" || this.kind === "assert") {
      if (this.accept("let")) {
        const name = this.parseVariable();
        this.expect("=");
        bindings.push({ k: "let", name, value: this.parseExpr() });
      } else {
        this.expect("assert");
        this.expect("(");
        const condition = this.parseExpr();
        this.expect(",");
        const code = this.parseText();
        this.expect(",");
        const message = this.parseText();
        this.expect(")");
        bindings.push({ k: "assert", condition, code, message });
      }
      this.expect(";");
    }
    const body = this.kind === "if" ? this.parseIf() : this.parseOperation();
    return { k: "block", bindings, body, ...this.spanFrom(first) };
  }
  parseParenthesis() {
    this.expect("(");
    const expr = this.parseExpr();
    this.expect(")");
    return expr;
  }
  parseNumber(first) {
    const digits = this.word;
    this.expect("number");
    return { k: "number", digits, negative: this.tokens[first].kind === "-", ...this.spanFrom(first) };
  }
  parsePrimary() {
    const first = this.at;
    const { kind } = this;
    if (kind === "name") return this.parseNamed(first);
    if (kind === "text") {
      if (this.language > 1 && this.word.includes("{")) return this.parseInterpolation();
      return { k: "text", value: this.parseText(), ...this.spanFrom(first) };
    }
    if (kind === "number") return this.parseNumber(first);
    if (kind === "true" || kind === "false" || kind === "none") {
      this.at += 1;
      return kind === "none" ? { k: "none", ...this.spanFrom(first) } : { k: "bool", value: kind === "true", ...this.spanFrom(first) };
    }
    if (kind === "field") {
      this.at += 1;
      this.expect("(");
      const path = this.parseText();
      this.expect(")");
      return { k: "fieldRef", path, ...this.spanFrom(first) };
    }
    if (kind === "(") return this.parseParenthesis();
    if (kind === "[") return { k: "list", items: this.parseItems("]", () => this.parseExpr()), ...this.spanFrom(first) };
    if (kind === "{") {
      const members = this.parseItems("}", () => this.parseMember(() => this.parseExpr()));
      if (members.length === 0) this.refuse("a record needs at least one member");
      return { k: "record", members, ...this.spanFrom(first) };
    }
    return this.refuse(`expected a value, found \`${this.word.slice(0, 80)}\``);
  }
  parseNamed(first) {
    if (this.language > 1 && this.isWord("match")) return this.parseMatch(first);
    if (this.tokens[this.at + 1].kind === "(") return this.parseCall(first);
    const isPlural = this.isWord("all") && this.tokens[this.at + 1].kind === "name" && this.isWord("for", 2);
    if (this.language > 1 && (isPlural || this.isWord("for", 1))) {
      if (isPlural) this.at += 1;
      const fact = this.parseName();
      this.expectWord("for");
      const keyAt = this.at;
      const key = this.parseMembers(keyAt, this.parsePrimary());
      return { k: "query", fact, key, isPlural, ...this.spanFrom(first) };
    }
    return { k: "variable", name: this.parseName(), ...this.spanFrom(first) };
  }
  parseCall(first) {
    const name = this.parseName();
    if (name === "date") {
      this.expect("(");
      const value = this.parseText();
      this.expect(")");
      return { k: "date", value, ...this.spanFrom(first) };
    }
    if (name === "qty") {
      this.expect("(");
      const numberAt = this.at;
      this.accept("-");
      const number = this.parseNumber(numberAt);
      this.expect(",");
      const unit = this.parseName();
      this.expect(")");
      return { k: "quantity", number, unit, ...this.spanFrom(first) };
    }
    const args = this.parseItems(")", () => (this.kind === "fn" ? this.parseLambda() : this.parseExpr()));
    return { k: "call", name, args, ...this.spanFrom(first) };
  }
  parseLambda() {
    const first = this.at;
    this.expect("fn");
    this.expect("(");
    const parameters = [this.parseVariable()];
    if (this.accept(",")) parameters.push(this.parseVariable());
    this.expect(")");
    this.expect("=>");
    const body = this.parseExpr();
    return { k: "lambda", parameters, body, ...this.spanFrom(first) };
  }
  parseMatch(first) {
    this.at += 1;
    const subject = this.parseExpr();
    const arms = this.parseItems("}", () => {
      const patterns = [this.parsePattern()];
      while (this.accept("|")) patterns.push(this.parsePattern());
      this.expect("=>");
      return { patterns, body: this.parseExpr() };
    }, "{");
    return { k: "match", subject, arms, ...this.spanFrom(first) };
  }
  parsePattern() {
    if (this.kind !== "name" && this.kind !== "none" && this.kind !== "else") this.refuse("expected a member, `none` or `else`");
    return this.parseName();
  }
  parseMember(parseValue) {
    const name = this.parseName();
    this.expect(":");
    return { name, value: parseValue() };
  }
  parseItems(closing, parseItem, opening = { ")": "(", "]": "[", "}": "{" }[closing] ?? "") {
    this.expect(opening);
    const items = [];
    while (this.kind !== closing) {
      items.push(parseItem());
      if (!this.accept(",")) break;
    }
    this.expect(closing);
    return items;
  }
  parseInterpolation() {
    const first = this.at;
    const { text: lexeme, start } = this.tokens[first];
    const parts = [];
    const names = [];
    let hasExpression = false;
    let at = 1;
    while (at < lexeme.length - 1) {
      const end = findPieceEnd(lexeme, at);
      if (lexeme[at] !== "{") {
        parts.push({ k: "text", value: decodeRuleText(`"${lexeme.slice(at, end)}"`), start: start + at, end: start + end });
        names.push(null);
      } else {
        if (lexeme[end - 1] !== "}") this.refuse("the expression in the text has no `}`");
        const name = PIECE_NAME.exec(lexeme.slice(at, end));
        const inner = new RuleParser(this.text, this.language, start + at + (name === null ? 1 : name[0].length), start + end - 1);
        parts.push(inner.parseExpr());
        if (inner.kind !== "") inner.refuse("expected an operator or `}`");
        names.push(name === null ? null : name[1]);
        hasExpression = true;
      }
      at = end;
    }
    this.at += 1;
    const span = this.spanFrom(first);
    if (!hasExpression) return { k: "text", value: decodeRuleText(lexeme), ...span };
    return { k: "interpolation", parts, names, ...span };
  }
}
function findPieceEnd(lexeme, start) {
  let depth = 0;
  const isExpression = lexeme[start] === "{";
  for (let at = start; at < lexeme.length - 1; at++) {
    if (lexeme[at] === "\\") at += 1;
    else if (lexeme[at] === "{") {
      if (!isExpression) return at;
      depth += 1;
    } else if (lexeme[at] === "}" && isExpression) {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  return lexeme.length - 1;
}
const REQUIREMENTS_PATH = "requirements.met";
const FILE_LINE = /-- file "([A-Za-z0-9._-]+)" "[A-Za-z0-9._-]+" "[A-Za-z0-9._/-]+" sha256:[0-9a-f]{64} bytes:([0-9]{1,7})\n/y;
const IMPORT_LINE = /-- import "([A-Za-z0-9._-]+)" "[A-Za-z0-9._-]+" "([A-Za-z0-9._-]+)" "[A-Za-z0-9._-]+"\n/y;
const START_LINE = "language 2;\n";
const PERIOD_START = "the start";
class RuleProgram {
  constructor(bytes) {
    this.text = decodeUtf8(bytes);
    this.language = findLanguage(this.text);
    if (this.language !== 1 && this.language !== 2) throw new RuleMistake("there is no such level of the rule language", 0);
    this.tables = new Map();
    this.checker = new RuleChecker(this.language, readVisibility(this.text));
    const items = new RuleParser(this.text, this.language).parseAll();
    this.offsets = countByteOffsets(this.text);
    this.declare(items);
    this.fields = this.orderFields(items);
  }
  toBytes({ start, end }) {
    return this.offsets === null ? [start, end] : [this.offsets[start], this.offsets[end]];
  }
  declare(items) {
    const { checker } = this;
    const { types } = checker;
    for (const item of items.filter(({ k }) => k === "enum")) {
      const members = item.members.map((member) => member.name);
      const spellings = new Map(members.map((name) => [name, name]));
      for (const member of item.members) {
        for (const spelling of member.spellings) if (!spellings.has(spelling)) spellings.set(spelling, member.name);
      }
      const type = types.add({ k: "Enum", name: item.name, text: item.name, members, spellings });
      checker.enums.set(item.name, { type, start: item.start });
    }
    for (const item of items.filter(({ k }) => k === "table")) {
      const columns = item.columns.map((column) => this.resolve(column.type));
      const type = this.resolve(item.type);
      checker.tables.set(item.name, { columns, type, start: item.start });
      const rows = item.rows.map((row) => ({
        cells: row.cells.map((cell, at) => this.readCell(cell, columns[at])),
        value: row.value.k === "none" ? null : this.readConstant(row.value, type),
      }));
      this.tables.set(item.name, rows);
    }
    for (const item of items.filter(({ k }) => k === "rule")) checker.fields.set(item.name, this.resolve(item.type));
    if (items.some(({ k }) => k === "requirement")) checker.fields.set(REQUIREMENTS_PATH, types.BOOL);
    for (const item of items.filter(({ k }) => k === "function")) {
      const kinds = item.parameters.map((parameter) => this.resolve(parameter.type));
      checker.functions.set(item.name, { node: item, kinds, result: this.resolve(item.type), body: null, reads: new Set() });
    }
    for (const item of items.filter(({ k }) => k === "definition")) checker.definitions.set(item.name, { node: item, type: null, body: null, reads: new Set(), isOpen: false });
    checker.prepareDefinition = (name) => this.prepareDefinition(name);
    for (const name of checker.definitions.keys()) this.prepareDefinition(name);
    for (const entry of checker.functions.values()) this.prepareFunction(entry);
  }
  resolve(node) {
    const { types } = this.checker;
    if (node.k === "simple") return (types.known.get(node.name));
    if (node.k === "named") {
      const known = this.checker.enums.get(node.name);
      if (known === undefined || !this.checker.sees(node.start, known.start)) throw new RuleMistake(`there is no type \`${node.name}\``, node.start);
      return known.type;
    }
    if (node.k === "Dec") {
      if (!(node.scale <= 18)) throw new RuleMistake("a Dec has at most 18 decimals", node.start);
      return types.dec(node.scale);
    }
    if (node.k === "Qty") return this.checker.checkQuantity({ unit: node.unit, number: { digits: "0", negative: false }, start: node.start }).t;
    if (node.k === "Record") return types.record(node.members.map(({ name, type }) => [name, this.resolve(type)]));
    const item = this.resolve(node.item);
    if (node.k === "List") return types.list(item);
    if (node.k === "Map") return types.map(item);
    if (item.k === "Opt") throw new RuleMistake("an option cannot contain an option", node.start);
    return types.opt(item);
  }
  readCell(cell, type) {
    if (cell.keys !== undefined) return { keys: cell.keys.map((key) => this.readConstant(key, type)) };
    const read = (bound) => (bound === null ? null : this.readConstant(bound, type));
    return { low: read(cell.low), high: read(cell.high) };
  }
  readConstant(node, type) {
    if (node.k === "none" && type.k === "Opt") return null;
    if (node.k === "someConstant" && type.k === "Opt") return this.readConstant(node.item, type.item);
    if (node.k === "list" && type.k === "List") return node.items.map((item) => this.readConstant(item, type.item));
    if (node.k === "record" && type.k === "Record") {
      const values = new Map(node.members.map((member) => [member.name, member.value]));
      const record = Object.create(null);
      for (const [name, member] of type.members) record[name] = this.readConstant(values.get(name) ?? node, member);
      return record;
    }
    const constant = this.checker.check(node, type);
    if (constant.k !== "const") throw new RuleMistake("a constant is needed here", node.start);
    return constant.value;
  }
  checkApart(reads, isInRule, check) {
    const { checker } = this;
    const around = { reads: checker.reads, scope: checker.scope, lambdas: checker.lambdas, isInRule: checker.isInRule };
    Object.assign(checker, { reads, scope: new Map(), lambdas: [], isInRule });
    try {
      return check();
    } finally {
      Object.assign(checker, around);
    }
  }
  prepareDefinition(name) {
    const entry = this.checker.definitions.get(name);
    if (entry.body !== null) return;
    if (entry.isOpen) throw new RuleMistake(`\`${name}\` depends on itself`, entry.node.start);
    entry.isOpen = true;
    const { node } = entry;
    const declared = node.type === null ? null : this.resolve(node.type);
    const want = declared === null || node.missing === null ? declared : this.checker.types.opt(declared);
    entry.body = this.checkApart(entry.reads, false, () => this.checker.check(node.body, want));
    entry.type = node.missing === null ? entry.body.t : unwrapOption(entry.body.t);
    if (node.missing !== null && entry.body.t.k !== "Opt") throw new RuleMistake(`\`${name}\` is never missing`, node.start);
  }
  prepareFunction(entry) {
    const { node, kinds, result } = entry;
    entry.body = this.checkApart(entry.reads, false, () => {
      node.parameters.forEach((parameter, at) => this.checker.bind(node, parameter.name, kinds[at]));
      return this.checker.check(node.body, result);
    });
  }
  orderFields(items) {
    const { checker } = this;
    const fields = new Map();
    for (const item of items.filter(({ k }) => k === "rule")) {
      const reads = new Set();
      const type = (checker.fields.get(item.name));
      const body = this.checkApart(reads, true, () => checker.check(item.body, type));
      fields.set(item.name, { path: item.name, access: item.access, type, body, layer: item.layer, reads, start: item.body.start, end: item.body.end });
    }
    const requirements = items.filter(({ k }) => k === "requirement");
    if (requirements.length) {
      const reads = new Set();
      const checks = this.checkApart(reads, true, () => requirements.map((node) => this.checkRequirement(node)));
      const body = { k: "requirements", t: checker.types.BOOL, items: checks };
      fields.set(REQUIREMENTS_PATH, { path: REQUIREMENTS_PATH, access: [], type: checker.types.BOOL, body, layer: null, reads, start: null, end: null });
    }
    const known = new Map();
    const missable = new Set();
    const waiting = new Map([...fields].map(([path, { reads }]) => [path, this.listNeeds(reads, known)]));
    const ordered = [];
    while (waiting.size) {
      const ready = [...waiting].filter(([, needs]) => [...needs].every((path) => !waiting.has(path))).map(([path]) => path);
      if (ready.length === 0) throw new RuleMistake("fields depend on each other in a cycle", 0);
      const [path] = ready.sort(compareTexts);
      waiting.delete(path);
      const field = (fields.get(path));
      if (path !== REQUIREMENTS_PATH && this.canBeMissing(field.reads, missable, new Set())) {
        missable.add(path);
        if (field.type.k !== "Opt") field.type = checker.types.opt(field.type);
      }
      ordered.push(field);
    }
    return ordered;
  }
  listNeeds(reads, known) {
    const needs = new Set();
    for (const key of reads) {
      if (!key.includes(" ")) needs.add(key);
      else {
        if (!known.has(key)) {
          known.set(key, new Set());
          known.set(key, this.listNeeds(this.findEntry(key).reads, known));
        }
        for (const path of (known.get(key))) needs.add(path);
      }
    }
    return needs;
  }
  findEntry(key) {
    const [kind, name] = key.split(" ");
    return (kind === "def" ? this.checker.definitions : this.checker.functions).get(name);
  }
  canBeMissing(reads, missable, seen) {
    for (const key of reads) {
      if (missable.has(key)) return true;
      if (!key.includes(" ") || seen.has(key)) continue;
      seen.add(key);
      const entry = this.findEntry(key);
      if ((entry.node.missing ?? null) !== null || this.canBeMissing(entry.reads, missable, seen)) return true;
    }
    return false;
  }
  checkRequirement(node) {
    const { checker } = this;
    const { types } = checker;
    const scope = node.scope === null ? null : checker.requireBool(node.scope, checker.check(node.scope));
    const [from, to] = [node.from, node.to].map((day) => (day === null ? null : this.checkDay(day)));
    const day = node.day === null ? { k: "call", op: "issuedOn", t: types.DATE, args: [], fixed: {} } : checker.check(node.day, types.DATE);
    const condition = checker.requireBool(node.condition, checker.check(node.condition));
    const title = this.checkMessage(node.title);
    const message = node.message === null ? title : this.checkMessage(node.message);
    const emit = (status, verdict, text = title) => {
      const entry = { k: "emit", t: types.BOOL, code: node.name, status: { k: "const", t: types.TEXT, value: status }, message: text.message, verdict, args: text.args };
      return text.bindings.length ? { k: "block", t: types.BOOL, bindings: text.bindings, body: entry } : entry;
    };
    const choose = (test, then, otherwise, binding = null) => ({
      k: "if",
      t: types.BOOL,
      branches: [{ condition: test, binding, body: then }],
      otherwise,
    });
    const limit = (op, bound, verdict, inner) => {
      const isOption = bound.t.k === "Opt";
      const right = isOption ? { k: "local", t: types.DATE, name: PERIOD_START } : bound;
      const inside = choose({ k: "comparison", op, t: types.BOOL, of: "Date", left: day, right }, emit("NOT_APPLICABLE", verdict), inner);
      return isOption ? choose(bound, inside, op === ">=" ? inner : emit("NOT_APPLICABLE", "undetermined"), PERIOD_START) : inside;
    };
    const severity = node.severity === "warn" ? "WARN" : "FAIL";
    let body = choose(condition, emit("PASS", "assessed"), emit(severity, "assessed", message));
    if (to !== null) body = limit(">=", to, "expired", body);
    if (from !== null) body = limit("<", from, "not_yet_in_force", body);
    if (scope !== null) body = choose(scope, body, emit("NOT_APPLICABLE", "out_of_scope"));
    return { k: "requirement", t: types.BOOL, code: node.name, severity, body, layer: node.layer, start: node.start, end: node.end };
  }
  checkDay(node) {
    const { types } = this.checker;
    const expr = this.checker.check(node, node.k === "none" ? types.opt(types.DATE) : null);
    if (unwrapOption(expr.t) !== types.DATE) throw new RuleMistake("a requirement is in force from a `Date` or an `Opt(Date)`", node.start);
    return expr;
  }
  checkMessage(node) {
    const { checker } = this;
    const expr = checker.requireText(node);
    if (node.k !== "interpolation") return { bindings: [], message: expr, args: [] };
    const bindings = [];
    const args = new Map();
    const parts = node.parts.map((part, at) => {
      if (part.k === "text") return expr.args[at];
      const name = `argument ${bindings.length}`;
      bindings.push({ k: "let", name, value: expr.args[at] });
      const local = { k: "local", t: checker.types.TEXT, name };
      args.set(node.names[at] ?? this.text.slice(part.start, part.end).replace(/[ \t\r\n]+/g, " ").trim(), local);
      return local;
    });
    return { bindings, message: { ...expr, args: parts }, args: [...args] };
  }
}
function countByteOffsets(text) {
  if (encodeUtf8(text).length === text.length) return null;
  const offsets = new Uint32Array(text.length + 1);
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    offsets[at] = count;
    const unit = text.charCodeAt(at);
    count += unit < 0x80 ? 1 : unit < 0x800 || (unit >= 0xd800 && unit <= 0xdfff) ? 2 : 3;
  }
  offsets[text.length] = count;
  return offsets;
}
function readVisibility(text) {
  const imports = new Map();
  const files = [];
  let at = text.startsWith(START_LINE) ? START_LINE.length : text.length;
  for (;;) {
    IMPORT_LINE.lastIndex = at;
    const line = IMPORT_LINE.exec(text);
    if (line === null) break;
    imports.set(line[1], (imports.get(line[1]) ?? new Set()).add(line[2]));
    at += line[0].length;
  }
  if (imports.size === 0) return () => true;
  for (;;) {
    FILE_LINE.lastIndex = at;
    const line = FILE_LINE.exec(text);
    if (line === null) break;
    const start = at + line[0].length;
    let [end, left] = [start, Number(line[2])];
    for (; left > 0 && end < text.length; end++) left -= encodeUtf8(text[end]).length === 3 && text.charCodeAt(end) >= 0xd800 && text.charCodeAt(end) <= 0xdfff ? 2 : encodeUtf8(text[end]).length;
    files.push({ start, end, name: line[1] });
    at = end;
  }
  const imported = new Set([...imports.values()].flatMap((names) => [...names]));
  const own = new Set([...imports].filter(([name]) => !imported.has(name)).flatMap(([, names]) => [...names]));
  const find = (place) => files.find(({ start, end }) => start <= place && place <= end)?.name;
  return (user, declaration) => {
    const [one, other] = [find(user), find(declaration)];
    if (one === undefined || other === undefined || one === other) return true;
    if (imported.has(one)) return imports.get(one)?.has(other) ?? false;
    return !imported.has(other) || own.has(other);
  };
}
const NO_NODE = -1;
const MAX_EVALUATIONS = 20_000_000;
const LONGEST_TEXT = 65_536;
const LONGEST_SHOWN = 256;
class ValueMissing extends Error {
  constructor(cause, node = NO_NODE) {
    super(cause.message);
    this.cause = cause;
    this.node = node;
  }
}
class RuleWalker {
  constructor(program, facts, world) {
    this.program = program;
    this.facts = facts;
    this.world = world;
    this.isByExpression = program.language > 1;
    this.first = program.fields.length + 1;
    this.steps = [];
    this.ids = new Map();
    this.parents = new Set();
    this.values = new Map();
    this.derivations = new Map();
    this.missingFields = new Map();
    this.defined = new Map();
    this.compliance = [];
    this.variables = new Map();
    this.depth = 0;
    this.reads = new Set();
    this.field = "";
    this.evaluations = 0;
  }
  deriveField(field, salt) {
    this.field = field.path;
    const data = makeObject([
      ["op", "derivation"],
      ["salt", salt],
    ]);
    if (!this.isByExpression) {
      const start = this.nextId;
      const result = this.evaluateApart(field.body, 0);
      this.values.set(field.path, result.v);
      this.derivations.set(field.path, this.close(start, result, data));
      return;
    }
    const { value, cause, reads } = this.walkExpression(field.body);
    this.noteOutcome(field, data, cause);
    this.values.set(field.path, value);
    this.derivations.set(field.path, this.addNode("OP", data, reads));
  }
  noteOutcome(field, data, cause) {
    if (field.start !== null) data.at = this.program.toBytes((field));
    if (cause === null) return;
    this.missingFields.set(field.path, cause);
    this.addEntry({ code: cause.code, message: cause.message, status: "FAIL" });
    data.missing = { code: cause.code, message: cause.message };
  }
  async finishSteps() {
    for (const { data } of this.steps) {
      for (const name of ["list_hash", "value_hash"]) if (data[name]?.to_hash !== undefined) data[name] = toHex(await hashBytes(encodeUtf8(data[name].to_hash)));
    }
    return this.steps;
  }
  get nextId() {
    return this.first + this.steps.length;
  }
  addNode(type, data, children) {
    const key = `${type} ${children.join(",")} ${writeCanonical(data)}`;
    const known = this.ids.get(key);
    if (known !== undefined) return known;
    const id = this.nextId;
    this.ids.set(key, id);
    this.steps.push({ type, data, children });
    for (const child of children) this.parents.add(child);
    return id;
  }
  close(start, result, data) {
    const open = [];
    for (let id = start; id < this.nextId; id++) if (!this.parents.has(id) && id !== result.n) open.push(id);
    return this.addNode("OP", data, [result.n, ...open]);
  }
  trace(type, data, value, children) {
    if (this.depth) return { v: value, n: NO_NODE };
    return { v: value, n: this.addNode(type, makeObject(Object.entries(data)), children.map((child) => child.n)) };
  }
  traceResult(data, type, value, children) {
    if (this.depth) return { v: value, n: NO_NODE };
    return this.trace("OP", type.hasFacts ? data : { ...data, value: writeValue(type, value) }, value, children);
  }
  evaluateApart(body, depth) {
    const around = { variables: this.variables, depth: this.depth, reads: this.reads };
    Object.assign(this, { variables: new Map(), depth, reads: new Set() });
    try {
      return this.evaluate(body);
    } finally {
      Object.assign(this, around);
    }
  }
  walkExpression(body) {
    const around = { variables: this.variables, depth: this.depth, reads: this.reads };
    const reads = new Set();
    Object.assign(this, { variables: new Map(), depth: 1, reads });
    try {
      return { value: this.evaluate(body).v, cause: null, reads: [...reads] };
    } catch (error) {
      if (!(error instanceof ValueMissing)) throw error;
      return { value: null, cause: error.cause, reads: [...reads] };
    } finally {
      Object.assign(this, around);
    }
  }
  recordRead(value, node) {
    if (!this.depth) return { v: value, n: node };
    if (node !== NO_NODE) this.reads.add(node);
    return { v: value, n: NO_NODE };
  }
  evaluate(expr) {
    this.evaluations += 1;
    if (this.evaluations > MAX_EVALUATIONS) throw new NotChecked("the rules take too many steps for a browser");
    switch (expr.k) {
      case "const":
        if (this.depth) return { v: expr.value, n: NO_NODE };
        return this.trace("CONST", { type: expr.t.text, value: writeValue(expr.t, expr.value) }, expr.value, []);
      case "local":
        return (this.variables.get(expr.name));
      case "field":
        return this.evaluateField(expr);
      case "definition":
        return this.evaluateDefinition(expr);
      case "function":
        return this.evaluateFunction(expr);
      case "fact":
      case "facts":
        return this.evaluateFacts(expr);
      case "unary": {
        const operand = this.evaluate(expr.operand);
        return this.traceResult({ op: expr.op }, expr.t, expr.op === "neg" ? -operand.v : !operand.v, [operand]);
      }
      case "arithmetic":
        return this.evaluateArithmetic(expr);
      case "comparison": {
        const sides = [this.evaluate(expr.left), this.evaluate(expr.right)];
        const value = compareSides(expr.op, expr.left.t, sides[0].v, expr.right.t, sides[1].v);
        return this.traceResult({ op: expr.op, of: expr.of }, expr.t, value, sides);
      }
      case "logic":
        return this.evaluateLogic(expr);
      case "coalesce": {
        const sides = [this.evaluate(expr.first)];
        for (const operand of expr.operands) {
          if (sides[sides.length - 1].v !== null) break;
          sides.push(this.evaluate(operand));
        }
        return this.trace("OP", { op: "??" }, sides[sides.length - 1].v, sides);
      }
      case "if":
        return this.evaluateIf(expr);
      case "match": {
        const subject = this.evaluate(expr.subject);
        const arm = expr.arms.find((each) => each.members.includes(subject.v));
        return this.evaluate(arm.body);
      }
      case "list": {
        const items = expr.items.map((item) => this.evaluate(item));
        return this.trace("OP", { op: "list" }, items.map((item) => item.v), items);
      }
      case "record":
        return this.evaluateRecord(expr);
      case "call":
        return this.evaluateCall(expr);
      case "table":
        return this.evaluateTable(expr);
      case "loop":
        return this.evaluateLoop(expr);
      case "requireSome": {
        const option = this.evaluate(expr.option);
        if (option.v === null) throw new CheckFailed(`field \`${this.field}\`: the rules give no value: ${expr.code}: ${expr.message}`);
        return this.trace("ASSERT", { op: "requireSome", code: expr.code, message: expr.message }, option.v, [option]);
      }
      case "emit":
        return this.evaluateEmit(expr);
      case "block":
        return this.evaluateBlock(expr);
      case "requirements": {
        const results = expr.items.map((item) => this.evaluateRequirement(item));
        return { v: results.every(Boolean), n: NO_NODE };
      }
      default:
        throw new Error(`there is no expression of kind ${expr.k}`);
    }
  }
  evaluateField({ path }) {
    const derivation = (this.derivations.get(path));
    if (!this.isByExpression) return this.recordRead(this.values.get(path), this.addNode("FIELD_REF", { path }, [derivation]));
    this.reads.add(derivation);
    const cause = this.missingFields.get(path);
    if (cause !== undefined) throw new ValueMissing(cause);
    return { v: this.values.get(path), n: NO_NODE };
  }
  evaluateDefinition({ name }) {
    if (!this.defined.has(name)) this.defined.set(name, this.computeDefinition(name));
    const known = this.defined.get(name);
    if (known.cause === null) return this.recordRead(known.value, known.node);
    this.reads.add(known.node);
    throw new ValueMissing(known.cause, known.node);
  }
  computeDefinition(name) {
    const { node, body } = this.program.checker.definitions.get(name);
    const outcome = this.walkExpression(body);
    const cause = outcome.cause ?? (outcome.value === null && node.missing !== null ? node.missing : null);
    if (cause === null && outcome.reads.length === 0) return { value: outcome.value, node: NO_NODE, cause };
    const data = makeObject([
      ["op", "definition"],
      ["name", name],
      ["at", this.program.toBytes(node.body)],
    ]);
    if (cause !== null) data.missing = { code: cause.code, message: cause.message };
    else if (!body.t.hasFacts) {
      const value = writeValue(body.t, outcome.value);
      const text = writeCanonical(value);
      if (new TextEncoder().encode(text).length > LONGEST_SHOWN) data.value_hash = { to_hash: text };
      else data.value = value;
    }
    return { value: outcome.value, node: this.addNode("OP", data, outcome.reads), cause };
  }
  evaluateFunction(expr) {
    const { node, body } = this.program.checker.functions.get(expr.name);
    const values = expr.args.map((argument) => this.evaluate(argument));
    const around = this.variables;
    this.variables = new Map(node.parameters.map((parameter, at) => [parameter.name, values[at]]));
    try {
      return this.evaluate(body);
    } finally {
      this.variables = around;
    }
  }
  evaluateFacts(expr) {
    const key = this.evaluate(expr.key);
    const { fact } = expr;
    const data = makeObject([
      ["fact_type", fact.name],
      ["schema_version", fact.version],
    ]);
    let value;
    if (expr.k === "fact") {
      value = this.facts.get(fact, key.v);
      data.payload_hash = value?.hash ?? null;
    } else {
      value = this.facts.find(fact, key.v);
      data.count = value.length;
      data.list_hash = { to_hash: writeCanonical(value.map((record) => [record.key, record.hash])) };
    }
    if (this.isByExpression) {
      data[expr.k === "fact" ? "key" : "prefix"] = key.v;
      return this.recordRead(value, this.addNode("FACT_GET", data, []));
    }
    const keyNode = this.depth ? this.addNode("CONST", { type: "Text", value: key.v }, []) : key.n;
    return this.recordRead(value, this.addNode("FACT_GET", data, [keyNode]));
  }
  evaluateArithmetic(expr) {
    let result = this.evaluate(expr.first);
    let type = expr.first.t;
    for (const step of expr.steps) {
      const operand = this.evaluate(step.operand);
      const count = calculateCount(step.op, type, result.v, step.operand.t, operand.v, step.t);
      result = this.traceResult({ op: step.op }, step.t, count, [result, operand]);
      type = step.t;
    }
    return result;
  }
  evaluateLogic(expr) {
    let result = this.evaluate(expr.first);
    for (const operand of expr.operands) {
      const sides = [result];
      if (result.v === (expr.op === "&&")) sides.push(this.evaluate(operand));
      result = this.traceResult({ op: expr.op }, expr.t, sides[sides.length - 1].v, sides);
    }
    return result;
  }
  evaluateIf(expr) {
    const conditions = [];
    let body = expr.otherwise;
    let isTaken = false;
    for (const branch of expr.branches) {
      const condition = this.evaluate(branch.condition);
      conditions.push(condition);
      if (branch.binding !== null) this.variables.set(branch.binding, condition);
      isTaken = branch.binding === null ? condition.v : condition.v !== null;
      if (isTaken) {
        body = branch.body;
        break;
      }
    }
    let result = this.evaluate(body);
    let branchName = isTaken ? "then" : "else";
    for (let at = conditions.length - 1; at >= 0; at--) {
      const op = expr.branches[at].binding === null ? "if" : "ifSome";
      result = this.trace("OP", { op, branch: branchName }, result.v, [conditions[at], result]);
      branchName = "else";
    }
    return result;
  }
  evaluateRecord(expr) {
    const members = new Map(expr.members.map(({ name, value }) => [name, this.evaluate(value)]));
    const names = [...members.keys()].sort();
    const parts = names.map((name) => (members.get(name)));
    return this.trace("OP", { op: "record", members: names }, makeObject(names.map((name, at) => [name, parts[at].v])), parts);
  }
  evaluateCall(expr) {
    const args = expr.args.map((argument) => this.evaluate(argument));
    const value = applyFunction(expr, args.map((argument) => argument.v), this.world);
    if (expr.op === "concat" && value.length > LONGEST_TEXT && [...value].length > LONGEST_TEXT) throw new CheckFailed(`field \`${this.field}\`: the rules give a text that is too long`);
    if (expr.op === "some") return this.trace("OP", { op: "some" }, value, args);
    return this.traceResult({ op: expr.op, ...expr.fixed }, expr.t, value, args);
  }
  evaluateTable(expr) {
    const values = expr.args.map((argument) => this.evaluate(argument).v);
    const rows = this.program.tables.get(expr.table);
    const row = rows.find((each) => each.cells.every((cell, at) => appliesTo(cell, values[at])));
    return { v: row === undefined ? null : row.value, n: NO_NODE };
  }
  evaluateLoop(expr) {
    const items = this.evaluate(expr.items);
    const inputs = expr.init === null ? [items] : [items, this.evaluate(expr.init)];
    if (!this.depth) this.reads = new Set();
    this.depth += 1;
    const results = this.runLambda(expr, items.v, inputs[inputs.length - 1].v);
    this.depth -= 1;
    const { value, data } = concludeLoop(expr, items.v, inputs[inputs.length - 1].v, results);
    if (this.depth) return { v: value, n: NO_NODE };
    const outer = [...new Set(expr.captured.map((name) => (this.variables.get(name)).n))];
    const node = makeObject(Object.entries({ op: expr.op, fn: this.program.toBytes(expr), ...data }));
    return { v: value, n: this.addNode("OP", node, [...inputs.map((input) => input.n), ...outer, ...this.reads]) };
  }
  runLambda(expr, items, init) {
    const results = [];
    let accumulator = init;
    for (const item of items) {
      this.variables.set(expr.parameters[expr.parameters.length - 1], { v: item, n: NO_NODE });
      if (expr.op === "fold") this.variables.set(expr.parameters[0], { v: accumulator, n: NO_NODE });
      const result = this.evaluate(expr.body).v;
      results.push(result);
      accumulator = result;
      if ((expr.op === "any" && result) || (expr.op === "all" && !result)) break;
    }
    return results;
  }
  evaluateEmit(expr) {
    const [status, message] = [this.evaluate(expr.status), this.evaluate(expr.message)];
    const args = makeObject(expr.args.map(([name, argument]) => [name, this.evaluate(argument).v]));
    const entry = this.addEntry({ code: expr.code, message: message.v, status: status.v, verdict: expr.verdict ?? "assessed", args });
    const value = status.v !== "FAIL";
    if (!this.isByExpression) return this.trace("COMPLIANCE_EMIT", { ...entry, index: this.compliance.length - 1 }, value, [status, message]);
    if (expr.verdict === null) this.addEntryNode([], null);
    return { v: value, n: NO_NODE };
  }
  evaluateRequirement(expr) {
    const { value, cause, reads } = this.walkExpression(expr.body);
    if (cause !== null) this.addEntry({ code: expr.code, message: cause.message, status: expr.severity });
    this.addEntryNode(reads, this.program.toBytes(expr));
    return cause === null ? value : expr.severity !== "FAIL";
  }
  addEntry({ code, message, status, verdict = "assessed", args = {} }) {
    const entry = { code, field: this.field, message, status, ...(this.isByExpression ? { args, verdict } : {}) };
    this.compliance.push(entry);
    return entry;
  }
  addEntryNode(reads, place) {
    const index = this.compliance.length - 1;
    const data = makeObject(Object.entries({ ...this.compliance[index], index, ...(place === null ? {} : { at: place }) }));
    this.reads.add(this.addNode("COMPLIANCE_EMIT", data, reads));
  }
  evaluateBlock(expr) {
    const checks = [];
    for (const binding of expr.bindings) {
      if (binding.k === "let") this.variables.set(binding.name, this.evaluate(binding.value));
      else {
        const condition = this.evaluate(binding.condition);
        if (!condition.v) throw new CheckFailed(`field \`${this.field}\`: the rules give no value: ${binding.code}: ${binding.message}`);
        checks.push({ binding, condition });
      }
    }
    let result = this.evaluate(expr.body);
    for (const { binding, condition } of checks.reverse()) {
      result = this.trace("ASSERT", { op: "assert", code: binding.code, message: binding.message }, result.v, [condition, result]);
    }
    return result;
  }
}
function appliesTo(cell, value) {
  if (cell.keys !== undefined) return cell.keys.some((key) => areEqualValues(key, value));
  return (cell.low === null || compareValues(value, cell.low) >= 0) && (cell.high === null || compareValues(value, cell.high) < 0);
}
function concludeLoop(loop, items, init, results) {
  const pick = (positions) => positions.map((at) => items[at]);
  const values = loop.body.t.hasFacts ? {} : { values: results.map((result) => writeValue(loop.body.t, result)) };
  switch (loop.op) {
    case "map":
      return { value: results, data: values };
    case "fold":
      return { value: results.length ? results[results.length - 1] : init, data: values };
    case "filter": {
      const kept = [...results.keys()].filter((at) => results[at]);
      return { value: pick(kept), data: { kept } };
    }
    case "any":
    case "all": {
      const isDecided = results.length > 0 && results[results.length - 1] === (loop.op === "any");
      return { value: isDecided === (loop.op === "any"), data: { position: isDecided ? results.length - 1 : null } };
    }
    case "sortBy": {
      const order = [...results.keys()].sort((one, other) => compareKeys(results[one], results[other]) || one - other);
      return { value: pick(order), data: { order } };
    }
    case "latestBy": {
      let latest = -1;
      results.forEach((key, at) => {
        if (key !== null && (latest < 0 || compareValues(key, results[latest]) >= 0)) latest = at;
      });
      return { value: latest < 0 ? null : items[latest], data: { position: latest < 0 ? null : latest } };
    }
    default: {
      const groups = new Map();
      results.forEach((key, at) => {
        const text = writeCanonical(writeValue(loop.body.t, key));
        groups.set(text, [...(groups.get(text) ?? []), at]);
      });
      const value = [...groups.values()].map((positions) => makeObject([["items", pick(positions)], ["key", results[positions[0]]]]));
      return { value, data: { groups: [...groups.values()].map((positions) => ({ key: writeValue(loop.body.t, results[positions[0]]), positions })) } };
    }
  }
}
function compareKeys(one, other) {
  if (one === null || other === null) return (one === null ? 0 : 1) - (other === null ? 0 : 1);
  return compareValues(one, other);
}
class LayerWalker extends RuleWalker {
  constructor(program, facts, world, upper) {
    super(program, facts, world);
    this.first = 0;
    this.upper = upper;
    for (const [path, { value, cause }] of upper.fields) {
      this.values.set(path, value);
      if (cause !== null) this.missingFields.set(path, cause);
    }
  }
  deriveField(field) {
    this.field = field.path;
    const isOfRequirements = field.path === REQUIREMENTS_PATH;
    const { requirements } = this.upper;
    const above = isOfRequirements ? requirements.map((each) => this.addNode("LAYER_GET", makeObject(Object.entries({ ...each, op: "requirements" })), [])) : [];
    const { value, cause, reads } = this.walkExpression(field.body);
    const data = makeObject([
      ["op", "derivation"],
      ["path", field.path],
    ]);
    this.noteOutcome(field, data, cause);
    this.values.set(field.path, isOfRequirements ? Boolean(value) && requirements.every((each) => each.value) : value);
    this.derivations.set(field.path, this.addNode("OP", data, [...above, ...reads]));
  }
  evaluateField(expr) {
    const upper = this.upper.fields.get(expr.path);
    if (upper !== undefined && !this.derivations.has(expr.path)) {
      this.derivations.set(expr.path, this.addNode("LAYER_GET", makeObject(Object.entries({ ...upper.place, path: expr.path })), []));
    }
    return super.evaluateField(expr);
  }
  evaluateDefinition(expr) {
    const upper = this.upper.definitions.get(expr.name);
    if (upper !== undefined && !this.defined.has(expr.name)) {
      const node = this.addNode("LAYER_GET", makeObject(Object.entries({ ...upper.place, name: expr.name })), []);
      this.defined.set(expr.name, { value: upper.value, cause: upper.cause, node });
    }
    return super.evaluateDefinition(expr);
  }
  holdDefinition(name) {
    if (!this.defined.has(name)) this.defined.set(name, this.computeDefinition(name));
    return this.defined.get(name);
  }
}
const LIMIT = 10n ** 36n;
const DECIMAL = /^(-?)([0-9]+)(?:[.]([0-9]+))?$/;
const LONGEST_DECIMAL = 80;
class RuleFacts {
  constructor() {
    this.byType = new Map();
  }
  static async read(facts, types, table) {
    const read = new RuleFacts();
    const names = new Set();
    for (const type of types) {
      read.byType.set(type.text, new Map());
      names.add(type.name);
    }
    for (const fact of facts) {
      if (!names.has(fact.fact_type)) continue;
      const text = `${fact.fact_type}@${fact.schema_version}`;
      const group = read.byType.get(text);
      if (group === undefined) throw new CheckFailed(`fact \`${fact.fact_key.slice(0, 80)}\` is of a schema version that the rules do not read`);
      const schema = table.listMembers((table.fact(text)));
      const members = makeObject([...schema].map(([name, type]) => [name, readMemberValue(type, fact.payload[name] ?? null, `${fact.fact_key}: ${name}`)]));
      group.set(fact.fact_key, { isFact: true, key: fact.fact_key, hash: toHex(await hashBytes(encodeCanonical(fact.payload))), members });
    }
    return read;
  }
  get(type, key) {
    return this.byType.get(type.text)?.get(key) ?? null;
  }
  find(type, prefix) {
    const records = [...(this.byType.get(type.text)?.values() ?? [])].filter(({ key }) => key.startsWith(prefix));
    return records.sort((one, other) => compareTexts(one.key, other.key));
  }
}
function readMemberValue(type, value, where) {
  if (value === null) return null;
  const isObject = typeof value === "object" && !Array.isArray(value);
  switch (type.k) {
    case "Opt":
      return readMemberValue(type.item, value, where);
    case "Dec":
      return readDecimal(value, getScaleOf(type), where);
    case "List":
      if (!Array.isArray(value)) return refuseMember(where);
      return value.map((part, at) => requireValue(type.item, part, `${where}[${at}]`));
    case "Map":
      if (!isObject) return refuseMember(where);
      return makeObject(Object.keys(value).map((name) => [name, requireValue(type.item, value[name], `${where}.${name}`)]));
    case "Record":
      if (!isObject) return refuseMember(where);
      return makeObject([...type.members].map(([name, member]) => [name, requireValue(member, value[name] ?? null, `${where}.${name}`)]));
    case "Bool":
      return typeof value === "boolean" ? value : refuseMember(where);
    case "Int":
      return readWhole(value, where);
    case "Date":
      return typeof value === "string" && isCalendarDay(value) ? value : refuseMember(where);
    default:
      return typeof value === "string" ? value : refuseMember(where);
  }
}
function requireValue(type, value, where) {
  if (value === null && type.k !== "Opt") return refuseMember(where);
  return readMemberValue(type, value, where);
}
function refuseMember(where) {
  throw new CheckFailed(`the fact \`${where.slice(0, 160)}\` does not fit its schema`);
}
function readWhole(value, where) {
  if (typeof value !== "number" && typeof value !== "bigint") return refuseMember(where);
  const count = BigInt(value);
  return count < LIMIT && -count < LIMIT ? count : refuseMember(where);
}
function readDecimal(value, scale, where) {
  if (typeof value !== "string") return readWhole(value, where) * 10n ** BigInt(scale);
  const parts = value.length <= LONGEST_DECIMAL ? DECIMAL.exec(value) : null;
  if (parts === null) return refuseMember(where);
  const [, sign, whole, fraction = ""] = parts;
  if (fraction.length > scale) return refuseMember(where);
  const count = BigInt(whole + fraction.padEnd(scale, "0"));
  if (count >= LIMIT * 10n ** BigInt(scale)) return refuseMember(where);
  return sign ? -count : count;
}
const LAYERS = ["model", "batch", "item"];
const LAYERS_BY_FACT = { Batch: "batch", Item: "item", Reading: "item", ReadingSeries: "item" };
const DATED_FACT = "Battery";
const NO_PARTS = new Set(["t", "fact"]);
function getFactLayer(factType) {
  return Object.hasOwn(LAYERS_BY_FACT, factType) ? LAYERS_BY_FACT[factType] : "model";
}
class ProgramLayers {
  constructor(program) {
    this.program = program;
    this.bodies = new Map(program.fields.map((field) => [field.path, field]));
    this.chosen = new Map();
    this.requirements = (this.bodies.get(REQUIREMENTS_PATH)?.body.items ?? []);
  }
  findOfField(path) {
    if (path === REQUIREMENTS_PATH) return "item";
    const field = (this.bodies.get(path));
    return this.choose(`field ${path}`, field.body, field.layer);
  }
  findOfDefinition(name) {
    return this.choose(`def ${name}`, this.program.checker.definitions.get(name).body, null);
  }
  findOfRequirement(requirement) {
    return this.choose(`require ${requirement.code}`, requirement.body, requirement.layer);
  }
  choose(key, body, stated) {
    let layer = this.chosen.get(key);
    if (layer === undefined) {
      layer = LAYERS[Math.max(LAYERS.indexOf(stated ?? "model"), this.rankReads(body))];
      this.chosen.set(key, layer);
    }
    return layer;
  }
  rankReads(part) {
    if (part === null || typeof part !== "object") return 0;
    if (Array.isArray(part)) return part.reduce((rank, each) => Math.max(rank, this.rankReads(each)), 0);
    let rank = LAYERS.indexOf(this.findOfRead(part));
    for (const [name, value] of Object.entries(part)) if (!NO_PARTS.has(name)) rank = Math.max(rank, this.rankReads(value));
    return rank;
  }
  findOfRead(part) {
    switch (part.k) {
      case "fact":
      case "facts":
        return getFactLayer(part.fact.name);
      case "field":
        return this.findOfField(part.path);
      case "definition":
        return this.findOfDefinition(part.name);
      case "function":
        return this.choose(`fn ${part.name}`, this.program.checker.functions.get(part.name).body, null);
      case "call":
        return part.op === "issuedOn" || this.readsBatteryDay(part) ? "item" : "model";
      default:
        return "model";
    }
  }
  readsBatteryDay(call) {
    if ((call.op !== "recordGet" && call.op !== "member") || call.args.length === 0) return false;
    const record = unwrapOption(call.args[0].t);
    if (record.k !== "Fact" || record.name !== DATED_FACT) return false;
    const { types } = this.program.checker;
    return types.listMembers(record).get(call.fixed.member) === types.DATE;
  }
}
const BLINDING_TYPE = "Blinding";
const SALT_BYTES = 16;
const RATE = 136; // FIPS 202: bytes of the state that SHAKE-256 reads and gives at once
const MASK = (1n << 64n) - 1n;
function findSecret(facts, receipt) {
  const blinding = facts.find((fact) => fact.fact_type === BLINDING_TYPE && fact.fact_key === `blinding:${receipt.snapshot_id}`);
  if (blinding === undefined) return null;
  const isGood = blinding.schema_version === 1 && Object.keys(blinding.payload).length === 1 && /^[0-9a-f]{64}$/.test(String(blinding.payload.key));
  if (!isGood) throw new CheckFailed("the snapshot's secret does not have its form");
  return fromHex(blinding.payload.key);
}
async function openSalts(facts, receipt) {
  const secret = findSecret(facts, receipt) ?? new Uint8Array(32);
  const key = await crypto.subtle.importKey("raw", (secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return async (purpose) => toHex(new Uint8Array(await crypto.subtle.sign("HMAC", key, (encodeUtf8(`BPC-BLIND-1\0${receipt.passport_version_id}\0${purpose}`)))));
}
function deriveLayerSalts(secret, versionId, count) {
  const digits = toHex(hashShake256(joinBytes(secret, encodeUtf8(`BPC-ITEM-SALT-1\0${versionId}`)), SALT_BYTES * (count + 2)));
  const [payload, steps, ...fields] = (digits.match(/.{32}/g));
  return { payload, steps, fields };
}
function hashShake256(bytes, length) {
  const padded = new Uint8Array((Math.floor(bytes.length / RATE) + 1) * RATE);
  padded.set(bytes);
  padded[bytes.length] ^= 0x1f;
  padded[padded.length - 1] ^= 0x80;
  const state = new BigUint64Array(25);
  const view = new DataView(padded.buffer);
  for (let start = 0; start < padded.length; start += RATE) {
    for (let at = 0; at < RATE / 8; at++) state[at] ^= view.getBigUint64(start + 8 * at, true);
    permuteState(state);
  }
  const blocks = Math.ceil(length / RATE);
  const output = new DataView(new ArrayBuffer(blocks * RATE));
  for (let block = 0; block < blocks; block++) {
    if (block > 0) permuteState(state);
    for (let at = 0; at < RATE / 8; at++) output.setBigUint64(block * RATE + 8 * at, state[at], true);
  }
  return new Uint8Array(output.buffer, 0, length);
}
function permuteState(state) {
  let register = 1;
  for (let round = 0; round < 24; round++) {
    const columns = [0, 1, 2, 3, 4].map((x) => state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20]); // theta
    for (let at = 0; at < 25; at++) state[at] ^= columns[(at + 4) % 5] ^ rotateLane(columns[(at + 1) % 5], 1);
    let [x, y, lane] = [1, 0, state[1]]; // rho and pi
    for (let step = 0; step < 24; step++) {
      [x, y] = [y, (2 * x + 3 * y) % 5];
      const next = state[x + 5 * y];
      state[x + 5 * y] = rotateLane(lane, (((step + 1) * (step + 2)) / 2) % 64);
      lane = next;
    }
    for (let row = 0; row < 25; row += 5) { // chi
      const lanes = state.slice(row, row + 5);
      for (let column = 0; column < 5; column++) state[row + column] = lanes[column] ^ (~lanes[(column + 1) % 5] & MASK & lanes[(column + 2) % 5]);
    }
    for (let bit = 0; bit < 7; bit++) { // iota
      if (register & 1) state[0] ^= 1n << BigInt((1 << bit) - 1);
      register = register & 0x80 ? ((register << 1) ^ 0x171) & 0xff : register << 1;
    }
  }
}
function rotateLane(lane, count) {
  return ((lane << BigInt(count)) | (lane >> BigInt(64 - count))) & MASK;
}
async function compareLayer(inputs, above) {
  const program = new RuleProgram(inputs.rules); // 1
  if (program.language !== 2) throw new CheckFailed("only rules of level 2 have layers");
  const rules = { program, layers: new ProgramLayers(program) };
  const [model, batch] = above;
  let upper = await evaluateModel(model, rules); // 2
  if (batch !== undefined) upper = await addBatch(batch, rules, upper);
  const layer = inputs.payload.layer;
  const own = layer === "item" && batch === undefined ? ["batch", "item"] : [layer];
  const { walker, fields } = await deriveLayer(inputs, rules, own, upper);
  const steps = await walker.finishSteps();
  compareSteps(inputs.proof.steps, steps);
  compareFields(inputs, walker, fields);
  compareEntries(walker.compliance, inputs.payload);
  const isFailed = upper.isFailed || walker.compliance.some((entry) => entry.status === "FAIL");
  if (inputs.payload.verdict !== (isFailed ? "FAIL" : "PASS")) throw new CheckFailed("the verdict is not that of all layers"); // 5
  return `evaluating rules.bpc again in this browser gives the same ${steps.length} steps`;
}
async function evaluateModel({ facts, payload, proof }, { program, layers }) {
  const own = facts.filter((fact) => getFactLayer(fact.fact_type) === "model");
  const walker = await openWalker(program, own, payload.battery_product, "", { fields: new Map(), definitions: new Map(), requirements: [] });
  const ownFields = program.fields.filter(({ path }) => layers.findOfField(path) === "model");
  for (const field of ownFields) walker.deriveField(field);
  const places = new Map(ownFields.map(({ path }) => [path, { hash: proof.nodes[proof.field_index[path]]?.hash, layer: ("model"), node: proof.field_index[path] }]));
  const definitions = new Map();
  const nodes = new Map();
  for (const { id, hash, type, data } of proof.nodes) {
    if (data.op === "definition" && isReadable(data.name, "model", { program, layers })) definitions.set(data.name, { ...walker.holdDefinition(data.name), place: { hash, layer: "model", node: id } });
    if (type === "COMPLIANCE_EMIT" && data.at !== undefined) nodes.set(data.code, { hash, status: data.status });
  }
  const requirements = await summariseRequirements("model", layers, nodes);
  const codes = new Map(layers.requirements.map((each) => [each.code, layers.findOfRequirement(each)]));
  const isOfModel = (entry) => (entry.field === REQUIREMENTS_PATH && codes.has(entry.code) ? codes.get(entry.code) : layers.findOfField(entry.field)) === "model";
  return {
    values: { fields: listValues(walker, places), definitions, requirements: [requirements] },
    facts: own,
    isFailed: payload.compliance.some((entry) => isOfModel(entry) && entry.status === "FAIL"),
  };
}
async function addBatch(batch, rules, above) {
  const { walker, fields } = await deriveLayer(batch, rules, ["batch"], above);
  const { root, steps, fields: fieldNodes } = batch.proof;
  const layer = "batch";
  const ids = new Map(fieldNodes.map(({ id, path }) => [path, id]));
  const places = new Map(
    fields.filter(({ path }) => path !== REQUIREMENTS_PATH).map(({ path }) => [path, { hash: root.fields[ids.get(path)], layer, node: ids.get(path) }]),
  );
  const definitions = new Map(above.values.definitions);
  for (const [name, outcome] of walker.defined) {
    if (outcome.node < 0 || !isReadable(name, layer, rules)) continue;
    definitions.set(name, { value: outcome.value, cause: outcome.cause, place: { hash: await hashValue(steps[outcome.node]), layer, node: outcome.node } });
  }
  const nodes = new Map();
  for (const step of steps) {
    if (step.type === "COMPLIANCE_EMIT" && step.data.at !== undefined) nodes.set(step.data.code, { hash: await hashValue(step), status: step.data.status });
  }
  const requirements = await summariseRequirements(layer, rules.layers, nodes);
  return {
    values: { fields: new Map([...above.values.fields, ...listValues(walker, places)]), definitions, requirements: [...above.values.requirements, requirements] },
    facts: [...above.facts, ...batch.facts],
    isFailed: above.isFailed || batch.payload.compliance.some((entry) => entry.status === "FAIL"),
  };
}
async function deriveLayer({ facts, payload, receipt }, { program, layers }, own, above) {
  const walker = await openWalker(program, [...above.facts, ...facts], payload.battery_product, receipt.issued_at.slice(0, 10), above.values);
  const fields = program.fields.filter(({ path }) => path === REQUIREMENTS_PATH || own.includes(layers.findOfField(path)));
  for (const field of fields) {
    if (field.path !== REQUIREMENTS_PATH) walker.deriveField(field);
    else {
      const items = layers.requirements.filter((each) => own.includes(layers.findOfRequirement(each)));
      walker.deriveField({ ...field, body: { ...field.body, items } });
    }
  }
  return { walker, fields: [...fields].sort((one, other) => compareTexts(one.path, other.path)) };
}
async function openWalker(program, facts, product, issuedOn, upper) {
  const { checker } = program;
  return new LayerWalker(program, await RuleFacts.read(facts, checker.facts, checker.types), { productSku: product.sku, productName: product.name, issuedOn }, upper);
}
function listValues(walker, places) {
  return new Map([...places].map(([path, place]) => [path, { value: walker.values.get(path), cause: walker.missingFields.get(path) ?? null, place }]));
}
function isReadable(name, layer, { program, layers }) {
  const definition = program.checker.definitions.get(name);
  return definition !== undefined && !definition.body.t.hasFacts && layers.findOfDefinition(name) === layer;
}
async function summariseRequirements(layer, layers, nodes) {
  const codes = layers.requirements.filter((each) => layers.findOfRequirement(each) === layer).map(({ code }) => code);
  const stated = codes.map((code) => {
    const node = nodes.get(code);
    if (node === undefined) throw new CheckFailed(`the proof of the ${layer} has no entry for the requirement \`${shortenText(code)}\``);
    return { code, ...node };
  });
  return {
    count: codes.length,
    layer,
    list_hash: await hashValue(stated.map(({ code, hash }) => [code, hash])),
    value: stated.every(({ status }) => status !== "FAIL"),
  };
}
function compareSteps(actual, expected) {
  for (let at = 0; at < Math.min(actual.length, expected.length); at++) { // 3
    const { type, data, children } = expected[at];
    const text = writeCanonical(makeObject(Object.entries({ children, data: makeObject(Object.entries(data)), type })));
    if (text !== writeCanonical(actual[at])) throw new CheckFailed(`step ${at} of the proof is not what the rules give: ${shortenText(text)}`);
  }
  if (actual.length !== expected.length) throw new CheckFailed(`the proof has ${actual.length} steps, and the rules give ${expected.length}`);
}
function compareFields({ facts, payload, proof, receipt }, walker, fields) {
  const secret = findSecret(facts, receipt);
  if (secret === null) throw new CheckFailed("the snapshot has no secret");
  const salts = deriveLayerSalts(secret, receipt.passport_version_id, fields.length);
  const paths = proof.fields.map(({ path }) => path);
  if (writeCanonical(paths) !== writeCanonical(fields.map(({ path }) => path))) throw new CheckFailed("the proof does not have exactly the fields that the rules give for this layer"); // 4
  for (const [at, { path, access, type }] of fields.entries()) {
    const field = proof.fields[at];
    if (writeCanonical(field.value) !== writeCanonical(writeValue(type, walker.values.get(path)))) throw new CheckFailed(`\`${shortenText(path)}\` has another value than the rules give`);
    if (field.type !== type.text || writeCanonical(field.access) !== writeCanonical(access)) throw new CheckFailed(`\`${shortenText(path)}\` has other audiences or another type than its rule`);
    if (field.salt !== salts.fields[at]) throw new CheckFailed(`the salt of \`${shortenText(path)}\` is not made from the snapshot's secret`);
  }
  if (payload.salt !== salts.payload || proof.salt !== salts.steps) throw new CheckFailed("the salts of payload and steps are not made from the snapshot's secret");
}
function compareEntries(expected, payload) {
  const count = Math.max(expected.length, payload.compliance.length);
  for (let at = 0; at < count; at++) {
    if (writeCanonical(expected[at] ?? null) !== writeCanonical(payload.compliance[at] ?? null)) throw new CheckFailed(`compliance entry ${at} of the payload is not as the rules give it`);
  }
}
async function hashValue(value) {
  return toHex(await hashBytes(encodeCanonical(value)));
}
async function recomputeProof(inputs) {
  try {
    return { ok: true, skipped: false, detail: await (inputs.above === undefined ? compareProof(inputs) : compareLayer(inputs, inputs.above)) };
  } catch (error) {
    if (error instanceof RuleMistake) return { ok: false, skipped: false, detail: `rules.bpc, character ${error.at}: ${error.message}` };
    if (error instanceof NotChecked || error instanceof RangeError) return { ok: false, skipped: true, detail: error.message };
    if (error instanceof CheckFailed) return { ok: false, skipped: false, detail: error.message };
    throw error;
  }
}
async function compareProof({ rules, facts, factsHash, payload, proof, receipt }) {
  const program = new RuleProgram(rules); // 1
  const { language, checker } = program;
  if (payload.payload_version !== `BPC-PASSPORT-${language}` || proof.proof_version !== `BPC-PROOF-${language}`) { // 2
    throw new CheckFailed(`rules of level ${language} do not give a ${payload.payload_version} with a ${proof.proof_version}`);
  }
  const product = payload.battery_product;
  const world = { productSku: product.sku, productName: product.name, issuedOn: receipt.issued_at.slice(0, 10) };
  const walker = new RuleWalker(program, await RuleFacts.read(facts, checker.facts, checker.types), world);
  const derive = await openSalts(facts, receipt);
  const salts = new Map(await Promise.all(program.fields.map(async ({ path }) => ([path, await derive(`field:${path}`)]))));
  for (const field of program.fields) walker.deriveField(field, (salts.get(field.path)).slice(32)); // 3
  const steps = await walker.finishSteps();
  const byPath = [...program.fields].sort((one, other) => compareTexts(one.path, other.path));
  const paths = byPath.map(({ path }) => path);
  const proven = Object.keys(proof.field_index).sort(compareTexts); // 4
  const other = paths.find((path) => !proven.includes(path)) ?? proven.find((path) => !paths.includes(path));
  if (other !== undefined) throw new CheckFailed(`field \`${shortenText(other)}\` is not both in the rules and in the proof`);
  const fields = byPath.map(({ path, access, type }) => ({
    type: "OP",
    data: { op: "field", path, access, type: type.text, value: writeValue(type, walker.values.get(path)), salt: (salts.get(path)).slice(0, 32) },
    children: [(walker.derivations.get(path))],
  }));
  const root = { type: "OP", data: { op: "passport", access: byPath.map(({ access }) => access), battery_product: product, facts_hash: factsHash }, children: paths.map((_, at) => at) };
  compareNodes([...fields, root, ...steps], proof.nodes, fields.length); // 5
  compareEntries(walker.compliance, payload); // 6
  if (payload.salt !== (await derive("payload")).slice(0, 32)) throw new CheckFailed("the payload's `salt` is not made from the snapshot's secret");
  return `evaluating rules.bpc again in this browser gives the same ${proof.nodes.length} nodes`;
}
function compareNodes(expected, actual, count) {
  const places = [...expected.keys()];
  for (const at of [...places.slice(count + 1), ...places.slice(0, count + 1)]) {
    const [one, other] = [expected[at], actual[at]];
    if (other === undefined) throw new CheckFailed(`the proof ends before node ${at}`);
    const name = one.data.op ?? one.type;
    if (one.type !== other.type || writeCanonical(makeObject(Object.entries(one.data))) !== writeCanonical(other.data)) {
      throw new CheckFailed(`node ${at} of the proof, \`${name}\`, is not what the rules give: ${shortenText(writeCanonical(makeObject(Object.entries(one.data))))}`);
    }
    if (one.children.length !== other.children.length || one.children.some((child, place) => child !== other.children[place])) {
      throw new CheckFailed(`node ${at} of the proof, \`${name}\`, is made from other nodes than the rules say`);
    }
  }
  if (actual.length > expected.length) throw new CheckFailed(`the rules give no node ${expected.length}, and the proof has one`);
}
export { recomputeProof };
