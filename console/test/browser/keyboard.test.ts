// Use without a mouse, from the first key on. An element always has the focus, and shows it.

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Locator, Page } from "playwright-core";
import { client, Server, text, thread } from "./harness/api.ts";
import { Chromium } from "./harness/chromium.ts";
import {
  button,
  dialog,
  field,
  from,
  gone,
  heading,
  idle,
  inspector,
  messages,
  row,
  rowOf,
  running,
  scale,
  threadIn,
} from "./harness/parts.ts";

let server: Server;
let browser: Chromium;
beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), Chromium.start()]);
});
afterEach(() => browser.leave());
afterAll(() => Promise.all([browser?.end(), server?.end()]));

const hasFocus = (locator: Locator) =>
  expect.poll(() => locator.evaluate((element) => element === document.activeElement)).toBe(true);

/** Asserts that an element has the focus, and shows it: by an outline, or by an element around it. */
const expectVisibleFocus = async (page: Page) => {
  const shown = await page.evaluate(() => {
    const focused = document.activeElement;
    if (!focused || focused === document.body) return "nothing has the focus";
    const { width, height } = focused.getBoundingClientRect();
    if (width === 0 || height === 0) return `not to be seen: ${focused.outerHTML.slice(0, 200)}`;
    const probe = document.body.appendChild(document.createElement("i"));
    probe.style.color = "var(--accent)";
    const accent = getComputedStyle(probe).color;
    probe.remove();
    // A visually hidden element, or one without a frame, shows its focus by a label or a box around it.
    let element: Element | null = focused;
    for (let up = 0; element && up < 4; up += 1, element = element.parentElement) {
      const { outlineStyle, outlineWidth, borderTopColor, borderTopWidth } = getComputedStyle(element);
      if (outlineStyle !== "none" && parseFloat(outlineWidth) > 0) return "";
      if (borderTopColor === accent && parseFloat(borderTopWidth) > 0) return "";
      if (getComputedStyle(element, "::after").backgroundColor === accent) return "";
    }
    return `shows no focus: ${focused.outerHTML.slice(0, 200)}`;
  });
  expect(shown).toBe("");
};

/** Presses Tab until this has the focus. */
async function tabTo(page: Page, target: Locator, key = "Tab"): Promise<void> {
  for (let presses = 0; presses < 60; presses += 1) {
    await page.keyboard.press(key);
    // After the last element of the page comes the browser's own UI.
    if (await page.evaluate(() => document.activeElement === document.body)) continue;
    await expectVisibleFocus(page);
    if (await target.evaluate((element) => element === document.activeElement)) return;
  }
  throw new Error(`no way to ${target}`);
}

const menuitem = (page: Page, name: string) => page.getByRole("menuitem", { name, exact: true });

test("a thread from its first message to its deletion", async () => {
  const page = await browser.open(server);
  await heading(page, "No threads yet").waitFor();
  await page.keyboard.press("n");
  await hasFocus(field(page));
  await expectVisibleFocus(page);
  await page.keyboard.type("Write me a long");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("answer");
  expect(await field(page).inputValue()).toBe("Write me a long\nanswer");
  await page.keyboard.press("Enter");
  await running(page);
  await page.waitForURL(/#\/threads\//);
  const threadId = threadIn(page);
  await hasFocus(field(page));
  await from(page, "demo").getByText("(1) You may").waitFor();
  await tabTo(page, button(page, "Stop"));
  await page.keyboard.press("Enter");
  await idle(page);
  // The button disappeared; the focus must not disappear with it.
  await expect.poll(() => page.evaluate(() => document.activeElement?.tagName)).not.toBe("BODY");

  // Rename, by the menu of the thread in the list.
  await tabTo(page, rowOf(page, threadId), "Shift+Tab");
  await page.keyboard.press("F2");
  const renamed = dialog(page, "Rename the thread");
  await hasFocus(renamed.getByRole("textbox", { name: "Name" }));
  await page.keyboard.press("Escape");
  await gone(renamed);
  await hasFocus(rowOf(page, threadId));
  await page.keyboard.press("F2");
  await hasFocus(renamed.getByRole("textbox", { name: "Name" }));
  await page.keyboard.type("By keyboard");
  await page.keyboard.press("Enter");
  await gone(renamed);
  await row(page, "By keyboard").waitFor();
  await hasFocus(rowOf(page, threadId));

  // The menu: arrows go round, Escape closes it, and the focus is back.
  const options = button(page, "Options of By keyboard");
  await tabTo(page, options);
  await page.keyboard.press("Enter");
  await hasFocus(menuitem(page, "Rename"));
  await page.keyboard.press("ArrowDown");
  await hasFocus(menuitem(page, "Archive"));
  await page.keyboard.press("End");
  await hasFocus(menuitem(page, "Delete"));
  await page.keyboard.press("ArrowDown");
  await hasFocus(menuitem(page, "Rename"));
  await page.keyboard.press("ArrowUp");
  await hasFocus(menuitem(page, "Delete"));
  await page.keyboard.press("Home");
  await hasFocus(menuitem(page, "Rename"));
  await page.keyboard.press("Escape");
  await gone(menuitem(page, "Rename"));
  await hasFocus(options);

  await page.keyboard.press("Enter");
  await hasFocus(menuitem(page, "Rename"));
  await page.keyboard.press("End");
  await page.keyboard.press("Enter");
  const asked = dialog(page, "Delete the thread?");
  await asked.waitFor();
  // A key pressed by mistake must not delete the thread.
  await hasFocus(button(asked, "Cancel"));
  await expectVisibleFocus(page);
  await page.keyboard.press("Enter");
  await gone(asked);
  await hasFocus(options);
  await page.keyboard.press("Enter");
  await hasFocus(menuitem(page, "Rename"));
  await page.keyboard.press("End");
  await page.keyboard.press("Enter");
  await tabTo(page, button(asked, "Delete"));
  await page.keyboard.press("Enter");
  await gone(asked);
  await heading(page, "No threads yet").waitFor();
  await expect(server.request("GET", `/v1/threads/${threadId}`)).rejects.toThrow("404");
  await expect.poll(() => page.evaluate(() => document.activeElement?.tagName)).not.toBe("BODY");
});

test("the last thread deleted elsewhere while a dialog asks about it leaves the focus on the page", async () => {
  const { threadId } = await server.request<{ threadId: string }>("POST", "/v1/threads", {
    body: { name: "Deleted elsewhere" },
  });
  const page = await browser.open(server);
  await tabTo(page, rowOf(page, threadId));
  await page.keyboard.press("Delete");
  const asked = dialog(page, "Delete the thread?");
  await hasFocus(button(asked, "Cancel"));
  await server.request("DELETE", `/v1/threads/${threadId}`);
  await gone(rowOf(page, threadId));
  await page.keyboard.press("Escape");
  await gone(asked);
  await expect.poll(() => page.evaluate(() => document.activeElement?.getAttribute("aria-label"))).toBe("New thread");
});

test("a thread is archived by its menu, and the focus stays in the page", async () => {
  const threadId = await thread(server, text("m", "assistant", "Hello"), { name: "To the archive" });
  const page = await browser.open(server, { at: `#/threads/${threadId}` });
  await row(page, "To the archive").waitFor();
  await tabTo(page, button(page, "Options of this thread"));
  await page.keyboard.press("Space");
  await hasFocus(menuitem(page, "Rename"));
  await page.keyboard.press("ArrowDown");
  await hasFocus(menuitem(page, "Archive"));
  await page.keyboard.press("Enter");
  await gone(rowOf(page, threadId));
  expect((await client(server).thread(threadId).get()).archived).toBe(true);
  await hasFocus(button(page, "Options of this thread"));
});

test("the arrow keys move in the list, and Delete asks", async () => {
  const names = ["Arrow one", "Arrow two", "Arrow three"];
  const ids: string[] = [];
  for (const name of names) ids.unshift(await thread(server, text("m", "assistant", name), { name }));
  const page = await browser.open(server);
  const [first, second, third] = ids.map((id) => rowOf(page, id)) as [Locator, Locator, Locator];
  await first.waitFor();
  await tabTo(page, first);
  await page.keyboard.press("ArrowDown");
  await hasFocus(second);
  await page.keyboard.press("ArrowDown");
  await hasFocus(third);
  await page.keyboard.press("ArrowUp");
  await hasFocus(second);
  await page.keyboard.press("Home");
  await hasFocus(first);
  await expectVisibleFocus(page);
  await page.keyboard.press("Delete");
  const asked = dialog(page, "Delete the thread?");
  await asked.waitFor();
  await page.keyboard.press("Escape");
  await gone(asked);
  await hasFocus(first);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await heading(page, "Arrow two").waitFor();
});

test("the first Tab leads past the list", async () => {
  const threadId = await thread(server, text("m", "assistant", "Hello"), { name: "Skipped to" });
  const page = await browser.open(server, { at: `#/threads/${threadId}?panel=events` });
  await row(page, "Skipped to").waitFor();
  await page.keyboard.press("Tab");
  const skip = page.getByRole("link", { name: "Skip to the conversation" });
  await hasFocus(skip);
  expect((await skip.boundingBox())!.y).toBeGreaterThanOrEqual(0);
  await page.keyboard.press("Enter");
  await hasFocus(page.getByRole("main"));
  expect(threadIn(page)).toBe(threadId);
});

test("the page's shortcuts are off while the user types", async () => {
  const page = await browser.open(server, { at: "#/new" });
  await hasFocus(field(page));
  await page.keyboard.type("n / i ? c");
  expect(await field(page).inputValue()).toBe("n / i ? c");
  expect(await page.getByRole("dialog").count()).toBe(0);
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("?");
  await dialog(page, "Keyboard shortcuts").waitFor();
  await page.keyboard.press("n");
  await page.keyboard.press("Escape");
  await gone(dialog(page, "Keyboard shortcuts"));
  await page.keyboard.press("/");
  await hasFocus(page.getByRole("searchbox", { name: "Search threads" }));
});

test("the inspector: opened, moved through time, an event opened and closed", async () => {
  const deltas = Array.from({ length: 40 }, (_, index) => `word ${index} `);
  const threadId = await thread(server, text("m", "assistant", ...deltas), { name: "Inspected" });
  const page = await browser.open(server, { at: `#/threads/${threadId}` });
  await from(page, "Assistant").getByText("word 39").waitFor();
  const toggle = button(page, "Inspector");
  await tabTo(page, toggle);
  await page.keyboard.press("Enter");
  await inspector(page).waitFor();
  await tabTo(page, scale(page));
  await page.keyboard.press("Home");
  await expect.poll(() => page.url()).toContain("at=1");
  for (let seq = 2; seq <= 5; seq += 1) await page.keyboard.press("ArrowRight");
  await expect.poll(() => page.url()).toContain("at=5");
  await page.getByText("As it was after event 5 of 44").waitFor();
  await expect.poll(() => from(page, "Assistant").getByText("word 2").count()).toBe(1);
  expect(await from(page, "Assistant").getByText("word 3").count()).toBe(0);
  await page.keyboard.press("End");
  await from(page, "Assistant").getByText("word 39").waitFor();

  const events = inspector(page).getByRole("listbox", { name: "Events" });
  await tabTo(page, events);
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  const opened = page.getByRole("region", { name: /^Event \d+$/ });
  await opened.waitFor();
  expect(page.url()).toMatch(/event=[23]/);
  await page.keyboard.press("Escape");
  await gone(opened);
  await hasFocus(events);
  await page.keyboard.press("Escape");
  await gone(inspector(page));
  // Where it was opened.
  await hasFocus(toggle);
  await page.keyboard.press("i");
  await inspector(page).waitFor();

  const tab = (name: string) => inspector(page).getByRole("tab", { name });
  await tabTo(page, tab("Events"));
  await page.keyboard.press("ArrowRight");
  await hasFocus(tab("State"));
  await expect.poll(() => tab("State").getAttribute("aria-selected")).toBe("true");
  await page.keyboard.press("End");
  await hasFocus(tab("Live"));
  await page.keyboard.press("ArrowRight");
  await hasFocus(tab("Events"));
});

test("every step can be done with Tab alone, from the address bar", async () => {
  const page = await browser.open(server, { at: "#/" });
  await tabTo(page, page.getByRole("link", { name: "New thread", exact: true }).first());
  await page.keyboard.press("Enter");
  const examples = page.getByRole("list", { name: "Examples for the demo agent" }).getByRole("button");
  await tabTo(page, examples.first(), "Shift+Tab");
  await page.keyboard.press("Enter");
  // The run may end before the test looks; its end stays in the conversation.
  await messages(page).getByText("finished").waitFor();
  await idle(page);
  await expect.poll(() => page.evaluate(() => document.activeElement?.tagName)).not.toBe("BODY");
});
