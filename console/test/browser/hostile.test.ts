// Content of agents, tools and other programs is shown and has no effect. The harness asserts in every test that no request goes to
// another host, no script runs and no dialog opens.

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { NewEvent } from "threadline";
import type { Page } from "playwright-core";
import { client, log, Server, text, thread, write } from "./harness/api.ts";
import { Chromium } from "./harness/chromium.ts";
import { button, field, from, inspector, letters, messages, options, row, send, toTop } from "./harness/parts.ts";

const RUN_ME = "window.hacked = true; alert(1)";
const ATTACKS = [
  `<script>${RUN_ME}</script>`,
  `<img src="x" onerror="${RUN_ME}"><img src="https://evil.example/pixel.png">`,
  `<svg onload="${RUN_ME}"></svg><iframe src="javascript:${RUN_ME}"></iframe><style>* { display: none }</style>`,
  `[script](javascript:${encodeURIComponent(RUN_ME)}) [data](data:text/html,<script>${RUN_ME}</script>) [vb](vbscript:x)`,
  `[tabbed](java\tscript:${encodeURIComponent(RUN_ME)}) <javascript:${encodeURIComponent(RUN_ME)}> [spaced]( javascript:x)`,
  `![pixel](https://evil.example/pixel.png "x\" onerror=\"${RUN_ME}") ![x](javascript:alert(1))`,
  `[file](file:///etc/passwd) [relative](/v1/threads) [scheme-less](//evil.example/) [ok](https://example.com/?q=1)`,
  `<a href="javascript:${RUN_ME}" onmouseover="${RUN_ME}">hover</a> <base href="https://evil.example/">`,
  `<form action="https://evil.example/"><input name="q" autofocus onfocus="${RUN_ME}"></form>`,
  "```html\n<script>" + RUN_ME + "</script>\n```\n`<script>" + RUN_ME + "</script>`",
  `| <img src=x onerror="${RUN_ME}"> | b |\n|---|---|\n| <script>${RUN_ME}</script> | [x](javascript:x) |`,
  `\u202Egnp.exe\u202C \u2066bidi\u2069 \u0000 \u0007 \u200B \uFFFE ${"\u0301".repeat(500)}`,
  `<!--><script>${RUN_ME}</script>--> ]]> &lt;script&gt;${RUN_ME}&lt;/script&gt; &#106;avascript:`,
  "__proto__ constructor hasOwnProperty toString",
];

let server: Server;
let browser: Chromium;
beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), Chromium.start()]);
});
afterEach(() => browser.leave());
afterAll(() => Promise.all([browser?.end(), server?.end()]));

/** Asserts that links only have schemes without effect on the page, and send no referrer; no other element is active. */
async function expectHarmless(page: Page): Promise<void> {
  const harm = await page.evaluate(() => {
    const found: string[] = [];
    for (const link of document.querySelectorAll<HTMLAnchorElement>("main a[href], aside a[href]")) {
      const href = link.getAttribute("href") ?? "";
      if (!["http:", "https:", "mailto:"].includes(link.protocol)) found.push(`a link: ${href}`);
      const isOurs = link.origin === location.origin && href.startsWith("#/");
      const isDiscreet = link.relList.contains("noopener") && link.relList.contains("noreferrer");
      if (!isOurs && !isDiscreet) found.push(`tells where from: ${href}`);
    }
    for (const { src } of document.querySelectorAll("img")) {
      if (!src.endsWith("/favicon.svg")) found.push(`an image: ${src}`);
    }
    const acting = "script, iframe, object, embed, style, base, link, meta, form[action], video, audio";
    for (const element of document.querySelectorAll(`:is(main, aside, nav) :is(${acting})`))
      found.push(element.outerHTML);
    if ("hacked" in window) found.push("something has run");
    return found;
  });
  expect(harm).toEqual([]);
}

test("messages, reasoning, tool calls, state, names and errors", { timeout: 240_000 }, async () => {
  const events = ATTACKS.flatMap((attack, index): NewEvent[] => [
    ...text(`u${index}`, "user", attack),
    ...text(`a${index}`, "assistant", ...(attack.match(/[^]{1,7}/g) ?? [])),
    { type: "REASONING_MESSAGE_START", messageId: `r${index}`, role: "reasoning" },
    { type: "REASONING_MESSAGE_CONTENT", messageId: `r${index}`, delta: attack },
    { type: "REASONING_MESSAGE_END", messageId: `r${index}` },
    { type: "TOOL_CALL_START", toolCallId: `t${index}`, toolCallName: attack.slice(0, 100) },
    { type: "TOOL_CALL_ARGS", toolCallId: `t${index}`, delta: JSON.stringify({ [attack]: attack, __proto__: 1 }) },
    { type: "TOOL_CALL_END", toolCallId: `t${index}` },
    { type: "TOOL_CALL_RESULT", messageId: `tr${index}`, toolCallId: `t${index}`, content: attack },
    { type: "CUSTOM", name: attack, value: { html: attack } },
  ]);
  events.push({ type: "STATE_SNAPSHOT", snapshot: Object.fromEntries(ATTACKS.map((attack) => [attack, { attack }])) });
  const name = `<img src=x onerror="${RUN_ME}">\u202Eevil`;
  const threadId = await thread(server, events, { name, agentId: "<b>agent</b>" });
  const page = await browser.open(server, { at: `#/threads/${threadId}` });
  await row(page, "<img src=x").waitFor();

  // Scroll through all messages, from the end to the beginning, and open every fold.
  const region = messages(page);
  await region.getByText(/^\s*State/).click();
  await expect
    .poll(
      async () => {
        await expectHarmless(page);
        return region.evaluate(async (element) => {
          const folded = "details:not([open]) > summary";
          for (const summary of element.querySelectorAll<HTMLElement>(folded)) summary.click();
          const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
          await frame();
          element.scrollBy(0, -500);
          await frame();
          return element.scrollTop;
        });
      },
      { timeout: 150_000, interval: 20 },
    )
    .toBe(0);
  // The text is shown as it was written.
  await from(page, "You").getByText(`<script>${RUN_ME}</script>`).first().waitFor();

  for (const panel of ["events", "state", "runs", "live"]) {
    await page.goto(`${server.url}/#/threads/${threadId}?panel=${panel}`);
    await inspector(page).getByRole("tab", { name: panel, exact: false, selected: true }).waitFor();
    await expectHarmless(page);
  }
  const all = await log(server, threadId);
  for (const { seq } of all.filter(({ event }) => event.type === "CUSTOM")) {
    await page.goto(`${server.url}/#/threads/${threadId}?panel=events&event=${seq}`);
    await page.getByRole("region", { name: `Event ${seq} as JSON` }).waitFor();
    await expectHarmless(page);
  }
  await page.goto(`${server.url}/#/threads/${threadId}?panel=state&at=${all.length - 1}`);
  await inspector(page).getByRole("tree", { name: "State" }).waitFor();
  await expectHarmless(page);
});

test("a link of a message opens only when it is clicked", async () => {
  const threadId = await thread(server, text("a", "assistant", "See [the page](https://example.com/secret?q=1)."));
  const page = await browser.open(server, { at: `#/threads/${threadId}` });
  const link = page.getByRole("link", { name: "the page" });
  await link.waitFor();
  expect(await link.getAttribute("rel")).toMatch(/noreferrer/);
  expect(await link.getAttribute("target")).toBe("_blank");
});

test(
  "a message of a megabyte, and lines without an end: the page can still be used",
  { timeout: 120_000 },
  async () => {
    const line = "x".repeat(300_000);
    const long = Array.from({ length: 10_000 }, (_, index) => `Sentence ${index} of **very** many, with \`code\`.`);
    const threadId = await thread(
      server,
      [
        ...text("a", "assistant", line),
        ...text("b", "assistant", "```\n" + line + "\n```\n"),
        ...text("c", "assistant", ...long.map((each, index) => (index % 20 === 0 ? `\n\n${each}` : ` ${each}`))),
        ...text(
          "n",
          "assistant",
          `${"> ".repeat(500)}deep`,
          "\n\n",
          `${"- ".repeat(500)}deep`,
          "\n\n",
          "[".repeat(20_000),
        ),
        ...text("e", "assistant", "**".repeat(20_000), "\n\n", "`".repeat(20_001), "\n\n", "|".repeat(20_000)),
        { type: "STATE_SNAPSHOT", snapshot: JSON.parse(`${'{"a":'.repeat(100)}1${"}".repeat(100)}`) },
        { type: "TOOL_CALL_START", toolCallId: "t", toolCallName: "big" },
        { type: "TOOL_CALL_ARGS", toolCallId: "t", delta: JSON.stringify({ line, many: long }) },
        { type: "TOOL_CALL_END", toolCallId: "t" },
      ],
      { name: "Enormous" },
    );
    const page = await browser.open(server, { at: `#/threads/${threadId}` });
    await page.getByRole("region", { name: "Tool call big" }).waitFor();
    await toTop(page);
    await expect.poll(async () => (await letters(messages(page))).includes("xxxxxxxx")).toBe(true);
    await field(page).fill("Still here");
    expect(await field(page).inputValue()).toBe("Still here");
    await button(page, "Inspector").click();
    await options(page).filter({ hasText: "TOOL_CALL_ARGS" }).click();
    await page.getByRole("region", { name: /^Event \d+ as JSON/ }).waitFor();
  },
);

test("events that another program appends while the page shows the thread", async () => {
  const threadId = await thread(server, [], { name: "Live" });
  const page = await browser.open(server, { at: `#/threads/${threadId}?panel=events` });
  await row(page, "Live").waitFor();
  for (const [index, attack] of ATTACKS.entries()) {
    await write(server, threadId, text(`m${index}`, "assistant", attack));
    await client(server).thread(threadId).rename(attack.replaceAll("\u0000", "").slice(0, 150));
  }
  await expect.poll(() => messages(page).getByText("constructor hasOwnProperty").count()).toBe(1);
  await expectHarmless(page);
  await page.locator("[data-thread-id]", { hasText: "__proto__ constructor" }).waitFor();
  await send(page, `<script>${RUN_ME}</script>`);
  await from(page, "You").getByText(`<script>${RUN_ME}</script>`).waitFor();
  await expectHarmless(page);
});

test("members of unexpected types", async () => {
  const odd = { toString: 5 };
  const messages = ["__proto__", "constructor", "toString"].map((role) => ({
    id: role,
    role,
    content: [{ type: odd }],
  }));
  const threadId = await thread(server, [{ type: "MESSAGES_SNAPSHOT", messages } as never], { name: "Odd" });
  await client(server)
    .thread(threadId)
    .run({}, (run) => {
      run.append({
        type: "RUN_FINISHED",
        outcome: { type: "interrupt", interrupts: [{ id: odd, message: "Really?" }] },
      } as never);
    });
  const page = await browser.open(server, { at: `#/threads/${threadId}` });
  await page.getByRole("form", { name: "The agent asks" }).getByText("Really?").waitFor();
  for (const { role } of messages) await page.getByText(`Message of the role ${role}`).waitFor();
});

test("an event that cannot be shown hides nothing else", async () => {
  const threadId = await thread(server, text("m", "assistant", "Still here"), { name: "Half broken" });
  // React logs the error that it caught.
  const page = await browser.open(server, { at: `#/threads/${threadId}`, expects: [/no time/, /error boundary/] });
  await from(page, "Assistant").getByText("Still here").waitFor();
  await page.evaluate(() => {
    const whole = Date.prototype.getMilliseconds;
    Date.prototype.getMilliseconds = () => {
      throw new Error("no time");
    };
    addEventListener("repair", () => (Date.prototype.getMilliseconds = whole));
  });
  await button(page, "Inspector").click();
  await inspector(page).getByRole("alert").filter({ hasText: "no time" }).waitFor();
  await from(page, "Assistant").getByText("Still here").waitFor();
  await page.evaluate(() => dispatchEvent(new Event("repair")));
  await button(page, "Try again").click();
  await options(page).filter({ hasText: "TEXT_MESSAGE_START" }).waitFor();
});
