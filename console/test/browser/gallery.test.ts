// Every component in every state, in both themes and two widths: nothing lies over anything else, nothing is left out, and all of it looks
// as in the pictures that were looked at (`npm run pictures` takes them anew). In pictures each letter is a box: the machine's fonts do
// not matter.

import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Page } from "playwright-core";
import { difference, faults, Gallery, pictures, type Planted, type Show, THEMES, WIDTHS } from "../gallery/gallery.ts";
import { Chromium } from "./harness/chromium.ts";

/** Pixels that may be others than in a picture: of a rounded corner, or of a line between two pixels. */
const MOST_PIXELS = 60;
/** Where the pictures are kept that are others than they were. */
const DIFFERENT = fileURLToPath(new URL("../.shots/gallery", import.meta.url));
const SHOWS = THEMES.flatMap((theme) => WIDTHS.map((width): Show => ({ theme, width })));
const WHOLE = ["assistant done 30,000 characters", "assistant done 120,000 characters"];

let browser: Chromium;
let gallery: Gallery;
beforeAll(async () => {
  [gallery, browser] = await Promise.all([Gallery.start(), Chromium.start()]);
  await rm(DIFFERENT, { recursive: true, force: true });
});
afterEach(() => browser.leave());
afterAll(() => Promise.all([browser?.end(), gallery?.end()]));

/** The letters of a long answer that are shown, of how many, and whether its last words are among them. */
const shown = (page: Page, name: string) =>
  page.locator(`[data-cell="${name}"]`).evaluate((cell) => {
    const text = cell.querySelector(".said")!.textContent;
    return {
      letters: text.replace(/\s/g, "").length,
      of: Number((cell as HTMLElement).dataset.long),
      isEnded: text.endsWith("The last words of it."),
    };
  });

describe.each(SHOWS)("$theme, $width pixels wide", ({ theme, width }) => {
  test("nothing lies over anything else, with the fonts of this machine", async () => {
    const page = await gallery.open(browser, { theme, width });
    expect(await faults(page)).toEqual([]);
  });

  test("all of it looks as it did", { timeout: 180_000 }, async () => {
    const page = await gallery.open(browser, { theme, width, isBoxes: true });
    expect(await faults(page)).toEqual([]);
    expect(await different(page, { theme, width }, DIFFERENT)).toEqual([]);
  });
});

/** The cells that are others than in their pictures, with how much of them is; what they are now goes to a folder. */
async function different(page: Page, { theme, width }: Show, kept?: string): Promise<string[]> {
  const folder = fileURLToPath(new URL(`../gallery/pictures/${theme}-${width}/`, import.meta.url));
  const missing = new Set((await readdir(folder)).map((file) => file.replace(/\.png$/, "")));
  const found: string[] = [];
  for (const [name, picture] of await pictures(page)) {
    const isKnown = missing.delete(name);
    const before = isKnown ? await readFile(`${folder}${name}.png`) : undefined;
    const pixels = before ? await difference(page, before, picture) : Infinity;
    if (pixels <= MOST_PIXELS) continue;
    found.push(`${name}: ${pixels} pixels`);
    if (kept === undefined) continue;
    await mkdir(kept, { recursive: true });
    await writeFile(`${kept}/${theme}-${width}-${name}.png`, picture);
  }
  return [...found, ...[...missing].map((name) => `${name}: is not there any more`)];
}

test("long answers are whole", async () => {
  const page = await gallery.open(browser, { theme: "light", width: 1440 });
  for (const name of WHOLE) {
    const { letters, of, isEnded } = await shown(page, name);
    expect(letters).toBe(of);
    expect(isEnded).toBe(true);
  }
  expect(await page.getByText(/^Show all/).count()).toBe(0);
});

describe("what is planted is found", () => {
  async function planted(what: Planted, use: (page: Page) => Promise<void>, show: Show): Promise<void> {
    const other = await Gallery.start(what);
    try {
      await use(await other.open(browser, show));
    } finally {
      await other.end();
    }
  }
  const light: Show = { theme: "light", width: 1440 };
  const boxes: Show = { ...light, isBoxes: true };

  const bare = { "threads.css": (css: string) => `${css}\n.running { height: 0.8rem }` };
  test("a rule for a state of any component, by how it is laid out", () =>
    planted(
      bare,
      async (page) => {
        const cells = new Set((await faults(page)).map((fault) => fault.replace(/:.*/, "")));
        expect([...cells]).toEqual([
          "assistant with calls running",
          "tool call empty",
          "tool call growing",
          "tool call running",
        ]);
      },
      light,
    ));

  test("a rule for a state of any component, by its pictures", () =>
    planted(
      bare,
      async (page) => {
        const names = (await different(page, light)).map((line) => line.replace(/:.*/, ""));
        expect(names).toEqual([
          "assistant-with-calls-running",
          "tool-call-empty",
          "tool-call-growing",
          "tool-call-running",
        ]);
      },
      boxes,
    ));

  test.each(["waiting", "done", "failed", "growing", "selected", "unread", "error"])("a rule for .%s", (state) => {
    const css = { "index.css": (sheet: string) => `${sheet}\n.${state} { height: 0.8rem }` };
    return planted(css, async (page) => expect(await faults(page)).not.toEqual([]), light);
  });

  test("a cut at 8,000 characters", () => {
    const cut = {
      "conversation/Parts.tsx": (source: string) => source.replaceAll("{part.text}", "{part.text.slice(0, 8_000)}"),
    };
    return planted(
      cut,
      async (page) => {
        for (const name of WHOLE) {
          const { letters, of, isEnded } = await shown(page, name);
          expect(letters).toBeLessThan(of / 2);
          expect(isEnded).toBe(false);
        }
        const names = (await different(page, light)).map((line) => line.replace(/:.*/, ""));
        expect(names).toEqual(["assistant-done-30-000-characters", "assistant-done-120-000-characters"]);
      },
      boxes,
    );
  });
});
