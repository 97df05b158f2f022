/**
 * The walk over a program: each field's value, and the nodes of the proof in their order (docs/formats/proof.md).
 *
 * At level 1 every operator has a node, outside of lambdas. At level 2 a field, a definition and an entry have one each;
 * its children are the facts, fields, definitions and entries that its expression asked for, in the order in which it
 * first did.
 *
 * @typedef {any} TypedExpr
 * @typedef {any} RuleValue
 * @typedef {{ v: RuleValue, n: number }} TracedValue
 * @typedef {{ type: string, data: any, children: number[] }} ProofStep
 * @typedef {{ code: string, message: string }} MissingCause
 */

import { encodeUtf8, hashBytes, toHex } from "../bytes.js";
import { writeCanonical } from "../canonical-json.js";
import { CheckFailed, NotChecked } from "../errors.js";
import { applyFunction, areEqualValues, calculateCount, compareSides, compareValues, makeObject, writeValue } from "./rule-values.js";

const NO_NODE = -1;
const MAX_EVALUATIONS = 20_000_000;
const LONGEST_TEXT = 65_536;
const LONGEST_SHOWN = 256;

/** Ends a field or definition that needs a definition which is missing. */
class ValueMissing extends Error {
  /** @param {MissingCause} cause @param {number} [node] */
  constructor(cause, node = NO_NODE) {
    super(cause.message);
    this.cause = cause;
    this.node = node;
  }
}

export class RuleWalker {
  /**
   * @param {import("./rule-program.js").RuleProgram} program @param {import("./rule-facts.js").RuleFacts} facts
   * @param {Record<string, string>} world  productSku, productName and issuedOn
   */
  constructor(program, facts, world) {
    this.program = program;
    this.facts = facts;
    this.world = world;
    this.isByExpression = program.language > 1;
    this.first = program.fields.length + 1;
    /** @type {ProofStep[]} */
    this.steps = [];
    /** @type {Map<string, number>} */
    this.ids = new Map();
    /** @type {Set<number>} */
    this.parents = new Set();
    /** @type {Map<string, RuleValue>} */
    this.values = new Map();
    /** @type {Map<string, number>} */
    this.derivations = new Map();
    /** @type {Map<string, MissingCause>} */
    this.missingFields = new Map();
    /** @type {Map<string, any>} */
    this.defined = new Map();
    /** @type {any[]} */
    this.compliance = [];
    /** @type {Map<string, TracedValue>} */
    this.variables = new Map();
    this.depth = 0;
    /** @type {Set<number>} */
    this.reads = new Set();
    this.field = "";
    this.evaluations = 0;
  }

  /** Compute a field. @param {import("./rule-program.js").RuleField} field @param {string} salt */
  deriveField(field, salt) {
    this.field = field.path;
    const data = makeObject([
      ["op", "derivation"],
      ["salt", salt],
    ]);
    if (!this.isByExpression) {
      const start = this.nextId;
      const result = this.evaluateApart(field.body, 0);
      this.values.set(field.path, result.v);
      this.derivations.set(field.path, this.close(start, result, data));
      return;
    }
    const { value, cause, reads } = this.walkExpression(field.body);
    this.noteOutcome(field, data, cause);
    this.values.set(field.path, value);
    this.derivations.set(field.path, this.addNode("OP", data, reads));
  }

  /** The place of a field's rule, and why its value is missing if it is. @param {import("./rule-program.js").RuleField} field @param {any} data @param {MissingCause | null} cause */
  noteOutcome(field, data, cause) {
    if (field.start !== null) data.at = this.program.toBytes(/** @type {any} */ (field));
    if (cause === null) return;
    this.missingFields.set(field.path, cause);
    this.addEntry({ code: cause.code, message: cause.message, status: "FAIL" });
    data.missing = { code: cause.code, message: cause.message };
  }

  /** The steps, with the hashes that waited for the browser. @returns {Promise<ProofStep[]>} */
  async finishSteps() {
    for (const { data } of this.steps) {
      for (const name of ["list_hash", "value_hash"]) if (data[name]?.to_hash !== undefined) data[name] = toHex(await hashBytes(encodeUtf8(data[name].to_hash)));
    }
    return this.steps;
  }

  get nextId() {
    return this.first + this.steps.length;
  }

  /** Add a node unless an equal one exists. @param {string} type @param {any} data @param {number[]} children @returns {number} */
  addNode(type, data, children) {
    const key = `${type} ${children.join(",")} ${writeCanonical(data)}`;
    const known = this.ids.get(key);
    if (known !== undefined) return known;
    const id = this.nextId;
    this.ids.set(key, id);
    this.steps.push({ type, data, children });
    for (const child of children) this.parents.add(child);
    return id;
  }

  /** The node over a result and every node since `start` that no other refers to. @param {number} start @param {TracedValue} result @param {any} data */
  close(start, result, data) {
    const open = [];
    for (let id = start; id < this.nextId; id++) if (!this.parents.has(id) && id !== result.n) open.push(id);
    return this.addNode("OP", data, [result.n, ...open]);
  }

  /** A node that has only this data; none inside a lambda. @param {string} type @param {any} data @param {RuleValue} value @param {TracedValue[]} children @returns {TracedValue} */
  trace(type, data, value, children) {
    if (this.depth) return { v: value, n: NO_NODE };
    return { v: value, n: this.addNode(type, makeObject(Object.entries(data)), children.map((child) => child.n)) };
  }

  /** An operator whose node has its result. @param {any} data @param {import("./rule-types.js").RuleType} type @param {RuleValue} value @param {TracedValue[]} children @returns {TracedValue} */
  traceResult(data, type, value, children) {
    if (this.depth) return { v: value, n: NO_NODE };
    return this.trace("OP", type.hasFacts ? data : { ...data, value: writeValue(type, value) }, value, children);
  }

  /** @param {TypedExpr} body @param {number} depth @returns {TracedValue} */
  evaluateApart(body, depth) {
    const around = { variables: this.variables, depth: this.depth, reads: this.reads };
    Object.assign(this, { variables: new Map(), depth, reads: new Set() });
    try {
      return this.evaluate(body);
    } finally {
      Object.assign(this, around);
    }
  }

  /** Evaluate an expression of level 2, which reads for itself. @param {TypedExpr} body @returns {{ value: RuleValue, cause: MissingCause | null, reads: number[] }} */
  walkExpression(body) {
    const around = { variables: this.variables, depth: this.depth, reads: this.reads };
    const reads = new Set();
    Object.assign(this, { variables: new Map(), depth: 1, reads });
    try {
      return { value: this.evaluate(body).v, cause: null, reads: [...reads] };
    } catch (error) {
      if (!(error instanceof ValueMissing)) throw error;
      return { value: null, cause: error.cause, reads: [...reads] };
    } finally {
      Object.assign(this, around);
    }
  }

  /** @param {RuleValue} value @param {number} node @returns {TracedValue} */
  recordRead(value, node) {
    if (!this.depth) return { v: value, n: node };
    if (node !== NO_NODE) this.reads.add(node);
    return { v: value, n: NO_NODE };
  }

  /** @param {TypedExpr} expr @returns {TracedValue} */
  evaluate(expr) {
    this.evaluations += 1;
    if (this.evaluations > MAX_EVALUATIONS) throw new NotChecked("the rules take too many steps for a browser");
    switch (expr.k) {
      case "const":
        if (this.depth) return { v: expr.value, n: NO_NODE };
        return this.trace("CONST", { type: expr.t.text, value: writeValue(expr.t, expr.value) }, expr.value, []);
      case "local":
        return /** @type {TracedValue} */ (this.variables.get(expr.name));
      case "field":
        return this.evaluateField(expr);
      case "definition":
        return this.evaluateDefinition(expr);
      case "function":
        return this.evaluateFunction(expr);
      case "fact":
      case "facts":
        return this.evaluateFacts(expr);
      case "unary": {
        const operand = this.evaluate(expr.operand);
        return this.traceResult({ op: expr.op }, expr.t, expr.op === "neg" ? -operand.v : !operand.v, [operand]);
      }
      case "arithmetic":
        return this.evaluateArithmetic(expr);
      case "comparison": {
        const sides = [this.evaluate(expr.left), this.evaluate(expr.right)];
        const value = compareSides(expr.op, expr.left.t, sides[0].v, expr.right.t, sides[1].v);
        return this.traceResult({ op: expr.op, of: expr.of }, expr.t, value, sides);
      }
      case "logic":
        return this.evaluateLogic(expr);
      case "coalesce": {
        const sides = [this.evaluate(expr.first)];
        for (const operand of expr.operands) {
          if (sides[sides.length - 1].v !== null) break;
          sides.push(this.evaluate(operand));
        }
        return this.trace("OP", { op: "??" }, sides[sides.length - 1].v, sides);
      }
      case "if":
        return this.evaluateIf(expr);
      case "match": {
        const subject = this.evaluate(expr.subject);
        const arm = expr.arms.find((/** @type {any} */ each) => each.members.includes(subject.v));
        return this.evaluate(arm.body);
      }
      case "list": {
        const items = expr.items.map((/** @type {TypedExpr} */ item) => this.evaluate(item));
        return this.trace("OP", { op: "list" }, items.map((/** @type {TracedValue} */ item) => item.v), items);
      }
      case "record":
        return this.evaluateRecord(expr);
      case "call":
        return this.evaluateCall(expr);
      case "table":
        return this.evaluateTable(expr);
      case "loop":
        return this.evaluateLoop(expr);
      case "requireSome": {
        const option = this.evaluate(expr.option);
        if (option.v === null) throw new CheckFailed(`field \`${this.field}\`: the rules give no value: ${expr.code}: ${expr.message}`);
        return this.trace("ASSERT", { op: "requireSome", code: expr.code, message: expr.message }, option.v, [option]);
      }
      case "emit":
        return this.evaluateEmit(expr);
      case "block":
        return this.evaluateBlock(expr);
      case "requirements": {
        const results = expr.items.map((/** @type {TypedExpr} */ item) => this.evaluateRequirement(item));
        return { v: results.every(Boolean), n: NO_NODE };
      }
      default:
        throw new Error(`there is no expression of kind ${expr.k}`);
    }
  }

  /** @param {TypedExpr} expr @returns {TracedValue} */
  evaluateField({ path }) {
    const derivation = /** @type {number} */ (this.derivations.get(path));
    if (!this.isByExpression) return this.recordRead(this.values.get(path), this.addNode("FIELD_REF", { path }, [derivation]));
    this.reads.add(derivation);
    const cause = this.missingFields.get(path);
    if (cause !== undefined) throw new ValueMissing(cause);
    return { v: this.values.get(path), n: NO_NODE };
  }

  /** @param {TypedExpr} expr @returns {TracedValue} */
  evaluateDefinition({ name }) {
    if (!this.defined.has(name)) this.defined.set(name, this.computeDefinition(name));
    const known = this.defined.get(name);
    if (known.cause === null) return this.recordRead(known.value, known.node);
    this.reads.add(known.node);
    throw new ValueMissing(known.cause, known.node);
  }

  /** @param {string} name @returns {{ value: RuleValue, node: number, cause: MissingCause | null }} */
  computeDefinition(name) {
    const { node, body } = this.program.checker.definitions.get(name);
    const outcome = this.walkExpression(body);
    const cause = outcome.cause ?? (outcome.value === null && node.missing !== null ? node.missing : null);
    if (cause === null && outcome.reads.length === 0) return { value: outcome.value, node: NO_NODE, cause };
    const data = makeObject([
      ["op", "definition"],
      ["name", name],
      ["at", this.program.toBytes(node.body)],
    ]);
    if (cause !== null) data.missing = { code: cause.code, message: cause.message };
    else if (!body.t.hasFacts) {
      const value = writeValue(body.t, outcome.value);
      const text = writeCanonical(value);
      // Hashing waits for the browser; until then the text stands in its place.
      if (new TextEncoder().encode(text).length > LONGEST_SHOWN) data.value_hash = { to_hash: text };
      else data.value = value;
    }
    return { value: outcome.value, node: this.addNode("OP", data, outcome.reads), cause };
  }

  /** @param {TypedExpr} expr @returns {TracedValue} */
  evaluateFunction(expr) {
    const { node, body } = this.program.checker.functions.get(expr.name);
    const values = expr.args.map((/** @type {TypedExpr} */ argument) => this.evaluate(argument));
    const around = this.variables;
    this.variables = new Map(node.parameters.map((/** @type {any} */ parameter, /** @type {number} */ at) => [parameter.name, values[at]]));
    try {
      return this.evaluate(body);
    } finally {
      this.variables = around;
    }
  }

  /** @param {TypedExpr} expr @returns {TracedValue} */
  evaluateFacts(expr) {
    const key = this.evaluate(expr.key);
    const { fact } = expr;
    const data = makeObject([
      ["fact_type", fact.name],
      ["schema_version", fact.version],
    ]);
    let value;
    if (expr.k === "fact") {
      value = this.facts.get(fact, key.v);
      data.payload_hash = value?.hash ?? null;
    } else {
      value = this.facts.find(fact, key.v);
      data.count = value.length;
      data.list_hash = { to_hash: writeCanonical(value.map((record) => [record.key, record.hash])) };
    }
    if (this.isByExpression) {
      data[expr.k === "fact" ? "key" : "prefix"] = key.v;
      return this.recordRead(value, this.addNode("FACT_GET", data, []));
    }
    const keyNode = this.depth ? this.addNode("CONST", { type: "Text", value: key.v }, []) : key.n;
    return this.recordRead(value, this.addNode("FACT_GET", data, [keyNode]));
  }

  /** @param {TypedExpr} expr @returns {TracedValue} */
  evaluateArithmetic(expr) {
    let result = this.evaluate(expr.first);
    let type = expr.first.t;
    for (const step of expr.steps) {
      const operand = this.evaluate(step.operand);
      const count = calculateCount(step.op, type, result.v, step.operand.t, operand.v, step.t);
      result = this.traceResult({ op: step.op }, step.t, count, [result, operand]);
      type = step.t;
    }
    return result;
  }

  /** @param {TypedExpr} expr @returns {TracedValue} */
  evaluateLogic(expr) {
    let result = this.evaluate(expr.first);
    for (const operand of expr.operands) {
      const sides = [result];
      if (result.v === (expr.op === "&&")) sides.push(this.evaluate(operand));
      result = this.traceResult({ op: expr.op }, expr.t, sides[sides.length - 1].v, sides);
    }
    return result;
  }

  /** Each `else if` is the `else` of the one before, so its node is made before that one's. @param {TypedExpr} expr @returns {TracedValue} */
  evaluateIf(expr) {
    const conditions = [];
    let body = expr.otherwise;
    let isTaken = false;
    for (const branch of expr.branches) {
      const condition = this.evaluate(branch.condition);
      conditions.push(condition);
      if (branch.binding !== null) this.variables.set(branch.binding, condition);
      isTaken = branch.binding === null ? condition.v : condition.v !== null;
      if (isTaken) {
        body = branch.body;
        break;
      }
    }
    let result = this.evaluate(body);
    let branchName = isTaken ? "then" : "else";
    for (let at = conditions.length - 1; at >= 0; at--) {
      const op = expr.branches[at].binding === null ? "if" : "ifSome";
      result = this.trace("OP", { op, branch: branchName }, result.v, [conditions[at], result]);
      branchName = "else";
    }
    return result;
  }

  /** Evaluated as written, shown by name. @param {TypedExpr} expr @returns {TracedValue} */
  evaluateRecord(expr) {
    const members = new Map(expr.members.map((/** @type {any} */ { name, value }) => [name, this.evaluate(value)]));
    const names = [...members.keys()].sort();
    const parts = names.map((name) => /** @type {TracedValue} */ (members.get(name)));
    return this.trace("OP", { op: "record", members: names }, makeObject(names.map((name, at) => [name, parts[at].v])), parts);
  }

  /** @param {TypedExpr} expr @returns {TracedValue} */
  evaluateCall(expr) {
    const args = expr.args.map((/** @type {TypedExpr} */ argument) => this.evaluate(argument));
    const value = applyFunction(expr, args.map((/** @type {TracedValue} */ argument) => argument.v), this.world);
    if (expr.op === "concat" && value.length > LONGEST_TEXT && [...value].length > LONGEST_TEXT) throw new CheckFailed(`field \`${this.field}\`: the rules give a text that is too long`);
    if (expr.op === "some") return this.trace("OP", { op: "some" }, value, args);
    return this.traceResult({ op: expr.op, ...expr.fixed }, expr.t, value, args);
  }

  /** @param {TypedExpr} expr @returns {TracedValue} */
  evaluateTable(expr) {
    const values = expr.args.map((/** @type {TypedExpr} */ argument) => this.evaluate(argument).v);
    const rows = this.program.tables.get(expr.table);
    const row = rows.find((/** @type {any} */ each) => each.cells.every((/** @type {any} */ cell, /** @type {number} */ at) => appliesTo(cell, values[at])));
    return { v: row === undefined ? null : row.value, n: NO_NODE };
  }

  /** @param {TypedExpr} expr @returns {TracedValue} */
  evaluateLoop(expr) {
    const items = this.evaluate(expr.items);
    const inputs = expr.init === null ? [items] : [items, this.evaluate(expr.init)];
    if (!this.depth) this.reads = new Set();
    this.depth += 1;
    const results = this.runLambda(expr, items.v, inputs[inputs.length - 1].v);
    this.depth -= 1;
    const { value, data } = concludeLoop(expr, items.v, inputs[inputs.length - 1].v, results);
    if (this.depth) return { v: value, n: NO_NODE };
    const outer = [...new Set(expr.captured.map((/** @type {string} */ name) => /** @type {TracedValue} */ (this.variables.get(name)).n))];
    const node = makeObject(Object.entries({ op: expr.op, fn: this.program.toBytes(expr), ...data }));
    return { v: value, n: this.addNode("OP", node, [...inputs.map((input) => input.n), ...outer, ...this.reads]) };
  }

  /** What the lambda gives for each element; of a fold, the accumulator after it. @param {TypedExpr} expr @param {RuleValue[]} items @param {RuleValue} init @returns {RuleValue[]} */
  runLambda(expr, items, init) {
    const results = [];
    let accumulator = init;
    for (const item of items) {
      this.variables.set(expr.parameters[expr.parameters.length - 1], { v: item, n: NO_NODE });
      if (expr.op === "fold") this.variables.set(expr.parameters[0], { v: accumulator, n: NO_NODE });
      const result = this.evaluate(expr.body).v;
      results.push(result);
      accumulator = result;
      if ((expr.op === "any" && result) || (expr.op === "all" && !result)) break;
    }
    return results;
  }

  /** @param {TypedExpr} expr @returns {TracedValue} */
  evaluateEmit(expr) {
    const [status, message] = [this.evaluate(expr.status), this.evaluate(expr.message)];
    const args = makeObject(expr.args.map((/** @type {[string, TypedExpr]} */ [name, argument]) => [name, this.evaluate(argument).v]));
    const entry = this.addEntry({ code: expr.code, message: message.v, status: status.v, verdict: expr.verdict ?? "assessed", args });
    const value = status.v !== "FAIL";
    if (!this.isByExpression) return this.trace("COMPLIANCE_EMIT", { ...entry, index: this.compliance.length - 1 }, value, [status, message]);
    if (expr.verdict === null) this.addEntryNode([], null);
    return { v: value, n: NO_NODE };
  }

  /** A requirement that needs what is missing is not met, and says what is missing. @param {TypedExpr} expr @returns {boolean} */
  evaluateRequirement(expr) {
    const { value, cause, reads } = this.walkExpression(expr.body);
    if (cause !== null) this.addEntry({ code: expr.code, message: cause.message, status: expr.severity });
    this.addEntryNode(reads, this.program.toBytes(expr));
    return cause === null ? value : expr.severity !== "FAIL";
  }

  /** @param {{ code: string, message: string, status: string, verdict?: string, args?: any }} entry @returns {any} */
  addEntry({ code, message, status, verdict = "assessed", args = {} }) {
    const entry = { code, field: this.field, message, status, ...(this.isByExpression ? { args, verdict } : {}) };
    this.compliance.push(entry);
    return entry;
  }

  /** @param {number[]} reads @param {[number, number] | null} place */
  addEntryNode(reads, place) {
    const index = this.compliance.length - 1;
    const data = makeObject(Object.entries({ ...this.compliance[index], index, ...(place === null ? {} : { at: place }) }));
    this.reads.add(this.addNode("COMPLIANCE_EMIT", data, reads));
  }

  /** An assert's node has what follows it as its body, so the last assert's node is made first. @param {TypedExpr} expr @returns {TracedValue} */
  evaluateBlock(expr) {
    const checks = [];
    for (const binding of expr.bindings) {
      if (binding.k === "let") this.variables.set(binding.name, this.evaluate(binding.value));
      else {
        const condition = this.evaluate(binding.condition);
        if (!condition.v) throw new CheckFailed(`field \`${this.field}\`: the rules give no value: ${binding.code}: ${binding.message}`);
        checks.push({ binding, condition });
      }
    }
    let result = this.evaluate(expr.body);
    for (const { binding, condition } of checks.reverse()) {
      result = this.trace("ASSERT", { op: "assert", code: binding.code, message: binding.message }, result.v, [condition, result]);
    }
    return result;
  }
}

/** Whether a cell of a table is for a value. @param {any} cell @param {RuleValue} value @returns {boolean} */
function appliesTo(cell, value) {
  if (cell.keys !== undefined) return cell.keys.some((/** @type {RuleValue} */ key) => areEqualValues(key, value));
  return (cell.low === null || compareValues(value, cell.low) >= 0) && (cell.high === null || compareValues(value, cell.high) < 0);
}

/** A loop's value, and what its node says beside `op` and `fn`. @param {TypedExpr} loop @param {RuleValue[]} items @param {RuleValue} init @param {RuleValue[]} results @returns {{ value: RuleValue, data: any }} */
function concludeLoop(loop, items, init, results) {
  const pick = (/** @type {number[]} */ positions) => positions.map((at) => items[at]);
  const values = loop.body.t.hasFacts ? {} : { values: results.map((result) => writeValue(loop.body.t, result)) };
  switch (loop.op) {
    case "map":
      return { value: results, data: values };
    case "fold":
      return { value: results.length ? results[results.length - 1] : init, data: values };
    case "filter": {
      const kept = [...results.keys()].filter((at) => results[at]);
      return { value: pick(kept), data: { kept } };
    }
    case "any":
    case "all": {
      const isDecided = results.length > 0 && results[results.length - 1] === (loop.op === "any");
      return { value: isDecided === (loop.op === "any"), data: { position: isDecided ? results.length - 1 : null } };
    }
    case "sortBy": {
      const order = [...results.keys()].sort((one, other) => compareKeys(results[one], results[other]) || one - other);
      return { value: pick(order), data: { order } };
    }
    case "latestBy": {
      let latest = -1;
      results.forEach((key, at) => {
        if (key !== null && (latest < 0 || compareValues(key, results[latest]) >= 0)) latest = at;
      });
      return { value: latest < 0 ? null : items[latest], data: { position: latest < 0 ? null : latest } };
    }
    default: {
      /** @type {Map<string, number[]>} */
      const groups = new Map();
      results.forEach((key, at) => {
        const text = writeCanonical(writeValue(loop.body.t, key));
        groups.set(text, [...(groups.get(text) ?? []), at]);
      });
      const value = [...groups.values()].map((positions) => makeObject([["items", pick(positions)], ["key", results[positions[0]]]]));
      return { value, data: { groups: [...groups.values()].map((positions) => ({ key: writeValue(loop.body.t, results[positions[0]]), positions })) } };
    }
  }
}

/** By key; an element without one stands before all others. @param {RuleValue} one @param {RuleValue} other */
function compareKeys(one, other) {
  if (one === null || other === null) return (one === null ? 0 : 1) - (other === null ? 0 : 1);
  return compareValues(one, other);
}
