// Answers of half a million characters: no part of them is ever left out, and the page stays usable.

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Page } from "playwright-core";
import { openRun, Server, text, thread } from "./harness/api.ts";
import { Chromium } from "./harness/chromium.ts";
import { framesOf } from "./harness/frames.ts";
import { field, from, idle, letters, messages, running, squeezed, unfold } from "./harness/parts.ts";

const LENGTH = 500_000;
/** A shorter pause is not mistaken for the end. */
const LONGEST_MS = 2_000;

let server: Server;
let browser: Chromium;
beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), Chromium.start()]);
});
afterEach(() => browser.leave());
afterAll(() => Promise.all([browser?.end(), server?.end()]));

/** Text as models write it: headings, paragraphs of different lengths, lists, code. */
function answer(length: number): string {
  const blocks: string[] = [];
  for (let at = 0, size = 0; size < length; at += 1) {
    const words = `sentence ${at} has **bold** words and \`code\` in it, as many have. `;
    const kinds = [
      `## Chapter ${at}`,
      words.repeat(1 + (at % 9)),
      Array.from({ length: 3 + (at % 7) }, (_, item) => `- point ${item} of ${at}`).join("\n"),
      words.repeat(2),
      ["```js", ...Array.from({ length: 2 + (at % 12) }, (_, line) => `line(${at}, ${line});`), "```"].join("\n"),
    ];
    blocks.push(kinds[at % kinds.length]!);
    size += blocks.at(-1)!.length + 2;
  }
  return blocks.join("\n\n").slice(0, length);
}

const WHOLE = `${answer(LENGTH)}\n\nThis is the end.`;
/** Letters and digits: the rest of the layout does not matter. */
const plain = (shown: string) => shown.replace(/[^\p{L}\p{N}]/gu, "");
const expected = plain(squeezed(WHOLE.replace(/^```\w*$/gm, "")));

const shown = async (page: Page) =>
  plain(
    await page.locator(".said").evaluateAll((said) =>
      said
        .map((each) => {
          const copy = each.cloneNode(true) as HTMLElement;
          for (const caption of copy.querySelectorAll("figcaption")) caption.remove();
          return copy.textContent;
        })
        .join(""),
    ),
  );
/** Whether the text is complete; a diff of half a million characters would be unreadable. */
const isWhole = async (page: Page) => (await shown(page)) === expected;
const length = async (page: Page) => (await shown(page)).length;

test("an answer of 500,000 characters is complete while it grows, when it ends, and after a reload", async () => {
  const threadId = await thread(server, text("q", "user", "Write a book"), { name: "Long" });
  const page = await browser.open(server, { at: `#/threads/${threadId}` });
  await from(page, "You").waitFor();
  const open = await openRun(server, threadId);
  await open.run.append({ type: "TEXT_MESSAGE_START", messageId: "long", role: "assistant" });
  await running(page);
  for (let at = 0; at < WHOLE.length; at += 5_000) {
    await open.run.append({
      type: "TEXT_MESSAGE_CONTENT",
      messageId: "long",
      delta: WHOLE.slice(at, at + 5_000),
    });
  }
  await expect.poll(() => length(page), { timeout: 60_000 }).toBe(expected.length);
  await messages(page).getByText("This is the end.").waitFor();
  await open.run.append({ type: "TEXT_MESSAGE_END", messageId: "long" });
  await open.end();
  await idle(page);
  expect(await length(page)).toBe(expected.length);
  expect(await isWhole(page)).toBe(true);
  await expect.poll(() => page.getByText("This is the end.").evaluate(inSight)).toBe(true);

  await page.reload();
  await messages(page).getByText("This is the end.").waitFor();
  expect(await length(page)).toBe(expected.length);
  expect(await isWhole(page)).toBe(true);
  await expect.poll(() => page.getByText("This is the end.").evaluate(inSight)).toBe(true);
  await field(page).fill("Still here");
  for (const direction of [-1, 1]) {
    const frames = await framesOf(page, messages(page), direction, 1_500);
    console.log(`scrolled through half a million characters: ${JSON.stringify(frames)}`);
    expect(frames.count).toBeGreaterThan(5);
    expect(frames.longestMs).toBeLessThan(LONGEST_MS);
  }
});

const inSight = (element: Element) => {
  const { top, bottom } = element.getBoundingClientRect();
  const view = element.closest(".messages")!.getBoundingClientRect();
  return top >= view.top && bottom <= view.bottom;
};

/**
 * Scrolls by so many pixels, so many times; gives how far what is in sight moved elsewhere than that, at most, and how much higher
 * or lower all of it became meanwhile: if that is nothing, nothing was tried.
 */
const scroll = (page: Page, by: number, times: number) =>
  messages(page).evaluate(
    async (scroller, { by, times }) => {
      const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
      const view = scroller.getBoundingClientRect();
      const middle = view.top + view.height / 2;
      const isThere = (element: Element) => {
        const { top, bottom } = element.getBoundingClientRect();
        return top <= middle && bottom > middle;
      };
      // Text that is far away is not measured: that would lay it out.
      const inSight = () => {
        const child = [...scroller.querySelector(".markdown")!.children].find(isThere);
        return child?.matches(".markdown-part") ? ([...child.children].find(isThere) ?? child) : child;
      };
      let [strayed, changed] = [0, 0];
      for (let time = 0; time < times; time += 1) {
        const block = inSight();
        if (!block) continue;
        const before = block.getBoundingClientRect().top;
        const { scrollTop, scrollHeight } = scroller;
        scroller.scrollBy(0, by);
        const moved = scroller.scrollTop - scrollTop;
        for (let frames = 0; frames < 4; frames += 1) await frame();
        strayed = Math.max(strayed, Math.abs(before - moved - block.getBoundingClientRect().top));
        changed += Math.abs(scroller.scrollHeight - scrollHeight);
      }
      return { strayed, changed };
    },
    { by, times },
  );

test.each([1280, 390])("the text in view stays in its place when scrolled, %i pixels wide", async (width) => {
  // Long enough that most of it is far away.
  const long = `${answer(100_000)}\n\nThis is the end.`;
  const threadId = await thread(server, text("a", "assistant", long), { name: "Long" });
  const page = await browser.open(server, { at: `#/threads/${threadId}`, viewport: { width, height: 800 } });
  await page.getByText("This is the end.").waitFor();
  await expect.poll(() => page.getByText("This is the end.").evaluate(inSight)).toBe(true);
  // Parts not shown before: above, then in the middle of the skipped part.
  const up = await scroll(page, -350, 30);
  expect(up.changed).toBeGreaterThan(100);
  expect(up.strayed).toBeLessThan(3);
  expect((await scroll(page, 350, 15)).strayed).toBeLessThan(3);
  await messages(page).evaluate((scroller) => scroller.scrollTo(0, scroller.scrollHeight / 2));
  await expect.poll(async () => (await scroll(page, 0, 5)).strayed).toBeLessThan(1);
  const down = await scroll(page, 350, 20);
  expect(down.changed).toBeGreaterThan(100);
  expect(down.strayed).toBeLessThan(3);
  expect((await scroll(page, -350, 40)).strayed).toBeLessThan(3);
});

test("a question and a reasoning message are not cut either", async () => {
  const lines = Array.from({ length: 4_000 }, (_, line) => `line ${line} of the question`).join("\n");
  const threadId = await thread(
    server,
    [
      { type: "REASONING_MESSAGE_START", messageId: "r", role: "reasoning" },
      { type: "REASONING_MESSAGE_CONTENT", messageId: "r", delta: lines },
      { type: "REASONING_MESSAGE_END", messageId: "r" },
      ...text("q", "user", lines),
    ],
    { name: "Both" },
  );
  const page = await browser.open(server, { at: `#/threads/${threadId}` });
  await from(page, "You").waitFor();
  await expect.poll(async () => (await letters(from(page, "You"))) === squeezed(lines)).toBe(true);
  await messages(page).evaluate((scroller) => scroller.scrollTo(0, 0));
  const thought = page.locator(".reasoning .fold-content");
  await unfold(page.getByText("Thought", { exact: true }), thought);
  await expect.poll(async () => (await letters(thought)) === squeezed(lines)).toBe(true);
});
