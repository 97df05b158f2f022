export class RuleWalker {
    /**
     * @param {import("./rule-program.js").RuleProgram} program @param {import("./rule-facts.js").RuleFacts} facts
     * @param {Record<string, string>} world  productSku, productName and issuedOn
     */
    constructor(program: import("./rule-program.js").RuleProgram, facts: import("./rule-facts.js").RuleFacts, world: Record<string, string>);
    program: import("./rule-program.js").RuleProgram;
    facts: import("./rule-facts.js").RuleFacts;
    world: Record<string, string>;
    isByExpression: boolean;
    first: number;
    /** @type {ProofStep[]} */
    steps: ProofStep[];
    /** @type {Map<string, number>} */
    ids: Map<string, number>;
    /** @type {Set<number>} */
    parents: Set<number>;
    /** @type {Map<string, RuleValue>} */
    values: Map<string, RuleValue>;
    /** @type {Map<string, number>} */
    derivations: Map<string, number>;
    /** @type {Map<string, MissingCause>} */
    missingFields: Map<string, MissingCause>;
    /** @type {Map<string, any>} */
    defined: Map<string, any>;
    /** @type {any[]} */
    compliance: any[];
    /** @type {Map<string, TracedValue>} */
    variables: Map<string, TracedValue>;
    depth: number;
    /** @type {Set<number>} */
    reads: Set<number>;
    field: string;
    evaluations: number;
    /** Compute a field. @param {import("./rule-program.js").RuleField} field @param {string} salt */
    deriveField(field: import("./rule-program.js").RuleField, salt: string): void;
    /** The place of a field's rule, and why its value is missing if it is. @param {import("./rule-program.js").RuleField} field @param {any} data @param {MissingCause | null} cause */
    noteOutcome(field: import("./rule-program.js").RuleField, data: any, cause: MissingCause | null): void;
    /** The steps, with the hashes that waited for the browser. @returns {Promise<ProofStep[]>} */
    finishSteps(): Promise<ProofStep[]>;
    get nextId(): number;
    /** Add a node unless an equal one exists. @param {string} type @param {any} data @param {number[]} children @returns {number} */
    addNode(type: string, data: any, children: number[]): number;
    /** The node over a result and every node since `start` that no other refers to. @param {number} start @param {TracedValue} result @param {any} data */
    close(start: number, result: TracedValue, data: any): number;
    /** A node that has only this data; none inside a lambda. @param {string} type @param {any} data @param {RuleValue} value @param {TracedValue[]} children @returns {TracedValue} */
    trace(type: string, data: any, value: RuleValue, children: TracedValue[]): TracedValue;
    /** An operator whose node has its result. @param {any} data @param {import("./rule-types.js").RuleType} type @param {RuleValue} value @param {TracedValue[]} children @returns {TracedValue} */
    traceResult(data: any, type: import("./rule-types.js").RuleType, value: RuleValue, children: TracedValue[]): TracedValue;
    /** @param {TypedExpr} body @param {number} depth @returns {TracedValue} */
    evaluateApart(body: TypedExpr, depth: number): TracedValue;
    /** Evaluate an expression of level 2, which reads for itself. @param {TypedExpr} body @returns {{ value: RuleValue, cause: MissingCause | null, reads: number[] }} */
    walkExpression(body: TypedExpr): {
        value: RuleValue;
        cause: MissingCause | null;
        reads: number[];
    };
    /** @param {RuleValue} value @param {number} node @returns {TracedValue} */
    recordRead(value: RuleValue, node: number): TracedValue;
    /** @param {TypedExpr} expr @returns {TracedValue} */
    evaluate(expr: TypedExpr): TracedValue;
    /** @param {TypedExpr} expr @returns {TracedValue} */
    evaluateField({ path }: TypedExpr): TracedValue;
    /** @param {TypedExpr} expr @returns {TracedValue} */
    evaluateDefinition({ name }: TypedExpr): TracedValue;
    /** @param {string} name @returns {{ value: RuleValue, node: number, cause: MissingCause | null }} */
    computeDefinition(name: string): {
        value: RuleValue;
        node: number;
        cause: MissingCause | null;
    };
    /** @param {TypedExpr} expr @returns {TracedValue} */
    evaluateFunction(expr: TypedExpr): TracedValue;
    /** @param {TypedExpr} expr @returns {TracedValue} */
    evaluateFacts(expr: TypedExpr): TracedValue;
    /** @param {TypedExpr} expr @returns {TracedValue} */
    evaluateArithmetic(expr: TypedExpr): TracedValue;
    /** @param {TypedExpr} expr @returns {TracedValue} */
    evaluateLogic(expr: TypedExpr): TracedValue;
    /** Each `else if` is the `else` of the one before, so its node is made before that one's. @param {TypedExpr} expr @returns {TracedValue} */
    evaluateIf(expr: TypedExpr): TracedValue;
    /** Evaluated as written, shown by name. @param {TypedExpr} expr @returns {TracedValue} */
    evaluateRecord(expr: TypedExpr): TracedValue;
    /** @param {TypedExpr} expr @returns {TracedValue} */
    evaluateCall(expr: TypedExpr): TracedValue;
    /** @param {TypedExpr} expr @returns {TracedValue} */
    evaluateTable(expr: TypedExpr): TracedValue;
    /** @param {TypedExpr} expr @returns {TracedValue} */
    evaluateLoop(expr: TypedExpr): TracedValue;
    /** What the lambda gives for each element; of a fold, the accumulator after it. @param {TypedExpr} expr @param {RuleValue[]} items @param {RuleValue} init @returns {RuleValue[]} */
    runLambda(expr: TypedExpr, items: RuleValue[], init: RuleValue): RuleValue[];
    /** @param {TypedExpr} expr @returns {TracedValue} */
    evaluateEmit(expr: TypedExpr): TracedValue;
    /** A requirement that needs what is missing is not met, and says what is missing. @param {TypedExpr} expr @returns {boolean} */
    evaluateRequirement(expr: TypedExpr): boolean;
    /** @param {{ code: string, message: string, status: string, verdict?: string, args?: any }} entry @returns {any} */
    addEntry({ code, message, status, verdict, args }: {
        code: string;
        message: string;
        status: string;
        verdict?: string;
        args?: any;
    }): any;
    /** @param {number[]} reads @param {[number, number] | null} place */
    addEntryNode(reads: number[], place: [number, number] | null): void;
    /** An assert's node has what follows it as its body, so the last assert's node is made first. @param {TypedExpr} expr @returns {TracedValue} */
    evaluateBlock(expr: TypedExpr): TracedValue;
}
/**
 * The walk over a program: each field's value, and the nodes of the proof in their order (docs/formats/proof.md).
 *
 * At level 1 every operator has a node, outside of lambdas. At level 2 a field, a definition and an entry have one each;
 * its children are the facts, fields, definitions and entries that its expression asked for, in the order in which it
 * first did.
 */
export type TypedExpr = any;
/**
 * The walk over a program: each field's value, and the nodes of the proof in their order (docs/formats/proof.md).
 *
 * At level 1 every operator has a node, outside of lambdas. At level 2 a field, a definition and an entry have one each;
 * its children are the facts, fields, definitions and entries that its expression asked for, in the order in which it
 * first did.
 */
export type RuleValue = any;
/**
 * The walk over a program: each field's value, and the nodes of the proof in their order (docs/formats/proof.md).
 *
 * At level 1 every operator has a node, outside of lambdas. At level 2 a field, a definition and an entry have one each;
 * its children are the facts, fields, definitions and entries that its expression asked for, in the order in which it
 * first did.
 */
export type TracedValue = {
    v: RuleValue;
    n: number;
};
/**
 * The walk over a program: each field's value, and the nodes of the proof in their order (docs/formats/proof.md).
 *
 * At level 1 every operator has a node, outside of lambdas. At level 2 a field, a definition and an entry have one each;
 * its children are the facts, fields, definitions and entries that its expression asked for, in the order in which it
 * first did.
 */
export type ProofStep = {
    type: string;
    data: any;
    children: number[];
};
/**
 * The walk over a program: each field's value, and the nodes of the proof in their order (docs/formats/proof.md).
 *
 * At level 1 every operator has a node, outside of lambdas. At level 2 a field, a definition and an entry have one each;
 * its children are the facts, fields, definitions and entries that its expression asked for, in the order in which it
 * first did.
 */
export type MissingCause = {
    code: string;
    message: string;
};
