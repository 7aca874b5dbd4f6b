import "./dom.js";
import { cleanup } from "@testing-library/react";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { isProblem, ProblemError, type Threadline } from "../../src/index.js";
import type { UseInbox } from "../../src/react/index.js";
import { Proxy } from "../harness/proxy.js";
import { Server } from "../harness/server.js";
import { until } from "../harness/until.js";
import { write } from "../harness/writer.js";
import { connect, inboxPage } from "./page.js";

const API_KEY = "the-operator-of-the-tests";

let server: Server;
let proxy: Proxy;
beforeAll(async () => {
  server = await Server.start({ apiKey: API_KEY });
  proxy = await Proxy.start(server);
});
afterAll(async () => {
  proxy?.end();
  await server?.end();
});

let user: string;
let number = 0;
const clients: Threadline[] = [];
beforeEach(() => {
  user = `user-${(number += 1)}`;
});
afterEach(() => {
  cleanup();
  for (const client of clients.splice(0)) client.close();
});

function client(url = server.url): Threadline {
  const made = connect({ url, apiKey: API_KEY, user, retries: { reads: 60_000 } });
  clients.push(made);
  return made;
}

/** Asks the demo agent for something that it does only if a person approves. Resolves when it waits. */
async function ask(threads: Threadline, name: string): Promise<string> {
  const { threadId } = await threads.threads.create({ name, agentId: "demo" });
  const thread = threads.thread(threadId);
  await thread.start({ agentId: "demo", input: { messages: [{ id: "q", role: "user", content: "approve" }] } });
  await until(`${name} to wait`, async () => (await thread.get()).openInterrupts === 1);
  return threadId;
}

const waiting = ({ interrupts }: UseInbox) => interrupts.map(({ threadName }) => threadName).join();
const yes = ({ interrupts }: UseInbox, threadId: string) =>
  interrupts
    .filter((open) => open.threadId === threadId)
    .map(({ interrupt }) => ({ interruptId: interrupt.id!, status: "resolved" as const, payload: { approved: true } }));

test("two threads wait, and an answer removes one of them from the inboxes of all pages", async () => {
  const [one, other] = [client(), client()];
  const first = await ask(one, "first");
  const here = inboxPage(one);
  expect(here.now).toMatchObject({ interrupts: [], answering: [], isLoading: true });
  await here.until("the first", (now) => waiting(now) === "first");
  const there = inboxPage(other);
  await there.until("loaded", ({ isLoading }) => !isLoading);
  const second = await ask(one, "second");
  for (const page of [here, there]) await page.until("both", (now) => waiting(now) === "second,first");
  expect(here.now).toMatchObject({ isLoading: false, error: null, hasMoreInterrupts: false });
  expect(here.now.interrupts[1]).toMatchObject({ threadId: first, agentId: "demo", author: "agent:demo" });

  const { run } = await here.do((now) => now.answer(first, yes(now, first)));
  expect(run).toMatchObject({ agentId: "demo" });
  expect(here.seen.some(({ answering }) => answering.join() === first)).toBe(true);
  for (const page of [here, there]) await page.until("the first to leave", (now) => waiting(now) === "second");
  await here.until("the answer to be taken", ({ answering }) => answering.length === 0);
  // The agent has received the answer.
  await until("the last message", async () =>
    JSON.stringify((await one.thread(first).messages()).messages.at(-1)).includes("**published**"),
  );
  expect(waiting(here.now)).toBe("second");

  await there.do((now) => now.answer(second, yes(now, second)));
  for (const page of [here, there]) await page.until("nothing left", (now) => now.interrupts.length === 0);
});

test("of two answers the first one wins, and the other one rejects", async () => {
  const [one, other] = [client(), client()];
  const threadId = await ask(one, "asked");
  const [here, there] = [inboxPage(one), inboxPage(other)];
  for (const page of [here, there]) await page.until("the interrupt", (now) => waiting(now) === "asked");
  const answers = yes(here.now, threadId);
  const outcomes = await Promise.allSettled(
    [here, there].map((page) => page.do((now) => now.answer(threadId, answers))),
  );
  expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  const { reason } = outcomes.find((outcome) => outcome.status === "rejected")!;
  expect(isProblem(reason, "run-active") || isProblem(reason, "interrupt-settled")).toBe(true);
  for (const page of [here, there]) {
    await page.until("it to leave", (now) => now.interrupts.length === 0 && now.answering.length === 0);
  }
  // An answer to what is no longer shown is the server's to judge.
  await until("the end", async () => (await one.thread(threadId).get()).openInterrupts === 0);
  const late = await here.do((now) => now.answer(threadId, answers).catch((error: unknown) => error));
  expect(isProblem(late, "interrupt-settled")).toBe(true);
  expect(here.now).toMatchObject({ error: late, answering: [] });
});

test("a refused answer leaves the thread in the inbox, and shows the error until the next success", async () => {
  const one = client();
  const threadId = await ask(one, "asked");
  const page = inboxPage(one);
  await page.until("the interrupt", (now) => waiting(now) === "asked");
  const refused = await page.do((now) => now.answer(threadId, []).catch((error: unknown) => error));
  expect(isProblem(refused, "interrupts-open")).toBe(true);
  expect(page.now).toMatchObject({ error: refused, answering: [] });
  expect(waiting(page.now)).toBe("asked");
  await page.do((now) => now.answer(threadId, yes(now, threadId)));
  await page.until("it to leave", (now) => now.interrupts.length === 0);
  expect(page.now.error).toBeNull();
});

test("threads that are archived, deleted or busy leave the inbox, and those that wait again come back", async () => {
  const one = client();
  const ids = [await ask(one, "a"), await ask(one, "b"), await ask(one, "c")];
  const page = inboxPage(one);
  await page.until("all", (now) => waiting(now) === "c,b,a");
  await one.thread(ids[0]!).archive();
  await one.thread(ids[1]!).delete();
  await page.until("the last", (now) => waiting(now) === "c");
  await one.thread(ids[0]!).unarchive();
  await one.thread(ids[2]!).rename("d");
  await page.until("the new name", (now) => waiting(now) === "d,a");
  // A pushed run that answers nothing.
  const runId = await write(server, ids[2]!, { user, stop: () => true });
  await page.until("the busy one to leave", (now) => waiting(now) === "a");
  await write(server, ids[2]!, { user, runId });
  await page.until("it to come back", (now) => waiting(now) === "d,a");
});

test("pages are loaded on request, and filled when threads leave them", async () => {
  const one = client();
  for (const name of ["a", "b", "c", "d", "e"]) await ask(one, name);
  const page = inboxPage(one, { limit: 2 });
  await page.until("a page", (now) => waiting(now) === "e,d");
  expect(page.now.hasMoreInterrupts).toBe(true);
  await page.do(({ fetchMoreInterrupts }) => Promise.all([fetchMoreInterrupts(), fetchMoreInterrupts()]));
  expect(waiting(page.now)).toBe("e,d,c,b");
  const { threadId } = page.now.interrupts[1]!;
  await page.do((now) => now.answer(threadId, yes(now, threadId)));
  await page.until("the next one", (now) => waiting(now) === "e,c,b,a");
  expect(page.now).toMatchObject({ hasMoreInterrupts: false, isFetchingMoreInterrupts: false });
  await page.do(({ fetchMoreInterrupts }) => fetchMoreInterrupts());
  const others = inboxPage(one, { agentId: "nobody" });
  await others.until("loaded", ({ isLoading }) => !isLoading);
  expect(others.now.interrupts).toEqual([]);
});

test("two components, mounted twice by StrictMode, are one request and one subscription", async () => {
  const through = client(proxy.url);
  await ask(through, "asked");
  proxy.requests.length = 0;
  const pages = [inboxPage(through), inboxPage(through)];
  for (const page of pages) await page.until("the interrupt", (now) => waiting(now) === "asked");
  expect(pages[0]!.now.interrupts).toBe(pages[1]!.now.interrupts);
  const asked = (path: string) => proxy.requests.filter((request) => request.startsWith(`GET ${path}`));
  expect(asked("/v1/interrupts")).toHaveLength(1);
  await until("the socket", () => asked("/v1/socket").length > 0);
  // Runs of threads that do not wait cause no request.
  const { threadId } = await through.threads.create();
  await write(server, threadId, { user });
  await ask(through, "also asked");
  await pages[0]!.until("both", (now) => waiting(now) === "also asked,asked");
  expect(asked("/v1/interrupts").length).toBeLessThanOrEqual(3);
  expect(asked("/v1/socket")).toHaveLength(1);
  for (const page of pages) page.leave();
  await until("the socket to be closed", () => proxy.open("/v1/socket") === 0);
});

test("an inbox continues after the server was unreachable", async () => {
  const one = client();
  const first = await ask(one, "first");
  const page = inboxPage(one);
  await page.until("the interrupt", (now) => waiting(now) === "first");
  await server.kill();
  await server.restart();
  const other = client();
  await other.thread(first).rename("renamed");
  await ask(other, "second");
  await page.until("both", (now) => waiting(now) === "second,renamed");
});

test("a key without a user has no inbox: the refusal is shown", async () => {
  const made = connect({ url: server.url, apiKey: API_KEY });
  clients.push(made);
  const page = inboxPage(made);
  await page.until("the refusal", ({ error }) => error instanceof ProblemError);
  expect(page.now.isLoading).toBe(false);
});
