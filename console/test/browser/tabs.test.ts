import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Page } from "playwright-core";
import { client, log, said, Server, text, thread, write } from "./harness/api.ts";
import { Chromium } from "./harness/chromium.ts";
import {
  begin,
  button,
  choose,
  dialog,
  from,
  gone,
  heading,
  idle,
  letters,
  messages,
  notice,
  numbers,
  row,
  rowOf,
  rows,
  running,
  send,
  sidebar,
  squeezed,
  toTop,
  upTo,
} from "./harness/parts.ts";

let server: Server;
let browser: Chromium;
beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), Chromium.start()]);
});
afterEach(() => browser.leave());
afterAll(() => Promise.all([browser?.end(), server?.end()]));

/** Two devices of one user, with a thread open on both. */
async function both(threadId: string): Promise<[Page, Page]> {
  const at = `#/threads/${threadId}`;
  return Promise.all([browser.open(server, { at }), browser.open(server, { at })]);
}

test("a change of a thread in one tab is shown in the other", async () => {
  const threadId = await thread(server, text("m", "assistant", "Here I am"), { name: "Before" });
  const [one, other] = await both(threadId);
  for (const page of [one, other]) await row(page, "Before").waitFor();

  await choose(one, "Rename");
  const name = dialog(one, "Rename the thread").getByRole("textbox", { name: "Name" });
  expect(await name.inputValue()).toBe("Before");
  await name.fill("Renamed ✓ <b>名前</b>");
  await button(dialog(one, "Rename the thread"), "Rename").click();
  for (const page of [one, other]) {
    await row(page, "Renamed ✓ <b>名前</b>").waitFor();
    await heading(page, "Renamed ✓ <b>名前</b>").waitFor();
  }
  expect((await client(server).thread(threadId).get()).nameSource).toBe("person");

  await choose(other, "Archive");
  await gone(rowOf(one, threadId));
  await gone(rowOf(other, threadId));
  await button(one, "Archived").click();
  await rowOf(one, threadId).getByRole("img", { name: "Archived" }).waitFor();
  expect(await button(one, "Archived").getAttribute("aria-pressed")).toBe("true");
  await choose(one, "Unarchive");
  await rowOf(other, threadId).waitFor();
  await gone(rowOf(one, threadId).getByRole("img", { name: "Archived" }));
});

test("a name that changed while another was being typed is not replaced without a question", async () => {
  const threadId = await thread(server, text("m", "assistant", "Here I am"), { name: "At first" });
  const ref = client(server).thread(threadId);
  const page = await browser.open(server, { at: `#/threads/${threadId}` });
  const asked = dialog(page, "Rename the thread");
  const name = asked.getByRole("textbox", { name: "Name" });
  const rename = async (to: string) => {
    await name.fill(to);
    await button(asked, "Rename").click();
  };
  await row(page, "At first").waitFor();
  await choose(page, "Rename");
  await ref.rename("Another user's");
  await rename("Mine");
  await asked.getByRole("alert").getByText("“Another user's”").waitFor();
  expect((await ref.get()).name).toBe("Another user's");
  // The user sees the other name and decides: to cancel,
  await button(asked, "Cancel").click();
  await heading(page, "Another user's").waitFor();
  // or to replace it, unless it was changed again.
  await choose(page, "Rename");
  await ref.rename("A second one");
  await rename("Mine");
  await asked.getByRole("alert").getByText("“A second one”").waitFor();
  await ref.rename(null);
  await rename("Mine after all");
  await asked.getByRole("alert").getByText("has lost its name").waitFor();
  await button(asked, "Rename").click();
  await gone(asked);
  await heading(page, "Mine after all").waitFor();
  expect((await ref.get()).name).toBe("Mine after all");
  // The same name on both sides needs no question.
  await choose(page, "Rename");
  await ref.rename("Of one mind");
  await rename("Of one mind");
  await gone(asked);
});

test("a thread is deleted only when that is confirmed, and then everywhere", async () => {
  const threadId = await thread(server, text("m", "assistant", "Soon gone"), { name: "To be deleted" });
  const [one, other] = await both(threadId);
  await messages(one).getByText("Soon gone").waitFor();
  const asked = dialog(one, "Delete the thread?");
  await choose(one, "Delete");
  await asked.getByText("To be deleted").waitFor();
  await button(asked, "Cancel").click();
  await gone(asked);
  expect((await client(server).thread(threadId).get()).threadId).toBe(threadId);
  expect(await rowOf(one, threadId).count()).toBe(1);

  await choose(one, "Delete");
  await button(asked, "Delete").click();
  await notice(one, "is deleted").waitFor();
  await heading(one, "Choose a thread").waitFor();
  await heading(other, "This thread was deleted").waitFor();
  for (const page of [one, other]) await gone(rowOf(page, threadId));
  await expect(server.request("GET", `/v1/threads/${threadId}`)).rejects.toThrow("404");
  await other.getByRole("link", { name: "To the threads" }).click();
  await heading(other, "Choose a thread").waitFor();
});

test("a run that is started in one tab is shown in the other, word by word, and can be stopped there", async () => {
  const one = await browser.open(server);
  const threadId = await begin(one, "Write me a long answer");
  const other = await browser.open(server);
  await rowOf(other, threadId).getByRole("img", { name: "Running" }).waitFor();
  await rowOf(other, threadId).click();
  await running(other);
  await from(other, "You").getByText("Write me a long answer").waitFor();
  for (const page of [one, other]) await from(page, "demo").getByText("(3) You may").waitFor();
  const early = (await numbers(from(other, "demo"))).length;
  await expect.poll(async () => (await numbers(from(other, "demo"))).length).toBeGreaterThan(early);

  await button(other, "Stop").click();
  for (const page of [one, other]) await idle(page);
  for (const page of [one, other]) await messages(page).getByText("stopped").waitFor();
  const stored = (await said(server, threadId, "assistant")).join("");
  expect(stored).toContain("(3) You may");
  for (const page of [one, other]) {
    await expect.poll(() => letters(from(page, "demo").locator(".said"))).toBe(squeezed(stored));
    const seen = await numbers(from(page, "demo").locator(".said"));
    expect(seen).toEqual(upTo(seen.length));
  }
});

test("a conversation continues from either tab", async () => {
  const one = await browser.open(server);
  const threadId = await begin(one, "First things first");
  const finished = async () =>
    (await log(server, threadId)).filter(({ event }) => event.type === "RUN_FINISHED").length;
  // A page that does not know of the run yet looks like one after its end, and its message is refused.
  await expect.poll(finished).toBe(1);
  await idle(one);
  const other = await browser.open(server, { at: `#/threads/${threadId}` });
  await messages(other).getByText("finished").waitFor();
  await idle(other);
  await send(other, "And from the other tab");
  await expect.poll(finished).toBe(2);
  await idle(one);
  await idle(other);
  const asked = await said(server, threadId, "user");
  expect(asked).toEqual(["First things first", "And from the other tab"]);
  const whole = (await said(server, threadId, "assistant")).at(-1) ?? "";
  for (const page of [one, other]) {
    await expect.poll(() => letters(from(page, "demo").last().locator(".said"))).toBe(squeezed(whole));
    // Only messages in sight are rendered.
    await toTop(page);
    await from(page, "You").getByText("First things first").waitFor();
  }
});

test("a thread that another program writes moves to the top of the list, live", async () => {
  const page = await browser.open(server);
  const quiet = await thread(server, text("m", "assistant", "Quiet"), { name: "A quiet thread" });
  await rowOf(page, quiet).waitFor();
  const loud = await thread(server, text("m", "assistant", "Loud"), { name: "A loud thread" });
  await rowOf(page, loud).waitFor();
  await expect.poll(() => rows(page).first().getAttribute("data-thread-id")).toBe(loud);
  await write(server, quiet, text("m2", "assistant", "Again"));
  await expect.poll(() => rows(page).first().getAttribute("data-thread-id")).toBe(quiet);
  // The thread came to the top as its run began.
  await expect.poll(() => sidebar(page).getByRole("img", { name: "Running" }).count()).toBe(0);
});

test("messages written while another thread is open stay unread until they are shown, in every tab", async () => {
  const quiet = await thread(server, text("m", "assistant", "Nothing new"), { name: "Looked at" });
  const busy = await thread(server, text("m", "assistant", "Old news"), { name: "Looked away from" });
  const [page, other] = await Promise.all([
    browser.open(server, { at: `#/threads/${busy}` }),
    browser.open(server, { at: "#/" }),
  ]);
  const dot = (on: Page) => rowOf(on, busy).getByRole("img", { name: "Unread" });
  await messages(page).getByText("Old news").waitFor();
  await expect.poll(async () => (await client(server).thread(busy).get()).readSeq).toBe(5);
  await gone(dot(other));
  await rowOf(page, quiet).click();
  await messages(page).getByText("Nothing new").waitFor();
  await gone(dot(page));

  await write(server, busy, text("n", "assistant", "Fresh news"));
  for (const each of [page, other]) await dot(each).waitFor();
  await rowOf(page, busy).click();
  await messages(page).getByText("Fresh news").waitFor();
  for (const each of [page, other]) await gone(dot(each));
  await page.reload();
  await messages(page).getByText("Fresh news").waitFor();
  expect((await client(server).thread(busy).get()).readSeq).toBe(10);
});
