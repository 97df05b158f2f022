/**
 * What documents say of a passport; `CheckFailed` if one of them is not to be relied on.
 * @param {StatusSubject} subject @param {StatusQuestion} question @returns {Promise<StatusVerdict>}
 */
export function judgeStatus(subject: StatusSubject, question: StatusQuestion): Promise<StatusVerdict>;
/**
 * The sentence of the step; `CheckFailed` if the passport is revoked.
 * @param {StatusVerdict} verdict @returns {string}
 */
export function requireNotRevoked(verdict: StatusVerdict): string;
/** @type {StatusQuestion} */
export const NO_QUESTION: StatusQuestion;
/** @type {StatusVerdict} */
export const NOT_ASKED: StatusVerdict;
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
 */
export type StatusName = "in_force" | "superseded" | "revoked" | "ceased" | "not_asked";
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
 */
export type StatusVerdict = {
    name: StatusName;
    says: string;
    since: string | null;
    /**
     * the passport version that counts instead
     */
    successor: string | null;
    reason: string | null;
};
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
 */
export type StatusQuestion = {
    /**
     * signed lists and statements
     */
    documents: Uint8Array[];
    /**
     * the time, such as `new Date().toISOString()`
     */
    now: string | null;
    /**
     * why there are none
     */
    absence?: string | undefined;
};
export type PinnedKey = import("./keys.js").PinnedKey;
export type SignedReceipt = import("./receipt.js").SignedReceipt;
export type StatusStatement = import("./status-documents.js").StatusStatement;
export type StatusList = import("./status-documents.js").StatusList;
export type DocumentSignature = import("./status-documents.js").DocumentSignature;
export type StatusSubject = {
    receipt: SignedReceipt;
    statement: StatusStatement | null;
    pins: PinnedKey[];
    ownKey: Uint8Array | null;
};
