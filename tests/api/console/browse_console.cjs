/** Opens pages of the console in Chromium and says what it saw. Arguments: chromium, a plan as JSON. */
const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const modules = process.env.BPC_NODE_MODULES;
const { chromium } = require(join(modules, "playwright-core"));
const axeSource = readFileSync(join(modules, "axe-core", "axe.min.js"), "utf8");
const plan = JSON.parse(readFileSync(process.argv[3], "utf8"));
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

async function signIn(context, link) {
  const page = await context.newPage();
  await page.goto(link, { waitUntil: "load" });
  await page.click(".sign-in button");
  await page.waitForURL((url) => !url.pathname.includes("sign-in"));
  await page.close();
}

async function look(context, visit) {
  const page = await context.newPage();
  const sight = { name: visit.name, complaints: [], foreign: [], texts: {} };
  page.on("console", (message) => message.type() === "error" && sight.complaints.push(message.text()));
  page.on("pageerror", (error) => sight.complaints.push(error.message));
  page.on("dialog", async (dialog) => { sight.complaints.push(`dialog: ${dialog.message()}`); await dialog.dismiss(); });
  page.on("request", (request) => {
    if (!request.url().startsWith(plan.address)) sight.foreign.push(request.url());
  });
  const answer = await page.goto(plan.address + visit.path, { waitUntil: "load" });
  sight.status = answer.status();
  await page.waitForFunction(() => !document.querySelector("[aria-busy]"), null, { timeout: 60000 });
  for (const step of visit.steps ?? []) {
    if (step.press) await page.keyboard.press(step.press);
    if (step.type) await page.keyboard.type(step.type);
    if (step.insert) await page.keyboard.insertText(step.insert);
    if (step.fill) await page.fill(step.fill[0], step.fill[1]);
    if (step.click) await page.click(step.click);
    if (step.hover) await page.hover(step.hover);
    if (step.open) await page.$$eval(step.open, (all) => all.forEach((each) => each.setAttribute("open", "")));
    if (step.wait) await page.waitForSelector(step.wait, { timeout: 200000 });
    if (step.read) sight.texts[step.read] = (await page.locator(step.read).first().innerText()).trim();
  }
  sight.overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  sight.url = page.url();
  if (visit.axe) {
    await page.evaluate(axeSource);
    sight.violations = await page.evaluate(async (rules) => {
      const result = await window.axe.run(document, { runOnly: rules });
      return result.violations.map((each) => `${each.id}: ${each.nodes.map((node) => node.html.slice(0, 140)).join(" | ")}`);
    }, RULES);
  }
  if (visit.screenshot) await page.screenshot({ path: visit.screenshot, fullPage: visit.full !== false });
  await page.close();
  return sight;
}

(async () => {
  const browser = await chromium.launch({ executablePath: process.argv[2], args: ["--no-sandbox"] });
  const sights = [];
  for (const session of plan.sessions) {
    const context = await browser.newContext({
      viewport: { width: session.width ?? 1280, height: session.height ?? 900 },
      colorScheme: session.scheme ?? "light",
      locale: session.locale ?? "en",
    });
    if (session.link) await signIn(context, session.link);
    for (const visit of session.visits) sights.push(await look(context, visit));
    await context.close();
  }
  await browser.close();
  console.log(JSON.stringify(sights));
})();
