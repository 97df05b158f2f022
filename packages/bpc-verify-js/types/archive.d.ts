/** The entries of a bundle by name. @param {Uint8Array} bytes @returns {Map<string, Uint8Array>} */
export function readArchive(bytes: Uint8Array): Map<string, Uint8Array>;
/** The entries of an archive in its one form, whichever they are. @param {Uint8Array} bytes @returns {Map<string, Uint8Array>} */
export function splitArchive(bytes: Uint8Array): Map<string, Uint8Array>;
