// Takes the pictures that the test compares with again, after an intended change. Check them (git diff) before committing.
//
//   npm run pictures            writes test/gallery/pictures, in boxes
//   npm run pictures -- FOLDER  writes them there, with the machine's own fonts, to be looked at

import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { withHarness } from "../harness.mjs";

const [folder] = process.argv.slice(2);
const target = folder ?? fileURLToPath(new URL("pictures", import.meta.url));

await withHarness(async (load) => {
  const { Chromium } = await load("test/browser/harness/chromium.ts");
  const { Gallery, pictures, THEMES, WIDTHS } = await load("test/gallery/gallery.ts");
  const [gallery, browser] = await Promise.all([Gallery.start(), Chromium.start()]);
  try {
    for (const theme of THEMES) {
      for (const width of WIDTHS) {
        const page = await gallery.open(browser, { theme, width, isBoxes: folder === undefined });
        const at = join(target, `${theme}-${width}`);
        await rm(at, { recursive: true, force: true });
        await mkdir(at, { recursive: true });
        for (const [name, picture] of await pictures(page)) await writeFile(join(at, `${name}.png`), picture);
        if (folder !== undefined) await page.screenshot({ path: join(at, "_all.png"), fullPage: true });
        await browser.leave();
      }
    }
  } finally {
    await Promise.all([browser.end(), gallery.end()]);
  }
});
