/**
 * @typedef {import("./rule-layers.js").Layer} Layer
 * @typedef {{ hash: string, layer: Layer, node: number }} ProofPlace  a node of the proof of an upper layer
 * @typedef {{ value: any, cause: import("./rule-walker.js").MissingCause | null, place: ProofPlace }} UpperValue
 * @typedef {{ count: number, layer: Layer, list_hash: string, value: boolean }} UpperRequirements
 * @typedef {{ fields: Map<string, UpperValue>, definitions: Map<string, UpperValue>, requirements: UpperRequirements[] }} UpperValues
 */
export class LayerWalker extends RuleWalker {
    /**
     * @param {import("./rule-program.js").RuleProgram} program @param {import("./rule-facts.js").RuleFacts} facts
     * @param {Record<string, string>} world @param {UpperValues} upper
     */
    constructor(program: import("./rule-program.js").RuleProgram, facts: import("./rule-facts.js").RuleFacts, world: Record<string, string>, upper: UpperValues);
    upper: UpperValues;
    /** Steps of a layer are blinded together, so a derivation has its path and no salt. @param {import("./rule-program.js").RuleField} field */
    deriveField(field: import("./rule-program.js").RuleField): void;
    /** A definition, computed if it is not yet. @param {string} name @returns {{ value: any, node: number, cause: import("./rule-walker.js").MissingCause | null }} */
    holdDefinition(name: string): {
        value: any;
        node: number;
        cause: import("./rule-walker.js").MissingCause | null;
    };
}
export type Layer = import("./rule-layers.js").Layer;
/**
 * a node of the proof of an upper layer
 */
export type ProofPlace = {
    hash: string;
    layer: Layer;
    node: number;
};
export type UpperValue = {
    value: any;
    cause: import("./rule-walker.js").MissingCause | null;
    place: ProofPlace;
};
export type UpperRequirements = {
    count: number;
    layer: Layer;
    list_hash: string;
    value: boolean;
};
export type UpperValues = {
    fields: Map<string, UpperValue>;
    definitions: Map<string, UpperValue>;
    requirements: UpperRequirements[];
};
import { RuleWalker } from "./rule-walker.js";
