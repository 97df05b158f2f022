/** Whether the bytes are the bundle of a battery or a batch. @param {Uint8Array} bytes @returns {boolean} */
export function isItemBundle(bytes: Uint8Array): boolean;
/** Every step that this package has. @param {Uint8Array} bytes @param {BundleOptions} [options] @returns {Promise<import("./report.js").Report>} */
export function verifyItemBundle(bytes: Uint8Array, { pins, policy, recompute }?: BundleOptions): Promise<import("./report.js").Report>;
/** @typedef {import("./keys.js").PinnedKey} PinnedKey */
/** @typedef {import("./log-policy.js").LogPolicy} LogPolicy */
/** @typedef {import("./receipt.js").SignedReceipt} SignedReceipt */
/** @typedef {"batch" | "item"} LowerLayer */
/** @typedef {import("./bundle.js").ProofEvaluator} ProofEvaluator */
/** @typedef {{ pins?: PinnedKey[], policy?: LogPolicy | null, recompute?: ProofEvaluator | null }} BundleOptions */
export const ITEM_BUNDLE_STEPS: string[];
export type PinnedKey = import("./keys.js").PinnedKey;
export type LogPolicy = import("./log-policy.js").LogPolicy;
export type SignedReceipt = import("./receipt.js").SignedReceipt;
export type LowerLayer = "batch" | "item";
export type ProofEvaluator = import("./bundle.js").ProofEvaluator;
export type BundleOptions = {
    pins?: PinnedKey[];
    policy?: LogPolicy | null;
    recompute?: ProofEvaluator | null;
};
