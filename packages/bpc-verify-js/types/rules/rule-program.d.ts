export const REQUIREMENTS_PATH: "requirements.met";
export class RuleProgram {
    /** @param {Uint8Array} bytes  rules.bpc */
    constructor(bytes: Uint8Array);
    text: string;
    language: 1 | 2;
    /** @type {Map<string, any>} */
    tables: Map<string, any>;
    checker: RuleChecker;
    offsets: Uint32Array<ArrayBufferLike> | null;
    fields: RuleField[];
    /** The place of a node as bytes of the text. @param {{ start: number, end: number }} node @returns {[number, number]} */
    toBytes({ start, end }: {
        start: number;
        end: number;
    }): [number, number];
    /** @param {RuleNode[]} items */
    declare(items: RuleNode[]): void;
    /** @param {RuleNode} node @returns {RuleType} */
    resolve(node: RuleNode): RuleType;
    /** @param {any} cell @param {RuleType} type */
    readCell(cell: any, type: RuleType): {
        keys: any;
        low?: undefined;
        high?: undefined;
    } | {
        low: any;
        high: any;
        keys?: undefined;
    };
    /** @param {RuleNode} node @param {RuleType} type @returns {any} */
    readConstant(node: RuleNode, type: RuleType): any;
    /** Check something that sees no names around it; what it reads goes into `reads`. @template T @param {Set<string>} reads @param {boolean} isInRule @param {() => T} check @returns {T} */
    checkApart<T>(reads: Set<string>, isInRule: boolean, check: () => T): T;
    /** @param {string} name */
    prepareDefinition(name: string): void;
    /** @param {any} entry */
    prepareFunction(entry: any): void;
    /** The fields, each after those that it reads, else by path. @param {RuleNode[]} items @returns {RuleField[]} */
    orderFields(items: RuleNode[]): RuleField[];
    /** The paths of the fields that are read, also by definitions and functions. @param {Set<string>} reads @param {Map<string, Set<string>>} known @returns {Set<string>} */
    listNeeds(reads: Set<string>, known: Map<string, Set<string>>): Set<string>;
    /** @param {string} key @returns {any} */
    findEntry(key: string): any;
    /** Whether something that is read may be missing. @param {Set<string>} reads @param {Set<string>} missable @param {Set<string>} seen @returns {boolean} */
    canBeMissing(reads: Set<string>, missable: Set<string>, seen: Set<string>): boolean;
    /** A requirement as nested `if`s that emit one entry. @param {RuleNode} node @returns {any} */
    checkRequirement(node: RuleNode): any;
    /** @param {RuleNode} node @returns {any} */
    checkDay(node: RuleNode): any;
    /** A title or message: lets for the texts in it, the text itself, and those texts by what they were written as. @param {RuleNode} node @returns {any} */
    checkMessage(node: RuleNode): any;
}
/**
 * Rules as a program: the fields in the order in which they are computed, definitions, functions and tables, each checked.
 */
export type RuleNode = any;
/**
 * Rules as a program: the fields in the order in which they are computed, definitions, functions and tables, each checked.
 */
export type RuleType = import("./rule-types.js").RuleType;
/**
 * Rules as a program: the fields in the order in which they are computed, definitions, functions and tables, each checked.
 */
export type RuleField = {
    path: string;
    access: string[];
    type: RuleType;
    body: any;
    layer: import("./rule-layers.js").Layer | null;
    start: number | null;
    end: number | null;
};
import { RuleChecker } from "./rule-checker.js";
