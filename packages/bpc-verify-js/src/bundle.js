/**
 * A bundle, BPC-BUNDLE-1 and -2: everything that is needed to check a passport, in one zip.
 *
 * The steps are those of `bpc verify`, in its order, but for two that are named in `unchecked`: `proof_steps` (the rules give
 * exactly this computation), unless an evaluator is given as `recompute`, and `replay` (compiling again gives the same
 * bytes). Of `qr` the text is checked; the pixels of the picture are not.
 */

import { readArchive } from "./archive.js";
import { compareTexts, decodeUtf8, encodeUtf8, fromBase64, fromHex, hashBytes, shortenText, toBase32, toHex } from "./bytes.js";
import { decodeCanonical, encodeCanonical } from "./canonical-json.js";
import { isSignedBy, requirePublicKey } from "./ed25519.js";
import { CheckFailed, NotChecked } from "./errors.js";
import { ACCESS_BY_PATH, COMPLIANCE, COUNT, HASH, LIST, OBJECT, PRODUCT, SALT, TEXT, TIME, UUID, allowNull, isObject, oneOf, requireForm } from "./forms.js";
import { describeOwner, findPin, refuseCompromised, requireKeyWindow, requireSameTenant } from "./keys.js";
import { openLogProof, parseLogProof } from "./log-proof.js";
import { checkProofStructure } from "./proof-structure.js";
import { isName, readReceipt } from "./receipt.js";
import { formatCount, makeReport, reportUnreadable, runStep } from "./report.js";
import { NO_QUESTION } from "./status.js";
import { readStatement } from "./status-documents.js";
import { checkReceiptLog, findSigner, runStatusStep } from "./view.js";

/** @typedef {import("./keys.js").PinnedKey} PinnedKey */
/** @typedef {import("./log-policy.js").LogPolicy} LogPolicy */
/** @typedef {import("./status.js").StatusQuestion} StatusQuestion */
/** @typedef {typeof import("./rules/proof-steps.js").recomputeProof} ProofEvaluator */

export const EVALUATED_STEP = "proof_steps";
export const UNCHECKED_STEPS = [EVALUATED_STEP, "replay"];
export const BUNDLE_STEPS = ["canonical", "payload_hash", "snapshot", "facts", "rules", "proof_structure", "receipt_hash", "signature", "qr", "events", "log", "key", "status"];
const LOG_PROOF_NAME = "passport.tlog-proof";
const STATUS_NAME = "status.json";
const MAX_SCHEMA_VERSION = 2 ** 31 - 1;

/** @type {import("./forms.js").Spelling} */
export const KEY_NAME = { accepts: isName, description: "a name" };
/** @type {Record<string, import("./forms.js").ObjectForm>} */
const ENTRY_FORMS = {
  "payload.json": {
    access: ACCESS_BY_PATH,
    battery_product: PRODUCT,
    compliance: COMPLIANCE,
    fields: OBJECT,
    issued_at: TIME,
    passport_id: UUID,
    passport_version_id: UUID,
    payload_version: oneOf("BPC-PASSPORT-1", "BPC-PASSPORT-2"),
    salt: SALT,
  },
  "snapshot.json": { facts: LIST, snapshot_id: UUID, snapshot_version: oneOf("BPC-SNAPSHOT-1") },
  "manifest.json": {
    bundle_version: oneOf("BPC-BUNDLE-1", "BPC-BUNDLE-2"),
    passport_version_id: UUID,
    public_key: TEXT,
    signing_key_id: KEY_NAME,
  },
};
export const SNAPSHOT_FORM = ENTRY_FORMS["snapshot.json"];
/** @type {import("./forms.js").ObjectForm} */
const SNAPSHOT_FACT_FORM = { fact_key: TEXT, fact_type: TEXT, payload_hash: HASH };
/** @type {import("./forms.js").Spelling} */
const FACT_NAME = {
  accepts: (value) => typeof value === "string" && value !== "" && !value.includes("\0"),
  description: "a text of at least one character",
};
/** @type {import("./forms.js").ObjectForm} */
const FACT_FORM = {
  fact_key: FACT_NAME,
  fact_type: FACT_NAME,
  payload: OBJECT,
  schema_version: {
    accepts: (value) => typeof value === "number" && value >= 1 && value <= MAX_SCHEMA_VERSION,
    description: "a whole number from 1",
  },
};
/** @type {import("./forms.js").ObjectForm} */
const EVENT_FORM = {
  actor_id: allowNull(UUID),
  aggregate_id: UUID,
  aggregate_type: TEXT,
  aggregate_version: COUNT,
  event_hash: HASH,
  event_type: TEXT,
  occurred_at: TIME,
  payload: OBJECT,
  payload_hash: HASH,
  prev_event_hash: allowNull(HASH),
  tenant_id: UUID,
};

/** The entries of a bundle, each as far as it could be read. */
export class OpenedBundle {
  /** @param {Map<string, Uint8Array>} entries */
  constructor(entries) {
    this.entries = entries;
    /** @type {Map<string, any>} */
    this.values = new Map();
    /** @type {string[]} */
    this.problems = [];
  }

  /** @param {string} name @returns {any} */
  get(name) {
    if (!this.values.has(name)) throw new NotChecked(`${name} could not be read`);
    return this.values.get(name);
  }

  async read() {
    for (const [name, content] of this.entries) {
      try {
        const value = await readEntry(name, content);
        if (value !== undefined) this.values.set(name, value);
      } catch (error) {
        if (!(error instanceof CheckFailed)) throw error;
        this.problems.push(`${name}: ${error.message}`);
      }
    }
    const version = this.values.get("manifest.json")?.bundle_version;
    if (version !== undefined && (version === "BPC-BUNDLE-2") !== (this.entries.has(LOG_PROOF_NAME) || this.entries.has(STATUS_NAME))) {
      this.problems.push(`the manifest says ${version}, and that does not fit ${LOG_PROOF_NAME} and ${STATUS_NAME}`);
    }
    return this;
  }
}

/** @param {string} name @param {Uint8Array} content @returns {Promise<any>} */
async function readEntry(name, content) {
  if (name in ENTRY_FORMS) {
    const value = requireForm(name, decodeCanonical(content), ENTRY_FORMS[name]);
    if (name === "manifest.json" && fromBase64(value.public_key).length !== 32) throw new CheckFailed("the public key does not have 32 bytes");
    return value;
  }
  if (name === "receipt.json") return readReceipt(name, decodeCanonical(content));
  if (name === "proof.json") return decodeCanonical(content);
  if (name === "facts.jsonl") return readFactLines(content);
  if (name === "events.jsonl") return readLines(content);
  if (name === "qr.txt") {
    if (content.some((byte) => byte > 127)) throw new CheckFailed("it is not ASCII");
    return decodeUtf8(content);
  }
  if (name === LOG_PROOF_NAME) return parseLogProof(content);
  if (name === STATUS_NAME) return readStatement(content);
  return undefined;
}

/** The facts of facts.jsonl. @param {Uint8Array} content @returns {Record<string, any>[]} */
export function readFactLines(content) {
  return readLines(content).map((line, at) => requireForm(`line ${at + 1}`, line, FACT_FORM));
}

/** @param {Uint8Array} content @returns {any[]} */
function readLines(content) {
  const values = [];
  let start = 0;
  for (let end = content.indexOf(10); end >= 0; end = content.indexOf(10, start)) {
    values.push(decodeCanonical(content.subarray(start, end)));
    start = end + 1;
  }
  if (start !== content.length) throw new CheckFailed("it does not end with a line feed");
  return values;
}

/** The entries of the bundle of a model. @param {Uint8Array} bytes @returns {Promise<OpenedBundle>} */
export async function openBundle(bytes) {
  const entries = readArchive(bytes);
  if (entries.has("above.zip")) throw new CheckFailed("this is the bundle of a battery or a batch, not of a model");
  return new OpenedBundle(entries).read();
}

/**
 * Every step that this package has. `recompute` is the evaluator of `bpc-verify/rules`.
 * @param {Uint8Array} bytes
 * @param {{ pins?: PinnedKey[], policy?: LogPolicy | null, question?: StatusQuestion, recompute?: ProofEvaluator | null }} [options]
 * @returns {Promise<import("./report.js").Report>}
 */
export async function verifyBundle(bytes, { pins = [], policy = null, question = NO_QUESTION, recompute = null } = {}) {
  const unchecked = listUncheckedSteps(recompute);
  let bundle;
  try {
    bundle = await openBundle(bytes);
  } catch (error) {
    if (!(error instanceof CheckFailed)) throw error;
    return makeReport(reportUnreadable(BUNDLE_STEPS, error.message, "the file is not a bundle"), "unpinned", unchecked);
  }
  /** @type {((bundle: OpenedBundle) => string | Promise<string>)[]} */
  const checks = [
    checkEntries,
    (opened) => checkEntryHash(opened, "payload.json", "payload_hash"),
    checkSnapshot,
    checkFacts,
    checkRules,
    (opened) =>
      checkProofStructure(opened.get("proof.json"), opened.get("payload.json"), opened.get("receipt.json"), /** @type {Uint8Array} */ (opened.entries.get("facts.jsonl"))),
    checkReceiptHash,
    (opened) => checkBundleSignature(opened, pins),
    checkQrText,
    checkEvents,
    (opened) => checkLog(opened, policy),
    (opened) => checkKey(opened, pins, policy),
  ];
  const steps = [];
  for (const [at, check] of checks.entries()) {
    steps.push(await runStep(BUNDLE_STEPS[at], () => check(bundle)));
    if (BUNDLE_STEPS[at] === "proof_structure" && recompute !== null) steps.push(await runStep(EVALUATED_STEP, () => evaluateAgain(bundle, recompute)));
  }
  const isSigned = steps.some((step) => step.name === "signature" && step.ok);
  const status = await runStatusStep(() => openBundleStatus(bundle, pins), question);
  return makeReport([...steps, status.step], pins.length && isSigned ? "pinned" : "unpinned", unchecked, status.verdict);
}

/** @param {OpenedBundle} bundle @param {ProofEvaluator} recompute @returns {Promise<string>} */
async function evaluateAgain(bundle, recompute) {
  return readEvaluation(
    await recompute({
      rules: /** @type {Uint8Array} */ (bundle.entries.get("rules.bpc")),
      factsHash: toHex(await hashBytes(/** @type {Uint8Array} */ (bundle.entries.get("facts.jsonl")))),
      ...listLayerInputs(bundle),
    }),
  );
}

/** What an evaluator reads of the bundle of a model. @param {OpenedBundle} bundle @returns {import("./rules/layer-steps.js").LayerInputs} */
export function listLayerInputs(bundle) {
  return { facts: bundle.get("facts.jsonl"), payload: bundle.get("payload.json"), proof: bundle.get("proof.json"), receipt: bundle.get("receipt.json").members };
}

/** What a step says of what an evaluator found. @param {Awaited<ReturnType<ProofEvaluator>>} result @returns {string} */
export function readEvaluation({ ok, skipped, detail }) {
  if (skipped) throw new NotChecked(detail);
  if (!ok) throw new CheckFailed(detail);
  return detail;
}

/** The steps that no evaluator, or the one that is given, leaves out. @param {ProofEvaluator | null} recompute @returns {string[]} */
export function listUncheckedSteps(recompute) {
  return UNCHECKED_STEPS.filter((name) => recompute === null || name !== EVALUATED_STEP);
}

/** @param {OpenedBundle} bundle @param {PinnedKey[]} pins @returns {import("./status.js").StatusSubject} */
function openBundleStatus(bundle, pins) {
  const statement = bundle.entries.has(STATUS_NAME) ? bundle.get(STATUS_NAME) : null;
  return { receipt: bundle.get("receipt.json"), statement, pins, ownKey: fromBase64(bundle.get("manifest.json").public_key) };
}

/** @param {OpenedBundle} bundle @returns {string} */
function checkEntries(bundle) {
  if (bundle.problems.length) throw new CheckFailed(bundle.problems.slice(0, 5).join("; "));
  return `${bundle.entries.size} entries, each in its one form`;
}

/** @param {OpenedBundle} bundle @param {string} entry @param {string} member @returns {Promise<string>} */
async function checkEntryHash(bundle, entry, member) {
  const actual = toHex(await hashBytes(/** @type {Uint8Array} */ (bundle.entries.get(entry))));
  const expected = bundle.get("receipt.json").members[member];
  if (actual !== expected) throw new CheckFailed(`${entry} has the hash ${actual}, and the receipt names ${expected}`);
  return `${entry} is ${actual}`;
}

/** @param {OpenedBundle} bundle @returns {Promise<string>} */
async function checkSnapshot(bundle) {
  const says = await checkEntryHash(bundle, "snapshot.json", "snapshot_hash");
  if (bundle.get("snapshot.json").snapshot_id !== bundle.get("receipt.json").members.snapshot_id) {
    throw new CheckFailed("snapshot.json is of another snapshot than the receipt names");
  }
  const refs = listFactRefs(bundle);
  for (let at = 1; at < refs.length; at++) {
    const [before, after] = [refs[at - 1], refs[at]];
    if ((compareTexts(before.fact_type, after.fact_type) || compareTexts(before.fact_key, after.fact_key)) >= 0) {
      throw new CheckFailed(`snapshot.json is not in order, or holds \`${shortenText(after.fact_key)}\` twice`);
    }
  }
  return says;
}

/** @param {OpenedBundle} bundle @returns {Record<string, any>[]} */
function listFactRefs(bundle) {
  return bundle.get("snapshot.json").facts.map((/** @type {any} */ value, /** @type {number} */ at) => requireForm(`snapshot.json: fact ${at}`, value, SNAPSHOT_FACT_FORM));
}

/** @param {OpenedBundle} bundle @returns {Promise<string>} */
async function checkFacts(bundle) {
  const refs = listFactRefs(bundle);
  const facts = bundle.get("facts.jsonl");
  for (const [at, fact] of facts.slice(0, refs.length).entries()) {
    const ref = refs[at];
    if (fact.fact_type !== ref.fact_type || fact.fact_key !== ref.fact_key) throw new CheckFailed(`facts.jsonl line ${at + 1} is another fact than the snapshot has there`);
    if (toHex(await hashBytes(encodeCanonical(fact.payload))) !== ref.payload_hash) {
      throw new CheckFailed(`facts.jsonl line ${at + 1}: \`${shortenText(fact.fact_key)}\` does not have the hash the snapshot names`);
    }
  }
  if (facts.length !== refs.length) throw new CheckFailed(`facts.jsonl holds ${facts.length} facts, and the snapshot names ${refs.length}`);
  const files = await checkAttachments(bundle, facts);
  return `${formatCount(facts.length, "fact")}, each with the hash the snapshot names${files ? `; ${formatCount(files, "attached file")}` : ""}`;
}

/** @param {OpenedBundle} bundle @param {any[]} facts @returns {Promise<number>} */
async function checkAttachments(bundle, facts) {
  const named = new Set(
    facts
      .filter((fact) => fact.fact_type === "Attachment" && UUID.accepts(fact.payload.document_version_id) && "mime_type" in fact.payload)
      .map((fact) => fact.payload.sha256),
  );
  const names = [...bundle.entries.keys()].filter((name) => name.startsWith("attachments/"));
  for (const name of names) {
    const digest = name.slice("attachments/".length);
    if (toHex(await hashBytes(/** @type {Uint8Array} */ (bundle.entries.get(name)))) !== digest) throw new CheckFailed(`${name} has another hash`);
    if (!named.has(digest)) throw new CheckFailed(`${name} is not named by any fact`);
  }
  return names.length;
}

/** @param {OpenedBundle} bundle @returns {Promise<string>} */
async function checkRules(bundle) {
  await checkEntryHash(bundle, "rules.bpc", "dsl_sha256");
  await checkEntryHash(bundle, "tests.bpc", "tests_sha256");
  return "rules and tests have the hashes the receipt names";
}

/** @param {OpenedBundle} bundle @returns {string} */
function checkReceiptHash(bundle) {
  const { members, hash } = bundle.get("receipt.json");
  const payload = bundle.get("payload.json");
  for (const name of ["passport_id", "passport_version_id", "issued_at"]) {
    if (payload[name] !== members[name]) throw new CheckFailed(`payload.json has another ${name} than the receipt`);
  }
  if (payload.battery_product.battery_product_id !== members.battery_product_id) throw new CheckFailed("payload.json is of another product than the receipt");
  if (bundle.get("manifest.json").passport_version_id !== members.passport_version_id) throw new CheckFailed("manifest.json is of another passport version than the receipt");
  const text = bundle.get("qr.txt");
  if (!/^BPC1\|pv=[0-9a-f-]{36}(\|(ph|pr|rh)=[A-Z2-7]{52}){3}$/.test(text)) throw new NotChecked("qr.txt is not a text of a passport's code");
  if (!text.endsWith(`|rh=${toBase32(hash)}`)) throw new CheckFailed("the receipt has another hash than qr.txt names");
  return `the receipt is ${toHex(hash)}`;
}

/** @param {OpenedBundle} bundle @param {PinnedKey[]} pins @returns {Promise<string>} */
async function checkBundleSignature(bundle, pins) {
  const manifest = bundle.get("manifest.json");
  const receipt = bundle.get("receipt.json");
  if (manifest.signing_key_id !== receipt.members.signing_key_id) throw new CheckFailed("the manifest names another key than the receipt");
  const publicKey = requirePublicKey(fromBase64(manifest.public_key));
  if (pins.length) {
    const pinned = pins.filter((pin) => toHex(pin.publicKey) === toHex(publicKey));
    if (pinned.length === 0) throw new CheckFailed("the manifest's key is not one of those you trust");
    const pin = await findSigner(receipt, pinned);
    requireSameTenant(pin, receipt.members);
    return `signed by \`${receipt.members.signing_key_id}\`, ${describeOwner(pin)}`;
  }
  if (!(await isSignedBy(publicKey, receipt.hash, receipt.signature))) throw new CheckFailed("the signature does not belong to this content and key");
  return `signed by key \`${receipt.members.signing_key_id}\`; the issuer was not checked, because no key was given`;
}

/** @param {OpenedBundle} bundle @returns {string} */
function checkQrText(bundle) {
  const { members, hash } = bundle.get("receipt.json");
  const [payload, root, receipt] = [fromHex(members.payload_hash), fromHex(members.proof_root_hash), hash].map(toBase32);
  const expected = `BPC1|pv=${members.passport_version_id}|ph=${payload}|pr=${root}|rh=${receipt}`;
  if (bundle.get("qr.txt") !== expected) throw new CheckFailed("qr.txt is not the text of this passport");
  return "the text is that of this passport; the pixels are not checked here";
}

/** @param {OpenedBundle} bundle @returns {Promise<string>} */
async function checkEvents(bundle) {
  if (!bundle.entries.has("events.jsonl")) return "not part of this bundle";
  const events = bundle.get("events.jsonl").map((/** @type {any} */ line, /** @type {number} */ at) => requireForm(`events.jsonl line ${at + 1}`, line, EVENT_FORM));
  const { members } = bundle.get("receipt.json");
  if (events.length === 0) throw new CheckFailed("events.jsonl holds no event");
  let previous = null;
  for (const [at, event] of events.entries()) {
    const where = `event ${at + 1}`;
    if (event.tenant_id !== members.tenant_id || event.aggregate_type !== "PassportVersion" || event.aggregate_id !== members.passport_version_id) {
      throw new CheckFailed(`${where} belongs to another passport version`);
    }
    if (event.aggregate_version !== at + 1) throw new CheckFailed(`${where} does not have its place in the chain`);
    if (event.prev_event_hash !== previous) throw new CheckFailed(`${where} does not follow the event before it`);
    if (toHex(await hashBytes(encodeCanonical(event.payload))) !== event.payload_hash) throw new CheckFailed(`${where}: its payload does not have the hash it claims`);
    const { event_hash: claimed, payload: _, ...rest } = event;
    if (toHex(await hashBytes(encodeCanonical(rest))) !== claimed) throw new CheckFailed(`${where}: its members do not give its event hash`);
    previous = claimed;
  }
  return `${formatCount(events.length, "event")}, each linked to the one before; ${checkLoggedEvent(bundle, events)}`;
}

/** Which of the events the entry of the log vouches for. @param {OpenedBundle} bundle @param {any[]} events @returns {string} */
function checkLoggedEvent(bundle, events) {
  if (!bundle.entries.has(LOG_PROOF_NAME)) return "no log entry vouches for them: do not take them for history";
  const { aggregate_version: version, event_hash: hash } = bundle.get(LOG_PROOF_NAME).statement;
  const event = events.find((each) => each.aggregate_version === version);
  if (event?.event_hash !== hash) throw new CheckFailed(`event ${version} is not the one that the entry of the log names`);
  return `the entry of the log vouches for those up to ${version}`;
}

/** @param {OpenedBundle} bundle @param {LogPolicy | null} policy @returns {Promise<string>} */
async function checkLog(bundle, policy) {
  return checkReceiptLog(bundle.get("receipt.json"), bundle.entries.has(LOG_PROOF_NAME) ? bundle.get(LOG_PROOF_NAME) : null, policy);
}

/** @param {OpenedBundle} bundle @param {PinnedKey[]} pins @param {LogPolicy | null} policy @returns {Promise<string>} */
async function checkKey(bundle, pins, policy) {
  if (pins.length === 0) return "not checked: no key set says when the key is valid";
  const { members } = bundle.get("receipt.json");
  const pin = findPin(pins, requirePublicKey(fromBase64(bundle.get("manifest.json").public_key)), members.signing_key_id);
  if (pin === null) return "not checked: no key set says when the key is valid";
  const isLogged = policy !== null && bundle.entries.has(LOG_PROOF_NAME);
  return checkKeyTimes(pin, members, isLogged ? await openLogProof(bundle.get(LOG_PROOF_NAME), policy) : null);
}

/**
 * That the key was valid when it signed, and nobody else had it then.
 * @param {PinnedKey} pin @param {Record<string, any>} receipt @param {{ loggedAt: string | null, seenAt: string } | null} logged
 * @returns {string}
 */
export function checkKeyTimes(pin, receipt, logged) {
  refuseCompromised(pin, logged === null ? null : logged.seenAt);
  const signedAt = logged?.loggedAt ?? receipt.issued_at;
  requireKeyWindow(pin, signedAt);
  return logged === null ? `valid at ${signedAt}, when the receipt says it was issued` : `valid at ${signedAt}, and the log shows the signature by ${logged.seenAt}`;
}

/** Whether the bytes are a view, which starts like JSON. @param {Uint8Array} bytes @returns {boolean} */
export function isView(bytes) {
  return bytes[0] === 0x7b;
}

/** The text of a bundle's code, for a picture of it. @param {Uint8Array} bytes @returns {string} */
export function readQrText(bytes) {
  const content = readArchive(bytes).get("qr.txt") ?? encodeUtf8("");
  return decodeUtf8(content);
}
