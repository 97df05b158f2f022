/**
 * @typedef {import("./rule-layers.js").Layer} Layer
 * @typedef {import("./layer-walker.js").UpperValues} UpperValues
 * @typedef {{ facts: any[], payload: any, proof: any, receipt: Record<string, any> }} LayerInputs
 * @typedef {{ program: RuleProgram, layers: ProgramLayers }} LayeredRules
 * @typedef {{ values: UpperValues, facts: any[], isFailed: boolean }} LayersAbove  what they hold, and whether an entry of theirs is FAIL
 */
/** @param {LayerInputs & { rules: Uint8Array }} inputs @param {LayerInputs[]} above  from the model down @returns {Promise<string>} */
export function compareLayer(inputs: LayerInputs & {
    rules: Uint8Array;
}, above: LayerInputs[]): Promise<string>;
/** @param {any[]} expected @param {any} payload */
export function compareEntries(expected: any[], payload: any): void;
export type Layer = import("./rule-layers.js").Layer;
export type UpperValues = import("./layer-walker.js").UpperValues;
export type LayerInputs = {
    facts: any[];
    payload: any;
    proof: any;
    receipt: Record<string, any>;
};
export type LayeredRules = {
    program: RuleProgram;
    layers: ProgramLayers;
};
/**
 * what they hold, and whether an entry of theirs is FAIL
 */
export type LayersAbove = {
    values: UpperValues;
    facts: any[];
    isFailed: boolean;
};
import { RuleProgram } from "./rule-program.js";
import { ProgramLayers } from "./rule-layers.js";
