/** Checks passports of BPC with WebCrypto: views, bundles, receipts, keys, log proofs, status. No dependencies, no network. */

export { CheckFailed, NotChecked } from "./errors.js";
export { fromBase64, hashBytes, toBase64, toHex } from "./bytes.js";
export { decodeCanonical, encodeCanonical } from "./canonical-json.js";
export { pinKey, readKeySet } from "./keys.js";
export { parsePolicy } from "./log-policy.js";
export { parseLogProof } from "./log-proof.js";
export { parseVerifierKey } from "./notes.js";
export { NOT_ASKED, NO_QUESTION, judgeStatus } from "./status.js";
export { getState, readStatement, readStatusList } from "./status-documents.js";
export { VIEW_STEPS, openView, readView, verifyView } from "./view.js";
export { ITEM_VIEW_STEPS, isItemView, mergeFields, readItemView, verifyItemView } from "./item-view.js";
export { BUNDLE_STEPS, UNCHECKED_STEPS, isView, verifyBundle } from "./bundle.js";
export { ITEM_BUNDLE_STEPS, isItemBundle, verifyItemBundle } from "./item-bundle.js";
export { verifyAnything } from "./anything.js";
export { ITEM_PASSPORT_STEPS, PASSPORT_STEPS, verifyPassport } from "./passport.js";
