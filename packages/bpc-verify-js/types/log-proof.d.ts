/** The proof these bytes are, with the entry that it opens. @param {Uint8Array} bytes @returns {Promise<LogProof>} */
export function parseLogProof(bytes: Uint8Array): Promise<LogProof>;
/**
 * That the opened statement is about this passport.
 * @param {LogProof} proof @param {import("./receipt.js").SignedReceipt} receipt
 */
export function checkStatement({ statement }: LogProof, { members, hash }: import("./receipt.js").SignedReceipt): void;
/**
 * What the proof shows to somebody with this policy.
 * @param {LogProof} proof @param {LogPolicy} policy @returns {Promise<string>}
 */
export function checkLogProof(proof: LogProof, policy: LogPolicy): Promise<string>;
/**
 * What the proof shows, when the log says that it signed (null if it only says that it existed), and when it was seen.
 * @param {LogProof} proof @param {LogPolicy} policy
 * @returns {Promise<{ says: string, loggedAt: string | null, seenAt: string }>}
 */
export function openLogProof(proof: LogProof, policy: LogPolicy): Promise<{
    says: string;
    loggedAt: string | null;
    seenAt: string;
}>;
export type LogPolicy = import("./log-policy.js").LogPolicy;
export type LogProof = {
    index: bigint;
    hashes: Uint8Array[];
    note: import("./notes.js").SignedNote;
    statement: Record<string, any>;
    leaf: Uint8Array;
};
