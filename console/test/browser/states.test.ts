// Places that are not there, and addresses that lead into the middle of something.

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { client, Server, text, thread, write } from "./harness/api.ts";
import { Chromium, refused } from "./harness/chromium.ts";
import { button, from, gone, heading, inspector, messages, options, row, rows, scale } from "./harness/parts.ts";

let server: Server;
let browser: Chromium;
beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), Chromium.start()]);
});
afterEach(() => browser.leave());
afterAll(() => Promise.all([browser?.end(), server?.end()]));

test("a thread that never was", async () => {
  const page = await browser.open(server, { at: "#/threads/never%20was%2Fthere", expects: [refused(404)] });
  await heading(page, "Thread not found").waitFor();
  await page.getByText("never was/there").waitFor();
  await page.getByRole("link", { name: "To the threads" }).click();
  await heading(page, "Choose a thread").waitFor();
});

test("a thread that was deleted, and its inspector", async () => {
  const threadId = await thread(server, text("m", "assistant", "Soon gone"), { name: "Soon gone" });
  const page = await browser.open(server, { at: `#/threads/${threadId}?panel=events`, expects: [refused(404, 410)] });
  await messages(page).getByText("Soon gone").waitFor();
  await options(page).filter({ hasText: "RUN_FINISHED" }).waitFor();
  await client(server).thread(threadId).delete();
  await heading(page, "This thread was deleted").waitFor();
  await inspector(page).getByRole("heading", { name: "Deleted" }).waitFor();
  await gone(row(page, "Soon gone"));
  await page.reload();
  await heading(page, "Thread not found").waitFor();
});

test("the past of a thread that was deleted is not shown when there is another under its name", async () => {
  const threadId = await thread(server, text("m", "assistant", "What was deleted"), { name: "First" });
  const at = `#/threads/${threadId}?panel=events&at=3`;
  const page = await browser.open(server, { at, expects: [refused(404, 410, 416)] });
  await messages(page).getByText("What was deleted").waitFor();
  await client(server).thread(threadId).delete();
  await client(server).threads.create({ threadId, name: "Second" });
  await row(page, "Second").waitFor();
  await gone(page.getByText("What was deleted"));
  await page.getByRole("link", { name: "Back to now" }).click();
  await write(server, threadId, text("n", "assistant", "What is there now"));
  await messages(page).getByText("What is there now").waitFor();
});

test("a thread without any event", async () => {
  const threadId = await thread(server, [], { name: "Empty" });
  const page = await browser.open(server, { at: `#/threads/${threadId}?panel=events` });
  await page.getByText("There are no messages yet.").waitFor();
  await inspector(page)
    .getByRole("heading", { name: "No events yet" })
    .or(heading(page, "Nothing to inspect yet"))
    .waitFor();
  await write(server, threadId, text("m", "assistant", "The first words"));
  await messages(page).getByText("The first words").waitFor();
  await options(page).filter({ hasText: "RUN_FINISHED" }).waitFor();
});

test("addresses that mean nothing lead to the list", async () => {
  await thread(server, [], { name: "Found" });
  for (const at of ["#/nowhere", "#/threads/", "#/threads/%E0%A4%A", "#//////", "#?panel=events"]) {
    const page = await browser.open(server, { at });
    await row(page, "Found").waitFor();
    await heading(page, "Choose a thread").waitFor();
  }
});

test("a link to a moment of a thread shows that moment", async () => {
  const threadId = await thread(
    server,
    [
      ...text("a", "assistant", "one ", "two ", "three "),
      { type: "STATE_SNAPSHOT", snapshot: { step: "first" } },
      { type: "STATE_DELTA", delta: [{ op: "replace", path: "/step", value: "second" }] },
      ...text("b", "assistant", "four"),
    ],
    { name: "A moment" },
  );
  const tree = { name: "State" };
  const page = await browser.open(server, { at: `#/threads/${threadId}?panel=state&at=4` });
  await page.getByText("As it was after event 4 of 12").waitFor();
  await from(page, "Assistant").getByText("one two").waitFor();
  expect(await messages(page).textContent()).not.toContain("three");
  await heading(page, "The state is empty").waitFor();
  expect(await scale(page).inputValue()).toBe("4");

  const later = await browser.open(server, { at: `#/threads/${threadId}?panel=state&at=7` });
  await later.getByRole("tree", tree).getByText("first").waitFor();
  await later.goto(`${server.url}/#/threads/${threadId}?panel=state&at=8`);
  await later.getByRole("tree", tree).getByText("second").waitFor();
  await later.getByRole("link", { name: "Back to now" }).click();
  await messages(later).getByText("four").waitFor();
  expect(await later.getByRole("textbox", { name: "Message", exact: true }).isEnabled()).toBe(true);
  await later.goBack();
  await later.getByText("As it was after event 8 of 12").waitFor();
});

test("a link to a moment that has not come", async () => {
  const threadId = await thread(server, text("a", "assistant", "Hello"), { name: "The future" });
  const at = `#/threads/${threadId}?panel=state&at=4000`;
  const page = await browser.open(server, { at, expects: [refused(416)] });
  await row(page, "The future").waitFor();
  await inspector(page)
    .getByRole("alert")
    .or(page.getByRole("link", { name: "Back to now" }))
    .first()
    .waitFor();
  await page.getByRole("link", { name: "Back to now" }).click();
  await messages(page).getByText("Hello").waitFor();
});

const MANY = 250;
test("hundreds of threads: all of them can be reached, and only some are there", async () => {
  const ids = Array.from({ length: MANY }, (_, index) => `many-${index}`);
  for (let at = 0; at < MANY; at += 50) {
    const made = ids.slice(at, at + 50).map((threadId) => {
      const body = { threadId, name: threadId.replace("many-", "Many ") };
      return server.request("POST", "/v1/threads", { body });
    });
    await Promise.all(made);
  }
  const page = await browser.open(server);
  await rows(page).first().waitFor();
  const seen = new Set<string>();
  const scroller = page.locator(".thread-scroller");
  await expect
    .poll(
      async () => {
        // Twenty steps down, and from the end to the beginning: rows may come later than the place they are in.
        const { found, most } = await scroller.evaluate(async (element) => {
          const found: string[] = [];
          let most = 0;
          for (let step = 0; step < 20; step += 1) {
            const rows = [...element.querySelectorAll<HTMLElement>("[data-thread-id]")];
            most = Math.max(most, rows.length);
            found.push(...rows.map(({ dataset }) => dataset.threadId!));
            const isAtEnd = element.scrollTop + element.clientHeight >= element.scrollHeight - 1;
            if (isAtEnd && step === 0) element.scrollTo(0, 0);
            else element.scrollBy(0, element.clientHeight * 0.7);
            await new Promise((resolve) => requestAnimationFrame(resolve));
          }
          return { found, most };
        });
        for (const id of found) if (id.startsWith("many-")) seen.add(id);
        expect(most).toBeLessThan(80);
        return seen.size;
      },
      { timeout: 80_000, interval: 20 },
    )
    .toBe(MANY);
  await page.getByRole("searchbox", { name: "Search threads" }).fill("many 249");
  await row(page, "Many 249").waitFor();
  // It may be among those of before the search.
  await expect.poll(() => rows(page).count()).toBe(1);
  await button(page, "Archived").click();
  await row(page, "Many 249").waitFor();
});
