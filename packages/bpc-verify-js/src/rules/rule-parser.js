/**
 * Rule text in, a tree out. It reads the rules of a package that was published, and stops at the first mistake. Tests
 * that stand among the rules are skipped: no passport depends on them.
 *
 * A node has its kind `k`, and the place in the text from `start` to `end`. The grammar is that of docs/rules/language.md.
 *
 * @typedef {any} RuleNode
 */

import { RESERVED_WORDS, RuleMistake, decodeRuleText, lexRules } from "./rule-lexer.js";

/** @type {Record<string, number>} */
const PRECEDENCE = { "||": 1, "&&": 2, "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "??": 4, "+": 5, "-": 5, "*": 6, "/": 6 };
const COMPARISON_LEVEL = 3;
const SIMPLE_TYPES = new Set(["Bool", "Int", "Text", "Date"]);
const CONTAINERS = new Set(["Opt", "List", "Map"]);
const AUDIENCE_WORDS = new Set(["public", "interest", "authority"]);
const ABOUT_CLAUSES = new Set(["group", "order", "cite", "unit", "help", "label"]);
const TEST_WORDS = new Set(["example", "property", "fixture", "cases"]);
const LAYER_WORDS = new Set(["model", "batch", "item"]);
const PIECE_NAME = /^\{[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*:/;

export class RuleParser {
  /** @param {string} text @param {number} language @param {number} [start] @param {number} [end] */
  constructor(text, language, start = 0, end = text.length) {
    this.text = text;
    this.language = language;
    this.tokens = lexRules(text, language, start, end);
    this.at = 0;
  }

  get kind() {
    return this.tokens[this.at].kind;
  }

  get word() {
    return this.tokens[this.at].text;
  }

  /** @param {string} message @returns {never} */
  refuse(message) {
    throw new RuleMistake(message, this.tokens[this.at].start);
  }

  /** @param {string} word @param {number} [ahead] */
  isWord(word, ahead = 0) {
    const token = this.tokens[this.at + ahead];
    return token.kind === "name" && token.text === word;
  }

  /** @param {number} [ahead] */
  isAnyWord(ahead = 0) {
    const { kind } = this.tokens[this.at + ahead];
    return kind === "name" || RESERVED_WORDS.has(kind);
  }

  /** @param {string} kind */
  accept(kind) {
    if (this.kind !== kind) return false;
    this.at += 1;
    return true;
  }

  /** @param {string} kind */
  expect(kind) {
    if (!this.accept(kind)) this.refuse(`expected \`${kind}\`, found \`${this.word.slice(0, 80)}\``);
  }

  /** @param {string} word */
  expectWord(word) {
    if (!this.isWord(word)) this.refuse(`expected \`${word}\``);
    this.at += 1;
  }

  /** The place from the word `first` to the word before the current one. @param {number} first */
  spanFrom(first) {
    const last = this.tokens[this.at - 1];
    return { start: this.tokens[first].start, end: last.start + last.text.length };
  }

  /** @returns {string} */
  parseName() {
    if (!this.isAnyWord()) this.refuse("expected a name");
    this.at += 1;
    return this.tokens[this.at - 1].text;
  }

  /** @returns {string} */
  parseVariable() {
    if (this.kind !== "name" || (this.language > 1 && this.word === "match")) this.refuse("expected a name that is not reserved");
    return this.parseName();
  }

  /** @returns {string} */
  parseText() {
    if (this.kind !== "text") this.refuse("expected a text in quotes");
    this.at += 1;
    return decodeRuleText(this.tokens[this.at - 1].text);
  }

  // Items

  /** The items of a text, those that were replaced left out. @returns {RuleNode[]} */
  parseAll() {
    /** @type {(RuleNode | null)[]} */
    const items = [];
    const newest = new Map();
    while (this.kind !== "") {
      if (this.isWord("language") && this.tokens[this.at + 1].kind === "number") {
        this.at += 2;
        this.expect(";");
        continue;
      }
      const isOverride = this.language > 1 && this.isWord("override") && this.tokens[this.at + 1].kind === "text";
      if (isOverride) this.at += 2;
      const item = this.parseItem();
      if (item === null) continue;
      const key = `${item.word} ${item.name}`;
      if (isOverride) {
        if (!newest.has(key)) this.refuse(`there is no \`${item.name}\` to override`);
        items[newest.get(key)] = null;
      } else if (newest.has(key)) throw new RuleMistake(`\`${item.name}\` is declared twice`, item.start);
      newest.set(key, items.length);
      items.push(item);
    }
    return items.filter((item) => item !== null);
  }

  /** @returns {RuleNode | null} */
  parseItem() {
    if (this.kind === "field") return this.parseRule();
    if (TEST_WORDS.has(this.word)) return this.skipTest();
    if (this.language > 1) {
      if (this.kind === "fn") return this.parseFunction();
      if (this.isWord("def") || this.isWord("const")) return this.parseDefinition();
      if (this.isWord("require")) return this.parseRequirement();
      if (this.isWord("enum")) return this.parseEnum();
      if (this.isWord("table")) return this.parseTable();
    }
    return this.refuse(`expected \`field\`, found \`${this.word.slice(0, 80)}\``);
  }

  /** Skip a test: up to the next item that stands in no brackets. @returns {null} */
  skipTest() {
    let depth = 0;
    do {
      if ("([{".includes(this.kind) && this.kind !== "") depth += 1;
      if (")]}".includes(this.kind) && this.kind !== "") depth -= 1;
      this.at += 1;
    } while (this.kind !== "" && (depth > 0 || !this.isAtItem()));
    return null;
  }

  /** @returns {boolean} */
  isAtItem() {
    const before = this.tokens[this.at - 1].kind;
    if (before !== ";" && before !== "}") return false;
    const words = ["field", "example", "property", "fn", "def", "const", "require", "enum", "table", "fixture", "cases", "override", "language"];
    return words.includes(this.word);
  }

  /** @returns {RuleNode} */
  parseRule() {
    const first = this.at++;
    const path = [this.parseName()];
    while (this.accept(".")) path.push(this.parseName());
    /** @type {string[]} */
    const access = [];
    while (this.accept("@")) {
      const audience = this.parseName();
      if (!AUDIENCE_WORDS.has(audience) || access.includes(audience)) this.refuse("an audience is unknown or listed twice");
      access.push(audience);
    }
    this.expect(":");
    const type = this.parseType();
    this.expect("=");
    const body = this.parseExpr();
    let layer = null;
    if (this.language > 1) {
      layer = this.parseLayer();
      if (this.isWord("about")) this.skipAbout();
    }
    this.expect(";");
    return { k: "rule", word: "field", name: path.join("."), access: access.sort(), type, body, layer, ...this.spanFrom(first) };
  }

  /** The layer that a rule insists on. @returns {string | null} */
  parseLayer() {
    if (!this.isWord("layer")) return null;
    this.at += 1;
    const layer = this.parseName();
    return LAYER_WORDS.has(layer) ? layer : this.refuse("there is no such layer");
  }

  skipAbout() {
    this.at += 1;
    if (this.kind === "name") {
      this.at += 1;
      this.accept("part");
    }
    this.parseText();
    while (this.kind === "name" && ABOUT_CLAUSES.has(this.word)) {
      const clause = this.parseName();
      if (clause === "order") this.expect("number");
      else {
        if (this.isAnyWord()) this.parseName();
        this.parseText();
      }
    }
  }

  /** @returns {RuleNode} */
  parseDefinition() {
    const first = this.at;
    const word = this.parseName();
    const name = this.parseVariable();
    const type = this.accept(":") ? this.parseType() : null;
    this.expect("=");
    const body = this.parseExpr();
    let missing = null;
    if (this.kind === "else") {
      if (word === "const") this.refuse("a constant is never missing");
      this.at += 1;
      this.expectWord("missing");
      this.expect("(");
      let [code, message] = [`MISSING_${name.toUpperCase()}`, this.parseText()];
      if (this.accept(",")) [code, message] = [message, this.parseText()];
      this.expect(")");
      missing = { code, message };
    }
    this.expect(";");
    return { k: "definition", word, name, type, body, missing, ...this.spanFrom(first) };
  }

  /** @returns {RuleNode} */
  parseFunction() {
    const first = this.at++;
    const name = this.parseVariable();
    this.expect("(");
    const parameters = [];
    while (this.kind !== ")") {
      const parameter = this.parseVariable();
      this.expect(":");
      parameters.push({ name: parameter, type: this.parseType() });
      if (!this.accept(",")) break;
    }
    this.expect(")");
    this.expect(":");
    const type = this.parseType();
    this.expect("=");
    const body = this.parseExpr();
    this.expect(";");
    return { k: "function", word: "fn", name, parameters, type, body, ...this.spanFrom(first) };
  }

  /** @returns {RuleNode} */
  parseRequirement() {
    const first = this.at++;
    const name = this.parseName();
    const title = this.parsePrimary();
    if (title.k !== "text" && title.k !== "interpolation") this.refuse("expected the title of the requirement in quotes");
    const scope = this.parseClause("when");
    let [from, to, day] = [null, null, null];
    if (this.isWord("in")) {
      this.at += 1;
      this.expectWord("force");
      this.expectWord("from");
      from = this.parseExpr();
      to = this.parseClause("to");
      day = this.parseClause("on");
    }
    this.expect(":");
    const condition = this.parseExpr();
    const message = this.accept("else") ? this.parseExpr() : null;
    let isCited = this.parseCite();
    let severity = "fail";
    if (this.isWord("severity")) {
      this.at += 1;
      severity = this.parseName();
      if (severity !== "fail" && severity !== "warn") this.refuse("there is no such severity");
    }
    const layer = this.parseLayer();
    if (!isCited) isCited = this.parseCite();
    this.expect(";");
    return { k: "requirement", word: "require", name, title, scope, from, to, day, condition, message, severity, layer, ...this.spanFrom(first) };
  }

  /** @param {string} word @returns {RuleNode | null} */
  parseClause(word) {
    if (!this.isWord(word)) return null;
    this.at += 1;
    return this.parseExpr();
  }

  /** @returns {boolean} */
  parseCite() {
    if (!this.isWord("cite")) return false;
    this.at += 1;
    this.parseText();
    return true;
  }

  /** @returns {RuleNode} */
  parseEnum() {
    const first = this.at++;
    const name = this.parseName();
    this.expect("=");
    const members = [];
    do {
      const member = { name: this.parseVariable(), spellings: /** @type {string[]} */ ([]) };
      while (this.kind === "text") member.spellings.push(this.parseText());
      members.push(member);
    } while (this.accept("|"));
    this.expect(";");
    return { k: "enum", word: "enum", name, members, ...this.spanFrom(first) };
  }

  /** @returns {RuleNode} */
  parseTable() {
    const first = this.at++;
    const name = this.parseName();
    this.expect("(");
    const columns = [];
    do {
      const column = this.parseName();
      this.expect(":");
      columns.push({ name: column, type: this.parseType() });
    } while (this.accept(","));
    this.expect(")");
    this.expect(":");
    const type = this.parseType();
    this.parseCite();
    this.expect("{");
    const rows = [];
    while (this.kind !== "}") {
      const cells = [this.parseCell()];
      while (this.accept(",")) cells.push(this.parseCell());
      this.expect(":");
      const value = this.parseConstant();
      this.parseCite();
      this.expect(";");
      rows.push({ cells, value });
    }
    this.expect("}");
    this.accept(";");
    return { k: "table", word: "table", name, columns, type, rows, ...this.spanFrom(first) };
  }

  /** A cell: its keys, or a range. @returns {RuleNode} */
  parseCell() {
    if (this.isWord("from") || this.isWord("to")) {
      const low = this.parseBound("from");
      return { low, high: this.parseBound("to") };
    }
    const keys = [this.parseConstant()];
    while (this.accept("|")) keys.push(this.parseConstant());
    return { keys };
  }

  /** @param {string} word @returns {RuleNode | null} */
  parseBound(word) {
    if (!this.isWord(word)) return null;
    this.at += 1;
    return this.parseConstant();
  }

  /** @returns {RuleNode} */
  parseConstant() {
    const first = this.at;
    if (this.kind === "[") return { k: "list", items: this.parseItems("]", () => this.parseConstant()), ...this.spanFrom(first) };
    if (this.kind === "{") return { k: "record", members: this.parseItems("}", () => this.parseMember(() => this.parseConstant())), ...this.spanFrom(first) };
    if (this.kind === "-") {
      this.at += 1;
      return this.parseNumber(first);
    }
    if (this.isWord("some") && this.tokens[this.at + 1].kind === "(") {
      this.at += 2;
      const item = this.parseConstant();
      this.expect(")");
      return { k: "someConstant", item, ...this.spanFrom(first) };
    }
    const isCall = this.kind === "name" && this.tokens[this.at + 1].kind === "(" && !this.isWord("date") && !this.isWord("qty");
    if (isCall) this.refuse("expected a literal value");
    if (this.kind === "text") return { k: "text", value: this.parseText(), ...this.spanFrom(first) };
    if (!["number", "true", "false", "none", "name"].includes(this.kind)) this.refuse("expected a literal value");
    return this.parsePrimary();
  }

  // Types

  /** @returns {RuleNode} */
  parseType() {
    const first = this.at;
    if (this.kind !== "name") this.refuse("expected a type");
    const name = this.parseName();
    if (SIMPLE_TYPES.has(name)) return { k: "simple", name };
    if (name === "Dec" && this.accept("(")) {
      const scale = Number(this.word);
      this.expect("number");
      this.expect(")");
      return { k: "Dec", scale, ...this.spanFrom(first) };
    }
    if (name === "Qty" && this.accept("(")) {
      const unit = this.parseName();
      this.expect(")");
      return { k: "Qty", unit, ...this.spanFrom(first) };
    }
    if (name === "Record" && this.accept("(")) {
      const members = [];
      do {
        const member = this.parseName();
        this.expect(":");
        members.push({ name: member, type: this.parseType() });
      } while (this.accept(","));
      this.expect(")");
      return { k: "Record", members, ...this.spanFrom(first) };
    }
    if (CONTAINERS.has(name) && this.accept("(")) {
      if (name === "Map") {
        this.expectWord("Text");
        this.expect(",");
      }
      const item = this.parseType();
      this.expect(")");
      return { k: name, item, ...this.spanFrom(first) };
    }
    if (this.language === 1) this.refuse(`there is no type \`${name}\``);
    return { k: "named", name, ...this.spanFrom(first) };
  }

  // Expressions

  /** @returns {RuleNode} */
  parseExpr() {
    if (this.kind === "if") return this.parseIf();
    return this.kind === "let" || this.kind === "assert" ? this.parseBlock() : this.parseOperation();
  }

  /** @returns {RuleNode} */
  parseOperation() {
    const first = this.at;
    return this.parseOperators(first, this.parseOperand());
  }

  /** An operand with its signs and its members. @returns {RuleNode} */
  parseOperand() {
    if (this.kind !== "-" && this.kind !== "!") return this.parseMembers(this.at, this.parsePrimary());
    const signs = [];
    while (this.kind === "-" || this.kind === "!") signs.push(this.at++);
    let operand;
    if (this.kind === "number" && this.tokens[this.at - 1].kind === "-") operand = this.parseNumber(/** @type {number} */ (signs.pop()));
    else operand = this.parseMembers(this.at, this.parsePrimary());
    for (const sign of signs.reverse()) operand = { k: "unary", op: this.tokens[sign].kind, operand, ...this.spanFrom(sign) };
    return operand;
  }

  /** @param {number} first @param {RuleNode} operand @returns {RuleNode} */
  parseMembers(first, operand) {
    let node = operand;
    while (this.language > 1 && this.accept(".")) node = { k: "member", record: node, name: this.parseName(), ...this.spanFrom(first) };
    return node;
  }

  /** The level of the operator that stands here; 0 if there is none. @returns {number} */
  getPrecedence() {
    if (this.kind === "name") return this.language > 1 && (this.isWord("in") || this.isWord("is")) && !this.isWord("force", 1) ? COMPARISON_LEVEL : 0;
    return PRECEDENCE[this.kind] ?? 0;
  }

  /** @param {number} start @param {RuleNode} operand @returns {RuleNode} */
  parseOperators(start, operand) {
    /** @type {{ level: number, start: number, first: RuleNode, links: RuleNode[], op: string }[]} */
    const chains = [];
    let [first, left] = [start, operand];
    for (;;) {
      const level = this.getPrecedence();
      while (chains.length && chains[chains.length - 1].level > level) {
        const chain = /** @type {any} */ (chains.pop());
        left = this.closeChain(chain, left);
        first = chain.start;
      }
      if (level === 0) return left;
      const top = chains[chains.length - 1];
      if (this.isWord("is")) {
        if (top?.level === COMPARISON_LEVEL) this.refuse("comparisons cannot be chained");
        this.at += 1;
        const isPresent = this.isWord("present");
        if (!isPresent && !this.isWord("absent")) this.refuse("expected `present` or `absent`");
        this.at += 1;
        left = { k: "presence", operand: left, isPresent, ...this.spanFrom(first) };
        continue;
      }
      if (top?.level === level) {
        if (level === COMPARISON_LEVEL) this.refuse("comparisons cannot be chained");
        top.links.push({ op: top.op, operand: left });
      } else chains.push({ level, start: first, first: left, links: [], op: "" });
      chains[chains.length - 1].op = this.word;
      this.at += 1;
      first = this.at;
      left = this.parseOperand();
    }
  }

  /** @param {any} chain @param {RuleNode} right @returns {RuleNode} */
  closeChain(chain, right) {
    const span = this.spanFrom(chain.start);
    if (chain.level === COMPARISON_LEVEL) return { k: "comparison", op: chain.op, left: chain.first, right, ...span };
    return { k: "chain", first: chain.first, links: [...chain.links, { op: chain.op, operand: right }], ...span };
  }

  /** @returns {RuleNode} */
  parseIf() {
    const first = this.at;
    const branches = [];
    do {
      this.expect("if");
      let binding = null;
      if (this.language > 1 && this.isWord("some") && this.tokens[this.at + 1].kind !== "(") {
        this.at += 1;
        binding = this.parseVariable();
        this.expect("=");
      }
      const condition = this.language > 1 ? this.parseOperation() : this.parseParenthesis();
      this.expect("then");
      branches.push({ condition, binding, body: this.parseExpr() });
      this.expect("else");
    } while (this.kind === "if");
    const otherwise = this.parseExpr();
    return { k: "if", branches, otherwise, ...this.spanFrom(first) };
  }

  /** @returns {RuleNode} */
  parseBlock() {
    const first = this.at;
    const bindings = [];
    while (this.kind === "let" || this.kind === "assert") {
      if (this.accept("let")) {
        const name = this.parseVariable();
        this.expect("=");
        bindings.push({ k: "let", name, value: this.parseExpr() });
      } else {
        this.expect("assert");
        this.expect("(");
        const condition = this.parseExpr();
        this.expect(",");
        const code = this.parseText();
        this.expect(",");
        const message = this.parseText();
        this.expect(")");
        bindings.push({ k: "assert", condition, code, message });
      }
      this.expect(";");
    }
    const body = this.kind === "if" ? this.parseIf() : this.parseOperation();
    return { k: "block", bindings, body, ...this.spanFrom(first) };
  }

  /** @returns {RuleNode} */
  parseParenthesis() {
    this.expect("(");
    const expr = this.parseExpr();
    this.expect(")");
    return expr;
  }

  /** @param {number} first @returns {RuleNode} */
  parseNumber(first) {
    const digits = this.word;
    this.expect("number");
    return { k: "number", digits, negative: this.tokens[first].kind === "-", ...this.spanFrom(first) };
  }

  /** @returns {RuleNode} */
  parsePrimary() {
    const first = this.at;
    const { kind } = this;
    if (kind === "name") return this.parseNamed(first);
    if (kind === "text") {
      if (this.language > 1 && this.word.includes("{")) return this.parseInterpolation();
      return { k: "text", value: this.parseText(), ...this.spanFrom(first) };
    }
    if (kind === "number") return this.parseNumber(first);
    if (kind === "true" || kind === "false" || kind === "none") {
      this.at += 1;
      return kind === "none" ? { k: "none", ...this.spanFrom(first) } : { k: "bool", value: kind === "true", ...this.spanFrom(first) };
    }
    if (kind === "field") {
      this.at += 1;
      this.expect("(");
      const path = this.parseText();
      this.expect(")");
      return { k: "fieldRef", path, ...this.spanFrom(first) };
    }
    if (kind === "(") return this.parseParenthesis();
    if (kind === "[") return { k: "list", items: this.parseItems("]", () => this.parseExpr()), ...this.spanFrom(first) };
    if (kind === "{") {
      const members = this.parseItems("}", () => this.parseMember(() => this.parseExpr()));
      if (members.length === 0) this.refuse("a record needs at least one member");
      return { k: "record", members, ...this.spanFrom(first) };
    }
    return this.refuse(`expected a value, found \`${this.word.slice(0, 80)}\``);
  }

  /** @param {number} first @returns {RuleNode} */
  parseNamed(first) {
    if (this.language > 1 && this.isWord("match")) return this.parseMatch(first);
    if (this.tokens[this.at + 1].kind === "(") return this.parseCall(first);
    const isPlural = this.isWord("all") && this.tokens[this.at + 1].kind === "name" && this.isWord("for", 2);
    if (this.language > 1 && (isPlural || this.isWord("for", 1))) {
      if (isPlural) this.at += 1;
      const fact = this.parseName();
      this.expectWord("for");
      const keyAt = this.at;
      const key = this.parseMembers(keyAt, this.parsePrimary());
      return { k: "query", fact, key, isPlural, ...this.spanFrom(first) };
    }
    return { k: "variable", name: this.parseName(), ...this.spanFrom(first) };
  }

  /** @param {number} first @returns {RuleNode} */
  parseCall(first) {
    const name = this.parseName();
    if (name === "date") {
      this.expect("(");
      const value = this.parseText();
      this.expect(")");
      return { k: "date", value, ...this.spanFrom(first) };
    }
    if (name === "qty") {
      this.expect("(");
      const numberAt = this.at;
      this.accept("-");
      const number = this.parseNumber(numberAt);
      this.expect(",");
      const unit = this.parseName();
      this.expect(")");
      return { k: "quantity", number, unit, ...this.spanFrom(first) };
    }
    const args = this.parseItems(")", () => (this.kind === "fn" ? this.parseLambda() : this.parseExpr()));
    return { k: "call", name, args, ...this.spanFrom(first) };
  }

  /** @returns {RuleNode} */
  parseLambda() {
    const first = this.at;
    this.expect("fn");
    this.expect("(");
    const parameters = [this.parseVariable()];
    if (this.accept(",")) parameters.push(this.parseVariable());
    this.expect(")");
    this.expect("=>");
    const body = this.parseExpr();
    return { k: "lambda", parameters, body, ...this.spanFrom(first) };
  }

  /** @param {number} first @returns {RuleNode} */
  parseMatch(first) {
    this.at += 1;
    const subject = this.parseExpr();
    const arms = this.parseItems("}", () => {
      const patterns = [this.parsePattern()];
      while (this.accept("|")) patterns.push(this.parsePattern());
      this.expect("=>");
      return { patterns, body: this.parseExpr() };
    }, "{");
    return { k: "match", subject, arms, ...this.spanFrom(first) };
  }

  /** @returns {string} */
  parsePattern() {
    if (this.kind !== "name" && this.kind !== "none" && this.kind !== "else") this.refuse("expected a member, `none` or `else`");
    return this.parseName();
  }

  /** @param {() => RuleNode} parseValue @returns {RuleNode} */
  parseMember(parseValue) {
    const name = this.parseName();
    this.expect(":");
    return { name, value: parseValue() };
  }

  /** What stands in brackets, separated by commas. @param {string} closing @param {() => any} parseItem @param {string} [opening] @returns {any[]} */
  parseItems(closing, parseItem, opening = { ")": "(", "]": "[", "}": "{" }[closing] ?? "") {
    this.expect(opening);
    const items = [];
    while (this.kind !== closing) {
      items.push(parseItem());
      if (!this.accept(",")) break;
    }
    this.expect(closing);
    return items;
  }

  /** A text with expressions in braces. @returns {RuleNode} */
  parseInterpolation() {
    const first = this.at;
    const { text: lexeme, start } = this.tokens[first];
    const parts = [];
    const names = [];
    let hasExpression = false;
    let at = 1;
    while (at < lexeme.length - 1) {
      const end = findPieceEnd(lexeme, at);
      if (lexeme[at] !== "{") {
        parts.push({ k: "text", value: decodeRuleText(`"${lexeme.slice(at, end)}"`), start: start + at, end: start + end });
        names.push(null);
      } else {
        if (lexeme[end - 1] !== "}") this.refuse("the expression in the text has no `}`");
        const name = PIECE_NAME.exec(lexeme.slice(at, end));
        const inner = new RuleParser(this.text, this.language, start + at + (name === null ? 1 : name[0].length), start + end - 1);
        parts.push(inner.parseExpr());
        if (inner.kind !== "") inner.refuse("expected an operator or `}`");
        names.push(name === null ? null : name[1]);
        hasExpression = true;
      }
      at = end;
    }
    this.at += 1;
    const span = this.spanFrom(first);
    if (!hasExpression) return { k: "text", value: decodeRuleText(lexeme), ...span };
    return { k: "interpolation", parts, names, ...span };
  }
}

/** Where the piece of a text that begins at a place ends: a text up to a brace, or an expression with its braces. @param {string} lexeme @param {number} start */
function findPieceEnd(lexeme, start) {
  let depth = 0;
  const isExpression = lexeme[start] === "{";
  for (let at = start; at < lexeme.length - 1; at++) {
    if (lexeme[at] === "\\") at += 1;
    else if (lexeme[at] === "{") {
      if (!isExpression) return at;
      depth += 1;
    } else if (lexeme[at] === "}" && isExpression) {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  return lexeme.length - 1;
}
