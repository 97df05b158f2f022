/**
 * Rules as a program: the fields in the order in which they are computed, definitions, functions and tables, each checked.
 *
 * @typedef {any} RuleNode
 * @typedef {import("./rule-types.js").RuleType} RuleType
 * @typedef {{ path: string, access: string[], type: RuleType, body: any, layer: import("./rule-layers.js").Layer | null, start: number | null, end: number | null }} RuleField
 */

import { RuleChecker } from "./rule-checker.js";
import { RuleMistake, findLanguage } from "./rule-lexer.js";
import { RuleParser } from "./rule-parser.js";
import { unwrapOption } from "./rule-types.js";
import { compareTexts, decodeUtf8, encodeUtf8 } from "../bytes.js";

export const REQUIREMENTS_PATH = "requirements.met";
const FILE_LINE = /-- file "([A-Za-z0-9._-]+)" "[A-Za-z0-9._-]+" "[A-Za-z0-9._/-]+" sha256:[0-9a-f]{64} bytes:([0-9]{1,7})\n/y;
const IMPORT_LINE = /-- import "([A-Za-z0-9._-]+)" "[A-Za-z0-9._-]+" "([A-Za-z0-9._-]+)" "[A-Za-z0-9._-]+"\n/y;
const START_LINE = "language 2;\n";
const PERIOD_START = "the start";

export class RuleProgram {
  /** @param {Uint8Array} bytes  rules.bpc */
  constructor(bytes) {
    this.text = decodeUtf8(bytes);
    this.language = findLanguage(this.text);
    if (this.language !== 1 && this.language !== 2) throw new RuleMistake("there is no such level of the rule language", 0);
    /** @type {Map<string, any>} */
    this.tables = new Map();
    this.checker = new RuleChecker(this.language, readVisibility(this.text));
    const items = new RuleParser(this.text, this.language).parseAll();
    this.offsets = countByteOffsets(this.text);
    this.declare(items);
    this.fields = this.orderFields(items);
  }

  /** The place of a node as bytes of the text. @param {{ start: number, end: number }} node @returns {[number, number]} */
  toBytes({ start, end }) {
    return this.offsets === null ? [start, end] : [this.offsets[start], this.offsets[end]];
  }

  /** @param {RuleNode[]} items */
  declare(items) {
    const { checker } = this;
    const { types } = checker;
    for (const item of items.filter(({ k }) => k === "enum")) {
      const members = item.members.map((/** @type {any} */ member) => member.name);
      const spellings = new Map(members.map((/** @type {string} */ name) => [name, name]));
      for (const member of item.members) {
        for (const spelling of member.spellings) if (!spellings.has(spelling)) spellings.set(spelling, member.name);
      }
      const type = types.add({ k: "Enum", name: item.name, text: item.name, members, spellings });
      checker.enums.set(item.name, { type, start: item.start });
    }
    for (const item of items.filter(({ k }) => k === "table")) {
      const columns = item.columns.map((/** @type {any} */ column) => this.resolve(column.type));
      const type = this.resolve(item.type);
      checker.tables.set(item.name, { columns, type, start: item.start });
      const rows = item.rows.map((/** @type {any} */ row) => ({
        cells: row.cells.map((/** @type {any} */ cell, /** @type {number} */ at) => this.readCell(cell, columns[at])),
        value: row.value.k === "none" ? null : this.readConstant(row.value, type),
      }));
      this.tables.set(item.name, rows);
    }
    for (const item of items.filter(({ k }) => k === "rule")) checker.fields.set(item.name, this.resolve(item.type));
    if (items.some(({ k }) => k === "requirement")) checker.fields.set(REQUIREMENTS_PATH, types.BOOL);
    for (const item of items.filter(({ k }) => k === "function")) {
      const kinds = item.parameters.map((/** @type {any} */ parameter) => this.resolve(parameter.type));
      checker.functions.set(item.name, { node: item, kinds, result: this.resolve(item.type), body: null, reads: new Set() });
    }
    for (const item of items.filter(({ k }) => k === "definition")) checker.definitions.set(item.name, { node: item, type: null, body: null, reads: new Set(), isOpen: false });
    checker.prepareDefinition = (name) => this.prepareDefinition(name);
    for (const name of checker.definitions.keys()) this.prepareDefinition(name);
    for (const entry of checker.functions.values()) this.prepareFunction(entry);
  }

  /** @param {RuleNode} node @returns {RuleType} */
  resolve(node) {
    const { types } = this.checker;
    if (node.k === "simple") return /** @type {RuleType} */ (types.known.get(node.name));
    if (node.k === "named") {
      const known = this.checker.enums.get(node.name);
      if (known === undefined || !this.checker.sees(node.start, known.start)) throw new RuleMistake(`there is no type \`${node.name}\``, node.start);
      return known.type;
    }
    if (node.k === "Dec") {
      if (!(node.scale <= 18)) throw new RuleMistake("a Dec has at most 18 decimals", node.start);
      return types.dec(node.scale);
    }
    if (node.k === "Qty") return this.checker.checkQuantity({ unit: node.unit, number: { digits: "0", negative: false }, start: node.start }).t;
    if (node.k === "Record") return types.record(node.members.map((/** @type {any} */ { name, type }) => [name, this.resolve(type)]));
    const item = this.resolve(node.item);
    if (node.k === "List") return types.list(item);
    if (node.k === "Map") return types.map(item);
    if (item.k === "Opt") throw new RuleMistake("an option cannot contain an option", node.start);
    return types.opt(item);
  }

  /** @param {any} cell @param {RuleType} type */
  readCell(cell, type) {
    if (cell.keys !== undefined) return { keys: cell.keys.map((/** @type {RuleNode} */ key) => this.readConstant(key, type)) };
    const read = (/** @type {RuleNode | null} */ bound) => (bound === null ? null : this.readConstant(bound, type));
    return { low: read(cell.low), high: read(cell.high) };
  }

  /** @param {RuleNode} node @param {RuleType} type @returns {any} */
  readConstant(node, type) {
    if (node.k === "none" && type.k === "Opt") return null;
    if (node.k === "someConstant" && type.k === "Opt") return this.readConstant(node.item, type.item);
    if (node.k === "list" && type.k === "List") return node.items.map((/** @type {RuleNode} */ item) => this.readConstant(item, type.item));
    if (node.k === "record" && type.k === "Record") {
      const values = new Map(node.members.map((/** @type {any} */ member) => [member.name, member.value]));
      const record = Object.create(null);
      for (const [name, member] of type.members) record[name] = this.readConstant(values.get(name) ?? node, member);
      return record;
    }
    const constant = this.checker.check(node, type);
    if (constant.k !== "const") throw new RuleMistake("a constant is needed here", node.start);
    return constant.value;
  }

  /** Check something that sees no names around it; what it reads goes into `reads`. @template T @param {Set<string>} reads @param {boolean} isInRule @param {() => T} check @returns {T} */
  checkApart(reads, isInRule, check) {
    const { checker } = this;
    const around = { reads: checker.reads, scope: checker.scope, lambdas: checker.lambdas, isInRule: checker.isInRule };
    Object.assign(checker, { reads, scope: new Map(), lambdas: [], isInRule });
    try {
      return check();
    } finally {
      Object.assign(checker, around);
    }
  }

  /** @param {string} name */
  prepareDefinition(name) {
    const entry = this.checker.definitions.get(name);
    if (entry.body !== null) return;
    if (entry.isOpen) throw new RuleMistake(`\`${name}\` depends on itself`, entry.node.start);
    entry.isOpen = true;
    const { node } = entry;
    const declared = node.type === null ? null : this.resolve(node.type);
    const want = declared === null || node.missing === null ? declared : this.checker.types.opt(declared);
    entry.body = this.checkApart(entry.reads, false, () => this.checker.check(node.body, want));
    entry.type = node.missing === null ? entry.body.t : unwrapOption(entry.body.t);
    if (node.missing !== null && entry.body.t.k !== "Opt") throw new RuleMistake(`\`${name}\` is never missing`, node.start);
  }

  /** @param {any} entry */
  prepareFunction(entry) {
    const { node, kinds, result } = entry;
    entry.body = this.checkApart(entry.reads, false, () => {
      node.parameters.forEach((/** @type {any} */ parameter, /** @type {number} */ at) => this.checker.bind(node, parameter.name, kinds[at]));
      return this.checker.check(node.body, result);
    });
  }

  /** The fields, each after those that it reads, else by path. @param {RuleNode[]} items @returns {RuleField[]} */
  orderFields(items) {
    const { checker } = this;
    /** @type {Map<string, RuleField & { reads: Set<string> }>} */
    const fields = new Map();
    for (const item of items.filter(({ k }) => k === "rule")) {
      const reads = new Set();
      const type = /** @type {RuleType} */ (checker.fields.get(item.name));
      const body = this.checkApart(reads, true, () => checker.check(item.body, type));
      fields.set(item.name, { path: item.name, access: item.access, type, body, layer: item.layer, reads, start: item.body.start, end: item.body.end });
    }
    const requirements = items.filter(({ k }) => k === "requirement");
    if (requirements.length) {
      const reads = new Set();
      const checks = this.checkApart(reads, true, () => requirements.map((node) => this.checkRequirement(node)));
      const body = { k: "requirements", t: checker.types.BOOL, items: checks };
      fields.set(REQUIREMENTS_PATH, { path: REQUIREMENTS_PATH, access: [], type: checker.types.BOOL, body, layer: null, reads, start: null, end: null });
    }
    /** @type {Map<string, Set<string>>} */
    const known = new Map();
    const missable = new Set();
    const waiting = new Map([...fields].map(([path, { reads }]) => [path, this.listNeeds(reads, known)]));
    /** @type {RuleField[]} */
    const ordered = [];
    while (waiting.size) {
      const ready = [...waiting].filter(([, needs]) => [...needs].every((path) => !waiting.has(path))).map(([path]) => path);
      if (ready.length === 0) throw new RuleMistake("fields depend on each other in a cycle", 0);
      // The first by path goes; those that it makes ready may come before others that were ready already.
      const [path] = ready.sort(compareTexts);
      waiting.delete(path);
      const field = /** @type {any} */ (fields.get(path));
      if (path !== REQUIREMENTS_PATH && this.canBeMissing(field.reads, missable, new Set())) {
        missable.add(path);
        if (field.type.k !== "Opt") field.type = checker.types.opt(field.type);
      }
      ordered.push(field);
    }
    return ordered;
  }

  /** The paths of the fields that are read, also by definitions and functions. @param {Set<string>} reads @param {Map<string, Set<string>>} known @returns {Set<string>} */
  listNeeds(reads, known) {
    const needs = new Set();
    for (const key of reads) {
      if (!key.includes(" ")) needs.add(key);
      else {
        if (!known.has(key)) {
          known.set(key, new Set());
          known.set(key, this.listNeeds(this.findEntry(key).reads, known));
        }
        for (const path of /** @type {Set<string>} */ (known.get(key))) needs.add(path);
      }
    }
    return needs;
  }

  /** @param {string} key @returns {any} */
  findEntry(key) {
    const [kind, name] = key.split(" ");
    return (kind === "def" ? this.checker.definitions : this.checker.functions).get(name);
  }

  /** Whether something that is read may be missing. @param {Set<string>} reads @param {Set<string>} missable @param {Set<string>} seen @returns {boolean} */
  canBeMissing(reads, missable, seen) {
    for (const key of reads) {
      if (missable.has(key)) return true;
      if (!key.includes(" ") || seen.has(key)) continue;
      seen.add(key);
      const entry = this.findEntry(key);
      if ((entry.node.missing ?? null) !== null || this.canBeMissing(entry.reads, missable, seen)) return true;
    }
    return false;
  }

  // Requirements

  /** A requirement as nested `if`s that emit one entry. @param {RuleNode} node @returns {any} */
  checkRequirement(node) {
    const { checker } = this;
    const { types } = checker;
    const scope = node.scope === null ? null : checker.requireBool(node.scope, checker.check(node.scope));
    const [from, to] = [node.from, node.to].map((day) => (day === null ? null : this.checkDay(day)));
    const day = node.day === null ? { k: "call", op: "issuedOn", t: types.DATE, args: [], fixed: {} } : checker.check(node.day, types.DATE);
    const condition = checker.requireBool(node.condition, checker.check(node.condition));
    const title = this.checkMessage(node.title);
    const message = node.message === null ? title : this.checkMessage(node.message);
    const emit = (/** @type {string} */ status, /** @type {string} */ verdict, /** @type {any} */ text = title) => {
      const entry = { k: "emit", t: types.BOOL, code: node.name, status: { k: "const", t: types.TEXT, value: status }, message: text.message, verdict, args: text.args };
      return text.bindings.length ? { k: "block", t: types.BOOL, bindings: text.bindings, body: entry } : entry;
    };
    const choose = (/** @type {any} */ test, /** @type {any} */ then, /** @type {any} */ otherwise, /** @type {string | null} */ binding = null) => ({
      k: "if",
      t: types.BOOL,
      branches: [{ condition: test, binding, body: then }],
      otherwise,
    });
    const limit = (/** @type {string} */ op, /** @type {any} */ bound, /** @type {string} */ verdict, /** @type {any} */ inner) => {
      const isOption = bound.t.k === "Opt";
      const right = isOption ? { k: "local", t: types.DATE, name: PERIOD_START } : bound;
      const inside = choose({ k: "comparison", op, t: types.BOOL, of: "Date", left: day, right }, emit("NOT_APPLICABLE", verdict), inner);
      return isOption ? choose(bound, inside, op === ">=" ? inner : emit("NOT_APPLICABLE", "undetermined"), PERIOD_START) : inside;
    };
    const severity = node.severity === "warn" ? "WARN" : "FAIL";
    let body = choose(condition, emit("PASS", "assessed"), emit(severity, "assessed", message));
    if (to !== null) body = limit(">=", to, "expired", body);
    if (from !== null) body = limit("<", from, "not_yet_in_force", body);
    if (scope !== null) body = choose(scope, body, emit("NOT_APPLICABLE", "out_of_scope"));
    return { k: "requirement", t: types.BOOL, code: node.name, severity, body, layer: node.layer, start: node.start, end: node.end };
  }

  /** @param {RuleNode} node @returns {any} */
  checkDay(node) {
    const { types } = this.checker;
    const expr = this.checker.check(node, node.k === "none" ? types.opt(types.DATE) : null);
    if (unwrapOption(expr.t) !== types.DATE) throw new RuleMistake("a requirement is in force from a `Date` or an `Opt(Date)`", node.start);
    return expr;
  }

  /** A title or message: lets for the texts in it, the text itself, and those texts by what they were written as. @param {RuleNode} node @returns {any} */
  checkMessage(node) {
    const { checker } = this;
    const expr = checker.requireText(node);
    if (node.k !== "interpolation") return { bindings: [], message: expr, args: [] };
    /** @type {any[]} */
    const bindings = [];
    const args = new Map();
    const parts = node.parts.map((/** @type {RuleNode} */ part, /** @type {number} */ at) => {
      if (part.k === "text") return expr.args[at];
      const name = `argument ${bindings.length}`;
      bindings.push({ k: "let", name, value: expr.args[at] });
      const local = { k: "local", t: checker.types.TEXT, name };
      args.set(node.names[at] ?? this.text.slice(part.start, part.end).replace(/[ \t\r\n]+/g, " ").trim(), local);
      return local;
    });
    return { bindings, message: { ...expr, args: parts }, args: [...args] };
  }
}

/** Where each position of the text is in its bytes; null if every character is one byte. @param {string} text @returns {Uint32Array | null} */
function countByteOffsets(text) {
  if (encodeUtf8(text).length === text.length) return null;
  const offsets = new Uint32Array(text.length + 1);
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    offsets[at] = count;
    const unit = text.charCodeAt(at);
    // Each half of a pair counts two of its four bytes.
    count += unit < 0x80 ? 1 : unit < 0x800 || (unit >= 0xd800 && unit <= 0xdfff) ? 2 : 3;
  }
  offsets[text.length] = count;
  return offsets;
}

/** Which places may use what is declared at others: a text of several packages says who imports whom. @param {string} text @returns {(user: number, declaration: number) => boolean} */
function readVisibility(text) {
  /** @type {Map<string, Set<string>>} */
  const imports = new Map();
  /** @type {{ start: number, end: number, name: string }[]} */
  const files = [];
  let at = text.startsWith(START_LINE) ? START_LINE.length : text.length;
  for (;;) {
    IMPORT_LINE.lastIndex = at;
    const line = IMPORT_LINE.exec(text);
    if (line === null) break;
    imports.set(line[1], (imports.get(line[1]) ?? new Set()).add(line[2]));
    at += line[0].length;
  }
  if (imports.size === 0) return () => true;
  for (;;) {
    FILE_LINE.lastIndex = at;
    const line = FILE_LINE.exec(text);
    if (line === null) break;
    const start = at + line[0].length;
    let [end, left] = [start, Number(line[2])];
    for (; left > 0 && end < text.length; end++) left -= encodeUtf8(text[end]).length === 3 && text.charCodeAt(end) >= 0xd800 && text.charCodeAt(end) <= 0xdfff ? 2 : encodeUtf8(text[end]).length;
    files.push({ start, end, name: line[1] });
    at = end;
  }
  const imported = new Set([...imports.values()].flatMap((names) => [...names]));
  const own = new Set([...imports].filter(([name]) => !imported.has(name)).flatMap(([, names]) => [...names]));
  const find = (/** @type {number} */ place) => files.find(({ start, end }) => start <= place && place <= end)?.name;
  return (user, declaration) => {
    const [one, other] = [find(user), find(declaration)];
    if (one === undefined || other === undefined || one === other) return true;
    if (imported.has(one)) return imports.get(one)?.has(other) ?? false;
    return !imported.has(other) || own.has(other);
  };
}
