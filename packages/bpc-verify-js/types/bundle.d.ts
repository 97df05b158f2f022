/** The facts of facts.jsonl. @param {Uint8Array} content @returns {Record<string, any>[]} */
export function readFactLines(content: Uint8Array): Record<string, any>[];
/** The entries of the bundle of a model. @param {Uint8Array} bytes @returns {Promise<OpenedBundle>} */
export function openBundle(bytes: Uint8Array): Promise<OpenedBundle>;
/**
 * Every step that this package has. `recompute` is the evaluator of `bpc-verify/rules`.
 * @param {Uint8Array} bytes
 * @param {{ pins?: PinnedKey[], policy?: LogPolicy | null, question?: StatusQuestion, recompute?: ProofEvaluator | null }} [options]
 * @returns {Promise<import("./report.js").Report>}
 */
export function verifyBundle(bytes: Uint8Array, { pins, policy, question, recompute }?: {
    pins?: PinnedKey[];
    policy?: LogPolicy | null;
    question?: StatusQuestion;
    recompute?: ProofEvaluator | null;
}): Promise<import("./report.js").Report>;
/** What an evaluator reads of the bundle of a model. @param {OpenedBundle} bundle @returns {import("./rules/layer-steps.js").LayerInputs} */
export function listLayerInputs(bundle: OpenedBundle): import("./rules/layer-steps.js").LayerInputs;
/** What a step says of what an evaluator found. @param {Awaited<ReturnType<ProofEvaluator>>} result @returns {string} */
export function readEvaluation({ ok, skipped, detail }: Awaited<ReturnType<ProofEvaluator>>): string;
/** The steps that no evaluator, or the one that is given, leaves out. @param {ProofEvaluator | null} recompute @returns {string[]} */
export function listUncheckedSteps(recompute: ProofEvaluator | null): string[];
/**
 * That the key was valid when it signed, and nobody else had it then.
 * @param {PinnedKey} pin @param {Record<string, any>} receipt @param {{ loggedAt: string | null, seenAt: string } | null} logged
 * @returns {string}
 */
export function checkKeyTimes(pin: PinnedKey, receipt: Record<string, any>, logged: {
    loggedAt: string | null;
    seenAt: string;
} | null): string;
/** Whether the bytes are a view, which starts like JSON. @param {Uint8Array} bytes @returns {boolean} */
export function isView(bytes: Uint8Array): boolean;
/** The text of a bundle's code, for a picture of it. @param {Uint8Array} bytes @returns {string} */
export function readQrText(bytes: Uint8Array): string;
/** @typedef {import("./keys.js").PinnedKey} PinnedKey */
/** @typedef {import("./log-policy.js").LogPolicy} LogPolicy */
/** @typedef {import("./status.js").StatusQuestion} StatusQuestion */
/** @typedef {typeof import("./rules/proof-steps.js").recomputeProof} ProofEvaluator */
export const EVALUATED_STEP: "proof_steps";
export const UNCHECKED_STEPS: string[];
export const BUNDLE_STEPS: string[];
/** @type {import("./forms.js").Spelling} */
export const KEY_NAME: import("./forms.js").Spelling;
export const SNAPSHOT_FORM: import("./forms.js").ObjectForm;
/** The entries of a bundle, each as far as it could be read. */
export class OpenedBundle {
    /** @param {Map<string, Uint8Array>} entries */
    constructor(entries: Map<string, Uint8Array>);
    entries: Map<string, Uint8Array<ArrayBufferLike>>;
    /** @type {Map<string, any>} */
    values: Map<string, any>;
    /** @type {string[]} */
    problems: string[];
    /** @param {string} name @returns {any} */
    get(name: string): any;
    read(): Promise<this>;
}
export type PinnedKey = import("./keys.js").PinnedKey;
export type LogPolicy = import("./log-policy.js").LogPolicy;
export type StatusQuestion = import("./status.js").StatusQuestion;
export type ProofEvaluator = typeof import("./rules/proof-steps.js").recomputeProof;
