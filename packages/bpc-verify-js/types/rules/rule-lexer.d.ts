/** The level that a text begins with, or 1. @param {string} text @returns {number} */
export function findLanguage(text: string): number;
/**
 * The words of a part of a text; three empty ones stand at the end.
 * @param {string} text @param {number} language @param {number} [start] @param {number} [end] @returns {Token[]}
 */
export function lexRules(text: string, language: number, start?: number, end?: number): Token[];
/** What a text literal says. @param {string} lexeme @returns {string} */
export function decodeRuleText(lexeme: string): string;
/** @typedef {{ kind: string, text: string, start: number }} Token */
/** A mistake in rules, and where it is. */
export class RuleMistake extends CheckFailed {
    /** @param {string} message @param {number} at */
    constructor(message: string, at: number);
    at: number;
}
export const RESERVED_WORDS: Set<string>;
export type Token = {
    kind: string;
    text: string;
    start: number;
};
import { CheckFailed } from "../errors.js";
