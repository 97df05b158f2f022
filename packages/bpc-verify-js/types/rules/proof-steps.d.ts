/**
 * @typedef {object} ProofInputs
 * @property {Uint8Array} rules  rules.bpc
 * @property {any[]} facts  the lines of facts.jsonl
 * @property {string} factsHash
 * @property {any} payload
 * @property {any} proof
 * @property {Record<string, any>} receipt  its members
 * @property {import("./layer-steps.js").LayerInputs[]} [above]  of a battery or a batch: the layers above it, from the model down
 */
/** What was found: `ok`, or what is wrong, or why it could not be checked. @param {ProofInputs} inputs @returns {Promise<{ ok: boolean, skipped: boolean, detail: string }>} */
export function recomputeProof(inputs: ProofInputs): Promise<{
    ok: boolean;
    skipped: boolean;
    detail: string;
}>;
export type ProofInputs = {
    /**
     * rules.bpc
     */
    rules: Uint8Array;
    /**
     * the lines of facts.jsonl
     */
    facts: any[];
    factsHash: string;
    payload: any;
    proof: any;
    /**
     * its members
     */
    receipt: Record<string, any>;
    /**
     * of a battery or a batch: the layers above it, from the model down
     */
    above?: import("./layer-steps.js").LayerInputs[] | undefined;
};
