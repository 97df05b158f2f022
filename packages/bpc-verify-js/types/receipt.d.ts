/** @param {any} value @returns {boolean} whether a build or a key may have it as a name */
export function isName(value: any): boolean;
/**
 * A signed receipt, its hash and the bytes of its signature.
 * @typedef {{ members: Record<string, any>, hash: Uint8Array, signature: Uint8Array }} SignedReceipt
 * @param {string} where @param {any} value @returns {Promise<SignedReceipt>}
 */
export function readReceipt(where: string, value: any): Promise<SignedReceipt>;
/** A signed receipt of a battery or a batch. @param {string} where @param {any} value @returns {Promise<SignedReceipt>} */
export function readItemReceipt(where: string, value: any): Promise<SignedReceipt>;
/** @param {any} value @returns {boolean} */
export function looksLikeReceipt(value: any): boolean;
/**
 * A signed receipt, its hash and the bytes of its signature.
 */
export type SignedReceipt = {
    members: Record<string, any>;
    hash: Uint8Array;
    signature: Uint8Array;
};
