// Threads of 10,000 events, and runs that write 200 tokens a second. The figures are printed; the assertions hold on any machine.

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Page } from "playwright-core";
import { client, log, openRun, Server, said, text, thread } from "./harness/api.ts";
import { Chromium } from "./harness/chromium.ts";
import { type Frames, framesOf, large, stream } from "./harness/frames.ts";
import { button, from, inspector, letters, messages, running, squeezed } from "./harness/parts.ts";

/** No pause that a person would take for the end. */
const LONGEST_MS = 2_000;
/** What is not in sight is not there. */
const MOST_NODES = 4_000;

let server: Server;
let browser: Chromium;
let threadId: string;
beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), Chromium.start()]);
  threadId = await large(server);
});
afterEach(() => browser.leave());
afterAll(() => Promise.all([browser?.end(), server?.end()]));

const nodes = (page: Page) => page.evaluate(() => document.querySelectorAll("*").length);

function expectSmooth(what: string, frames: Frames): void {
  console.log(`${what}: ${JSON.stringify(frames)}`);
  expect(frames.count).toBeGreaterThan(5);
  expect(frames.longestMs).toBeLessThan(LONGEST_MS);
}

test("a conversation of 10,000 events is scrolled through, from its end to its beginning", async () => {
  expect((await log(server, threadId)).length).toBeGreaterThan(10_000);
  const page = await browser.open(server, { at: `#/threads/${threadId}` });
  await from(page, "writer").getByText("Answer 399").waitFor();
  expect(await nodes(page)).toBeLessThan(MOST_NODES);
  expectSmooth("conversation, up", await framesOf(page, messages(page), -1, 1_500));
  expect(await nodes(page)).toBeLessThan(MOST_NODES);
  await expect
    .poll(async () => {
      await messages(page).evaluate((element) => element.scrollTo(0, 0));
      return (await letters(messages(page))).includes("Question0,");
    })
    .toBe(true);
  expect(await nodes(page)).toBeLessThan(MOST_NODES);
  await button(page, "Jump to newest").click();
  await from(page, "writer").getByText("Answer 399").waitFor();
});

test("its events are scrolled through in the inspector", async () => {
  const page = await browser.open(server, { at: `#/threads/${threadId}?panel=events` });
  const list = inspector(page).getByRole("listbox", { name: "Events" });
  await list.getByText("RUN_FINISHED").first().waitFor();
  expectSmooth("events, up", await framesOf(page, list, -1, 1_500));
  expect(await list.getByRole("option").count()).toBeLessThan(150);
  await list.evaluate((element) => element.scrollTo(0, 0));
  await list.getByRole("option", { name: /^1\b.*RUN_STARTED/ }).waitFor();
  expectSmooth("events, down", await framesOf(page, list, 1, 1_500));
  expect(await nodes(page)).toBeLessThan(MOST_NODES);
});

test("a run that says 200 tokens a second", async () => {
  const live = await thread(server, text("m", "assistant", "Before"), { name: "Fast" });
  const page = await browser.open(server, { at: `#/threads/${live}?panel=events` });
  await messages(page).getByText("Before").waitFor();
  const open = await openRun(server, live);
  await open.run.append({ type: "TEXT_MESSAGE_START", messageId: "fast", role: "assistant" });
  await running(page);
  const writing = stream(open.run, "fast", { perSecond: 200, seconds: 3 });
  const frames = await framesOf(page, messages(page), 0, 2_500);
  await writing;
  expectSmooth("streaming, with the inspector", frames);
  await open.run.append({ type: "TEXT_MESSAGE_END", messageId: "fast" });
  await open.end();
  const whole = squeezed((await said(server, live, "assistant")).at(-1)!);
  await expect.poll(() => letters(page.locator(".said").last())).toBe(whole);
  expect((await client(server).thread(live).get()).tail).toBeGreaterThan(600);
});
