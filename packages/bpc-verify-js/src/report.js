/**
 * Reports: every step, in order. A step that could not run counts as failed, and says why.
 *
 * @typedef {object} StepResult
 * @property {string} name
 * @property {boolean} ok
 * @property {boolean} skipped  true if it could not run
 * @property {string} detail
 *
 * @typedef {object} Report
 * @property {StepResult[]} steps
 * @property {boolean} ok  true if every step holds
 * @property {"pinned" | "unpinned"} issuer  pinned only if a trusted key signed it
 * @property {string[]} unchecked  steps of `bpc verify` that this package does not have
 * @property {import("./status.js").StatusVerdict} status  what the issuer says of it since
 */

import { CheckFailed, NotChecked } from "./errors.js";
import { NOT_ASKED } from "./status.js";

/** @param {string} name @param {() => string | Promise<string>} check @returns {Promise<StepResult>} */
export async function runStep(name, check) {
  try {
    return { name, ok: true, skipped: false, detail: await check() };
  } catch (error) {
    if (error instanceof NotChecked) return skipStep(name, error.message);
    if (error instanceof CheckFailed) return { name, ok: false, skipped: false, detail: error.message };
    throw error;
  }
}

/** @param {string} name @param {string} reason @returns {StepResult} */
export function skipStep(name, reason) {
  return { name, ok: false, skipped: true, detail: `not checked: ${reason}` };
}

/** @param {string[]} names @param {string} reason @param {string} rest @returns {StepResult[]} */
export function reportUnreadable(names, reason, rest) {
  return names.map((name, at) =>
    at === 0 ? { name, ok: false, skipped: false, detail: reason } : skipStep(name, rest),
  );
}

/**
 * @param {StepResult[]} steps @param {"pinned" | "unpinned"} issuer @param {string[]} [unchecked]
 * @param {import("./status.js").StatusVerdict} [status] @returns {Report}
 */
export function makeReport(steps, issuer, unchecked = [], status = NOT_ASKED) {
  return { steps, ok: steps.every((step) => step.ok), issuer, unchecked, status };
}

/**
 * The first step that found something wrong, or else the first that could not run; null if all passed.
 * @param {Report} report @returns {StepResult | null}
 */
export function findCause({ steps }) {
  const failures = steps.filter((step) => !step.ok);
  return failures.find((step) => !step.skipped) ?? failures[0] ?? null;
}

/** @param {number} count @param {string} noun @returns {string} */
export function formatCount(count, noun) {
  return count === 1 ? `${count} ${noun}` : `${count} ${noun}s`;
}
