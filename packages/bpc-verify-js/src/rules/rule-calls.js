/** Calls of built-in functions: what each takes, and the type of what it gives (docs/rules/functions.md). */

import { QUANTITY_SCALE, findUnitFactor, getScaleOf, isNumberType, isOrderedType, isUnit, unwrapOption } from "./rule-types.js";

/** @typedef {import("./rule-checker.js").RuleChecker} RuleChecker */
/** @typedef {any} RuleNode */
/** @typedef {any} TypedExpr */
/** @typedef {import("./rule-types.js").RuleType} RuleType */
/** @typedef {(checker: RuleChecker, node: RuleNode, args: RuleNode[], want: RuleType | null) => TypedExpr} CallCheck */

const STATUS_TEXTS = new Set(["PASS", "FAIL", "WARN", "NOT_APPLICABLE"]);

/** @param {string} op @param {RuleType} type @param {TypedExpr[]} args @param {Record<string, string | number>} [fixed] @returns {TypedExpr} */
function makeCall(op, type, args, fixed = {}) {
  return { k: "call", op, t: type, args, fixed };
}

/** @param {RuleChecker} checker @param {RuleNode} node @returns {string} */
function requireTextLiteral(checker, node) {
  if (node.k !== "text") checker.refuse(node, "this must be a text in quotes");
  return node.value;
}

/** @param {RuleChecker} checker @param {RuleNode} node @returns {number} */
function requireScale(checker, node) {
  if (node.k !== "number" || node.negative || !/^0*[0-9]{1,2}$/.test(node.digits) || Number(node.digits) > QUANTITY_SCALE) checker.refuse(node, "the number of decimals must be a literal from 0 to 18");
  return Number(node.digits);
}

/** @param {RuleChecker} checker @param {RuleNode} node @returns {string} */
function requireUnit(checker, node) {
  const unit = requireTextLiteral(checker, node);
  if (!isUnit(unit)) checker.refuse(node, `there is no unit \`${unit.slice(0, 80)}\``);
  return unit;
}

/** @param {RuleChecker} checker @param {RuleNode} node @param {(type: RuleType) => boolean} accepts @returns {TypedExpr} */
function requireType(checker, node, accepts) {
  const expr = checker.check(node);
  if (!accepts(expr.t)) checker.refuse(node, `\`${expr.t.text.slice(0, 80)}\` does not fit here`);
  return expr;
}

/** @param {RuleType} type */
const isPlainNumber = (type) => type.k === "Int" || type.k === "Dec";

/** @param {RuleChecker} checker @param {RuleNode} node @param {string} op @param {RuleType} result @returns {TypedExpr} */
function checkTexts(checker, node, op, result) {
  return makeCall(op, result, node.args.map((/** @type {RuleNode} */ each) => checker.requireText(each)));
}

/** @param {RuleChecker} checker @param {string} op @param {TypedExpr} one @param {TypedExpr} other @returns {TypedExpr} */
function makeExtreme(checker, op, one, other) {
  const [left, right] = [unwrapOption(one.t), unwrapOption(other.t)];
  const type = getScaleOf(right) > getScaleOf(left) ? right : left;
  const isOption = one.t.k === "Opt" || other.t.k === "Opt";
  return makeCall(op, isOption ? checker.types.opt(type) : type, [one, other], { of: type.k === "Dec" ? "Dec" : type.text });
}

/** min and max, of a list or of two values. @type {CallCheck} */
function checkExtreme(checker, node, args) {
  if (args.length === 1) {
    const items = checker.requireList(args[0]);
    const type = items.t.item;
    if (!isOrderedType(type)) checker.refuse(node, "such values have no order");
    return makeCall(node.name, checker.types.opt(type), [items], { of: type.k === "Dec" ? "Dec" : type.text });
  }
  const isOpen = (/** @type {RuleNode} */ each) => each.k === "number" || each.k === "none" || (each.k === "list" && each.items.length === 0);
  const known = args.map((each) => (isOpen(each) ? null : checker.check(each)));
  const numbers = args.filter((each) => each.k === "number");
  const type = known.find((each) => each !== null)?.t ?? (numbers.length === 2 ? checker.chooseNumberType(numbers) : null);
  const [one, other] = args.map((each, at) => {
    const side = known[at];
    if (side !== null) return side;
    if (type === null) return checker.check(each);
    return each.k === "number" ? checker.typeBeside(each, unwrapOption(type)) : checker.check(each, checker.types.opt(unwrapOption(type)));
  });
  const [left, right] = [unwrapOption(one.t), unwrapOption(other.t)];
  if ((left !== right && !(left.k === "Dec" && right.k === "Dec")) || !isOrderedType(left)) checker.refuse(node, "these have no common order");
  return makeExtreme(checker, node.name, one, other);
}

/** laterOf, latestOf and earlierOf. @type {CallCheck} */
function checkExtremeDay(checker, node, args) {
  const [one, other] = args.map((each) => requireType(checker, each, (type) => unwrapOption(type) === checker.types.DATE));
  return makeExtreme(checker, node.name === "earlierOf" ? "min" : "max", one, other);
}

/** @type {CallCheck} */
function checkRounding(checker, node, args) {
  const scale = requireScale(checker, args[0]);
  const number = requireType(checker, args[1], (type) => isPlainNumber(type) || (node.name === "round" && type.k === "Qty"));
  return number.t.k === "Qty" ? makeCall("round", number.t, [number], { scale }) : makeCall("toDec", checker.types.dec(scale), [number], { scale });
}

/** @type {CallCheck} */
function checkLaterDay(checker, node, args) {
  const day = requireType(checker, args[0], (type) => unwrapOption(type) === checker.types.DATE);
  return makeCall(node.name, day.t, [day, checker.check(args[1], checker.types.INT)]);
}

/** The functions that take a lambda, but fold. @type {CallCheck} */
function checkLoop(checker, node, args) {
  const { types } = checker;
  const items = checker.requireList(args[0]);
  const element = items.t.item;
  const { name } = node;
  const { body, captured } = checkLambda(checker, args[1], [element], null);
  let type;
  if (name === "map") type = types.list(body.t);
  else if (["filter", "any", "all"].includes(name)) {
    checker.requireBool(args[1], body);
    type = name === "filter" ? items.t : types.BOOL;
  } else if (name === "groupBy") {
    if (body.t.hasFacts) checker.refuse(node, "fact records cannot be compared");
    type = types.list(types.record([["key", body.t], ["items", types.list(element)]]));
  } else {
    if (!isOrderedType(unwrapOption(body.t))) checker.refuse(node, "such keys have no order");
    type = name === "sortBy" ? items.t : element.k === "Opt" ? element : types.opt(element);
  }
  return { k: "loop", op: name, t: type, items, init: null, parameters: args[1].parameters, body, captured, start: args[1].start, end: args[1].end };
}

/** @type {CallCheck} */
function checkFold(checker, node, args, want) {
  const items = checker.requireList(args[0]);
  const init = checker.check(args[1], want);
  const counts = want === null && init.t === checker.types.INT && args[1].k === "number";
  const { body, captured } = checkLambda(checker, args[2], [init.t, items.t.item], counts ? null : init.t);
  if (body.t !== init.t) checker.refuse(node, "every step of a fold must give the type it starts with");
  return { k: "loop", op: "fold", t: init.t, items, init, parameters: args[2].parameters, body, captured, start: args[2].start, end: args[2].end };
}

/** @param {RuleChecker} checker @param {RuleNode} fn @param {RuleType[]} kinds @param {RuleType | null} want @returns {{ body: TypedExpr, captured: string[] }} */
function checkLambda(checker, fn, kinds, want) {
  if (fn.k !== "lambda" || fn.parameters.length !== kinds.length) checker.refuse(fn, "a function with other parameters is needed here");
  checker.lambdas.push(new Map());
  fn.parameters.forEach((/** @type {string} */ name, /** @type {number} */ at) => checker.bind(fn, name, kinds[at]));
  const body = checker.check(fn.body, want);
  for (const name of fn.parameters) checker.scope.delete(name);
  const mentioned = /** @type {Map<string, number>} */ (checker.lambdas.pop());
  return { body, captured: [...mentioned.keys()].sort((one, other) => /** @type {number} */ (mentioned.get(one)) - /** @type {number} */ (mentioned.get(other))) };
}

/** Whether a status is one of the four texts, or an `if` of such. @param {RuleNode} node @returns {boolean} */
function isStatus(node) {
  if (node.k === "if") return node.branches.every((/** @type {any} */ branch) => isStatus(branch.body)) && isStatus(node.otherwise);
  return node.k === "text" && STATUS_TEXTS.has(node.value);
}

/** @type {CallCheck} */
function checkEmit(checker, node, args) {
  const code = requireTextLiteral(checker, args[0]);
  if (!isStatus(args[1])) checker.refuse(args[1], "this is not a status");
  const status = checker.check(args[1]);
  const message = checker.requireText(args[2]);
  if (checker.lambdas.length || !checker.isInRule) checker.refuse(node, "`emitCompliance` can only be used in the rule of a field");
  return { k: "emit", t: checker.types.BOOL, code, status, message, verdict: null, args: [] };
}

/** @type {CallCheck} */
function checkRecordGet(checker, node, args) {
  const record = requireType(checker, args[0], (type) => type.k === "Fact" || type.k === "Record");
  const member = requireTextLiteral(checker, args[1]);
  const type = checker.types.listMembers(record.t).get(member);
  if (type === undefined) return checker.refuse(node, `there is no member \`${member.slice(0, 80)}\``);
  return makeCall("recordGet", type.k === "Opt" ? type : checker.types.opt(type), [record], { member });
}

/** @type {CallCheck} */
function checkMapGet(checker, _node, args) {
  const map = requireType(checker, args[0], (type) => type.k === "Map");
  const key = checker.requireText(args[1]);
  return makeCall("mapGet", map.t.item.k === "Opt" ? map.t.item : checker.types.opt(map.t.item), [map, key]);
}

/** @type {CallCheck} */
function checkSome(checker, node, args, want) {
  if (args[0].k === "none") checker.refuse(node, "an option cannot contain an option");
  const item = checker.check(args[0], want?.k === "Opt" ? want.item : null, true);
  if (item.t.k === "Opt") checker.refuse(node, "an option cannot contain an option");
  return makeCall("some", checker.types.opt(item.t), [item]);
}

/** @type {CallCheck} */
function checkConvert(checker, node, args) {
  const [source, target] = [requireUnit(checker, args[0]), requireUnit(checker, args[1])];
  if (findUnitFactor(source, target) === null) checker.refuse(node, `\`${source}\` cannot be converted to \`${target}\``);
  return makeCall("convert", checker.types.qty(target), [checker.check(args[2], checker.types.qty(source))], { from: source, to: target });
}

/** @type {CallCheck} */
function checkSumOfDecs(checker, node, args) {
  const scale = requireScale(checker, args[0]);
  const items = checker.requireList(args[1]);
  if (items.t.item.k !== "Dec" || items.t.item.scale > scale) checker.refuse(node, "`sumDec` adds a list of Dec that fits");
  return makeCall("sumDec", checker.types.dec(scale), [items], { scale });
}

/** @type {CallCheck} */
function checkSumOfQuantities(checker, node, args) {
  const unit = requireUnit(checker, args[0]);
  return makeCall("sumQty", checker.types.qty(unit), [checker.check(args[1], checker.types.list(checker.types.qty(unit)))], { unit });
}

/** @type {CallCheck} */
function checkRequireSome(checker, _node, args) {
  const option = checker.requireOption(args[0]);
  return { k: "requireSome", t: option.t.item, option, code: requireTextLiteral(checker, args[1]), message: requireTextLiteral(checker, args[2]) };
}

/** @type {CallCheck} */
function checkPresent(checker, node, args) {
  const items = checker.requireList(args[0]);
  if (items.t.item.k !== "Opt") checker.refuse(node, "`present` takes a list of options");
  return makeCall("present", checker.types.list(items.t.item.item), [items]);
}

/** @type {CallCheck} */
function checkEnd(checker, node, args) {
  const items = checker.requireList(args[0]);
  return makeCall(node.name, items.t.item.k === "Opt" ? items.t.item : checker.types.opt(items.t.item), [items]);
}

/** Each function: the fewest and the most arguments, and its check. @type {Record<string, [number, number, CallCheck]>} */
const LEVEL_ONE_CALLS = {
  getFact: [2, 2, (checker, _, args) => {
    const fact = checker.resolveFact(requireTextLiteral(checker, args[0]), args[0]);
    return { k: "fact", t: checker.types.opt(fact), fact, key: checker.requireText(args[1]) };
  }],
  getFactsByPrefix: [2, 2, (checker, _, args) => {
    const fact = checker.resolveFact(requireTextLiteral(checker, args[0]), args[0]);
    return { k: "facts", t: checker.types.list(fact), fact, key: checker.requireText(args[1]) };
  }],
  recordGet: [2, 2, checkRecordGet],
  mapGet: [2, 2, checkMapGet],
  some: [1, 1, checkSome],
  isSome: [1, 1, (checker, _, args) => makeCall("isSome", checker.types.BOOL, [checker.requireOption(args[0])])],
  unwrapOr: [2, 2, (checker, _, args) => {
    const option = checker.requireOption(args[0]);
    return makeCall("unwrapOr", option.t.item, [option, checker.check(args[1], option.t.item)]);
  }],
  requireSome: [3, 3, checkRequireSome],
  toDec: [2, 2, checkRounding],
  toQty: [2, 2, (checker, _, args) => {
    const unit = requireUnit(checker, args[0]);
    return makeCall("toQty", checker.types.qty(unit), [requireType(checker, args[1], (type) => isPlainNumber(type) && getScaleOf(type) <= QUANTITY_SCALE)], { unit });
  }],
  convert: [3, 3, checkConvert],
  sumQty: [2, 2, checkSumOfQuantities],
  sumDec: [2, 2, checkSumOfDecs],
  amount: [1, 1, (checker, _, args) => makeCall("amount", checker.types.dec(QUANTITY_SCALE), [requireType(checker, args[0], (type) => type.k === "Qty")])],
  map: [2, 2, checkLoop],
  filter: [2, 2, checkLoop],
  fold: [3, 3, checkFold],
  count: [1, 1, (checker, _, args) => makeCall("count", checker.types.INT, [checker.requireList(args[0])])],
  concat: [1, Infinity, (checker, node) => checkTexts(checker, node, "concat", checker.types.TEXT)],
  emitCompliance: [3, 3, checkEmit],
  productSku: [0, 0, (checker) => makeCall("productSku", checker.types.TEXT, [])],
  productName: [0, 0, (checker) => makeCall("productName", checker.types.TEXT, [])],
  issuedOn: [0, 0, (checker) => makeCall("issuedOn", checker.types.DATE, [])],
};
/** @type {Record<string, [number, number, CallCheck]>} */
const LEVEL_TWO_CALLS = {
  text: [1, 1, (checker, _, args) => checker.writeAsText(args[0], checker.check(args[0]))],
  startsWith: [2, 2, (checker, node) => checkTexts(checker, node, "startsWith", checker.types.BOOL)],
  endsWith: [2, 2, (checker, node) => checkTexts(checker, node, "endsWith", checker.types.BOOL)],
  contains: [2, 2, (checker, node) => checkTexts(checker, node, "contains", checker.types.BOOL)],
  split: [2, 2, (checker, node) => checkTexts(checker, node, "split", checker.types.list(checker.types.TEXT))],
  trim: [1, 1, (checker, node) => checkTexts(checker, node, "trim", checker.types.TEXT)],
  length: [1, 1, (checker, node) => checkTexts(checker, node, "length", checker.types.INT)],
  daysBetween: [2, 2, (checker, _, args) => makeCall("daysBetween", checker.types.INT, args.map((each) => checker.check(each, checker.types.DATE)))],
  addDays: [2, 2, checkLaterDay],
  addMonths: [2, 2, checkLaterDay],
  addYears: [2, 2, checkLaterDay],
  year: [1, 1, (checker, node, args) => makeCall("year", checker.types.INT, [checker.check(args[0], checker.types.DATE)])],
  month: [1, 1, (checker, node, args) => makeCall("month", checker.types.INT, [checker.check(args[0], checker.types.DATE)])],
  day: [1, 1, (checker, node, args) => makeCall("day", checker.types.INT, [checker.check(args[0], checker.types.DATE)])],
  laterOf: [2, 2, checkExtremeDay],
  latestOf: [2, 2, checkExtremeDay],
  earlierOf: [2, 2, checkExtremeDay],
  min: [1, 2, checkExtreme],
  max: [1, 2, checkExtreme],
  abs: [1, 1, (checker, _, args) => {
    const number = requireType(checker, args[0], isNumberType);
    return makeCall("abs", number.t, [number]);
  }],
  round: [2, 2, checkRounding],
  sum: [1, 1, (checker, _, args) => {
    const items = requireType(checker, args[0], (type) => type.k === "List" && isNumberType(type.item));
    return makeCall("sum", items.t.item, [items]);
  }],
  first: [1, 1, checkEnd],
  last: [1, 1, checkEnd],
  distinct: [1, 1, (checker, _, args) => {
    const items = requireType(checker, args[0], (type) => type.k === "List" && !type.hasFacts);
    return makeCall("distinct", items.t, [items]);
  }],
  present: [1, 1, checkPresent],
  isEmpty: [1, 1, (checker, _, args) => makeCall("isEmpty", checker.types.BOOL, [checker.requireList(args[0])])],
  any: [2, 2, checkLoop],
  all: [2, 2, checkLoop],
  sortBy: [2, 2, checkLoop],
  latestBy: [2, 2, checkLoop],
  groupBy: [2, 2, checkLoop],
};

/** @param {RuleChecker} checker @param {RuleNode} node @param {RuleType | null} want @returns {TypedExpr} */
export function checkBuiltin(checker, node, want) {
  const calls = checker.language > 1 ? { ...LEVEL_ONE_CALLS, ...LEVEL_TWO_CALLS } : LEVEL_ONE_CALLS;
  if (!Object.hasOwn(calls, node.name)) return checker.refuse(node, `there is no function \`${node.name}\``);
  const [least, most, check] = calls[node.name];
  if (node.args.length < least || node.args.length > most) checker.refuse(node, `\`${node.name}\` takes another number of arguments`);
  return check(checker, node, node.args, want);
}
