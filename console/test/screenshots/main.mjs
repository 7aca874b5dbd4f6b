// Takes docs/screenshots again: of a server started for the purpose, with fixed threads.
//
//   THREADLINE=path/to/threadline node test/screenshots/main.mjs [FOLDER]

import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { withHarness } from "../harness.mjs";
import { writeExport } from "./export.mjs";
import { NOW, written } from "./threads.mjs";

const folder = process.argv[2] ?? fileURLToPath(new URL("../../../docs/screenshots", import.meta.url));
const WIDE = { width: 1440, height: 900 };
const NARROW = { width: 390, height: 844 };

await mkdir(folder, { recursive: true });
await withHarness(async (load) => {
  const { Server, BINARY } = await load("../sdk/typescript/test/harness/server.ts");
  const { Program } = await load("../sdk/typescript/test/harness/program.ts");
  const { openRun, thread } = await load("test/browser/harness/api.ts");
  const { Chromium } = await load("test/browser/harness/chromium.ts");
  const parts = await load("test/browser/harness/parts.ts");

  const threads = written();
  const moved = await mkdtemp(join(tmpdir(), "threadline-screenshots-"));
  const data = join(moved, "data");
  await writeExport(join(moved, "export"), threads);
  await promisify(execFile)(BINARY, ["import", "--data", data, join(moved, "export")]);
  const args = ["dev", "--listen", "127.0.0.1:0", "--data", data];
  const [[program, url], guarded, browser] = await Promise.all([
    Program.start("the server", BINARY, args, { PATH: process.env.PATH ?? "" }),
    Server.start({ apiKey: "the-key-of-the-operator" }),
    Chromium.start(),
  ]);
  const server = { url };
  try {
    const { threadId } = threads[0].thread;
    const { seq } = threads[0].events.find(({ event }) => event.type === "TOOL_CALL_RESULT");
    const middle = threads[0].events.find(({ event }) => event.type === "STATE_DELTA").seq + 90;
    const running = await openRun(
      server,
      await thread(server, [], { name: "Minutes of Monday’s meeting", agentId: "writer" }),
      "writer",
    );

    /** @type {[string, object, string, object, (page: import("playwright-core").Page) => Promise<unknown>][]} */
    const screens = [
      ["list", server, "#/", WIDE, (page) => parts.sidebar(page).getByRole("img", { name: "Running" }).waitFor()],
      ["new", server, "#/new", WIDE, (page) => page.getByRole("list", { name: /Examples/ }).waitFor()],
      ["conversation", server, `#/threads/${threadId}`, WIDE, settled],
      ["inspector", server, `#/threads/${threadId}?panel=events&event=${seq}`, WIDE, settled],
      ["scrubber", server, `#/threads/${threadId}?panel=state&at=${middle}`, WIDE, settled],
      ["narrow", server, `#/threads/${threadId}`, NARROW, settled],
      ["sign-in", guarded, "#/", WIDE, (page) => page.getByRole("textbox", { name: /^User/ }).waitFor()],
    ];
    for (const colorScheme of ["light", "dark"]) {
      for (const [name, where, at, viewport, isThere] of screens) {
        const page = await browser.open(where, { viewport, colorScheme, locale: "en-GB", timezoneId: "Europe/Lisbon" });
        await page.clock.setFixedTime(NOW);
        // The server's clock differs: its `Date` would correct the page's fixed clock.
        await page.route("**/v1/**", async (route) => {
          const response = await route.fetch();
          const { date: _, ...headers } = response.headers();
          await route.fulfill({ response, headers });
        });
        await page.goto(`${where.url}/${at}`);
        await page.reload();
        await isThere(page);
        // Moving elements are in another place each time.
        await page.evaluate(() => document.getAnimations().forEach((each) => each.cancel()));
        await page.screenshot({ path: join(folder, `${name}-${colorScheme}.png`), caret: "hide" });
      }
    }
    await running.end();
  } finally {
    await Promise.all([browser.end(), program.end(), guarded.end()]);
    await rm(moved, { recursive: true, force: true });
  }

  /** Waits until the page no longer changes. */
  async function settled(page) {
    await page.getByRole("article").first().waitFor();
    await page.waitForLoadState("networkidle");
    await page.waitForFunction(() => !document.querySelector("main .spinner, aside .spinner, .event-awaited"));
  }
});
