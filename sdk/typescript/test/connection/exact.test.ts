// Tests that every reader receives exactly the events of the log, whatever happens to the network and the server.

import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { Threadline } from "../../src/index.js";
import { closedAfterEach } from "../harness/served.js";
import { proxy, server, useProxiedServer } from "../harness/proxied.js";
import { until } from "../harness/until.js";
import { epochOf, log, makeThread, write } from "../harness/writer.js";
import { connect, expectExactly, Reader, TRANSPORTS, unexpected } from "./reader.js";

useProxiedServer();

const clients = closedAfterEach();

function open(options: Partial<Parameters<typeof connect>[0]> = {}): Threadline {
  const client = connect({ url: proxy.url, ...options });
  clients.push(client);
  return client;
}

/** Cuts, stalls and restarts, until the function is stopped. */
async function trouble(random: () => number, over: () => boolean): Promise<void> {
  while (!over()) {
    await sleep(40 + random() * 120);
    const what = random();
    if (what < 0.5) proxy.cut();
    else if (what < 0.65) {
      proxy.stall();
      await sleep(random() * 100);
      proxy.resume();
    } else if (what < 0.75) {
      proxy.refuse = true;
      proxy.cut();
      await sleep(random() * 100);
      proxy.refuse = false;
    } else if (what < 0.9) await server.restart();
    else {
      await server.drain();
      await server.restart();
    }
  }
}

function seeded(): [number, () => number] {
  const seed = Number(process.env["THREADLINE_SEED"] ?? 1 + Math.floor(Math.random() * 1_000_000));
  let state = seed;
  return [seed, () => (state = (state * 48_271) % 0x7fffffff) / 0x7fffffff];
}

test("cuts, stalls, kills and drains in the middle of runs", async () => {
  const [seed, random] = seeded();
  const threads = await Promise.all([1, 2, 3].map(() => makeThread(server)));
  // For each transport, some readers with their own client and some on a shared connection.
  const connections = TRANSPORTS.map((transport) => open({ transports: [transport] }));
  const readers = TRANSPORTS.flatMap((transport, index) =>
    threads.flatMap((threadId) => [
      { threadId, reader: new Reader(connections[index]!, threadId) },
      { threadId, reader: new Reader(open({ transports: [transport] }), threadId) },
    ]),
  );
  const feeds = connections.map((client) => {
    const feed = new Map<string, unknown>();
    client.followFeed({
      onItem: (item) => {
        if (item.type === "entries") for (const entry of item.entries) feed.set(entry.threadId, entry.thread);
      },
      onError: unexpected,
    });
    return feed;
  });
  let written = false;
  const writing = Promise.all(
    threads.map((threadId) => write(server, threadId, { deltas: 200, batch: 4, paceMs: 30 })),
  ).finally(() => (written = true));
  await trouble(random, () => written);
  await writing;
  for (const { threadId, reader } of readers) {
    const events = await log(server, threadId);
    const stand = () => [
      seed,
      reader.events.length,
      events.length,
      reader.error,
      connections.map(({ status }) => status),
    ];
    await until("the last event", () => reader.events.length >= events.length, stand);
    expect(reader.error).toBeUndefined();
    expectExactly(reader.events, events);
  }
  for (const threadId of threads) {
    const thread = await server.request("GET", `/v1/threads/${threadId}`);
    const same = () => feeds.every((feed) => JSON.stringify(feed.get(threadId)) === JSON.stringify(thread));
    await until("the feed", same, () => [seed, thread, feeds.map((feed) => feed.get(threadId))]);
  }
});

describe.each(TRANSPORTS)("over %s", (transport) => {
  test("a subscription to a run ends with the run", async () => {
    const threadId = await makeThread(server);
    await write(server, threadId, { deltas: 20 });
    const client = open({ transports: [transport] });
    const writing = write(server, threadId, { runId: "mine", deltas: 60, paceMs: 5 });
    await until("its beginning", async () => (await log(server, threadId)).some(({ runId }) => runId === "mine"));
    const reader = new Reader(client, threadId, { runId: "mine" });
    await until(
      "some of it",
      () => reader.events.length > 0,
      () => [client.status, reader.error],
    );
    proxy.cut();
    await writing;
    await write(server, threadId, { deltas: 5 });
    await until(
      "its end",
      () => reader.count("ended") === 1,
      () => reader.items,
    );
    expectExactly(
      reader.events,
      (await log(server, threadId)).filter(({ runId }) => runId === "mine"),
    );
    expect(reader.items.at(-1)).toEqual({ type: "ended", reason: "run-ended" });
  });

  test("a deleted thread ends its subscriptions, and a recreated one has another log", async () => {
    const threadId = await makeThread(server);
    await write(server, threadId);
    const client = open({ transports: [transport] });
    const reader = new Reader(client, threadId);
    await until("live", () => reader.count("caughtUp") === 1);
    const { cursor: after, epoch } = reader.followed;
    await server.request("DELETE", `/v1/threads/${threadId}`);
    await until(
      "the end",
      () => reader.count("ended") === 1,
      () => [reader.error, reader.items],
    );
    expect(reader.items.at(-1)).toEqual({ type: "ended", reason: "thread-deleted" });

    const gone = new Reader(client, threadId);
    await until("no such thread", () => gone.error);
    expect(gone.error).toMatchObject({ slug: "thread-not-found", status: 404 });

    await makeThread(server, threadId);
    await write(server, threadId, { deltas: 50 });
    const replaced = new Reader(client, threadId, { after, epoch: epoch! });
    await until("another log", () => replaced.error);
    expect(replaced.error).toMatchObject({ slug: "log-replaced", status: 410 });
    const ahead = new Reader(client, threadId, { after: 10_000, epoch: await epochOf(server, threadId) });
    await until("beyond the end", () => ahead.error);
    expect(ahead.error).toMatchObject({ slug: "cursor-ahead", status: 416 });
    // A refusal of one subscription does not affect the others.
    const well = new Reader(client, threadId);
    await until("all of it", () => well.count("caughtUp") === 1);
    expectExactly(well.events, await log(server, threadId));
    expect(client.status.state).toBe("live");
  });

  test("a log that was replaced while no client was connected is detected", async () => {
    const threadId = await makeThread(server);
    await write(server, threadId);
    const client = open({ transports: [transport] });
    const reader = new Reader(client, threadId);
    await until("live", () => reader.count("caughtUp") === 1);
    const before = reader.events.length;
    proxy.refuse = true;
    proxy.cut();
    await until("the break", () => reader.count("reconnecting") > 0);
    await server.request("DELETE", `/v1/threads/${threadId}`);
    await makeThread(server, threadId);
    await write(server, threadId, { deltas: 100 });
    proxy.refuse = false;
    await until(
      "another log",
      () => reader.error,
      () => reader.items,
    );
    expect(reader.error).toMatchObject({ slug: "log-replaced" });
    expect(reader.events).toHaveLength(before);
  });
});
