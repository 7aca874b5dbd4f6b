import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { ClosedError, type ThreadItem, type Threadline } from "../../src/index.js";
import { ITERATOR_EVENTS, SUBSCRIPTIONS } from "../../src/limits.js";
import { proxy, server, useProxiedServer } from "../harness/proxied.js";
import { until } from "../harness/until.js";
import { epochOf, log, type Logged, makeThread, speech, write } from "../harness/writer.js";
import { connect, expectExactly, Reader, statuses, unexpected } from "./reader.js";

useProxiedServer();

let client: Threadline;
const open = (options = {}) => (client = connect({ url: proxy.url, ...options }));
afterEach(() => client.close());

const flat = (item: ThreadItem): Logged[] =>
  item.type !== "events"
    ? []
    : item.batches.flatMap(({ seq, runId, at, events }) =>
        events.map((event, index) => ({ seq: seq + index, runId, at, event })),
      );

test("an iterator returns all events in order, and ends with its run", async () => {
  const threadId = await makeThread(server);
  const runId = await write(server, threadId, { deltas: 40 });
  const events: Logged[] = [];
  const types: string[] = [];
  for await (const item of open().thread(threadId).subscribe({ runId })) {
    types.push(item.type);
    events.push(...flat(item));
  }
  expectExactly(events, await log(server, threadId));
  expect(types[0]).toBe("hello");
  expect(types.at(-1)).toBe("ended");
});

test("an unread iterator buffers a bounded number of events, and misses none", async () => {
  const threadId = await makeThread(server);
  const runId = "large";
  await server.request("PUT", `/v1/threads/${threadId}/runs/${runId}`, {
    // Far more than intermediate buffers can hold.
    body: speech(threadId, runId, 6 * ITERATOR_EVENTS),
  });
  const iterator = open().thread(threadId).subscribe({ runId });
  const before = proxy.bytes;
  await iterator.next();
  // About as much as the buffer may hold has arrived, and then the stream stops.
  const quiet = async () => {
    const bytes = proxy.bytes;
    await sleep(100);
    return bytes - before > 90 * ITERATOR_EVENTS && proxy.bytes === bytes;
  };
  await until("rest", quiet, () => proxy.bytes - before);
  const kept = proxy.bytes - before;
  const events: Logged[] = [];
  const types: string[] = [];
  for await (const item of iterator) {
    types.push(item.type);
    events.push(...flat(item));
  }
  expectExactly(events, await log(server, threadId));
  expect(types.filter((type) => type === "fellBehind").length).toBeGreaterThan(0);
  expect(types.filter((type) => type === "hello").length).toBeGreaterThan(0);
  expect(kept).toBeLessThan(0.75 * (proxy.bytes - before));
});

test("while one iterator is idle, others on the same connection continue", async () => {
  const [large, small] = [await makeThread(server), await makeThread(server)];
  await server.request("PUT", `/v1/threads/${large}/runs/r`, { body: speech(large, "r", 2 * ITERATOR_EVENTS) });
  open();
  const resting = client.thread(large).subscribe();
  await resting.next();
  await write(server, small);
  const reader = new Reader(client, small);
  await until("the other thread", () => reader.count("caughtUp") === 1);
  expectExactly(reader.events, await log(server, small));
  await resting.return?.();
});

test("an iterator ends when it is exited, aborted, or its client is closed", async () => {
  const threadId = await makeThread(server);
  await write(server, threadId);
  open();
  for await (const item of client.thread(threadId).subscribe()) if (item.type === "caughtUp") break;
  const stop = new AbortController();
  const aborted = client.thread(threadId).subscribe({ signal: stop.signal });
  await aborted.next();
  const waiting = (async () => {
    for await (const _ of aborted);
  })();
  stop.abort(new Error("enough"));
  await expect(waiting).rejects.toThrow("enough");
  expect(await aborted.next()).toEqual({ done: true, value: undefined });
  await expect(
    client
      .thread(threadId)
      .subscribe({ signal: AbortSignal.abort(new Error("before")) })
      .next(),
  ).rejects.toThrow("before");

  const open_ = client.thread(threadId).subscribe();
  const rest = (async () => {
    for await (const _ of open_);
  })();
  await until("live", () => client.status.state === "live");
  client.close();
  await expect(rest).rejects.toThrow(ClosedError);
  await expect(client.thread(threadId).subscribe().next()).rejects.toThrow(ClosedError);
  expect(() => client.thread(threadId).follow({ onItem: () => {}, onError: () => {} })).toThrow(ClosedError);
  expect(client.status).toEqual({ state: "closed" });
});

test("an error of a listener does not affect others, and is reported", async () => {
  const threadId = await makeThread(server);
  const other = await makeThread(server);
  await write(server, threadId);
  await write(server, other);
  const thrown: unknown[] = [];
  const before = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  process.on("uncaughtException", (error) => thrown.push(error.message));
  try {
    open();
    client.thread(threadId).follow({
      onItem: () => {
        throw new Error("mine");
      },
      onError: () => {
        throw new Error("mine, too");
      },
    });
    const reader = new Reader(client, other);
    await until("the other thread", () => reader.count("caughtUp") === 1);
    expectExactly(reader.events, await log(server, other));
    await until("what was thrown", () => thrown.length >= 3);
    expect(new Set(thrown)).toEqual(new Set(["mine"]));
    client.close();
    await until("the other one", () => thrown.includes("mine, too"));
  } finally {
    process.removeAllListeners("uncaughtException");
    for (const listener of before) process.on("uncaughtException", listener);
  }
});

test("a listener may close and follow during a notification", async () => {
  const threadId = await makeThread(server);
  await write(server, threadId, { deltas: 200, batch: 1 });
  open();
  let told = 0;
  let second: Reader | undefined;
  const followed = client.thread(threadId).follow({
    onItem: () => {
      told += 1;
      followed.close();
      second ??= new Reader(client, threadId);
    },
    onError: unexpected,
  });
  await until("the second", () => second?.count("caughtUp") === 1);
  expectExactly(second!.events, await log(server, threadId));
  expect(told).toBe(1);
});

test("a listener may follow the same thread again when it has ended, on the same socket", async () => {
  const threadId = await makeThread(server);
  const runId = await write(server, threadId);
  const epoch = await epochOf(server, threadId);
  const sockets = proxy.requests.filter((request) => request === "GET /v1/socket").length;
  open();
  let again: Reader | undefined;
  client.thread(threadId).follow({
    runId,
    onItem: ({ type }) => {
      if (type === "ended") again = new Reader(client, threadId, { after: 99, epoch });
    },
    onError: unexpected,
  });
  await until("the refusal", () => again?.error);
  let third: Reader | undefined;
  client.thread(threadId).follow({
    epoch: "another",
    onItem: () => {},
    onError: () => (third = new Reader(client, threadId)),
  });
  await until("live", () => third?.count("caughtUp") === 1);
  expectExactly(third!.events, await log(server, threadId));
  expect(proxy.requests.filter((request) => request === "GET /v1/socket").length - sockets).toBe(1);
  expect(() => new Reader(client, "..")).toThrow("cannot be used as an id");
});

test("one socket carries many threads; a second subscription to a thread uses another one", async () => {
  const threads = await Promise.all(Array.from({ length: 12 }, () => makeThread(server)));
  for (const threadId of threads) await write(server, threadId, { deltas: 3 });
  open();
  const seen = statuses(client);
  const readers = threads.map((threadId) => new Reader(client, threadId));
  await until("all live", () => readers.every((reader) => reader.count("caughtUp") === 1));
  expect(proxy.open("/v1/socket")).toBe(1);
  const twice = new Reader(client, threads[0]!, { after: 3, epoch: await epochOf(server, threads[0]!) });
  await until("the second of one thread", () => twice.count("caughtUp") === 1);
  expect(proxy.open("/v1/socket")).toBe(2);
  expect(twice.events.map(({ seq }) => seq)).toEqual([4, 5, 6, 7]);
  // The other subscription is not affected.
  expect(readers[0]!.count("hello")).toBe(1);
  twice.followed.close();
  await until("the end of its socket", () => proxy.open("/v1/socket") === 1);
  for (const { followed } of readers) followed.close();
  await until("the end of the other", () => proxy.open("/v1/socket") === 0);
  await until("rest", () => client.status.state === "idle");
  expect(seen.map(({ state }) => state).filter((state, index, all) => state !== all[index - 1])).toEqual([
    "idle",
    "connecting",
    "live",
    "connecting",
    "live",
    "idle",
  ]);
});

test("beyond the capacity of a socket another one is opened", async () => {
  const threads = Array.from({ length: SUBSCRIPTIONS + 4 }, (_, index) => `many-${index}`);
  for (const threadId of threads) await makeThread(server, threadId);
  open();
  const readers = threads.map((threadId) => new Reader(client, threadId));
  await until(
    "all live",
    () => readers.every((reader) => reader.count("caughtUp") === 1),
    () => client.status,
  );
  expect(proxy.open("/v1/socket")).toBe(2);
});

test("following again immediately, or later on the same socket, keeps subscriptions separate", async () => {
  const threadId = await makeThread(server);
  await write(server, threadId, { deltas: 300, batch: 10 });
  open();
  const all = await log(server, threadId);
  const epoch = await epochOf(server, threadId);
  for (let round = 0; round < 30; round += 1) {
    const first = new Reader(client, threadId, { after: round, epoch });
    if (round % 3 > 0) await until("something", () => first.items.length >= round % 3);
    first.followed.close();
    const again = new Reader(client, threadId, { after: 2 * round, epoch });
    await until("live", () => again.count("caughtUp") === 1);
    expectExactly(again.events, all.slice(2 * round));
    again.followed.close();
  }
  expect(proxy.open("/v1/socket")).toBe(1);
});

test("a connection that falls silent is replaced", async () => {
  const threadId = await makeThread(server);
  await write(server, threadId);
  proxy.hurry = true;
  open();
  const reader = new Reader(client, threadId);
  await until("live", () => reader.count("caughtUp") === 1);
  proxy.stall();
  proxy.hurry = false;
  await until("silence", () => reader.count("reconnecting") > 0);
  expect(reader.items.at(-1)).toMatchObject({ type: "reconnecting", error: { name: "ConnectionError" } });
  expect(client.status.state).toBe("reconnecting");
  proxy.cut();
  proxy.resume();
  await write(server, threadId);
  const all = await log(server, threadId);
  await until("all of it", () => reader.events.length === all.length);
  expectExactly(reader.events, all);
});

test("the status has the time of the next attempt, and is the same object until it changes", async () => {
  const threadId = await makeThread(server);
  open();
  expect(client.status).toBe(client.status);
  const reader = new Reader(client, threadId);
  await until("live", () => client.status.state === "live");
  const live = client.status;
  await write(server, threadId);
  await until("events", () => reader.events.length > 0);
  expect(client.status).toBe(live);
  proxy.refuse = true;
  proxy.cut();
  await until("a wait", () => client.status.state === "reconnecting" && client.status.nextRetryAt !== null);
  expect(client.status).toMatchObject({ nextRetryAt: expect.closeTo(Date.now(), -5), error: { retryable: true } });
  proxy.refuse = false;
  await until("live again", () => client.status.state === "live");
});

test("current subscriptions are listed, with their cursors", async () => {
  const threadId = await makeThread(server);
  const thread = open().thread(threadId);
  const reader = new Reader(client, threadId);
  const shown = () => thread.subscriptions();
  await until("one is shown", async () => (await shown()).count === 1);
  await write(server, threadId, { deltas: 3 });
  const { tail } = await thread.get();
  await until("it has read all", async () => (await shown()).subscriptions[0]?.cursor === tail);
  const { nodes, subscriptions } = await shown();
  expect(nodes).toBe(1);
  expect(subscriptions).toMatchObject([{ transport: "socket", credential: "development", userId: "dev", runId: null }]);
  reader.followed.close();
  await until("nobody is", async () => (await shown()).count === 0);
});
