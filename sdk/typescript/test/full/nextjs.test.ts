// The example for Next.js, built as for production, in Chromium.

import { execFile, spawn, type ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { launch } from "../harness/chromium.js";
import { Server } from "../harness/server.js";
import { until } from "../harness/until.js";

const folder = fileURLToPath(new URL("../../../../examples/nextjs/", import.meta.url));
const next = join(folder, "node_modules/.bin/next");
const BUILD_MS = 10 * 60_000;

let server: Server;
let browser: Browser;
let program: ChildProcess;
let address: string;
const devices: BrowserContext[] = [];

beforeAll(async () => {
  if (!existsSync(next)) throw new Error("scripts/setup.sh full installs the example's packages");
  const { PATH = "", HOME = "" } = process.env;
  const env = { PATH, HOME, NEXT_TELEMETRY_DISABLED: "1" };
  await promisify(execFile)(next, ["build"], { cwd: folder, env });
  server = await Server.start({ apiKey: "operators-secret-key-0123456789" });
  const key = await server.cli("keys", "create", "nextjs", "--scopes", "read,chat,produce,tokens");
  program = spawn(next, ["start", "-p", "0", "-H", "127.0.0.1"], {
    cwd: folder,
    env: { ...env, THREADLINE_URL: server.url, BACKEND_KEY: key, SESSION_SECRET: "secret-of-the-test" },
  });
  let said = "";
  for (const stream of [program.stdout, program.stderr])
    stream?.on("data", (text: Buffer) => (said += text.toString()));
  const local = () => /Local:\s+(http:\S+)/.exec(said)?.[1] ?? "";
  address = await until("the example", local, () => said);
  browser = await chromium.launch(launch());
}, BUILD_MS);

afterEach(async () => {
  for (const device of devices.splice(0)) await device.close();
});

afterAll(async () => {
  await browser?.close();
  program?.kill();
  await server?.end();
});

/** A page of a user who is signed in. A hydration error, or any other one in a page, fails the test. */
async function signedIn(user: string): Promise<Page> {
  const device = await browser.newContext();
  devices.push(device);
  device.on("weberror", (error) => expect.unreachable(String(error.error())));
  const page = await device.newPage();
  page.on("console", (message) => {
    // The browser reports the response for a thread that does not exist yet.
    const isMissing = message.text().includes("status of 404");
    if (!isMissing) expect(message.type(), message.text()).not.toMatch(/error|warning/);
  });
  await page.goto(address);
  await page.getByRole("textbox", { name: "Name" }).fill(user);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("link", { name: "New thread" }).waitFor();
  return page;
}

const texts = (page: Page) => page.locator("li").allTextContents();
const answer = (page: Page) => page.locator("li").nth(1);
const idle = (page: Page) => page.getByRole("button", { name: "Send" }).waitFor();

async function send(page: Page, text: string): Promise<void> {
  await page.getByRole("textbox", { name: "Message" }).fill(text);
  await page.getByRole("button", { name: "Send" }).click();
}

/** What a page has shown since its HTML was parsed: whether its list was ever loading, and the fewest messages that the list had. */
interface Shown {
  loading: boolean;
  fewest: number;
}

/** Has a page watch its list from the first HTML on, in each document that it opens. */
async function watch(page: Page): Promise<void> {
  await page.addInitScript(() => {
    const shown: Shown = ((window as { shown?: Shown }).shown = { loading: false, fewest: Infinity });
    const look = () => {
      const list = document.querySelector("ol");
      if (!list || document.readyState === "loading") return;
      shown.loading ||= list.ariaBusy === "true";
      shown.fewest = Math.min(shown.fewest, list.childElementCount);
    };
    new MutationObserver(look).observe(document, { subtree: true, childList: true, attributes: true });
    document.addEventListener("readystatechange", look);
  });
}

const shown = (page: Page) => page.evaluate(() => (window as { shown?: Shown }).shown);

test("a message streams in, goes on after a reload in the middle, and is in the HTML", async () => {
  const page = await signedIn("ann");
  await page.getByRole("link", { name: "New thread" }).click();
  await send(page, "Hello <b>");
  await answer(page).filter({ hasText: "Once upon a time" }).waitFor();

  const loads: string[] = [];
  page.on("request", (request) => /\/(messages|state|events)\b/.test(request.url()) && loads.push(request.url()));
  // The first HTML of a reload, as a browser without JavaScript shows it.
  const html = await (await page.request.get(page.url())).text();
  expect(html).toContain('<li class="user">Hello &lt;b&gt;</li><li class="assistant">Once upon a time');
  expect(html).not.toContain("the end.</li>");
  await watch(page);
  await page.reload();
  expect((await texts(page))[0]).toBe("Hello <b>");
  await page.getByRole("button", { name: "Stop" }).waitFor();
  await idle(page);
  const numbers = Array.from({ length: 40 }, (_, at) => `${at + 1}, `).join("");
  const story = `Once upon a time somebody said “Hello <b>” and everybody listened. It was told again and again: ${numbers}the end.`;
  expect(await texts(page)).toEqual(["Hello <b>", story]);
  expect(loads).toEqual([]);
  expect(await shown(page)).toEqual({ loading: false, fewest: 2 });

  await page.reload();
  expect(await texts(page)).toEqual(["Hello <b>", story]);
  expect(await shown(page)).toEqual({ loading: false, fewest: 2 });
  await send(page, "Again");
  await page.getByRole("button", { name: "Stop" }).click();
  await idle(page);
  expect(await texts(page)).toHaveLength(4);
  expect(loads).toEqual([]);

  const other = await signedIn("bob");
  await other.goto(page.url());
  await expect.poll(() => other.locator("ol").getAttribute("aria-busy")).toBe("false");
  expect(await texts(other)).toEqual([]);
  const stranger = await (await fetch(page.url(), { redirect: "manual" })).text();
  expect(stranger).not.toContain("Once upon");
});

test("a chat of the AI SDK is in the HTML, goes on after a reload without being loaded again, and is stopped", async () => {
  const page = await signedIn("carol");
  await page.getByRole("link", { name: "New chat" }).click();
  await send(page, "Hello, give me a long answer");
  await expect.poll(async () => (await texts(page))[1]?.length ?? 0).toBeGreaterThan(20);

  const requests: string[] = [];
  const api = new URL(server.url).host;
  page.on("request", (request) => {
    const { host, pathname } = new URL(request.url());
    if (host === api && request.method() !== "OPTIONS") requests.push(`${request.method()} ${pathname}`);
  });
  await watch(page);
  const before = (await texts(page))[1]!;
  await page.reload();
  await page.getByRole("button", { name: "Stop" }).waitFor();
  await expect.poll(async () => (await texts(page))[1]?.startsWith(before)).toBe(true);
  const chat = new URL(page.url()).pathname.split("/").at(-1)!;
  expect(requests).toEqual([`GET /ai/demo/${chat}/stream`]);
  expect(await shown(page)).toEqual({ loading: false, fewest: 2 });
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Answer again" }).waitFor();
  const stopped = await texts(page);
  expect(stopped).toHaveLength(2);

  await page.goto(address);
  await page.locator(`nav a[href$="${chat}"]`).click();
  await expect.poll(() => texts(page)).toEqual(stopped);
  expect(await page.locator("p[role=alert]").count()).toBe(0);
});
