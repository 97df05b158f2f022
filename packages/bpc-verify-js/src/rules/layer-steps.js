/**
 * Step `proof_steps` of a battery or a batch: its proof is the exact list of steps that the rules give (docs/formats/item.md).
 *
 * The values of the upper layers are computed from their facts once more; their proofs say only where they stand.
 *
 * Checks:
 *   1. rules.bpc can be read, is of level 2, and every fact of a type that it names fits its schema
 *   2. evaluating the layers ends without failure
 *   3. every step has the type, data and children that evaluation gives, from the first to the last
 *   4. so have the values, types and audiences of the fields, and every salt
 *   5. the payload's entries are those of evaluation; the verdict is that of all layers
 */

import { compareTexts, hashBytes, shortenText, toHex } from "../bytes.js";
import { encodeCanonical, writeCanonical } from "../canonical-json.js";
import { CheckFailed } from "../errors.js";
import { LayerWalker } from "./layer-walker.js";
import { RuleFacts } from "./rule-facts.js";
import { ProgramLayers, getFactLayer } from "./rule-layers.js";
import { REQUIREMENTS_PATH, RuleProgram } from "./rule-program.js";
import { deriveLayerSalts, findSecret } from "./rule-salts.js";
import { makeObject, writeValue } from "./rule-values.js";

/**
 * @typedef {import("./rule-layers.js").Layer} Layer
 * @typedef {import("./layer-walker.js").UpperValues} UpperValues
 * @typedef {{ facts: any[], payload: any, proof: any, receipt: Record<string, any> }} LayerInputs
 * @typedef {{ program: RuleProgram, layers: ProgramLayers }} LayeredRules
 * @typedef {{ values: UpperValues, facts: any[], isFailed: boolean }} LayersAbove  what they hold, and whether an entry of theirs is FAIL
 */

/** @param {LayerInputs & { rules: Uint8Array }} inputs @param {LayerInputs[]} above  from the model down @returns {Promise<string>} */
export async function compareLayer(inputs, above) {
  const program = new RuleProgram(inputs.rules); // 1
  if (program.language !== 2) throw new CheckFailed("only rules of level 2 have layers");
  const rules = { program, layers: new ProgramLayers(program) };
  const [model, batch] = above;
  let upper = await evaluateModel(model, rules); // 2
  if (batch !== undefined) upper = await addBatch(batch, rules, upper);
  const layer = inputs.payload.layer;
  const own = layer === "item" && batch === undefined ? ["batch", "item"] : [layer];
  const { walker, fields } = await deriveLayer(inputs, rules, own, upper);
  const steps = await walker.finishSteps();
  compareSteps(inputs.proof.steps, steps);
  compareFields(inputs, walker, fields);
  compareEntries(walker.compliance, inputs.payload);
  const isFailed = upper.isFailed || walker.compliance.some((entry) => entry.status === "FAIL");
  if (inputs.payload.verdict !== (isFailed ? "FAIL" : "PASS")) throw new CheckFailed("the verdict is not that of all layers"); // 5
  return `evaluating rules.bpc again in this browser gives the same ${steps.length} steps`;
}

/** What the rules of lower layers may read of the model. @param {LayerInputs} model @param {LayeredRules} rules @returns {Promise<LayersAbove>} */
async function evaluateModel({ facts, payload, proof }, { program, layers }) {
  const own = facts.filter((fact) => getFactLayer(fact.fact_type) === "model");
  const walker = await openWalker(program, own, payload.battery_product, "", { fields: new Map(), definitions: new Map(), requirements: [] });
  const ownFields = program.fields.filter(({ path }) => layers.findOfField(path) === "model");
  for (const field of ownFields) walker.deriveField(field);
  const places = new Map(ownFields.map(({ path }) => [path, { hash: proof.nodes[proof.field_index[path]]?.hash, layer: /** @type {Layer} */ ("model"), node: proof.field_index[path] }]));
  /** @type {UpperValues["definitions"]} */
  const definitions = new Map();
  const nodes = new Map();
  for (const { id, hash, type, data } of proof.nodes) {
    if (data.op === "definition" && isReadable(data.name, "model", { program, layers })) definitions.set(data.name, { ...walker.holdDefinition(data.name), place: { hash, layer: "model", node: id } });
    if (type === "COMPLIANCE_EMIT" && data.at !== undefined) nodes.set(data.code, { hash, status: data.status });
  }
  const requirements = await summariseRequirements("model", layers, nodes);
  const codes = new Map(layers.requirements.map((each) => [each.code, layers.findOfRequirement(each)]));
  const isOfModel = (/** @type {any} */ entry) => (entry.field === REQUIREMENTS_PATH && codes.has(entry.code) ? codes.get(entry.code) : layers.findOfField(entry.field)) === "model";
  return {
    values: { fields: listValues(walker, places), definitions, requirements: [requirements] },
    facts: own,
    isFailed: payload.compliance.some((/** @type {any} */ entry) => isOfModel(entry) && entry.status === "FAIL"),
  };
}

/** What the batch adds to what a battery may read. @param {LayerInputs} batch @param {LayeredRules} rules @param {LayersAbove} above @returns {Promise<LayersAbove>} */
async function addBatch(batch, rules, above) {
  const { walker, fields } = await deriveLayer(batch, rules, ["batch"], above);
  const { root, steps, fields: fieldNodes } = batch.proof;
  /** @type {Layer} */
  const layer = "batch";
  const ids = new Map(fieldNodes.map((/** @type {any} */ { id, path }) => [path, id]));
  const places = new Map(
    fields.filter(({ path }) => path !== REQUIREMENTS_PATH).map(({ path }) => [path, { hash: root.fields[ids.get(path)], layer, node: ids.get(path) }]),
  );
  const definitions = new Map(above.values.definitions);
  for (const [name, outcome] of walker.defined) {
    if (outcome.node < 0 || !isReadable(name, layer, rules)) continue;
    definitions.set(name, { value: outcome.value, cause: outcome.cause, place: { hash: await hashValue(steps[outcome.node]), layer, node: outcome.node } });
  }
  const nodes = new Map();
  for (const step of steps) {
    if (step.type === "COMPLIANCE_EMIT" && step.data.at !== undefined) nodes.set(step.data.code, { hash: await hashValue(step), status: step.data.status });
  }
  const requirements = await summariseRequirements(layer, rules.layers, nodes);
  return {
    values: { fields: new Map([...above.values.fields, ...listValues(walker, places)]), definitions, requirements: [...above.values.requirements, requirements] },
    facts: [...above.facts, ...batch.facts],
    isFailed: above.isFailed || batch.payload.compliance.some((/** @type {any} */ entry) => entry.status === "FAIL"),
  };
}

/** Compute the fields of the layers that are its own. @param {LayerInputs} inputs @param {LayeredRules} rules @param {string[]} own @param {LayersAbove} above */
async function deriveLayer({ facts, payload, receipt }, { program, layers }, own, above) {
  const walker = await openWalker(program, [...above.facts, ...facts], payload.battery_product, receipt.issued_at.slice(0, 10), above.values);
  const fields = program.fields.filter(({ path }) => path === REQUIREMENTS_PATH || own.includes(layers.findOfField(path)));
  for (const field of fields) {
    if (field.path !== REQUIREMENTS_PATH) walker.deriveField(field);
    else {
      const items = layers.requirements.filter((each) => own.includes(layers.findOfRequirement(each)));
      walker.deriveField({ ...field, body: { ...field.body, items } });
    }
  }
  return { walker, fields: [...fields].sort((one, other) => compareTexts(one.path, other.path)) };
}

/** @param {RuleProgram} program @param {any[]} facts @param {any} product @param {string} issuedOn @param {UpperValues} upper @returns {Promise<LayerWalker>} */
async function openWalker(program, facts, product, issuedOn, upper) {
  const { checker } = program;
  return new LayerWalker(program, await RuleFacts.read(facts, checker.facts, checker.types), { productSku: product.sku, productName: product.name, issuedOn }, upper);
}

/** @param {LayerWalker} walker @param {Map<string, import("./layer-walker.js").ProofPlace>} places @returns {UpperValues["fields"]} */
function listValues(walker, places) {
  return new Map([...places].map(([path, place]) => [path, { value: walker.values.get(path), cause: walker.missingFields.get(path) ?? null, place }]));
}

/** Whether a definition belongs to a layer and its value can be written, and so be read. @param {string} name @param {Layer} layer @param {LayeredRules} rules @returns {boolean} */
function isReadable(name, layer, { program, layers }) {
  const definition = program.checker.definitions.get(name);
  return definition !== undefined && !definition.body.t.hasFacts && layers.findOfDefinition(name) === layer;
}

/** @param {Layer} layer @param {ProgramLayers} layers @param {Map<string, { hash: string, status: string }>} nodes @returns {Promise<import("./layer-walker.js").UpperRequirements>} */
async function summariseRequirements(layer, layers, nodes) {
  const codes = layers.requirements.filter((each) => layers.findOfRequirement(each) === layer).map(({ code }) => code);
  const stated = codes.map((code) => {
    const node = nodes.get(code);
    if (node === undefined) throw new CheckFailed(`the proof of the ${layer} has no entry for the requirement \`${shortenText(code)}\``);
    return { code, ...node };
  });
  return {
    count: codes.length,
    layer,
    list_hash: await hashValue(stated.map(({ code, hash }) => [code, hash])),
    value: stated.every(({ status }) => status !== "FAIL"),
  };
}

/** @param {any[]} actual @param {import("./rule-walker.js").ProofStep[]} expected */
function compareSteps(actual, expected) {
  for (let at = 0; at < Math.min(actual.length, expected.length); at++) { // 3
    const { type, data, children } = expected[at];
    const text = writeCanonical(makeObject(Object.entries({ children, data: makeObject(Object.entries(data)), type })));
    if (text !== writeCanonical(actual[at])) throw new CheckFailed(`step ${at} of the proof is not what the rules give: ${shortenText(text)}`);
  }
  if (actual.length !== expected.length) throw new CheckFailed(`the proof has ${actual.length} steps, and the rules give ${expected.length}`);
}

/** @param {LayerInputs} inputs @param {LayerWalker} walker @param {import("./rule-program.js").RuleField[]} fields  by path */
function compareFields({ facts, payload, proof, receipt }, walker, fields) {
  const secret = findSecret(facts, receipt);
  if (secret === null) throw new CheckFailed("the snapshot has no secret");
  const salts = deriveLayerSalts(secret, receipt.passport_version_id, fields.length);
  const paths = proof.fields.map((/** @type {any} */ { path }) => path);
  if (writeCanonical(paths) !== writeCanonical(fields.map(({ path }) => path))) throw new CheckFailed("the proof does not have exactly the fields that the rules give for this layer"); // 4
  for (const [at, { path, access, type }] of fields.entries()) {
    const field = proof.fields[at];
    if (writeCanonical(field.value) !== writeCanonical(writeValue(type, walker.values.get(path)))) throw new CheckFailed(`\`${shortenText(path)}\` has another value than the rules give`);
    if (field.type !== type.text || writeCanonical(field.access) !== writeCanonical(access)) throw new CheckFailed(`\`${shortenText(path)}\` has other audiences or another type than its rule`);
    if (field.salt !== salts.fields[at]) throw new CheckFailed(`the salt of \`${shortenText(path)}\` is not made from the snapshot's secret`);
  }
  if (payload.salt !== salts.payload || proof.salt !== salts.steps) throw new CheckFailed("the salts of payload and steps are not made from the snapshot's secret");
}

/** @param {any[]} expected @param {any} payload */
export function compareEntries(expected, payload) {
  const count = Math.max(expected.length, payload.compliance.length);
  for (let at = 0; at < count; at++) {
    if (writeCanonical(expected[at] ?? null) !== writeCanonical(payload.compliance[at] ?? null)) throw new CheckFailed(`compliance entry ${at} of the payload is not as the rules give it`);
  }
}

/** @param {any} value @returns {Promise<string>} */
async function hashValue(value) {
  return toHex(await hashBytes(encodeCanonical(value)));
}
