/** @typedef {{ name: string, type: number, publicKey: Uint8Array, keyId: Uint8Array }} VerifierKey */
/** @typedef {{ name: string, keyId: Uint8Array, signature: Uint8Array }} NoteSignature */
/** @typedef {{ text: string, signatures: NoteSignature[] }} SignedNote */
/** @typedef {{ origin: string, size: bigint, root: Uint8Array }} LogCheckpoint */
/** The key written as `<name>+<key id>+<base64>`. @param {string} text @returns {Promise<VerifierKey>} */
export function parseVerifierKey(text: string): Promise<VerifierKey>;
/** The note these bytes are. @param {Uint8Array} bytes @returns {SignedNote} */
export function parseNote(bytes: Uint8Array): SignedNote;
/** @param {SignedNote} note @param {VerifierKey} key @returns {NoteSignature[]} */
export function findSignatures(note: SignedNote, key: VerifierKey): NoteSignature[];
/** @param {string} text @returns {bigint} a number of entries in its one spelling */
export function parseTreeSize(text: string): bigint;
/** The checkpoint in the text of a note. @param {string} text @returns {LogCheckpoint} */
export function readCheckpoint(text: string): LogCheckpoint;
/** The checkpoint that a log signed. @param {SignedNote} note @param {VerifierKey} key @returns {Promise<LogCheckpoint>} */
export function openCheckpoint(note: SignedNote, key: VerifierKey): Promise<LogCheckpoint>;
/**
 * When a witness cosigned, in seconds; null if it did not. A cosignature that names the key must be valid.
 * @param {SignedNote} note @param {VerifierKey} key @returns {Promise<bigint | null>}
 */
export function readCosignatureTime(note: SignedNote, key: VerifierKey): Promise<bigint | null>;
export const LOG_KEY: 1;
export const WITNESS_KEY: 4;
export const ML_DSA_KEY: 6;
export type VerifierKey = {
    name: string;
    type: number;
    publicKey: Uint8Array;
    keyId: Uint8Array;
};
export type NoteSignature = {
    name: string;
    keyId: Uint8Array;
    signature: Uint8Array;
};
export type SignedNote = {
    text: string;
    signatures: NoteSignature[];
};
export type LogCheckpoint = {
    origin: string;
    size: bigint;
    root: Uint8Array;
};
