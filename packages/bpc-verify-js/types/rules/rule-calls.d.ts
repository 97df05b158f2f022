/** @param {RuleChecker} checker @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
export function checkBuiltin(checker: RuleChecker, node: RuleNode, want: RuleType | null): TypedExpr;
export type RuleChecker = import("./rule-checker.js").RuleChecker;
export type RuleNode = any;
export type TypedExpr = any;
export type RuleType = import("./rule-types.js").RuleType;
export type CallCheck = (checker: RuleChecker, node: RuleNode, args: RuleNode[], want: RuleType | null) => TypedExpr;
