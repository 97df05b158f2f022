/** @param {string} factType @returns {Layer} */
export function getFactLayer(factType: string): Layer;
/** The layer of each field, definition and requirement of a program. */
export class ProgramLayers {
    /** @param {RuleProgram} program */
    constructor(program: RuleProgram);
    program: import("./rule-program.js").RuleProgram;
    bodies: Map<string, import("./rule-program.js").RuleField>;
    /** @type {Map<string, Layer>} */
    chosen: Map<string, Layer>;
    requirements: any[];
    /** @param {string} path @returns {Layer} */
    findOfField(path: string): Layer;
    /** @param {string} name @returns {Layer} */
    findOfDefinition(name: string): Layer;
    /** @param {any} requirement @returns {Layer} */
    findOfRequirement(requirement: any): Layer;
    /** @param {string} key @param {any} body @param {Layer | null} stated @returns {Layer} */
    choose(key: string, body: any, stated: Layer | null): Layer;
    /** The place in `LAYERS` of the lowest layer that an expression reads. @param {any} part @returns {number} */
    rankReads(part: any): number;
    /** @param {any} part @returns {Layer} */
    findOfRead(part: any): Layer;
    /** Every date of the fact `Battery` is a battery's own. @param {any} call @returns {boolean} */
    readsBatteryDay(call: any): boolean;
}
export type Layer = "model" | "batch" | "item";
export type RuleProgram = import("./rule-program.js").RuleProgram;
