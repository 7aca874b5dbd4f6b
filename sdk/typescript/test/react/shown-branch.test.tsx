// The branch that hooks show in place of their thread: after an edit, a regeneration or a choice, in all components of the page.

import "./dom.js";
import { cleanup } from "@testing-library/react";
import { Suspense, useEffect } from "react";
import { expect, test } from "vitest";
import { ConnectionError, isProblem, type Threadline } from "../../src/index.js";
import {
  type UseThread,
  useSuspenseThread,
  useThread,
  useThreadEvents,
  useThreadValue,
  type UseThreadOptions,
} from "../../src/react/index.js";
import { closedAfterEach, server, useServer } from "../harness/served.js";
import { log, makeThread } from "../harness/writer.js";
import { connect, Page, said, type ThreadPage, threadPage } from "./page.js";

useServer();

const clients = closedAfterEach(cleanup);

function client(): Threadline {
  const made = connect({ url: server.url });
  clients.push(made);
  return made;
}

/** A thread with two finished runs, each with a question and an answer. */
async function answered(): Promise<string> {
  const threadId = await makeThread(server);
  for (const content of ["one", "two"]) {
    const input = { threadId, runId: content, messages: [{ id: `u-${content}`, role: "user" as const, content }] };
    await client()
      .thread(threadId)
      .putRun(content, [
        { type: "RUN_STARTED", threadId, runId: content, input },
        { type: "TEXT_MESSAGE_START", messageId: `a-${content}`, role: "assistant" },
        { type: "TEXT_MESSAGE_CONTENT", messageId: `a-${content}`, delta: `${content}?` },
        { type: "TEXT_MESSAGE_END", messageId: `a-${content}` },
        { type: "RUN_FINISHED", threadId, runId: content },
      ]);
  }
  return threadId;
}

async function open(threadId: string, through = client(), options: UseThreadOptions = { agentId: "demo" }) {
  const page = threadPage(through, threadId, options);
  await page.until("the thread", ({ isLoading, status }) => !isLoading && status.state === "live");
  return page;
}

const ended = (page: ThreadPage, count: number) =>
  page.until("the answer", ({ isRunning, isSending, messages, thread, shownThreadId }) => {
    return !isRunning && !isSending && messages.length >= count && thread?.threadId === shownThreadId;
  });

/** Asserts that every render from a place on had these messages first, and was not loading. */
function expectKept(page: ThreadPage, from: number, ...texts: string[]): void {
  expect(page.seen.length).toBeGreaterThan(from);
  for (const now of page.seen.slice(from)) {
    expect([said(now).slice(0, texts.length), now.isLoading, now.error]).toEqual([texts, false, null]);
    expect(new Set(now.messages.map(({ id }) => id)).size).toBe(now.messages.length);
  }
}

test("an edit moves every component of the page to the fork in the next render, without losing what was before", async () => {
  const threadId = await answered();
  const through = client();
  const page = await open(threadId, through);
  const other = threadPage(through, threadId);
  const count = new Page(through, (id: string) => useThreadValue(id, ({ messages }) => messages.length), threadId);
  expect(page.now.shownThreadId).toBe(threadId);
  const from = page.seen.length;
  const editing = page.now.edit("u-two", "2");
  // A message in the tick of the edit is one of the fork.
  const next = page.now.send("three", { busy: "enqueue" });
  await page.do(async () => {});
  expect(said(page.seen[from]!)).toEqual(["one", "one?", "2", "three"]);
  expect(page.seen[from]!.messages[2]).toMatchObject({ role: "user", delivery: "sending" });
  const fork = page.now.shownThreadId!;
  expect(fork).not.toBe(threadId);
  expect(new Set(page.seen.slice(from).map((now) => now.shownThreadId))).toEqual(new Set([fork]));
  expect([other.now.shownThreadId, count.now]).toEqual([fork, 4]);
  expect((await editing).threadId).toBe(fork);
  await next;
  const { messages } = await ended(page, 6);
  expectKept(page, from, "one", "one?", "2");
  expect(said(other.now)).toEqual(messages.map(({ content }) => content));
  expect(count.now).toBe(messages.length);
  expect((await log(server, threadId)).length).toBe(10);
});

test("what is done is done in the branch that is shown", async () => {
  const threadId = await answered();
  const page = await open(threadId);
  const { threadId: fork } = await page.do((now) => now.regenerate("a-two"));
  expect(page.now.shownThreadId).toBe(fork);
  await ended(page, 4);
  await page.do((now) => now.holdQueue());
  expect((await client().thread(fork).queue.get()).held).not.toBeNull();
  expect((await client().thread(threadId).queue.get()).held).toBeNull();
  await page.do((now) => now.releaseQueue());
  await server.request("POST", `/v1/threads/${fork}/runs`, { body: { runId: "own", leaseSeconds: 60 } });
  await page.until("the run", ({ run }) => run?.runId === "own");
  expect(await page.do((now) => now.stop())).toMatchObject({ runId: "own", stopRequested: true });
  await server.request("POST", `/v1/threads/${fork}/runs/own/finish`);
  await page.until("the end", ({ isRunning }) => !isRunning);
  await page.do((now) => now.markRead());
  const { readSeq, tail } = await client().thread(fork).get();
  expect(readSeq).toBe(tail);
  // An edit in the fork is a fork of it.
  const { threadId: second } = await page.do((now) => now.edit("u-one", "1"));
  await ended(page, 2);
  expect((await client().thread(second).get()).forkedFrom).toMatchObject({ seq: 0 });
  expect(page.now.shownThreadId).toBe(second);
});

test("a chosen branch keeps what it has in common, and another id shows the thread itself again", async () => {
  const threadId = await answered();
  const page = await open(threadId);
  const { threadId: fork } = await page.do((now) => now.edit("u-two", "2"));
  await ended(page, 4);
  await page.until("the parting", ({ partings }) => partings[0]?.messageId);
  let from = page.seen.length;
  await page.do(async (now) => now.showBranch(threadId));
  expect(page.now.shownThreadId).toBe(threadId);
  await page.until("the branch", (now) => said(now).at(-1) === "two?");
  expectKept(page, from, "one", "one?");
  expect(said(page.seen[from]!)).toEqual(["one", "one?"]);
  await page.until("the parting", ({ partings }) => partings[0]?.messageId === "u-two");
  from = page.seen.length;
  await page.do(async (now) => now.showBranch(fork));
  await page.until("the fork", (now) => said(now)[2] === "2");
  expectKept(page, from, "one", "one?");

  const before = page.now;
  const elsewhere = await answered();
  page.show({ threadId: elsewhere, agentId: "demo" });
  await page.until("the other thread", (now) => said(now).length === 4);
  expect(page.now.shownThreadId).toBe(elsewhere);
  // Late calls are about the branch that was shown.
  await before.send("late", { busy: "enqueue" });
  const late = (of: string) => log(server, of).then((events) => JSON.stringify(events).includes('"late"'));
  expect([await late(fork), await late(threadId)]).toEqual([true, false]);
  page.show({ threadId, agentId: "demo" });
  await page.until("the thread", (now) => said(now).at(-1) === "two?");
  expect(page.now.shownThreadId).toBe(threadId);
});

test("a reload shows the thread itself, and the list leads to the branch", async () => {
  const threadId = await answered();
  const page = await open(threadId);
  const { threadId: fork } = await page.do((now) => now.edit("u-two", "2"));
  await ended(page, 4);
  page.leave();
  const again = await open(threadId);
  expect([again.now.shownThreadId, said(again.now).at(-1)]).toEqual([threadId, "two?"]);
  const { threads } = await client().threads.list();
  expect(threads.map((thread) => thread.threadId)).toContain(fork);
  expect(threads.map((thread) => thread.threadId)).not.toContain(threadId);
  const chosen = await open(fork);
  expect(said(chosen.now).slice(0, 3)).toEqual(["one", "one?", "2"]);
});

test("a refused regeneration leads back at once; a refused edit stays until it is discarded", async () => {
  const threadId = await answered();
  const page = await open(threadId);
  const from = page.seen.length;
  const refused = await page.do((now) => now.regenerate("none").catch((error: unknown) => error));
  expect(isProblem(refused, "message-not-found")).toBe(true);
  expect(page.now).toMatchObject({ shownThreadId: threadId, error: refused as Error });
  expect(said(page.now)).toEqual(["one", "one?", "two", "two?"]);
  for (const now of page.seen.slice(from)) expect(said(now).slice(0, 2)).toEqual(["one", "one?"]);

  const failed = await page.do((now) =>
    now.edit("u-two", "2", { agentId: "nobody" } as never).catch((error: unknown) => error),
  );
  expect(isProblem(failed, "agent-not-found")).toBe(true);
  expect(page.now.messages.map(({ content, delivery }) => [content, delivery])).toEqual([
    ["one", undefined],
    ["one?", undefined],
    ["2", "failed"],
  ]);
  expect(page.now.shownThreadId).not.toBe(threadId);
  // The failed message stays while another thread is shown.
  page.show({ threadId: await answered(), agentId: "demo" });
  await page.until("the other thread", (now) => said(now).length === 4);
  page.show({ threadId, agentId: "demo" });
  await page.until("the edit", (now) => said(now)[2] === "2");
  expect(page.now.messages[2]).toMatchObject({ delivery: "failed" });
  await page.do(async (now) => now.discard(now.messages[2]!.id));
  await page.until("the thread", (now) => said(now).at(-1) === "two?");
  expect(page.now.shownThreadId).toBe(threadId);
});

test("events of the fork are heard once each, and none of those that it has inherited", async () => {
  const threadId = await answered();
  const through = client();
  const page = await open(threadId, through);
  const heard: [number, string][] = [];
  new Page(
    through,
    (id: string) => useThreadEvents(id, {}, ({ type }, { seq }) => void heard.push([seq, type])),
    threadId,
  );
  await page.do(async () => {});
  const { threadId: fork } = await page.do((now) => now.edit("u-two", "2"));
  await ended(page, 4);
  const own = (await log(server, fork)).filter(({ seq }) => seq > 5).map(({ seq, event }) => [seq, event.type]);
  expect(own.length).toBeGreaterThan(3);
  await page.until("the events", () => heard.length >= own.length);
  expect(heard).toEqual(own);
});

test.each(["edit", "regenerate"] as const)("%s with lost answers makes one branch", async (what) => {
  const threadId = await answered();
  let lost = 0;
  const lossy: typeof fetch = async (address, init) => {
    const response = await fetch(address, init);
    if (init?.method !== "POST" || !String(address).endsWith("/runs") || lost >= 2) return response;
    lost += 1;
    throw new TypeError("the connection broke");
  };
  const through = connect({ url: server.url, fetch: lossy, retries: { writes: 0 } });
  clients.push(through);
  const page = await open(threadId, through);
  const act = () => page.do((now) => (what === "edit" ? now.edit("u-two", "2") : now.regenerate("a-two")));
  const first = await act().catch((error: unknown) => error);
  expect(first).toBeInstanceOf(ConnectionError);
  if (what === "edit") {
    // The fork exists by now, and perhaps the page has heard of it: then the message is there, and needs no repetition.
    const message = () => page.now.messages[2];
    while (message()?.delivery !== undefined) {
      await page.do((now) => now.retry(now.messages[2]!.id).catch(() => {}));
      await page.until("the outcome", () => message()?.delivery !== "sending");
    }
    await ended(page, 4);
    expect((await client().thread(threadId).branches()).length).toBe(2);
    expect(page.now.shownThreadId).not.toBe(threadId);
  } else {
    // The page is back at the thread, whose branches tell of the fork.
    expect(page.now.shownThreadId).toBe(threadId);
    await page.until("the fork", ({ branches }) => branches.length === 2);
  }
  expect(page.now.messages.filter(({ content }) => content === "2")).toHaveLength(what === "edit" ? 1 : 0);
});

test("a page's tools go with an edit, and belong to the fork in the same tick", async () => {
  const threadId = await answered();
  const asked: { fork?: object; tools: readonly string[] }[] = [];
  const watched: typeof fetch = (address, init) => {
    if (init?.method === "POST" && String(address).endsWith("/runs")) {
      const { fork, input } = JSON.parse(String(init.body)) as { fork?: object; input: { tools?: { name: string }[] } };
      asked.push({ ...(fork && { fork }), tools: (input.tools ?? []).map(({ name }) => name) });
    }
    return fetch(address, init);
  };
  const through = connect({ url: server.url, fetch: watched });
  clients.push(through);
  const page = await open(threadId, through, { agentId: "demo", tools: { locate: { run: () => "here" } } });
  const editing = page.now.edit("u-two", "2");
  const next = page.now.send("three", { busy: "enqueue" });
  const { threadId: fork } = await editing;
  await next;
  expect(asked).toEqual([{ fork: { before: "u-two", threadId: fork }, tools: ["locate"] }, { tools: ["locate"] }]);
});

test("a suspended thread is not suspended again by a move", async () => {
  const threadId = await answered();
  const through = client();
  const seen: string[] = [];
  let now: Omit<UseThread, "isLoading"> | undefined;
  let isMounted = false;
  function Fallback() {
    seen.push("fallback");
    return null;
  }
  function Content() {
    now = useSuspenseThread(threadId, { agentId: "demo" });
    // The effects of the hook have run before.
    useEffect(() => void (isMounted = true), []);
    seen.push(now.messages.map(({ content }) => String(content)).join());
    return null;
  }
  function Tree() {
    return (
      <Suspense fallback={<Fallback />}>
        <Content />
      </Suspense>
    );
  }
  const page = new Page(through, () => (useThread(null), undefined), undefined, <Tree />);
  await page.until("the thread", () => isMounted && now?.messages.length === 4);
  const from = seen.length;
  await now!.edit("u-two", "2");
  await page.until(
    "the answer",
    () => now!.messages.length >= 4 && !now!.isRunning && now!.messages[2]!.content === "2",
  );
  expect(seen.slice(from).filter((shown) => !shown.startsWith("one,one?,2"))).toEqual([]);
});
