/**
 * The bundle of a battery, BPC-ITEM-BUNDLE-1, or of a batch, BPC-BATCH-BUNDLE-1. It holds the bundle of the layer above it.
 *
 * The steps are those of `bpc verify`, in its order, without `replay`, and without `proof_steps` unless an evaluator is given:
 *   1. canonical        every entry is in its one form
 *   2. above            the bundle of the layer above verifies
 *   3. links            it lies below exactly these layers, with the same rules
 *   4. payload_hash     the payload is the one the receipt names
 *   5. snapshot         the snapshot is the one the receipt names, and lists these facts
 *   6. proof_structure  the proof is of this payload, and reads what the upper proofs hold
 *   7. proof_steps      and exactly the computation that the rules give
 *   8. receipt_hash     the receipt is this battery's
 *   9. signature        the key signed it; a pinned key, if keys are pinned, valid then
 */

import { readArchive, splitArchive } from "./archive.js";
import { EVALUATED_STEP, KEY_NAME, OpenedBundle, SNAPSHOT_FORM, listLayerInputs, listUncheckedSteps, openBundle, readEvaluation, readFactLines, verifyBundle } from "./bundle.js";
import { compareTexts, fromBase64, hashBytes, shortenText, toHex } from "./bytes.js";
import { decodeCanonical, encodeCanonical, writeCanonical } from "./canonical-json.js";
import { isSignedBy, requirePublicKey } from "./ed25519.js";
import { CheckFailed } from "./errors.js";
import { ACCESS_BY_PATH, COMPLIANCE, COUNT, HASH, LIST, OBJECT, PRODUCT, SALT, TEXT, TIME, UUID, oneOf, requireForm } from "./forms.js";
import { ITEM_FIELD_FORM, PIN_FORM, getRootForm } from "./item-view.js";
import { describeOwner, findPin, refuseCompromised, requireKeyWindow, requireSameTenant } from "./keys.js";
import { readItemReceipt } from "./receipt.js";
import { findCause, formatCount, makeReport, reportUnreadable, runStep, skipStep } from "./report.js";
import { findSigner } from "./view.js";

/** @typedef {import("./keys.js").PinnedKey} PinnedKey */
/** @typedef {import("./log-policy.js").LogPolicy} LogPolicy */
/** @typedef {import("./receipt.js").SignedReceipt} SignedReceipt */
/** @typedef {"batch" | "item"} LowerLayer */
/** @typedef {import("./bundle.js").ProofEvaluator} ProofEvaluator */
/** @typedef {{ pins?: PinnedKey[], policy?: LogPolicy | null, recompute?: ProofEvaluator | null }} BundleOptions */

export const ITEM_BUNDLE_STEPS = ["canonical", "above", "links", "payload_hash", "snapshot", "proof_structure", "receipt_hash", "signature"];
/** What the layers above say is read only if they verify and belong to the battery. @type {Record<string, string[]>} */
const NEEDS = { links: ["above"], snapshot: ["above"], proof_structure: ["above"], [EVALUATED_STEP]: ["above", "links"] };
/** @type {Record<string, string>} */
const WAITS = { above: "the bundle above does not verify", links: "the layers do not belong together" };
/** @type {Record<string, LowerLayer>} */
const LAYERS_BY_BUNDLE = { "BPC-BATCH-BUNDLE-1": "batch", "BPC-ITEM-BUNDLE-1": "item" };
/** @type {Record<string, string>} which layer a type of fact belongs to; every other is the model's */
const FACT_LAYERS = { Batch: "batch", Item: "item", Reading: "item", ReadingSeries: "item" };

/** @type {import("./forms.js").ObjectForm} */
const ITEM_MANIFEST_FORM = {
  bundle_version: oneOf(...Object.keys(LAYERS_BY_BUNDLE)),
  passport_version_id: UUID,
  public_key: TEXT,
  signing_key_id: KEY_NAME,
};
/** @type {import("./forms.js").ObjectForm} */
const STEP_FORM = {
  children: { accepts: (value) => Array.isArray(value) && value.every(COUNT.accepts), description: "a list of ids" },
  data: OBJECT,
  type: TEXT,
};

/** Whether the bytes are the bundle of a battery or a batch. @param {Uint8Array} bytes @returns {boolean} */
export function isItemBundle(bytes) {
  try {
    return splitArchive(bytes).has("above.zip");
  } catch (error) {
    if (error instanceof CheckFailed) return false;
    throw error;
  }
}

/** A bundle of a battery or a batch whose entries all have their form. Nothing in it is checked yet. */
class OpenedItem {
  /**
   * @param {Map<string, Uint8Array>} entries @param {LowerLayer} layer @param {Record<string, any>} manifest
   * @param {SignedReceipt} receipt @param {OpenedItem | OpenedBundle} above
   */
  constructor(entries, layer, manifest, receipt, above) {
    this.entries = entries;
    this.layer = layer;
    this.manifest = manifest;
    this.receipt = receipt;
    this.above = above;
    this.payload = readEntryOf(entries, "payload.json", getPayloadForm(layer));
    this.proof = readEntryOf(entries, "proof.json", getProofForm(layer));
    this.root = requireForm("proof.json: the root", this.proof.root, getRootForm(layer));
    this.fields = requireForms("proof.json: field", this.proof.fields, ITEM_FIELD_FORM);
    this.steps = requireForms("proof.json: step", this.proof.steps, STEP_FORM);
    requireForms("payload.json: pin", this.payload.above, PIN_FORM);
    requireForms("proof.json: the root: pin", this.root.above, PIN_FORM);
    this.snapshot = readEntryOf(entries, "snapshot.json", SNAPSHOT_FORM);
    this.facts = readFactLines(getEntry(entries, "facts.jsonl"));
  }

  /** What an evaluator reads of it. @returns {import("./rules/layer-steps.js").LayerInputs} */
  get layerInputs() {
    return { facts: this.facts, payload: this.payload, proof: this.proof, receipt: this.receipt.members };
  }

  /** The bundle of the model, directly above or above the batch. @returns {OpenedBundle} */
  get model() {
    return this.above instanceof OpenedItem ? this.above.model : this.above;
  }
}

/** @param {Map<string, Uint8Array>} entries @param {string} name @returns {Uint8Array} */
function getEntry(entries, name) {
  return /** @type {Uint8Array} */ (entries.get(name));
}

/** @param {Map<string, Uint8Array>} entries @param {string} name @param {import("./forms.js").ObjectForm} form */
function readEntryOf(entries, name, form) {
  return requireForm(name, decodeCanonical(getEntry(entries, name)), form);
}

/** @param {string} where @param {any[]} values @param {import("./forms.js").ObjectForm} form @returns {Record<string, any>[]} */
function requireForms(where, values, form) {
  return values.map((value, at) => requireForm(`${where} ${at}`, value, form));
}

/** @param {LowerLayer} layer @returns {import("./forms.js").ObjectForm} */
function getPayloadForm(layer) {
  return {
    above: LIST,
    access: ACCESS_BY_PATH,
    battery_product: PRODUCT,
    compliance: COMPLIANCE,
    fields: OBJECT,
    issued_at: TIME,
    layer: oneOf(layer),
    passport_version_id: UUID,
    payload_version: oneOf(`BPC-${layer.toUpperCase()}-PAYLOAD-1`),
    salt: SALT,
    subject_id: UUID,
    verdict: oneOf("PASS", "FAIL"),
  };
}

/** @param {LowerLayer} layer @returns {import("./forms.js").ObjectForm} */
function getProofForm(layer) {
  return { fields: LIST, proof_version: oneOf(`BPC-${layer.toUpperCase()}-PROOF-1`), root: OBJECT, root_hash: HASH, salt: SALT, steps: LIST };
}

/** @param {Uint8Array} bytes @returns {Promise<OpenedItem>} */
async function openItem(bytes) {
  const entries = readArchive(bytes);
  if (!entries.has("above.zip")) throw new CheckFailed("this is not the bundle of a battery or a batch");
  const manifest = readEntryOf(entries, "manifest.json", ITEM_MANIFEST_FORM);
  if (fromBase64(manifest.public_key).length !== 32) throw new CheckFailed("manifest.json: the public key does not have 32 bytes");
  const layer = LAYERS_BY_BUNDLE[manifest.bundle_version];
  const receipt = await readItemReceipt("receipt.json", decodeCanonical(getEntry(entries, "receipt.json")));
  if (receipt.members.receipt_version !== `BPC-${layer.toUpperCase()}-RECEIPT-1`) throw new CheckFailed("receipt.json and manifest.json are of different layers");
  // Only a model lies above a batch, so no bundle nests deeper than that.
  const aboveBytes = getEntry(entries, "above.zip");
  const above = layer === "item" && isItemBundle(aboveBytes) ? await openItem(aboveBytes) : await openBundle(aboveBytes);
  const item = new OpenedItem(entries, layer, manifest, receipt, above);
  item.facts.forEach((fact, at) => {
    if (at > 0 && compareFacts(item.facts[at - 1], fact) >= 0) throw new CheckFailed("facts.jsonl is not in the order of its snapshot");
  });
  return item;
}

/** @param {Record<string, any>} one @param {Record<string, any>} other @returns {number} */
function compareFacts(one, other) {
  return compareTexts(one.fact_type, other.fact_type) || compareTexts(one.fact_key, other.fact_key);
}

/** Every step that this package has. @param {Uint8Array} bytes @param {BundleOptions} [options] @returns {Promise<import("./report.js").Report>} */
export async function verifyItemBundle(bytes, { pins = [], policy = null, recompute = null } = {}) {
  const unchecked = listUncheckedSteps(recompute);
  /** @type {OpenedItem} */
  let item;
  try {
    item = await openItem(bytes);
  } catch (error) {
    if (!(error instanceof CheckFailed)) throw error;
    return makeReport(reportUnreadable(ITEM_BUNDLE_STEPS, error.message, "the file could not be read"), "unpinned", unchecked);
  }
  /** @type {Record<string, () => string | Promise<string>>} */
  const checks = {
    canonical: () => `${item.entries.size} entries, each in its one form`, // 1, done by reading it
    above: () => checkBundleAbove(item, { pins, policy, recompute }),
    links: () => checkBundleLinks(item),
    payload_hash: () => requireEntryHash(item, "payload.json", "payload_hash"), // 4
    snapshot: () => checkItemSnapshot(item),
    proof_structure: () => checkItemStructure(item),
    ...(recompute === null ? {} : { [EVALUATED_STEP]: () => checkItemSteps(item, recompute) }),
    receipt_hash: () => checkItemReceipt(item),
    signature: () => checkItemSignature(item, pins),
  };
  /** @type {import("./report.js").StepResult[]} */
  const steps = [];
  const isOk = (/** @type {string} */ name) => steps.some((step) => step.name === name && step.ok);
  for (const [name, check] of Object.entries(checks)) {
    const need = (NEEDS[name] ?? []).find((each) => !isOk(each));
    steps.push(need === undefined ? await runStep(name, check) : skipStep(name, WAITS[need]));
  }
  return makeReport(steps, pins.length && isOk("above") && isOk("signature") ? "pinned" : "unpinned", unchecked);
}

/** @param {OpenedItem} item @param {ProofEvaluator} recompute @returns {Promise<string>} */
async function checkItemSteps(item, recompute) {
  const { above, model } = item; // 7
  const rules = /** @type {Uint8Array} */ (model.entries.get("rules.bpc"));
  const layers = [listLayerInputs(model), ...(above instanceof OpenedItem ? [above.layerInputs] : [])];
  return readEvaluation(await recompute({ rules, factsHash: item.root.facts_hash, ...item.layerInputs, above: layers }));
}

/** @param {OpenedItem} item @param {BundleOptions} options @returns {Promise<string>} */
async function checkBundleAbove(item, options) {
  const isBatch = item.above instanceof OpenedItem;
  const report = await (isBatch ? verifyItemBundle : verifyBundle)(getEntry(item.entries, "above.zip"), options); // 2
  const cause = findCause(report);
  if (cause !== null) throw new CheckFailed(`above.zip, step ${cause.name}: ${cause.detail}`);
  return `the bundle of the ${isBatch ? "batch" : "model"} passes its ${report.steps.length} steps`;
}

/** The pins that the bundles above ask for. @param {OpenedItem} item @returns {Record<string, string>[]} */
function listBundlePins(item) {
  const pins = [pinLayer("model", item.model.get("receipt.json"))];
  if (item.above instanceof OpenedItem) pins.push(pinLayer("batch", item.above.receipt));
  return pins;
}

/** @param {string} layer @param {SignedReceipt} receipt @returns {Record<string, string>} */
function pinLayer(layer, { members, hash }) {
  return { layer, passport_version_id: members.passport_version_id, proof_root_hash: members.proof_root_hash, receipt_hash: toHex(hash) };
}

/** @param {OpenedItem} item @returns {string} */
function checkBundleLinks(item) {
  const { above, receipt } = item;
  if (above instanceof OpenedItem && (item.layer !== "item" || above.layer !== "batch")) throw new CheckFailed(`a bundle of the layer \`${above.layer}\` lies above one of the layer \`${item.layer}\``); // 3
  const pins = listBundlePins(item);
  if (writeCanonical(item.root.above) !== writeCanonical(pins)) throw new CheckFailed("it pins other layers than its bundle holds");
  if (receipt.members.above_receipt_hash !== pins[pins.length - 1].receipt_hash) throw new CheckFailed("the receipt names another receipt above it");
  if (writeCanonical(item.root.battery_product) !== writeCanonical(item.model.get("payload.json").battery_product)) throw new CheckFailed("the battery is of another product than its model");
  const others = [item.model.get("receipt.json"), ...(above instanceof OpenedItem ? [above.receipt] : [])];
  for (const { members } of others) {
    const isSame = members.dsl_sha256 === receipt.members.dsl_sha256 && members.tests_sha256 === receipt.members.tests_sha256;
    if (!isSame) throw new CheckFailed("a layer above was compiled with other rules");
  }
  return pins.map((pin) => `below the ${pin.layer} ${pin.receipt_hash}`).join(" and ");
}

/** @param {OpenedItem} item @param {string} entry @param {string} member @returns {Promise<string>} */
async function requireEntryHash(item, entry, member) {
  const actual = toHex(await hashBytes(getEntry(item.entries, entry)));
  const expected = item.receipt.members[member];
  if (actual !== expected) throw new CheckFailed(`${entry} has the hash ${actual}, and the receipt names ${expected}`);
  return `${entry} is ${actual}`;
}

/** @param {OpenedItem} item @returns {Promise<string>} */
async function checkItemSnapshot(item) {
  const says = await requireEntryHash(item, "snapshot.json", "snapshot_hash"); // 5
  if (item.snapshot.snapshot_id !== item.receipt.members.snapshot_id) throw new CheckFailed("snapshot.json is of another snapshot than the receipt names");
  const refs = await Promise.all(
    item.facts.map(async ({ fact_key, fact_type, payload }) => ({ fact_key, fact_type, payload_hash: toHex(await hashBytes(encodeCanonical(payload))) })),
  );
  if (writeCanonical(item.snapshot.facts) !== writeCanonical(refs)) throw new CheckFailed("snapshot.json does not list exactly the facts of facts.jsonl");
  const isBelowBatch = item.above instanceof OpenedItem;
  const ownLayers = item.layer === "item" && !isBelowBatch ? ["batch", "item"] : [item.layer];
  for (const { fact_key, fact_type } of item.facts) {
    const layer = Object.hasOwn(FACT_LAYERS, fact_type) ? FACT_LAYERS[fact_type] : "model";
    if (fact_type !== "Blinding" && !ownLayers.includes(layer)) throw new CheckFailed(`fact \`${shortenText(fact_key)}\` belongs to another layer`);
  }
  return `${says}; ${formatCount(item.facts.length, "fact")}`;
}

/** @param {OpenedItem} item @returns {Promise<string>} */
async function checkItemStructure(item) {
  const { fields, proof, root, steps, payload } = item;
  for (const [at, field] of fields.entries()) { // 6
    if ((await hashValue(field)) !== root.fields[at]) throw new CheckFailed(`field ${at} of the proof does not have the hash that the root names`);
    if (field.id !== at || (at > 0 && compareTexts(fields[at - 1].path, field.path) >= 0)) throw new CheckFailed("the fields of the proof are not in the order of their paths, or an id is not its place");
  }
  if (root.fields.length !== fields.length) throw new CheckFailed("the root of the proof names other fields");
  if ((await hashValue({ salt: proof.salt, steps: proof.steps })) !== root.steps_hash) throw new CheckFailed("the steps of the proof do not have the hash that the root names");
  steps.forEach((step, at) => {
    if (!step.children.every((/** @type {number} */ child) => child < at)) throw new CheckFailed(`step ${at} of the proof has a child that does not come before it`);
  });
  const rootHash = await hashValue(root);
  if (rootHash !== proof.root_hash || rootHash !== item.receipt.members.proof_root_hash) throw new CheckFailed(`the root of the proof has the hash ${rootHash}, and proof or receipt name another`);
  if (root.subject_id !== item.receipt.members.subject_id) throw new CheckFailed("the proof is of another battery than the receipt");
  if (root.facts_hash !== toHex(await hashBytes(getEntry(item.entries, "facts.jsonl")))) throw new CheckFailed("facts.jsonl does not have the hash that the proof's root names");
  if (writeCanonical(root.access) !== writeCanonical(fields.map((field) => field.access))) throw new CheckFailed("the root of the proof names other audiences than the fields");
  for (const name of ["above", "battery_product", "verdict"]) {
    if (writeCanonical(payload[name]) !== writeCanonical(root[name])) throw new CheckFailed(`payload and proof differ in \`${name}\``);
  }
  if (writeCanonical(payload.access) !== writeCanonical(Object.fromEntries(fields.map((field) => [field.path, field.access])))) throw new CheckFailed("payload and proof differ in the audiences of fields");
  if (writeCanonical(payload.fields) !== writeCanonical(nestFields(fields))) throw new CheckFailed("payload and proof differ in the values of fields");
  let reads = 0;
  for (const { data, type } of steps) {
    if (type !== "LAYER_GET" || data.op === "requirements") continue;
    await checkLayerRead(item, data);
    reads++;
  }
  return `${formatCount(fields.length, "field")}, ${formatCount(steps.length, "step")}, ${reads} reads of upper layers`;
}

/** @param {Record<string, any>[]} fields @returns {any} */
function nestFields(fields) {
  const nested = Object.create(null);
  for (const { path, value } of fields) {
    const folders = path.split(".");
    const name = folders.pop();
    let target = nested;
    for (const folder of folders) target = target[folder] ??= Object.create(null);
    target[name] = value;
  }
  return nested;
}

/** A step reads the node of an upper layer that it names. @param {OpenedItem} item @param {Record<string, any>} data */
async function checkLayerRead(item, data) {
  const isOfBatch = data.layer === "batch" && item.above instanceof OpenedItem;
  if (data.layer !== "model" && !isOfBatch) throw new CheckFailed(`a step reads the layer \`${shortenText(String(data.layer))}\`, which is not above this battery`);
  const node = isOfBatch ? await findBatchNode(/** @type {OpenedItem} */ (item.above), data) : findModelNode(item.model, data);
  const isSame = ["path", "name"].every((name) => !(name in data) || writeCanonical(node.data[name] ?? null) === writeCanonical(data[name]));
  if (node.hash !== data.hash || !isSame) throw new CheckFailed(`\`${shortenText(String(data.path ?? data.name))}\` is read from a node of the ${data.layer}'s proof that is another`);
}

/** @param {OpenedBundle} model @param {Record<string, any>} data @returns {{ data: Record<string, any>, hash: string }} */
function findModelNode(model, data) {
  const node = model.get("proof.json").nodes[data.node];
  if (node === undefined) throw new CheckFailed("a step reads a node of an upper layer that does not exist");
  return { data: node.data, hash: node.hash };
}

/** @param {OpenedItem} batch @param {Record<string, any>} data @returns {Promise<{ data: Record<string, any>, hash: string }>} */
async function findBatchNode(batch, data) {
  const node = "path" in data ? batch.fields[data.node] : batch.steps[data.node];
  if (node === undefined) throw new CheckFailed("a step reads a node of an upper layer that does not exist");
  return { data: "path" in data ? node : node.data, hash: await hashValue(node) };
}

/** @param {OpenedItem} item @returns {string} */
function checkItemReceipt({ payload, manifest, receipt }) {
  const { members, hash } = receipt;
  for (const name of ["subject_id", "passport_version_id", "issued_at"]) { // 8
    if (payload[name] !== members[name]) throw new CheckFailed(`payload.json has another ${name} than the receipt`);
  }
  if (payload.battery_product.battery_product_id !== members.battery_product_id) throw new CheckFailed("payload.json is of another product than the receipt");
  if (manifest.passport_version_id !== members.passport_version_id) throw new CheckFailed("manifest.json is of another passport version than the receipt");
  return `the receipt is ${toHex(hash)}`;
}

/** @param {OpenedItem} item @param {PinnedKey[]} pins @returns {Promise<string>} */
async function checkItemSignature({ manifest, receipt }, pins) {
  const name = receipt.members.signing_key_id;
  if (manifest.signing_key_id !== name) throw new CheckFailed("the manifest names another key than the receipt"); // 9
  const publicKey = requirePublicKey(fromBase64(manifest.public_key));
  if (pins.length === 0) {
    if (!(await isSignedBy(publicKey, receipt.hash, receipt.signature))) throw new CheckFailed("the signature does not belong to this content and key");
    return `signed by key \`${name}\`; the issuer was not checked, because no key was given`;
  }
  if (findPin(pins, publicKey, name) === null) throw new CheckFailed("the manifest's key is not one of those you trust");
  const pin = await findSigner(receipt, pins.filter((each) => toHex(each.publicKey) === toHex(publicKey)));
  requireSameTenant(pin, receipt.members);
  refuseCompromised(pin, null);
  requireKeyWindow(pin, receipt.members.issued_at);
  return `signed by \`${name}\`, ${describeOwner(pin)}`;
}

/** @param {any} value @returns {Promise<string>} */
async function hashValue(value) {
  return toHex(await hashBytes(encodeCanonical(value)));
}
