/**
 * A key that is a point of the curve, canonically written, and not of small order.
 * @param {Uint8Array} bytes @returns {Uint8Array}
 */
export function requirePublicKey(bytes: Uint8Array): Uint8Array;
/**
 * Whether `signature` is that of `publicKey` over `message`.
 * @param {Uint8Array} publicKey @param {Uint8Array} message @param {Uint8Array} signature @returns {Promise<boolean>}
 */
export function isSignedBy(publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): Promise<boolean>;
