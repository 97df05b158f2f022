/** @param {string} text @returns {Uint8Array<ArrayBuffer>} */
export function encodeUtf8(text: string): Uint8Array<ArrayBuffer>;
/** @param {Uint8Array} bytes @returns {string} */
export function decodeUtf8(bytes: Uint8Array): string;
/** @param {Uint8Array[]} parts @returns {Uint8Array<ArrayBuffer>} */
export function joinBytes(...parts: Uint8Array[]): Uint8Array<ArrayBuffer>;
/** @param {Uint8Array} one @param {Uint8Array} other @returns {boolean} */
export function areSameBytes(one: Uint8Array, other: Uint8Array): boolean;
/** @param {Uint8Array} bytes @returns {string} */
export function toHex(bytes: Uint8Array): string;
/** The 32 bytes of 64 lower-case hex digits. @param {string} text @returns {Uint8Array<ArrayBuffer>} */
export function fromHex(text: string): Uint8Array<ArrayBuffer>;
/** @param {Uint8Array} bytes @returns {string} */
export function toBase64(bytes: Uint8Array): string;
/** @param {string} text @returns {Uint8Array<ArrayBuffer>} */
export function fromBase64(text: string): Uint8Array<ArrayBuffer>;
/** RFC 4648 section 6, upper case, without padding. @param {Uint8Array} bytes @returns {string} */
export function toBase32(bytes: Uint8Array): string;
/** By code point, which is the order of the UTF-8 bytes. @param {string} one @param {string} other @returns {number} */
export function compareTexts(one: string, other: string): number;
/** @param {Uint8Array} bytes @returns {Promise<Uint8Array<ArrayBuffer>>} */
export function hashBytes(bytes: Uint8Array): Promise<Uint8Array<ArrayBuffer>>;
/** @param {string} text @returns {string} the first 80 characters of a text that somebody else wrote */
export function shortenText(text: string): string;
