export class RuleParser {
    /** @param {string} text @param {number} language @param {number} [start] @param {number} [end] */
    constructor(text: string, language: number, start?: number, end?: number);
    text: string;
    language: number;
    tokens: import("./rule-lexer.js").Token[];
    at: number;
    get kind(): string;
    get word(): string;
    /** @param {string} message @returns {never} */
    refuse(message: string): never;
    /** @param {string} word @param {number} [ahead] */
    isWord(word: string, ahead?: number): boolean;
    /** @param {number} [ahead] */
    isAnyWord(ahead?: number): boolean;
    /** @param {string} kind */
    accept(kind: string): boolean;
    /** @param {string} kind */
    expect(kind: string): void;
    /** @param {string} word */
    expectWord(word: string): void;
    /** The place from the word `first` to the word before the current one. @param {number} first */
    spanFrom(first: number): {
        start: number;
        end: number;
    };
    /** @returns {string} */
    parseName(): string;
    /** @returns {string} */
    parseVariable(): string;
    /** @returns {string} */
    parseText(): string;
    /** The items of a text, those that were replaced left out. @returns {RuleNode[]} */
    parseAll(): RuleNode[];
    /** @returns {RuleNode | null} */
    parseItem(): RuleNode | null;
    /** Skip a test: up to the next item that stands in no brackets. @returns {null} */
    skipTest(): null;
    /** @returns {boolean} */
    isAtItem(): boolean;
    /** @returns {RuleNode} */
    parseRule(): RuleNode;
    /** The layer that a rule insists on. @returns {string | null} */
    parseLayer(): string | null;
    skipAbout(): void;
    /** @returns {RuleNode} */
    parseDefinition(): RuleNode;
    /** @returns {RuleNode} */
    parseFunction(): RuleNode;
    /** @returns {RuleNode} */
    parseRequirement(): RuleNode;
    /** @param {string} word @returns {RuleNode | null} */
    parseClause(word: string): RuleNode | null;
    /** @returns {boolean} */
    parseCite(): boolean;
    /** @returns {RuleNode} */
    parseEnum(): RuleNode;
    /** @returns {RuleNode} */
    parseTable(): RuleNode;
    /** A cell: its keys, or a range. @returns {RuleNode} */
    parseCell(): RuleNode;
    /** @param {string} word @returns {RuleNode | null} */
    parseBound(word: string): RuleNode | null;
    /** @returns {RuleNode} */
    parseConstant(): RuleNode;
    /** @returns {RuleNode} */
    parseType(): RuleNode;
    /** @returns {RuleNode} */
    parseExpr(): RuleNode;
    /** @returns {RuleNode} */
    parseOperation(): RuleNode;
    /** An operand with its signs and its members. @returns {RuleNode} */
    parseOperand(): RuleNode;
    /** @param {number} first @param {RuleNode} operand @returns {RuleNode} */
    parseMembers(first: number, operand: RuleNode): RuleNode;
    /** The level of the operator that stands here; 0 if there is none. @returns {number} */
    getPrecedence(): number;
    /** @param {number} start @param {RuleNode} operand @returns {RuleNode} */
    parseOperators(start: number, operand: RuleNode): RuleNode;
    /** @param {any} chain @param {RuleNode} right @returns {RuleNode} */
    closeChain(chain: any, right: RuleNode): RuleNode;
    /** @returns {RuleNode} */
    parseIf(): RuleNode;
    /** @returns {RuleNode} */
    parseBlock(): RuleNode;
    /** @returns {RuleNode} */
    parseParenthesis(): RuleNode;
    /** @param {number} first @returns {RuleNode} */
    parseNumber(first: number): RuleNode;
    /** @returns {RuleNode} */
    parsePrimary(): RuleNode;
    /** @param {number} first @returns {RuleNode} */
    parseNamed(first: number): RuleNode;
    /** @param {number} first @returns {RuleNode} */
    parseCall(first: number): RuleNode;
    /** @returns {RuleNode} */
    parseLambda(): RuleNode;
    /** @param {number} first @returns {RuleNode} */
    parseMatch(first: number): RuleNode;
    /** @returns {string} */
    parsePattern(): string;
    /** @param {() => RuleNode} parseValue @returns {RuleNode} */
    parseMember(parseValue: () => RuleNode): RuleNode;
    /** What stands in brackets, separated by commas. @param {string} closing @param {() => any} parseItem @param {string} [opening] @returns {any[]} */
    parseItems(closing: string, parseItem: () => any, opening?: string): any[];
    /** A text with expressions in braces. @returns {RuleNode} */
    parseInterpolation(): RuleNode;
}
/**
 * Rule text in, a tree out. It reads the rules of a package that was published, and stops at the first mistake. Tests
 * that stand among the rules are skipped: no passport depends on them.
 *
 * A node has its kind `k`, and the place in the text from `start` to `end`. The grammar is that of docs/rules/language.md.
 */
export type RuleNode = any;
