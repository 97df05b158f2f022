/**
 * The two documents that say what became of a passport: lists, BPC-STATUS-LIST-1, and statements, BPC-STATUS-1.
 *
 * Both are canonical JSON with the name of a key and its signature. Here they are read; whether a trusted key signed
 * them, and whether they are about this passport, is decided in `status.js`.
 */

import { fromBase64, hashBytes } from "./bytes.js";
import { decodeCanonical, encodeCanonical, writeCanonical } from "./canonical-json.js";
import { CheckFailed, NotChecked } from "./errors.js";
import { HASH, LIST, OBJECT, TEXT, TIME, UUID, allowNull, isObject, oneOf, requireForm } from "./forms.js";

/** @typedef {{ keyId: string, value: Uint8Array, hash: Uint8Array }} DocumentSignature */
/** @typedef {{ url: string, tenantId: string, validFrom: string, validUntil: string, bits: Uint8Array, signature: DocumentSignature }} StatusList */
/** @typedef {{ members: Record<string, any>, url: string, index: number, signature: DocumentSignature }} StatusStatement */

export const LIST_VERSION = "BPC-STATUS-LIST-1";
export const STATES = ["in_force", "superseded", "revoked", "ceased"];
const STATE_WORDS = ["in force", "superseded", "revoked", "ceased"];
const MAX_DOCUMENT_BYTES = 1 << 20;
const LEAST_LIST_BYTES = (131_072 * 2) / 8;
const MAX_LIST_BYTES = 1 << 22;
const LONGEST_VALIDITY = 24 * 60 * 60 * 1_000_000;
const MAX_REASON_LENGTH = 2000;
const LIST_ADDRESS = /^https?:\/\/[^/?#@\s]+(?:\/[^?#\s]*)?\/status\/lists\/[0-9a-f-]{36}$/;
const INDEX_PATTERN = /^(0|[1-9][0-9]{0,9})$/;
const CONTEXT = "https://www.w3.org/ns/credentials/v2";

/** @type {import("./forms.js").Spelling} */
const REASON = {
  accepts: (value) => typeof value === "string" && Array.from(value).length <= MAX_REASON_LENGTH,
  description: `a text of at most ${MAX_REASON_LENGTH} characters`,
};
/** @type {import("./forms.js").Spelling} */
const NOT_EMPTY = { accepts: (value) => typeof value === "string" && value !== "", description: "a text" };
/** @type {import("./forms.js").ObjectForm} */
const STATEMENT_FORM = {
  entry: OBJECT,
  passport_version_id: UUID,
  reason: allowNull(REASON),
  receipt_hash: HASH,
  signature: TEXT,
  signed_at: TIME,
  signing_key_id: TEXT,
  since: TIME,
  status: oneOf("issued", "superseded", "revoked", "ceased"),
  status_version: oneOf("BPC-STATUS-1"),
  successor: allowNull(UUID),
  tenant_id: UUID,
};
/** @type {import("./forms.js").ObjectForm} */
const LIST_FORM = {
  credential: OBJECT,
  signature: TEXT,
  signing_key_id: NOT_EMPTY,
  status_list_version: oneOf(LIST_VERSION),
  tenant_id: UUID,
};
/** @type {import("./forms.js").ObjectForm} */
const CREDENTIAL_FORM = {
  "@context": LIST,
  credentialSubject: OBJECT,
  id: NOT_EMPTY,
  issuer: NOT_EMPTY,
  type: LIST,
  validFrom: TIME,
  validUntil: TIME,
};
/** @type {import("./forms.js").ObjectForm} */
const SUBJECT_FORM = {
  encodedList: NOT_EMPTY,
  id: TEXT,
  statusPurpose: oneOf("message"),
  ttl: { accepts: () => true, description: "a number" },
  type: oneOf("BitstringStatusList"),
};

/** A time in microseconds, as a number. @param {string} time @returns {number} */
export function toMicroseconds(time) {
  return Date.parse(`${time.slice(0, 19)}Z`) * 1000 + Number(time.slice(20, 26));
}

/** Whether these bytes say that they are a list. @param {Uint8Array} bytes @returns {boolean} */
export function isStatusList(bytes) {
  return String.fromCharCode(...bytes.slice(-400)).includes(LIST_VERSION);
}

/**
 * The members of a signed document, and its signature, which is still to be checked.
 * @param {Uint8Array} bytes @returns {Promise<{ members: Record<string, any>, signature: DocumentSignature }>}
 */
async function readSigned(bytes) {
  if (bytes.length > MAX_DOCUMENT_BYTES) throw new CheckFailed("the status document is too long");
  const members = /** @type {any} */ (decodeCanonical(bytes));
  if (!isObject(members) || typeof members.signature !== "string" || typeof members.signing_key_id !== "string") {
    throw new CheckFailed("the status document is not signed");
  }
  const value = fromBase64(members.signature);
  if (value.length !== 64) throw new CheckFailed("the status document has no valid signature");
  const { signature: _, ...unsigned } = members;
  return { members, signature: { keyId: members.signing_key_id, value, hash: await hashBytes(encodeCanonical(unsigned)) } };
}

/** The statement these bytes are. @param {Uint8Array} bytes @returns {Promise<StatusStatement>} */
export async function readStatement(bytes) {
  const { members, signature } = await readSigned(bytes);
  requireForm("the statement of the status", members, STATEMENT_FORM);
  const { statusListCredential: url, statusListIndex: index } = members.entry;
  if (typeof url !== "string" || !LIST_ADDRESS.test(url) || typeof index !== "string" || !INDEX_PATTERN.test(index)) {
    throw new CheckFailed("the statement of the status does not name a status list and an index");
  }
  if (writeCanonical(members.entry) !== writeCanonical(makeEntry(url, index))) {
    throw new CheckFailed("the entry of the statement is not in its one form");
  }
  return { members, url, index: Number(index), signature };
}

/** As W3C writes where a status is. @param {string} url @param {string} index */
function makeEntry(url, index) {
  return {
    id: `${url}#${index}`,
    statusListCredential: url,
    statusListIndex: index,
    statusMessage: STATE_WORDS.map((message, state) => ({ message, status: `0x${state}` })),
    statusPurpose: "message",
    statusSize: 2,
    type: "BitstringStatusListEntry",
  };
}

/**
 * The list these bytes are.
 *
 * Checks:
 *   1. canonical, signed, and of exactly the members of this version
 *   2. the credential is a bitstring status list in its one form, valid for a day at most
 *   3. its bits are whole, at least 131,072 entries and not too many
 * @param {Uint8Array} bytes @returns {Promise<StatusList>}
 */
export async function readStatusList(bytes) {
  const { members, signature } = await readSigned(bytes); // 1
  requireForm("the status list", members, LIST_FORM);
  const credential = requireForm("the credential of the status list", members.credential, CREDENTIAL_FORM);
  const subject = requireForm("the subject of the status list", credential.credentialSubject, SUBJECT_FORM);
  const kinds = [credential["@context"], credential.type];
  const expected = [[CONTEXT], ["VerifiableCredential", "BitstringStatusListCredential"]];
  if (writeCanonical(kinds) !== writeCanonical(expected) || subject.id !== `${credential.id}#list`) {
    throw new CheckFailed("the status list is not a bitstring status list"); // 2
  }
  const { validFrom, validUntil } = credential;
  const duration = toMicroseconds(validUntil) - toMicroseconds(validFrom);
  if (duration <= 0 || duration > LONGEST_VALIDITY) throw new CheckFailed("the status list is not valid for a time of at most 24 hours");
  const bits = await unpackBits(subject.encodedList);
  return { url: credential.id, tenantId: members.tenant_id, validFrom, validUntil, bits, signature };
}

/** @param {string} text @returns {Promise<Uint8Array>} */
async function unpackBits(text) {
  if (!/^u[A-Za-z0-9_-]+$/.test(text)) throw new CheckFailed("the status list is not in base64url");
  const base64 = text.slice(1).replaceAll("-", "+").replaceAll("_", "/");
  const packed = fromBase64(base64.padEnd(Math.ceil(base64.length / 4) * 4, "="));
  const bits = await decompress(packed);
  // RFC 1952 2.3.1: the last four bytes are the size; what stands behind the end of the data would not fit.
  const size = packed.length < 18 ? -1 : new DataView(packed.buffer, packed.byteOffset + packed.length - 4, 4).getUint32(0, true);
  if (size !== bits.length || bits.length < LEAST_LIST_BYTES) throw new CheckFailed(`the status list is not whole: it has ${bits.length} bytes`); // 3
  return bits;
}

/** @param {Uint8Array} packed @returns {Promise<Uint8Array>} */
async function decompress(packed) {
  if (typeof globalThis.DecompressionStream !== "function") throw new NotChecked("this browser cannot decompress status lists");
  const stream = new DecompressionStream("gzip");
  const writer = stream.writable.getWriter();
  // What is wrong with the input is said by the reader below.
  writer.write(/** @type {Uint8Array<ArrayBuffer>} */ (packed)).catch(() => {});
  writer.close().catch(() => {});
  const bits = new Uint8Array(MAX_LIST_BYTES);
  const reader = stream.readable.getReader();
  let size = 0;
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      if (size + part.value.length > MAX_LIST_BYTES) throw new CheckFailed("the status list is too long");
      bits.set(part.value, size);
      size += part.value.length;
    }
  } catch (error) {
    await reader.cancel().catch(() => {});
    throw error instanceof CheckFailed ? error : new CheckFailed("the status list is not compressed as gzip");
  }
  return bits.slice(0, size);
}

/** The state at an index: a place in `STATES`. @param {StatusList} list @param {number} index @returns {number} */
export function getState({ bits }, index) {
  if (index >= bits.length * 4) throw new CheckFailed(`the status list has no index ${index}`);
  return (bits[Math.floor(index / 4)] >> (6 - 2 * (index % 4))) & 3;
}
