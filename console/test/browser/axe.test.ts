// axe-core on every main screen, in both themes.

import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import type { AxeResults, RunOnly } from "axe-core";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { client, Server, text, thread, openRun, type OpenRun } from "./harness/api.ts";
import { Chromium } from "./harness/chromium.ts";
import {
  begin,
  button,
  dialog,
  field,
  from,
  heading,
  idle,
  inspector,
  row,
  running,
  sidebar,
} from "./harness/parts.ts";

const ALL: RunOnly = {
  type: "tag",
  values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
};
/** The rules about colours, all that differs between two themes. */
const COLOURS: RunOnly = { type: "rule", values: ["color-contrast", "link-in-text-block"] };

/** Elements that fade in have other colours meanwhile. */
const STILL = { reducedMotion: "reduce" } as const;

let server: Server;
let guarded: Server;
let empty: Server;
let browser: Chromium;
let axe: string;
let threadId: string;
let failed: string;
let asking: string;
let branched: string;
let busy: OpenRun;
beforeAll(async () => {
  const file = fileURLToPath(new URL("../../node_modules/axe-core/axe.min.js", import.meta.url));
  [server, guarded, empty, browser, axe] = await Promise.all([
    Server.start(),
    Server.start({ apiKey: "the-key-of-the-operator" }),
    Server.start(),
    Chromium.start(),
    readFile(file, "utf8"),
  ]);
  threadId = await thread(
    server,
    [
      ...text("u", "user", "What does [this](https://example.com) say?"),
      { type: "REASONING_MESSAGE_START", messageId: "think", role: "reasoning" },
      { type: "REASONING_MESSAGE_CONTENT", messageId: "think", delta: "I think." },
      { type: "REASONING_MESSAGE_END", messageId: "think" },
      ...text("a", "assistant", "# A title\n\nA [link](https://example.com), `code`, **bold**.\n\n"),
      ...text(
        "b",
        "assistant",
        "1. one\n2. two\n\n> quoted\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```js\nlet a = 1;\n```\n",
      ),
      ...text("c", "assistant", "![a picture](https://example.com/p.png)\n\n- [x] done\n- [ ] open\n\n---\n"),
      { type: "TOOL_CALL_START", toolCallId: "t", toolCallName: "look_up" },
      { type: "TOOL_CALL_ARGS", toolCallId: "t", delta: '{"what":"words","many":[1,2,null,true]}' },
      { type: "TOOL_CALL_END", toolCallId: "t" },
      { type: "TOOL_CALL_RESULT", messageId: "r", toolCallId: "t", content: '{"found":3}' },
      { type: "TOOL_CALL_START", toolCallId: "w", toolCallName: "ask_client" },
      { type: "TOOL_CALL_ARGS", toolCallId: "w", delta: "{}" },
      { type: "TOOL_CALL_END", toolCallId: "w" },
      { type: "STATE_SNAPSHOT", snapshot: { plan: { steps: [{ text: "one", done: true }] }, count: 1, none: null } },
      { type: "STATE_DELTA", delta: [{ op: "replace", path: "/count", value: 2 }] },
    ],
    { name: "Everything at once", agentId: "writer" },
  );
  const running = await thread(server, text("m", "assistant", "Hello"), { name: "At work" });
  busy = await openRun(server, running);
  await busy.run.append([{ type: "TEXT_MESSAGE_START", messageId: "s", role: "assistant" }]);
  await busy.run.append([{ type: "TEXT_MESSAGE_CONTENT", messageId: "s", delta: "I am at work" }]);
  for (const content of ["And then?", "And after that?"]) {
    const input = { messages: [{ role: "user", content } as const] };
    await client(server).thread(running).start({ agentId: "demo", input, busy: "enqueue" });
  }
  branched = await thread(server, text("u", "user", "To be edited"), { name: "Branched" });
  await client(server).thread(branched).fork({ at: 0 });
  const archived = await thread(server, text("m", "assistant", "Old"), { name: "Archived" });
  await server.request("PATCH", `/v1/threads/${archived}`, { body: { archived: true } });
  const page = await browser.open(server);
  asking = await begin(page, "Please approve my travel plans");
  await page.getByRole("form", { name: "The agent asks" }).waitFor();
  failed = await begin(page, "Show me an error");
  await page.getByRole("region", { name: "The run failed" }).waitFor();
  await idle(page);
  await browser.leave();
});
afterEach(() => browser.leave());
afterAll(async () => {
  await busy?.end();
  await Promise.all([browser?.end(), server?.end(), guarded?.end(), empty?.end()]);
});

/** The violations that axe finds, each with its element. */
async function violations(page: Page, runOnly: RunOnly): Promise<string[]> {
  const results = await page.evaluate((runOnly) => {
    const { axe } = globalThis as unknown as { axe: { run(options: object): Promise<AxeResults> } };
    return axe.run({ runOnly, resultTypes: ["violations"] });
  }, runOnly);
  return results.violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ target, any, failureSummary }) => {
      const why = any[0]?.message ?? failureSummary?.replace(/\s+/g, " ") ?? "";
      return `${id} (${help}): ${target.join(" ")}: ${why}`;
    }),
  );
}

type Screen = readonly [name: string, at: () => string, isThere: (page: Page) => Promise<unknown>];
const inThread = (query = "") => `#/threads/${threadId}${query}`;
const tabpanel = (page: Page) => inspector(page).getByRole("tabpanel");
const screens: readonly Screen[] = [
  ["the list", () => "#/", (page) => row(page, "Everything at once").waitFor()],
  [
    "the list with a search and the archived",
    () => "#/",
    async (page) => {
      await button(page, "Archived").click();
      await sidebar(page).getByRole("img", { name: "Archived" }).waitFor();
      await page.getByRole("searchbox", { name: "Search threads" }).fill("no such thing");
      await heading(page, "Nothing found").waitFor();
    },
  ],
  ["a new thread", () => "#/new", (page) => button(page, /Write me a long answer/).waitFor()],
  ["a conversation", () => inThread(), (page) => from(page, "writer").getByText("A title").waitFor()],
  [
    "a conversation, unfolded",
    () => inThread(),
    async (page) => {
      const folded = page.locator("details:not([open]) > summary");
      const result = page.getByRole("textbox", { name: "Result" });
      // The form of a call that can be answered appears a moment after the rest.
      await expect
        .poll(async () => {
          while ((await folded.count()) > 0) await folded.first().click();
          return result.isVisible();
        })
        .toBe(true);
    },
  ],
  [
    "a run under way, with a queue",
    () => `#/threads/${busy.run.threadId}`,
    async (page) => {
      await running(page);
      await field(page).fill("And at last?");
      await button(page, "Queue").waitFor();
      await button(page.getByRole("group", { name: "And then?" }), "Edit").click();
      await page.getByRole("form", { name: "Edit the message" }).waitFor();
      await page.getByRole("group", { name: "And after that?" }).waitFor();
    },
  ],
  [
    "branches, and a message that is edited",
    () => `#/threads/${branched}`,
    async (page) => {
      await page.getByRole("group", { name: "Branch 1 of 2" }).waitFor();
      await button(from(page, "You"), "Edit").click();
      await page.getByRole("form", { name: "Edit the message" }).waitFor();
    },
  ],
  ["a question", () => `#/threads/${asking}`, (page) => page.getByRole("form", { name: "The agent asks" }).waitFor()],
  [
    "a failed run",
    () => `#/threads/${failed}`,
    (page) => page.getByRole("region", { name: "The run failed" }).waitFor(),
  ],
  ["the past", () => inThread("?panel=state&at=12"), (page) => heading(page, "State after event 12").waitFor()],
  ["events", () => inThread("?panel=events"), (page) => page.getByRole("option", { name: /STATE_DELTA/ }).waitFor()],
  [
    "an event",
    () => inThread("?panel=events&event=14"),
    (page) => page.getByRole("region", { name: "Event 14 as JSON" }).waitFor(),
  ],
  [
    "types of events",
    () => inThread("?panel=events"),
    async (page) => {
      await button(page, /^Types/).click();
      await page.getByRole("group", { name: "Types of events" }).waitFor();
    },
  ],
  [
    "state",
    () => inThread("?panel=state"),
    async (page) => {
      await heading(page, "State now").waitFor();
      await from(page, "writer").getByText("A title").waitFor();
    },
  ],
  ["runs", () => inThread("?panel=runs"), (page) => inspector(page).getByRole("list", { name: "Runs" }).waitFor()],
  [
    "the live page",
    () => `#/threads/${busy.run.threadId}?panel=live`,
    // The inspector may appear before the conversation beside it.
    async (page) => {
      await tabpanel(page).getByText("websocket", { exact: false }).first().waitFor();
      await running(page);
    },
  ],
  ["no such thread", () => "#/threads/nothing", (page) => heading(page, "Thread not found").waitFor()],
  [
    "a menu",
    () => inThread(),
    async (page) => {
      await button(page, "Options of this thread").click();
      await page.getByRole("menuitem", { name: "Rename" }).waitFor();
    },
  ],
  [
    "a dialog to rename",
    () => inThread(),
    async (page) => {
      await button(page, "Everything at once").click();
      await dialog(page, "Rename the thread").waitFor();
    },
  ],
  [
    "a dialog to delete",
    () => inThread(),
    async (page) => {
      await button(page, "Options of this thread").click();
      await page.getByRole("menuitem", { name: "Delete" }).click();
      await dialog(page, "Delete the thread?").waitFor();
    },
  ],
  [
    "the shortcuts",
    () => "#/",
    async (page) => {
      await row(page, "Everything at once").waitFor();
      await page.keyboard.press("?");
      await dialog(page, "Keyboard shortcuts").waitFor();
    },
  ],
];

/** Checks the page in both themes: the elements are the same, the colours are not. */
async function expectNoViolations(page: Page): Promise<void> {
  await page.evaluate(axe);
  for (const [colorScheme, rules] of [
    ["light", ALL],
    ["dark", COLOURS],
  ] as const) {
    await page.emulateMedia({ colorScheme });
    expect(await violations(page, rules), colorScheme).toEqual([]);
  }
}

test.each(screens)("%s", async (_, at, isThere) => {
  const page = await browser.open(server, { ...STILL, at: at(), expects: [/status of 404/] });
  await isThere(page);
  await expectNoViolations(page);
});

test.each([
  ["a thread", () => inThread(), (page) => from(page, "writer").getByText("A title").waitFor()],
  ["the list", () => "#/", (page) => row(page, "Everything at once").waitFor()],
  [
    "events",
    () => inThread("?panel=events&event=3"),
    (page) => page.getByRole("region", { name: "Event 3 as JSON" }).waitFor(),
  ],
] satisfies Screen[])("narrow: %s", async (_, at, isThere) => {
  const viewport = { width: 390, height: 844 };
  const page = await browser.open(server, { ...STILL, viewport, at: at() });
  await isThere(page);
  await expectNoViolations(page);
});

test("no threads yet", async () => {
  const page = await browser.open(empty, STILL);
  await heading(page, "No threads yet").waitFor();
  await expectNoViolations(page);
});

test("the sign-in form", async () => {
  const page = await browser.open(guarded, { ...STILL, expects: [/status of 40[0-9]/] });
  await page.getByLabel("API key or token").fill("wrong");
  await button(page, "Open the console").click();
  await page.getByRole("alert").waitFor();
  await expectNoViolations(page);
});
