/**
 * A passport as its public page shows it: the view, and around it what the page knows besides.
 *
 * Further steps, behind the first seven of the view:
 *   8. key_window  the passport was issued while its key was in use
 *   9. log         it is in the transparency log, and witnesses saw it
 *  10. status      what the issuer says of it since, signed
 *  11. shown       what the page shows is what was checked: each shown value has the path of a checked one
 *
 * Of a battery, the same steps stand behind the eight of its view. Log and status are those of the model that it pins: no
 * list speaks of single batteries.
 *
 * @typedef {object} PassportEvidence
 * @property {Uint8Array} view
 * @property {PinnedKey[]} pins
 * @property {Uint8Array | null} [logProof]
 * @property {LogPolicy | null} [policy]
 * @property {import("./status.js").StatusQuestion} [question]  signed status documents, and the time
 * @property {{ path: string, value: string }[] | null} [shown]  the values in the page, as canonical JSON
 */

import { shortenText, toHex } from "./bytes.js";
import { writeCanonical } from "./canonical-json.js";
import { CheckFailed, NotChecked } from "./errors.js";
import { checkKeyTimes } from "./bundle.js";
import { findModel, isItemSigned, isItemView, mergeFields, readItemView, runItemViewSteps, ITEM_VIEW_STEPS } from "./item-view.js";
import { openLogProof, parseLogProof } from "./log-proof.js";
import { makeReport, reportUnreadable, runStep } from "./report.js";
import { NO_QUESTION } from "./status.js";
import { checkReceiptLog, findSigner, openView, readView, runStatusStep, runViewSteps } from "./view.js";

/** @typedef {import("./keys.js").PinnedKey} PinnedKey */
/** @typedef {import("./log-policy.js").LogPolicy} LogPolicy */
/** @typedef {import("./log-proof.js").LogProof} LogProof */
/** @typedef {import("./receipt.js").SignedReceipt} SignedReceipt */

export const PASSPORT_STEPS = ["canonical", "receipt_hash", "signature", "root", "completeness", "fields", "product", "key_window", "log", "status", "shown"];
export const ITEM_PASSPORT_STEPS = [...ITEM_VIEW_STEPS, "key_window", "log", "status", "shown"];

/** @param {PassportEvidence} evidence @returns {Promise<import("./report.js").Report>} */
export async function verifyPassport(evidence) {
  return isItemView(evidence.view) ? verifyItemPassport(evidence) : verifyModelPassport(evidence);
}

/** @param {PassportEvidence} evidence @returns {Promise<import("./report.js").Report>} */
async function verifyItemPassport({ view: bytes, pins, logProof = null, policy = null, question = NO_QUESTION, shown = null }) {
  let view;
  try {
    view = await readItemView(bytes);
  } catch (error) {
    if (!(error instanceof CheckFailed)) throw error;
    return makeReport(reportUnreadable(ITEM_PASSPORT_STEPS, error.message, "the view could not be read"), "unpinned");
  }
  const { receipt } = view;
  const model = findModel(view).receipt;
  const steps = await runItemViewSteps(view, pins);
  const isSigned = isItemSigned(steps);
  steps.push(await runStep("key_window", () => checkKeyWindow(receipt, pins, null, null)));
  steps.push(await runStep("log", async () => `of its model: ${await checkReceiptLog(model, logProof === null ? null : await parseLogProof(logProof), policy)}`));
  const status = await runStatusStep(() => ({ receipt: model, statement: null, pins, ownKey: null }), question);
  if (status.step.ok) status.step.detail = `of its model: ${status.step.detail}; no list speaks of single batteries`;
  steps.push(status.step, await runStep("shown", () => checkShown(mergeFields(view), receipt, shown)));
  return makeReport(steps, isSigned ? "pinned" : "unpinned", [], status.verdict);
}

/** @param {PassportEvidence} evidence @returns {Promise<import("./report.js").Report>} */
async function verifyModelPassport(evidence) {
  const { pins, policy = null, question = NO_QUESTION, shown = null } = evidence;
  let envelope, view;
  try {
    envelope = await openView(evidence.view);
    view = await readView(envelope.view);
  } catch (error) {
    if (!(error instanceof CheckFailed)) throw error;
    return makeReport(reportUnreadable(PASSPORT_STEPS, error.message, "the view could not be read"), "unpinned");
  }
  const { receipt } = view;
  const proof = openProof(evidence.logProof ?? null, envelope.logProof);
  // A compromised key may have signed before its compromise, which the log shows: step 8 decides that.
  const isLogged = policy !== null && (evidence.logProof ?? envelope.logProof) !== null;
  const steps = await runViewSteps(view, isLogged ? pins.map((pin) => ({ ...pin, compromisedSince: null })) : pins);
  const isSigned = steps[PASSPORT_STEPS.indexOf("signature")].ok;
  steps.push(await runStep("key_window", async () => checkKeyWindow(receipt, pins, await proof(), policy)));
  steps.push(await runStep("log", async () => checkReceiptLog(receipt, await proof(), policy)));
  const { statement } = envelope;
  const status = await runStatusStep(() => ({ receipt, statement, pins, ownKey: null }), question);
  steps.push(status.step, await runStep("shown", () => checkShown(new Map(view.fields.map(({ data }) => [data.path, data.value])), receipt, shown)));
  return makeReport(steps, isSigned ? "pinned" : "unpinned", [], status.verdict);
}

/**
 * The proof that is given beside the view, or else the one in its envelope; it is read in the steps that need it.
 * @param {Uint8Array | null} bytes @param {LogProof | null} enclosed @returns {() => Promise<LogProof | null>}
 */
function openProof(bytes, enclosed) {
  return async () => (bytes === null ? enclosed : parseLogProof(bytes));
}

/** @param {SignedReceipt} receipt @param {PinnedKey[]} pins @param {LogProof | null} proof @param {LogPolicy | null} policy @returns {Promise<string>} */
async function checkKeyWindow(receipt, pins, proof, policy) {
  let key;
  try {
    key = await findSigner(receipt, pins);
  } catch (error) {
    if (error instanceof CheckFailed) throw new NotChecked("no trusted key signed it");
    throw error;
  }
  return checkKeyTimes(key, receipt.members, proof !== null && policy !== null ? await openLogProof(proof, policy) : null);
}

/**
 * @param {Map<string, any>} values  the signed values by path
 * @param {SignedReceipt} receipt @param {{ path: string, value: string }[] | null} shown @returns {string}
 */
function checkShown(values, receipt, shown) {
  if (shown === null) return `nothing is shown besides; the receipt is ${toHex(receipt.hash)}`;
  for (const { path, value } of shown) {
    if (!values.has(path) || writeCanonical(values.get(path)) !== value) throw new CheckFailed(`the page shows another value of \`${shortenText(path)}\` than the signed passport`);
  }
  return `${shown.length} values on this page are those of the signed passport`;
}
