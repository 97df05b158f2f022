/**
 * What one audience sees of a battery, BPC-ITEM-VIEW-1, or of a batch, BPC-BATCH-VIEW-1. It holds the view of the layer above
 * it, up to that of the model.
 *
 * The steps, as `bpc verify` reports them:
 *   1. canonical     exactly the members of a view, canonical, each in its one spelling
 *   2. above         the view of the layer above verifies, and is for the same audience
 *   3. links         the root pins exactly the receipts and the proofs of the views above; the product is the same
 *   4. receipt_hash  the receipt is one, and this is its hash
 *   5. signature     a key that you trust signed it; it was valid, is not compromised, and is of the receipt's tenant
 *   6. root          the root has the hash that the receipt names, and is of the receipt's battery and product
 *   7. completeness  the fields are exactly those meant for the audience
 *   8. fields        each has the hash and the audiences that the root names; paths ascend
 */

import { compareTexts, hashBytes, shortenText, toHex } from "./bytes.js";
import { decodeCanonical, encodeCanonical, writeCanonical } from "./canonical-json.js";
import { CheckFailed, NotChecked } from "./errors.js";
import { AUDIENCES, AUDIENCE_LISTS, COUNT, FIELD_FORM, HASH, HASHES, LIST, OBJECT, PRODUCT, TEXT, UUID, oneOf, requireForm } from "./forms.js";
import { readItemReceipt } from "./receipt.js";
import { findCause, formatCount, makeReport, reportUnreadable, runStep } from "./report.js";
import { checkPinnedSignature, readView, verifyView } from "./view.js";

/** @typedef {import("./keys.js").PinnedKey} PinnedKey */
/** @typedef {import("./receipt.js").SignedReceipt} SignedReceipt */
/** @typedef {import("./view.js").ViewParts} ViewParts */
/** @typedef {{ layer: "batch" | "item", audience: string, receipt: SignedReceipt, root: Record<string, any>, fields: Record<string, any>[], above: ItemViewParts | ViewParts, aboveBytes: Uint8Array }} ItemViewParts */

/** @type {Record<string, "batch" | "item">} */
const LAYERS = { "BPC-BATCH-VIEW-1": "batch", "BPC-ITEM-VIEW-1": "item" };
const MARKS = Object.keys(LAYERS).map((name) => `"view_version":"${name}"}`);
export const ITEM_VIEW_STEPS = ["canonical", "above", "links", "receipt_hash", "signature", "root", "completeness", "fields"];

/** @type {import("./forms.js").ObjectForm} */
const ITEM_VIEW_FORM = {
  above: OBJECT,
  audience: { accepts: (value) => AUDIENCES.includes(value), description: "public, interest or authority" },
  fields: LIST,
  receipt: OBJECT,
  root: OBJECT,
  view_version: oneOf(...Object.keys(LAYERS)),
};
/** @type {import("./forms.js").ObjectForm} */
export const PIN_FORM = { layer: TEXT, passport_version_id: UUID, proof_root_hash: HASH, receipt_hash: HASH };
/** @type {import("./forms.js").ObjectForm} */
export const ITEM_FIELD_FORM = { ...FIELD_FORM, id: COUNT };

/** The form of the root of a layer's proof. @param {"batch" | "item"} layer @returns {import("./forms.js").ObjectForm} */
export function getRootForm(layer) {
  return {
    above: LIST,
    access: AUDIENCE_LISTS,
    battery_product: PRODUCT,
    facts_hash: HASH,
    fields: HASHES,
    layer: oneOf(layer),
    steps_hash: HASH,
    subject_id: UUID,
    verdict: oneOf("PASS", "FAIL"),
  };
}

/** Whether these bytes say that they are a view of a battery or a batch. @param {Uint8Array} bytes @returns {boolean} */
export function isItemView(bytes) {
  return bytes[0] === 0x7b && MARKS.some((mark) => String.fromCharCode(...bytes.slice(-mark.length)) === mark);
}

/** The parts of a view, each of its form. @param {Uint8Array} bytes @returns {Promise<ItemViewParts>} */
export async function readItemView(bytes) {
  return openItemView(decodeCanonical(bytes));
}

/** @param {any} value @returns {Promise<ItemViewParts>} */
async function openItemView(value) {
  const view = requireForm("the view", value, ITEM_VIEW_FORM);
  const layer = LAYERS[view.view_version];
  const receipt = await readItemReceipt("the view's receipt", view.receipt);
  const root = requireForm("the view's root", view.root, getRootForm(layer));
  for (const pin of root.above) requireForm("a pin of the view's root", pin, PIN_FORM);
  const fields = view.fields.map((/** @type {any} */ field, /** @type {number} */ at) => requireForm(`field ${at} of the view`, field, ITEM_FIELD_FORM));
  const aboveBytes = encodeCanonical(view.above);
  const isBelowBatch = layer === "item" && Object.hasOwn(LAYERS, String(view.above.view_version));
  const above = isBelowBatch ? await openItemView(view.above) : await readView(aboveBytes);
  return { layer, audience: view.audience, receipt, root, fields, above, aboveBytes };
}

/** Whether it is a view of a battery or a batch, and not of a model. @param {ItemViewParts | ViewParts} view @returns {view is ItemViewParts} */
function isBelowModel(view) {
  return "aboveBytes" in view;
}

/** The view of the model, at the top. @param {ItemViewParts} view @returns {ViewParts} */
export function findModel(view) {
  return isBelowModel(view.above) ? findModel(view.above) : view.above;
}

/**
 * One passport of all layers: of each path the value of the lowest layer that shows it.
 * @param {ItemViewParts} view @returns {Map<string, any>}
 */
export function mergeFields(view) {
  const values = isBelowModel(view.above) ? mergeFields(view.above) : new Map(view.above.fields.map(({ data }) => [data.path, data.value]));
  for (const field of view.fields) values.set(field.path, field.value);
  return values;
}

/**
 * Every step of checking a view of a battery or a batch.
 * @param {Uint8Array} bytes @param {{ pins?: PinnedKey[] }} [options] @returns {Promise<import("./report.js").Report>}
 */
export async function verifyItemView(bytes, { pins = [] } = {}) {
  let view;
  try {
    view = await readItemView(bytes);
  } catch (error) {
    if (!(error instanceof CheckFailed)) throw error;
    return makeReport(reportUnreadable(ITEM_VIEW_STEPS, error.message, "the view could not be read"), "unpinned");
  }
  const steps = await runItemViewSteps(view, pins);
  return makeReport(steps, isItemSigned(steps) ? "pinned" : "unpinned");
}

/** Whether trusted keys signed all layers. @param {import("./report.js").StepResult[]} steps @returns {boolean} */
export function isItemSigned(steps) {
  return steps[ITEM_VIEW_STEPS.indexOf("signature")].ok && steps[ITEM_VIEW_STEPS.indexOf("above")].ok;
}

/** @param {ItemViewParts} view @param {PinnedKey[]} pins @returns {Promise<import("./report.js").StepResult[]>} */
export async function runItemViewSteps(view, pins) {
  /** @type {(() => string | Promise<string>)[]} */
  const checks = [
    () => `a view of the layer \`${view.layer}\` for the audience \`${view.audience}\``, // 1, done by reading it
    () => checkAbove(view, pins),
    () => checkItemLinks(view),
    () => `the receipt is ${toHex(view.receipt.hash)}`, // 4
    () => checkPinnedSignature(view.receipt, pins), // 5
    () => checkItemRoot(view),
    () => checkItemCompleteness(view),
    () => checkItemFields(view),
  ];
  const steps = [];
  for (const [at, check] of checks.entries()) steps.push(await runStep(ITEM_VIEW_STEPS[at], check));
  return steps;
}

/** @param {ItemViewParts} view @param {PinnedKey[]} pins @returns {Promise<string>} */
async function checkAbove(view, pins) {
  const report = isBelowModel(view.above) ? await verifyItemView(view.aboveBytes, { pins }) : await verifyView(view.aboveBytes, { pins }); // 2
  const cause = findCause(report);
  if (cause?.skipped) throw new NotChecked(`the view above, step ${cause.name}: ${cause.detail}`);
  if (cause) throw new CheckFailed(`the view above, step ${cause.name}: ${cause.detail}`);
  if (view.above.audience !== view.audience) throw new CheckFailed(`the view above is for the audience \`${view.above.audience}\``);
  return `the view above passes its ${report.steps.length} steps`;
}

/** The pins that the views above ask for. @param {ItemViewParts} view @returns {Record<string, string>[]} */
function listPins({ above }) {
  const { passport_version_id, proof_root_hash } = above.receipt.members;
  const pin = { layer: isBelowModel(above) ? "batch" : "model", passport_version_id, proof_root_hash, receipt_hash: toHex(above.receipt.hash) };
  return isBelowModel(above) ? [...listPins(above), pin] : [pin];
}

/** @param {ItemViewParts} view @returns {string} */
function checkItemLinks(view) {
  const pins = listPins(view);
  const { above, receipt, root } = view;
  if (writeCanonical(root.above) !== writeCanonical(pins)) throw new CheckFailed("the root pins other layers than those whose views stand above it"); // 3
  if (receipt.members.above_receipt_hash !== pins[pins.length - 1].receipt_hash) throw new CheckFailed("the receipt names another receipt above it");
  const product = isBelowModel(above) ? above.root.battery_product : above.root.data.battery_product;
  if (writeCanonical(root.battery_product) !== writeCanonical(product)) throw new CheckFailed("the views are of different products");
  if (receipt.members.dsl_sha256 !== above.receipt.members.dsl_sha256) throw new CheckFailed("the layers were compiled with different rules");
  return pins.map((pin) => `below the ${pin.layer} ${pin.receipt_hash}`).join(" and ");
}

/** @param {ItemViewParts} view @returns {Promise<string>} */
async function checkItemRoot({ root, receipt }) {
  if (root.fields.length !== root.access.length) throw new CheckFailed("the root does not have as many audiences as fields"); // 6
  if (toHex(await hashBytes(encodeCanonical(root))) !== receipt.members.proof_root_hash) throw new CheckFailed("the root does not have the hash that the receipt names");
  if (root.subject_id !== receipt.members.subject_id) throw new CheckFailed("the root is of another battery than the receipt");
  if (root.battery_product.battery_product_id !== receipt.members.battery_product_id) throw new CheckFailed("the root is of another product than the receipt");
  return `the root of ${formatCount(root.fields.length, "field")} is the one the receipt names`;
}

/** @param {ItemViewParts} view @returns {string} */
function checkItemCompleteness({ root, fields, audience }) {
  /** @type {number[]} */
  const expected = [];
  root.access.forEach((/** @type {string[]} */ access, /** @type {number} */ at) => {
    if (access.includes(audience) || access.includes("public")) expected.push(at);
  });
  const actual = fields.map((field) => field.id); // 7
  if (actual.length !== expected.length || actual.some((at, place) => at !== expected[place])) {
    const differing = [...expected.filter((at) => !actual.includes(at)), ...actual.filter((at) => !expected.includes(at)), ...actual];
    throw new CheckFailed(`field ${differing[0]} is missing, in excess or out of order for \`${audience}\``);
  }
  return `${formatCount(actual.length, "field")} for the audience \`${audience}\`, and all are here`;
}

/** @param {ItemViewParts} view @returns {Promise<string>} */
async function checkItemFields({ root, fields }) {
  for (const field of fields) {
    const where = `field ${field.id}, \`${shortenText(field.path)}\`,`; // 8
    if (toHex(await hashBytes(encodeCanonical(field))) !== root.fields[field.id]) throw new CheckFailed(`${where} does not have the hash that the root names`);
    const access = root.access[field.id];
    if (access === undefined || writeCanonical(field.access) !== writeCanonical(access)) throw new CheckFailed(`${where} does not have the audiences that the root names`);
  }
  for (let at = 1; at < fields.length; at++) {
    if (compareTexts(fields[at - 1].path, fields[at].path) >= 0) throw new CheckFailed("the paths of the fields do not ascend");
  }
  return "each has the hash and the audiences that the root names";
}
