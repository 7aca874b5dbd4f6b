// Tools of the page: of several pages one executes a call, and another one takes over if that page disappears.

import "./dom.js";
import { cleanup } from "@testing-library/react";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Threadline } from "../../src/index.js";
import { CLAIM_LEASE_SECONDS } from "../../src/limits.js";
import type { PageTools, ToolContext } from "../../src/react/index.js";
import { CLAIM_TIMES } from "../../src/react/tool-runner.js";
import { proxy, server, useProxiedServer } from "../harness/proxied.js";
import { until } from "../harness/until.js";
import { type Event, log, makeThread } from "../harness/writer.js";
import { connect, type ThreadPage, threadPage } from "./page.js";

useProxiedServer();

const clients: Threadline[] = [];
beforeEach(() => {
  CLAIM_TIMES.retryMs = 100;
});
afterEach(() => {
  cleanup();
  for (const client of clients.splice(0)) client.close();
  Object.assign(CLAIM_TIMES, { leaseSeconds: CLAIM_LEASE_SECONDS });
  proxy.refuse = false;
});

/** The calls of a tool `f`, whose results the test gives. */
class Calls {
  readonly taken: { readonly args: unknown; readonly context: ToolContext; done(result: unknown): void }[] = [];

  get tools(): PageTools {
    const run = (args: unknown, context: ToolContext) =>
      new Promise((done) => {
        this.taken.push({ args, context, done });
      });
    return { f: { run, description: "Finds something", parameters: { type: "object", required: ["what"] } } };
  }
}

/** The requests for runs, by id of the run. */
const bodies = new Map<string, { readonly input: { readonly tools: unknown } }>();

const recorded: typeof fetch = (input, init) => {
  if (init?.method === "POST" && String(input).endsWith("/runs")) {
    const body = JSON.parse(String(init.body)) as { runId: string; input: { tools: unknown } };
    bodies.set(body.runId, body);
  }
  return fetch(input, init);
};

async function open(threadId: string, tools?: PageTools, url = server.url): Promise<ThreadPage> {
  const client = connect({ url, fetch: recorded });
  clients.push(client);
  const page = threadPage(client, threadId, { agentId: "demo", ...(tools && { tools }) });
  await page.until("the thread", ({ isLoading, status }) => !isLoading && status.state === "live");
  return page;
}

/** A run that calls tools, by id and name, and waits for their results. */
async function calls(threadId: string, ...named: readonly (readonly [id: string, name: string])[]): Promise<void> {
  const runId = crypto.randomUUID();
  const tools = [...new Set(named.map(([, name]) => name))].map((name) => ({ name, description: "", parameters: {} }));
  const ids = { threadId, runId };
  const body: Event[] = [
    {
      type: "RUN_STARTED",
      ...ids,
      input: { ...ids, messages: [{ id: `${runId}-ask`, role: "user", content: "?" }], tools },
    },
    ...named.flatMap(([toolCallId, toolCallName]) => [
      { type: "TOOL_CALL_START", toolCallId, toolCallName, parentMessageId: `${runId}-calls` },
      { type: "TOOL_CALL_ARGS", toolCallId, delta: '{"what":"it"}' },
      { type: "TOOL_CALL_END", toolCallId },
    ]),
    { type: "RUN_FINISHED", ...ids },
  ];
  await server.request("PUT", `/v1/threads/${threadId}/runs/${runId}`, { body });
}

/** The results that the log has. */
async function results(threadId: string): Promise<unknown[]> {
  const inputs = (await log(server, threadId)).map(({ event }) => event.input as { messages?: Event[] } | undefined);
  const messages = inputs.flatMap((input) => input?.messages ?? []) as unknown as { role: string; content: unknown }[];
  return messages.filter(({ role }) => role === "tool").map(({ content }) => content);
}

const answered = (page: ThreadPage) =>
  page.until("the answer", (now) => now.pendingToolCalls.length === 0 && now.run?.status === "finished");

test("of two pages one executes a call, and all calls of a message are answered at once", async () => {
  const threadId = await makeThread(server);
  const [here, there] = [new Calls(), new Calls()];
  const pages = await Promise.all([open(threadId, here.tools), open(threadId, there.tools)]);
  await calls(threadId, ["a", "f"], ["b", "f"]);
  const taken = () => [...here.taken, ...there.taken];
  await until("both calls", () => taken().length === 2);
  // Long enough for the other page to try again.
  const before = taken().map(({ context }) => context.toolCallId);
  expect(before.sort()).toEqual(["a", "b"]);
  expect(taken()[0]!.args).toEqual({ what: "it" });
  taken()[0]!.done({ found: 1 });
  taken()[1]!.done("two");
  for (const page of pages) await answered(page);
  expect(taken()).toHaveLength(2);
  expect((await results(threadId)).map(String).sort()).toEqual(["two", '{"found":1}']);
  for (const { now } of pages) expect(now.error).toBeNull();
});

test("a page that does not have the first call of a message claims none of the others", async () => {
  const threadId = await makeThread(server);
  await calls(threadId, ["a", "f"], ["b", "f"]);
  const claim = `/v1/threads/${threadId}/tool-calls/a/claim`;
  await server.request("POST", claim, { body: { clientId: "another-page", leaseSeconds: 60 } });
  const here = new Calls();
  const before = proxy.requests.length;
  const page = await open(threadId, here.tools, proxy.url);
  const asked = () => proxy.requests.slice(before).filter((request) => request.includes("/tool-calls/"));
  await until("two tries", () => asked().length >= 2);
  expect(asked().every((request) => request.includes("/tool-calls/a/"))).toBe(true);
  expect(here.taken).toEqual([]);
  await server.request("DELETE", `${claim}?clientId=another-page`);
  await until("both calls", () => here.taken.length === 2);
  for (const { done } of here.taken) done("it");
  await answered(page);
});

test("a call of a page that disappears is executed by another one, and answered once", async () => {
  CLAIM_TIMES.leaseSeconds = 1;
  const threadId = await makeThread(server);
  const [here, there] = [new Calls(), new Calls()];
  const gone = await open(threadId, here.tools, proxy.url);
  await calls(threadId, ["c", "f"]);
  await until("the call", () => here.taken.length === 1);
  const page = await open(threadId, there.tools);
  expect(there.taken).toEqual([]);
  proxy.refuse = true;
  proxy.cut();
  await until("the call in the other page", () => there.taken.length === 1);
  // The first page is back, with a claim that it has lost.
  here.taken[0]!.done("late");
  proxy.refuse = false;
  await gone.until("the connection", ({ status }) => status.state === "live");
  expect(await results(threadId)).toEqual([]);
  there.taken[0]!.done("in time");
  await answered(page);
  await answered(gone);
  expect(await results(threadId)).toEqual(["in time"]);
  expect([here.taken.length, there.taken.length]).toEqual([1, 1]);
  expect(here.taken[0]!.context.signal.aborted).toBe(true);
  for (const { now } of [gone, page]) expect(now.error).toBeNull();
});

test("a page that leaves gives up its calls at once", async () => {
  const threadId = await makeThread(server);
  const [here, there] = [new Calls(), new Calls()];
  const page = await open(threadId, here.tools);
  await calls(threadId, ["d", "f"]);
  await until("the call", () => here.taken.length === 1);
  const other = await open(threadId, there.tools);
  page.leave();
  await until("the call in the other page", () => there.taken.length === 1);
  expect(here.taken[0]!.context.signal.aborted).toBe(true);
  there.taken[0]!.done("taken over");
  await answered(other);
  expect(await results(threadId)).toEqual(["taken over"]);
});

test("tools go with what is sent; errors are results; other calls are left to the page", async () => {
  const threadId = await makeThread(server);
  const fails: PageTools = {
    f: {
      run() {
        throw new Error("no place like it");
      },
    },
  };
  const page = await open(threadId, fails);
  const sent = await page.do(({ send }) =>
    send({ messages: [{ role: "user", content: "Hi" }], tools: [{ name: "g", description: "" }] }),
  );
  await answered(page);
  expect(bodies.get(sent.run!.runId)?.input.tools).toEqual([
    { name: "g", description: "" },
    { name: "f", description: "", parameters: { type: "object", properties: {} } },
  ]);
  await calls(threadId, ["e", "f"], ["g", "g"]);
  await page.until("the calls", ({ pendingToolCalls }) => pendingToolCalls.length === 2);
  await page.do(({ addToolResult }) => addToolResult("g", "by hand"));
  await answered(page);
  expect((await results(threadId)).map(String).sort()).toEqual(["by hand", '{"error":"no place like it"}']);
  // A conversation that has gone on asks for nothing any more.
  const quiet = new Calls();
  await calls(threadId, ["old", "h"]);
  await page.do(({ send }) => send("Never mind"));
  await open(threadId, { h: quiet.tools["f"]! });
  await answeredLast(page);
  expect(quiet.taken).toEqual([]);
});

/** Waits for the end of a run in a thread that has calls without a result. */
const answeredLast = (page: ThreadPage) =>
  page.until(
    "the end",
    (now) => !now.isSending && now.run?.status === "finished" && now.messages.at(-1)?.role === "assistant",
  );
