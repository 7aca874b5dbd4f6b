// A view at the end of a conversation stays there, whatever changes above and below; a view that was scrolled away stays in its place.

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Page } from "playwright-core";
import { openRun, Server, text, thread, write } from "./harness/api.ts";
import { Chromium } from "./harness/chromium.ts";
import { stream } from "./harness/frames.ts";
import { atRest, button, from, idle, messages, running, scrolled } from "./harness/parts.ts";

let server: Server;
let browser: Chromium;
beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), Chromium.start()]);
});
afterEach(() => browser.leave());
afterAll(() => Promise.all([browser?.end(), server?.end()]));

const LONG = Array.from({ length: 30 }, (_, index) => `Paragraph ${index} of many.\n\n`);

/** The distance to the end. */
const distance = (page: Page) =>
  messages(page).evaluate(({ scrollHeight, scrollTop, clientHeight }) =>
    Math.round(scrollHeight - scrollTop - clientHeight),
  );

test("content that shrinks and grows between two checks does not leave the end", async () => {
  const threadId = await thread(server, text("m", "assistant", ...LONG), { name: "Shrinks and grows" });
  const page = await browser.open(server, { at: `#/threads/${threadId}` });
  await from(page, "Assistant").getByText("Paragraph 29").waitFor();
  await expect.poll(() => distance(page)).toBe(0);
  await messages(page).evaluate(async (region) => {
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    const block = document.createElement("div");
    region.querySelector(".messages-tail")!.append(block);
    block.style.height = "300px";
    while (region.scrollHeight - region.scrollTop - region.clientHeight > 1) await frame();
    await frame();
    // The browser clamps the position to the remaining height, and fires its event when the content is larger than before.
    const grown = new Promise<void>((resolve) => {
      new ResizeObserver(() => {
        if (block.offsetHeight > 0) return;
        block.style.height = "360px";
        resolve();
      }).observe(block);
    });
    block.style.height = "0";
    await grown;
  });
  await expect.poll(() => distance(page)).toBe(0);
});

test("content that is removed and added again at once does not leave the end", async () => {
  const threadId = await thread(server, text("m", "assistant", ...LONG), { name: "Goes and comes" });
  const page = await browser.open(server, { at: `#/threads/${threadId}` });
  await from(page, "Assistant").getByText("Paragraph 29").waitFor();
  await expect.poll(() => distance(page)).toBe(0);
  await messages(page).evaluate(async (region) => {
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    const tail = region.querySelector(".messages-tail")!;
    const block = document.createElement("div");
    block.style.height = "300px";
    tail.append(block);
    while (region.scrollHeight - region.scrollTop - region.clientHeight > 1) await frame();
    await frame();
    block.remove();
    // A layout read in between, as parts of the page do it: the browser clamps the position to the remaining height.
    region.getBoundingClientRect();
    tail.append(block);
    // Its event comes by the next frame.
    for (let frames = 0; frames < 3; frames += 1) await frame();
  });
  await expect.poll(() => distance(page)).toBe(0);
});

test("the state card that comes with a run's end is in sight", async () => {
  const threadId = await thread(server, text("m", "assistant", ...LONG), { name: "State" });
  const page = await browser.open(server, { at: `#/threads/${threadId}` });
  await expect.poll(() => distance(page)).toBe(0);
  await write(server, threadId, [
    ...text("n", "assistant", ...LONG, "```\nlong\n```"),
    { type: "STATE_SNAPSHOT", snapshot: { plan: ["one", "two"] } },
  ]);
  await messages(page)
    .getByText(/^\s*State/)
    .waitFor();
  await idle(page);
  await expect.poll(() => distance(page)).toBe(0);
});

test("scrolling up while an answer grows is not undone, and scrolling back follows it again", async () => {
  const threadId = await thread(server, text("m", "assistant", ...LONG), { name: "Grows" });
  const page = await browser.open(server, { at: `#/threads/${threadId}` });
  await from(page, "Assistant").getByText("Paragraph 29").waitFor();
  const open = await openRun(server, threadId);
  await open.run.append({ type: "TEXT_MESSAGE_START", messageId: "n", role: "assistant" });
  await running(page);
  const writing = stream(open.run, "n", { perSecond: 120, seconds: 2 });
  await messages(page).getByText("word 30").waitFor();
  await messages(page).hover();
  await page.mouse.wheel(0, -500);
  await button(page, "Jump to newest").waitFor();
  // An idle view stays in its place.
  const place = await atRest(messages(page));
  await writing;
  await stream(open.run, "n", { perSecond: 120, seconds: 0.4 });
  await open.run.flush();
  expect(await scrolled(messages(page))).toBe(place);
  expect(await distance(page)).toBeGreaterThan(100);
  await page.mouse.wheel(0, 100_000);
  await button(page, "Jump to newest").waitFor({ state: "hidden" });
  await stream(open.run, "n", { perSecond: 120, seconds: 0.4 });
  await open.end();
  await idle(page);
  await expect.poll(() => distance(page)).toBe(0);
});
