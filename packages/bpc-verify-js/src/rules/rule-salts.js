/** Salts, made from the secret of a snapshot: by HMAC for the passport of a product, by SHAKE-256 for those of batteries. */

import { encodeUtf8, fromHex, joinBytes, toHex } from "../bytes.js";
import { CheckFailed } from "../errors.js";

const BLINDING_TYPE = "Blinding";
const SALT_BYTES = 16;
const RATE = 136; // FIPS 202: bytes of the state that SHAKE-256 reads and gives at once
const MASK = (1n << 64n) - 1n;

/** The secret of the snapshot that a receipt names, 32 bytes; null if there is none. @param {any[]} facts @param {Record<string, any>} receipt @returns {Uint8Array | null} */
export function findSecret(facts, receipt) {
  const blinding = facts.find((fact) => fact.fact_type === BLINDING_TYPE && fact.fact_key === `blinding:${receipt.snapshot_id}`);
  if (blinding === undefined) return null;
  const isGood = blinding.schema_version === 1 && Object.keys(blinding.payload).length === 1 && /^[0-9a-f]{64}$/.test(String(blinding.payload.key));
  if (!isGood) throw new CheckFailed("the snapshot's secret does not have its form");
  return fromHex(blinding.payload.key);
}

/** How the salts of a product's passport are made. @param {any[]} facts @param {Record<string, any>} receipt @returns {Promise<(purpose: string) => Promise<string>>} */
export async function openSalts(facts, receipt) {
  const secret = findSecret(facts, receipt) ?? new Uint8Array(32);
  const key = await crypto.subtle.importKey("raw", /** @type {any} */ (secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return async (purpose) => toHex(new Uint8Array(await crypto.subtle.sign("HMAC", key, /** @type {any} */ (encodeUtf8(`BPC-BLIND-1\0${receipt.passport_version_id}\0${purpose}`)))));
}

/** BPC-ITEM-SALT-1: the salts of payload, steps and fields, 32 hexadecimal digits each. @param {Uint8Array} secret @param {string} versionId @param {number} count @returns {{ payload: string, steps: string, fields: string[] }} */
export function deriveLayerSalts(secret, versionId, count) {
  const digits = toHex(hashShake256(joinBytes(secret, encodeUtf8(`BPC-ITEM-SALT-1\0${versionId}`)), SALT_BYTES * (count + 2)));
  const [payload, steps, ...fields] = /** @type {string[]} */ (digits.match(/.{32}/g));
  return { payload, steps, fields };
}

/** SHAKE-256 of FIPS 202, which WebCrypto does not have. @param {Uint8Array} bytes @param {number} length  of what it gives @returns {Uint8Array} */
export function hashShake256(bytes, length) {
  const padded = new Uint8Array((Math.floor(bytes.length / RATE) + 1) * RATE);
  padded.set(bytes);
  padded[bytes.length] ^= 0x1f;
  padded[padded.length - 1] ^= 0x80;
  const state = new BigUint64Array(25);
  const view = new DataView(padded.buffer);
  for (let start = 0; start < padded.length; start += RATE) {
    for (let at = 0; at < RATE / 8; at++) state[at] ^= view.getBigUint64(start + 8 * at, true);
    permuteState(state);
  }
  const blocks = Math.ceil(length / RATE);
  const output = new DataView(new ArrayBuffer(blocks * RATE));
  for (let block = 0; block < blocks; block++) {
    if (block > 0) permuteState(state);
    for (let at = 0; at < RATE / 8; at++) output.setBigUint64(block * RATE + 8 * at, state[at], true);
  }
  return new Uint8Array(output.buffer, 0, length);
}

/** Keccak-f[1600] (FIPS 202, 3.3): lane (x, y) is at x + 5y. @param {BigUint64Array} state */
function permuteState(state) {
  let register = 1;
  for (let round = 0; round < 24; round++) {
    const columns = [0, 1, 2, 3, 4].map((x) => state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20]); // theta
    for (let at = 0; at < 25; at++) state[at] ^= columns[(at + 4) % 5] ^ rotateLane(columns[(at + 1) % 5], 1);
    let [x, y, lane] = [1, 0, state[1]]; // rho and pi
    for (let step = 0; step < 24; step++) {
      [x, y] = [y, (2 * x + 3 * y) % 5];
      const next = state[x + 5 * y];
      state[x + 5 * y] = rotateLane(lane, (((step + 1) * (step + 2)) / 2) % 64);
      lane = next;
    }
    for (let row = 0; row < 25; row += 5) { // chi
      const lanes = state.slice(row, row + 5);
      for (let column = 0; column < 5; column++) state[row + column] = lanes[column] ^ (~lanes[(column + 1) % 5] & MASK & lanes[(column + 2) % 5]);
    }
    for (let bit = 0; bit < 7; bit++) { // iota
      if (register & 1) state[0] ^= 1n << BigInt((1 << bit) - 1);
      register = register & 0x80 ? ((register << 1) ^ 0x171) & 0xff : register << 1;
    }
  }
}

/** @param {bigint} lane @param {number} count @returns {bigint} */
function rotateLane(lane, count) {
  return ((lane << BigInt(count)) | (lane >> BigInt(64 - count))) & MASK;
}
