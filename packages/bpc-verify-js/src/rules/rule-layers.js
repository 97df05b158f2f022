/**
 * Layers: which part of a program belongs to the model, to the batch, and to each battery (docs/rules/layers.md).
 *
 * A layer follows from what an expression reads; whatever reads something of a lower layer belongs to that layer.
 */

import { REQUIREMENTS_PATH } from "./rule-program.js";
import { unwrapOption } from "./rule-types.js";

/** @typedef {"model" | "batch" | "item"} Layer */
/** @typedef {import("./rule-program.js").RuleProgram} RuleProgram */

/** @type {Layer[]} each lies below the one before it */
const LAYERS = ["model", "batch", "item"];
/** @type {Record<string, Layer>} every other fact is the model's */
const LAYERS_BY_FACT = { Batch: "batch", Item: "item", Reading: "item", ReadingSeries: "item" };
const DATED_FACT = "Battery";
/** What an expression has beside its parts. */
const NO_PARTS = new Set(["t", "fact"]);

/** @param {string} factType @returns {Layer} */
export function getFactLayer(factType) {
  return Object.hasOwn(LAYERS_BY_FACT, factType) ? LAYERS_BY_FACT[factType] : "model";
}

/** The layer of each field, definition and requirement of a program. */
export class ProgramLayers {
  /** @param {RuleProgram} program */
  constructor(program) {
    this.program = program;
    this.bodies = new Map(program.fields.map((field) => [field.path, field]));
    /** @type {Map<string, Layer>} */
    this.chosen = new Map();
    this.requirements = /** @type {any[]} */ (this.bodies.get(REQUIREMENTS_PATH)?.body.items ?? []);
  }

  /** @param {string} path @returns {Layer} */
  findOfField(path) {
    if (path === REQUIREMENTS_PATH) return "item";
    const field = /** @type {import("./rule-program.js").RuleField} */ (this.bodies.get(path));
    return this.choose(`field ${path}`, field.body, field.layer);
  }

  /** @param {string} name @returns {Layer} */
  findOfDefinition(name) {
    return this.choose(`def ${name}`, this.program.checker.definitions.get(name).body, null);
  }

  /** @param {any} requirement @returns {Layer} */
  findOfRequirement(requirement) {
    return this.choose(`require ${requirement.code}`, requirement.body, requirement.layer);
  }

  /** @param {string} key @param {any} body @param {Layer | null} stated @returns {Layer} */
  choose(key, body, stated) {
    let layer = this.chosen.get(key);
    if (layer === undefined) {
      layer = LAYERS[Math.max(LAYERS.indexOf(stated ?? "model"), this.rankReads(body))];
      this.chosen.set(key, layer);
    }
    return layer;
  }

  /** The place in `LAYERS` of the lowest layer that an expression reads. @param {any} part @returns {number} */
  rankReads(part) {
    if (part === null || typeof part !== "object") return 0;
    if (Array.isArray(part)) return part.reduce((rank, each) => Math.max(rank, this.rankReads(each)), 0);
    let rank = LAYERS.indexOf(this.findOfRead(part));
    for (const [name, value] of Object.entries(part)) if (!NO_PARTS.has(name)) rank = Math.max(rank, this.rankReads(value));
    return rank;
  }

  /** @param {any} part @returns {Layer} */
  findOfRead(part) {
    switch (part.k) {
      case "fact":
      case "facts":
        return getFactLayer(part.fact.name);
      case "field":
        return this.findOfField(part.path);
      case "definition":
        return this.findOfDefinition(part.name);
      case "function":
        return this.choose(`fn ${part.name}`, this.program.checker.functions.get(part.name).body, null);
      case "call":
        return part.op === "issuedOn" || this.readsBatteryDay(part) ? "item" : "model";
      default:
        return "model";
    }
  }

  /** Every date of the fact `Battery` is a battery's own. @param {any} call @returns {boolean} */
  readsBatteryDay(call) {
    if ((call.op !== "recordGet" && call.op !== "member") || call.args.length === 0) return false;
    const record = unwrapOption(call.args[0].t);
    if (record.k !== "Fact" || record.name !== DATED_FACT) return false;
    const { types } = this.program.checker;
    return types.listMembers(record).get(call.fixed.member) === types.DATE;
  }
}
