// Branches of a conversation: messages are edited and answers made again in place, and a picker goes from one to the other.

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { NewEvent } from "threadline";
import type { Locator, Page } from "playwright-core";
import { client, said, Server, text } from "./harness/api.ts";
import { Chromium, refused } from "./harness/chromium.ts";
import {
  button,
  dialog,
  from,
  gone,
  heading,
  idle,
  messages,
  notice,
  rowOf,
  threadIn,
  toTop,
} from "./harness/parts.ts";

let server: Server;
let browser: Chromium;
beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), Chromium.start()]);
});
afterEach(() => browser.leave());
afterAll(() => Promise.all([browser?.end(), server?.end()]));

/** Adds questions and answers to a thread, each as a run. */
async function write(threadId: string, ...questions: string[]): Promise<void> {
  for (const content of questions) {
    const input = { threadId, runId: content, messages: [{ id: `u-${content}`, role: "user" as const, content }] };
    const events: NewEvent[] = [
      { type: "RUN_STARTED", threadId, runId: content, input },
      ...text(`a-${content}`, "assistant", `${content}?`),
      { type: "RUN_FINISHED", threadId, runId: content },
    ];
    await client(server).thread(threadId).putRun(content, events, { agentId: "demo" });
  }
}

/** A thread of the demo agent with two questions and answers, open in a page. */
async function answered(): Promise<{ threadId: string; page: Page }> {
  const { threadId } = await client(server).threads.create({ name: "Branched", agentId: "demo" });
  await write(threadId, "one", "two");
  return { threadId, page: await open(threadId, "two?") };
}

/** Opens a thread, and waits for its last message. */
async function open(threadId: string, last: string): Promise<Page> {
  const page = await browser.open(server, { at: `#/threads/${threadId}`, expects: [refused(404, 409)] });
  await message(page, last).waitFor();
  await idle(page);
  return page;
}

/** A message by its text. */
const message = (page: Page, content: string) =>
  messages(page)
    .getByRole("article")
    .filter({ hasText: new RegExp(`^${content.replace("?", "\\?")}$`) });
const editor = (page: Page) => page.getByRole("textbox", { name: "Edited message" });
const picker = (page: Page, at: number, count: number) =>
  messages(page).getByRole("group", { name: `Branch ${at} of ${count}`, exact: true });
const hasFocus = (locator: Locator) =>
  expect.poll(() => locator.evaluate((it) => it === document.activeElement)).toBe(true);
/** Waits until the page shows another thread than this, whose run has ended; returns its id. */
async function moved(page: Page, threadId: string): Promise<string> {
  await expect.poll(() => threadIn(page)).not.toBe(threadId);
  await idle(page);
  return threadIn(page);
}

test("a message is edited in a branch, an answer made again, and a picker goes to the others", async () => {
  const { threadId, page } = await answered();
  await button(message(page, "two"), "Edit").click();
  await editor(page).fill("never sent");
  await editor(page).press("Escape");
  await hasFocus(button(message(page, "two"), "Edit"));
  await page.keyboard.press("Enter");
  await editor(page).fill("second");
  await editor(page).press("Enter");
  const edited = await moved(page, threadId);
  await message(page, "second").waitFor();
  await gone(message(page, "two?"));
  await message(page, "one?").waitFor();
  await picker(page, 2, 2).waitFor();
  await rowOf(page, edited).waitFor();
  expect(await said(server, edited, "user")).toEqual(["one", "second"]);
  expect(await said(server, threadId, "user")).toEqual(["one", "two"]);
  await gone(rowOf(page, threadId));

  // Back to the origin, which then is listed; the keyboard stays at the picker.
  await button(picker(page, 2, 2), "Previous branch").focus();
  await page.keyboard.press("Enter");
  await message(page, "two?").waitFor();
  expect(threadIn(page)).toBe(threadId);
  await hasFocus(button(picker(page, 1, 2), "Next branch"));
  expect(await button(picker(page, 1, 2), "Previous branch").isDisabled()).toBe(true);
  await rowOf(page, threadId).waitFor();
  await gone(rowOf(page, edited));

  await button(message(page, "two?"), "Regenerate").click();
  const again = await moved(page, threadId);
  await picker(page, 3, 3).waitFor();
  expect(await said(server, again, "user")).toEqual(["one", "two"]);
  await button(picker(page, 3, 3), "Previous branch").click();
  await message(page, "second").waitFor();
  expect(threadIn(page)).toBe(edited);
  await hasFocus(button(picker(page, 2, 3), "Previous branch"));
});

test("a branch is shown in every page, and deleting the conversation deletes all branches", async () => {
  const { threadId, page } = await answered();
  const other = await open(threadId, "two?");
  await client(server).thread(threadId).fork({ at: 0, threadId: "elsewhere" });
  for (const each of [page, other]) await picker(each, 1, 2).waitFor();
  await rowOf(page, "elsewhere").waitFor();
  await gone(rowOf(page, threadId));
  await button(picker(other, 1, 2), "Next branch").click();
  await other.getByText("There are no messages yet.").waitFor();
  await hasFocus(button(picker(other, 2, 2), "Previous branch"));

  await rowOf(page, "elsewhere").focus();
  await page.keyboard.press("Delete");
  const asked = dialog(page, "Delete the thread?");
  await asked.getByText("The other branch of the conversation").waitFor();
  await button(asked, "Delete").click();
  await notice(page, "is deleted").waitFor();
  await heading(page, "Choose a thread").waitFor();
  await heading(other, "This thread was deleted").waitFor();
  for (const id of [threadId, "elsewhere"]) {
    await gone(rowOf(page, id));
    await expect(server.request("GET", `/v1/threads/${id}`)).rejects.toThrow("404");
  }
});

test("an edit is shown in place of what it replaces; refused, it stays with the reason until it is sent or discarded", async () => {
  const { page, threadId } = await answered();
  let isRefused = true;
  await page.route("**/runs", (route) => {
    if (!isRefused) return route.continue();
    return route.fulfill({
      status: 409,
      contentType: "application/problem+json",
      body: JSON.stringify({ type: "/problems/too-many-branches", status: 409, title: "Too many branches" }),
    });
  });
  const edit = async (text: string) => {
    await button(message(page, "two"), "Edit").click();
    await editor(page).fill(text);
    await editor(page).press("Enter");
    await unsent.getByRole("alert").getByText("limit of 256 branches").waitFor();
    await unsent.getByText(text).waitFor();
  };
  const unsent = from(page, "You").last();
  await edit("one too many");
  await gone(message(page, "two"));
  await button(unsent, "Discard").click();
  await message(page, "two").waitFor();
  await message(page, "two?").waitFor();
  await button(from(page, "demo").last(), "Regenerate").click();
  await notice(page, "limit of 256 branches").waitFor();
  await edit("one more");
  isRefused = false;
  await button(unsent, "Send again").click();
  const branch = await moved(page, threadId);
  await expect.poll(() => said(server, branch, "user")).toEqual(["one", "one more"]);
});

test("a picker far above stays in sight in the branch that it leads to", async () => {
  const threadline = client(server);
  const { threadId } = await threadline.threads.create({ name: "Long", agentId: "demo" });
  await write(threadId, "start");
  const fork = (await threadline.thread(threadId).fork()).threadId;
  const questions = (branch: string) => Array.from({ length: 30 }, (_, at) => `${branch} ${at + 1}`);
  await write(threadId, ...questions("first"));
  await write(fork, ...questions("second"));
  const page = await open(fork, "second 30?");
  await toTop(page);
  await button(picker(page, 2, 2), "Previous branch").click();
  await message(page, "first 1").waitFor();
  await hasFocus(button(picker(page, 1, 2), "Next branch"));
  const view = (await messages(page).boundingBox())!;
  const at = (await picker(page, 1, 2).boundingBox())!;
  expect(at.y).toBeGreaterThanOrEqual(view.y);
  expect(at.y + at.height).toBeLessThanOrEqual(view.y + view.height);
});
