import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
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
} from "./harness/parts.ts";

let server: Server;
let browser: Chromium;
beforeAll(async () => {
  [server, browser] = await Promise.all([Server.start(), Chromium.start()]);
});
afterEach(() => browser.leave());
afterAll(() => Promise.all([browser?.end(), server?.end()]));

test("a newcomer finds nothing yet, and has the demo agent think, call a tool and answer", async () => {
  const page = await browser.open(server);
  await heading(page, "No threads yet").waitFor();
  expect(await rows(page).count()).toBe(0);
  await page.getByRole("link", { name: "Try the demo agent" }).click();
  await page.getByRole("list", { name: "Examples for the demo agent" }).getByRole("button").first().waitFor();
  expect(await page.getByRole("combobox", { name: "Agent" }).inputValue()).toBe("demo");
  await send(page, "Count the words of this sentence");

  await running(page);
  const threadId = threadIn(page);
  await from(page, "You").getByText("Count the words of this sentence").waitFor();
  await sidebar(page).getByRole("img", { name: "Running" }).waitFor();
  await page.getByText("demo is at work").waitFor();
  // The answer grows, and what is there is a part of what will be.
  const answer = from(page, "demo").last();
  await answer.getByText("You said").waitFor();
  const early = await letters(answer.locator(".said"));
  await idle(page);
  await sidebar(page).getByRole("img", { name: "Running" }).waitFor({ state: "hidden" });
  const whole = await letters(answer.locator(".said"));
  expect(whole.startsWith(early.slice(0, 20))).toBe(true);
  expect(whole.length).toBeGreaterThan(early.length);

  const [call, spoken] = await said(server, threadId, "assistant");
  expect(call).toBe("undefined");
  expect(whole).toContain(squeezed("That is **6 words** in 32 characters"));
  expect(spoken).toContain("**6 words**");
  const tool = page.getByRole("region", { name: "Tool call count_words" });
  await tool.getByText("Done").waitFor();
  await tool.getByText("Result").click();
  await tool.getByText("longest").last().waitFor();
  await messages(page).getByText("Thought").first().click();
  await messages(page).getByText("I am a demo without a model").waitFor();
  await messages(page)
    .getByText(/^\s*State/)
    .click();
  await messages(page).getByText("Count its words").waitFor();
  await page.getByTestId("announcer").getByText("The answer is complete.").waitFor({ state: "attached" });
  expect(await rowOf(page, threadId).getAttribute("aria-current")).toBe("page");
  expect((await log(server, threadId)).at(-1)!.event.type).toBe("RUN_FINISHED");
});

test("an agent that asks gets its answer, and goes on", async () => {
  const page = await browser.open(server);
  const threadId = await begin(page, "Please approve my travel plans");
  const form = page.getByRole("form", { name: "The agent asks" });
  await form.getByText("Publish the summary?").waitFor();
  await page.getByText("The agent waits for an answer; give it first.").waitFor();
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
  for (const name of ["Invoices of spring", "Travel to Iceland", "Travel to Oslo"]) {
    await server.request("POST", "/v1/threads", { body: { name } });
  }
  const page = await browser.open({ url });
  await row(page, "Invoices of spring").waitFor();
  const search = page.getByRole("searchbox", { name: "Search threads" });
  await search.fill("TRAVEL");
  await row(page, "Invoices of spring").waitFor({ state: "hidden" });
  await expect.poll(() => rows(page).count()).toBe(2);
  await search.fill("no such thing");
  await heading(page, "Nothing found").waitFor();
  await search.press("Escape");
  await row(page, "Invoices of spring").waitFor();
});
