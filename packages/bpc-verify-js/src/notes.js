/**
 * Signed notes, checkpoints and cosignatures of C2SP.
 *
 * A key of a log (type 1) signs the text, one of a witness (type 4) the text with a time. ML-DSA-44 (type 6) is known by
 * name and is not checked here: WebCrypto does not have it.
 */

import { areSameBytes, decodeUtf8, encodeUtf8, fromBase64, hashBytes, joinBytes, shortenText, toHex } from "./bytes.js";
import { isSignedBy, requirePublicKey } from "./ed25519.js";
import { CheckFailed } from "./errors.js";

export const LOG_KEY = 1;
export const WITNESS_KEY = 4;
export const ML_DSA_KEY = 6;
const KEY_BYTES = new Map([
  [LOG_KEY, 32],
  [WITNESS_KEY, 32],
  [ML_DSA_KEY, 1312],
]);
const SIGNATURE_MARK = "— ";
const MAX_NOTE_BYTES = 1 << 20;
const MAX_SIGNATURES = 100;
const NAME_SPACES = /[\u0000-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000+]/;
const SIZE_PATTERN = /^(?:0|[1-9][0-9]{0,18})$/;

/** @typedef {{ name: string, type: number, publicKey: Uint8Array, keyId: Uint8Array }} VerifierKey */
/** @typedef {{ name: string, keyId: Uint8Array, signature: Uint8Array }} NoteSignature */
/** @typedef {{ text: string, signatures: NoteSignature[] }} SignedNote */
/** @typedef {{ origin: string, size: bigint, root: Uint8Array }} LogCheckpoint */

/** The key written as `<name>+<key id>+<base64>`. @param {string} text @returns {Promise<VerifierKey>} */
export async function parseVerifierKey(text) {
  const [name, keyId, ...rest] = text.split("+");
  if (keyId === undefined || rest.length === 0) throw new CheckFailed("the verifier key does not have three parts");
  const raw = fromBase64(rest.join("+"));
  requireKeyName(name);
  const type = raw[0];
  if (!KEY_BYTES.has(type)) throw new CheckFailed("the verifier key is of a type that is not known here");
  const publicKey = raw.slice(1);
  if (publicKey.length !== KEY_BYTES.get(type)) throw new CheckFailed("the verifier key has a wrong length");
  if (type !== ML_DSA_KEY) requirePublicKey(publicKey);
  const expected = (await hashBytes(joinBytes(encodeUtf8(`${name}\n`), raw))).slice(0, 4);
  if (toHex(expected) !== keyId) throw new CheckFailed("the verifier key does not have the id it says");
  return { name, type, publicKey, keyId: expected };
}

/** @param {string} name */
function requireKeyName(name) {
  if (name === "" || NAME_SPACES.test(name) || encodeUtf8(name).length > 255) {
    throw new CheckFailed("the name of a key is not valid");
  }
}

/** The note these bytes are. @param {Uint8Array} bytes @returns {SignedNote} */
export function parseNote(bytes) {
  if (bytes.length > MAX_NOTE_BYTES) throw new CheckFailed("the note is too long");
  const whole = decodeUtf8(bytes);
  if (/[\u0000-\u0009\u000b-\u001f]/.test(whole)) throw new CheckFailed("the note contains a control character");
  const split = whole.lastIndexOf("\n\n");
  if (split < 0) throw new CheckFailed("the note has no empty line between its text and its signatures");
  const lines = whole.slice(split + 2).split("\n");
  if (lines.pop() !== "" || lines.length === 0) throw new CheckFailed("the note has no signatures, or does not end with a line end");
  if (lines.length > MAX_SIGNATURES) throw new CheckFailed("the note has too many signatures");
  return { text: `${whole.slice(0, split)}\n`, signatures: lines.map(parseSignatureLine) };
}

/** @param {string} line @returns {NoteSignature} */
function parseSignatureLine(line) {
  const space = line.indexOf(" ", SIGNATURE_MARK.length);
  if (!line.startsWith(SIGNATURE_MARK) || space < 0) throw new CheckFailed("the note has a line that is not a signature");
  const name = line.slice(SIGNATURE_MARK.length, space);
  requireKeyName(name);
  const raw = fromBase64(line.slice(space + 1));
  if (raw.length <= 4) throw new CheckFailed("the note has a signature that is too short");
  return { name, keyId: raw.slice(0, 4), signature: raw.slice(4) };
}

/** @param {SignedNote} note @param {VerifierKey} key @returns {NoteSignature[]} */
export function findSignatures(note, key) {
  return note.signatures.filter((each) => each.name === key.name && areSameBytes(each.keyId, key.keyId));
}

/** @param {string} text @returns {bigint} a number of entries in its one spelling */
export function parseTreeSize(text) {
  if (!SIZE_PATTERN.test(text) || BigInt(text) > 1n << 62n) throw new CheckFailed("a tree size is not a number in its one spelling");
  return BigInt(text);
}

/** The checkpoint in the text of a note. @param {string} text @returns {LogCheckpoint} */
export function readCheckpoint(text) {
  const lines = text.split("\n");
  if (lines.length < 4 || lines.pop() !== "" || lines.includes("")) throw new CheckFailed("the note is not a checkpoint");
  const root = fromBase64(lines[2]);
  if (root.length !== 32) throw new CheckFailed("the third line of the checkpoint is not a hash");
  return { origin: lines[0], size: parseTreeSize(lines[1]), root };
}

/** The checkpoint that a log signed. @param {SignedNote} note @param {VerifierKey} key @returns {Promise<LogCheckpoint>} */
export async function openCheckpoint(note, key) {
  const signatures = findSignatures(note, key);
  if (signatures.length === 0) throw new CheckFailed(`the checkpoint is not signed by \`${shortenText(key.name)}\``);
  for (const { signature } of signatures) {
    if (!(await isSignedBy(key.publicKey, encodeUtf8(note.text), signature))) {
      throw new CheckFailed(`the checkpoint has a wrong signature of \`${shortenText(key.name)}\``);
    }
  }
  const checkpoint = readCheckpoint(note.text);
  if (checkpoint.origin !== key.name) throw new CheckFailed("the checkpoint is of another log");
  return checkpoint;
}

/**
 * When a witness cosigned, in seconds; null if it did not. A cosignature that names the key must be valid.
 * @param {SignedNote} note @param {VerifierKey} key @returns {Promise<bigint | null>}
 */
export async function readCosignatureTime(note, key) {
  let earliest = null;
  for (const { signature } of findSignatures(note, key)) {
    if (signature.length !== 8 + 64) throw new CheckFailed(`a cosignature of \`${shortenText(key.name)}\` has a wrong length`);
    const seconds = new DataView(signature.buffer, signature.byteOffset).getBigUint64(0);
    if (seconds <= 0n || seconds >= 1n << 63n) throw new CheckFailed(`a cosignature of \`${shortenText(key.name)}\` has no time`);
    const message = encodeUtf8(`cosignature/v1\ntime ${seconds}\n${note.text}`);
    if (!(await isSignedBy(key.publicKey, message, signature.slice(8)))) {
      throw new CheckFailed(`the checkpoint has a wrong cosignature of \`${shortenText(key.name)}\``);
    }
    if (earliest === null || seconds < earliest) earliest = seconds;
  }
  return earliest;
}
