// The inspector shows the data of the API.

import { execFile } from "node:child_process";
import { isDeepStrictEqual, promisify } from "node:util";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { NewEvent } from "threadline";
import type { Page } from "playwright-core";
import { client, log, type Logged, openRun, Server, text, thread, write } from "./harness/api.ts";
import { Chromium } from "./harness/chromium.ts";
import {
  atRest,
  button,
  from,
  gone,
  inspector,
  letters,
  messages,
  notice,
  options,
  row,
  scale,
  scrolled,
  squeezed,
} from "./harness/parts.ts";
import { stream } from "./harness/frames.ts";

let server: Server;
let browser: Chromium;
let threadId: string;
let all: Logged[];
beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), Chromium.start()]);
  const events = Array.from({ length: 60 }, (_, index): NewEvent[] => [
    ...text(`u${index}`, "user", `Question ${index}?`),
    ...text(`a${index}`, "assistant", `Answer ${index}, `, "in two parts."),
    ...((index === 0
      ? [{ type: "STATE_SNAPSHOT", snapshot: { count: 0, list: [] } }]
      : [
          {
            type: "STATE_DELTA",
            delta: [
              { op: "replace", path: "/count", value: index },
              { op: "add", path: "/list/-", value: `item ${index}` },
            ],
          },
        ]) as NewEvent[]),
    { type: "TOOL_CALL_START", toolCallId: `t${index}`, toolCallName: "count" },
    { type: "TOOL_CALL_ARGS", toolCallId: `t${index}`, delta: `{"to":${index}}` },
    { type: "TOOL_CALL_END", toolCallId: `t${index}` },
    { type: "TOOL_CALL_RESULT", messageId: `r${index}`, toolCallId: `t${index}`, content: `"counted to ${index}"` },
  ]).flat();
  threadId = await thread(server, events, { name: "Inspected", agentId: "counter" });
  await write(server, threadId, text("last", "assistant", "A needle in the log"), "second");
  all = await log(server, threadId);
});
afterEach(() => browser.leave());
afterAll(() => Promise.all([browser?.end(), server?.end()]));

const at = (query: string) => `#/threads/${threadId}?${query}`;
const typeOf = (event: Logged["event"]) => event.type;
const rowOf = ({ seq, event, at }: Logged) => [seq, typeOf(event), at];

/** The rendered rows: seq and type. */
const shown = (page: Page) =>
  options(page).evaluateAll((rows) =>
    rows.flatMap((row) => {
      const type = row.querySelector(".event-type")?.textContent;
      return type ? [[Number(row.querySelector(".event-seq")?.textContent), type] as const] : [];
    }),
  );

/** Scrolls through the whole list; returns every row: seq, type and time. */
async function scrolledThrough(page: Page): Promise<(readonly [number, string, string | null])[]> {
  const list = inspector(page).getByRole("listbox", { name: "Events" });
  const seen = await list.evaluate(async (element) => {
    const seen = new Map<number, readonly [number, string, string | null]>();
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    element.scrollTo(0, 0);
    const end = performance.now() + 60_000;
    for (;;) {
      // Rows from edge to edge but for the border, and none that is still awaited. What is above may move the list.
      const isWhole = () => {
        const { top, bottom } = element.getBoundingClientRect();
        const rows = [...element.querySelectorAll("[role=option]")].map((row) => row.getBoundingClientRect());
        const covers = rows.some((row) => row.top <= top + 2) && rows.some((row) => row.bottom >= bottom - 2);
        return covers && element.querySelector(".event-awaited") === null;
      };
      do await frame();
      while (!isWhole() && performance.now() < end);
      for (const row of element.querySelectorAll("[role=option]")) {
        const text = (name: string) => row.querySelector(name)?.textContent ?? "";
        const seq = Number(text(".event-seq"));
        seen.set(seq, [seq, text(".event-type"), row.querySelector("time")?.getAttribute("datetime") ?? null]);
      }
      if (element.scrollTop + element.clientHeight >= element.scrollHeight - 1 || performance.now() > end) break;
      element.scrollBy(0, element.clientHeight * 0.8);
    }
    return [...seen.values()];
  });
  return seen.sort(([a], [b]) => a - b);
}

test("the raw events are those of the log, each with its seq", async () => {
  const page = await browser.open(server, { at: at("panel=events") });
  await options(page).first().waitFor();
  expect(await scrolledThrough(page)).toEqual(all.map(rowOf));
});

test("an event is shown whole, and keys move to its neighbors", async () => {
  const { seq, event } = all.find(({ event }) => event.type === "STATE_DELTA")!;
  const page = await browser.open(server, { at: at(`panel=events&event=${seq}`) });
  const json = (seq: number) => page.getByRole("region", { name: `Event ${seq} as JSON` });
  await json(seq).waitFor();
  expect(JSON.parse((await json(seq).locator(".json-line").allTextContents()).join("\n"))).toEqual(event);
  await button(page, "Later event").click();
  await json(seq + 1).waitFor();
  expect(page.url()).toContain(`event=${seq + 1}`);
  await button(page, "Earlier event").click();
  await json(seq).waitFor();
  await button(page, "Close the event").click();
  await gone(json(seq));
});

test("numbers in the list have all of their digits, loaded and live", async () => {
  const live = await thread(server, [], { name: "Large numbers" });
  const append = async (value: string) => {
    const body = `[{"type":"CUSTOM","name":"large","value":{"id":${value}}}]`;
    const headers = { "content-type": "application/json" };
    const to = `${server.url}/v1/threads/${live}/runs/run-${value}`;
    expect((await fetch(to, { method: "PUT", headers, body })).status).toBeLessThan(300);
  };
  await append("12345678901234567890");
  const page = await browser.open(server, { at: `#/threads/${live}?panel=events` });
  await options(page).getByText('{"id":12345678901234567890}').waitFor();
  await append("-9007199254740993");
  await options(page).getByText('{"id":-9007199254740993}').waitFor();
});

test("a filter shows the events that match its text, type and run", async () => {
  const page = await browser.open(server, { at: at("panel=events") });
  await options(page).first().waitFor();
  const filter = inspector(page).getByRole("searchbox", { name: "Search in events" });
  await filter.fill("needle in the log");
  const found = all.filter(({ event }) => JSON.stringify(event).includes("needle in the log"));
  await inspector(page).getByText(`${found.length} event`, { exact: true }).waitFor();
  await expect.poll(() => shown(page)).toEqual(found.map(({ seq, event }) => [seq, typeOf(event)]));
  await filter.fill("");
  await gone(inspector(page).getByText(`${found.length} event`, { exact: true }));

  await button(page, /^Types/).click();
  const types = page.getByRole("group", { name: "Types of events" });
  await types.getByRole("checkbox", { name: "TEXT_MESSAGE_CONTENT", exact: true }).uncheck();
  await types.getByRole("checkbox", { name: "TOOL_CALL_ARGS", exact: true }).uncheck();
  await page.keyboard.press("Escape");
  const left = all.filter(({ event }) => !["TEXT_MESSAGE_CONTENT", "TOOL_CALL_ARGS"].includes(typeOf(event)));
  await inspector(page).getByText(`${left.length} events`, { exact: true }).waitFor();
  expect(await scrolledThrough(page)).toEqual(left.map(rowOf));
  await button(page, "Show all").click();

  const last = all.at(-1)!.runId;
  await inspector(page).getByRole("combobox", { name: "Run" }).selectOption(last);
  const ofRun = all.filter(({ runId }) => runId === last);
  await inspector(page).getByText(`${ofRun.length} events`, { exact: true }).waitFor();
  await expect.poll(() => shown(page)).toEqual(ofRun.map(({ seq, event }) => [seq, typeOf(event)]));
});

test("messages and state as of any event match the API", async () => {
  const page = await browser.open(server, { at: at("panel=state") });
  const tail = all.length;
  const ref = client(server).thread(threadId);
  for (const seq of [1, 4, 9, 10, 11, Math.floor(tail / 2), tail - 8, tail - 1]) {
    await scale(page).fill(String(seq));
    await page.getByText(`As it was after event ${seq} of ${tail}`).waitFor();
    const { state } = await ref.state({ at: seq });
    const { messages: past } = await ref.messages({ at: seq });
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await expect
      .poll(async () => {
        await button(page, "Copy state").click();
        return page.evaluate(() => navigator.clipboard.readText()).then((text) => JSON.parse(text) as unknown);
      })
      .toEqual(state);
    const message = past.filter(({ role }) => role === "assistant" || role === "user").at(-1);
    if (message?.content) {
      const expected = squeezed(String(message.content));
      await expect
        .poll(async () => (await letters(messages(page).locator(".plain, .said"))).endsWith(expected))
        .toBe(true);
    } else if (past.length === 0) {
      await messages(page).getByText("There were no messages yet.").waitFor();
    }
  }
  await button(page, "Now").click();
  await messages(page).getByText("A needle in the log").waitFor();
});

test("the holder of the lock, its lease, and the subscriptions with their cursors", async () => {
  const live = await thread(server, [], { name: "Locked" });
  const page = await browser.open(server, { at: `#/threads/${live}?panel=live` });
  await inspector(page).getByText("No run holds the lock.").waitFor();
  const open = await openRun(server, live, "holder");
  await open.run.append([{ type: "TEXT_MESSAGE_START", messageId: "m", role: "assistant" }]);
  await open.run.append([{ type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: "Held" }]);
  await open.run.flush();
  await inspector(page).getByText(open.run.runId).waitFor();
  await inspector(page).getByText("holder", { exact: true }).waitFor();
  const { activeRun } = await client(server).thread(live).get();
  expect(activeRun?.runId).toBe(open.run.runId);
  await inspector(page)
    .getByRole("timer")
    .getByText(/^\d+\.\d s left$/)
    .waitFor();

  // This page, identified by its cursor, and another reader.
  await messages(page).getByText("Held").waitFor();
  const lines = inspector(page).getByRole("table").getByRole("row");
  const { tail } = await client(server).thread(live).get();
  await lines
    .filter({ hasText: "dev" })
    .filter({ hasText: "socket" })
    .filter({ hasText: String(tail) })
    .first()
    .waitFor();
  const before = await lines.count();
  const other = await browser.open(server, { at: `#/threads/${live}` });
  await messages(other).getByText("Held").waitFor();
  await expect.poll(() => lines.count()).toBeGreaterThan(before);
  await inspector(page).getByText("Live, by WebSocket.").waitFor();

  await button(page, "Stop the run").click();
  await button(page, "Stop requested").waitFor();
  await open.end();
  await inspector(page).getByText("No run holds the lock.").waitFor();
});

const areEqual = ([one, other]: unknown[]) => isDeepStrictEqual(one, other);

test("a copied command prints what the API returns", async () => {
  const page = await browser.open(server, {
    at: at("panel=events&event=20"),
    permissions: ["clipboard-read", "clipboard-write"],
  });
  await page.getByRole("region", { name: "Event 20 as JSON" }).waitFor();
  const copied = () => page.evaluate(() => navigator.clipboard.readText());
  const run = async (command: string) =>
    JSON.parse((await promisify(execFile)("sh", ["-c", command])).stdout) as unknown;
  await button(page, "Copy this event as curl").click();
  await notice(page, "Copied: event 20 as curl").waitFor();
  const { events } = (await run(await copied())) as { events: Logged[] };
  expect(events).toEqual([all[19]]);

  const choose = async (name: RegExp) => {
    await button(page, "Copy as curl").click();
    await page.getByRole("menuitem", { name }).click();
    await notice(page, name).last().waitFor();
    return run(await copied());
  };
  await choose(/Get the thread/);
  const get = await copied();
  // The read marker is set a moment after the page is opened.
  await expect.poll(async () => [await run(get), await client(server).thread(threadId).get()]).toSatisfy(areEqual);
  const page20 = (await choose(/Events after 19/)) as { events: Logged[] };
  expect(page20.events.map(({ seq }) => seq)).toEqual(Array.from({ length: 100 }, (_, index) => 20 + index));
  const moment = await browser.open(server, {
    at: at("panel=state&at=40"),
    permissions: ["clipboard-read", "clipboard-write"],
  });
  await moment.getByText("As it was after event 40").waitFor();
  await button(moment, "Copy as curl").click();
  await moment.getByRole("menuitem", { name: "Messages at 40" }).click();
  await notice(moment, "Messages at 40").waitFor();
  const said = (await run(await moment.evaluate(() => navigator.clipboard.readText()))) as { messages: unknown };
  expect(said.messages).toEqual((await client(server).thread(threadId).messages({ at: 40 })).messages);
});

test("the log can be saved, each event as it is", async () => {
  const page = await browser.open(server, { at: at("panel=events") });
  await options(page).first().waitFor();
  const saved = page.waitForEvent("download");
  await button(page, "Download the log (NDJSON)").click();
  const { readFile } = await import("node:fs/promises");
  const lines = (await readFile((await (await saved).path())!, "utf8")).trimEnd().split("\n");
  expect(lines.length).toBe(all.length);
  expect(JSON.parse(lines[9]!)).toMatchObject({ seq: 10, event: all[9]!.event });
});

test("runs: how each ended, and where its events are", async () => {
  const page = await browser.open(server, { at: at("panel=runs") });
  const runs = inspector(page).getByRole("list", { name: "Runs" }).getByRole("listitem");
  await expect.poll(() => runs.count()).toBe(2);
  await runs.first().getByText("second").waitFor();
  await runs.nth(1).getByText("counter").waitFor();
  const first = all.find(({ runId }) => runId === all.at(-1)!.runId)!.seq;
  await button(runs.first(), String(first)).click();
  await page.getByRole("region", { name: `Event ${first} as JSON` }).waitFor();
  await page.getByText(`As it was after event ${first} of`).waitFor();
});

test("live events leave a list that was scrolled away in its place", async () => {
  const live = await thread(
    server,
    text("m", "assistant", ...Array.from({ length: 80 }, (_, index) => `word ${index} `)),
    {
      name: "Growing",
    },
  );
  const page = await browser.open(server, { at: `#/threads/${live}?panel=events` });
  await row(page, "Growing").waitFor();
  await options(page).filter({ hasText: "RUN_FINISHED" }).waitFor();
  await write(server, live, text("n", "assistant", "more"));
  await expect.poll(async () => (await shown(page)).at(-1)).toEqual([89, "RUN_FINISHED"]);
  const list = inspector(page).getByRole("listbox", { name: "Events" });
  await list.evaluate((element) => element.scrollTo(0, 0));
  await expect.poll(async () => (await shown(page))[0]).toEqual([1, "RUN_STARTED"]);
  await write(server, live, text("o", "assistant", "even more"));
  await from(page, "Assistant").getByText("even more").waitFor();
  expect((await shown(page))[0]).toEqual([1, "RUN_STARTED"]);
  await button(page, "Newest").click();
  await expect.poll(async () => (await shown(page)).at(-1)).toEqual([94, "RUN_FINISHED"]);
});

test("scrolling up while events come is not undone", async () => {
  const live = await thread(
    server,
    text("m", "assistant", ...Array.from({ length: 200 }, (_, index) => `word ${index} `)),
    { name: "Growing all the time" },
  );
  const page = await browser.open(server, { at: `#/threads/${live}?panel=events` });
  await options(page).filter({ hasText: "RUN_FINISHED" }).waitFor();
  const open = await openRun(server, live);
  await open.run.append({ type: "TEXT_MESSAGE_START", messageId: "fast", role: "assistant" });
  await expect.poll(async () => (await shown(page)).at(-1)?.[0]).toBe(206);
  const writing = stream(open.run, "fast", { perSecond: 50, seconds: 2 });
  await options(page).last().hover();
  await page.mouse.wheel(0, -2_000);
  await button(page, "Newest").waitFor();
  const list = inspector(page).getByRole("listbox", { name: "Events" });
  const place = await atRest(list);
  const { tail } = await client(server).thread(live).get();
  expect(place).toBeLessThan(await list.evaluate((element) => element.scrollHeight - 2 * element.clientHeight));
  await writing;
  // Events are appended while the list is away from its end, however long the steps above took.
  await stream(open.run, "fast", { perSecond: 50, seconds: 0.4 });
  await open.run.flush();
  const last = (await client(server).thread(live).get()).tail;
  expect(last).toBeGreaterThan(tail);
  await inspector(page).getByText(`of ${last}`).waitFor();
  expect(await scrolled(list)).toBe(place);
  await button(page, "Newest").click();
  await expect.poll(async () => (await shown(page)).at(-1)?.[0]).toBe(last);
  await open.end();
});
