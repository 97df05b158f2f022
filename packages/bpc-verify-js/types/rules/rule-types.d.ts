/** The type inside an option, or the type itself. @param {RuleType} type @returns {RuleType} */
export function unwrapOption(type: RuleType): RuleType;
/** @param {RuleType} type */
export function isNumberType(type: RuleType): boolean;
/** Whether values of a type have an order. @param {RuleType} type */
export function isOrderedType(type: RuleType): boolean;
/** How many decimals a count of a type has. @param {RuleType} type @returns {number} */
export function getScaleOf(type: RuleType): number;
/** @param {string} unit */
export function isUnit(unit: string): boolean;
/** The unit of one · other, if there is one. @param {string} one @param {string} other @returns {string | null} */
export function multiplyUnits(one: string, other: string): string | null;
/** The unit of one / other, if there is one. @param {string} one @param {string} other @returns {string | null} */
export function divideUnits(one: string, other: string): string | null;
/** What a count of one unit is multiplied with and divided by to be one of another; null if they do not convert. @param {string} source @param {string} target @returns {[bigint, bigint] | null} */
export function findUnitFactor(source: string, target: string): [bigint, bigint] | null;
export const QUANTITY_SCALE: 18;
export const LARGEST_SCALE: 36;
export class TypeTable {
    /** @type {Map<string, RuleType>} */
    known: Map<string, RuleType>;
    BOOL: RuleType;
    INT: RuleType;
    TEXT: RuleType;
    DATE: RuleType;
    /** @param {any} type @returns {RuleType} */
    add(type: any): RuleType;
    /** @param {number} scale */
    dec(scale: number): RuleType;
    /** @param {string} unit */
    qty(unit: string): RuleType;
    /** @param {RuleType} item */
    opt(item: RuleType): RuleType;
    /** @param {RuleType} item */
    list(item: RuleType): RuleType;
    /** @param {RuleType} item */
    map(item: RuleType): RuleType;
    /** @param {[string, RuleType][]} members */
    record(members: [string, RuleType][]): RuleType;
    /** The record of a fact type, such as `Battery@1`; null if there is none. @param {string} text */
    fact(text: string): RuleType | null;
    /** The members of a record, by name. @param {RuleType} type @returns {Map<string, RuleType>} */
    listMembers(type: RuleType): Map<string, RuleType>;
    /** A type from its text, such as `List(Record(name: Text))`. @param {string} text @returns {RuleType} */
    read(text: string): RuleType;
}
/**
 * The types of rules and facts, and the units of quantities. A table has one object for each type, so equal types of one
 * table are identical. Numbers are counts, held as BigInt: of ones (Int), of 10^-n (Dec(n)), of 10^-18 (Qty).
 */
export type RuleType = {
    k: string;
    text: string;
    hasFacts: boolean;
    scale?: number;
    unit?: string;
    item?: any;
    members?: any;
    name?: string;
    version?: number;
    spellings?: Map<string, string>;
};
