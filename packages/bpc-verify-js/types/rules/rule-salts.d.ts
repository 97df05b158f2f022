/** The secret of the snapshot that a receipt names, 32 bytes; null if there is none. @param {any[]} facts @param {Record<string, any>} receipt @returns {Uint8Array | null} */
export function findSecret(facts: any[], receipt: Record<string, any>): Uint8Array | null;
/** How the salts of a product's passport are made. @param {any[]} facts @param {Record<string, any>} receipt @returns {Promise<(purpose: string) => Promise<string>>} */
export function openSalts(facts: any[], receipt: Record<string, any>): Promise<(purpose: string) => Promise<string>>;
/** BPC-ITEM-SALT-1: the salts of payload, steps and fields, 32 hexadecimal digits each. @param {Uint8Array} secret @param {string} versionId @param {number} count @returns {{ payload: string, steps: string, fields: string[] }} */
export function deriveLayerSalts(secret: Uint8Array, versionId: string, count: number): {
    payload: string;
    steps: string;
    fields: string[];
};
/** SHAKE-256 of FIPS 202, which WebCrypto does not have. @param {Uint8Array} bytes @param {number} length  of what it gives @returns {Uint8Array} */
export function hashShake256(bytes: Uint8Array, length: number): Uint8Array;
