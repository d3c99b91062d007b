// The page in Chromium. `node browser.mjs URL check SECTION…` tests it, `node browser.mjs URL lost PID` ends the
// process PID and tests that the page says so, and `node browser.mjs URL shots FOLDER` takes the screenshots of the
// README. LINESIDE_CHROMIUM is the path of the browser.

import assert from "node:assert/strict";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { chromium } from "playwright-core";

const [url, what, ...rest] = process.argv.slice(2);
// Maximum time to wait for the page. It is long, because the machine may be busy with other tests.
const PATIENCE_MS = 60_000;

const ARGUMENTS = [
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-gpu",
  "--disable-quic",
  "--disable-sync",
  "--no-first-run",
  // Chromium's own sandbox does not work as root. The page is our own.
  ...(process.getuid?.() === 0 ? ["--no-sandbox"] : []),
];

/** Opens the page. Messages of the console, errors, and requests to other servers are collected in `page.said`. */
async function open(browser, options) {
  const page = await browser.newPage(options);
  page.setDefaultTimeout(PATIENCE_MS);
  page.said = [];
  page.on("console", (message) => page.said.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => page.said.push(`error: ${error.message}`));
  page.on("request", (request) => {
    if (!request.url().startsWith(url)) page.said.push(`request to ${request.url()}`);
  });
  await page.goto(url);
  await page.waitForSelector("section.service canvas");
  return page;
}

/** Reads the samples that the process keeps. */
async function history() {
  return (await fetch(new URL("history", url))).json();
}

/** Reads a figure of a service by its label. */
function figure(page, section, label) {
  return page.locator(`#${section} dl div`, { hasText: label }).first().locator("dd").innerText();
}

/** Waits until a text of the page differs from what it is now. */
async function changes(page, selector) {
  const before = await page.locator(selector).first().innerText();
  await page.waitForFunction(
    ([selector, before]) => document.querySelector(selector)?.textContent !== before,
    [selector, before],
  );
}

async function showsServices(page, sections) {
  for (const section of sections) {
    await page.waitForSelector(`#${section} canvas`);
    const heading = await page.locator(`#${section} h2`).innerText();
    assert.ok(section.startsWith(heading.split(":")[0]), heading);
    assert.ok((await page.locator(`#${section} figure`).count()) >= 4, section);
    const labels = await page.locator(`#${section} [role=img]`).evaluateAll((all) => all.map((one) => one.ariaLabel));
    for (const label of labels) assert.match(label, /last 5 minutes\. .*now .*lowest .*highest /, section);
    const tables = page.locator(`#${section} table`);
    const captions = await tables.evaluateAll((all) => all.map((one) => one.caption?.textContent));
    assert.ok(captions.length >= 2 && captions.every((caption) => caption), `${section}: ${captions}`);
  }
  assert.equal(await page.locator("h1").innerText(), "Lineside");
  assert.equal(await page.locator("main, nav, footer").count(), 3);
  assert.equal(await page.locator("#connection").innerText(), "live, each second");
}

/** The numbers of each service are those that its clients cause, and they change. */
async function isLive(page) {
  await page.waitForFunction(() => {
    const ratio = [...document.querySelectorAll("#spv dl div")].find((one) => one.textContent?.startsWith("Hit ratio"));
    return Number.parseFloat(ratio?.querySelector("dd")?.textContent ?? "0") > 10;
  });
  assert.match(await figure(page, "spv", "Lease left"), /^\d+\.\d+ s$/);
  assert.equal(await figure(page, "spv", "Tip, height"), "1");
  assert.match(await figure(page, "transfer", "Accounts"), /^2 of 1\.02 k /);
  assert.notEqual(await figure(page, "column", "Rows held"), "0");
  assert.equal(await figure(page, "fabric-lab", "Source"), "sends blocks");
  assert.match(await page.locator("#fabric-lab").innerText(), /MVCC_READ_CONFLICT|ENDORSEMENT_POLICY_FAILURE/);
  assert.equal(await figure(page, "hybrid", "Members"), "1");
  const rows = page.locator("#spv table tbody tr", { hasText: "hits" }).first();
  assert.match(await rows.innerText(), /^Reply\s+hits/);
  // Waits for changes of the total of hits, of the legend of the requests, and of the height of the ledger.
  await changes(page, "#spv .tables tbody tr td:nth-child(4)");
  await changes(page, "#transfer .legend b");
  await changes(page, "#hybrid dl dd");
}

/** A page that is opened later shows values from before it was opened. */
async function hasHistory(browser) {
  while ((await history()).samples.length < 12) await delay(200);
  const page = await open(browser, {});
  // The chart is drawn in its older part as well: the line of the lease begins at the first sample.
  const label = await page.locator("#spv [role=img]").first().getAttribute("aria-label");
  assert.match(label, /highest [\d.]+ ?k?\/s/);
  assert.deepEqual(page.said, []);
  await page.close();
}

/** Returns the height of the replica from the status, and checks that the metric has the same value. */
async function fabricHeight() {
  const { services } = await (await fetch(new URL("status", url), { headers: { accept: "application/json" } })).json();
  const { tip, host } = services.find((service) => service.name === "fabric");
  assert.equal(tip.height, host.height);
  return tip.height;
}

/** Presses Tab through the whole page. Every control must get the focus, in the order of the page, and show it. */
async function keyboard(page) {
  const controls = await page.evaluate(() => {
    const all = [...document.querySelectorAll("a[href], button, summary, [tabindex='0']")];
    const visible = all.filter((one) => one.checkVisibility());
    visible.forEach((one, i) => one.setAttribute("data-test", String(i)));
    return visible.length;
  });
  assert.ok(controls >= 15, `${controls} controls`);
  await page.evaluate(() => document.activeElement?.blur());
  const reached = [];
  for (let i = 0; i < controls + 3; i += 1) {
    await page.keyboard.press("Tab");
    const focus = await page.evaluate(() => {
      const one = document.activeElement;
      const style = one ? getComputedStyle(one) : null;
      return { place: one?.getAttribute("data-test"), outline: style?.outlineStyle, width: style?.outlineWidth };
    });
    if (focus.place === null || focus.place === undefined) continue;
    assert.ok(focus.outline !== "none" && focus.width !== "0px", `control ${focus.place} does not show its focus`);
    reached.push(Number(focus.place));
  }
  const expected = Array.from({ length: controls }, (_, i) => i);
  assert.deepEqual([...new Set(reached)], expected, "order of the controls");

  await page.locator("button", { hasText: "1 min" }).focus();
  await page.keyboard.press("Enter");
  assert.equal(await page.locator("button[aria-pressed=true]").innerText(), "1 min");
  assert.match(await page.locator("#spv [role=img]").first().getAttribute("aria-label"), /last 60 seconds/);
  await page.locator("#pause").focus();
  await page.keyboard.press("Space");
  const connection = page.locator("#connection");
  assert.equal(await connection.innerText(), "paused");
  const hits = page.locator("#spv .tables tbody tr td:nth-child(4)").first();
  const before = await hits.innerText();
  // Two further samples arrive while the page is paused.
  const newest = async () => (await history()).samples.at(-1).at_ms;
  const now_ms = await newest();
  while ((await newest()) < now_ms + 2000) await delay(200);
  assert.equal(await hits.innerText(), before);
  await page.keyboard.press("Space");
  await page.waitForFunction(
    (before) => document.querySelector("#spv .tables tbody tr td:nth-child(4)")?.textContent !== before,
    before,
  );
  await page.locator("#spv summary").first().focus();
  await page.keyboard.press("Enter");
  await page.waitForSelector("#spv details[open] tbody tr");
  await page.locator("#links a").first().focus();
  await page.keyboard.press("Enter");
  assert.equal(new URL(page.url()).hash, "#spv");
}

/** Nothing on the page is wider than a narrow screen, even if all tables are open. */
async function isNarrow(browser) {
  const page = await open(browser, { viewport: { width: 400, height: 800 } });
  await page.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = true)));
  await page.waitForSelector("details[open] tbody tr");
  const wide = await page.evaluate(() => [document.documentElement.scrollWidth, document.body.scrollWidth]);
  assert.deepEqual(wide, [400, 400]);
  // No element begins before the left edge or ends after the right one, not even in a box that scrolls. The link that
  // skips to the content is outside of the page until it has the focus.
  const outside = await page.evaluate(() =>
    [...document.querySelectorAll("body *:not(.skip)")]
      .filter((one) => one.checkVisibility())
      .map((one) => [one, one.getBoundingClientRect()])
      .filter(([, box]) => box.width > 0 && (box.left < -0.5 || box.right > 400.5))
      .map(([one, { left, right }]) => `${one.tagName} ${one.className} ${left} to ${right}: ${one.textContent}`),
  );
  assert.deepEqual(outside, []);
  // Every number has the heading of its column, because the row of headings is not shown.
  const headings = await page.evaluate(() =>
    [...document.querySelectorAll("#spv tbody .number")].map((cell) => getComputedStyle(cell, "::before").content),
  );
  assert.ok(headings.length > 10 && headings.every((one) => /\w{3}/.test(one)), `${headings.slice(0, 5)}`);
  assert.deepEqual(page.said, []);
  await page.close();
}

/** Code in texts of the server is shown as code, without the backticks around it. */
async function hasNoBackticks(page) {
  const { warnings, problems } = await (await fetch(new URL("status", url))).json();
  assert.ok([...warnings, ...problems].some((text) => text.includes("`")), "no message has code");
  assert.ok((await page.locator("#messages code").count()) > 0);
  const texts = await page.evaluate(() => document.body.textContent);
  assert.ok(!texts.includes("`"), texts.slice(Math.max(0, texts.indexOf("`") - 60)).slice(0, 120));
}

/** All text has a contrast of at least 4.5 to its background, in both colour schemes. */
async function contrast(browser, colorScheme) {
  const page = await open(browser, { colorScheme });
  const weak = await page.evaluate(() => {
    const channels = (colour) => (colour.match(/[\d.]+/g) ?? []).map(Number);
    const light = (colour) => {
      const [r, g, b] = channels(colour).map((one) => {
        const part = one / 255;
        return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const paper = (one) => {
      for (let at = one; at; at = at.parentElement) {
        const colour = getComputedStyle(at).backgroundColor;
        if ((channels(colour)[3] ?? 1) > 0) return colour;
      }
      return "rgb(255, 255, 255)";
    };
    const texts = [...document.querySelectorAll("body *")].filter(
      (one) => one.checkVisibility() && [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()),
    );
    return texts.flatMap((one) => {
      const [dark, bright] = [light(getComputedStyle(one).color), light(paper(one))].sort((a, b) => a - b);
      const ratio = (bright + 0.05) / (dark + 0.05);
      const what = `${one.tagName} ${one.className} ${one.textContent.slice(0, 30)}`;
      return ratio < 4.5 ? [`${what}: ${ratio.toFixed(2)}`] : [];
    });
  });
  assert.deepEqual(weak, [], colorScheme);
  const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const brightness = background.match(/\d+/g).slice(0, 3).map(Number);
  assert.ok(colorScheme === "dark" ? Math.max(...brightness) < 60 : Math.min(...brightness) > 200, background);
  // The charts follow a change of the colour scheme at once and without an error.
  await page.emulateMedia({ colorScheme: colorScheme === "dark" ? "light" : "dark" });
  await page.waitForSelector("section.service canvas");
  assert.deepEqual(page.said, []);
  await page.close();
}

/** No two figures of a service have the same label. */
async function hasNoFigureTwice(page, sections) {
  for (const section of sections) {
    const labels = await page.locator(`#${section} dl dt`).allInnerTexts();
    assert.deepEqual(labels, [...new Set(labels)], section);
  }
  assert.match(await page.locator("#spv dl").innerText(), /Fast path: blocks/);
}

/** When its process ends, the page says so with the time, keeps the last values, and claims no state of the process. */
async function isLost(browser, pid) {
  const page = await open(browser, {});
  const accounts = await figure(page, "transfer", "Accounts");
  process.kill(Number(pid), "SIGTERM");
  const text = page.locator("#connection", { hasText: "connection lost" });
  assert.match(await text.innerText(), /^connection lost at \d\d:\d\d:\d\d; the values are of that time$/);
  assert.equal(await page.locator("#state").innerText(), "");
  assert.equal(await page.locator("#messages").isVisible(), false);
  assert.equal(await page.locator("body").getAttribute("class"), "lost");
  assert.equal(await figure(page, "transfer", "Accounts"), accounts);
  await page.close();
}

async function check(browser, sections) {
  const page = await open(browser, { viewport: { width: 1280, height: 900 } });
  await showsServices(page, sections);
  await isLive(page);
  await hasNoFigureTwice(page, sections);
  await hasNoBackticks(page);
  assert.match(await page.locator(".states").innerText(), /^(Healthy|Not healthy) · live, each second$/);
  assert.equal(await figure(page, "fabric-lab", "Height"), String(await fabricHeight()));
  await hasHistory(browser);
  await keyboard(page);
  await isNarrow(browser);
  for (const colorScheme of ["light", "dark"]) await contrast(browser, colorScheme);
  assert.deepEqual(page.said, [], "messages in the browser's console");
}

async function shots(browser, folder) {
  for (const colorScheme of ["light", "dark"]) {
    const page = await open(browser, { viewport: { width: 1280, height: 1600 }, colorScheme });
    // The script waits for two samples, so that the screenshot shows the numbers of a page in use.
    await changes(page, "#transfer .legend b");
    await page.screenshot({ path: join(folder, `dashboard-${colorScheme}.png`) });
    assert.deepEqual(page.said, []);
    await page.close();
  }
}

const browser = await chromium.launch({
  executablePath: process.env.LINESIDE_CHROMIUM || "/usr/bin/chromium",
  args: ARGUMENTS,
});
try {
  if (what === "shots") await shots(browser, rest[0]);
  else if (what === "lost") await isLost(browser, rest[0]);
  else await check(browser, rest);
} finally {
  await browser.close();
}
