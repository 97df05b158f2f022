/**
 * Canonical JSON, BPC-CJSON-1: every value has exactly one byte string.
 *
 * Whole numbers beyond what a number of JavaScript holds exactly are read as BigInt. Objects have no prototype, so that a
 * member called `__proto__` is a member like any other.
 *
 * @typedef {null | boolean | number | bigint | string | any[] | JsonObject} JsonValue
 * @typedef {{ [name: string]: any }} JsonObject
 */

import { areSameBytes, compareTexts, decodeUtf8, encodeUtf8 } from "./bytes.js";
import { CheckFailed } from "./errors.js";

const MAX_DEPTH = 128;
const MAX_DIGITS = 600;
const LONE_SURROGATE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
/** @type {Record<string, string>} */
const READ_ESCAPES = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
/** @type {Record<string, string>} */
const WRITE_ESCAPES = { '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

class JsonReader {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  /** @param {string} reason @returns {never} */
  refuse(reason) {
    throw new CheckFailed(`it is not canonical JSON: ${reason} at character ${this.at}`);
  }

  /** @returns {JsonValue} */
  readWhole() {
    const value = this.readValue(0);
    if (this.at !== this.text.length) this.refuse("something stands behind it");
    return value;
  }

  /** @param {number} depth @returns {JsonValue} */
  readValue(depth) {
    const letter = this.text[this.at];
    if (letter === "{") return this.readObject(depth + 1);
    if (letter === "[") return this.readList(depth + 1);
    if (letter === '"') return this.readText();
    for (const [word, value] of /** @type {[string, boolean | null][]} */ ([
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

  /** @param {number} depth @returns {JsonObject} */
  readObject(depth) {
    if (depth > MAX_DEPTH) this.refuse("it is nested too deeply");
    /** @type {JsonObject} */
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

  /** @param {number} depth @returns {JsonValue[]} */
  readList(depth) {
    if (depth > MAX_DEPTH) this.refuse("it is nested too deeply");
    /** @type {JsonValue[]} */
    const value = [];
    this.at += 1;
    if (this.takeLetter("]")) return value;
    do value.push(this.readValue(depth));
    while (this.takeLetter(","));
    if (!this.takeLetter("]")) this.refuse("a list does not end");
    return value;
  }

  /** @returns {string} */
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

  /** @returns {string} */
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

  /** @returns {number | bigint} */
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

  /** @param {string} letter @returns {boolean} */
  takeLetter(letter) {
    if (this.text[this.at] !== letter) return false;
    this.at += 1;
    return true;
  }
}

/** The value of canonical bytes; `CheckFailed` unless writing it again gives the same. @param {Uint8Array} bytes @returns {JsonValue} */
export function decodeCanonical(bytes) {
  const value = new JsonReader(decodeUtf8(bytes)).readWhole();
  if (!areSameBytes(encodeCanonical(value), bytes)) throw new CheckFailed("it is JSON, but not canonical");
  return value;
}

/** @param {JsonValue} value @returns {Uint8Array<ArrayBuffer>} */
export function encodeCanonical(value) {
  return encodeUtf8(writeCanonical(value));
}

/** @param {JsonValue} value @returns {string} */
export function writeCanonical(value) {
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

/** @param {string} text @returns {string} */
function writeText(text) {
  if (LONE_SURROGATE.test(text)) throw new CheckFailed("a text has a lone surrogate");
  const escaped = text.replace(
    /["\\\u0000-\u001f]/g,
    (letter) => WRITE_ESCAPES[letter] ?? `\\u00${letter.charCodeAt(0).toString(16).padStart(2, "0")}`,
  );
  return `"${escaped}"`;
}
