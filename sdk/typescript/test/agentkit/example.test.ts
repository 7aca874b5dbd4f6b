import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch } from "../harness/chromium.js";
import { Program } from "../harness/program.js";
import { BINARY } from "../harness/server.js";

const EXAMPLE = fileURLToPath(new URL("../../../../examples/agentkit/", import.meta.url));
const PATIENCE_MS = 30_000;

const data = mkdtempSync(join(tmpdir(), "threadline-example-"));
let program: Program;
let address: string;
let browser: Browser;

beforeAll(async () => {
  if (!existsSync(join(EXAMPLE, "node_modules")))
    throw new Error("scripts/setup.sh test installs the example's packages");
  // The same as `npm start`, in one process that can be stopped.
  const { scripts } = JSON.parse(readFileSync(join(EXAMPLE, "package.json"), "utf8")) as { scripts: { start: string } };
  const { PATH = "", HOME = "" } = process.env;
  const env = { PATH, HOME, PORT: "0", THREADLINE: BINARY, THREADLINE_DATA: data, MOCK_THINKS_MS: "700" };
  const command = `cd '${EXAMPLE}' && exec ${scripts.start}`;
  [[program, address], browser] = await Promise.all([
    Program.start("the example", "sh", ["-c", command], env),
    chromium.launch(launch()),
  ]);
});

afterAll(async () => {
  await browser?.close();
  await program?.end("SIGTERM");
  // The example ends after Threadline, so nothing writes here any more.
  rmSync(data, { recursive: true });
});

/** Another device, which shares nothing with other pages. */
async function open(hash = ""): Promise<Page> {
  const page = await (await browser.newContext()).newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  await page.goto(address + hash);
  return page;
}

async function say(page: Page, text: string): Promise<void> {
  await page.fill("[name=message]", text);
  await page.press("[name=message]", "Enter");
}

const shown = (page: Page) => page.locator("#messages p").allTextContents();
const waitFor = (page: Page, text: string) => page.locator("#messages p", { hasText: text }).first().waitFor();
const idle = (page: Page) => page.locator("#status", { hasText: /^$/ }).waitFor({ state: "attached" });

test("a chat on two devices, with the history on the server and on the client", async () => {
  const [one, two] = await Promise.all([open("#otters"), open("#otters")]);
  // Visible to both while the network is running, which is short, so the watches start before it.
  const working = [one, two].map((page) => page.locator("#status", { hasText: "working" }).waitFor());
  await Promise.all([say(one, "Tell me about otters"), ...working]);
  await waitFor(two, "Tell me about otters");
  await waitFor(two, "20 letters are known about it");
  const reply = /I know of 1 message of yours in this thread\. What was looked up: .*20 letters/;
  for (const page of [one, two]) {
    await page.locator("#messages p", { hasText: reply }).waitFor();
    await page.locator("nav button", { hasText: "Tell me about otters" }).waitFor();
  }
  await idle(two);
  expect(await shown(two)).toEqual(await shown(one));
  expect(await shown(one)).toHaveLength(4);

  // The other device continues, and sends the history itself.
  await two.check("[value=client]");
  await say(two, "And beavers?");
  for (const page of [one, two]) await waitFor(page, "I know of 2 messages of yours");
  await two.locator("#messages[data-history='3 sent by the client']").waitFor({ state: "attached" });
  await say(one, "Thanks");
  await one.locator("#messages[data-history='loaded by the server']").waitFor({ state: "attached" });
  for (const page of [one, two]) await waitFor(page, "I know of 3 messages of yours");
  await idle(one);
  await one.reload();
  await waitFor(one, "I know of 3 messages of yours");
  expect(await shown(one)).toEqual(await shown(two));
});

test("the list follows other devices", async () => {
  const [one, two] = await Promise.all([open(), open()]);
  await say(one, "First of all");
  const entry = two.locator("nav button", { hasText: "First of all" });
  await entry.click();
  await waitFor(two, "You said: First of all");
  two.on("dialog", (dialog) => void dialog.accept("Renamed"));
  await two.click("#rename");
  await one.locator("nav button", { hasText: "Renamed" }).waitFor();
  await two.click("#archive");
  await one.locator("nav button", { hasText: "Renamed" }).waitFor({ state: "detached" });
});
