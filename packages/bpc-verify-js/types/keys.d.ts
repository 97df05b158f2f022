/** The keys of a key set, in its order. @param {any} document @returns {PinnedKey[]} */
export function readKeySet(document: any): PinnedKey[];
/** A key from its base64. @param {string} text @param {string | null} [keyId] @returns {PinnedKey} */
export function pinKey(text: string, keyId?: string | null): PinnedKey;
/**
 * What you know of a key: the entry with the name that the receipt gives it wins over others.
 * @param {PinnedKey[]} pins @param {Uint8Array} publicKey @param {string} name @returns {PinnedKey | null}
 */
export function findPin(pins: PinnedKey[], publicKey: Uint8Array, name: string): PinnedKey | null;
/** A key of another tenant than the receipt's is refused. @param {PinnedKey} pin @param {Record<string, any>} receipt */
export function requireSameTenant(pin: PinnedKey, receipt: Record<string, any>): void;
/**
 * A compromised key counts only for what the log shows from before; nothing else counts.
 * @param {PinnedKey} pin @param {string | null} seenAt
 */
export function refuseCompromised(pin: PinnedKey, seenAt: string | null): void;
/** The signature is inside the window of the key, give or take a minute. @param {PinnedKey} pin @param {string} signedAt */
export function requireKeyWindow(pin: PinnedKey, signedAt: string): void;
/** Who signed, as far as your keys show it. @param {PinnedKey} pin @returns {string} */
export function describeOwner(pin: PinnedKey): string;
/**
 * Keys that somebody trusts: from a key set, as an installation publishes it, or one by one.
 */
export type PinnedKey = {
    publicKey: Uint8Array;
    /**
     * the name that receipts must give it; null if any will do
     */
    keyId: string | null;
    /**
     * whose key it is; null for a key of the installation, which proves no tenant
     */
    tenantId?: string | null | undefined;
    tenant?: string | null | undefined;
    validFrom?: string | null | undefined;
    /**
     * also the time when it was retired
     */
    validUntil?: string | null | undefined;
    compromisedSince?: string | null | undefined;
};
