/** Rule text in, words and signs out, each with its place. Places are positions in the JavaScript text. */

import { CheckFailed } from "../errors.js";

/** @typedef {{ kind: string, text: string, start: number }} Token */

/** A mistake in rules, and where it is. */
export class RuleMistake extends CheckFailed {
  /** @param {string} message @param {number} at */
  constructor(message, at) {
    super(message);
    this.at = at;
  }
}

export const RESERVED_WORDS = new Set(["field", "example", "property", "let", "if", "then", "else", "assert", "fn", "true", "false", "none"]);
const LEXEME =
  /[ \t\r\n]+|--[^\n]*|(?<name>[A-Za-z_][A-Za-z0-9_]*)|(?<text>"(?:[^"\\\n]|\\[^\n])*")|(?<number>[0-9][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)|(?<part>\.[0-9]{1,2}(?![A-Za-z0-9_]))|(?<sign>=[>=]?|[<>!]=?|&&|\|\||\?\?|[(){}[\],;:@+*/.\-|])/y;
const LANGUAGE = /^(?:[ \t\r\n]|--[^\n]*\n)*language(?:[ \t\r\n]|--[^\n]*\n)*([0-9]+)(?![A-Za-z_.])/;
const GOOD_NUMBER = /^[0-9]+(?:\.[0-9]+)?$/;
const GOOD_TEXT = /^"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt{]|u(?!0000)[0-9A-Fa-f]{4}))*"$/;
const LONE_HALF = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;
const LONGEST_NAME = 64;
const LONGEST_NUMBER = 100;
/** @type {Record<string, string>} */
const ESCAPED_LETTERS = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

/** The level that a text begins with, or 1. @param {string} text @returns {number} */
export function findLanguage(text) {
  return Number(LANGUAGE.exec(text)?.[1] ?? 1);
}

/**
 * The words of a part of a text; three empty ones stand at the end.
 * @param {string} text @param {number} language @param {number} [start] @param {number} [end] @returns {Token[]}
 */
export function lexRules(text, language, start = 0, end = text.length) {
  /** @type {Token[]} */
  const tokens = [];
  let at = start;
  while (at < end) {
    LEXEME.lastIndex = at;
    const match = LEXEME.exec(text);
    if (match === null || at + match[0].length > end) throw new RuleMistake("unexpected character", at);
    const [word] = match;
    const groups = /** @type {Record<string, string | undefined>} */ (match.groups);
    if (groups.name !== undefined) {
      if (word.length > LONGEST_NAME) throw new RuleMistake("the name is too long", at);
      tokens.push({ kind: RESERVED_WORDS.has(word) ? word : "name", text: word, start: at });
    } else if (groups.text !== undefined) {
      const isGood = GOOD_TEXT.test(word) && (language > 1 || !/\\\{/.test(word));
      if (!isGood || LONE_HALF.test(decodeRuleText(word))) throw new RuleMistake("a text with a character or an escape that is not allowed", at);
      tokens.push({ kind: "text", text: word, start: at });
    } else if (groups.number !== undefined) {
      if (!GOOD_NUMBER.test(word) || word.length > LONGEST_NUMBER) throw new RuleMistake("this is not a valid number", at);
      tokens.push({ kind: "number", text: word, start: at });
    } else if (groups.part !== undefined) {
      if (language === 1 || text[at - 1] === undefined || !/[0-9]/.test(text[at - 1])) throw new RuleMistake("a point needs digits before it", at);
      tokens.push({ kind: "part", text: word, start: at });
    } else if (groups.sign !== undefined) {
      if (language === 1 && (word === "|" || word === "??")) throw new RuleMistake("unexpected character", at);
      tokens.push({ kind: word, text: word, start: at });
    }
    at += word.length;
  }
  for (let count = 0; count < 3; count++) tokens.push({ kind: "", text: "", start: end });
  return tokens;
}

/** What a text literal says. @param {string} lexeme @returns {string} */
export function decodeRuleText(lexeme) {
  return lexeme.slice(1, -1).replace(/\\(?:u([0-9A-Fa-f]{4})|(.))/gs, (_, unit, letter) => (unit === undefined ? (ESCAPED_LETTERS[letter] ?? letter) : String.fromCharCode(parseInt(unit, 16))));
}
