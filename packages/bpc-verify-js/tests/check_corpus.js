/** Check a corpus folder and print {"files": {"name": {"ok": …, "failed": ["step", …]}}, "status": {"case": "revoked"}}. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { recomputeProof } from "../src/rules/proof-steps.js";
import { isView, parsePolicy, readKeySet, verifyAnything, verifyBundle, verifyView } from "../src/index.js";

const [folder, honest] = process.argv.slice(2);
const pins = readKeySet(JSON.parse(readFileSync(join(honest, "keys.json"), "utf8")));
const policy = await parsePolicy(readFileSync(join(honest, "policy.txt"), "utf8"));
const names = Object.keys(JSON.parse(readFileSync(join(folder, "expected.json"), "utf8")));
/** @type {Record<string, { ok: boolean, steps: string[], failed: string[] }>} */
const verdicts = {};
for (const name of names) {
  const bytes = new Uint8Array(readFileSync(join(folder, name)));
  const report = isView(bytes) ? await verifyView(bytes, { pins }) : await verifyBundle(bytes, { pins, policy, recompute: recomputeProof });
  const steps = report.steps.map((step) => step.name);
  verdicts[name] = { ok: report.ok, steps, failed: report.steps.filter((step) => !step.ok).map((step) => step.name) };
}
for (const name of Object.keys(JSON.parse(readFileSync(join(folder, "items.json"), "utf8")))) {
  const report = await verifyAnything(new Uint8Array(readFileSync(join(folder, name))), { pins, policy, recompute: recomputeProof });
  const failed = report.steps.filter((step) => !step.ok).map((step) => step.name);
  verdicts[name] = { ok: report.ok, steps: report.steps.map((step) => step.name), failed };
}
const load = (/** @type {string} */ name) => new Uint8Array(readFileSync(join(folder, name)));
/** @type {Record<string, string>} */
const statuses = {};
for (const [name, { file, documents, now }] of Object.entries(JSON.parse(readFileSync(join(folder, "status.json"), "utf8")))) {
  const { steps, status } = await verifyView(load(file), { pins, question: { documents: documents.map(load), now } });
  const isRefused = !steps[steps.length - 1].ok && status.name === "not_asked";
  statuses[name] = isRefused ? "refused" : status.name;
}
console.log(JSON.stringify({ files: verdicts, status: statuses }));
