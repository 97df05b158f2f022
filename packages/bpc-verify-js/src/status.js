/**
 * Step `status`: what the issuer says of a passport since: in force, superseded, revoked or ceased; or that nobody was asked.
 *
 * A view in its envelope or a bundle may carry a signed statement that names its place in a status list. The list, and
 * later statements, are given by whoever checks. Nothing is believed that a key you trust did not sign.
 *
 * Checks:
 *   1. the statement in the file is about this receipt and by its tenant
 *   2. each document that was given is about this passport: a statement about its receipt, or the list that it names
 *   3. a key you trust signed each of them, under its name; it is not compromised and no other tenant's
 *   4. a list that says "in force" is valid now. Other states are not taken back, so an old list still tells them
 *   5. the worst of what they say counts: revoked before ceased before superseded
 *
 * @typedef {"in_force" | "superseded" | "revoked" | "ceased" | "not_asked"} StatusName
 *
 * @typedef {object} StatusVerdict
 * @property {StatusName} name
 * @property {string} says
 * @property {string | null} since
 * @property {string | null} successor  the passport version that counts instead
 * @property {string | null} reason
 *
 * @typedef {object} StatusQuestion
 * @property {Uint8Array[]} documents  signed lists and statements
 * @property {string | null} now  the time, such as `new Date().toISOString()`
 * @property {string} [absence]  why there are none
 */

import { shortenText, toHex } from "./bytes.js";
import { isSignedBy } from "./ed25519.js";
import { CheckFailed } from "./errors.js";
import { STATES, getState, isStatusList, readStatement, readStatusList, toMicroseconds } from "./status-documents.js";

/** @typedef {import("./keys.js").PinnedKey} PinnedKey */
/** @typedef {import("./receipt.js").SignedReceipt} SignedReceipt */
/** @typedef {import("./status-documents.js").StatusStatement} StatusStatement */
/** @typedef {import("./status-documents.js").StatusList} StatusList */
/** @typedef {import("./status-documents.js").DocumentSignature} DocumentSignature */
/** @typedef {{ receipt: SignedReceipt, statement: StatusStatement | null, pins: PinnedKey[], ownKey: Uint8Array | null }} StatusSubject */

const CLOCK_TOLERANCE = 5 * 60 * 1_000_000;
const STATEMENT_STATUSES = ["issued", "superseded", "revoked", "ceased"];
const WORST_LAST = ["in_force", "superseded", "ceased", "revoked"];
/** @type {StatusQuestion} */
export const NO_QUESTION = { documents: [], now: null };
/** @type {StatusVerdict} */
export const NOT_ASKED = { name: "not_asked", says: "not asked", since: null, successor: null, reason: null };

/**
 * What documents say of a passport; `CheckFailed` if one of them is not to be relied on.
 * @param {StatusSubject} subject @param {StatusQuestion} question @returns {Promise<StatusVerdict>}
 */
export async function judgeStatus(subject, question) {
  const { receipt, statement, pins } = subject;
  if (statement !== null && !isAbout(statement, receipt)) throw new CheckFailed("the statement of its status is about another passport"); // 1
  const statements = statement !== null && (await isTrusted(statement.signature, subject)) ? [statement] : [];
  /** @type {StatusList[]} */
  const lists = [];
  for (const document of question.documents) {
    if (isStatusList(document)) lists.push(await requireTrustedList(await readStatusList(document), subject));
    else statements.push(await requireOwnStatement(await readStatement(document), subject));
  }
  if (question.documents.length === 0) return sayNotAsked(question.absence ?? "no status list was given", statements);
  if (statements.length > 0) return combine(statements, lists, question.now);
  if (statement === null) return sayNotAsked("the passport does not say which list and index are its own", statements);
  const who = pins.length ? "one you gave" : "the key of this passport";
  return sayNotAsked(`the key \`${shortenText(statement.signature.keyId)}\` of the statement in it is not ${who}`, statements);
}

/** @param {StatusStatement} statement @param {SignedReceipt} receipt @returns {boolean} */
function isAbout({ members }, receipt) {
  return (
    members.passport_version_id === receipt.members.passport_version_id &&
    members.receipt_hash === toHex(receipt.hash) &&
    members.tenant_id === receipt.members.tenant_id
  );
}

/** Whether a trusted key signed it, under its name. @param {DocumentSignature} signature @param {StatusSubject} subject */
async function isTrusted(signature, { receipt, pins, ownKey }) {
  for (const pin of listVouchers(receipt, pins, ownKey)) {
    const hasName = pin.keyId === null || pin.keyId === signature.keyId;
    if (hasName && (await isSignedBy(pin.publicKey, signature.hash, signature.value))) return true;
  }
  return false;
}

/**
 * The keys that may say what became of a passport: not a stolen one, nor another tenant's. Without pins, the file's own.
 * @param {SignedReceipt} receipt @param {PinnedKey[]} pins @param {Uint8Array | null} ownKey @returns {PinnedKey[]}
 */
function listVouchers({ members }, pins, ownKey) {
  if (pins.length === 0 && ownKey !== null) return [{ publicKey: ownKey, keyId: members.signing_key_id }];
  return pins.filter((pin) => (pin.compromisedSince ?? null) === null && (!pin.tenantId || pin.tenantId === members.tenant_id));
}

/** @param {StatusStatement} statement @param {StatusSubject} subject @returns {Promise<StatusStatement>} */
async function requireOwnStatement(statement, subject) {
  if (!isAbout(statement, subject.receipt)) throw new CheckFailed("the status that was given is about another passport or of another tenant"); // 2
  if (!(await isTrusted(statement.signature, subject))) throw refuseKey(statement.signature, subject); // 3
  return statement;
}

/** @param {StatusList} list @param {StatusSubject} subject @returns {Promise<StatusList>} */
async function requireTrustedList(list, subject) {
  if (list.tenantId !== subject.receipt.members.tenant_id) throw new CheckFailed("the status list that was given is of another tenant"); // 2
  if (!(await isTrusted(list.signature, subject))) throw refuseKey(list.signature, subject); // 3
  return list;
}

/** @param {DocumentSignature} signature @param {StatusSubject} subject @returns {CheckFailed} */
function refuseKey({ keyId }, { pins }) {
  const who = pins.length ? "a key you trust" : "the key of this passport";
  return new CheckFailed(`the status names the key \`${shortenText(keyId)}\`, and ${who} of this name did not sign it`);
}

/** @param {StatusStatement[]} statements @param {StatusList[]} lists @param {string | null} now @returns {StatusVerdict} */
function combine(statements, lists, now) {
  const [{ url, index }] = statements;
  if (statements.some((each) => each.url !== url || each.index !== index)) throw new CheckFailed("the statements name different places in status lists");
  const states = statements.map((each) => STATES[STATEMENT_STATUSES.indexOf(each.members.status)]).filter((state) => state !== "in_force");
  let reason = "the list was not given";
  for (const list of lists) {
    if (list.url !== url) throw new CheckFailed(`the status of this passport is in another list, ${url}`); // 2
    const state = STATES[getState(list, index)];
    const fault = state === "in_force" ? findTimeFault(list, now) : null; // 4
    if (fault === null) states.push(state);
    else reason = fault;
  }
  if (states.length === 0) return sayNotAsked(reason, statements);
  const worst = WORST_LAST.filter((state) => states.includes(state)).pop(); // 5
  return describeState(/** @type {StatusName} */ (worst), statements, lists);
}

/** @param {StatusList} list @param {string | null} now @returns {string | null} */
function findTimeFault({ validFrom, validUntil }, now) {
  const moment = now === null ? null : toMicroseconds(now.length === 24 ? now.replace("Z", "000Z") : now);
  if (moment === null || moment > toMicroseconds(validUntil)) return `the list was valid until ${validUntil}; get a newer one`;
  if (toMicroseconds(validFrom) - CLOCK_TOLERANCE > moment) return `the list is valid from ${validFrom} on, and that is later than now`;
  return null;
}

/** @param {string} reason @param {StatusStatement[]} statements @returns {StatusVerdict} */
function sayNotAsked(reason, statements) {
  const where = statements.length ? `; it is at ${statements[0].url}, index ${statements[0].index}` : "";
  return { ...NOT_ASKED, says: `not asked: ${reason}${where}` };
}

/** @param {StatusName} name @param {StatusStatement[]} statements @param {StatusList[]} lists @returns {StatusVerdict} */
function describeState(name, statements, lists) {
  if (name === "in_force") {
    const [signedAt] = lists.map((list) => list.validFrom).sort().reverse();
    return { ...NOT_ASKED, name, says: `in force, as the issuer says at ${signedAt}; entry ${statements[0].index} of ${statements[0].url}` };
  }
  const words = name === "revoked" ? "it is revoked" : name;
  const details = statements.find((each) => each.members.status === name);
  if (details === undefined) return { ...NOT_ASKED, name, says: `${words}; the list does not say since when` };
  const { since, successor, reason } = details.members;
  const says = `${words}${successor === null ? "" : ` by ${successor}`} since ${since}${reason ? `: ${reason}` : ""}`;
  return { name, says, since, successor, reason };
}

/**
 * The sentence of the step; `CheckFailed` if the passport is revoked.
 * @param {StatusVerdict} verdict @returns {string}
 */
export function requireNotRevoked(verdict) {
  if (verdict.name === "revoked") throw new CheckFailed(verdict.says);
  return verdict.says;
}
