/** The facts of the types that rules name, by type and key. */
export class RuleFacts {
    /**
     * @param {any[]} facts  the lines of facts.jsonl @param {Iterable<RuleType>} types
     * @param {import("./rule-types.js").TypeTable} table @returns {Promise<RuleFacts>}
     */
    static read(facts: any[], types: Iterable<RuleType>, table: import("./rule-types.js").TypeTable): Promise<RuleFacts>;
    /** @type {Map<string, Map<string, FactRecord>>} */
    byType: Map<string, Map<string, FactRecord>>;
    /** @param {RuleType} type @param {string} key @returns {FactRecord | null} */
    get(type: RuleType, key: string): FactRecord | null;
    /** Those whose key starts with a text, by key. @param {RuleType} type @param {string} prefix @returns {FactRecord[]} */
    find(type: RuleType, prefix: string): FactRecord[];
}
export type RuleType = import("./rule-types.js").RuleType;
export type FactRecord = {
    isFact: true;
    key: string;
    hash: string;
    members: Record<string, any>;
};
