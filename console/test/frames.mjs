// How smooth the console is on this machine, as a table for the docs.
//
//   THREADLINE=path/to/threadline node test/frames.mjs

import { withHarness } from "./harness.mjs";

await withHarness(async (load) => {
  const { openRun, Server, thread } = await load("test/browser/harness/api.ts");
  const { Chromium } = await load("test/browser/harness/chromium.ts");
  const { framesOf, large, stream } = await load("test/browser/harness/frames.ts");
  const { from, inspector, messages, running } = await load("test/browser/harness/parts.ts");
  const [server, browser] = await Promise.all([Server.start(), Chromium.start()]);
  try {
    const threadId = await large(server);
    const rows = [];
    const page = await browser.open(server, { at: `#/threads/${threadId}` });
    await from(page, "writer").getByText("Answer 399").waitFor();
    rows.push(["idle, beside 10,000 events", await framesOf(page, messages(page), 0)]);
    rows.push(["conversation of 10,000 events, scrolled", await framesOf(page, messages(page), -1)]);
    const events = await browser.open(server, { at: `#/threads/${threadId}?panel=events` });
    const list = inspector(events).getByRole("listbox", { name: "Events" });
    await list.getByText("RUN_FINISHED").waitFor();
    rows.push(["its events in the inspector, scrolled", await framesOf(events, list, -1)]);
    for (const panel of ["", "?panel=events"]) {
      const live = await thread(server, []);
      const page = await browser.open(server, { at: `#/threads/${live}${panel}` });
      await page.getByText("There are no messages yet.").waitFor();
      const { run, end } = await openRun(server, live);
      await run.append({ type: "TEXT_MESSAGE_START", messageId: "fast", role: "assistant" });
      await running(page);
      const writing = stream(run, "fast", { perSecond: 200, seconds: 6 });
      rows.push([
        `a run of 200 events/s${panel && ", with the inspector"}`,
        await framesOf(page, messages(page), 0, 5_000),
      ]);
      await writing;
      await run.append({ type: "TEXT_MESSAGE_END", messageId: "fast" });
      await end();
    }
    console.log("| what | frames | median ms | p95 ms | longest ms | longest task ms |\n|---|---|---|---|---|---|");
    for (const [what, { count, medianMs, p95Ms, longestMs, longestTaskMs }] of rows) {
      console.log(`| ${[what, count, medianMs, p95Ms, longestMs, longestTaskMs].join(" | ")} |`);
    }
  } finally {
    await Promise.all([browser.end(), server.end()]);
  }
});
