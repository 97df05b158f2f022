/**
 * Proofs of logging, C2SP tlog-proof, and the entries of our log, BPC-LOG-1.
 *
 * Checks:
 *   1. the opened statement says that this passport was issued, or existed
 *   2. the checkpoint is of a log of the policy, whose key signed it
 *   3. every Ed25519 cosignature of a witness of the policy is valid, and the witnesses are enough
 *   4. the hashes lead from the entry to the root of the checkpoint
 */

import { areSameBytes, decodeUtf8, encodeUtf8, fromBase64, fromHex, hashBytes, joinBytes, shortenText, toBase64, toHex } from "./bytes.js";
import { decodeCanonical, encodeCanonical } from "./canonical-json.js";
import { CheckFailed, NotChecked } from "./errors.js";
import { HASH, OBJECT, isTime, oneOf, requireForm } from "./forms.js";
import { checkInclusion, hashLeaf } from "./merkle.js";
import { isQuorum } from "./log-policy.js";
import { ML_DSA_KEY, findSignatures, openCheckpoint, parseNote, parseTreeSize, readCheckpoint, readCosignatureTime } from "./notes.js";

/** @typedef {import("./log-policy.js").LogPolicy} LogPolicy */
/** @typedef {{ index: bigint, hashes: Uint8Array[], note: import("./notes.js").SignedNote, statement: Record<string, any>, leaf: Uint8Array }} LogProof */

const PROOF_HEADER = "c2sp.org/tlog-proof@v1";
const MAX_PROOF_BYTES = 1 << 20;
const MAX_STATEMENT_BYTES = 60000;
const ISSUED_KINDS = ["PASSPORT_ISSUED", "PASSPORT_EXISTED"];

/** The proof these bytes are, with the entry that it opens. @param {Uint8Array} bytes @returns {Promise<LogProof>} */
export async function parseLogProof(bytes) {
  if (bytes.length > MAX_PROOF_BYTES) throw new CheckFailed("the log proof is too long");
  const whole = decodeUtf8(bytes);
  const split = whole.indexOf("\n\n");
  const lines = whole.slice(0, split).split("\n");
  if (split < 0 || lines.shift() !== PROOF_HEADER) throw new CheckFailed("the log proof does not begin as one");
  const extra = lines[0]?.startsWith("extra ") ? fromBase64(/** @type {string} */ (lines.shift()).slice(6)) : new Uint8Array();
  if (!lines[0]?.startsWith("index ")) throw new CheckFailed("the log proof does not say the index of the entry");
  const index = parseTreeSize(/** @type {string} */ (lines.shift()).slice(6));
  if (lines.length > 63) throw new CheckFailed("the log proof has too many hashes");
  const hashes = lines.map(fromBase64);
  if (hashes.some((hash) => hash.length !== 32)) throw new CheckFailed("the log proof has a hash that is not one");
  const rewritten = [PROOF_HEADER, ...(extra.length ? [`extra ${toBase64(extra)}`] : []), `index ${index}`, ...hashes.map(toBase64)].join("\n");
  if (!areSameBytes(encodeUtf8(rewritten + whole.slice(split)), bytes)) throw new CheckFailed("the log proof is not written in its one form");
  const note = parseNote(encodeUtf8(whole.slice(split + 2)));
  return { index, hashes, note, ...(await openEntry(extra)) };
}

/** @param {Uint8Array} bytes @returns {Promise<{ statement: Record<string, any>, leaf: Uint8Array }>} */
async function openEntry(bytes) {
  const form = { opening_version: oneOf("BPC-LOG-1"), salt: HASH, statement: OBJECT };
  const opening = requireForm("the opening of the log entry", decodeCanonical(bytes), form);
  const statement = encodeCanonical(opening.statement);
  if (statement.length > MAX_STATEMENT_BYTES) throw new CheckFailed("the statement of the log entry is too long");
  const commitment = await hashBytes(joinBytes(encodeUtf8("BPC-LOG-1\n"), fromHex(opening.salt), statement));
  return { statement: opening.statement, leaf: await hashLeaf(joinBytes(Uint8Array.of(1), commitment)) };
}

/**
 * That the opened statement is about this passport.
 * @param {LogProof} proof @param {import("./receipt.js").SignedReceipt} receipt
 */
export function checkStatement({ statement }, { members, hash }) {
  if (!ISSUED_KINDS.includes(statement.kind)) {
    throw new CheckFailed(`the entry of the log says ${shortenText(String(statement.kind))}, not that a passport was issued`);
  }
  const expected = {
    aggregate_id: members.passport_version_id,
    aggregate_type: "PassportVersion",
    receipt_hash: toHex(hash),
    signing_key_id: members.signing_key_id,
    tenant_id: members.tenant_id,
  };
  for (const [name, value] of Object.entries(expected)) {
    if (statement[name] !== value) throw new CheckFailed(`the entry of the log is about another passport: its \`${name}\` is not the receipt's`);
  }
}

/**
 * What the proof shows to somebody with this policy.
 * @param {LogProof} proof @param {LogPolicy} policy @returns {Promise<string>}
 */
export async function checkLogProof(proof, policy) {
  return (await openLogProof(proof, policy)).says;
}

/**
 * What the proof shows, when the log says that it signed (null if it only says that it existed), and when it was seen.
 * @param {LogProof} proof @param {LogPolicy} policy
 * @returns {Promise<{ says: string, loggedAt: string | null, seenAt: string }>}
 */
export async function openLogProof(proof, policy) {
  const { origin } = readCheckpoint(proof.note.text);
  const log = policy.logs.find((key) => key.name === origin);
  if (log === undefined) throw new CheckFailed(`the log proof is of the log \`${shortenText(origin)}\`, which your policy does not name`);
  const checkpoint = await openCheckpoint(proof.note, log);
  const { cosigners, unchecked, seconds } = await findWitnesses(proof, policy);
  if (!isQuorum(policy, cosigners)) {
    if (isQuorum(policy, [...cosigners, ...unchecked])) {
      throw new NotChecked("witnesses cosigned with ML-DSA-44, which this browser cannot check, and the others are below the quorum");
    }
    throw new CheckFailed(`the log proof has ${cosigners.length} witnesses of your policy, and that is below its quorum`);
  }
  await checkInclusion(proof.leaf, proof.index, checkpoint.size, proof.hashes, checkpoint.root);
  const where = `entry ${proof.index} of \`${checkpoint.origin}\``;
  const pending = unchecked.length ? `; ML-DSA-44 of ${unchecked.join(", ")}: not checked here` : "";
  const { at, kind } = proof.statement;
  if (!isTime(at)) throw new CheckFailed("the entry of the log has no time");
  const loggedAt = kind === "PASSPORT_ISSUED" ? at : null;
  if (seconds === null) return { says: `${where}; no witness was asked for${pending}`, loggedAt, seenAt: at };
  const first = new Date(Number(seconds) * 1000).toISOString().replace("Z", "000Z");
  return { says: `${where}; seen by ${cosigners.join(", ")} at ${first}${pending}`, loggedAt, seenAt: first > at ? first : at };
}

/** @param {LogProof} proof @param {LogPolicy} policy */
async function findWitnesses(proof, policy) {
  /** @type {string[]} */
  const cosigners = [];
  /** @type {string[]} */
  const unchecked = [];
  /** @type {bigint | null} */
  let earliest = null;
  for (const [name, key] of policy.witnesses) {
    if (key.type === ML_DSA_KEY) {
      if (findSignatures(proof.note, key).length) unchecked.push(name);
      continue;
    }
    const seconds = await readCosignatureTime(proof.note, key);
    if (seconds === null) continue;
    cosigners.push(name);
    if (earliest === null || seconds < earliest) earliest = seconds;
  }
  return { cosigners, unchecked, seconds: earliest };
}
