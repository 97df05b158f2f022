/**
 * A view, BPC-VIEW-1: what one audience sees of a passport, checked without the rest. BPC-VIEW-2 is an envelope around it,
 * with its log proof and the statement that says where its status is.
 *
 * The steps, as `bpc verify` reports them:
 *   1. canonical     exactly the members of a view, canonical, each in its one spelling
 *   2. receipt_hash  the receipt is one, and this is its hash
 *   3. signature     a key that you trust signed it; it was valid, is not compromised, and is of the receipt's tenant
 *   4. root          the root of the proof has the hash that the receipt names
 *   5. completeness  the fields are exactly those meant for the audience
 *   6. fields        each opens one of the root's hashes
 *   7. product       the battery product is the receipt's
 *   8. log           it is in the transparency log; the envelope has the proof
 *   9. status        what the issuer says of it since; the envelope says where
 */

import { compareTexts, encodeUtf8, fromHex, hashBytes, shortenText, toHex } from "./bytes.js";
import { decodeCanonical, encodeCanonical } from "./canonical-json.js";
import { isSignedBy } from "./ed25519.js";
import { CheckFailed, NotChecked } from "./errors.js";
import { AUDIENCES, COUNT, FIELD_FORM, HASH, HASHES, LIST, OBJECT, ROOT_FORM, TEXT, allowNull, oneOf, requireForm } from "./forms.js";
import { describeOwner, findPin, refuseCompromised, requireKeyWindow, requireSameTenant } from "./keys.js";
import { checkLogProof, checkStatement, parseLogProof } from "./log-proof.js";
import { readCheckpoint } from "./notes.js";
import { readReceipt } from "./receipt.js";
import { formatCount, makeReport, reportUnreadable, runStep } from "./report.js";
import { NOT_ASKED, NO_QUESTION, judgeStatus, requireNotRevoked } from "./status.js";
import { readStatement } from "./status-documents.js";

/** @typedef {import("./keys.js").PinnedKey} PinnedKey */
/** @typedef {import("./log-policy.js").LogPolicy} LogPolicy */
/** @typedef {import("./status.js").StatusQuestion} StatusQuestion */
/** @typedef {{ view: Uint8Array, logProof: import("./log-proof.js").LogProof | null, statement: import("./status-documents.js").StatusStatement | null }} ViewEnvelope */
/** @typedef {{ audience: string, receipt: import("./receipt.js").SignedReceipt, root: Record<string, any>, fields: Record<string, any>[] }} ViewParts */

/** @type {import("./forms.js").ObjectForm} */
const VIEW_FORM = {
  audience: { accepts: (value) => AUDIENCES.includes(value), description: "public, interest or authority" },
  fields: LIST,
  receipt: OBJECT,
  root: OBJECT,
  view_version: oneOf("BPC-VIEW-1"),
};
/** @type {import("./forms.js").ObjectForm} */
const VIEW_ROOT_FORM = { children: HASHES, data: OBJECT, id: COUNT };
/** @type {import("./forms.js").ObjectForm} */
const VIEW_FIELD_FORM = { child: HASH, data: OBJECT, id: COUNT };

/** @type {import("./forms.js").ObjectForm} */
const ENVELOPE_FORM = { log_proof: allowNull(TEXT), status: allowNull(OBJECT), view: OBJECT, view_version: oneOf("BPC-VIEW-2") };
const ENVELOPE_MARK = '"view_version":"BPC-VIEW-2"}';

export const VIEW_STEPS = ["canonical", "receipt_hash", "signature", "root", "completeness", "fields", "product", "log", "status"];

/**
 * What is in an envelope; a view without one comes as it is, and is not read.
 * @param {Uint8Array} bytes @returns {Promise<ViewEnvelope>}
 */
export async function openView(bytes) {
  const end = String.fromCharCode(...bytes.slice(-ENVELOPE_MARK.length));
  if (end !== ENVELOPE_MARK) return { view: bytes, logProof: null, statement: null };
  const { view, log_proof: proof, status } = requireForm("the envelope of the view", decodeCanonical(bytes), ENVELOPE_FORM);
  return {
    view: encodeCanonical(view),
    logProof: proof === null ? null : await parseLogProof(encodeUtf8(proof)),
    statement: status === null ? null : await readStatement(encodeCanonical(status)),
  };
}

/** The parts of a view, each of its form. @param {Uint8Array} bytes @returns {Promise<ViewParts>} */
export async function readView(bytes) {
  const view = requireForm("the view", decodeCanonical(bytes), VIEW_FORM);
  const receipt = await readReceipt("the view's receipt", view.receipt);
  const root = requireForm("the view's root", view.root, VIEW_ROOT_FORM);
  requireForm("the data of the view's root", root.data, ROOT_FORM);
  const fields = view.fields.map((/** @type {any} */ value, /** @type {number} */ at) => {
    const field = requireForm(`field ${at} of the view`, value, VIEW_FIELD_FORM);
    requireForm(`the data of field ${at} of the view`, field.data, FIELD_FORM);
    return field;
  });
  return { audience: view.audience, receipt, root, fields };
}

/**
 * Every step of checking a view, with or without an envelope.
 * @param {Uint8Array} bytes @param {{ pins?: PinnedKey[], policy?: LogPolicy | null, question?: StatusQuestion }} [options]
 * @returns {Promise<import("./report.js").Report>}
 */
export async function verifyView(bytes, { pins = [], policy = null, question = NO_QUESTION } = {}) {
  let envelope, view;
  try {
    envelope = await openView(bytes);
    view = await readView(envelope.view);
  } catch (error) {
    if (!(error instanceof CheckFailed)) throw error;
    return makeReport(reportUnreadable(VIEW_STEPS, error.message, "the view could not be read"), "unpinned");
  }
  const { logProof, statement } = envelope;
  const { receipt } = view;
  const steps = await runViewSteps(view, pins);
  const isSigned = steps[VIEW_STEPS.indexOf("signature")].ok;
  steps.push(await runStep("log", () => checkReceiptLog(receipt, logProof, policy)));
  const status = await runStatusStep(() => ({ receipt, statement, pins, ownKey: null }), question);
  return makeReport([...steps, status.step], isSigned ? "pinned" : "unpinned", [], status.verdict);
}

/**
 * The step `status`, and what it found.
 * @param {() => import("./status.js").StatusSubject} openSubject @param {StatusQuestion} question
 */
export async function runStatusStep(openSubject, question) {
  let verdict = NOT_ASKED;
  const step = await runStep("status", async () => {
    verdict = await judgeStatus(openSubject(), question);
    return requireNotRevoked(verdict);
  });
  return { step, verdict };
}

/**
 * What the log shows of a receipt, or that it was not asked.
 * @param {import("./receipt.js").SignedReceipt} receipt @param {import("./log-proof.js").LogProof | null} proof @param {LogPolicy | null} policy
 * @returns {Promise<string>}
 */
export async function checkReceiptLog(receipt, proof, policy) {
  if (proof === null) return "not checked: there is no proof of logging yet";
  checkStatement(proof, receipt);
  if (policy === null) return `not checked: give a policy to check that it is entry ${proof.index} of the log \`${shortenText(readCheckpoint(proof.note.text).origin)}\``;
  return checkLogProof(proof, policy);
}

/** The steps that need nothing but the view and the keys. @param {ViewParts} view @param {PinnedKey[]} pins */
export async function runViewSteps(view, pins) {
  /** @type {[string, () => string | Promise<string>][]} */
  const checks = [
    ["canonical", () => `a view for the audience \`${view.audience}\``], // 1, done by reading it
    ["receipt_hash", () => `the receipt is ${toHex(view.receipt.hash)}`], // 2
    ["signature", () => checkPinnedSignature(view.receipt, pins)], // 3
    ["root", () => checkViewRoot(view)],
    ["completeness", () => checkCompleteness(view)],
    ["fields", () => checkViewFields(view)],
    ["product", () => checkViewProduct(view)],
  ];
  const steps = [];
  for (const [name, check] of checks) steps.push(await runStep(name, check));
  return steps;
}

/**
 * @param {import("./receipt.js").SignedReceipt} receipt @param {PinnedKey[]} pins @returns {Promise<string>}
 */
export async function checkPinnedSignature(receipt, pins) {
  const pin = await findSigner(receipt, pins);
  requireSameTenant(pin, receipt.members);
  refuseCompromised(pin, null);
  requireKeyWindow(pin, receipt.members.issued_at);
  return `signed by \`${receipt.members.signing_key_id}\`, ${describeOwner(pin)}`;
}

/**
 * The pinned key that signed the receipt, under the name that the receipt gives it.
 * @param {import("./receipt.js").SignedReceipt} receipt @param {PinnedKey[]} pins @returns {Promise<PinnedKey>}
 */
export async function findSigner(receipt, pins) {
  if (pins.length === 0) throw new NotChecked("a view carries no key; give the issuer's key to check the signature");
  const signers = [];
  for (const pin of pins) {
    if (await isSignedBy(pin.publicKey, receipt.hash, receipt.signature)) signers.push(pin);
  }
  if (signers.length === 0) throw new CheckFailed("none of the keys you trust signed this receipt");
  const name = receipt.members.signing_key_id;
  if (!signers.some((pin) => pin.keyId === null || pin.keyId === name)) {
    throw new CheckFailed(`the receipt names the key \`${shortenText(name)}\`, but you trust this key under another name`);
  }
  return findPin(signers, signers[0].publicKey, name) ?? signers[0];
}

/** @param {number} id @param {Record<string, any>} data @param {string[]} children @returns {Promise<string>} */
export async function hashNode(id, data, children) {
  return toHex(await hashBytes(encodeCanonical({ children_hashes: children, data, id, type: "OP" })));
}

/** @param {ViewParts} view @returns {Promise<string>} */
async function checkViewRoot({ root, receipt }) {
  if (root.id !== root.children.length || root.id !== root.data.access.length) {
    throw new CheckFailed("the root's id, its children and its access sets do not agree on the number of fields");
  }
  const rootHash = await hashNode(root.id, root.data, root.children);
  if (rootHash !== receipt.members.proof_root_hash) {
    throw new CheckFailed(`the root has the hash ${rootHash}, and the receipt names another`);
  }
  return `the root of ${formatCount(root.id, "field")} has the hash that the receipt names, ${rootHash}`;
}

/** @param {ViewParts} view @returns {string} */
function checkCompleteness({ root, fields, audience }) {
  /** @type {number[]} */
  const expected = [];
  root.data.access.forEach((/** @type {string[]} */ access, /** @type {number} */ at) => {
    if (access.includes(audience) || access.includes("public")) expected.push(at);
  });
  const actual = fields.map((field) => field.id);
  const missing = expected.find((at) => !actual.includes(at));
  if (missing !== undefined) throw new CheckFailed(`field ${missing} is for the audience \`${audience}\` and is missing`);
  const extra = actual.find((at) => !expected.includes(at));
  if (extra !== undefined) throw new CheckFailed(`field ${extra} is not for the audience \`${audience}\``);
  if (actual.length !== expected.length || actual.some((at, place) => at !== expected[place])) {
    throw new CheckFailed("the fields are not in the order of their ids, or one is there twice");
  }
  const total = formatCount(root.data.access.length, "field");
  return `of ${total} ${actual.length} are for the audience \`${audience}\`, and all are here`;
}

/** @param {ViewParts} view @returns {Promise<string>} */
async function checkViewFields({ root, fields }) {
  for (const field of fields) {
    const { id, data, child } = field;
    const where = `field ${id}, \`${shortenText(data.path)}\`,`;
    if (id >= root.children.length || id >= root.data.access.length) throw new CheckFailed(`${where} is not one of the root's`);
    const access = root.data.access[id];
    if (data.access.length !== access.length || data.access.some((/** @type {string} */ name, /** @type {number} */ at) => name !== access[at])) {
      throw new CheckFailed(`${where} does not have the audiences that the root names`);
    }
    if ((await hashNode(id, data, [toHex(fromHex(child))])) !== root.children[id]) {
      throw new CheckFailed(`${where} does not have the hash that the root names`);
    }
  }
  for (let at = 1; at < fields.length; at++) {
    if (compareTexts(fields[at - 1].data.path, fields[at].data.path) >= 0) {
      throw new CheckFailed(`the fields are not in order: \`${shortenText(fields[at].data.path)}\` is out of order or repeated`);
    }
  }
  return `${formatCount(fields.length, "value")}: each has the hash and the audiences that the root names`;
}

/** @param {ViewParts} view @returns {string} */
function checkViewProduct({ root, receipt }) {
  const product = root.data.battery_product;
  if (product.battery_product_id !== receipt.members.battery_product_id) {
    throw new CheckFailed("the view shows another battery product than the receipt names");
  }
  return `\`${shortenText(product.name)}\`, SKU \`${shortenText(product.sku)}\``;
}
