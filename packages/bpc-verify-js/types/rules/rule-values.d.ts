/** The integer nearest to a fraction; of two that are equally near the even one. @param {bigint} numerator @param {bigint} denominator */
export function divideHalfEven(numerator: bigint, denominator: bigint): bigint;
/** @param {bigint} count @param {RuleType} source @param {RuleType} target */
export function rescaleCount(count: bigint, source: RuleType, target: RuleType): bigint;
/** `left op right` as a count of the result's type. @param {string} op @param {RuleType} leftType @param {bigint} left @param {RuleType} rightType @param {bigint} right @param {RuleType} result */
export function calculateCount(op: string, leftType: RuleType, left: bigint, rightType: RuleType, right: bigint, result: RuleType): bigint;
/** -1, 0 or 1, of two values of one ordered type. @param {RuleValue} one @param {RuleValue} other @returns {number} */
export function compareValues(one: RuleValue, other: RuleValue): number;
/** Whether two values of one type are equal. @param {RuleValue} one @param {RuleValue} other @returns {boolean} */
export function areEqualValues(one: RuleValue, other: RuleValue): boolean;
/** @param {string} op @param {RuleType} leftType @param {RuleValue} left @param {RuleType} rightType @param {RuleValue} right @returns {boolean} */
export function compareSides(op: string, leftType: RuleType, left: RuleValue, rightType: RuleType, right: RuleValue): boolean;
/** A value as passports and proofs show it. @param {RuleType} type @param {RuleValue} value @returns {any} */
export function writeValue(type: RuleType, value: RuleValue): any;
/** An object without a prototype. @param {[string, any][]} members @returns {any} */
export function makeObject(members: [string, any][]): any;
/** Whether a text is a day of the years 0001 to 9999. @param {string} text */
export function isCalendarDay(text: string): boolean;
/** What a built-in gives; those that ask for the product or the day ask `world`. @param {any} call @param {RuleValue[]} values @param {Record<string, string>} world @returns {RuleValue} */
export function applyFunction(call: any, values: RuleValue[], world: Record<string, string>): RuleValue;
/**
 * What rules compute with: exact numbers, days, texts, comparisons, and how a value is written in passports and proofs.
 *
 * A number is a BigInt that counts the smallest step of its type; a day and a member of an enumeration is a text; an absent
 * option is null. What has to be rounded is rounded half to even.
 */
export type RuleValue = any;
/**
 * What rules compute with: exact numbers, days, texts, comparisons, and how a value is written in passports and proofs.
 *
 * A number is a BigInt that counts the smallest step of its type; a day and a member of an enumeration is a text; an absent
 * option is null. What has to be rounded is rounded half to even.
 */
export type RuleType = import("./rule-types.js").RuleType;
