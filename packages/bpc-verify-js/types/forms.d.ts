/** @param {any} value @returns {boolean} */
export function isObject(value: any): boolean;
/** @param {any} value @returns {boolean} */
export function isCount(value: any): boolean;
/** @param {any} value @returns {boolean} */
export function isTime(value: any): boolean;
/** @param {any} value @returns {boolean} whether it is a list of audiences, sorted, none twice */
export function isAudienceList(value: any): boolean;
/** @param {object} value @param {string[]} names @returns {boolean} */
export function hasExactly(value: object, names: string[]): boolean;
/** @param {string[]} texts @returns {Spelling} */
export function oneOf(...texts: string[]): Spelling;
/** @param {Spelling} spelling @returns {Spelling} */
export function allowNull(spelling: Spelling): Spelling;
/**
 * `value` as an object of exactly this form.
 * @param {string} where @param {any} value @param {ObjectForm} form @returns {Record<string, any>}
 */
export function requireForm(where: string, value: any, form: ObjectForm): Record<string, any>;
export const AUDIENCES: string[];
/** @type {Spelling} */
export const ANYTHING: Spelling;
/** @type {Spelling} */
export const TEXT: Spelling;
/** @type {Spelling} */
export const OBJECT: Spelling;
/** @type {Spelling} */
export const COUNT: Spelling;
/** @type {Spelling} */
export const LIST: Spelling;
/** @type {Spelling} */
export const UUID: Spelling;
/** @type {Spelling} */
export const HASH: Spelling;
/** @type {Spelling} */
export const SALT: Spelling;
/** @type {Spelling} */
export const TIME: Spelling;
/** @type {Spelling} */
export const PRODUCT: Spelling;
/** @type {Spelling} */
export const HASHES: Spelling;
/** @type {Spelling} */
export const AUDIENCE_LIST: Spelling;
/** @type {Spelling} */
export const AUDIENCE_LISTS: Spelling;
/** @type {Spelling} */
export const ACCESS_BY_PATH: Spelling;
/** @type {Spelling} */
export const COMPLIANCE: Spelling;
/** @type {ObjectForm} */
export const FIELD_FORM: ObjectForm;
/** @type {ObjectForm} */
export const ROOT_FORM: ObjectForm;
export type Spelling = {
    accepts: (value: any) => boolean;
    description: string;
};
export type ObjectForm = Record<string, Spelling>;
