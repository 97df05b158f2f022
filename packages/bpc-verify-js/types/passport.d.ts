/** @param {PassportEvidence} evidence @returns {Promise<import("./report.js").Report>} */
export function verifyPassport(evidence: PassportEvidence): Promise<import("./report.js").Report>;
/** @typedef {import("./keys.js").PinnedKey} PinnedKey */
/** @typedef {import("./log-policy.js").LogPolicy} LogPolicy */
/** @typedef {import("./log-proof.js").LogProof} LogProof */
/** @typedef {import("./receipt.js").SignedReceipt} SignedReceipt */
export const PASSPORT_STEPS: string[];
export const ITEM_PASSPORT_STEPS: string[];
/**
 * A passport as its public page shows it: the view, and around it what the page knows besides.
 *
 * Further steps, behind the first seven of the view:
 *   8. key_window  the passport was issued while its key was in use
 *   9. log         it is in the transparency log, and witnesses saw it
 *  10. status      what the issuer says of it since, signed
 *  11. shown       what the page shows is what was checked: each shown value has the path of a checked one
 *
 * Of a battery, the same steps stand behind the eight of its view. Log and status are those of the model that it pins: no
 * list speaks of single batteries.
 */
export type PassportEvidence = {
    view: Uint8Array;
    pins: PinnedKey[];
    logProof?: Uint8Array<ArrayBufferLike> | null | undefined;
    policy?: import("./log-policy.js").LogPolicy | null | undefined;
    /**
     * signed status documents, and the time
     */
    question?: import("./status.js").StatusQuestion | undefined;
    /**
     * the values in the page, as canonical JSON
     */
    shown?: {
        path: string;
        value: string;
    }[] | null | undefined;
};
export type PinnedKey = import("./keys.js").PinnedKey;
export type LogPolicy = import("./log-policy.js").LogPolicy;
export type LogProof = import("./log-proof.js").LogProof;
export type SignedReceipt = import("./receipt.js").SignedReceipt;
