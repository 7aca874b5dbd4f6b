// The parts of the page, by their accessible names (NAMES.md).

import type { Locator, Page } from "playwright-core";

export const sidebar = (page: Page) => page.getByRole("navigation", { name: "Threads" });
/** Threads in the list. */
export const rows = (page: Page) => sidebar(page).locator("[data-thread-id]");
/** A thread in the list whose name begins so. */
export const row = (page: Page, name: string) =>
  sidebar(page).getByRole("link", { name: new RegExp(`^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}`) });
export const rowOf = (page: Page, threadId: string) => sidebar(page).locator(`[data-thread-id="${threadId}"]`);

export const messages = (page: Page) => page.getByRole("region", { name: "Messages" });
export const from = (page: Page, who: string) =>
  page.getByRole("article", { name: `Message from ${who}`, exact: true });
export const field = (page: Page) => page.getByRole("textbox", { name: "Message", exact: true });
export const button = (page: Page | Locator, name: string | RegExp) =>
  page.getByRole("button", { name, ...(typeof name === "string" && { exact: true }) });
export const heading = (page: Page, name: string | RegExp) => page.getByRole("heading", { name });
export const dialog = (page: Page, name: string) => page.getByRole("dialog", { name });
export const banner = (page: Page) => page.getByTestId("reconnect-banner");
export const inspector = (page: Page) => page.getByRole("complementary", { name: "Inspector" });
/** Rows of the inspector's events. */
export const options = (page: Page) => inspector(page).getByRole("listbox", { name: "Events" }).getByRole("option");
export const scale = (page: Page) => page.getByRole("slider", { name: "Event" });
export const notice = (page: Page, text: string | RegExp) => page.locator(".notice", { hasText: text });

/** Waits until the element is gone, or hidden. */
export const gone = (locator: Locator) => locator.waitFor({ state: "hidden" });

/** Frames without a movement after which a scroller is idle. */
const FRAMES_AT_REST = 10;

/** Scrolls up until the first message is in sight and stays there, even if loading moves it meanwhile. */
export const toTop = (page: Page) =>
  messages(page).evaluate(async (element, frames) => {
    for (let still = 0; still < frames; still = element.scrollTop === 0 ? still + 1 : 0) {
      element.scrollTo(0, 0);
      await new Promise((resolve) => requestAnimationFrame(resolve));
    }
  }, FRAMES_AT_REST);

/** The scroll position. */
export const scrolled = (locator: Locator) => locator.evaluate(({ scrollTop }) => scrollTop);

/** Waits until a scroller is idle: browsers scroll smoothly. Returns its position. */
export const atRest = (locator: Locator) =>
  locator.evaluate(async (element, frames) => {
    let place = element.scrollTop;
    for (let still = 0; still < frames;) {
      await new Promise((resolve) => requestAnimationFrame(resolve));
      still = element.scrollTop === place ? still + 1 : 0;
      place = element.scrollTop;
    }
    return place;
  }, FRAMES_AT_REST);

/** Milliseconds after which a click that unfolded nothing is repeated. */
const UNFOLDED_MS = 3_000;

/** Unfolds content by its summary. A click that meets a page in motion goes down and up on two elements, and counts for neither. */
export async function unfold(summary: Locator, content: Locator): Promise<void> {
  for (let tries = 0; tries < 10 && !(await content.isVisible()); tries += 1) {
    await summary.click();
    await content.waitFor({ timeout: UNFOLDED_MS }).catch(() => {});
  }
  await content.waitFor();
}

/** Writes a message and sends it. */
export async function send(page: Page, text: string): Promise<void> {
  await field(page).fill(text);
  await button(page, "Send").click();
}

/** Waits until no run is active, and the next message could be sent. */
export const idle = (page: Page) => button(page, "Send").waitFor();
export const running = (page: Page) => button(page, "Stop").waitFor();

/** Chooses from the menu of the thread that is open. */
export async function choose(page: Page, item: string): Promise<void> {
  await button(page, "Options of this thread").click();
  await page.getByRole("menuitem", { name: item, exact: true }).click();
}

/** Begins a thread with the demo agent; returns its id. */
export async function begin(page: Page, text: string): Promise<string> {
  await sidebar(page).getByRole("link", { name: "New thread", exact: true }).first().click();
  await heading(page, "What is it about?").waitFor();
  await send(page, text);
  await page.waitForURL(/#\/threads\//);
  return threadIn(page);
}

/** The thread that is open. */
export function threadIn(page: Page): string {
  return decodeURIComponent(/#\/threads\/([^?]+)/.exec(page.url())?.[1] ?? "");
}

/** All letters that are shown, without spaces: the layout does not matter. */
export const letters = async (locator: Locator) => squeezed((await locator.allTextContents()).join(""));
/** A text in the same form, without markdown's marks. */
export const squeezed = (text: string) => text.replace(/^- /gm, "").replace(/[*#`>\s]/g, "");

/** The numbers of sentences that are shown: "(17) You may …". */
export const numbers = async (locator: Locator) =>
  [...(await letters(locator)).matchAll(/\((\d+)\)/g)].map(([, number]) => Number(number));

/** 1 to `last`. */
export const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1);
