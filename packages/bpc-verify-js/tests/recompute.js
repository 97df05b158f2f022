/** Compute the proofs of all bundles of a folder again, and print what is wrong with each: {"name.zip": {"step": "", "detail": ""}}. */

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { verifyAnything } from "../src/index.js";
import { findCause } from "../src/report.js";
import { recomputeProof } from "../src/rules/proof-steps.js";

const [folder] = process.argv.slice(2);
/** @type {Record<string, { step: string, detail: string }>} the first step that fails, and why */
const causes = {};
for (const name of readdirSync(folder)) {
  const report = await verifyAnything(new Uint8Array(readFileSync(join(folder, name))), { recompute: recomputeProof });
  const isComputed = report.steps.some((each) => each.name === "proof_steps");
  const cause = findCause(report) ?? (isComputed ? null : { name: "proof_steps", detail: "no such step" });
  causes[name] = { step: cause?.name ?? "", detail: cause?.detail ?? "" };
}
console.log(JSON.stringify(causes));
