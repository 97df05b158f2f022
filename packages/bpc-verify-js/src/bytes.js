/** Bytes and the texts that stand for them. Each has one spelling; a reader decodes, writes again and compares. */

import { CheckFailed } from "./errors.js";

const UTF8_WRITER = new TextEncoder();
const UTF8_READER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const HEX_HASH = /^[0-9a-f]{64}$/;
const BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/** @param {string} text @returns {Uint8Array<ArrayBuffer>} */
export function encodeUtf8(text) {
  return UTF8_WRITER.encode(text);
}

/** @param {Uint8Array} bytes @returns {string} */
export function decodeUtf8(bytes) {
  try {
    return UTF8_READER.decode(bytes);
  } catch {
    throw new CheckFailed("it is not UTF-8");
  }
}

/** @param {Uint8Array[]} parts @returns {Uint8Array<ArrayBuffer>} */
export function joinBytes(...parts) {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** @param {Uint8Array} one @param {Uint8Array} other @returns {boolean} */
export function areSameBytes(one, other) {
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}

/** @param {Uint8Array} bytes @returns {string} */
export function toHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The 32 bytes of 64 lower-case hex digits. @param {string} text @returns {Uint8Array<ArrayBuffer>} */
export function fromHex(text) {
  if (!HEX_HASH.test(text)) throw new CheckFailed("it is not 64 lower-case hex digits");
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/** @param {Uint8Array} bytes @returns {string} */
export function toBase64(bytes) {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

/** @param {string} text @returns {Uint8Array<ArrayBuffer>} */
export function fromBase64(text) {
  let bytes;
  try {
    bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    throw new CheckFailed("it is not base64");
  }
  if (toBase64(bytes) !== text) throw new CheckFailed("it is not canonical base64");
  return bytes;
}

/** RFC 4648 section 6, upper case, without padding. @param {Uint8Array} bytes @returns {string} */
export function toBase32(bytes) {
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

/** By code point, which is the order of the UTF-8 bytes. @param {string} one @param {string} other @returns {number} */
export function compareTexts(one, other) {
  const shorter = Math.min(one.length, other.length);
  for (let at = 0; at < shorter; at++) {
    const left = one.charCodeAt(at);
    const right = other.charCodeAt(at);
    if (left !== right) return rankCodeUnit(left) - rankCodeUnit(right);
  }
  return one.length - other.length;
}

/** Surrogates, which stand for what is above U+FFFF, go behind all others. @param {number} unit @returns {number} */
function rankCodeUnit(unit) {
  if (unit < 0xd800) return unit;
  return unit >= 0xe000 ? unit - 0x800 : unit + 0x2000;
}

/** @param {Uint8Array} bytes @returns {Promise<Uint8Array<ArrayBuffer>>} */
export async function hashBytes(bytes) {
  if (!globalThis.crypto?.subtle) throw new Error("this browser gives no WebCrypto to this page");
  return new Uint8Array(await globalThis.crypto.subtle.digest("SHA-256", /** @type {Uint8Array<ArrayBuffer>} */ (bytes)));
}

/** @param {string} text @returns {string} the first 80 characters of a text that somebody else wrote */
export function shortenText(text) {
  return text.length <= 80 ? text : `${text.slice(0, 79)}…`;
}
