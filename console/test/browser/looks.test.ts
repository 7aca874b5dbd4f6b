// Light and dark, and narrow screens.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Page } from "playwright-core";
import { Server, text, thread } from "./harness/api.ts";
import { Chromium } from "./harness/chromium.ts";
import { button, dialog, from, gone, heading, inspector, messages, row, rowOf, toTop } from "./harness/parts.ts";

/** Loads the page as on a phone, after a layout for a wider window. */
const WIDTHS = [390, 1024, 720, 320];
const NARROW = { viewport: { width: 390, height: 844 } };
const WORD = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft".repeat(4);

let server: Server;
let browser: Chromium;
let threadId: string;
beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), Chromium.start()]);
  threadId = await thread(
    server,
    [
      ...text("u", "user", `A question with ${WORD}`),
      ...text("a", "assistant", `## ${WORD}\n\n${WORD} \`${WORD}\`\n\n- ${WORD}\n\n> ${WORD}\n\n`),
      ...text("b", "assistant", `| a | b |\n|---|---|\n| ${WORD} | ${WORD} |\n\n\`\`\`\n${WORD}${WORD}\n\`\`\`\n`),
      { type: "TOOL_CALL_START", toolCallId: "t", toolCallName: `look_up_${WORD}` },
      { type: "TOOL_CALL_ARGS", toolCallId: "t", delta: JSON.stringify({ [WORD]: WORD }) },
      { type: "TOOL_CALL_END", toolCallId: "t" },
      { type: "TOOL_CALL_RESULT", messageId: "r", toolCallId: "t", content: WORD },
      { type: "STATE_SNAPSHOT", snapshot: { [WORD]: { [WORD]: [WORD] } } },
    ],
    { name: `Long ${WORD}`, agentId: `agent-${WORD}`.slice(0, 200) },
  );
});
afterEach(() => browser.leave());
afterAll(() => Promise.all([browser?.end(), server?.end()]));

/** Asserts that no element is wider than the page, and only marked elements scroll sideways. */
async function expectNoOverflow(page: Page, width: number): Promise<void> {
  // The page reacts to its new width a frame later.
  await expect.poll(() => tooWide(page), { message: `${width} pixels wide` }).toEqual([]);
}

const tooWide = (page: Page) =>
  page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    const found = scrollWidth > clientWidth ? [`the page: ${scrollWidth} > ${clientWidth}`] : [];
    for (const element of document.querySelectorAll<HTMLElement>("body *")) {
      const { overflowX, position } = getComputedStyle(element);
      const { left, right, width, height } = element.getBoundingClientRect();
      if (width <= 1 || height <= 1 || position === "fixed") continue;
      const pans = element.scrollWidth > element.clientWidth + 1 && (overflowX === "auto" || overflowX === "scroll");
      // Code and tables may be wider than their scrollable container.
      if (pans && !element.closest("pre, code, .scrolling, .table-scroll, .json, .json-text")) {
        found.push(`scrolls sideways: ${element.tagName}.${element.className}`);
      }
      if (right <= innerWidth + 1 && left >= -1) continue;
      let clips = false;
      for (let up = element.parentElement; up && !clips; up = up.parentElement) {
        clips = getComputedStyle(up).overflowX !== "visible" && up !== document.body && up !== document.documentElement;
      }
      if (!clips) found.push(`beyond the edge: ${element.tagName}.${element.className}`);
    }
    return found;
  });

const ground = (page: Page) =>
  page.evaluate(() => {
    const [red = 0, green = 0, blue = 0] = (getComputedStyle(document.body).backgroundColor.match(/[\d.]+/g) ?? []).map(
      Number,
    );
    return red + green + blue > 380 ? "light" : "dark";
  });

const theme = (on: Page, name: string) => on.getByRole("group", { name: "Theme" }).getByRole("radio", { name });

describe("themes", () => {
  test.each(["light", "dark"] as const)("as the system has it: %s", async (colorScheme) => {
    const page = await browser.open(server, { colorScheme });
    await row(page, "Long").waitFor();
    expect(await ground(page)).toBe(colorScheme);
  });

  test("as the person has chosen, also over a reload and in other tabs", async () => {
    const page = await browser.open(server, { colorScheme: "light" });
    const other = await page.context().newPage();
    await other.goto(page.url());
    expect(await theme(page, "Same as the system").isChecked()).toBe(true);
    await theme(page, "Dark").check({ force: true });
    await expect.poll(() => ground(page)).toBe("dark");
    await expect.poll(() => ground(other)).toBe("dark");
    await page.reload();
    await row(page, "Long").waitFor();
    expect(await ground(page)).toBe("dark");
    expect(await theme(page, "Dark").isChecked()).toBe(true);
    await theme(page, "Same as the system").check({ force: true });
    await expect.poll(() => ground(page)).toBe("light");
    await page.emulateMedia({ colorScheme: "dark" });
    await expect.poll(() => ground(page)).toBe("dark");
  });

  test("as another tab has chosen while this one has no answer of the server yet", async () => {
    const page = await browser.open(server, { colorScheme: "light" });
    const other = await page.context().newPage();
    await other.route(/\/v1\//, () => {});
    await other.goto(page.url());
    await theme(page, "Dark").check({ force: true });
    await expect.poll(() => ground(other)).toBe("dark");
    expect(await theme(other, "Dark").count()).toBe(0);
  });
});

describe("narrow", () => {
  test("the list, a thread, and back; the inspector covers it", async () => {
    const page = await browser.open(server, NARROW);
    await row(page, "Long").click();
    await messages(page).waitFor();
    expect(await rowOf(page, threadId).isVisible()).toBe(false);
    await button(page, "Inspector").click();
    await inspector(page).waitFor();
    const box = await inspector(page).boundingBox();
    expect(box!.width).toBe(390);
    // The inspector is on top at every point.
    const covered = await inspector(page).evaluate((aside) => {
      const points = [10, innerHeight / 2, innerHeight - 10].flatMap((y) =>
        [5, innerWidth / 2, innerWidth - 5].map((x) => [x, y]),
      );
      return points.every(([x = 0, y = 0]) => aside.contains(document.elementFromPoint(x, y)));
    });
    expect(covered).toBe(true);
    await button(page, "Close the inspector").click();
    await gone(inspector(page));
    await messages(page).waitFor();
    await page.getByRole("link", { name: "Back to the threads" }).click();
    await rowOf(page, threadId).waitFor();
    expect(await messages(page).isVisible()).toBe(false);
    await page.goBack();
    await messages(page).waitFor();
  });

  const screens: readonly (readonly [string, (page: Page) => Promise<unknown>])[] = [
    ["#/", (page) => row(page, "Long").waitFor()],
    ["#/new", (page) => heading(page, "What is it about?").waitFor()],
    ["#/threads/THREAD", (page) => page.getByRole("article").first().waitFor()],
    ["#/threads/THREAD?at=9", (page) => page.getByText("As it was after event 9").waitFor()],
    [
      "#/threads/THREAD?panel=events&event=6",
      (page) => page.getByRole("region", { name: "Event 6" }).first().waitFor(),
    ],
    ["#/threads/THREAD?panel=state&at=16", (page) => heading(page, "State after event 16").waitFor()],
    ["#/threads/THREAD?panel=runs", (page) => inspector(page).getByRole("listitem").first().waitFor()],
    ["#/threads/THREAD?panel=live", (page) => heading(page, "Subscribers").waitFor()],
    [`#/threads/${"no-such-thread".repeat(15)}`, (page) => heading(page, "Thread not found").waitFor()],
  ];
  test.each(screens)("no element is wider than the page at %s", async (at, isThere) => {
    const page = await browser.open(server, {
      viewport: { width: WIDTHS[0]!, height: 844 },
      at: at.replace("THREAD", threadId),
      expects: [/status of 404/],
    });
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 844 });
      await isThere(page);
      await expectNoOverflow(page, width);
      if (!at.endsWith("THREAD")) continue;
      // The whole conversation, not only its end.
      await toTop(page);
      await from(page, "You").waitFor();
      await expectNoOverflow(page, width);
    }
  });

  test("dialogs and menus fit", async () => {
    const page = await browser.open(server, { ...NARROW, at: `#/threads/${threadId}` });
    await messages(page).waitFor();
    await button(page, "Options of this thread").click();
    const menu = page.getByRole("menu", { name: "Options of this thread" });
    await menu.waitFor();
    const { x, width } = (await menu.boundingBox())!;
    expect(x).toBeGreaterThanOrEqual(0);
    expect(x + width).toBeLessThanOrEqual(390);
    await page.getByRole("menuitem", { name: "Delete" }).click();
    await dialog(page, "Delete the thread?").waitFor();
    await expectNoOverflow(page, 390);
  });
});
