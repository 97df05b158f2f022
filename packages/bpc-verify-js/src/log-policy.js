/** Policies, C2SP tlog-policy: which logs and witnesses somebody trusts, and how many witnesses are enough. */

import { CheckFailed } from "./errors.js";
import { LOG_KEY, parseVerifierKey } from "./notes.js";

/** @typedef {import("./notes.js").VerifierKey} VerifierKey */
/** @typedef {{ logs: VerifierKey[], witnesses: Map<string, VerifierKey>, groups: Map<string, { threshold: number, members: string[] }>, quorum: string }} LogPolicy */

/** @param {string} text @returns {Promise<LogPolicy>} */
export async function parsePolicy(text) {
  /** @type {LogPolicy} */
  const policy = { logs: [], witnesses: new Map(), groups: new Map(), quorum: "" };
  for (const [at, line] of text.split("\n").entries()) {
    const words = line.split(/[ \t]+/).filter(Boolean);
    if (words.length === 0 || words[0].startsWith("#")) continue;
    try {
      await readPolicyLine(policy, words);
    } catch (error) {
      if (!(error instanceof CheckFailed)) throw error;
      throw new CheckFailed(`line ${at + 1} of the log policy: ${error.message}`);
    }
  }
  if (policy.quorum === "") throw new CheckFailed("the log policy has no quorum line");
  return policy;
}

/** @param {LogPolicy} policy @param {string[]} words */
async function readPolicyLine(policy, [kind, ...words]) {
  if (kind === "log" && (words.length === 1 || words.length === 2)) {
    const key = await parseVerifierKey(words[0]);
    if (key.type !== LOG_KEY) throw new CheckFailed("the key is not a log's");
    policy.logs.push(key);
  } else if (kind === "witness" && (words.length === 2 || words.length === 3)) {
    requireNewName(policy, words[0]);
    const key = await parseVerifierKey(words[1]);
    if (key.type === LOG_KEY) throw new CheckFailed("the key is not a witness's");
    policy.witnesses.set(words[0], key);
  } else if (kind === "group" && words.length >= 3) {
    requireNewName(policy, words[0]);
    const members = words.slice(2);
    for (const member of members) requireName(policy, member);
    policy.groups.set(words[0], { threshold: parseThreshold(words[1], members.length), members });
  } else if (kind === "quorum" && words.length === 1 && policy.quorum === "") {
    if (words[0] !== "none") requireName(policy, words[0]);
    policy.quorum = words[0];
  } else {
    throw new CheckFailed("it is not a line of a policy");
  }
}

/** @param {LogPolicy} policy @param {string} name */
function requireNewName(policy, name) {
  if (name === "none" || policy.witnesses.has(name) || policy.groups.has(name)) throw new CheckFailed("it defines a name twice");
}

/** @param {LogPolicy} policy @param {string} name */
function requireName(policy, name) {
  if (!policy.witnesses.has(name) && !policy.groups.has(name)) throw new CheckFailed("it names something that no line defines");
}

/** @param {string} word @param {number} count @returns {number} */
function parseThreshold(word, count) {
  if (word === "all") return count;
  if (word === "any") return 1;
  if (!/^[1-9][0-9]{0,2}$/.test(word) || Number(word) > count) throw new CheckFailed("its threshold is not one");
  return Number(word);
}

/** Whether these witnesses are enough. @param {LogPolicy} policy @param {string[]} cosigners @returns {boolean} */
export function isQuorum(policy, cosigners) {
  /** @param {string} name @returns {boolean} */
  const counts = (name) => {
    const group = policy.groups.get(name);
    if (group === undefined) return cosigners.includes(name);
    return group.members.filter(counts).length >= group.threshold;
  };
  return policy.quorum === "none" || counts(policy.quorum);
}
