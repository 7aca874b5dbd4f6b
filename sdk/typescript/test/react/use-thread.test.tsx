import "./dom.js";
import { cleanup } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import { ClosedError, isProblem, type MessagesPage, type Threadline } from "../../src/index.js";
import { closedAfterEach } from "../harness/served.js";
import { proxy, server, useProxiedServer } from "../harness/proxied.js";
import { until } from "../harness/until.js";
import { type Event, log, makeThread, write } from "../harness/writer.js";
import { connect, said, type ThreadPage, threadPage } from "./page.js";

useProxiedServer();

const clients = closedAfterEach(cleanup);

function client(url = server.url): Threadline {
  const made = connect({ url });
  clients.push(made);
  return made;
}

const live = (page: ThreadPage) => page.until("everything that there is", ({ isLoading }) => !isLoading);

/** A complete run. */
function put(threadId: string, runId: string, events: readonly Event[]): Promise<unknown> {
  const body = [{ type: "RUN_STARTED", threadId, runId }, ...events];
  return server.request("PUT", `/v1/threads/${threadId}/runs/${runId}`, { body });
}

const finished = (threadId: string, runId: string, more = {}) => ({ type: "RUN_FINISHED", threadId, runId, ...more });

function shown(threadId: string): Promise<MessagesPage> {
  return server.request("GET", `/v1/threads/${threadId}/messages`);
}

async function expectAsTheServer(page: ThreadPage, threadId: string): Promise<void> {
  const { messages, interrupts } = await shown(threadId);
  expect(page.now.messages).toEqual(messages);
  expect(page.now.interrupts).toEqual(interrupts);
}

describe("the shown thread", () => {
  test("is the history, then live events, with few renders", async () => {
    const threadId = await makeThread(server);
    await write(server, threadId, { deltas: 5 });
    const page = threadPage(client(), threadId);
    expect(page.now).toMatchObject({ messages: [], isLoading: true, run: null });
    await live(page);
    await expectAsTheServer(page, threadId);
    expect(page.now.run).toBeNull();
    const [first] = page.now.messages;
    const before = page.seen.length;
    const began = performance.now();
    await write(server, threadId, { deltas: 200, batch: 1, runId: "long" });
    await page.until("the end of the run", ({ run }) => run?.status === "finished");
    const frames = (performance.now() - began) / 16;
    expect(page.seen.length - before).toBeLessThan(frames + 3);
    const texts = page.seen.slice(before).map((now) => String(said(now)[1] ?? ""));
    expect(texts.filter((text, at) => at > 0 && !text.startsWith(texts[at - 1]!))).toEqual([]);
    expect(new Set(texts).size).toBeGreaterThan(5);
    expect(page.seen.slice(before).some(({ isRunning }) => isRunning)).toBe(true);
    expect(page.now.messages[0]).toBe(first);
    await expectAsTheServer(page, threadId);
  });

  test("includes an active run from its start, for a page opened in the middle of it", async () => {
    const threadId = await makeThread(server);
    await write(server, threadId, { runId: "before" });
    const run = { runId: "now", deltas: 400, batch: 2 };
    let appends = 0;
    await write(server, threadId, { ...run, stop: () => (appends += 1) > 30 });
    const page = threadPage(client(), threadId);
    await live(page);
    expect(page.now).toMatchObject({ isRunning: true, run: { runId: "now", status: "running" } });
    // The stored events are appended again, which has no effect.
    await write(server, threadId, run);
    await page.until("the end", ({ run }) => run?.status === "finished");
    await expectAsTheServer(page, threadId);
  });

  test("equals the log after the server was killed in the middle of a run", async () => {
    const threadId = await makeThread(server);
    const page = threadPage(client(), threadId);
    await live(page);
    const writing = write(server, threadId, { deltas: 200, batch: 4, paceMs: 1 });
    await page.until("some of it", (now) => String(said(now)[0] ?? "").length > 200);
    await server.kill();
    await page.until("to hear of it", ({ status }) => status.state === "reconnecting");
    await server.restart();
    await writing;
    await page.until("the end", ({ run }) => run?.status === "finished");
    await expectAsTheServer(page, threadId);
    expect(page.now.error).toBeNull();
  });

  test("includes older messages on request, and all of them if events need them", async () => {
    const threadId = await makeThread(server);
    const messages = Array.from({ length: 1_200 }, (_, at) => ({ id: `m${at}`, role: "user", content: `${at}` }));
    await put(threadId, "r1", [{ type: "MESSAGES_SNAPSHOT", messages }, finished(threadId, "r1")]);
    const page = threadPage(client(), threadId);
    await live(page);
    expect(page.now.messages).toHaveLength(500);
    expect(page.now.hasMoreMessages).toBe(true);
    await put(threadId, "r2", [
      { type: "TEXT_MESSAGE_CHUNK", messageId: "new", delta: "new" },
      finished(threadId, "r2"),
    ]);
    await page.do(({ fetchMoreMessages }) => Promise.all([fetchMoreMessages(), fetchMoreMessages()]));
    await page.until("the new one", (now) => said(now).at(-1) === "new");
    expect(page.now.messages).toEqual((await shown(threadId)).messages.slice(200));
    await put(threadId, "r3", [
      { type: "MESSAGES_SNAPSHOT", messages: [...messages, { id: "last", role: "user", content: "last" }] },
      finished(threadId, "r3"),
    ]);
    await page.until("all of them", ({ hasMoreMessages }) => !hasMoreMessages);
    await expectAsTheServer(page, threadId);
    expect(page.now.messages).toHaveLength(1_201);
    expect(page.seen.filter((now, at) => at > 0 && now.messages.length < page.seen[at - 1]!.messages.length)).toEqual(
      [],
    );
  });

  test("is empty, with an error, once the thread is deleted; a new thread with its id is shown from the start", async () => {
    const threadId = await makeThread(server);
    await put(threadId, "r1", [{ type: "STATE_SNAPSHOT", snapshot: { old: true } }, finished(threadId, "r1")]);
    await write(server, threadId);
    const page = threadPage(client(proxy.url), threadId);
    await live(page);
    await server.request("DELETE", `/v1/threads/${threadId}`);
    await page.until("the error", ({ error }) => error instanceof ClosedError);
    expect(page.now).toMatchObject({ messages: [], state: {}, run: null, thread: null });
    await makeThread(server, threadId);
    await write(server, threadId, { runId: "other" });
    await page.until("the other thread", (now) => now.messages[0]?.id === "other-text" && !now.isRunning);
    expect(page.now.error).toBeNull();
    // The same without a notification of the page.
    proxy.refuse = true;
    proxy.cut();
    await server.request("DELETE", `/v1/threads/${threadId}`);
    await makeThread(server, threadId);
    await write(server, threadId, { runId: "third" });
    proxy.refuse = false;
    await page.until("the third thread", (now) => now.messages[0]?.id === "third-text" && !now.isRunning);
    await expectAsTheServer(page, threadId);
  });
});

describe("a switch to another thread", () => {
  test("in the middle of a run never shows content of the old one", async () => {
    const [one, other] = [await makeThread(server), await makeThread(server)];
    await write(server, other, { runId: "other", deltas: 3 });
    let isOpen = true;
    const writing = write(server, one, { runId: "one", deltas: 2_000, batch: 2, paceMs: 1, stop: () => !isOpen });
    await until("a beginning", async () => (await log(server, one)).length > 10);
    const page = threadPage(client(), one);
    const ids = () => new Set(page.now.messages.map(({ id }) => id));
    for (let times = 0; times < 4; times += 1) {
      page.show({ threadId: one });
      // First after all requests have completed, then while all of them are in flight.
      const waits = times < 2;
      if (waits) await page.until("the run", ({ messages }) => messages.length > 0);
      const from = page.seen.length;
      page.show({ threadId: other });
      if (waits) expect(page.now).toMatchObject({ messages: [], isLoading: true, run: null });
      await live(page);
      const foreign = page.seen.slice(from).flatMap(({ messages }) => messages.filter(({ id }) => id !== "other-text"));
      expect(foreign).toEqual([]);
      expect(ids()).toEqual(new Set(["other-text"]));
    }
    isOpen = false;
    await writing;
    page.show({ threadId: null });
    expect(page.now).toMatchObject({ messages: [], isLoading: false, run: null });
  });

  test("drops late results of tools of the old one", async () => {
    const [one, other] = [await makeThread(server), await makeThread(server)];
    const call = { type: "TOOL_CALL_START", toolCallId: "c", toolCallName: "f" };
    await put(one, "r", [call, { type: "TOOL_CALL_END", toolCallId: "c" }, finished(one, "r")]);
    const page = threadPage(client(), one, { agentId: "demo" });
    await page.until("the call", ({ pendingToolCalls }) => pendingToolCalls[0]?.id === "c");
    const { addToolResult } = page.now;
    page.show({ threadId: other, agentId: "demo" });
    await live(page);
    expect(await addToolResult("c", "late")).toBeUndefined();
    expect(await page.now.addToolResult("c", "late")).toBeUndefined();
    expect((await log(server, one)).length).toBe(4);

    // A result that waits for the end of the run that made the call.
    const third = await makeThread(server);
    await server.request("POST", `/v1/threads/${third}/runs`, { body: { runId: "r", leaseSeconds: 60 } });
    const events = [{ type: "RUN_STARTED", threadId: third, runId: "r" }, call];
    await server.request("POST", `/v1/threads/${third}/runs/r/events?producerSeq=1`, { body: events });
    page.show({ threadId: third, agentId: "demo" });
    await page.until("the call", ({ pendingToolCalls }) => pendingToolCalls.length === 1);
    const waiting = page.now.addToolResult("c", "early");
    page.show({ threadId: other, agentId: "demo" });
    expect(await waiting).toBeUndefined();
    expect((await log(server, other)).length).toBe(0);
  });
});

describe("its methods", () => {
  test("send creates the thread and starts a run, which all pages show; another run meanwhile is refused", async () => {
    const threadId = crypto.randomUUID();
    const [here, there] = [threadPage(client(), threadId, { agentId: "demo" }), threadPage(client(), threadId)];
    await Promise.all([live(here), live(there)]);
    expect(here.now).toMatchObject({ thread: null, messages: [], error: null });
    await here.do(({ send }) => send("A long hello to everybody"));
    await here.until("the message", (now) => said(now)[0] === "A long hello to everybody");
    await there.until("the message there", (now) => said(now)[0] === "A long hello to everybody");
    expect(there.now.isRunning).toBe(true);
    const refused = await here.do(({ send }) => send("And this?").catch((error: unknown) => error));
    expect(isProblem(refused, "run-active")).toBe(true);
    expect(here.now.error).toBe(refused);
    expect(here.now.messages.at(-1)).toMatchObject({
      content: "And this?",
      delivery: "failed",
      deliveryError: refused as Error,
    });
    await here.do(async ({ discard, messages }) => discard(messages.at(-1)!.id));
    expect(said(here.now)).not.toContain("And this?");
    const stopped = await there.do(({ stop }) => stop());
    expect(stopped?.runId).toBe(here.now.run?.runId);
    await Promise.all([here, there].map((page) => page.until("the end", ({ isRunning }) => !isRunning)));
    await Promise.all([here, there].map((page) => page.until("to hear why", ({ run }) => run?.status === "stopped")));
    expect(await here.do(({ stop }) => stop())).toBeUndefined();
    await here.do(({ send }) => send({ role: "user", content: "Again" }));
    expect(here.now.error).toBeNull();
    await Promise.all(
      [here, there].map((page) =>
        page.until("the answer", ({ run }) => run?.status === "finished" && said(page.now).includes("Again")),
      ),
    );
    await expectAsTheServer(here, threadId);
    await expectAsTheServer(there, threadId);
    expect(here.now.thread?.agentId).toBe("demo");
  });

  test("results of tools are sent together when the run that made the calls has ended", async () => {
    const threadId = await makeThread(server);
    const start = (toolCallId: string) => ({
      type: "TOOL_CALL_START",
      toolCallId,
      toolCallName: "f",
      parentMessageId: "m",
    });
    const open = await server.request("POST", `/v1/threads/${threadId}/runs`, {
      body: { runId: "r", leaseSeconds: 60 },
    });
    expect(open).toBeDefined();
    const append = (seq: number, events: Event[]) =>
      server.request("POST", `/v1/threads/${threadId}/runs/r/events?producerSeq=${seq}`, { body: events });
    const input = { threadId, runId: "r", messages: [], tools: [{ name: "f", description: "", parameters: {} }] };
    await append(1, [{ type: "RUN_STARTED", threadId, runId: "r", input }, start("a"), start("b")]);
    const page = threadPage(client(), threadId, { agentId: "demo" });
    await page.until("both calls", ({ pendingToolCalls }) => pendingToolCalls.length === 2);
    const [first, second] = [page.now.addToolResult("a", { is: 1 }), page.now.addToolResult("b", "two")];
    await append(4, [finished(threadId, "r")]);
    const [run, same] = await Promise.all([first, second]);
    expect(run?.run.agentId).toBe("demo");
    expect(same).toBe(run);
    await page.until("the results", ({ pendingToolCalls }) => pendingToolCalls.length === 0);
    const results = page.now.messages.flatMap((message) =>
      message.role === "tool" ? [[message.toolCallId, message.content]] : [],
    );
    expect(results).toEqual([
      ["a", '{"is":1}'],
      ["b", "two"],
    ]);
    expect(await page.now.addToolResult("a", "again")).toBeUndefined();
  });

  test("resume answers open interrupts", async () => {
    const threadId = await makeThread(server);
    const interrupts = [{ id: "i", reason: "approve" }];
    await put(threadId, "r", [finished(threadId, "r", { outcome: { type: "interrupt", interrupts } })]);
    const page = threadPage(client(), threadId, { agentId: "demo" });
    await live(page);
    expect(page.now.interrupts).toEqual(interrupts);
    const refused = await page.do(({ send }) => send("Hello?").catch((error: unknown) => error));
    expect(isProblem(refused, "interrupts-open")).toBe(true);
    await page.do(({ resume }) => resume([{ interruptId: "i", status: "resolved", payload: { yes: true } }]));
    await page.until("no more", (now) => now.interrupts.length === 0 && now.run?.status === "finished");
  });
});

test("two components share one subscription, which ends with the last of them", async () => {
  const threadId = await makeThread(server);
  await write(server, threadId);
  const shared = client(proxy.url);
  proxy.requests.length = 0;
  const pages = [threadPage(shared, threadId), threadPage(shared, threadId)];
  for (const page of pages) await live(page);
  expect(pages[0]!.now.messages).toBe(pages[1]!.now.messages);
  const asked = (path: string) => proxy.requests.filter((request) => request.startsWith(`GET ${path}`));
  expect(asked(`/v1/threads/${threadId}/messages`)).toHaveLength(1);
  expect(asked("/v1/socket")).toHaveLength(1);
  pages[0]!.leave();
  await write(server, threadId, { runId: "r2" });
  await pages[1]!.until("the second", ({ messages }) => messages.length === 2);
  pages[1]!.leave();
  await until("the socket to be closed", () => proxy.open("/v1/socket") === 0);
  expect(shared.status).toEqual({ state: "idle" });
});
