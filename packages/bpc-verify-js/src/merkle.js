/** The Merkle tree of RFC 6962: that an entry is in a tree. */

import { areSameBytes, hashBytes, joinBytes } from "./bytes.js";
import { CheckFailed } from "./errors.js";

const MAX_TREE_SIZE = 1n << 62n;

/** @param {Uint8Array} entry @returns {Promise<Uint8Array>} */
export function hashLeaf(entry) {
  return hashBytes(joinBytes(Uint8Array.of(0), entry));
}

/**
 * `CheckFailed` unless the hashes lead from the leaf to the root (RFC 9162 2.1.3.2).
 * @param {Uint8Array} leaf @param {bigint} index @param {bigint} size @param {Uint8Array[]} hashes @param {Uint8Array} root
 */
export async function checkInclusion(leaf, index, size, hashes, root) {
  if (index < 0n || index >= size || size > MAX_TREE_SIZE) {
    throw new CheckFailed(`entry ${index} cannot be in a tree of ${size} entries`);
  }
  let [position, last, node] = [index, size - 1n, leaf];
  for (const sibling of hashes) {
    if (last === 0n) throw new CheckFailed("the inclusion proof has too many hashes");
    if (position & 1n || position === last) {
      node = await hashBytes(joinBytes(Uint8Array.of(1), sibling, node));
      while (!(position & 1n) && position !== 0n) [position, last] = [position >> 1n, last >> 1n];
    } else {
      node = await hashBytes(joinBytes(Uint8Array.of(1), node, sibling));
    }
    [position, last] = [position >> 1n, last >> 1n];
  }
  if (last !== 0n) throw new CheckFailed("the inclusion proof has too few hashes");
  if (!areSameBytes(node, root)) throw new CheckFailed("the inclusion proof does not lead to the root of the checkpoint");
}
