/** A file of any kind that this package knows: the bytes say which it is. */

import { isView, verifyBundle } from "./bundle.js";
import { isItemBundle, verifyItemBundle } from "./item-bundle.js";
import { isItemView, verifyItemView } from "./item-view.js";
import { verifyView } from "./view.js";

/**
 * Checks a view or a bundle, of a product, of a batch or of a battery.
 * @param {Uint8Array} bytes
 * @param {{ pins?: import("./keys.js").PinnedKey[], policy?: import("./log-policy.js").LogPolicy | null, question?: import("./status.js").StatusQuestion, recompute?: import("./bundle.js").ProofEvaluator | null }} [options]
 * @returns {Promise<import("./report.js").Report>}
 */
export async function verifyAnything(bytes, options = {}) {
  if (isItemView(bytes)) return verifyItemView(bytes, options);
  if (isView(bytes)) return verifyView(bytes, options);
  return isItemBundle(bytes) ? verifyItemBundle(bytes, options) : verifyBundle(bytes, options);
}
