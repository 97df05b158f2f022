/**
 * The types of rules and facts, and the units of quantities. A table has one object for each type, so equal types of one
 * table are identical. Numbers are counts, held as BigInt: of ones (Int), of 10^-n (Dec(n)), of 10^-18 (Qty).
 *
 * @typedef {{ k: string, text: string, hasFacts: boolean, scale?: number, unit?: string, item?: any, members?: any, name?: string, version?: number, spellings?: Map<string, string> }} RuleType
 */

import { FACT_MEMBERS, UNIT_FACTORS, UNIT_RELATIONS } from "./rule-tables.js";

export const QUANTITY_SCALE = 18;
export const LARGEST_SCALE = 36;

export class TypeTable {
  constructor() {
    /** @type {Map<string, RuleType>} */
    this.known = new Map();
    this.BOOL = this.add({ k: "Bool", text: "Bool" });
    this.INT = this.add({ k: "Int", text: "Int" });
    this.TEXT = this.add({ k: "Text", text: "Text" });
    this.DATE = this.add({ k: "Date", text: "Date" });
  }

  /** @param {any} type @returns {RuleType} */
  add(type) {
    const known = this.known.get(type.text);
    if (known !== undefined) return known;
    const added = { hasFacts: false, ...type };
    this.known.set(type.text, added);
    return added;
  }

  /** @param {number} scale */
  dec(scale) {
    return this.add({ k: "Dec", scale, text: `Dec(${scale})` });
  }

  /** @param {string} unit */
  qty(unit) {
    return this.add({ k: "Qty", unit, text: `Qty(${unit})` });
  }

  /** @param {RuleType} item */
  opt(item) {
    return this.add({ k: "Opt", item, text: `Opt(${item.text})`, hasFacts: item.hasFacts });
  }

  /** @param {RuleType} item */
  list(item) {
    return this.add({ k: "List", item, text: `List(${item.text})`, hasFacts: item.hasFacts });
  }

  /** @param {RuleType} item */
  map(item) {
    return this.add({ k: "Map", item, text: `Map(Text, ${item.text})`, hasFacts: item.hasFacts });
  }

  /** @param {[string, RuleType][]} members */
  record(members) {
    const sorted = [...members].sort(([one], [other]) => (one < other ? -1 : 1));
    const text = `Record(${sorted.map(([name, type]) => `${name}: ${type.text}`).join(", ")})`;
    return this.add({ k: "Record", members: new Map(sorted), text, hasFacts: sorted.some(([, type]) => type.hasFacts) });
  }

  /** The record of a fact type, such as `Battery@1`; null if there is none. @param {string} text */
  fact(text) {
    if (!Object.hasOwn(FACT_MEMBERS, text)) return null;
    const [name, version] = text.split("@");
    return this.add({ k: "Fact", name, version: Number(version), text, hasFacts: true });
  }

  /** The members of a record, by name. @param {RuleType} type @returns {Map<string, RuleType>} */
  listMembers(type) {
    if (type.k === "Record") return type.members;
    type.members ??= new Map(Object.entries(FACT_MEMBERS[type.text]).map(([name, text]) => [name, this.read(text)]));
    return type.members;
  }

  /** A type from its text, such as `List(Record(name: Text))`. @param {string} text @returns {RuleType} */
  read(text) {
    const parts = /^([A-Za-z]+)(?:\((.*)\))?$/.exec(text);
    if (parts === null) throw new Error(`${text} is not a type`);
    const [, name, inside] = parts;
    if (inside === undefined) return /** @type {RuleType} */ (this.known.get(name));
    if (name === "Dec") return this.dec(Number(inside));
    if (name === "Opt") return this.opt(this.read(inside));
    if (name === "List") return this.list(this.read(inside));
    if (name === "Map") return this.map(this.read(inside.replace("Text, ", "")));
    return this.record(splitMembers(inside).map((member) => [member.slice(0, member.indexOf(":")), this.read(member.slice(member.indexOf(":") + 2))]));
  }
}

/** The parts between the commas that stand in no parentheses. @param {string} text @returns {string[]} */
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

/** The type inside an option, or the type itself. @param {RuleType} type @returns {RuleType} */
export function unwrapOption(type) {
  return type.k === "Opt" ? type.item : type;
}

/** @param {RuleType} type */
export function isNumberType(type) {
  return type.k === "Int" || type.k === "Dec" || type.k === "Qty";
}

/** Whether values of a type have an order. @param {RuleType} type */
export function isOrderedType(type) {
  return isNumberType(type) || type.k === "Text" || type.k === "Date";
}

/** How many decimals a count of a type has. @param {RuleType} type @returns {number} */
export function getScaleOf(type) {
  if (type.k === "Dec") return /** @type {number} */ (type.scale);
  return type.k === "Qty" ? QUANTITY_SCALE : 0;
}

/** @param {string} unit */
export function isUnit(unit) {
  return Object.hasOwn(UNIT_FACTORS, unit);
}

/** The unit of one · other, if there is one. @param {string} one @param {string} other @returns {string | null} */
export function multiplyUnits(one, other) {
  const relation = UNIT_RELATIONS.find(([, left, right]) => (left === one && right === other) || (left === other && right === one));
  return relation?.[0] ?? null;
}

/** The unit of one / other, if there is one. @param {string} one @param {string} other @returns {string | null} */
export function divideUnits(one, other) {
  for (const [product, left, right] of UNIT_RELATIONS) {
    if (product === one && left === other) return right;
    if (product === one && right === other) return left;
  }
  return null;
}

/** What a count of one unit is multiplied with and divided by to be one of another; null if they do not convert. @param {string} source @param {string} target @returns {[bigint, bigint] | null} */
export function findUnitFactor(source, target) {
  const [one, other] = [UNIT_FACTORS[source], UNIT_FACTORS[target]];
  if (one[0] !== other[0]) return null;
  return [BigInt(one[1]) * BigInt(other[2]), BigInt(one[2]) * BigInt(other[1])];
}
