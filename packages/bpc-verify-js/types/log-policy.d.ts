/** @typedef {import("./notes.js").VerifierKey} VerifierKey */
/** @typedef {{ logs: VerifierKey[], witnesses: Map<string, VerifierKey>, groups: Map<string, { threshold: number, members: string[] }>, quorum: string }} LogPolicy */
/** @param {string} text @returns {Promise<LogPolicy>} */
export function parsePolicy(text: string): Promise<LogPolicy>;
/** Whether these witnesses are enough. @param {LogPolicy} policy @param {string[]} cosigners @returns {boolean} */
export function isQuorum(policy: LogPolicy, cosigners: string[]): boolean;
export type VerifierKey = import("./notes.js").VerifierKey;
export type LogPolicy = {
    logs: VerifierKey[];
    witnesses: Map<string, VerifierKey>;
    groups: Map<string, {
        threshold: number;
        members: string[];
    }>;
    quorum: string;
};
