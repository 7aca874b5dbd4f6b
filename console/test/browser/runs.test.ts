// The boundary between a run and the next one, and how the run ended.

import { randomUUID } from "node:crypto";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Page } from "playwright-core";
import type { NewEvent } from "threadline";
import { client, openRun, Server, text, thread, write } from "./harness/api.ts";
import { Chromium } from "./harness/chromium.ts";
import { from, inspector, messages, running } from "./harness/parts.ts";

let server: Server;
let browser: Chromium;
beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), Chromium.start()]);
});
afterEach(() => browser.leave());
afterAll(() => Promise.all([browser?.end(), server?.end()]));

/** The conversation, from the top: messages by their text, ends of runs by agent and outcome. */
const shown = (page: Page) =>
  messages(page).evaluate((region) =>
    [...region.querySelectorAll("article, [role=note], .run-end")].map((each) =>
      each.matches("article")
        ? (each.querySelector(".plain, .said")?.textContent ?? "")
        : `— ${each.textContent?.replace(/ · took .*? · (now|\d+ min)/, "")}`,
    ),
  );

/** A complete run with the outcome of its last event. */
const whole = (threadId: string, agentId: string, events: readonly NewEvent[]) =>
  client(server).thread(threadId).putRun(randomUUID(), events, { agentId });

test("runs are listed with agent, outcome and reason, live", async () => {
  const threadId = await thread(server, text("a", "assistant", "It went well"), { name: "Runs", agentId: "writer" });
  const failed: NewEvent = { type: "RUN_ERROR", code: "OUT_OF_INK", message: "The ink is used up" };
  await whole(threadId, "painter", [...text("b", "assistant", "It began"), failed]);
  const asked = await openRun(server, threadId, "reader");
  await asked.run.append(text("c", "assistant", "Hardly a word"));
  await client(server).thread(threadId).stop(asked.run.runId);
  await asked.end();
  await write(server, threadId, text("d", "assistant", "The end"), "writer");
  const page = await browser.open(server, { at: `#/threads/${threadId}` });
  const past = [
    "It went well",
    "— writer · finished",
    "It began",
    "— painter · failedOUT_OF_INK: The ink is used up",
    "Hardly a word",
    "— reader · stopped",
    "The end",
  ];
  await expect.poll(() => shown(page)).toEqual([...past, "— writer · finished"]);

  // The next run begins: the end of the previous one is shown, too.
  const open = await openRun(server, threadId, "reader");
  await open.run.append(text("e", "assistant", "And on"));
  await running(page);
  await from(page, "Assistant").getByText("And on").waitFor();
  await messages(page).getByText("reader is at work").waitFor();
  await expect.poll(() => shown(page)).toEqual([...past, "— writer · finished", "And on"]);
  await open.end();
  await expect.poll(() => shown(page)).toEqual([...past, "— writer · finished", "And on", "— reader · finished"]);
});

test("a view of the past shows the runs that had ended by then", async () => {
  const threadId = await thread(server, text("a", "assistant", "One"), { name: "Then", agentId: "writer" });
  await write(server, threadId, text("b", "assistant", "Two"), "reader");
  const { runs } = await client(server).thread(threadId).runs();
  const [second, first] = runs.map(({ lastSeq }) => lastSeq) as [number, number];
  const page = await browser.open(server, { at: `#/threads/${threadId}?at=${second - 1}` });
  await expect.poll(() => shown(page)).toEqual(["One", "— writer · finished", "Two"]);
  await page.goto(`${server.url}/#/threads/${threadId}?at=${first}`);
  await expect.poll(() => shown(page)).toEqual(["One", "— writer · finished"]);
});

test("calls whose results came with another run are shown with the run that made them", async () => {
  const call: NewEvent[] = [
    { type: "TOOL_CALL_START", toolCallId: "t", toolCallName: "look_up" },
    { type: "TOOL_CALL_ARGS", toolCallId: "t", delta: "{}" },
    { type: "TOOL_CALL_END", toolCallId: "t" },
  ];
  const threadId = await thread(server, call, { name: "Calls", agentId: "writer" });
  const result: NewEvent = { type: "TOOL_CALL_RESULT", messageId: "r", toolCallId: "t", content: "found" };
  await write(server, threadId, [result, ...text("b", "assistant", "It is found")], "reader");
  const page = await browser.open(server, { at: `#/threads/${threadId}` });
  await expect.poll(() => shown(page)).toEqual(["", "— writer · finished", "It is found", "— reader · finished"]);
});

test.each([-2, 2])("a browser whose clock is %i hours off uses the server's time", async (hours) => {
  const threadId = await thread(server, [], { name: "Off" });
  const open = await openRun(server, threadId);
  await open.run.flush();
  const page = await browser.open(server, { at: `#/threads/${threadId}?panel=live` });
  await page.clock.setSystemTime(Date.now() + hours * 3_600_000);
  await page.reload();
  await page.getByText(/^running for (\d+ s|1 min.*)$/).waitFor();
  await inspector(page)
    .getByRole("timer")
    .getByText(/^\d{1,2}\.\d s left$/)
    .waitFor();
  await open.end();
});
