// Every component in every state, in both themes and two widths: no element overlaps another, none is left out, and every cell looks as in
// the approved pictures (`npm run pictures` takes them again). In pictures each letter is a box: the machine's fonts do not matter.

import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Page } from "playwright-core";
import {
  difference,
  faults,
  Gallery,
  pictures,
  type Planted,
  type Show,
  THEMES,
  unboxed,
  WIDTHS,
} from "../gallery/gallery.ts";
import { Chromium } from "./harness/chromium.ts";

/** Pixels that may differ from a picture: of a rounded corner, or of a line between two pixels. */
const MOST_PIXELS = 60;
/** Folder of the pictures that differ. */
const DIFFERENT = fileURLToPath(new URL("../.shots/gallery", import.meta.url));
const SHOWS = THEMES.flatMap((theme) => WIDTHS.map((width): Show => ({ theme, width })));
const WHOLE = ["assistant done 30,000 characters", "assistant done 120,000 characters"];

let browser: Chromium;
let gallery: Gallery;
beforeAll(async () => {
  [gallery, browser] = await Promise.all([Gallery.start(), Chromium.start()]);
  await rm(DIFFERENT, { recursive: true, force: true });
});
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

// One page for the tests that only read it.
describe.each(SHOWS)("$theme, $width pixels wide", (show) => {
  let page: Page;
  beforeAll(async () => {
    page = await gallery.open(browser, { ...show, isBoxes: true });
  });
  afterAll(() => browser.leave());

  test("every cell looks as in its picture", { timeout: 180_000 }, async () => {
    expect(await faults(page)).toEqual([]);
    expect(await different(page, show, { kept: DIFFERENT })).toEqual([]);
  });

  test("no element overlaps another, with the fonts of this machine", async () => {
    await unboxed(page);
    expect(await faults(page)).toEqual([]);
  });

  test("long answers are shown whole", async () => {
    for (const name of WHOLE) {
      const { letters, of, isEnded } = await shown(page, name);
      expect(letters).toBe(of);
      expect(isEnded).toBe(true);
    }
    expect(await page.getByText(/^Show all/).count()).toBe(0);
  });
});

/**
 * The cells that differ from their pictures, with the number of different pixels; their new pictures go to a folder. Compares all
 * cells, or the given ones.
 */
async function different(
  page: Page,
  { theme, width }: Show,
  { kept, only }: { kept?: string; only?: readonly string[] } = {},
): Promise<string[]> {
  const folder = fileURLToPath(new URL(`../gallery/pictures/${theme}-${width}/`, import.meta.url));
  const missing = new Set(only ?? (await readdir(folder)).map((file) => file.replace(/\.png$/, "")));
  const found: string[] = [];
  for (const [name, picture] of await pictures(page, only && new Set(only))) {
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

describe("planted changes are found", () => {
  const LIGHT: Show = { theme: "light", width: 1440 };
  const cellsOf = (lines: readonly string[]) => [...new Set(lines.map((line) => line.replace(/:.*/, "")))];
  /** Names of the files of pictures. */
  const hyphened = (names: readonly string[]) => names.map((name) => name.replace(/[^a-z0-9]+/gi, "-"));
  afterAll(() => browser.leave());

  /** A gallery with a change planted in its sources. */
  async function planted(what: Planted, use: (page: Page) => Promise<void>): Promise<void> {
    const other = await Gallery.start(what);
    try {
      await use(await other.open(browser, { ...LIGHT, isBoxes: true }));
    } finally {
      await other.end();
    }
  }

  test("a rule for a state of any component, by how it is laid out and by its pictures", () => {
    const bare = { "threads.css": (css: string) => `${css}\n.running { height: 0.8rem }` };
    const hit = ["assistant with calls running", "tool call empty", "tool call growing", "tool call running"];
    return planted(bare, async (page) => {
      const only = hyphened([...hit, "tool call done", "tool call failed"]);
      expect(cellsOf(await different(page, LIGHT, { only }))).toEqual(hyphened(hit));
      await unboxed(page);
      expect(cellsOf(await faults(page))).toEqual(hit);
    });
  });

  describe("in a page that is open", () => {
    let page: Page;
    beforeAll(async () => {
      page = await gallery.open(browser, LIGHT);
    });

    test.each(["waiting", "done", "failed", "growing", "selected", "unread", "error"])(
      "a rule for .%s",
      async (state) => {
        expect(await faults(page)).toEqual([]);
        const sheet = await page.addStyleTag({ content: `.${state} { height: 0.8rem }` });
        expect(await faults(page)).not.toEqual([]);
        await sheet.evaluate((element) => (element as Element).remove());
      },
    );
  });

  test("a cut at 8,000 characters", () => {
    const cut = {
      "conversation/Parts.tsx": (source: string) => source.replaceAll("{part.text}", "{part.text.slice(0, 8_000)}"),
    };
    return planted(cut, async (page) => {
      for (const name of WHOLE) {
        const { letters, of, isEnded } = await shown(page, name);
        expect(letters).toBeLessThan(of / 2);
        expect(isEnded).toBe(false);
      }
      const only = hyphened([...WHOLE, "assistant done"]);
      expect(cellsOf(await different(page, LIGHT, { only }))).toEqual(hyphened(WHOLE));
    });
  });
});
