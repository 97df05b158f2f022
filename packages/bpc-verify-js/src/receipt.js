/** Receipts and their signatures, BPC-SIGN-1: BPC-RECEIPT-1, and those of batches and batteries. */

import { fromBase64, hashBytes } from "./bytes.js";
import { encodeCanonical } from "./canonical-json.js";
import { CheckFailed } from "./errors.js";
import { HASH, TIME, UUID, isObject, oneOf, requireForm } from "./forms.js";

const MAX_NAME_LENGTH = 200;
/** @type {import("./forms.js").Spelling} */
const NAME = { accepts: isName, description: `a name of 1 to ${MAX_NAME_LENGTH} characters` };
/** @type {import("./forms.js").ObjectForm} */
const RECEIPT_FORM = {
  battery_product_id: UUID,
  compiler_build_id: NAME,
  dsl_sha256: HASH,
  issued_at: TIME,
  passport_id: UUID,
  passport_version_id: UUID,
  payload_hash: HASH,
  proof_root_hash: HASH,
  receipt_version: oneOf("BPC-RECEIPT-1"),
  rule_package_version_id: UUID,
  signature: { accepts: (value) => typeof value === "string", description: "a text" },
  signature_alg: oneOf("ED25519"),
  signing_key_id: NAME,
  snapshot_hash: HASH,
  snapshot_id: UUID,
  tenant_id: UUID,
  tests_sha256: HASH,
};

const { passport_id: _passport, ...FORM_BELOW } = RECEIPT_FORM;
/** BPC-ITEM-RECEIPT-1 and BPC-BATCH-RECEIPT-1. @type {import("./forms.js").ObjectForm} */
const ITEM_RECEIPT_FORM = {
  ...FORM_BELOW,
  above_receipt_hash: HASH,
  receipt_version: oneOf("BPC-BATCH-RECEIPT-1", "BPC-ITEM-RECEIPT-1"),
  subject_id: UUID,
};

/** @param {any} value @returns {boolean} whether a build or a key may have it as a name */
export function isName(value) {
  if (typeof value !== "string" || value.includes("\0")) return false;
  const length = Array.from(value).length;
  return length > 0 && length <= MAX_NAME_LENGTH;
}

/**
 * A signed receipt, its hash and the bytes of its signature.
 * @typedef {{ members: Record<string, any>, hash: Uint8Array, signature: Uint8Array }} SignedReceipt
 * @param {string} where @param {any} value @returns {Promise<SignedReceipt>}
 */
export async function readReceipt(where, value) {
  return openReceipt(where, value, RECEIPT_FORM);
}

/** A signed receipt of a battery or a batch. @param {string} where @param {any} value @returns {Promise<SignedReceipt>} */
export async function readItemReceipt(where, value) {
  return openReceipt(where, value, ITEM_RECEIPT_FORM);
}

/** @param {string} where @param {any} value @param {import("./forms.js").ObjectForm} form @returns {Promise<SignedReceipt>} */
async function openReceipt(where, value, form) {
  const members = requireForm(where, value, form);
  const signature = fromBase64(members.signature);
  if (signature.length !== 64) throw new CheckFailed(`${where}: the signature has ${signature.length} bytes, not 64`);
  const { signature: _, ...unsigned } = members;
  return { members, hash: await hashBytes(encodeCanonical(unsigned)), signature };
}

/** @param {any} value @returns {boolean} */
export function looksLikeReceipt(value) {
  return isObject(value) && value.receipt_version === "BPC-RECEIPT-1";
}
