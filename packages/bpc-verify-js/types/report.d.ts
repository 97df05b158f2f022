/** @param {string} name @param {() => string | Promise<string>} check @returns {Promise<StepResult>} */
export function runStep(name: string, check: () => string | Promise<string>): Promise<StepResult>;
/** @param {string} name @param {string} reason @returns {StepResult} */
export function skipStep(name: string, reason: string): StepResult;
/** @param {string[]} names @param {string} reason @param {string} rest @returns {StepResult[]} */
export function reportUnreadable(names: string[], reason: string, rest: string): StepResult[];
/**
 * @param {StepResult[]} steps @param {"pinned" | "unpinned"} issuer @param {string[]} [unchecked]
 * @param {import("./status.js").StatusVerdict} [status] @returns {Report}
 */
export function makeReport(steps: StepResult[], issuer: "pinned" | "unpinned", unchecked?: string[], status?: import("./status.js").StatusVerdict): Report;
/**
 * The first step that found something wrong, or else the first that could not run; null if all passed.
 * @param {Report} report @returns {StepResult | null}
 */
export function findCause({ steps }: Report): StepResult | null;
/** @param {number} count @param {string} noun @returns {string} */
export function formatCount(count: number, noun: string): string;
/**
 * Reports: every step, in order. A step that could not run counts as failed, and says why.
 */
export type StepResult = {
    name: string;
    ok: boolean;
    /**
     * true if it could not run
     */
    skipped: boolean;
    detail: string;
};
/**
 * Reports: every step, in order. A step that could not run counts as failed, and says why.
 */
export type Report = {
    steps: StepResult[];
    /**
     * true if every step holds
     */
    ok: boolean;
    /**
     * pinned only if a trusted key signed it
     */
    issuer: "pinned" | "unpinned";
    /**
     * steps of `bpc verify` that this package does not have
     */
    unchecked: string[];
    /**
     * what the issuer says of it since
     */
    status: import("./status.js").StatusVerdict;
};
