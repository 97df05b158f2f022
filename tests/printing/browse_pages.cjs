/** Opens pages in Chromium as a plan says, and prints what a person would see. Arguments: chromium, a plan as JSON. */
const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const modules = process.env.BPC_NODE_MODULES;
const { chromium } = require(join(modules, "playwright-core"));
const axeSource = readFileSync(join(modules, "axe-core", "axe.min.js"), "utf8");
const plan = JSON.parse(readFileSync(process.argv[3], "utf8"));

async function openPage(browser, visit) {
  const context = await browser.newContext({
    viewport: { width: visit.width ?? 1280, height: 900 },
    colorScheme: visit.scheme ?? "light",
    javaScriptEnabled: visit.script !== false,
    bypassCSP: false,
  });
  const page = await context.newPage();
  const found = { name: visit.name, requests: [], complaints: [] };
  page.on("request", (request) => found.requests.push(request.url()));
  page.on("console", (message) => found.complaints.push(message.text()));
  page.on("pageerror", (error) => found.complaints.push(error.message));
  for (const [pattern, file] of Object.entries(visit.replace ?? {})) {
    await page.route(pattern, (route) => route.fulfill({ path: file }));
  }
  if (visit.throttle) {
    const session = await context.newCDPSession(page);
    await session.send("Emulation.setCPUThrottlingRate", { rate: visit.throttle });
  }
  await page.goto(visit.url, { waitUntil: "load" });
  const loaded = Date.now();
  if (visit.script !== false && !visit.plain) { // a plain page has nothing to check
    await page.waitForFunction(() => document.querySelector("#step-list li") || document.querySelector('[data-state="unsupported"], [data-state="waiting"], [data-state="altered"], [data-state="no-view"]'), null, { timeout: 30000 });
    found.milliseconds = Date.now() - loaded;
  }
  if (visit.offline) await context.setOffline(true);
  if (visit.file) {
    await page.setInputFiles("#file", visit.file);
    await page.waitForSelector("#step-list li");
  }
  if (visit.script !== false) await page.evaluate(() => Promise.all(document.getAnimations().map((each) => each.finished)));
  if (visit.text) await page.evaluate((size) => (document.documentElement.style.fontSize = size), visit.text);
  if (visit.script !== false) {
    Object.assign(found, await page.evaluate(() => ({
      state: document.getElementById("verdict").dataset.state,
      sentence: document.getElementById("sentence").textContent,
      against: document.getElementById("against")?.textContent ?? "",
      way_on: document.querySelector("#go-on:not([hidden]) a")?.getAttribute("href") ?? null,
      steps: Object.fromEntries(Array.from(document.querySelectorAll("#step-list li"), (item) => [item.querySelector("strong").textContent, item.className])),
      verdict: (() => {
        const [box, text] = [document.getElementById("verdict"), document.getElementById("sentence")];
        text.scrollIntoView({ block: "center" });
        const { left, top, width, height } = text.getBoundingClientRect();
        const over = document.elementFromPoint(left + width / 2, top + height / 2);
        const style = getComputedStyle(text);
        const result = { isCovered: !box.contains(over), color: style.color, background: getComputedStyle(box).backgroundColor, size: style.fontSize };
        window.scrollTo(0, 0);
        return { ...result, top: box.getBoundingClientRect().top };
      })(),
      overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    })));
    if (visit.axe) {
      await page.evaluate(() => document.querySelectorAll("details").forEach((each) => { if (!each.hidden) each.open = true; }));
      await page.evaluate(axeSource).catch((error) => found.complaints.push(error.message));
      found.violations = await page.evaluate(async () => {
        const result = await window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] });
        return result.violations.map((each) => `${each.id}: ${each.nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`);
      });
    }
  } else {
    if (await page.locator("#sentence").count()) found.sentence = await page.locator("#sentence").textContent();
    found.rows = await page.locator("[data-path]").count();
  }
  if (visit.screenshot) await page.screenshot({ path: visit.screenshot, fullPage: visit.whole === true });
  found.cookies = (await context.cookies()).length;
  await context.close();
  return found;
}

async function checkCorpus(browser, corpus) {
  const page = await (await browser.newContext()).newPage();
  await page.goto(corpus.url);
  return page.evaluate(async ({ names }) => {
    const verifier = await import("/src/index.js");
    const load = async (path) => new Uint8Array(await (await fetch(path)).arrayBuffer());
    const text = async (path) => new TextDecoder().decode(await load(path));
    const pins = verifier.readKeySet(JSON.parse(await text("/honest/keys.json")));
    const policy = await verifier.parsePolicy(await text("/honest/policy.txt"));
    const verdicts = {};
    for (const name of names) {
      const bytes = await load(`/corpus/${name}`);
      const report = await verifier.verifyAnything(bytes, verifier.isView(bytes) ? { pins } : { pins, policy });
      verdicts[name] = report.ok;
    }
    return verdicts;
  }, corpus);
}

(async () => {
  const browser = await chromium.launch({ executablePath: process.argv[2], args: ["--no-sandbox"] });
  const visits = [];
  for (const visit of plan.visits ?? []) visits.push(await openPage(browser, visit));
  const corpus = plan.corpus ? await checkCorpus(browser, plan.corpus) : {};
  await browser.close();
  console.log(JSON.stringify({ visits, corpus }));
})();
