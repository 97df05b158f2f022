/**
 * Expressions as they were written in, expressions with types out: every name resolved, every literal in its scale. The
 * first mistake ends it, because rules of a published package have none.
 *
 * A typed expression has its kind `k` and its type `t`. What both levels of the language mean is in docs/rules/language.md.
 *
 * @typedef {any} RuleNode
 * @typedef {any} TypedExpr
 * @typedef {import("./rule-types.js").RuleType} RuleType
 */

import { checkBuiltin } from "./rule-calls.js";
import { RuleMistake } from "./rule-lexer.js";
import { LARGEST_SCALE, QUANTITY_SCALE, TypeTable, divideUnits, getScaleOf, isNumberType, isOrderedType, isUnit, multiplyUnits, unwrapOption } from "./rule-types.js";
import { isCalendarDay } from "./rule-values.js";
import { FACT_KEYS } from "./rule-tables.js";

export class RuleChecker {
  /** @param {number} language @param {(user: number, declaration: number) => boolean} sees */
  constructor(language, sees) {
    this.language = language;
    this.sees = sees;
    this.types = new TypeTable();
    /** Fields by path: their types. @type {Map<string, RuleType>} */
    this.fields = new Map();
    /** @type {Map<string, any>} */
    this.definitions = new Map();
    /** @type {Map<string, any>} */
    this.functions = new Map();
    /** @type {Map<string, { type: RuleType, start: number }>} */
    this.enums = new Map();
    /** @type {Map<string, any>} */
    this.tables = new Map();
    /** The fact types that the rules name. @type {Set<RuleType>} */
    this.facts = new Set();
    /** What the expression that is being checked reads: paths, `def name`, `fn name`. @type {Set<string>} */
    this.reads = new Set();
    /** Whether the expression is the rule of a field. */
    this.isInRule = false;
    /** @type {Map<string, { type: RuleType, level: number }>} */
    this.scope = new Map();
    /** For each lambda around the place the outer names it uses, and where first. @type {Map<string, number>[]} */
    this.lambdas = [];
    /** @type {(name: string) => void} */
    this.prepareDefinition = () => {};
  }

  /** @param {RuleNode} node @param {string} message @returns {never} */
  refuse(node, message) {
    throw new RuleMistake(message, node.start ?? 0);
  }

  /** @param {RuleNode} node @param {RuleType | null} [want] @param {boolean} [allowOption] @returns {TypedExpr} */
  check(node, want = null, allowOption = false) {
    const expr = this.checkAny(node, want);
    if (want !== null && expr.t !== want && !(allowOption && expr.t.k === "Opt")) this.refuse(node, `expected \`${want.text}\`, but this is \`${expr.t.text}\``);
    return expr;
  }

  /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
  checkAny(node, want) {
    const { types } = this;
    switch (node.k) {
      case "number":
        return this.checkNumber(node, want);
      case "text":
        return { k: "const", t: types.TEXT, value: node.value };
      case "bool":
        return { k: "const", t: types.BOOL, value: node.value };
      case "none":
        if (want?.k !== "Opt") this.refuse(node, "the type of `none` is not known here");
        return { k: "const", t: want, value: null };
      case "date":
        if (!isCalendarDay(node.value)) this.refuse(node, "this is not a valid date");
        return { k: "const", t: types.DATE, value: node.value };
      case "quantity":
        return this.checkQuantity(node);
      case "fieldRef":
        if (!this.fields.has(node.path)) this.refuse(node, `there is no field \`${node.path.slice(0, 80)}\``);
        this.reads.add(node.path);
        return { k: "field", t: this.fields.get(node.path), path: node.path };
      case "variable":
        return this.checkVariable(node, want);
      case "query":
        return this.checkQuery(node);
      case "call":
        return this.checkCall(node, want);
      case "list":
        return this.checkList(node, want);
      case "record":
        return this.checkRecord(node, want);
      case "unary":
        return this.checkUnary(node);
      case "chain":
        return node.links[0].op === "??" ? this.checkCoalesce(node, want) : this.checkChain(node, want);
      case "comparison":
        return node.op === "in" ? this.checkMembership(node) : this.checkComparison(node);
      case "presence":
        return this.checkPresence(node);
      case "interpolation":
        return { k: "call", op: "concat", t: types.TEXT, args: node.parts.map((/** @type {RuleNode} */ part) => this.checkPiece(part)), fixed: {} };
      case "member":
        return this.checkMember(node);
      case "if":
        return this.checkIf(node, want);
      case "scoped":
        return this.checkScoped(node, want);
      case "match":
        return this.checkMatch(node, want);
      case "block":
        return this.checkBlock(node, want);
      default:
        return this.refuse(node, "a function can only be an argument of a function on lists");
    }
  }

  // Literals

  /** @param {RuleNode} node */
  requireNumberBounds(node) {
    const [whole, fraction = ""] = node.digits.split(".");
    if (whole.replace(/^0+/, "").length > 36 || fraction.length > QUANTITY_SCALE) this.refuse(node, "this number is too large, or has too many decimals");
  }

  /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
  checkNumber(node, want) {
    this.requireNumberBounds(node);
    if (want?.k !== "Dec") return this.typeAsWritten(node);
    const decimals = (node.digits.split(".")[1] ?? "").replace(/0+$/, "").length;
    if (decimals > getScaleOf(want)) this.refuse(node, "this number has too many decimals");
    return { k: "const", t: want, value: scaleDigits(node, getScaleOf(want)) };
  }

  /** @param {RuleNode} node @returns {TypedExpr} */
  typeAsWritten(node) {
    if (!node.digits.includes(".")) return { k: "const", t: this.types.INT, value: scaleDigits(node, 0) };
    const scale = node.digits.split(".")[1].length;
    return { k: "const", t: this.types.dec(scale), value: scaleDigits(node, scale) };
  }

  /** A literal that is compared with a value of another type. @param {RuleNode} node @param {RuleType} other @returns {TypedExpr} */
  typeBeside(node, other) {
    this.requireNumberBounds(node);
    return other.k === "Dec" && !node.digits.includes(".") ? { k: "const", t: this.types.dec(0), value: scaleDigits(node, 0) } : this.typeAsWritten(node);
  }

  /** The common type of literals. @param {RuleNode[]} numbers @returns {RuleType} */
  chooseNumberType(numbers) {
    const scales = numbers.filter((node) => node.digits.includes(".")).map((node) => node.digits.split(".")[1].length);
    return scales.length ? this.types.dec(Math.max(...scales)) : this.types.INT;
  }

  /** @param {RuleNode} node @returns {TypedExpr} */
  checkQuantity(node) {
    if (!isUnit(node.unit)) this.refuse(node, `there is no unit \`${node.unit}\``);
    this.requireNumberBounds(node.number);
    return { k: "const", t: this.types.qty(node.unit), value: scaleDigits(node.number, QUANTITY_SCALE) };
  }

  // Names

  /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
  checkVariable(node, want) {
    const bound = this.scope.get(node.name);
    if (bound !== undefined) {
      for (const mentioned of this.lambdas.slice(bound.level)) mentioned.set(node.name, Math.min(node.start, mentioned.get(node.name) ?? node.start));
      return { k: "local", t: bound.type, name: node.name };
    }
    const definition = this.definitions.get(node.name);
    if (definition !== undefined && this.sees(node.start, definition.node.start)) {
      this.prepareDefinition(node.name);
      this.reads.add(`def ${node.name}`);
      return { k: "definition", t: definition.type, name: node.name };
    }
    const enums = this.listMemberEnums(node);
    const wanted = enums.filter((type) => type === want);
    if (enums.length === 1 || wanted.length) return { k: "const", t: wanted[0] ?? enums[0], value: node.name };
    return this.refuse(node, enums.length ? `\`${node.name}\` is a member of several enumerations` : `there is no variable \`${node.name}\` here`);
  }

  /** The enumerations with this member that can be seen here. @param {RuleNode} node @returns {RuleType[]} */
  listMemberEnums(node) {
    return [...this.enums.values()].filter(({ type, start }) => type.members.includes(node.name) && this.sees(node.start, start)).map(({ type }) => type);
  }

  /** Whether an expression is a member of several enumerations. @param {RuleNode} node */
  isAmbiguous(node) {
    return node.k === "variable" && !this.scope.has(node.name) && this.listMemberEnums(node).length > 1;
  }

  /** @param {RuleNode} node @returns {TypedExpr} */
  checkQuery(node) {
    const fact = this.resolveFact(node.fact, node);
    const key = this.requireText(node.key);
    const [prefix, isSingle] = FACT_KEYS[/** @type {string} */ (fact.name)];
    if (isSingle === node.isPlural) this.refuse(node, "there is one such fact for each product, or several: `all` is missing, or too much");
    const args = [{ k: "const", t: this.types.TEXT, value: prefix }, key];
    if (node.isPlural) args.push({ k: "const", t: this.types.TEXT, value: ":" });
    const text = { k: "call", op: "concat", t: this.types.TEXT, args, fixed: {} };
    return node.isPlural ? { k: "facts", t: this.types.list(fact), fact, key: text } : { k: "fact", t: this.types.opt(fact), fact, key: text };
  }

  /** @param {string} text @param {RuleNode} node @returns {RuleType} */
  resolveFact(text, node) {
    const fact = this.types.fact(text.includes("@") ? text : `${text}@1`);
    if (fact === null) return this.refuse(node, `there is no fact type \`${text.slice(0, 80)}\``);
    this.facts.add(fact);
    return fact;
  }

  /** @param {RuleNode} node @returns {TypedExpr} */
  requireText(node) {
    const expr = this.check(node);
    if (expr.t !== this.types.TEXT) this.refuse(node, "this must be a `Text`");
    return expr;
  }

  /** @param {RuleNode} node @param {TypedExpr} expr @returns {TypedExpr} */
  requireBool(node, expr) {
    if (expr.t !== this.types.BOOL) this.refuse(node, "this must be a `Bool`");
    return expr;
  }

  // Calls

  /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
  checkCall(node, want) {
    const declared = this.functions.get(node.name) ?? this.enums.get(node.name) ?? this.tables.get(node.name);
    if (declared === undefined || !this.sees(node.start, declared.start ?? declared.node.start)) return checkBuiltin(this, node, want);
    if (this.functions.has(node.name)) {
      const { kinds, result } = declared;
      if (node.args.length !== kinds.length) this.refuse(node, "a call has another number of arguments than its function");
      this.reads.add(`fn ${node.name}`);
      return { k: "function", t: result, name: node.name, args: node.args.map((/** @type {RuleNode} */ each, /** @type {number} */ at) => this.check(each, kinds[at])) };
    }
    if (this.enums.has(node.name)) {
      const argument = this.check(node.args[0] ?? node);
      if (node.args.length !== 1 || unwrapOption(argument.t) !== this.types.TEXT) this.refuse(node, `\`${node.name}\` needs a \`Text\``);
      return { k: "call", op: "toEnum", t: this.types.opt(declared.type), args: [argument], fixed: { enum: node.name } };
    }
    if (node.args.length !== declared.columns.length) this.refuse(node, "a lookup has another number of arguments than its table has columns");
    const args = node.args.map((/** @type {RuleNode} */ each, /** @type {number} */ at) => this.check(each, declared.columns[at]));
    return { k: "table", t: this.types.opt(declared.type), table: node.name, args };
  }

  // Lists and records

  /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
  checkList(node, want) {
    if (node.items.length === 0) {
      if (want?.k !== "List") this.refuse(node, "the type of `[]` is not known here");
      return { k: "list", t: want, items: [] };
    }
    const [type, items] = this.checkSameType(node.items, want?.k === "List" ? want.item : null);
    return { k: "list", t: this.types.list(type), items };
  }

  /** Expressions of one type: the wanted one, or that of the first that does not take its type from others. @param {RuleNode[]} nodes @param {RuleType | null} want @returns {[RuleType, TypedExpr[]]} */
  checkSameType(nodes, want) {
    if (want !== null) return [want, nodes.map((node) => this.check(node, want))];
    const first = nodes.findIndex((node) => !isUndecided(node));
    if (first < 0) {
      const numbers = nodes.filter((node) => node.k === "number");
      if (numbers.length === 0) this.refuse(nodes[0], "the type is not known here");
      for (const number of numbers) this.requireNumberBounds(number);
      const type = this.chooseNumberType(numbers);
      return [type, nodes.map((node) => this.check(node, type))];
    }
    const decided = this.check(nodes[first]);
    return [decided.t, nodes.map((node, at) => (at === first ? decided : this.check(node, decided.t)))];
  }

  /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
  checkRecord(node, want) {
    const wanted = want?.k === "Record" ? want.members : new Map();
    const names = node.members.map((/** @type {any} */ member) => member.name);
    if (new Set(names).size < names.length) this.refuse(node, "a member is listed twice");
    const members = node.members.map((/** @type {any} */ { name, value }) => ({ name, value: this.check(value, wanted.get(name) ?? null) }));
    for (const { value } of members) if (value.t.hasFacts) this.refuse(node, "a record cannot contain fact records");
    const type = this.types.record(members.map((/** @type {any} */ { name, value }) => [name, value.t]));
    return { k: "record", t: type, members };
  }

  /** @param {RuleNode} node @returns {TypedExpr} */
  checkMember(node) {
    const named = node.record;
    if (named.k === "variable" && !this.scope.has(named.name) && !this.definitions.has(named.name)) {
      const known = this.enums.get(named.name);
      if (known !== undefined && this.sees(node.start, known.start)) {
        if (!known.type.members.includes(node.name)) this.refuse(node, `\`${named.name}\` has no member \`${node.name}\``);
        return { k: "const", t: known.type, value: node.name };
      }
    }
    const record = this.check(named);
    const inner = unwrapOption(record.t);
    const type = inner.k === "Fact" || inner.k === "Record" ? this.types.listMembers(inner).get(node.name) : undefined;
    if (type === undefined) return this.refuse(node, `\`${record.t.text.slice(0, 80)}\` has no member \`${node.name}\``);
    const isOption = record.t !== inner || inner.k === "Fact";
    return { k: "call", op: "member", t: isOption && type.k !== "Opt" ? this.types.opt(type) : type, args: [record], fixed: { member: node.name } };
  }

  // Operators

  /** @param {RuleNode} node @returns {TypedExpr} */
  checkUnary(node) {
    const operand = this.check(node.operand);
    if (node.op === "!") return { k: "unary", op: "!", t: this.types.BOOL, operand: this.requireBool(node.operand, operand) };
    if (!isNumberType(operand.t)) this.refuse(node, "`-` needs an Int, a Dec or a Qty");
    return { k: "unary", op: "neg", t: operand.t, operand };
  }

  /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
  checkChain(node, want) {
    const nodes = [node.first, ...node.links.map((/** @type {any} */ link) => link.operand)];
    const operands = nodes.map((each) => this.check(each));
    const { op } = node.links[0];
    if (op === "&&" || op === "||") {
      operands.forEach((operand, at) => this.requireBool(nodes[at], operand));
      return { k: "logic", op, t: this.types.BOOL, first: operands[0], operands: operands.slice(1) };
    }
    const scaled = op === "+" || op === "-" ? this.scaleLiterals(nodes, operands, want) : operands;
    scaled.forEach((operand, at) => isNumberType(operand.t) || this.refuse(nodes[at], "an operator works on Int, Dec and Qty"));
    let type = scaled[0].t;
    const steps = node.links.map((/** @type {any} */ link, /** @type {number} */ at) => {
      const result = this.findResultType(link.op, type, scaled[at + 1].t);
      if (result === null) return this.refuse(node, `\`${type.text} ${link.op} ${scaled[at + 1].t.text}\` is not possible`);
      type = result;
      return { op: link.op, operand: scaled[at + 1], t: type };
    });
    return { k: "arithmetic", t: type, first: scaled[0], steps };
  }

  /** In a sum, literals take the scale of the other operands. @param {RuleNode[]} nodes @param {TypedExpr[]} operands @param {RuleType | null} want @returns {TypedExpr[]} */
  scaleLiterals(nodes, operands, want) {
    const numbers = nodes.filter((node) => node.k === "number");
    if (numbers.length === 0) return operands;
    const others = operands.filter((_, at) => nodes[at].k !== "number").map((operand) => operand.t);
    const type = others.length ? (others.find((each) => each !== this.types.INT) ?? this.types.INT) : want === this.types.INT || want?.k === "Dec" ? want : this.chooseNumberType(numbers);
    return nodes.map((node, at) => {
      if (node.k !== "number") return operands[at];
      if (type.k === "Dec") return this.checkNumber(node, type);
      if (type === this.types.INT && node.digits.includes(".")) return this.checkNumber(node, this.chooseNumberType(numbers));
      return this.typeAsWritten(node);
    });
  }

  /** @param {string} op @param {RuleType} one @param {RuleType} other @returns {RuleType | null} */
  findResultType(op, one, other) {
    const { types } = this;
    if (op === "+" || op === "-") {
      if (one === other) return one;
      if (one === types.INT && other.k === "Dec") return other;
      return other === types.INT && one.k === "Dec" ? one : null;
    }
    if (op === "*") {
      if (one.k === "Qty" && other.k === "Qty") return this.findQuantity(multiplyUnits(/** @type {string} */ (one.unit), /** @type {string} */ (other.unit)));
      if (one.k === "Qty") return one;
      if (other.k === "Qty" || one === types.INT) return other;
      if (other === types.INT) return one;
      const scale = getScaleOf(one) + getScaleOf(other);
      return scale <= LARGEST_SCALE ? types.dec(scale) : null;
    }
    if (other.k !== "Qty") return one.k === "Qty" ? one : types.dec(QUANTITY_SCALE);
    if (one === other) return types.dec(QUANTITY_SCALE);
    return one.k === "Qty" ? this.findQuantity(divideUnits(/** @type {string} */ (one.unit), /** @type {string} */ (other.unit))) : null;
  }

  /** @param {string | null} unit */
  findQuantity(unit) {
    return unit === null ? null : this.types.qty(unit);
  }

  /** @param {RuleNode} node @returns {TypedExpr} */
  checkComparison(node) {
    const [left, right] = this.checkSides(node);
    const areDecs = left.t.k === "Dec" && right.t.k === "Dec";
    if (left.t !== right.t && !areDecs) this.refuse(node, `\`${left.t.text.slice(0, 80)}\` cannot be compared with \`${right.t.text.slice(0, 80)}\``);
    const isEquality = node.op === "==" || node.op === "!=";
    if (left.t.hasFacts || (!isEquality && !isOrderedType(left.t))) this.refuse(node, `\`${node.op}\` does not compare \`${left.t.text.slice(0, 80)}\``);
    return { k: "comparison", op: node.op, t: this.types.BOOL, of: left.t.k === "Dec" ? "Dec" : left.t.text, left, right };
  }

  /** Both sides; a literal takes its type from the other one. @param {RuleNode} node @returns {[TypedExpr, TypedExpr]} */
  checkSides({ op, left: one, right: other }) {
    if (isUndecided(one) && isUndecided(other)) {
      if (one.k === "number" && other.k === "number") {
        const type = this.chooseNumberType([one, other]);
        return [this.typeBeside(one, type), this.typeBeside(other, type)];
      }
      const right = this.check(other);
      return [this.checkLiteralSide(op, one, right), right];
    }
    if (isUndecided(one)) {
      const right = this.check(other);
      return [this.checkLiteralSide(op, one, right), right];
    }
    if (isUndecided(other)) {
      const left = this.check(one);
      return [left, this.checkLiteralSide(op, other, left)];
    }
    const takesType = (/** @type {RuleNode} */ each) => this.isAmbiguous(each) || isSomeNumber(each);
    if (takesType(one) && !takesType(other)) {
      const right = this.check(other);
      return [this.checkBeside(one, right.t), right];
    }
    const left = this.check(one);
    return [left, takesType(other) ? this.checkBeside(other, left.t) : this.check(other)];
  }

  /** A side that takes its type from the other: a member of several enumerations, or `some(0)` beside an option of a Dec. @param {RuleNode} node @param {RuleType} type @returns {TypedExpr} */
  checkBeside(node, type) {
    const isTaken = !isSomeNumber(node) || (type.k === "Opt" && type.item.k === "Dec");
    return isTaken ? this.check(node, type) : this.check(node);
  }

  /** @param {string} op @param {RuleNode} literal @param {TypedExpr} other @returns {TypedExpr} */
  checkLiteralSide(op, literal, other) {
    if (literal.k === "number") return this.typeBeside(literal, other.t);
    if (op !== "==" && op !== "!=") this.refuse(literal, `\`${op}\` does not compare such values`);
    return this.check(literal, other.t);
  }

  /** `option ?? option ?? value` @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
  checkCoalesce(node, want) {
    const nodes = [node.first, ...node.links.map((/** @type {any} */ link) => link.operand)];
    const first = this.requireOption(nodes[0]);
    const option = first.t;
    const middle = nodes.slice(1, -1).map((each) => this.check(each, option));
    const lastNode = nodes[nodes.length - 1];
    let last;
    if (want === option || lastNode.k === "none") last = this.check(lastNode, option);
    else if (want === option.item || listResults(lastNode).every((each) => ["number", "list", "record"].includes(each.k))) last = this.check(lastNode, option.item);
    else last = this.check(lastNode);
    if (last.t !== option && last.t !== option.item) this.refuse(lastNode, `expected \`${option.item.text}\`, but this is \`${last.t.text}\``);
    return { k: "coalesce", t: last.t, first, operands: [...middle, last] };
  }

  /** @param {RuleNode} node @returns {TypedExpr} */
  requireOption(node) {
    const expr = this.check(node);
    if (expr.t.k !== "Opt") this.refuse(node, "this must be an option, a value that may be absent");
    return expr;
  }

  /** @param {RuleNode} node @returns {TypedExpr} */
  requireList(node) {
    const expr = this.check(node);
    if (expr.t.k !== "List") this.refuse(node, "this must be a List");
    return expr;
  }

  /** @param {RuleNode} node @returns {TypedExpr} */
  checkPresence(node) {
    const isSome = { k: "call", op: "isSome", t: this.types.BOOL, args: [this.requireOption(node.operand)], fixed: {} };
    return node.isPresent ? isSome : { k: "unary", op: "!", t: this.types.BOOL, operand: isSome };
  }

  /** `value in list` @param {RuleNode} node @returns {TypedExpr} */
  checkMembership(node) {
    let value, items;
    if (isUndecided(node.left)) {
      items = this.requireList(node.right);
      value = this.check(node.left, items.t.item);
    } else {
      value = this.check(node.left);
      items = node.right.k === "list" ? this.check(node.right, this.types.list(value.t)) : this.requireList(node.right);
    }
    if (items.t.item !== value.t || value.t.hasFacts) this.refuse(node, "`in` needs a list of values of one type");
    return { k: "call", op: "in", t: this.types.BOOL, args: [value, items], fixed: {} };
  }

  /** A piece of a text: what is no Text is written as one. @param {RuleNode} node @returns {TypedExpr} */
  checkPiece(node) {
    const expr = this.check(node);
    return expr.t === this.types.TEXT ? expr : this.writeAsText(node, expr);
  }

  /** @param {RuleNode} node @param {TypedExpr} expr @returns {TypedExpr} */
  writeAsText(node, expr) {
    const type = unwrapOption(expr.t);
    if (!["Bool", "Int", "Text", "Date", "Dec", "Qty", "Enum"].includes(type.k)) this.refuse(node, "this cannot be written as a text");
    return { k: "call", op: "text", t: this.types.TEXT, args: [expr], fixed: { of: type.k === "Dec" ? "Dec" : type.text } };
  }

  // Branches and blocks

  /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
  checkIf(node, want) {
    const conditions = node.branches.map((/** @type {any} */ branch) => (branch.binding === null ? this.requireBool(branch.condition, this.check(branch.condition)) : this.requireOption(branch.condition)));
    const bodies = node.branches.map((/** @type {any} */ branch, /** @type {number} */ at) =>
      branch.binding === null || isUndecided(branch.body) ? branch.body : { k: "scoped", name: branch.binding, type: conditions[at].t.item, body: branch.body, start: branch.body.start },
    );
    const [type, exprs] = this.checkSameType([...bodies, node.otherwise], want);
    const branches = node.branches.map((/** @type {any} */ branch, /** @type {number} */ at) => ({ condition: conditions[at], binding: branch.binding, body: exprs[at] }));
    return { k: "if", t: type, branches, otherwise: exprs[exprs.length - 1] };
  }

  /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
  checkScoped(node, want) {
    this.bind(node, node.name, node.type);
    const body = this.checkAny(node.body, want);
    this.scope.delete(node.name);
    return body;
  }

  /** Make a name visible, which must not be visible yet. @param {RuleNode} node @param {string} name @param {RuleType} type */
  bind(node, name, type) {
    if (this.scope.has(name)) this.refuse(node, `the name \`${name}\` is already in use`);
    this.scope.set(name, { type, level: this.lambdas.length });
  }

  /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
  checkMatch(node, want) {
    const subject = this.check(node.subject);
    const type = unwrapOption(subject.t);
    if (type.k !== "Enum") this.refuse(node, "`match` needs an enumeration");
    const open = new Set([...type.members, ...(subject.t.k === "Opt" ? ["none"] : [])]);
    const members = node.arms.map((/** @type {any} */ arm) => {
      const names = arm.patterns[0] === "else" ? [...open] : arm.patterns;
      for (const name of names) if (!open.delete(name)) this.refuse(node, `\`${name}\` is no member, or is taken by another case`);
      return names.map((/** @type {string} */ name) => (name === "none" ? null : name));
    });
    if (open.size) this.refuse(node, "the match has no case for some members");
    const [result, bodies] = this.checkSameType(node.arms.map((/** @type {any} */ arm) => arm.body), want);
    return { k: "match", t: result, subject, arms: bodies.map((body, at) => ({ members: members[at], body })) };
  }

  /** @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
  checkBlock(node, want) {
    /** @type {string[]} */
    const bound = [];
    const bindings = node.bindings.map((/** @type {any} */ binding) => {
      if (binding.k === "assert") return { ...binding, condition: this.requireBool(binding.condition, this.check(binding.condition)) };
      const value = this.check(binding.value);
      this.bind(node, binding.name, value.t);
      bound.push(binding.name);
      return { k: "let", name: binding.name, value };
    });
    const body = this.check(node.body, want);
    for (const name of bound) this.scope.delete(name);
    return { k: "block", t: body.t, bindings, body };
  }
}

/** Whether an expression takes its type from its context. @param {RuleNode} node */
export function isUndecided(node) {
  return node.k === "number" || node.k === "none" || (node.k === "list" && node.items.length === 0);
}

/** Whether an expression is `some` of a number as it is written. @param {RuleNode} node @returns {boolean} */
function isSomeNumber(node) {
  return node.k === "call" && node.name === "some" && node.args.length === 1 && node.args[0].k === "number";
}

/** The expressions that an `if` or a block may give. @param {RuleNode} node @returns {RuleNode[]} */
function listResults(node) {
  if (node.k === "if") return [...node.branches.map((/** @type {any} */ branch) => branch.body), node.otherwise].flatMap(listResults);
  return node.k === "block" ? listResults(node.body) : [node];
}

/** A literal as a count. @param {RuleNode} node @param {number} scale @returns {bigint} */
function scaleDigits(node, scale) {
  const [whole, fraction = ""] = node.digits.split(".");
  const count = BigInt(whole + fraction.slice(0, scale).padEnd(scale, "0"));
  return node.negative ? -count : count;
}
