/** The public page and the page that checks files: they compute the verdict in the browser and show each step. */

import { CheckFailed } from "bpc-verify";
import { verifyAnything } from "bpc-verify";
import { isView } from "bpc-verify";
import { pinKey, readKeySet } from "bpc-verify";
import { parsePolicy } from "bpc-verify";
import { verifyPassport } from "bpc-verify";

let evidenceBlock = document.getElementById("evidence");
let evidence = JSON.parse(evidenceBlock.textContent);
let verdict = document.getElementById("verdict");

function showVerdict(state, sentence, beside) {
  verdict.dataset.state = state;
  document.getElementById("sentence").textContent = sentence;
  document.getElementById("against").textContent = beside;
}

function showSteps(report) {
  const list = document.getElementById("step-list");
  list.replaceChildren(
    ...report.steps.map((step) => {
      const isOpen = step.skipped || (step.ok && /^not (checked|asked)/.test(step.detail));
      const item = document.createElement("li");
      item.className = isOpen ? "step-open" : step.ok ? "step-good" : "step-bad";
      const mark = document.createElement("b");
      mark.className = "mark";
      mark.textContent = isOpen ? "–" : step.ok ? "✓" : "✗";
      const title = document.createElement("strong");
      title.textContent = evidence.steps[step.name] ?? step.name;
      const detail = document.createElement("span");
      detail.textContent = step.detail;
      item.append(mark, title, detail);
      return item;
    }),
  );
  document.getElementById("steps").hidden = false;
}

/** altered (a step found something wrong), unsupported (a step could not run), or what the signed status says. */
function decideState({ steps, status }) {
  const others = steps.filter((step) => step.name !== "status");
  const statusStep = steps.find((step) => step.name === "status");
  if (others.some((step) => !step.ok && !step.skipped)) return "altered";
  if (statusStep && !statusStep.ok && !statusStep.skipped && status.name !== "revoked") return "altered"; // not the issuer's word
  if (others.some((step) => step.skipped)) return "unsupported";
  return status.name;
}

/** The worse of what the issuer signed and what this host says, which may know of an end before it is signed. */
function chooseWorse(signed, said) {
  const ends = ["superseded", "ceased", "revoked"];
  const worst = ends.filter((state) => state === signed || state === said).pop();
  return worst ?? (signed === "in_force" ? "verified" : "unknown");
}

/** The signed statements in the page and the list that they name, and the time at which they are read. */
async function loadQuestion() {
  const documents = evidence.status.statements.map((text) => new TextEncoder().encode(text));
  if (evidence.status.list !== null) {
    const answer = await fetch(evidence.status.list, { credentials: "omit" }).catch(() => null);
    if (answer?.ok) documents.push(new Uint8Array(await answer.arrayBuffer()));
  }
  return { documents, now: new Date().toISOString() };
}

/** Since when it does not count, and why, in the words of the page. */
function describeEnd({ since, reason }) {
  const texts = [];
  const language = document.documentElement.lang === "en" ? "en-GB" : document.documentElement.lang;
  const days = new Intl.DateTimeFormat(language, { dateStyle: "long", timeZone: "UTC" });
  if (since !== null) texts.push(`${evidence.words.since.replace("{day}", days.format(new Date(since)))}.`);
  if (reason) texts.push(evidence.words.because.replace("{reason}", reason));
  return texts.map((text) => text[0].toUpperCase() + text.slice(1)).join(" ");
}

function listShownValues() {
  return Array.from(document.querySelectorAll("[data-path]"), (row) => ({ path: row.dataset.path, value: row.dataset.signed }));
}

/** The signed view: it is in the page of a grantee, whose code this page no longer needs; others fetch it. */
async function loadView() {
  if (evidence.view !== undefined) {
    const view = new TextEncoder().encode(evidence.view);
    const link = document.getElementById("view-file");
    link.href = URL.createObjectURL(new Blob([view], { type: "application/json" }));
    link.hidden = false;
    return view;
  }
  const answer = await fetch(evidenceBlock.dataset.view, { credentials: "omit" });
  if (!answer.ok) throw new Error(`the view answered ${answer.status}`);
  return new Uint8Array(await answer.arrayBuffer());
}

async function checkPage() {
  const words = evidence.words;
  if (!evidence.has_view) {
    showVerdict("no-view", words.no_view, "");
    return;
  }
  const [view, question] = await Promise.all([loadView(), loadQuestion()]);
  const report = await verifyPassport({
    view,
    pins: readKeySet(evidence.keys),
    logProof: evidence.log_proof === null ? null : new TextEncoder().encode(evidence.log_proof),
    policy: evidence.policy === null ? null : await parsePolicy(evidence.policy),
    question,
    shown: listShownValues(),
  });
  const outcome = decideState(report);
  const isRead = outcome !== "altered" && outcome !== "unsupported";
  const state = isRead ? chooseWorse(outcome, evidence.state) : outcome;
  const against = document.getElementById("against-words").innerHTML;
  const beside = new DOMParser().parseFromString(against, "text/html").body.textContent;
  const isEnded = isRead && state !== "verified" && state !== "unknown";
  showVerdict(state, words[state], isEnded ? [describeEnd(report.status), words.signature_valid, beside].filter(Boolean).join(" ") : beside);
  if (state === "superseded") document.getElementById("go-on").hidden = false;
  showSteps(report);
}

function readTrustedKeys() {
  const text = document.getElementById("keys").value.trim();
  if (text === "") return [];
  return text.startsWith("{") ? readKeySet(JSON.parse(text)) : [pinKey(text)];
}

/** Whether these bytes are a signed status list or a statement, which say what became of a passport. */
function isStatusDocument(bytes) {
  return isView(bytes) && /"status(_list)?_version":"BPC-STATUS/.test(String.fromCharCode(...bytes.slice(-400)));
}

/** What evaluates the rules of a bundle; null if it cannot be loaded, for example without a network. */
async function loadEvaluator() {
  const module = await import(new URL(evidence.rules, document.baseURI).href).catch(() => null);
  return module === null ? null : module.recomputeProof;
}

/** Checks a view or a bundle; status documents that came with it say whether it is in force. */
async function checkFiles(files) {
  const contents = await Promise.all(files.map(async (file) => new Uint8Array(await file.arrayBuffer())));
  const at = Math.max(0, contents.findIndex((bytes) => !isStatusDocument(bytes)));
  const question = { documents: contents.filter((_, place) => place !== at), now: new Date().toISOString() };
  const pins = readTrustedKeys();
  const recompute = isView(contents[at]) ? null : await loadEvaluator();
  const report = await verifyAnything(contents[at], { pins, question, recompute });
  const words = evidence.words;
  const outcome = decideState(report);
  const isHonest = outcome === "in_force" || outcome === "not_asked";
  const state = !isHonest ? outcome : report.issuer === "pinned" ? "verified" : "unsupported";
  const more = report.unchecked.length ? ` · ${evidence.unchecked.replace("{steps}", report.unchecked.join(", "))}` : "";
  showVerdict(state, words[state], `${files[at].name}${more} ${describeEnd(report.status)}`.trim());
  showSteps(report);
}

function listenForFiles(drop) {
  const say = document.getElementById("against-words").innerHTML;
  showVerdict("waiting", new DOMParser().parseFromString(say, "text/html").body.textContent, "");
  const check = (files) => files.length && checkFiles(Array.from(files)).catch((error) => showVerdict("altered", evidence.words.altered, String(error.message)));
  document.getElementById("file").addEventListener("change", (event) => check(event.target.files));
  for (const name of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      if (name === "drop") check(event.dataTransfer.files);
    });
  }
}

function tryToCheckPage() {
  checkPage().catch((error) => {
    const state = error instanceof CheckFailed ? "altered" : "unsupported"; // a key set that contradicts itself was altered
    showVerdict(state, evidence.words[state], String(error.message));
  });
}

/** Shows the page that a code opened in the place of this one, and checks it. The address stays without the code. */
function showGrantedPage(html) {
  const granted = new DOMParser().parseFromString(html, "text/html");
  document.title = granted.title;
  document.documentElement.lang = granted.documentElement.lang;
  evidenceBlock.replaceWith(document.adoptNode(granted.getElementById("evidence")));
  document.body.replaceWith(document.adoptNode(granted.body));
  evidenceBlock = document.getElementById("evidence");
  evidence = JSON.parse(evidenceBlock.textContent);
  verdict = document.getElementById("verdict");
  window.scrollTo(0, 0);
  tryToCheckPage();
}

/** Sends the code as Authorization, so that it is in no address; terms that must be accepted are shown first. */
async function openWithCode(form) {
  const headers = { Authorization: `Bearer ${form.elements.code.value.trim()}` };
  const options = { headers, credentials: "omit", cache: "no-store" };
  if (form.elements.accept_terms.checked) await fetch(form.dataset.terms, { ...options, method: "POST" });
  const answer = await fetch(form.dataset.page, options);
  if (answer.ok) return showGrantedPage(await answer.text());
  const { details } = (await answer.json()).error;
  const reason = answer.status === 429 ? "wait" : answer.status === 401 ? (details.reason ?? "unknown") : details.reason;
  if (reason === "terms") {
    document.getElementById("terms").hidden = false;
    document.getElementById("terms-text").textContent = details.is_standard ? evidence.standard_terms : details.terms;
  }
  document.getElementById("code-problem").textContent = evidence.words[reason] ?? evidence.words.failed;
}

/** The page with the forms: a link that a person was sent has the code behind `#`, where no server sees it. */
function listenForCode(form) {
  const open = () => openWithCode(form).catch(() => (document.getElementById("code-problem").textContent = evidence.words.failed));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    open();
  });
  const code = decodeURIComponent(location.hash.slice(1));
  if (!code.startsWith("bpg_")) return;
  history.replaceState(null, "", location.pathname + location.search);
  form.elements.code.value = code;
  open();
}

const drop = document.getElementById("drop");
const accessForm = document.getElementById("access");
if (drop) listenForFiles(drop);
else if (accessForm) listenForCode(accessForm);
else tryToCheckPage();
