/**
 * Ed25519 keys and signatures, with WebCrypto.
 *
 * A key is checked before it is used: under a key of small order anybody can sign, and implementations differ on malformed
 * keys, so both are refused.
 */

import { CheckFailed, NotChecked } from "./errors.js";

// RFC 8032 5.1: the field's prime and the curve's d.
const FIELD_PRIME = 2n ** 255n - 19n;
const CURVE_D = reduce(-121665n * raise(121666n, FIELD_PRIME - 2n));

/** @param {bigint} value @returns {bigint} */
function reduce(value) {
  const rest = value % (2n ** 255n - 19n);
  return rest < 0n ? rest + (2n ** 255n - 19n) : rest;
}

/** @param {bigint} base @param {bigint} exponent @returns {bigint} */
function raise(base, exponent) {
  let result = 1n;
  let power = reduce(base);
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = reduce(result * power);
    power = reduce(power * power);
  }
  return result;
}

/** @param {bigint} value @returns {bigint} */
function invert(value) {
  return raise(value, FIELD_PRIME - 2n);
}

/** Whether eight times the point is the identity. @param {bigint} xSquared @param {bigint} y @returns {boolean} */
function isSmallOrder(xSquared, y) {
  let [x2, y2, last] = [xSquared, reduce(y * y), y];
  for (let round = 0; round < 3; round++) {
    const product = reduce(CURVE_D * x2 * y2);
    const plus = invert(1n + product);
    const next = reduce((x2 + y2) * invert(1n - product));
    x2 = reduce(4n * x2 * y2 * plus * plus);
    y2 = reduce(next * next);
    last = next;
  }
  return x2 === 0n && last === 1n;
}

/**
 * A key that is a point of the curve, canonically written, and not of small order.
 * @param {Uint8Array} bytes @returns {Uint8Array}
 */
export function requirePublicKey(bytes) {
  if (bytes.length !== 32) throw new CheckFailed(`the key is ${bytes.length} bytes long, not 32`);
  let y = 0n;
  for (let at = 31; at >= 0; at--) y = (y << 8n) | BigInt(bytes[at]);
  y &= 2n ** 255n - 1n;
  if (y >= FIELD_PRIME) throw new CheckFailed("the key is not canonically encoded");
  const xSquared = reduce((y * y - 1n) * invert(CURVE_D * y * y + 1n));
  // Euler's criterion: x² has a root, or there is no such point (RFC 8032 5.1.3).
  if (xSquared !== 0n && raise(xSquared, (FIELD_PRIME - 1n) >> 1n) !== 1n) {
    throw new CheckFailed("the key is not a point of the curve");
  }
  if (isSmallOrder(xSquared, y)) throw new CheckFailed("the key is of small order, under which anybody can sign");
  return bytes;
}

/**
 * Whether `signature` is that of `publicKey` over `message`.
 * @param {Uint8Array} publicKey @param {Uint8Array} message @param {Uint8Array} signature @returns {Promise<boolean>}
 */
export async function isSignedBy(publicKey, message, signature) {
  const subtle = globalThis.crypto?.subtle;
  if (!subtle) throw new NotChecked("this browser gives no WebCrypto to this page");
  let key;
  try {
    key = await subtle.importKey("raw", /** @type {Uint8Array<ArrayBuffer>} */ (publicKey), "Ed25519", false, ["verify"]);
  } catch {
    throw new NotChecked("this browser cannot check Ed25519 signatures");
  }
  return subtle.verify(
    "Ed25519",
    key,
    /** @type {Uint8Array<ArrayBuffer>} */ (signature),
    /** @type {Uint8Array<ArrayBuffer>} */ (message),
  );
}
