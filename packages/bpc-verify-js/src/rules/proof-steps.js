/**
 * Step `proof_steps`: the proof is the exact list of nodes that the rules, evaluated once more, give for these facts.
 *
 * The evaluator here was written from the specification of the language and shares no code with those in Python. It reads
 * rules that were published: of a package with mistakes it may say something else than `bpc rules check`.
 *
 * Checks:
 *   1. rules.bpc can be read, and every fact of a type that it names fits its schema
 *   2. the versions of the proof and the payload are those of the rules' level
 *   3. evaluating the rules ends without failure
 *   4. their fields are the proof's, by path
 *   5. every step, every field node and the root has the type, data and children that evaluation gives
 *   6. the payload's compliance entries and salt are those that evaluation and the snapshot's secret give
 */

import { compareTexts, shortenText } from "../bytes.js";
import { writeCanonical } from "../canonical-json.js";
import { CheckFailed, NotChecked } from "../errors.js";
import { compareEntries, compareLayer } from "./layer-steps.js";
import { RuleFacts } from "./rule-facts.js";
import { RuleMistake } from "./rule-lexer.js";
import { RuleProgram } from "./rule-program.js";
import { openSalts } from "./rule-salts.js";
import { makeObject, writeValue } from "./rule-values.js";
import { RuleWalker } from "./rule-walker.js";

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
export async function recomputeProof(inputs) {
  try {
    return { ok: true, skipped: false, detail: await (inputs.above === undefined ? compareProof(inputs) : compareLayer(inputs, inputs.above)) };
  } catch (error) {
    if (error instanceof RuleMistake) return { ok: false, skipped: false, detail: `rules.bpc, character ${error.at}: ${error.message}` };
    if (error instanceof NotChecked || error instanceof RangeError) return { ok: false, skipped: true, detail: error.message };
    if (error instanceof CheckFailed) return { ok: false, skipped: false, detail: error.message };
    throw error;
  }
}

/** @param {ProofInputs} inputs @returns {Promise<string>} */
async function compareProof({ rules, facts, factsHash, payload, proof, receipt }) {
  const program = new RuleProgram(rules); // 1
  const { language, checker } = program;
  if (payload.payload_version !== `BPC-PASSPORT-${language}` || proof.proof_version !== `BPC-PROOF-${language}`) { // 2
    throw new CheckFailed(`rules of level ${language} do not give a ${payload.payload_version} with a ${proof.proof_version}`);
  }
  const product = payload.battery_product;
  const world = { productSku: product.sku, productName: product.name, issuedOn: receipt.issued_at.slice(0, 10) };
  const walker = new RuleWalker(program, await RuleFacts.read(facts, checker.facts, checker.types), world);
  const derive = await openSalts(facts, receipt);
  const salts = new Map(await Promise.all(program.fields.map(async ({ path }) => /** @type {[string, string]} */ ([path, await derive(`field:${path}`)]))));
  for (const field of program.fields) walker.deriveField(field, /** @type {string} */ (salts.get(field.path)).slice(32)); // 3
  const steps = await walker.finishSteps();
  const byPath = [...program.fields].sort((one, other) => compareTexts(one.path, other.path));
  const paths = byPath.map(({ path }) => path);
  const proven = Object.keys(proof.field_index).sort(compareTexts); // 4
  const other = paths.find((path) => !proven.includes(path)) ?? proven.find((path) => !paths.includes(path));
  if (other !== undefined) throw new CheckFailed(`field \`${shortenText(other)}\` is not both in the rules and in the proof`);
  const fields = byPath.map(({ path, access, type }) => ({
    type: "OP",
    data: { op: "field", path, access, type: type.text, value: writeValue(type, walker.values.get(path)), salt: /** @type {string} */ (salts.get(path)).slice(0, 32) },
    children: [/** @type {number} */ (walker.derivations.get(path))],
  }));
  const root = { type: "OP", data: { op: "passport", access: byPath.map(({ access }) => access), battery_product: product, facts_hash: factsHash }, children: paths.map((_, at) => at) };
  compareNodes([...fields, root, ...steps], proof.nodes, fields.length); // 5
  compareEntries(walker.compliance, payload); // 6
  if (payload.salt !== (await derive("payload")).slice(0, 32)) throw new CheckFailed("the payload's `salt` is not made from the snapshot's secret");
  return `evaluating rules.bpc again in this browser gives the same ${proof.nodes.length} nodes`;
}

/** @param {{ type: string, data: any, children: number[] }[]} expected @param {any[]} actual @param {number} count */
function compareNodes(expected, actual, count) {
  const places = [...expected.keys()];
  for (const at of [...places.slice(count + 1), ...places.slice(0, count + 1)]) {
    const [one, other] = [expected[at], actual[at]];
    if (other === undefined) throw new CheckFailed(`the proof ends before node ${at}`);
    const name = one.data.op ?? one.type;
    if (one.type !== other.type || writeCanonical(makeObject(Object.entries(one.data))) !== writeCanonical(other.data)) {
      throw new CheckFailed(`node ${at} of the proof, \`${name}\`, is not what the rules give: ${shortenText(writeCanonical(makeObject(Object.entries(one.data))))}`);
    }
    if (one.children.length !== other.children.length || one.children.some((child, place) => child !== other.children[place])) {
      throw new CheckFailed(`node ${at} of the proof, \`${name}\`, is made from other nodes than the rules say`);
    }
  }
  if (actual.length > expected.length) throw new CheckFailed(`the rules give no node ${expected.length}, and the proof has one`);
}
