/**
 * What rules compute with: exact numbers, days, texts, comparisons, and how a value is written in passports and proofs.
 *
 * A number is a BigInt that counts the smallest step of its type; a day and a member of an enumeration is a text; an absent
 * option is null. What has to be rounded is rounded half to even.
 *
 * @typedef {any} RuleValue
 * @typedef {import("./rule-types.js").RuleType} RuleType
 */

import { compareTexts } from "../bytes.js";
import { writeCanonical } from "../canonical-json.js";
import { CheckFailed } from "../errors.js";
import { QUANTITY_SCALE, findUnitFactor, getScaleOf, unwrapOption } from "./rule-types.js";

const MAGNITUDE_DIGITS = 36;
const DAYS_BEFORE = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];
const LAST_YEAR = 9999;
const LIMITED = new Set(["toDec", "convert", "sumDec", "sumQty", "sum", "round"]);
const BLANKS = " \t\r\n";

/** @param {number} exponent */
const power = (exponent) => 10n ** BigInt(exponent);

/** The integer nearest to a fraction; of two that are equally near the even one. @param {bigint} numerator @param {bigint} denominator */
export function divideHalfEven(numerator, denominator) {
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

/** @param {bigint} count @param {RuleType} source @param {RuleType} target */
export function rescaleCount(count, source, target) {
  return divideHalfEven(count * power(getScaleOf(target)), power(getScaleOf(source)));
}

/** `left op right` as a count of the result's type. @param {string} op @param {RuleType} leftType @param {bigint} left @param {RuleType} rightType @param {bigint} right @param {RuleType} result */
export function calculateCount(op, leftType, left, rightType, right, result) {
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

/** @param {RuleType} type @param {bigint} count */
function requireMagnitude(type, count) {
  const limit = power(MAGNITUDE_DIGITS + getScaleOf(type));
  if (count >= limit || -count >= limit) throw new CheckFailed("the rules give a number that is not below 10^36");
  return count;
}

/** -1, 0 or 1, of two values of one ordered type. @param {RuleValue} one @param {RuleValue} other @returns {number} */
export function compareValues(one, other) {
  if (typeof one === "string") return compareTexts(one, other);
  return one < other ? -1 : one > other ? 1 : 0;
}

/** Whether two values of one type are equal. @param {RuleValue} one @param {RuleValue} other @returns {boolean} */
export function areEqualValues(one, other) {
  if (one === other) return true;
  if (one === null || other === null || typeof one !== "object" || typeof other !== "object") return false;
  if (Array.isArray(one)) return one.length === other.length && one.every((each, at) => areEqualValues(each, other[at]));
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => name in other && areEqualValues(one[name], other[name]));
}

/** @param {string} op @param {RuleType} leftType @param {RuleValue} left @param {RuleType} rightType @param {RuleValue} right @returns {boolean} */
export function compareSides(op, leftType, left, rightType, right) {
  let [one, other] = [left, right];
  if (leftType.k === "Dec" && rightType.k === "Dec") [one, other] = [left * power(getScaleOf(rightType)), right * power(getScaleOf(leftType))];
  if (op === "==") return areEqualValues(one, other);
  if (op === "!=") return !areEqualValues(one, other);
  const order = compareValues(one, other);
  if (op === "<") return order < 0;
  if (op === "<=") return order <= 0;
  return op === ">" ? order > 0 : order >= 0;
}

// Writing

/** A value as passports and proofs show it. @param {RuleType} type @param {RuleValue} value @returns {any} */
export function writeValue(type, value) {
  switch (type.k) {
    case "Dec":
      return writeDecimal(value, getScaleOf(type));
    case "Qty":
      return { unit: type.unit, value: stripZeros(writeDecimal(value, QUANTITY_SCALE)) };
    case "Opt":
      return value === null ? null : writeValue(type.item, value);
    case "List":
      return value.map((/** @type {RuleValue} */ each) => writeValue(type.item, each));
    case "Map":
      return makeObject(Object.keys(value).map((name) => [name, writeValue(type.item, value[name])]));
    case "Record":
      return makeObject([...type.members].map(([name, member]) => [name, writeValue(member, value[name])]));
    default:
      return value;
  }
}

/** An object without a prototype. @param {[string, any][]} members @returns {any} */
export function makeObject(members) {
  const object = Object.create(null);
  for (const [name, value] of members) object[name] = value;
  return object;
}

/** @param {bigint} count @param {number} scale */
function writeDecimal(count, scale) {
  const digits = String(count < 0n ? -count : count).padStart(scale + 1, "0");
  const whole = digits.slice(0, digits.length - scale);
  return `${count < 0n ? "-" : ""}${whole}${scale ? `.${digits.slice(digits.length - scale)}` : ""}`;
}

/** @param {string} text */
function stripZeros(text) {
  return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
}

/** @param {RuleType} type @param {RuleValue} value @returns {string} */
function writeAsWords(type, value) {
  const kind = unwrapOption(type);
  if (value === null) return "-";
  if (kind.k === "Dec") return stripZeros(writeDecimal(value, getScaleOf(kind)));
  if (kind.k === "Qty") return `${stripZeros(writeDecimal(value, QUANTITY_SCALE))} ${kind.unit}`;
  return String(value);
}

// Days

/** @param {string} day @returns {[number, number, number]} */
function splitDay(day) {
  const [year, month, number] = day.split("-").map(Number);
  return [year, month, number];
}

/** @param {number} year */
const isLeap = (year) => year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);

/** @param {number} year @param {number} month */
function countDaysOfMonth(year, month) {
  return DAYS_BEFORE[month] - DAYS_BEFORE[month - 1] + (month === 2 && isLeap(year) ? 1 : 0);
}

/** Whether a text is a day of the years 0001 to 9999. @param {string} text */
export function isCalendarDay(text) {
  if (!/^[0-9]{4}-[0-9]{2}-[0-9]{2}$/.test(text)) return false;
  const [year, month, day] = splitDay(text);
  return year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= countDaysOfMonth(year, month);
}

/** The days from the first of January of the year 1 to the first of a month. @param {number} year @param {number} month */
function countDaysBefore(year, month) {
  const years = year - 1;
  const days = years * 365 + Math.floor(years / 4) - Math.floor(years / 100) + Math.floor(years / 400) + DAYS_BEFORE[month - 1];
  return month > 2 && isLeap(year) ? days + 1 : days;
}

/** @param {string} day */
function countDays(day) {
  const [year, month, number] = splitDay(day);
  return countDaysBefore(year, month) + number;
}

/** @param {number} year @param {number} month @param {number} day */
function writeDay(year, month, day) {
  if (!(year >= 1 && year <= LAST_YEAR)) throw new CheckFailed("the rules give a day that is not in the years 0001 to 9999");
  return `${String(year).padStart(4, "0")}-${String(month).padStart(2, "0")}-${String(day).padStart(2, "0")}`;
}

/** @param {string | null} day @param {bigint} days */
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

/** @param {string | null} day @param {bigint} months */
function addMonths(day, months) {
  if (day === null) return null;
  const [oldYear, oldMonth, number] = splitDay(day);
  const total = oldYear * 12 + oldMonth - 1 + Number(months);
  const [year, month] = [Math.floor(total / 12), (((total % 12) + 12) % 12) + 1];
  return writeDay(year, month, Math.min(number, countDaysOfMonth(year, month)));
}

// Built-in functions

/** @param {any} call @param {RuleValue[]} values */
function chooseExtreme(call, values) {
  const target = unwrapOption(call.t);
  const scaled = values.length === 2 && target.k === "Dec" ? values.map((value, at) => (value === null ? null : rescaleCount(value, unwrapOption(call.args[at].t), target))) : values;
  const candidates = values.length === 1 ? values[0] : scaled;
  if (candidates.length === 0 || candidates.includes(null)) return null;
  return candidates.reduce((/** @type {RuleValue} */ best, /** @type {RuleValue} */ value) => {
    const order = compareValues(value, best);
    return (call.op === "min" ? order < 0 : order > 0) ? value : best;
  });
}

/** @param {RuleType} type @param {RuleValue[]} items */
function pickDistinct(type, items) {
  const seen = new Set();
  return items.filter((item) => {
    const key = writeCanonical(writeValue(type.item, item));
    return !seen.has(key) && seen.add(key);
  });
}

/** @param {string} text @param {string} separator */
function splitText(text, separator) {
  return separator === "" ? [text] : text.split(separator);
}

/** @param {string} text */
function trimText(text) {
  let [start, end] = [0, text.length];
  while (start < end && BLANKS.includes(text[start])) start += 1;
  while (end > start && BLANKS.includes(text[end - 1])) end -= 1;
  return text.slice(start, end);
}

/** @param {bigint[]} counts */
const addCounts = (counts) => counts.reduce((sum, count) => sum + count, 0n);

/** @param {any} call @param {RuleValue} record */
function readMember(call, record) {
  return (record.isFact ? record.members : record)[call.fixed.member];
}

/** @param {any} call @param {bigint} count */
function roundQuantity(call, count) {
  const unit = power(QUANTITY_SCALE - call.fixed.scale);
  return divideHalfEven(count, unit) * unit;
}

/** @param {any} call @param {bigint} count */
function convertQuantity(call, count) {
  const [numerator, denominator] = /** @type {[bigint, bigint]} */ (findUnitFactor(call.fixed.from, call.fixed.to));
  return divideHalfEven(count * numerator, denominator);
}

/** @type {Record<string, (call: any, ...values: any[]) => RuleValue>} */
const FUNCTIONS = {
  some: (_, item) => item,
  recordGet: readMember,
  member: (call, record) => (record === null ? null : readMember(call, record)),
  in: (_, value, items) => items.some((/** @type {RuleValue} */ item) => areEqualValues(item, value)),
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
  present: (_, items) => items.filter((/** @type {RuleValue} */ item) => item !== null),
  isEmpty: (_, items) => items.length === 0,
  toEnum: (call, text) => (text === null ? null : (unwrapOption(call.t).spellings?.get(text) ?? null)),
};

/** What a built-in gives; those that ask for the product or the day ask `world`. @param {any} call @param {RuleValue[]} values @param {Record<string, string>} world @returns {RuleValue} */
export function applyFunction(call, values, world) {
  const result = call.op in FUNCTIONS ? FUNCTIONS[call.op](call, ...values) : world[call.op];
  return LIMITED.has(call.op) ? requireMagnitude(call.t, result) : result;
}
