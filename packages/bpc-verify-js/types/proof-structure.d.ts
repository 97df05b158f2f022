/** @typedef {{ type: string, data: Record<string, any>, encoded: string, children: number[], hash: string }} ProofNode */
/**
 * @param {any} value @param {Record<string, any>} payload @param {import("./receipt.js").SignedReceipt} receipt
 * @param {Uint8Array} facts @returns {Promise<string>}
 */
export function checkProofStructure(value: any, payload: Record<string, any>, receipt: import("./receipt.js").SignedReceipt, facts: Uint8Array): Promise<string>;
export type ProofNode = {
    type: string;
    data: Record<string, any>;
    encoded: string;
    children: number[];
    hash: string;
};
