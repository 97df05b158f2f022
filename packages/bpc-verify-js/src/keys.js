/**
 * Keys that somebody trusts: from a key set, as an installation publishes it, or one by one.
 *
 * @typedef {object} PinnedKey
 * @property {Uint8Array} publicKey
 * @property {string | null} keyId  the name that receipts must give it; null if any will do
 * @property {string | null} [tenantId]  whose key it is; null for a key of the installation, which proves no tenant
 * @property {string | null} [tenant]
 * @property {string | null} [validFrom]
 * @property {string | null} [validUntil]  also the time when it was retired
 * @property {string | null} [compromisedSince]
 */

import { fromBase64, shortenText, toBase64, toHex } from "./bytes.js";
import { requirePublicKey } from "./ed25519.js";
import { CheckFailed } from "./errors.js";
import { UUID, isTime } from "./forms.js";

const CLOCK_TOLERANCE_MS = 60_000;

/** The keys of a key set, in its order. @param {any} document @returns {PinnedKey[]} */
export function readKeySet(document) {
  const keys = document?.keys;
  if (!Array.isArray(keys)) throw new CheckFailed("the key set has no list `keys`");
  return keys.map((key, at) => readKey(key, at + 1));
}

/** @param {any} key @param {number} number @returns {PinnedKey} */
function readKey(key, number) {
  const where = `key ${number} of the key set`;
  if (typeof key?.public_key !== "string") throw new CheckFailed(`${where} has no \`public_key\``);
  const publicKey = requirePublicKey(fromBase64(key.public_key));
  const base64url = toBase64(publicKey).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  // Two ways to say which key it is that say different things: somebody has tampered with one.
  if (key.x !== undefined && key.x !== base64url) throw new CheckFailed(`${where} has a \`public_key\` and an \`x\` that differ`);
  const names = [key.key_id, key.kid].filter((name) => name !== undefined);
  if (names.some((name) => typeof name !== "string" || name === "")) throw new CheckFailed(`the name of ${where} is not a text`);
  if (new Set(names).size > 1) throw new CheckFailed(`${where} has two names`);
  const ends = [readTime(key.valid_until, where), readTime(key.retired_at, where)].filter((time) => time !== null).sort();
  const compromisedSince = readTime(key.compromised_since, where);
  if ((key.status === "COMPROMISED") !== (compromisedSince !== null)) throw new CheckFailed(`${where} contradicts itself about its compromise`);
  const tenantId = readOptionalText(key.tenant_id, where);
  if (tenantId !== null && !UUID.accepts(tenantId)) throw new CheckFailed(`${where} has a \`tenant_id\` that is not an id`);
  return {
    publicKey,
    keyId: names[0] ?? null,
    tenantId,
    tenant: readOptionalText(key.tenant, where),
    validFrom: readTime(key.valid_from, where),
    validUntil: ends[0] ?? null,
    compromisedSince,
  };
}

/** @param {any} value @param {string} where @returns {string | null} */
function readOptionalText(value, where) {
  if (value === undefined || value === null) return null;
  if (typeof value !== "string" || value === "") throw new CheckFailed(`${where} has a member that is not a text`);
  return value;
}

/** @param {any} value @param {string} where @returns {string | null} */
function readTime(value, where) {
  if (value === undefined || value === null) return null;
  if (!isTime(value)) throw new CheckFailed(`${where} has a time that is not one`);
  return value;
}

/** A key from its base64. @param {string} text @param {string | null} [keyId] @returns {PinnedKey} */
export function pinKey(text, keyId = null) {
  return { publicKey: requirePublicKey(fromBase64(text)), keyId };
}

/**
 * What you know of a key: the entry with the name that the receipt gives it wins over others.
 * @param {PinnedKey[]} pins @param {Uint8Array} publicKey @param {string} name @returns {PinnedKey | null}
 */
export function findPin(pins, publicKey, name) {
  const same = pins.filter((pin) => toHex(pin.publicKey) === toHex(publicKey));
  return same.find((pin) => pin.keyId === name) ?? same[0] ?? null;
}

/** A key of another tenant than the receipt's is refused. @param {PinnedKey} pin @param {Record<string, any>} receipt */
export function requireSameTenant(pin, receipt) {
  if (pin.tenantId && pin.tenantId !== receipt.tenant_id) {
    throw new CheckFailed(`the key \`${shortenText(receipt.signing_key_id)}\` belongs to another tenant than the receipt names`);
  }
}

/**
 * A compromised key counts only for what the log shows from before; nothing else counts.
 * @param {PinnedKey} pin @param {string | null} seenAt
 */
export function refuseCompromised(pin, seenAt) {
  const since = pin.compromisedSince ?? null;
  if (since === null || (seenAt !== null && seenAt < since)) return; // times have one spelling: their order is that of the texts
  throw new CheckFailed(`the key is compromised since ${since}, and ${seenAt === null ? "no log shows that it signed this before" : `the log shows this signature only at ${seenAt}`}`);
}

/** The signature is inside the window of the key, give or take a minute. @param {PinnedKey} pin @param {string} signedAt */
export function requireKeyWindow(pin, signedAt) {
  const at = Date.parse(signedAt);
  if (pin.validFrom && at + CLOCK_TOLERANCE_MS < Date.parse(pin.validFrom)) throw new CheckFailed(`the key is valid from ${pin.validFrom} on, and it signed at ${signedAt}`);
  if (pin.validUntil && at - CLOCK_TOLERANCE_MS > Date.parse(pin.validUntil)) throw new CheckFailed(`the key was valid until ${pin.validUntil}, and it signed at ${signedAt}`);
}

/** Who signed, as far as your keys show it. @param {PinnedKey} pin @returns {string} */
export function describeOwner(pin) {
  return pin.tenantId ? `a key of the tenant \`${shortenText(pin.tenant ?? pin.tenantId)}\`, which you trust` : "which you trust; it proves no tenant";
}
