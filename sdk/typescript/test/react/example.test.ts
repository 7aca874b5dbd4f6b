import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { launch } from "../harness/chromium.js";
import { Example } from "../harness/example.js";
import { Server } from "../harness/server.js";

let server: Server;
let browser: Browser;
let example: Example;
let address: string;
const devices: BrowserContext[] = [];

beforeAll(async () => {
  [example, server, browser] = await Promise.all([Example.start("react"), Server.start(), chromium.launch(launch())]);
  address = example.at(server);
});

afterEach(async () => {
  for (const device of devices.splice(0)) await device.close();
});

afterAll(async () => {
  await browser?.close();
  example?.end();
  await server?.end();
});

/** A separate device, whose pages share nothing with those of others. An error logged by a page fails the test. */
async function device(): Promise<() => Promise<Page>> {
  const made = await browser.newContext();
  devices.push(made);
  made.on("weberror", (error) => expect.unreachable(String(error.error())));
  return async () => {
    const page = await made.newPage();
    page.on("console", (message) => expect(message.type(), message.text()).not.toBe("warning"));
    await page.goto(address);
    await page.getByRole("button", { name: "New thread" }).waitFor();
    return page;
  };
}

const field = (page: Page) => page.getByRole("textbox", { name: "Message" });
const message = (page: Page, text: string | RegExp) => page.locator("main li", { hasText: text }).first();
const rows = (page: Page) => page.locator("nav li");
const texts = (page: Page) => page.locator("main li").allTextContents();
const idle = (page: Page) => page.getByRole("button", { name: "Send" }).waitFor();

test("a chat by keyboard, reloaded in the middle of a run, on two devices", async () => {
  const [open, elsewhere] = [await device(), await device()];
  const page = await open();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await field(page).waitFor();
  expect(await field(page).evaluate((input) => input === document.activeElement)).toBe(true);
  // The demo's long answer lasts longer than loading two pages, and is then stopped.
  await page.keyboard.type("Hello from the keyboard, give me a long answer");
  await page.keyboard.press("Enter");
  await message(page, "Hello from the keyboard").waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor();
  expect(await field(page).inputValue()).toBe("");

  const other = await elsewhere();
  await rows(other).first().waitFor();
  await other.goto(page.url());
  await page.reload();
  for (const one of [page, other]) {
    await message(one, "Hello from the keyboard").waitFor();
    await one.getByRole("button", { name: "Stop" }).waitFor();
  }
  await other.getByRole("button", { name: "Stop" }).click();
  for (const one of [page, other]) await idle(one);
  expect(await texts(other)).toEqual(await texts(page));
  expect((await texts(page)).length).toBeGreaterThan(1);
  expect(await page.getByRole("alert").count()).toBe(0);
});

test("the list is live across tabs, and a switch shows only the other thread", async () => {
  const open = await device();
  const [page, tab] = [await open(), await open()];
  const before = await rows(page).count();
  // Long answers: both are active until they are stopped.
  for (const text of ["First of two long ones", "Second of two long ones"]) {
    await page.getByRole("button", { name: "New thread" }).click();
    // The input of the previous thread must not be used: the page receives its new hash slightly later.
    await expect.poll(async () => (await texts(page)).length).toBe(0);
    await field(page).fill(text);
    await field(page).press("Enter");
    await message(page, text).waitFor();
    expect((await texts(page)).filter((said) => said.includes("of two"))[0]).toContain(text);
  }
  await expect.poll(() => rows(tab).count()).toBe(before + 2);
  // Both runs are active; the newest is on top.
  await tab.locator("nav li.running").first().waitFor();
  await rows(tab).nth(1).locator("a").click();
  await message(tab, "First of two").waitFor();
  expect((await texts(tab)).join()).not.toContain("Second of two");
  // The thread whose run ended last is on top.
  for (const one of [tab, page]) {
    await one.getByRole("button", { name: "Stop" }).click();
    await idle(one);
  }
  await expect.poll(() => tab.locator("nav li.running").count()).toBe(0);

  page.once("dialog", (dialog) => void dialog.accept("Renamed"));
  await rows(page).first().hover();
  await rows(page)
    .first()
    .getByRole("button", { name: /^Rename/ })
    .click();
  await tab.locator("nav a", { hasText: "Renamed" }).waitFor();
  await rows(tab).filter({ hasText: "Renamed" }).hover();
  await rows(tab)
    .filter({ hasText: "Renamed" })
    .getByRole("button", { name: /^Archive/ })
    .click();
  await expect.poll(() => page.locator("nav a", { hasText: "Renamed" }).count()).toBe(0);
  tab.once("dialog", (dialog) => void dialog.accept());
  await rows(tab).first().hover();
  await rows(tab)
    .first()
    .getByRole("button", { name: /^Delete/ })
    .click();
  await expect.poll(() => rows(page).count()).toBe(before);
  await tab.getByRole("alert").filter({ hasText: "the thread was deleted" }).waitFor();
});
