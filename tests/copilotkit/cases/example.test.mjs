// The example as its README starts it.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Site } from "../harness/browser.mjs";
import "../harness/leave.mjs";
import { direct } from "../harness/packages.mjs";
import { Program } from "../harness/process.mjs";
import { until } from "../harness/until.mjs";
import { freePort } from "../harness/world.mjs";

test("one command starts a chat that survives a reload", { timeout: 120_000 }, async () => {
  const start = fileURLToPath(new URL("../../../examples/copilotkit/start.mjs", import.meta.url));
  const parameters = direct ? [start] : [start, "--runtime"];
  const data = mkdtempSync(join(tmpdir(), "threadline-example-"));
  const settings = { PORT: String(await freePort()), THREADLINE_DATA: data };
  const example = await Program.start("the example", process.execPath, parameters, settings);
  const site = await Site.at(example.url);
  const tab = await site.open("dev");
  await tab.say("count to 5");
  const threadId = tab.threadId;
  await tab.item(threadId).waitFor();
  if (direct) {
    // The last words of the demo appear a moment after the chat knows that the run is over.
    await tab.hears("Say help to see what else I can do.");
    await tab.idle();
  } else {
    await tab.shows("count to 5", "1 2 3 4 5");
    await tab.item(threadId).getByText("Counting to 5").waitFor();
  }
  const said = await tab.said();
  await tab.reload();
  await tab.shows(...said);
  assert.equal(said[0], "count to 5");
  await tab.press(threadId, "Delete");
  await until("an empty list", async () => (await tab.item(threadId).count()) === 0);
  await tab.close();
  await site.end();
  await example.end("SIGTERM");
  rmSync(data, { recursive: true, force: true });
});
