/** What the corpus does not reach: vectors of canonical JSON, wrong keys, key sets, policies, key windows. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as verifier from "../src/index.js";
import { readArchive } from "../src/archive.js";
import { fromHex, toBase32 } from "../src/bytes.js";
import { requirePublicKey } from "../src/ed25519.js";
import { hashShake256 } from "../src/rules/rule-salts.js";

const here = import.meta.dirname;
const honest = join(here, "..", "corpus", "honest");
const { decodeCanonical, encodeCanonical, hashBytes, parsePolicy, pinKey, readKeySet, toHex, verifyPassport, verifyView } = verifier;
const view = new Uint8Array(readFileSync(join(honest, "view-public.json")));
const keySet = JSON.parse(readFileSync(join(honest, "keys.json"), "utf8"));
const policyText = readFileSync(join(honest, "policy.txt"), "utf8");
const utf8 = new TextEncoder();

/** @param {import("../src/index.js").Report | any} report @param {string} name */
const findStep = (report, name) => report.steps.find((/** @type {any} */ step) => step.name === name);

const tests = {
  "canonical JSON has the published bytes": async () => {
    const page = readFileSync(join(here, "../../../docs/formats/canonical-json.md"), "utf8");
    const examples = [...page.matchAll(/^in: (.*)\nout: (.*)\nsha256: ([0-9a-f]{64})$/gm)];
    assert.ok(examples.length >= 4);
    for (const [, , out, sha256] of examples) {
      assert.equal(toHex(await hashBytes(encodeCanonical(decodeCanonical(utf8.encode(out))))), sha256);
    }
  },
  "canonical JSON refuses other spellings": () => {
    for (const text of ["", " 1", "1 ", "01", "-0", "1.0", "1e3", "NaN", '"\\u0041"', '"\\ud800"', '{"b":1,"a":2}', '{"a":1,"a":2}', "[1,]", '"\u0001"', "tru", "[", '{"a"}', `${"[".repeat(129)}${"]".repeat(129)}`, "9".repeat(601)]) {
      assert.throws(() => decodeCanonical(utf8.encode(text)), verifier.CheckFailed, text);
    }
    for (const text of ["0", "-5", "123456789012345678901234567890", '{"a":[true,null],"ﬁ":2,"😀":3}', '{"__proto__":1}']) {
      assert.deepEqual(encodeCanonical(decodeCanonical(utf8.encode(text))), utf8.encode(text), text);
    }
    assert.throws(() => encodeCanonical(0.5), verifier.CheckFailed);
    assert.throws(() => encodeCanonical("\ud800"), verifier.CheckFailed);
  },
  "hashes are written in base 32 as the codes write them": () => {
    assert.equal(toBase32(fromHex("44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a")), "IQJW7I2VWNTYUEKGVULPP2DET2KPWT6CD7TX5AYQYBQPMHFK76FA");
  },
  "SHAKE-256 is that of FIPS 202, for inputs and outputs of several blocks": () => {
    /** @type {[number, number, string][]} how many bytes go in and come out, and how the latter end: made with Python's hashlib */
    const vectors = [
      [0, 32, "46b9dd2b0ba88d13233b3feb743eeb243fcd52ea62b81b82b50c27646ed5762f"],
      [1, 32, "b8d01df855f7075882c636f6ddeacf41e5de0bbf30042ef0a86e36f4b8600d54"],
      [135, 32, "c45dae624ad8a2f5aa7bac9d7557737fd91c96eedb70a6be5574d57a844eade0"],
      [136, 32, "b7ff4073b3f5a8eabd6e17705ca7f6761a31058f9df781a6a47e3a3063b9d67a"],
      [137, 32, "01d90952c642a5eb2a8fc9d713f843a45d7ac05132dddcb2efc9bebc27e37bcb"],
      [200, 300, "c53c23e716c670c4db23c67901358ae64f3f0ccedfa05b29e84e1a11a635bfe7"],
    ];
    for (const [size, length, end] of vectors) assert.equal(toHex(hashShake256(Uint8Array.from({ length: size }, (_, at) => at), length)).slice(-64), end);
  },
  "keys under which anybody can sign are refused": () => {
    const one = new Uint8Array(32);
    one[0] = 1;
    const notCanonical = new Uint8Array(32).fill(255);
    const notOnCurve = new Uint8Array(32);
    notOnCurve[0] = 2;
    for (const key of [one, new Uint8Array(32), notCanonical, notOnCurve, new Uint8Array(31)]) {
      assert.throws(() => requirePublicKey(key), verifier.CheckFailed);
    }
  },
  "a key set that contradicts itself is refused": () => {
    const [key] = keySet.keys;
    for (const wrong of [{}, { keys: [{}] }, { keys: [{ ...key, x: "AAAA" }] }, { keys: [{ ...key, kid: "other" }] }, { keys: [{ ...key, key_id: "", kid: "" }] }, { keys: [{ ...key, retired_at: "yesterday" }] }, { keys: [{ ...key, public_key: "?" }] }]) {
      assert.throws(() => readKeySet(wrong), verifier.CheckFailed);
    }
    assert.equal(readKeySet(keySet)[0].keyId, "issuer-2027");
  },
  "without a key the signature is not checked, and with another one it is wrong": async () => {
    const without = findStep(await verifyView(view), "signature");
    assert.deepEqual([without.ok, without.skipped], [false, true]);
    const other = findStep(await verifyView(view, { pins: [pinKey("11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=")] }), "signature");
    assert.deepEqual([other.ok, other.skipped], [false, false]);
  },
  "a passport that was issued after its key was retired is refused": async () => {
    const [pin] = readKeySet(keySet);
    assert.ok((await verifyPassport({ view, pins: [pin] })).ok);
    const retired = await verifyPassport({ view, pins: [{ ...pin, validUntil: "2027-02-01T00:00:00.000000Z" }] });
    assert.deepEqual(retired.steps.filter((step) => !step.ok).map((step) => step.name), ["signature", "key_window"]);
    assert.ok((await verifyPassport({ view, pins: [{ ...pin, validUntil: "2028-01-01T00:00:00.000000Z" }] })).ok);
  },
  "a key of another tenant, or one that is compromised, is refused": async () => {
    const [pin] = readKeySet(keySet);
    for (const wrong of [{ tenantId: "99999999-0000-4000-8000-000000000009" }, { compromisedSince: "2026-01-01T00:00:00.000000Z" }, { validFrom: "2028-01-01T00:00:00.000000Z" }]) {
      assert.equal(findStep(await verifyView(view, { pins: [{ ...pin, ...wrong }] }), "signature").ok, false);
    }
    const own = { ...pin, tenantId: "11111111-0000-4000-8000-000000000001", tenant: "acme" };
    assert.match(findStep(await verifyView(view, { pins: [own] }), "signature").detail, /tenant `acme`/);
  },
  "a page that shows another value than the signed one is refused": async () => {
    const pins = readKeySet(keySet);
    const good = [{ path: "battery.name", value: '"Traction battery"' }];
    assert.ok((await verifyPassport({ view, pins, shown: good })).ok);
    const bad = await verifyPassport({ view, pins, shown: [{ path: "battery.name", value: '"Better battery"' }] });
    assert.deepEqual(bad.steps.filter((step) => !step.ok).map((step) => step.name), ["shown"]);
  },
  "a view that cannot be read leaves nothing to check": async () => {
    const report = await verifyPassport({ view: view.slice(1), pins: readKeySet(keySet) });
    assert.equal(report.steps.length, 11);
    assert.equal(report.steps.filter((step) => step.skipped).length, 10);
  },
  "the proof of another passport, or of an unknown log, is refused": async () => {
    const policy = await parsePolicy(policyText);
    const logged = readArchive(new Uint8Array(readFileSync(join(honest, "logged.zip"))));
    const logProof = logged.get("passport.tlog-proof") ?? null;
    const report = await verifyPassport({ view, pins: readKeySet(keySet), logProof, policy });
    assert.match(findStep(report, "log").detail, /another passport/);
  },
  "a policy names its wrong line": async () => {
    const [log, first] = policyText.split("\n");
    for (const wrong of ["", "log", `${log}\nquorum nobody`, `${first}\n${first}\nquorum none`, `${first}\ngroup g 2 w0\nquorum g`, "quorum none\nquorum none", log.replace("+", "+0"), `witness a ${log.split(" ")[1]}\nquorum none`, `log ${first.split(" ")[2]}\nquorum none`]) {
      await assert.rejects(parsePolicy(wrong), verifier.CheckFailed, wrong);
    }
    assert.equal((await parsePolicy(`# mine\n${log}\n${first}\ngroup g any w0\nquorum g`)).groups.size, 1);
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
  } catch (error) {
    failed += 1;
    console.error(`${name}:`, error);
  }
}
console.log(`${Object.keys(tests).length - failed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
