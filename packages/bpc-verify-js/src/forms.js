/** Forms: which members an object has, and how each of them is written. */

import { CheckFailed } from "./errors.js";
import { shortenText } from "./bytes.js";

/** @typedef {{ accepts: (value: any) => boolean, description: string }} Spelling */
/** @typedef {Record<string, Spelling>} ObjectForm */

const UUID_PATTERN = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const HASH_PATTERN = /^[0-9a-f]{64}$/;
const SALT_PATTERN = /^[0-9a-f]{32}$/;
const TIME_PATTERN = /^([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})[.][0-9]{6}Z$/;
export const AUDIENCES = ["authority", "interest", "public"];
const COMPLIANCE_STATUSES = ["PASS", "FAIL", "WARN", "NOT_APPLICABLE"];
const COMPLIANCE_VERDICTS = ["assessed", "not_yet_in_force", "undetermined", "expired", "out_of_scope"];

/** @param {any} value @returns {boolean} */
export function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** @param {any} value @returns {boolean} */
export function isCount(value) {
  return (typeof value === "number" || typeof value === "bigint") && value >= 0;
}

/** @param {any} value @returns {boolean} */
export function isTime(value) {
  const parts = typeof value === "string" ? TIME_PATTERN.exec(value) : null;
  if (parts === null) return false;
  const [year, month, day, hour, minute, second] = parts.slice(1).map(Number);
  const isLeap = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  const days = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] ?? 0;
  return year >= 1 && day >= 1 && day <= days && hour < 24 && minute < 60 && second < 60;
}

/** @param {any} value @returns {boolean} whether it is a list of audiences, sorted, none twice */
export function isAudienceList(value) {
  if (!Array.isArray(value)) return false;
  const sorted = AUDIENCES.filter((name) => value.includes(name));
  return sorted.length === value.length && sorted.every((name, at) => name === value[at]);
}

/** @param {any} value @returns {boolean} */
function isProduct(value) {
  return (
    isObject(value) &&
    hasExactly(value, ["battery_product_id", "name", "sku"]) &&
    Object.values(value).every((part) => typeof part === "string") &&
    UUID_PATTERN.test(value.battery_product_id)
  );
}

/** @param {any} value @returns {boolean} */
function isComplianceEntry(value) {
  const names = ["code", "field", "message", "status"];
  if (!isObject(value) || !(hasExactly(value, names) || hasExactly(value, [...names, "args", "verdict"]))) return false;
  const { args = {}, verdict = "assessed" } = value;
  return (
    Object.entries(value).every(([name, part]) => name === "args" || typeof part === "string") &&
    COMPLIANCE_STATUSES.includes(value.status) &&
    COMPLIANCE_VERDICTS.includes(verdict) &&
    isObject(args) &&
    Object.values(args).every((text) => typeof text === "string")
  );
}

/** @param {object} value @param {string[]} names @returns {boolean} */
export function hasExactly(value, names) {
  return Object.keys(value).length === names.length && names.every((name) => name in value);
}

/** @param {string[]} texts @returns {Spelling} */
export function oneOf(...texts) {
  return { accepts: (value) => texts.includes(value), description: texts.map((text) => `\`${text}\``).join(" or ") };
}

/** @param {Spelling} spelling @returns {Spelling} */
export function allowNull(spelling) {
  return { accepts: (value) => value === null || spelling.accepts(value), description: `${spelling.description} or null` };
}

/** @type {Spelling} */
export const ANYTHING = { accepts: () => true, description: "anything" };
/** @type {Spelling} */
export const TEXT = { accepts: (value) => typeof value === "string", description: "a text" };
/** @type {Spelling} */
export const OBJECT = { accepts: isObject, description: "an object" };
/** @type {Spelling} */
export const COUNT = { accepts: isCount, description: "a whole number" };
/** @type {Spelling} */
export const LIST = { accepts: Array.isArray, description: "a list" };
/** @type {Spelling} */
export const UUID = {
  accepts: (value) => typeof value === "string" && UUID_PATTERN.test(value),
  description: "a lower-case uuid with hyphens",
};
/** @type {Spelling} */
export const HASH = {
  accepts: (value) => typeof value === "string" && HASH_PATTERN.test(value),
  description: "64 lower-case hex digits",
};
/** @type {Spelling} */
export const SALT = {
  accepts: (value) => typeof value === "string" && SALT_PATTERN.test(value),
  description: "32 lower-case hex digits",
};
/** @type {Spelling} */
export const TIME = { accepts: isTime, description: "a time like `2027-02-18T00:00:00.000000Z`" };
/** @type {Spelling} */
export const PRODUCT = { accepts: isProduct, description: "a product of id, name and sku" };
/** @type {Spelling} */
export const HASHES = { accepts: (value) => Array.isArray(value) && value.every(HASH.accepts), description: "a list of hashes" };
/** @type {Spelling} */
export const AUDIENCE_LIST = { accepts: isAudienceList, description: "a list of audiences in order" };
/** @type {Spelling} */
export const AUDIENCE_LISTS = {
  accepts: (value) => Array.isArray(value) && value.every(isAudienceList),
  description: "a list of the fields' audiences",
};
/** @type {Spelling} */
export const ACCESS_BY_PATH = {
  accepts: (value) => isObject(value) && Object.values(value).every(isAudienceList),
  description: "each path's audiences in order",
};
/** @type {Spelling} */
export const COMPLIANCE = {
  accepts: (value) => Array.isArray(value) && value.every(isComplianceEntry),
  description: "a list of compliance entries",
};

/** @type {ObjectForm} */
export const FIELD_FORM = {
  access: AUDIENCE_LIST,
  op: oneOf("field"),
  path: TEXT,
  salt: SALT,
  type: TEXT,
  value: ANYTHING,
};
/** @type {ObjectForm} */
export const ROOT_FORM = {
  access: AUDIENCE_LISTS,
  battery_product: PRODUCT,
  facts_hash: HASH,
  op: oneOf("passport"),
};

/**
 * `value` as an object of exactly this form.
 * @param {string} where @param {any} value @param {ObjectForm} form @returns {Record<string, any>}
 */
export function requireForm(where, value, form) {
  if (!isObject(value)) throw new CheckFailed(`${where} is not an object`);
  for (const name of Object.keys(form)) {
    if (!(name in value)) throw new CheckFailed(`${where} has no \`${name}\``);
  }
  for (const name of Object.keys(value)) {
    if (!Object.hasOwn(form, name)) throw new CheckFailed(`${where} has an unknown member \`${shortenText(name)}\``);
  }
  for (const [name, spelling] of Object.entries(form)) {
    if (!spelling.accepts(value[name])) throw new CheckFailed(`${where}: \`${name}\` is not ${spelling.description}`);
  }
  return value;
}
