/** Facts as rules see them: read by the schema of their type, found by their key. */

import { compareTexts, hashBytes, toHex } from "../bytes.js";
import { encodeCanonical } from "../canonical-json.js";
import { CheckFailed } from "../errors.js";
import { getScaleOf } from "./rule-types.js";
import { isCalendarDay, makeObject } from "./rule-values.js";

/** @typedef {import("./rule-types.js").RuleType} RuleType */
/** @typedef {{ isFact: true, key: string, hash: string, members: Record<string, any> }} FactRecord */

const LIMIT = 10n ** 36n;
const DECIMAL = /^(-?)([0-9]+)(?:[.]([0-9]+))?$/;
const LONGEST_DECIMAL = 80;

/** The facts of the types that rules name, by type and key. */
export class RuleFacts {
  constructor() {
    /** @type {Map<string, Map<string, FactRecord>>} */
    this.byType = new Map();
  }

  /**
   * @param {any[]} facts  the lines of facts.jsonl @param {Iterable<RuleType>} types
   * @param {import("./rule-types.js").TypeTable} table @returns {Promise<RuleFacts>}
   */
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
      const schema = table.listMembers(/** @type {RuleType} */ (table.fact(text)));
      const members = makeObject([...schema].map(([name, type]) => [name, readMemberValue(type, fact.payload[name] ?? null, `${fact.fact_key}: ${name}`)]));
      group.set(fact.fact_key, { isFact: true, key: fact.fact_key, hash: toHex(await hashBytes(encodeCanonical(fact.payload))), members });
    }
    return read;
  }

  /** @param {RuleType} type @param {string} key @returns {FactRecord | null} */
  get(type, key) {
    return this.byType.get(type.text)?.get(key) ?? null;
  }

  /** Those whose key starts with a text, by key. @param {RuleType} type @param {string} prefix @returns {FactRecord[]} */
  find(type, prefix) {
    const records = [...(this.byType.get(type.text)?.values() ?? [])].filter(({ key }) => key.startsWith(prefix));
    return records.sort((one, other) => compareTexts(one.key, other.key));
  }
}

/** A member as rules hold it; absent is null. @param {RuleType} type @param {any} value @param {string} where @returns {any} */
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

/** A part of a member, which may be absent only where its type is an option. @param {RuleType} type @param {any} value @param {string} where */
function requireValue(type, value, where) {
  if (value === null && type.k !== "Opt") return refuseMember(where);
  return readMemberValue(type, value, where);
}

/** @param {string} where @returns {never} */
function refuseMember(where) {
  throw new CheckFailed(`the fact \`${where.slice(0, 160)}\` does not fit its schema`);
}

/** @param {any} value @param {string} where @returns {bigint} */
function readWhole(value, where) {
  if (typeof value !== "number" && typeof value !== "bigint") return refuseMember(where);
  const count = BigInt(value);
  return count < LIMIT && -count < LIMIT ? count : refuseMember(where);
}

/** @param {any} value @param {number} scale @param {string} where @returns {bigint} */
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
