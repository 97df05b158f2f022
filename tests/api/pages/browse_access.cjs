/** A person asks for access, is sent a link, and opens the passport in Chromium. Arguments: chromium, a plan as JSON. */
const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const modules = process.env.BPC_NODE_MODULES;
const { chromium } = require(join(modules, "playwright-core"));
const axeSource = readFileSync(join(modules, "axe-core", "axe.min.js"), "utf8");
const plan = JSON.parse(readFileSync(process.argv[3], "utf8"));
const complaints = [];
const requests = [];

async function listViolations(page) {
  await page.evaluate(axeSource).catch((error) => complaints.push(error.message));
  return page.evaluate(async () => {
    const result = await window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] });
    return result.violations.map((each) => `${each.id}: ${each.nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`);
  });
}

async function openContext(browser, script) {
  const context = await browser.newContext({ viewport: { width: 412, height: 900 }, javaScriptEnabled: script, colorScheme: script ? "light" : "dark" });
  const page = await context.newPage();
  page.on("console", (message) => complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => requests.push(request.url()));
  return { context, page };
}

async function takeScreenshot(page, name) {
  if (plan.screenshots) await page.screenshot({ path: join(plan.screenshots, `${name}.png`), fullPage: true });
}

async function ask(browser) {
  const { context, page } = await openContext(browser, true);
  await page.goto(plan.page, { waitUntil: "load" });
  await page.click(".asking a");
  await page.waitForSelector("#request");
  const violations = await listViolations(page);
  for (const [name, text] of Object.entries(plan.asked)) await page.fill(`#${name}`, text);
  await page.check("#as-interest");
  await takeScreenshot(page, "asking");
  await page.click("#request button");
  await page.waitForSelector("#sent");
  const sent = await page.textContent("#sent");
  await context.close();
  return { sent, violations };
}

async function openLink(browser) {
  const { context, page } = await openContext(browser, true);
  await page.goto(plan.link, { waitUntil: "load" });
  await page.waitForSelector("#terms:not([hidden])");
  const address = page.url();
  await page.check("#accept");
  await takeScreenshot(page, "terms");
  await page.click("#access button");
  await page.waitForSelector("#step-list li", { state: "attached" });
  const seen = await page.evaluate(() => ({
    state: document.getElementById("verdict").dataset.state,
    granted: document.getElementById("granted").textContent,
    steps: Object.fromEntries(Array.from(document.querySelectorAll("#step-list li"), (item) => [item.querySelector("strong").textContent, item.className])),
    paths: Array.from(document.querySelectorAll("[data-path]"), (row) => row.dataset.path),
    file: document.getElementById("view-file").href.slice(0, 5),
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  }));
  const violations = await listViolations(page);
  await takeScreenshot(page, "granted");
  const cookies = (await context.cookies()).length;
  await context.close();
  return { ...seen, address, after: page.url(), violations, cookies };
}

async function useForm(browser) {
  const { context, page } = await openContext(browser, false);
  await page.goto(plan.link.split("#")[0], { waitUntil: "load" });
  await page.fill("#code", plan.link.split("#")[1]);
  await page.click("#access button");
  const rows = await page.locator("[data-path]").count();
  const sentence = await page.locator("#sentence").textContent();
  await page.goto(plan.link.split("#")[0]);
  await page.fill("#code", "bpg_wrong");
  await page.click("#access button");
  const problem = await page.locator("#code-problem").textContent();
  await takeScreenshot(page, "wrong-code");
  await context.close();
  return { rows, sentence, problem };
}

(async () => {
  const browser = await chromium.launch({ executablePath: process.argv[2], args: ["--no-sandbox"] });
  const found = plan.link ? { opened: await openLink(browser), form: await useForm(browser) } : await ask(browser);
  await browser.close();
  console.log(JSON.stringify({ ...found, complaints, requests }));
})();
