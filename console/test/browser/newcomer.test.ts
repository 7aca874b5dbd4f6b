import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Page } from "playwright-core";
import { log, said, Server } from "./harness/api.ts";
import { Chromium } from "./harness/chromium.ts";
import {
  begin,
  button,
  from,
  heading,
  idle,
  letters,
  messages,
  row,
  rowOf,
  rows,
  running,
  send,
  sidebar,
  squeezed,
  threadIn,
  unfold,
} from "./harness/parts.ts";

let server: Server;
let browser: Chromium;
beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), Chromium.start()]);
});
afterEach(() => browser.leave());
afterAll(() => Promise.all([browser?.end(), server?.end()]));

/** Records the last answer as it grows, from within the page; returns every text that it had, without spaces. */
async function growths(page: Page): Promise<() => Promise<string[]>> {
  const seen = await page.evaluateHandle(() => {
    const seen = new Set<string>();
    const look = () => {
      const said = [...document.querySelectorAll("main article .said")].at(-1)?.textContent?.replace(/\s/g, "");
      if (said?.startsWith("Yousaid")) seen.add(said);
    };
    new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
    return seen;
  });
  return () => seen.evaluate((seen) => [...seen]);
}

test("a newcomer finds nothing yet, and has the demo agent think, call a tool and answer", async () => {
  const page = await browser.open(server);
  await heading(page, "No threads yet").waitFor();
  expect(await rows(page).count()).toBe(0);
  await page.getByRole("link", { name: "Try the demo agent" }).click();
  await page.getByRole("list", { name: "Examples for the demo agent" }).getByRole("button").first().waitFor();
  expect(await page.getByRole("combobox", { name: "Agent" }).inputValue()).toBe("demo");
  const grown = await growths(page);
  await send(page, "Count the words of this sentence");

  // None of them lasts: the test looks for all of them at the same time.
  await Promise.all([
    running(page),
    sidebar(page).getByRole("img", { name: "Running" }).waitFor(),
    page.getByText("demo is at work").waitFor(),
    from(page, "You").getByText("Count the words of this sentence").waitFor(),
  ]);
  await page.waitForURL(/#\/threads\//);
  const threadId = threadIn(page);
  const answer = from(page, "demo").last();
  await answer.getByText("You said").waitFor();
  await idle(page);
  await sidebar(page).getByRole("img", { name: "Running" }).waitFor({ state: "hidden" });
  const whole = await letters(answer.locator(".said"));
  // The answer has grown, and every earlier text is a prefix of the final one.
  const seen = await grown();
  expect(seen.length).toBeGreaterThan(3);
  expect(seen.filter((early) => !whole.startsWith(early.slice(0, 20)))).toEqual([]);

  const [call, reply] = await said(server, threadId, "assistant");
  expect(call).toBe("undefined");
  expect(whole).toContain(squeezed("That is **6 words** in 32 characters"));
  expect(reply).toContain("**6 words**");
  const tool = page.getByRole("region", { name: "Tool call count_words" });
  await tool.getByText("Done").waitFor();
  await unfold(tool.getByText("Result"), tool.getByText("longest").last());
  const conversation = messages(page);
  const thought = conversation.getByText("Thought", { exact: true }).first();
  await unfold(thought, conversation.getByText("I am a demo without a model"));
  // The state, not the reasoning that names the same step.
  const state = conversation.getByText('"Count its words"', { exact: true });
  await unfold(conversation.getByText(/^\s*State/), state);
  await page.getByTestId("announcer").getByText("The answer is complete.").waitFor({ state: "attached" });
  expect(await rowOf(page, threadId).getAttribute("aria-current")).toBe("page");
  expect((await log(server, threadId)).at(-1)!.event.type).toBe("RUN_FINISHED");
});

test("an agent that asks receives its answer and continues", async () => {
  const page = await browser.open(server);
  const threadId = await begin(page, "Please approve my travel plans");
  const form = page.getByRole("form", { name: "The agent asks" });
  await form.getByText("Publish the summary?").waitFor();
  await page.getByText("The agent waits for an answer: answer it first.").waitFor();
  await button(form, "Yes").click();
  await messages(page).getByText("The summary is published").waitFor();
  await idle(page);
  expect((await said(server, threadId, "assistant")).at(-1)).toContain("The summary is **published**");
});

test("a run that fails says so, and can be tried again", async () => {
  const page = await browser.open(server);
  const threadId = await begin(page, "Show me an error");
  const failure = page.getByRole("region", { name: "The run failed" });
  await failure.waitFor();
  await from(page, "demo").getByText("I was about to say something important, but").waitFor();
  await button(failure, "Try again").click();
  await expect.poll(() => from(page, "demo").getByText("I was about to say").count(), { timeout: 20_000 }).toBe(2);
  await failure.waitFor();
  const errors = (await log(server, threadId)).filter(({ event }) => event.type === "RUN_ERROR");
  expect(errors.length).toBe(2);
});

test("a search leaves the threads that have the text in their names", async () => {
  const { url } = server;
  for (const name of ["Invoices of spring", "Voyage to Iceland", "Voyage to Oslo"]) {
    await server.request("POST", "/v1/threads", { body: { name } });
  }
  const page = await browser.open({ url });
  await row(page, "Invoices of spring").waitFor();
  const search = page.getByRole("searchbox", { name: "Search threads" });
  await search.fill("VOYAGE");
  await row(page, "Invoices of spring").waitFor({ state: "hidden" });
  await expect.poll(() => rows(page).count()).toBe(2);
  await search.fill("no such thing");
  await heading(page, "Nothing found").waitFor();
  await search.press("Escape");
  await row(page, "Invoices of spring").waitFor();
});
