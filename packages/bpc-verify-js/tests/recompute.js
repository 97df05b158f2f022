/** Compute the proofs of all bundles of a folder again, and print what is wrong with each: {"name.zip": ""}. */

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { verifyBundle } from "../src/index.js";
import { recomputeProof } from "../src/rules/proof-steps.js";

const [folder] = process.argv.slice(2);
/** @type {Record<string, string>} */
const details = {};
for (const name of readdirSync(folder)) {
  const report = await verifyBundle(new Uint8Array(readFileSync(join(folder, name))), { recompute: recomputeProof });
  const step = report.steps.find((each) => each.name === "proof_steps");
  details[name] = step?.ok ? "" : (step?.detail ?? "no such step");
}
console.log(JSON.stringify(details));
