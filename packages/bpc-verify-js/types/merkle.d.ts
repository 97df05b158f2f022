/** @param {Uint8Array} entry @returns {Promise<Uint8Array>} */
export function hashLeaf(entry: Uint8Array): Promise<Uint8Array>;
/**
 * `CheckFailed` unless the hashes lead from the leaf to the root (RFC 9162 2.1.3.2).
 * @param {Uint8Array} leaf @param {bigint} index @param {bigint} size @param {Uint8Array[]} hashes @param {Uint8Array} root
 */
export function checkInclusion(leaf: Uint8Array, index: bigint, size: bigint, hashes: Uint8Array[], root: Uint8Array): Promise<void>;
