// Colours of rules: reads a line of text as the lexer does, with the words of the table that is made from the language.
import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { tags } from "@lezer/highlight";
import { WORDS } from "./words.js";

const NUMBER = /^[0-9]+(?:\.[0-9]+)?(?![A-Za-z0-9_.])/;
const WORD = /^[A-Za-z_][A-Za-z0-9_]*/;
const POINT = /^DP[0-9]{1,2}(?:\.[0-9]{1,2})?(?![A-Za-z0-9_])/;
const AUDIENCE = /^@[a-z]+/;
const SIGNS = /^(?:=>|==|!=|<=|>=|&&|\|\||\?\?|[-+*/<>=!|])/;
// A word that is reserved nowhere is a keyword only before what can follow it.
const FOLLOWS = /^(?=\s*[("{:]|\s+[A-Za-z0-9_"(]|\s*;|\s*$)(?!\s*=[^=>])/;

function readText(stream, state) {
  while (!stream.eol()) {
    const next = stream.next();
    if (next === "\\") stream.next();
    else if (next === '"') {
      state.inText = false;
      return "string";
    }
  }
  state.inText = false; // a text ends with its line
  return "string";
}

function classifyWord(word, stream, isInPath) {
  if (isInPath) return "propertyName";
  const kind = WORDS.reserved[word];
  if (kind) return kind;
  if (WORDS.types.includes(word)) return "typeName";
  if (WORDS.functions.includes(word) && stream.match(/^\s*\(/, false)) return "function";
  if (WORDS.free[word] && stream.match(FOLLOWS, false)) return WORDS.free[word];
  return "variableName";
}

export const bpcParser = {
  name: "bpc",
  startState: () => ({ inText: false }),
  token(stream, state) {
    if (state.inText) return readText(stream, state);
    if (stream.eatSpace()) return null;
    if (stream.match("--")) {
      stream.skipToEnd();
      return "comment";
    }
    if (stream.eat('"')) {
      state.inText = true;
      return readText(stream, state);
    }
    const isInPath = stream.start > 0 && stream.string[stream.start - 1] === ".";
    if (stream.match(NUMBER)) return "number";
    if (!isInPath && stream.match(POINT)) return "labelName";
    if (stream.match(AUDIENCE)) return "modifier";
    const word = stream.match(WORD);
    if (word) return classifyWord(word[0], stream, isInPath);
    if (stream.match(SIGNS)) return "operator";
    stream.next();
    return null;
  },
  tokenTable: { function: tags.function(tags.variableName) },
  languageData: { commentTokens: { line: "--" }, closeBrackets: { brackets: ["(", "[", "{", '"'] } },
};

export const bpcLanguage = StreamLanguage.define(bpcParser);

// Colours are variables of the page, so that light and dark are those of the console.
const style = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--code-keyword)", fontWeight: "600" },
  { tag: tags.modifier, color: "var(--code-keyword)" },
  { tag: tags.typeName, color: "var(--code-type)" },
  { tag: tags.atom, color: "var(--code-number)" },
  { tag: tags.number, color: "var(--code-number)" },
  { tag: tags.string, color: "var(--code-text)" },
  { tag: tags.labelName, color: "var(--code-type)" },
  { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
  { tag: tags.function(tags.variableName), color: "var(--code-function)" },
  { tag: tags.operator, color: "var(--muted)" },
]);

export const bpcSupport = [bpcLanguage, syntaxHighlighting(style)];
