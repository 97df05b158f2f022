/** The form of the root of a layer's proof. @param {"batch" | "item"} layer @returns {import("./forms.js").ObjectForm} */
export function getRootForm(layer: "batch" | "item"): import("./forms.js").ObjectForm;
/** Whether these bytes say that they are a view of a battery or a batch. @param {Uint8Array} bytes @returns {boolean} */
export function isItemView(bytes: Uint8Array): boolean;
/** The parts of a view, each of its form. @param {Uint8Array} bytes @returns {Promise<ItemViewParts>} */
export function readItemView(bytes: Uint8Array): Promise<ItemViewParts>;
/** The view of the model, at the top. @param {ItemViewParts} view @returns {ViewParts} */
export function findModel(view: ItemViewParts): ViewParts;
/**
 * One passport of all layers: of each path the value of the lowest layer that shows it.
 * @param {ItemViewParts} view @returns {Map<string, any>}
 */
export function mergeFields(view: ItemViewParts): Map<string, any>;
/**
 * Every step of checking a view of a battery or a batch.
 * @param {Uint8Array} bytes @param {{ pins?: PinnedKey[] }} [options] @returns {Promise<import("./report.js").Report>}
 */
export function verifyItemView(bytes: Uint8Array, { pins }?: {
    pins?: PinnedKey[];
}): Promise<import("./report.js").Report>;
/** Whether trusted keys signed all layers. @param {import("./report.js").StepResult[]} steps @returns {boolean} */
export function isItemSigned(steps: import("./report.js").StepResult[]): boolean;
/** @param {ItemViewParts} view @param {PinnedKey[]} pins @returns {Promise<import("./report.js").StepResult[]>} */
export function runItemViewSteps(view: ItemViewParts, pins: PinnedKey[]): Promise<import("./report.js").StepResult[]>;
export const ITEM_VIEW_STEPS: string[];
/** @type {import("./forms.js").ObjectForm} */
export const PIN_FORM: import("./forms.js").ObjectForm;
/** @type {import("./forms.js").ObjectForm} */
export const ITEM_FIELD_FORM: import("./forms.js").ObjectForm;
export type PinnedKey = import("./keys.js").PinnedKey;
export type SignedReceipt = import("./receipt.js").SignedReceipt;
export type ViewParts = import("./view.js").ViewParts;
export type ItemViewParts = {
    layer: "batch" | "item";
    audience: string;
    receipt: SignedReceipt;
    root: Record<string, any>;
    fields: Record<string, any>[];
    above: ItemViewParts | ViewParts;
    aboveBytes: Uint8Array;
};
