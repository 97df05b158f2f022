/**
 * Checks a view or a bundle, of a product, of a batch or of a battery.
 * @param {Uint8Array} bytes
 * @param {{ pins?: import("./keys.js").PinnedKey[], policy?: import("./log-policy.js").LogPolicy | null, question?: import("./status.js").StatusQuestion, recompute?: import("./bundle.js").ProofEvaluator | null }} [options]
 * @returns {Promise<import("./report.js").Report>}
 */
export function verifyAnything(bytes: Uint8Array, options?: {
    pins?: import("./keys.js").PinnedKey[];
    policy?: import("./log-policy.js").LogPolicy | null;
    question?: import("./status.js").StatusQuestion;
    recompute?: import("./bundle.js").ProofEvaluator | null;
}): Promise<import("./report.js").Report>;
