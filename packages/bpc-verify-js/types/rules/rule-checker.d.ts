/** Whether an expression takes its type from its context. @param {RuleNode} node */
export function isUndecided(node: RuleNode): boolean;
export class RuleChecker {
    /** @param {number} language @param {(user: number, declaration: number) => boolean} sees */
    constructor(language: number, sees: (user: number, declaration: number) => boolean);
    language: number;
    sees: (user: number, declaration: number) => boolean;
    types: TypeTable;
    /** Fields by path: their types. @type {Map<string, RuleType>} */
    fields: Map<string, RuleType>;
    /** @type {Map<string, any>} */
    definitions: Map<string, any>;
    /** @type {Map<string, any>} */
    functions: Map<string, any>;
    /** @type {Map<string, { type: RuleType, start: number }>} */
    enums: Map<string, {
        type: RuleType;
        start: number;
    }>;
    /** @type {Map<string, any>} */
    tables: Map<string, any>;
    /** The fact types that the rules name. @type {Set<RuleType>} */
    facts: Set<RuleType>;
    /** What the expression that is being checked reads: paths, `def name`, `fn name`. @type {Set<string>} */
    reads: Set<string>;
    /** Whether the expression is the rule of a field. */
    isInRule: boolean;
    /** @type {Map<string, { type: RuleType, level: number }>} */
    scope: Map<string, {
        type: RuleType;
        level: number;
    }>;
    /** For each lambda around the place the outer names it uses, and where first. @type {Map<string, number>[]} */
    lambdas: Map<string, number>[];
    /** @type {(name: string) => void} */
    prepareDefinition: (name: string) => void;
    /** @param {RuleNode} node @param {string} message @returns {never} */
    refuse(node: RuleNode, message: string): never;
    /** @param {RuleNode} node @param {RuleType | null} [want] @param {boolean} [allowOption] @returns {TypedExpr} */
    check(node: RuleNode, want?: RuleType | null, allowOption?: boolean): TypedExpr;
    /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
    checkAny(node: RuleNode, want: RuleType | null): TypedExpr;
    /** @param {RuleNode} node */
    requireNumberBounds(node: RuleNode): void;
    /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
    checkNumber(node: RuleNode, want: RuleType | null): TypedExpr;
    /** @param {RuleNode} node @returns {TypedExpr} */
    typeAsWritten(node: RuleNode): TypedExpr;
    /** A literal that is compared with a value of another type. @param {RuleNode} node @param {RuleType} other @returns {TypedExpr} */
    typeBeside(node: RuleNode, other: RuleType): TypedExpr;
    /** The common type of literals. @param {RuleNode[]} numbers @returns {RuleType} */
    chooseNumberType(numbers: RuleNode[]): RuleType;
    /** @param {RuleNode} node @returns {TypedExpr} */
    checkQuantity(node: RuleNode): TypedExpr;
    /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
    checkVariable(node: RuleNode, want: RuleType | null): TypedExpr;
    /** The enumerations with this member that can be seen here. @param {RuleNode} node @returns {RuleType[]} */
    listMemberEnums(node: RuleNode): RuleType[];
    /** Whether an expression is a member of several enumerations. @param {RuleNode} node */
    isAmbiguous(node: RuleNode): boolean;
    /** @param {RuleNode} node @returns {TypedExpr} */
    checkQuery(node: RuleNode): TypedExpr;
    /** @param {string} text @param {RuleNode} node @returns {RuleType} */
    resolveFact(text: string, node: RuleNode): RuleType;
    /** @param {RuleNode} node @returns {TypedExpr} */
    requireText(node: RuleNode): TypedExpr;
    /** @param {RuleNode} node @param {TypedExpr} expr @returns {TypedExpr} */
    requireBool(node: RuleNode, expr: TypedExpr): TypedExpr;
    /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
    checkCall(node: RuleNode, want: RuleType | null): TypedExpr;
    /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
    checkList(node: RuleNode, want: RuleType | null): TypedExpr;
    /** Expressions of one type: the wanted one, or that of the first that does not take its type from others. @param {RuleNode[]} nodes @param {RuleType | null} want @returns {[RuleType, TypedExpr[]]} */
    checkSameType(nodes: RuleNode[], want: RuleType | null): [RuleType, TypedExpr[]];
    /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
    checkRecord(node: RuleNode, want: RuleType | null): TypedExpr;
    /** @param {RuleNode} node @returns {TypedExpr} */
    checkMember(node: RuleNode): TypedExpr;
    /** @param {RuleNode} node @returns {TypedExpr} */
    checkUnary(node: RuleNode): TypedExpr;
    /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
    checkChain(node: RuleNode, want: RuleType | null): TypedExpr;
    /** In a sum, literals take the scale of the other operands. @param {RuleNode[]} nodes @param {TypedExpr[]} operands @param {RuleType | null} want @returns {TypedExpr[]} */
    scaleLiterals(nodes: RuleNode[], operands: TypedExpr[], want: RuleType | null): TypedExpr[];
    /** @param {string} op @param {RuleType} one @param {RuleType} other @returns {RuleType | null} */
    findResultType(op: string, one: RuleType, other: RuleType): RuleType | null;
    /** @param {string | null} unit */
    findQuantity(unit: string | null): import("./rule-types.js").RuleType | null;
    /** @param {RuleNode} node @returns {TypedExpr} */
    checkComparison(node: RuleNode): TypedExpr;
    /** Both sides; a literal takes its type from the other one. @param {RuleNode} node @returns {[TypedExpr, TypedExpr]} */
    checkSides({ op, left: one, right: other }: RuleNode): [TypedExpr, TypedExpr];
    /** A side that takes its type from the other: a member of several enumerations, or `some(0)` beside an option of a Dec. @param {RuleNode} node @param {RuleType} type @returns {TypedExpr} */
    checkBeside(node: RuleNode, type: RuleType): TypedExpr;
    /** @param {string} op @param {RuleNode} literal @param {TypedExpr} other @returns {TypedExpr} */
    checkLiteralSide(op: string, literal: RuleNode, other: TypedExpr): TypedExpr;
    /** `option ?? option ?? value` @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
    checkCoalesce(node: RuleNode, want: RuleType | null): TypedExpr;
    /** @param {RuleNode} node @returns {TypedExpr} */
    requireOption(node: RuleNode): TypedExpr;
    /** @param {RuleNode} node @returns {TypedExpr} */
    requireList(node: RuleNode): TypedExpr;
    /** @param {RuleNode} node @returns {TypedExpr} */
    checkPresence(node: RuleNode): TypedExpr;
    /** `value in list` @param {RuleNode} node @returns {TypedExpr} */
    checkMembership(node: RuleNode): TypedExpr;
    /** A piece of a text: what is no Text is written as one. @param {RuleNode} node @returns {TypedExpr} */
    checkPiece(node: RuleNode): TypedExpr;
    /** @param {RuleNode} node @param {TypedExpr} expr @returns {TypedExpr} */
    writeAsText(node: RuleNode, expr: TypedExpr): TypedExpr;
    /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
    checkIf(node: RuleNode, want: RuleType | null): TypedExpr;
    /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
    checkScoped(node: RuleNode, want: RuleType | null): TypedExpr;
    /** Make a name visible, which must not be visible yet. @param {RuleNode} node @param {string} name @param {RuleType} type */
    bind(node: RuleNode, name: string, type: RuleType): void;
    /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
    checkMatch(node: RuleNode, want: RuleType | null): TypedExpr;
    /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
    checkBlock(node: RuleNode, want: RuleType | null): TypedExpr;
}
/**
 * Expressions as they were written in, expressions with types out: every name resolved, every literal in its scale. The
 * first mistake ends it, because rules of a published package have none.
 *
 * A typed expression has its kind `k` and its type `t`. What both levels of the language mean is in docs/rules/language.md.
 */
export type RuleNode = any;
/**
 * Expressions as they were written in, expressions with types out: every name resolved, every literal in its scale. The
 * first mistake ends it, because rules of a published package have none.
 *
 * A typed expression has its kind `k` and its type `t`. What both levels of the language mean is in docs/rules/language.md.
 */
export type TypedExpr = any;
/**
 * Expressions as they were written in, expressions with types out: every name resolved, every literal in its scale. The
 * first mistake ends it, because rules of a published package have none.
 *
 * A typed expression has its kind `k` and its type `t`. What both levels of the language mean is in docs/rules/language.md.
 */
export type RuleType = import("./rule-types.js").RuleType;
import { TypeTable } from "./rule-types.js";
