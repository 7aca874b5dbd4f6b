import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { launch } from "../harness/chromium.js";
import { Example } from "../harness/example.js";
import { Server } from "../harness/server.js";

let server: Server;
let browser: Browser;
let example: Example;
let context: BrowserContext;

beforeAll(async () => {
  [example, server, browser] = await Promise.all([Example.start("ai-sdk"), Server.start(), chromium.launch(launch())]);
});

afterEach(() => context?.close());

afterAll(async () => {
  await browser?.close();
  example?.end();
  await server?.end();
});

/** A page of a new browser, with a new chat. */
async function open(): Promise<Page> {
  context = await browser.newContext();
  context.on("weberror", (error) => expect.unreachable(String(error.error())));
  const page = await context.newPage();
  page.on("console", (message) => expect(message.type(), message.text()).not.toBe("warning"));
  await page.goto(example.at(server));
  await field(page).waitFor();
  return page;
}

const field = (page: Page) => page.getByRole("textbox", { name: "Message" });
const button = (page: Page, name: string) => page.getByRole("button", { name });
const texts = (page: Page) => page.locator("li").allTextContents();

async function say(page: Page, text: string): Promise<void> {
  await field(page).fill(text);
  await field(page).press("Enter");
}

/** Waits until the answer has begun, and returns what there is of it. */
async function begun(page: Page): Promise<string> {
  await expect.poll(async () => (await texts(page))[1] ?? "").not.toBe("");
  return (await texts(page))[1]!;
}

test("a chat is resumed after a reload, is the same in a second tab, and its answer is made again", async () => {
  const page = await open();
  expect(await field(page).evaluate((input) => input === document.activeElement)).toBe(true);
  await say(page, "Hello, give me a long answer");
  const first = await begun(page);
  await page.reload();
  const tab = await context.newPage();
  await tab.goto(page.url());
  for (const one of [page, tab]) {
    await button(one, "Stop").waitFor();
    // The message is streamed again from its beginning.
    await expect.poll(async () => (await texts(one))[1]?.startsWith(first)).toBe(true);
  }
  await button(tab, "Stop").click();
  for (const one of [page, tab]) await button(one, "Answer again").waitFor();
  const stopped = await texts(page);
  expect(await texts(tab)).toEqual(stopped);
  expect(stopped).toHaveLength(2);

  await button(page, "Answer again").click();
  await button(page, "Stop").waitFor();
  await begun(page);
  await button(page, "Stop").click();
  await button(page, "Answer again").waitFor();
  const again = await texts(page);
  expect(again).toHaveLength(2);
  await tab.reload();
  await expect.poll(() => texts(tab)).toEqual(again);
  expect(await page.getByRole("alert").count()).toBe(0);

  await page.getByRole("link", { name: "New chat" }).click();
  await expect.poll(() => texts(page)).toEqual([]);
  await expect.poll(() => new URL(page.url()).hash).toMatch(/^#[0-9a-f-]{36}$/);
});

test("an answer goes on after a restart of the server, and so does the chat", async () => {
  const page = await open();
  await say(page, "Hello, give me a long answer");
  await begun(page);
  await server.restart();
  await page.getByRole("alert").waitFor();
  // The server cuts the streams of a run that it goes on with; a page that is loaded before would show that, too.
  const runs = `/v1/threads/${new URL(page.url()).hash.slice(1)}/runs`;
  const attempt = async () => (await server.request<{ runs: { attempt: number }[] }>("GET", runs)).runs[0]?.attempt;
  await expect.poll(attempt).toBe(2);
  await page.reload();
  // The answer is given again, as the same message.
  await button(page, "Stop").waitFor();
  await begun(page);
  await button(page, "Stop").click();
  await button(page, "Answer again").waitFor();
  expect(await texts(page)).toHaveLength(2);
  await say(page, "Hello again, give me a long answer");
  await expect.poll(async () => (await texts(page))[3] ?? "").not.toBe("");
  await button(page, "Stop").click();
  await button(page, "Answer again").waitFor();
  const shown = await texts(page);
  expect(shown).toHaveLength(4);
  await page.reload();
  await expect.poll(() => texts(page)).toEqual(shown);
  expect(await page.getByRole("alert").allTextContents()).toEqual([]);
});
