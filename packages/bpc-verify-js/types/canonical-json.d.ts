/** The value of canonical bytes; `CheckFailed` unless writing it again gives the same. @param {Uint8Array} bytes @returns {JsonValue} */
export function decodeCanonical(bytes: Uint8Array): JsonValue;
/** @param {JsonValue} value @returns {Uint8Array<ArrayBuffer>} */
export function encodeCanonical(value: JsonValue): Uint8Array<ArrayBuffer>;
/** @param {JsonValue} value @returns {string} */
export function writeCanonical(value: JsonValue): string;
/**
 * Canonical JSON, BPC-CJSON-1: every value has exactly one byte string.
 *
 * Whole numbers beyond what a number of JavaScript holds exactly are read as BigInt. Objects have no prototype, so that a
 * member called `__proto__` is a member like any other.
 */
export type JsonValue = null | boolean | number | bigint | string | any[] | JsonObject;
/**
 * Canonical JSON, BPC-CJSON-1: every value has exactly one byte string.
 *
 * Whole numbers beyond what a number of JavaScript holds exactly are read as BigInt. Objects have no prototype, so that a
 * member called `__proto__` is a member like any other.
 */
export type JsonObject = {
    [name: string]: any;
};
