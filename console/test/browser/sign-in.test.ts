// A server that requires credentials.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Page } from "playwright-core";
import { Server, text, thread } from "./harness/api.ts";
import { Chromium, refused } from "./harness/chromium.ts";
import {
  begin,
  button,
  dialog,
  field,
  from,
  gone,
  heading,
  idle,
  notice,
  row,
  rows,
  sidebar,
} from "./harness/parts.ts";

const KEY = "the-key-of-the-operator";
const expects = [refused(400, 401, 403)];

let server: Server;
let browser: Chromium;
beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start({ apiKey: KEY }), Chromium.start()]);
  await thread(server, text("m", "assistant", "For Ada"), { name: "Ada's thread", user: "ada" });
  await thread(server, text("m", "assistant", "For Bob"), { name: "Bob's thread", user: "bob" });
});
afterEach(() => browser.leave());
afterAll(() => Promise.all([browser?.end(), server?.end()]));

const secret = (page: Page) => page.getByLabel("API key or token");

async function signIn(page: Page, key: string, user = "", remember = false): Promise<void> {
  await secret(page).fill(key);
  await page.getByRole("textbox", { name: /^User/ }).fill(user);
  if (remember) await page.getByRole("checkbox", { name: "Remember on this device" }).check();
  await button(page, "Open the console").click();
}

/** All that the page has stored. */
const kept = (page: Page) => page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));

/** A user's token, as the backend of an application gets it. */
async function token(user: string, scopes?: string[]): Promise<string> {
  const body = { userId: user, ...(scopes && { scopes }) };
  const made = await server.request<{ token: string }>("POST", "/v1/tokens", { body });
  return made.token;
}

describe("with a key", () => {
  test("a wrong key is refused with a reason, the right one opens a user's threads; no address contains it", async () => {
    const page = await browser.open(server, { expects });
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    page.on("websocket", (socket) => asked.push(socket.url()));
    await signIn(page, "a-wrong-key", "ada");
    await page.getByRole("alert").waitFor();
    expect(await page.getByRole("alert").textContent()).toMatch(/\w+ \w+/);
    await signIn(page, KEY, "ada");
    await row(page, "Ada's thread").waitFor();
    expect(await rows(page).count()).toBe(1);
    await row(page, "Ada's thread").click();
    await from(page, "Assistant").getByText("For Ada").waitFor();
    await begin(page, "Hello from Ada");
    await idle(page);
    expect(asked.filter((url) => url.includes(KEY))).toEqual([]);
    expect(asked.some((url) => url.startsWith("ws"))).toBe(true);
    expect(await page.evaluate(() => document.documentElement.outerHTML)).not.toContain(KEY);
  });

  test("a key without a user asks for the user", async () => {
    const page = await browser.open(server, { expects });
    await signIn(page, KEY);
    await page.getByRole("alert").waitFor();
    expect(await page.getByRole("alert").textContent()).toMatch(/user/i);
    await signIn(page, KEY, "bob");
    await row(page, "Bob's thread").waitFor();
  });

  test("a key is forgotten with the tab, unless the user has it remembered", async () => {
    const page = await browser.open(server, { expects });
    await signIn(page, KEY, "ada");
    await row(page, "Ada's thread").waitFor();
    await page.reload();
    await row(page, "Ada's thread").waitFor();
    const other = await page.context().newPage();
    await other.goto(page.url());
    await secret(other).waitFor();
    await signIn(other, KEY, "bob", true);
    await row(other, "Bob's thread").waitFor();
    const third = await page.context().newPage();
    await third.goto(page.url());
    await row(third, "Bob's thread").waitFor();
  });

  test("signing out leaves nothing behind", async () => {
    const page = await browser.open(server, { expects });
    await signIn(page, KEY, "ada", true);
    await row(page, "Ada's thread").waitFor();
    await row(page, "Ada's thread").click();
    await field(page).fill("A draft that no other user should read");
    expect(await kept(page)).toContain(KEY);
    await button(page, "More").click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await secret(page).waitFor();
    expect(await kept(page)).not.toContain(KEY);
    expect(await kept(page)).not.toContain("A draft that no other user should read");
    expect(await secret(page).inputValue()).toBe("");
    expect(await rows(page).count()).toBe(0);
    await page.reload();
    await secret(page).waitFor();
  });

  test("signing out ends the session of all tabs that have the key from the device", async () => {
    // A tab may still be connecting when it signs out.
    const early = /WebSocket is closed before the connection is established/;
    const page = await browser.open(server, { expects: [...expects, early] });
    await signIn(page, KEY, "ada", true);
    await row(page, "Ada's thread").waitFor();
    const other = await page.context().newPage();
    await other.goto(server.url);
    await row(other, "Ada's thread").waitFor();
    await button(page, "More").click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await secret(page).waitFor();
    await secret(other).waitFor();
    await expect.poll(() => kept(other)).not.toContain(KEY);
  });

  test("the threads of another user can be viewed", async () => {
    const page = await browser.open(server, { expects });
    await signIn(page, KEY, "ada");
    await row(page, "Ada's thread").waitFor();
    await button(page, "More").click();
    await page.getByRole("menuitem", { name: "View as user…" }).click();
    const user = dialog(page, "View as user").getByRole("textbox", { name: /^User/ });
    await user.fill("b".repeat(257));
    await button(dialog(page, "View as user"), "View").click();
    await dialog(page, "View as user").getByText("The user is too long").waitFor();
    await user.fill("bob");
    await button(dialog(page, "View as user"), "View").click();
    await row(page, "Bob's thread").waitFor();
    await gone(row(page, "Ada's thread"));
  });

  test("a key with read access is known as such after the first refused write", async () => {
    const body = { scopes: ["read"] };
    const { key } = await server.request<{ key: string }>("POST", "/v1/keys", { body });
    const page = await browser.open(server, { expects });
    await signIn(page, key, "bob");
    await row(page, "Bob's thread").click();
    await expectReadOnly(page);
  });

  test("a key that is revoked meanwhile is reported, and another one requested", async () => {
    const { keyId, key } = await server.request<{ keyId: string; key: string }>("POST", "/v1/keys", { body: {} });
    // A socket that is being opened at that moment is refused for its ticket.
    const cut = /WebSocket connection to .* failed: HTTP Authentication failed/;
    const page = await browser.open(server, { expects: [...expects, cut] });
    await signIn(page, key, "ada");
    await row(page, "Ada's thread").waitFor();
    await server.request("DELETE", `/v1/keys/${keyId}`);
    await secret(page).waitFor();
    await page.getByRole("alert").getByText("not valid").waitFor();
    await expect.poll(() => kept(page)).not.toContain(key);
    await signIn(page, KEY, "ada");
    await row(page, "Ada's thread").waitFor();
  });
});

/** Asserts that the open thread offers no action that would be refused. */
async function expectReadOnly(page: Page): Promise<void> {
  await page.getByRole("form", { name: "Write a message" }).getByText("You may only read").waitFor();
  expect(await field(page).isDisabled()).toBe(true);
  await button(page, "Options of this thread").click();
  const item = (name: string) => page.getByRole("menuitem", { name, exact: true });
  await item("Rename").waitFor();
  for (const name of ["Rename", "Archive", "Delete"]) expect(await item(name).isDisabled()).toBe(true);
  expect(await item("Copy id").isDisabled()).toBe(false);
  await page.keyboard.press("Escape");
  await gone(item("Rename"));
}

describe("with a user's token", () => {
  test("a token names its user and its write access", async () => {
    const page = await browser.open(server, { expects });
    await signIn(page, await token("bob"));
    await row(page, "Bob's thread").waitFor();
    await page.getByTitle("bob", { exact: true }).waitFor();
    await begin(page, "Hello from Bob");
    await idle(page);
    await button(page, "More").click();
    await page.getByRole("menuitem", { name: "Sign out" }).waitFor();
    expect(await page.getByRole("menuitem", { name: "View as user…" }).count()).toBe(0);
  });

  test("a token with read access offers no forbidden action, and says why", async () => {
    const page = await browser.open(server, { expects: [refused(401)] });
    await signIn(page, await token("bob", ["read"]));
    await row(page, "Bob's thread").click();
    await from(page, "Assistant").getByText("For Bob").waitFor();
    await expectReadOnly(page);
    await page.keyboard.press("F2");
    await button(page, "Bob's thread").click();
    await notice(page, "You may only read").last().waitFor();
    expect(await page.getByRole("dialog").count()).toBe(0);
    await sidebar(page).getByRole("link", { name: "New thread", exact: true }).click();
    await page.getByRole("form", { name: "Write a message" }).getByText("You may only read").waitFor();
    expect(await button(page, /Write me a long answer/).isDisabled()).toBe(true);
  });

  test("a token of another server is refused", async () => {
    const page = await browser.open(server, { expects });
    const [head, body] = (await token("ada")).split(".");
    await signIn(page, `${head}.${body}.AAAA`);
    await page.getByRole("alert").waitFor();
    expect(await rows(page).count()).toBe(0);
  });

  test("another user's thread looks like a missing one", async () => {
    const { threads } = await server.request<{ threads: { threadId: string }[] }>("GET", "/v1/threads", {
      user: "ada",
    });
    const page = await browser.open(server, {
      at: `#/threads/${threads.at(-1)!.threadId}`,
      expects: [...expects, refused(404)],
    });
    await signIn(page, await token("bob"));
    await heading(page, "Thread not found").waitFor();
    await page.goto(`${server.url}/#/threads/never-was-there`);
    await page.getByText("never-was-there").waitFor();
    await heading(page, "Thread not found").waitFor();
  });
});
