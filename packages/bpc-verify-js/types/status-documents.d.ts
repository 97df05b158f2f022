/** A time in microseconds, as a number. @param {string} time @returns {number} */
export function toMicroseconds(time: string): number;
/** Whether these bytes say that they are a list. @param {Uint8Array} bytes @returns {boolean} */
export function isStatusList(bytes: Uint8Array): boolean;
/** The statement these bytes are. @param {Uint8Array} bytes @returns {Promise<StatusStatement>} */
export function readStatement(bytes: Uint8Array): Promise<StatusStatement>;
/**
 * The list these bytes are.
 *
 * Checks:
 *   1. canonical, signed, and of exactly the members of this version
 *   2. the credential is a bitstring status list in its one form, valid for a day at most
 *   3. its bits are whole, at least 131,072 entries and not too many
 * @param {Uint8Array} bytes @returns {Promise<StatusList>}
 */
export function readStatusList(bytes: Uint8Array): Promise<StatusList>;
/** The state at an index: a place in `STATES`. @param {StatusList} list @param {number} index @returns {number} */
export function getState({ bits }: StatusList, index: number): number;
/** @typedef {{ keyId: string, value: Uint8Array, hash: Uint8Array }} DocumentSignature */
/** @typedef {{ url: string, tenantId: string, validFrom: string, validUntil: string, bits: Uint8Array, signature: DocumentSignature }} StatusList */
/** @typedef {{ members: Record<string, any>, url: string, index: number, signature: DocumentSignature }} StatusStatement */
export const LIST_VERSION: "BPC-STATUS-LIST-1";
export const STATES: string[];
export type DocumentSignature = {
    keyId: string;
    value: Uint8Array;
    hash: Uint8Array;
};
export type StatusList = {
    url: string;
    tenantId: string;
    validFrom: string;
    validUntil: string;
    bits: Uint8Array;
    signature: DocumentSignature;
};
export type StatusStatement = {
    members: Record<string, any>;
    url: string;
    index: number;
    signature: DocumentSignature;
};
