/**
 * Step `proof_structure`: proof.json is one hash-linked computation of this payload, laid out as BPC-PROOF-1 and -2 say.
 *
 * Checks:
 *   1. proof.json and every node have exactly their members; a node's id is its place
 *   2. k fields: nodes 0…k−1 are the field nodes by path
 *   3. node k is the root; its children are 0…k−1, and it repeats their access
 *   4. the others are steps; a step's children stand between the root and itself
 *   5. a field's one child is a derivation step, and no two fields share it
 *   6. equal nodes are stored once
 *   7. every node but the root is some node's child
 *   8. every node has the hash of its type, data, id and children's hashes
 *   9. the root's hash is `root_hash`, and the receipt names it
 *  10. `field_index` leads to exactly the field nodes
 *  11. the payload's fields and access are exactly those of the field nodes
 *  12. the root's product is the payload's and its facts_hash that of facts.jsonl
 */

import { compareTexts, encodeUtf8, hashBytes, shortenText, toHex } from "./bytes.js";
import { writeCanonical } from "./canonical-json.js";
import { CheckFailed } from "./errors.js";
import { FIELD_FORM, HASH, LIST, ROOT_FORM, hasExactly, isCount, isObject, oneOf, requireForm } from "./forms.js";
import { formatCount } from "./report.js";

const NODE_TYPES = ["CONST", "FACT_GET", "FIELD_REF", "OP", "ASSERT", "COMPLIANCE_EMIT"];
const NODE_MEMBERS = ["children", "data", "hash", "id", "type"];
/** @type {import("./forms.js").ObjectForm} */
const PROOF_FORM = {
  field_index: { accepts: (value) => isObject(value) && Object.values(value).every(isCount), description: "an object of node ids" },
  nodes: LIST,
  proof_version: oneOf("BPC-PROOF-1", "BPC-PROOF-2"),
  root_hash: HASH,
};

/** @typedef {{ type: string, data: Record<string, any>, encoded: string, children: number[], hash: string }} ProofNode */

/**
 * @param {any} value @param {Record<string, any>} payload @param {import("./receipt.js").SignedReceipt} receipt
 * @param {Uint8Array} facts @returns {Promise<string>}
 */
export async function checkProofStructure(value, payload, receipt, facts) {
  const proof = requireForm("proof.json", value, PROOF_FORM); // 1
  const nodes = proof.nodes.map(parseNode);
  const paths = Object.keys(proof.field_index);
  const count = paths.length;
  checkLayout(nodes, count);
  checkSharing(nodes, count);
  await checkHashes(nodes);
  if (nodes[count].hash !== proof.root_hash) throw new CheckFailed("the proof's root does not have the hash that `root_hash` says"); // 9
  if (receipt.members.proof_root_hash !== proof.root_hash) throw new CheckFailed("the receipt names another root hash than the proof");
  nodes.slice(0, count).forEach((/** @type {ProofNode} */ node, /** @type {number} */ at) => {
    if (proof.field_index[node.data.path] !== at) throw new CheckFailed(`\`field_index\` does not lead to node ${at}`); // 10
  });
  checkPayloadFields(payload, nodes.slice(0, count));
  const root = nodes[count].data; // 12
  if (writeCanonical(root.battery_product) !== writeCanonical(payload.battery_product)) throw new CheckFailed("the proof is of another battery product than the payload");
  if (root.facts_hash !== toHex(await hashBytes(facts))) throw new CheckFailed("facts.jsonl does not have the hash that the proof's root names");
  return `${formatCount(nodes.length, "node")} for ${formatCount(count, "field")}, hash-linked up to ${proof.root_hash}`;
}

/** @param {any} node @param {number} at @returns {ProofNode} */
function parseNode(node, at) {
  const isNode =
    isObject(node) &&
    hasExactly(node, NODE_MEMBERS) &&
    node.id === at &&
    NODE_TYPES.includes(node.type) &&
    isObject(node.data) &&
    Array.isArray(node.children) &&
    node.children.every(isCount) &&
    typeof node.hash === "string";
  if (!isNode) throw new CheckFailed(`node ${at} of the proof does not have the form of a node`);
  return { type: node.type, data: node.data, encoded: writeCanonical(node.data), children: node.children, hash: node.hash };
}

/** @param {ProofNode[]} nodes @param {number} count */
function checkLayout(nodes, count) {
  if (nodes.length <= count) throw new CheckFailed("the proof has too few nodes for its fields and a root");
  for (let at = 0; at < count; at++) requireForm(`node ${at} of the proof, a field`, nodes[at].data, FIELD_FORM); // 2
  for (let at = 1; at < count; at++) {
    if (compareTexts(nodes[at - 1].data.path, nodes[at].data.path) >= 0) throw new CheckFailed("the proof's field nodes are not in order");
  }
  const root = nodes[count]; // 3
  requireForm(`node ${count} of the proof, the root`, root.data, ROOT_FORM);
  if (root.type !== "OP" || root.children.length !== count || root.children.some((child, at) => child !== at)) {
    throw new CheckFailed("the root of the proof does not have exactly the fields as its children");
  }
  const access = nodes.slice(0, count).map((node) => node.data.access);
  if (writeCanonical(root.data.access) !== writeCanonical(access)) throw new CheckFailed("the root of the proof names other audiences than the fields");
  for (let at = count + 1; at < nodes.length; at++) {
    if (!nodes[at].children.every((child) => count < child && child < at)) { // 4
      throw new CheckFailed(`node ${at} of the proof has a child that does not stand between the root and itself`);
    }
  }
  const derivations = new Set();
  for (let at = 0; at < count; at++) {
    const [child, ...others] = nodes[at].children; // 5
    const isDerived = nodes[at].type === "OP" && others.length === 0 && child > count && child < nodes.length;
    if (!isDerived || nodes[child].type !== "OP" || nodes[child].data.op !== "derivation") {
      throw new CheckFailed(`node ${at} of the proof, a field, does not have a derivation as its child`);
    }
    if (derivations.has(child)) throw new CheckFailed("two fields of the proof share a derivation");
    derivations.add(child);
  }
}

/** @param {ProofNode[]} nodes @param {number} count */
function checkSharing(nodes, count) {
  const seen = new Set();
  const used = new Set();
  for (const node of nodes) {
    const key = JSON.stringify([node.type, node.encoded, node.children.map(String)]); // 6
    if (seen.has(key)) throw new CheckFailed("two nodes of the proof are identical; equal nodes must be stored once");
    seen.add(key);
    for (const child of node.children) used.add(child);
  }
  for (let at = 0; at < nodes.length; at++) {
    if (at !== count && !used.has(at)) throw new CheckFailed(`node ${at} of the proof is not used by any other node`); // 7
  }
}

/** @param {ProofNode[]} nodes */
async function checkHashes(nodes) {
  const digests = await Promise.all(
    nodes.map((node, at) => {
      const children = node.children.map((child) => `"${nodes[child].hash}"`).join(","); // 8
      return hashBytes(encodeUtf8(`{"children_hashes":[${children}],"data":${node.encoded},"id":${at},"type":"${node.type}"}`));
    }),
  );
  digests.forEach((digest, at) => {
    if (toHex(digest) !== nodes[at].hash) throw new CheckFailed(`node ${at} of the proof does not have the hash it claims`);
  });
}

/** @param {Record<string, any>} payload @param {ProofNode[]} fields */
function checkPayloadFields(payload, fields) {
  const nested = Object.create(null); // 11
  for (const { data } of fields) {
    if (writeCanonical(payload.access[data.path] ?? null) !== writeCanonical(data.access)) {
      throw new CheckFailed(`the payload does not give \`${shortenText(data.path)}\` the audiences that its proof has`);
    }
    const folders = data.path.split(".");
    const name = folders.pop();
    let target = nested;
    for (const folder of folders) target = target[folder] ??= Object.create(null);
    target[name] = data.value;
  }
  if (Object.keys(payload.access).length !== fields.length) throw new CheckFailed("the payload names the audiences of a path that has no proof");
  if (writeCanonical(nested) !== writeCanonical(payload.fields)) throw new CheckFailed("the payload's fields are not those of its proof");
}
