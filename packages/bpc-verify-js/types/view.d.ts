/**
 * What is in an envelope; a view without one comes as it is, and is not read.
 * @param {Uint8Array} bytes @returns {Promise<ViewEnvelope>}
 */
export function openView(bytes: Uint8Array): Promise<ViewEnvelope>;
/** The parts of a view, each of its form. @param {Uint8Array} bytes @returns {Promise<ViewParts>} */
export function readView(bytes: Uint8Array): Promise<ViewParts>;
/**
 * Every step of checking a view, with or without an envelope.
 * @param {Uint8Array} bytes @param {{ pins?: PinnedKey[], policy?: LogPolicy | null, question?: StatusQuestion }} [options]
 * @returns {Promise<import("./report.js").Report>}
 */
export function verifyView(bytes: Uint8Array, { pins, policy, question }?: {
    pins?: PinnedKey[];
    policy?: LogPolicy | null;
    question?: StatusQuestion;
}): Promise<import("./report.js").Report>;
/**
 * The step `status`, and what it found.
 * @param {() => import("./status.js").StatusSubject} openSubject @param {StatusQuestion} question
 */
export function runStatusStep(openSubject: () => import("./status.js").StatusSubject, question: StatusQuestion): Promise<{
    step: import("./report.js").StepResult;
    verdict: import("./status.js").StatusVerdict;
}>;
/**
 * What the log shows of a receipt, or that it was not asked.
 * @param {import("./receipt.js").SignedReceipt} receipt @param {import("./log-proof.js").LogProof | null} proof @param {LogPolicy | null} policy
 * @returns {Promise<string>}
 */
export function checkReceiptLog(receipt: import("./receipt.js").SignedReceipt, proof: import("./log-proof.js").LogProof | null, policy: LogPolicy | null): Promise<string>;
/** The steps that need nothing but the view and the keys. @param {ViewParts} view @param {PinnedKey[]} pins */
export function runViewSteps(view: ViewParts, pins: PinnedKey[]): Promise<import("./report.js").StepResult[]>;
/**
 * @param {import("./receipt.js").SignedReceipt} receipt @param {PinnedKey[]} pins @returns {Promise<string>}
 */
export function checkPinnedSignature(receipt: import("./receipt.js").SignedReceipt, pins: PinnedKey[]): Promise<string>;
/**
 * The pinned key that signed the receipt, under the name that the receipt gives it.
 * @param {import("./receipt.js").SignedReceipt} receipt @param {PinnedKey[]} pins @returns {Promise<PinnedKey>}
 */
export function findSigner(receipt: import("./receipt.js").SignedReceipt, pins: PinnedKey[]): Promise<PinnedKey>;
/** @param {number} id @param {Record<string, any>} data @param {string[]} children @returns {Promise<string>} */
export function hashNode(id: number, data: Record<string, any>, children: string[]): Promise<string>;
export const VIEW_STEPS: string[];
export type PinnedKey = import("./keys.js").PinnedKey;
export type LogPolicy = import("./log-policy.js").LogPolicy;
export type StatusQuestion = import("./status.js").StatusQuestion;
export type ViewEnvelope = {
    view: Uint8Array;
    logProof: import("./log-proof.js").LogProof | null;
    statement: import("./status-documents.js").StatusStatement | null;
};
export type ViewParts = {
    audience: string;
    receipt: import("./receipt.js").SignedReceipt;
    root: Record<string, any>;
    fields: Record<string, any>[];
};
