/** Fact schemas and units: tables that rules refer to by name. Made by tools/rule_tables.py. */
/** The members of fact types, and their types. @type {Record<string, Record<string, string>>} */
export const FACT_MEMBERS: Record<string, Record<string, string>>;
/** How keys begin, and whether there is one fact. @type {Record<string, [string, boolean]>} */
export const FACT_KEYS: Record<string, [string, boolean]>;
/** Dimensions, and factors as fractions. @type {Record<string, [string, number, number]>} */
export const UNIT_FACTORS: Record<string, [string, number, number]>;
/** Units a, b and c with a = b · c. @type {[string, string, string][]} */
export const UNIT_RELATIONS: [string, string, string][];
