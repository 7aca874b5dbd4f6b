// Tests that closing a client ends all pending operations immediately, with the same error.

import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { WebSocket } from "ws";
import { threadHistory } from "../src/ag2b/index.js";
import { ClosedError, type RunHandle, Threadline, type ThreadlineOptions, type WebSocketClass } from "../src/index.js";
import { storesOf } from "../src/react/stores.js";
import { Proxy } from "./harness/proxy.js";
import { Server } from "./harness/server.js";
import { until } from "./harness/until.js";
import { epochOf, log, makeThread } from "./harness/writer.js";

let server: Server;
let proxy: Proxy;
let client: Threadline;
beforeAll(async () => {
  server = await Server.start();
});
afterAll(() => server?.end());
beforeEach(async () => {
  proxy = await Proxy.start(server);
});

function open(options: Partial<ThreadlineOptions> = {}): Threadline {
  const opened = new Threadline({
    url: proxy.url,
    WebSocket: WebSocket as unknown as WebSocketClass,
    ...options,
  });
  onTestFinished(() => {
    opened.close();
    proxy.end();
  });
  return (client = opened);
}

/** All calls of a client. */
const everything = (): { readonly [name: string]: () => Promise<unknown> } => {
  const thread = client.thread("t");
  return {
    list: () => client.threads.list(),
    create: () => client.threads.create({ threadId: "t" }),
    agents: () => client.agents.list(),
    document: () => client.conversations.get("t"),
    save: () => client.conversations.put("t", []),
    get: () => thread.get(),
    rename: () => thread.rename("x"),
    delete: () => thread.delete(),
    messages: () => thread.messages(),
    events: () => thread.events(),
    lines: () => thread.lines().next(),
    subscribe: () => ended(thread.subscribe()),
    feed: () => ended(client.feed()),
    start: () => thread.start({ agentId: "demo", input: {} }),
    stop: () => thread.stop("r"),
    putRun: () => thread.putRun("r", []),
    run: () => thread.run({}, () => {}),
  };
};

const closed = { status: "rejected", reason: expect.any(ClosedError) };
const allClosed = (calls: readonly Promise<unknown>[]) =>
  expect(Promise.allSettled(calls)).resolves.toEqual(calls.map(() => closed));

/** Waits for the end of an iterator. */
async function ended(iterator: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of iterator);
}

test.each<[string, number, Partial<ThreadlineOptions>, (proxy: Proxy) => void]>([
  ["an answer", 15, {}, (proxy) => proxy.stall()],
  ["the next try", 40, {}, (proxy) => (proxy.refuse = true)],
  ["a token", 0, { token: () => new Promise<string>(() => {}) }, () => {}],
])("pending calls that wait for %s", async (_, enough, options, prepare) => {
  prepare(proxy);
  const sent = vi.fn(fetch);
  open({ fetch: sent, ...options });
  let settled = 0;
  const count = () => void (settled += 1);
  const calls = Object.values(everything()).map((call) => call());
  for (const call of calls) call.then(count, count);
  await until("requests", () => sent.mock.calls.length >= enough);
  expect(settled).toBe(0);
  client.close();
  await allClosed(calls);
});

test("later calls, without sending a request", async () => {
  open();
  await client.threads.list();
  const before = proxy.requests.length;
  client.close();
  await allClosed(Object.values(everything()).map((call) => call()));
  expect(proxy.requests).toHaveLength(before);
});

test("subscriptions with a listener: onError is called once", async () => {
  const { threadId } = await open().threads.create();
  const errors: unknown[] = [];
  const items: string[] = [];
  const onError = (error: unknown) => errors.push(error);
  client.thread(threadId).follow({ onItem: ({ type }) => items.push(type), onError });
  client.followFeed({ onItem: () => {}, onError });
  await until("the end of the log", () => items.includes("caughtUp"));
  client.close();
  expect(errors).toEqual([expect.any(ClosedError), expect.any(ClosedError)]);
});

test("the log, in the middle of a line", async () => {
  const threadId = await makeThread(server);
  const pad = "x".repeat(1_000_000);
  await server.request("PUT", `/v1/threads/${threadId}/runs/r`, { body: [{ type: "A" }, { type: "B", pad }] });
  const lines = open()
    .thread(threadId)
    .lines({ after: 1, epoch: await epochOf(server, threadId) });
  proxy.bytesPerSecond = 10_000;
  const line = lines.next();
  await until("some of it", () => proxy.bytes > 0);
  client.close();
  await allClosed([line]);
  expect(await lines.next()).toEqual({ done: true, value: undefined });
});

test("a run: its body is notified, and the run ends with its lease", async () => {
  const threadId = await makeThread(server);
  let run: RunHandle | undefined;
  let waits = false;
  const ran = open()
    .thread(threadId)
    .run({ leaseSeconds: 3 }, async (producer) => {
      run = producer;
      await producer.append({ type: "CUSTOM", name: "n", value: 1 });
      await producer.flush();
      proxy.stall();
      void producer.append({ type: "CUSTOM", name: "n", value: 2 });
      waits = true;
      await producer.flush();
    });
  const seen = allClosed([ran]);
  await until("an append without an answer", () => waits);
  client.close();
  await seen;
  expect(run!.signal.reason).toBeInstanceOf(ClosedError);
  proxy.resume();
  await until("its end", async () => (await log(server, threadId)).at(-1)?.event.type === "RUN_ERROR");
});

test("operations that wait for the log or the feed", async () => {
  const threadId = await makeThread(server);
  const [waiting, document] = [await makeThread(server), await makeThread(server)];
  await server.request("POST", `/v1/threads/${waiting}/runs`, { body: { runId: "r", leaseSeconds: 60 } });
  // Requests get through, but subscriptions cannot connect.
  proxy.insteadOfStreams = "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
  open({ transports: ["sse"] });
  const stores = storesOf(client);
  const list = stores.list({});
  const thread = stores.thread(waiting);
  const leave = [list.subscribe(() => {}), thread.subscribe(() => {})];
  await until("the list", () => !list.getSnapshot().isLoading);
  await until("the thread", () => thread.getSnapshot().run);
  const history = await threadHistory({ client, threadId: document });
  const calls = [
    list.renameThread(threadId, "shown nowhere"),
    thread.addToolResult("call", "done", undefined as never),
    history.restore([{ role: "user", content: "read by nobody" }]),
  ];
  const renamed = () => server.request<{ name: string | null }>("GET", `/v1/threads/${threadId}`);
  await until("the new name", async () => (await renamed()).name !== null);
  await until("what was restored", async () => (await log(server, document)).length > 0);
  client.close();
  await allClosed(calls);
  await allClosed([thread.addToolResult("another", "done", undefined as never)]);
  for (const end of leave) end();
});
