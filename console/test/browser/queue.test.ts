// Messages to a busy thread: they wait above the composer, in every page, until the run before them has ended.

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Page } from "playwright-core";
import { client, type OpenRun, openRun, said, Server, text, thread } from "./harness/api.ts";
import { Chromium, refused } from "./harness/chromium.ts";
import { button, field, from, gone, idle, notice, rowOf, running } from "./harness/parts.ts";

let server: Server;
let browser: Chromium;
beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), Chromium.start()]);
});
afterEach(() => browser.leave());
afterAll(() => Promise.all([browser?.end(), server?.end()]));

const queue = (page: Page) => page.getByRole("region", { name: "Queue" });
const waiting = (page: Page) => queue(page).locator(".queued-text");
/** The buttons of a waiting message. */
const turn = (page: Page, text: string) => queue(page).getByRole("group", { name: text, exact: true });
const shows = (page: Page, ...texts: string[]) => expect.poll(() => waiting(page).allTextContents()).toEqual(texts);

/** Writes a message into a busy thread, and presses Enter. */
async function write(page: Page, text: string, keys = "Enter"): Promise<void> {
  await field(page).fill(text);
  await field(page).press(keys);
  await expect.poll(() => field(page).inputValue()).toBe("");
}

/** A thread of the demo agent with a run of somebody else, open on two devices. */
async function busy(): Promise<{ threadId: string; run: OpenRun; one: Page; other: Page }> {
  const threadId = await thread(server, text("m", "assistant", "Hello"), { name: "Busy", agentId: "demo" });
  const run = await openRun(server, threadId);
  const visit = { at: `#/threads/${threadId}`, expects: [refused(404, 409)] };
  const [one, other] = await Promise.all([browser.open(server, visit), browser.open(server, visit)]);
  for (const page of [one, other]) await running(page);
  return { threadId, run, one, other };
}

test("what is sent to a busy thread waits, in every page, and begins when the run has ended", async () => {
  const { threadId, run, one, other } = await busy();
  await write(one, "First question");
  await write(one, "Second question");
  for (const page of [one, other]) await shows(page, "First question", "Second question");
  await queue(other).getByText("2 messages wait.").waitFor();
  await rowOf(other, threadId).getByRole("img", { name: "2 waiting" }).waitFor();
  expect(await said(server, threadId, "user")).toEqual([]);

  await run.end();
  for (const page of [one, other]) {
    await from(page, "You").getByText("First question").waitFor();
    await shows(page, "Second question");
  }
  for (const page of [one, other]) {
    await from(page, "You").getByText("Second question").waitFor();
    await gone(queue(page));
    await idle(page);
  }
  expect(await said(server, threadId, "user")).toEqual(["First question", "Second question"]);
});

test("waiting messages are edited, moved and removed, with the keyboard too", async () => {
  const { one, other } = await busy();
  for (const text of ["a", "b", "c"]) await write(one, text);
  await shows(other, "a", "b", "c");

  await button(turn(other, "c"), "Move up").click();
  await shows(one, "a", "c", "b");
  // Focus stays on the message, and on a button that can still be used.
  await expect
    .poll(() => button(turn(other, "c"), "Move up").evaluate((it) => it === document.activeElement))
    .toBe(true);
  await other.keyboard.press("Enter");
  await shows(one, "c", "a", "b");
  await expect
    .poll(() => button(turn(other, "c"), "Move down").evaluate((it) => it === document.activeElement))
    .toBe(true);
  expect(await button(turn(other, "c"), "Move up").isDisabled()).toBe(true);
  await button(turn(one, "a"), "Move down").click();
  await shows(other, "c", "b", "a");

  await button(turn(one, "b"), "Edit").click();
  const editor = queue(one).getByRole("textbox", { name: "Waiting message" });
  await editor.fill("b, but not now");
  await editor.press("Escape");
  await shows(one, "c", "b", "a");
  await expect.poll(() => button(turn(one, "b"), "Edit").evaluate((it) => it === document.activeElement)).toBe(true);
  await one.keyboard.press("Enter");
  await editor.fill("b, but better");
  await editor.press("Enter");
  for (const page of [one, other]) await shows(page, "c", "b, but better", "a");

  await button(turn(other, "c"), "Remove").click();
  for (const page of [one, other]) await shows(page, "b, but better", "a");
});

test("a message interrupts the run, from the composer or from the queue", async () => {
  const { threadId, run, one, other } = await busy();
  await write(one, "later");
  await write(other, "now", "Control+Enter");
  for (const page of [one, other]) {
    await shows(page, "now", "later");
    await button(page, "Stopping…").waitFor();
  }
  await run.end();
  await from(one, "You").getByText("now").waitFor();
  await shows(other, "later");
  await button(turn(other, "later"), "Send now").click();
  await from(one, "You").getByText("later").waitFor();
  await gone(queue(one));
  await field(one).fill("at once");
  await button(one, "Stop the run and send this now").click();
  await from(other, "You").getByText("at once").waitFor();
  for (const page of [one, other]) await idle(page);
  expect(await said(server, threadId, "user")).toEqual(["now", "later", "at once"]);
});

test("a queue that is held says why, and is released from any page", async () => {
  const { threadId, run, one, other } = await busy();
  await write(one, "after a stop");
  await shows(other, "after a stop");
  await button(other, "Stop").click();
  await run.end();
  for (const page of [one, other]) await queue(page).getByText("Held: the run was stopped.").waitFor();
  await rowOf(other, threadId).getByRole("img", { name: "1 waiting, held" }).waitFor();
  await expect.poll(() => other.getByTestId("announcer").textContent()).toContain("Held: the run was stopped.");
  await button(queue(one), "Release").click();
  await from(other, "You").getByText("after a stop").waitFor();
  await gone(queue(other));

  await write(one, "by hand");
  await button(queue(other), "Hold the queue").click();
  await queue(one).getByText("Held until it is released.").waitFor();
  await idle(one);
  await shows(one, "by hand");
  await button(queue(one), "Release").click();
  await from(other, "You").getByText("by hand").waitFor();
  await idle(other);

  const failing = await openRun(server, threadId);
  await running(one);
  await write(one, "after an error");
  await shows(other, "after an error");
  await failing.run.append({ type: "RUN_ERROR", message: "no more ink", code: "INK" });
  for (const page of [one, other]) await queue(page).getByText("Held: the run failed.").waitFor();
  await button(turn(other, "after an error"), "Send now").click();
  await from(one, "You").getByText("after an error").waitFor();
  await idle(one);
});

test("messages wait for an answer to the agent", async () => {
  const { threadId, run, one, other } = await busy();
  await write(one, "approve");
  await write(one, "Then this");
  await shows(other, "approve", "Then this");
  await run.end();
  await queue(one).getByText("Waits for your answer to the agent.").waitFor();
  await shows(one, "Then this");
  await one.getByRole("form", { name: "The agent asks" }).waitFor();
  expect(await button(queue(one), "Release").count()).toBe(0);
  await button(one, "Yes").click();
  await from(other, "You").getByText("Then this").waitFor();
  for (const page of [one, other]) await idle(page);
  expect(await said(server, threadId, "user")).toEqual(["approve", "Then this"]);
});

test("a change that comes too late is refused with the reason", async () => {
  const { threadId, one } = await busy();
  await write(one, "removed elsewhere");
  await shows(one, "removed elsewhere");
  const [item] = (await client(server).thread(threadId).queue.get()).items;
  // The page learns nothing: the removal comes between its last look and the click.
  await one.route("**/queue/*/start", async (route) => {
    await client(server).thread(threadId).queue.remove(item!.runId);
    await route.continue();
  });
  await button(turn(one, "removed elsewhere"), "Send now").click();
  await notice(one, "The message is not in the queue any more: it was removed.").waitFor();
  await gone(queue(one));
});
