/** The walk over the fields of one layer: what belongs to an upper layer is read, with a step of type LAYER_GET. */

import { REQUIREMENTS_PATH } from "./rule-program.js";
import { makeObject } from "./rule-values.js";
import { RuleWalker } from "./rule-walker.js";

/**
 * @typedef {import("./rule-layers.js").Layer} Layer
 * @typedef {{ hash: string, layer: Layer, node: number }} ProofPlace  a node of the proof of an upper layer
 * @typedef {{ value: any, cause: import("./rule-walker.js").MissingCause | null, place: ProofPlace }} UpperValue
 * @typedef {{ count: number, layer: Layer, list_hash: string, value: boolean }} UpperRequirements
 * @typedef {{ fields: Map<string, UpperValue>, definitions: Map<string, UpperValue>, requirements: UpperRequirements[] }} UpperValues
 */

export class LayerWalker extends RuleWalker {
  /**
   * @param {import("./rule-program.js").RuleProgram} program @param {import("./rule-facts.js").RuleFacts} facts
   * @param {Record<string, string>} world @param {UpperValues} upper
   */
  constructor(program, facts, world, upper) {
    super(program, facts, world);
    this.first = 0;
    this.upper = upper;
    for (const [path, { value, cause }] of upper.fields) {
      this.values.set(path, value);
      if (cause !== null) this.missingFields.set(path, cause);
    }
  }

  /** Steps of a layer are blinded together, so a derivation has its path and no salt. @param {import("./rule-program.js").RuleField} field */
  deriveField(field) {
    this.field = field.path;
    const isOfRequirements = field.path === REQUIREMENTS_PATH;
    const { requirements } = this.upper;
    const above = isOfRequirements ? requirements.map((each) => this.addNode("LAYER_GET", makeObject(Object.entries({ ...each, op: "requirements" })), [])) : [];
    const { value, cause, reads } = this.walkExpression(field.body);
    const data = makeObject([
      ["op", "derivation"],
      ["path", field.path],
    ]);
    this.noteOutcome(field, data, cause);
    this.values.set(field.path, isOfRequirements ? Boolean(value) && requirements.every((each) => each.value) : value);
    this.derivations.set(field.path, this.addNode("OP", data, [...above, ...reads]));
  }

  /** @param {any} expr @returns {import("./rule-walker.js").TracedValue} */
  evaluateField(expr) {
    const upper = this.upper.fields.get(expr.path);
    if (upper !== undefined && !this.derivations.has(expr.path)) {
      this.derivations.set(expr.path, this.addNode("LAYER_GET", makeObject(Object.entries({ ...upper.place, path: expr.path })), []));
    }
    return super.evaluateField(expr);
  }

  /** @param {any} expr @returns {import("./rule-walker.js").TracedValue} */
  evaluateDefinition(expr) {
    const upper = this.upper.definitions.get(expr.name);
    if (upper !== undefined && !this.defined.has(expr.name)) {
      const node = this.addNode("LAYER_GET", makeObject(Object.entries({ ...upper.place, name: expr.name })), []);
      this.defined.set(expr.name, { value: upper.value, cause: upper.cause, node });
    }
    return super.evaluateDefinition(expr);
  }

  /** A definition, computed if it is not yet. @param {string} name @returns {{ value: any, node: number, cause: import("./rule-walker.js").MissingCause | null }} */
  holdDefinition(name) {
    if (!this.defined.has(name)) this.defined.set(name, this.computeDefinition(name));
    return this.defined.get(name);
  }
}
