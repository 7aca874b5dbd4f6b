import { afterEach, expect, test, vi } from "vitest";
import { type Threadline, TimeoutError } from "../../src/index.js";
import { MESSAGES_PAGE } from "../../src/limits.js";
import { Feed } from "../../src/react/feed.js";
import { ThreadListStore } from "../../src/react/list.js";
import { THREADS } from "../../src/react/kinds.js";
import { openStore } from "../../src/react/shared.js";
import { storesOf } from "../../src/react/stores.js";
import type { NewEvent, Thread } from "../../src/types.js";
import { compare, isBeyond, withEntry, withPage } from "../../src/react/window.js";
import { proxy, server, useProxiedServer } from "../harness/proxied.js";
import { Random } from "../harness/random.js";
import { Server } from "../harness/server.js";
import { until } from "../harness/until.js";
import { makeThread, write } from "../harness/writer.js";
import { connect } from "./page.js";

useProxiedServer();

let client: Threadline;
afterEach(() => {
  proxy.resume();
  client.close();
});

test("a change that is not confirmed in time rejects, and the next one clears its error", async () => {
  client = connect({ url: proxy.url });
  const store = new ThreadListStore(client, new Feed(client), {}, { timeoutMs: 3_000 });
  const leave = store.subscribe(() => {});
  await until("the list", () => !store.getSnapshot().isLoading);
  const { threadId } = await store.createThread({ name: "before" });
  proxy.stall();
  const error = await store.renameThread(threadId, "after").catch((error: unknown) => error);
  expect(error).toBeInstanceOf(TimeoutError);
  expect(store.getSnapshot().error).toBe(error);
  expect(store.getSnapshot().threads[0]?.name).toBe("before");
  // The request in flight is lost with its connection. Otherwise it could overtake the next one.
  proxy.cut();
  proxy.resume();
  await store.renameThread(threadId, "later");
  expect(store.getSnapshot()).toMatchObject({ error: null, threads: [{ name: "later" }] });
  leave();
});

test("changes of a list are shown at once, and taken back if they are refused", async () => {
  client = connect({ url: proxy.url });
  const store = storesOf(client).list({ includeArchived: true, limit: 500 });
  const unarchived = storesOf(client).list({ limit: 500 });
  const leaves = [store, unarchived].map((list) => list.subscribe(() => {}));
  await until("the lists", () => [store, unarchived].every((list) => !list.getSnapshot().isLoading));
  const { threadId } = await store.createThread({ name: "before" });
  const of = (list: ThreadListStore) => list.getSnapshot().threads.find((thread) => thread.threadId === threadId);
  await until("the thread in both", () => of(unarchived));
  proxy.stall();
  const renamed = store.renameThread(threadId, "after");
  expect(of(store)?.name).toBe("after");
  const archived = unarchived.archiveThread(threadId);
  expect(of(unarchived)).toBeUndefined();
  expect(of(store)?.archived).toBe(false);
  proxy.resume();
  await Promise.all([renamed, archived]);
  await until("the archive in the other list", () => of(store)?.archived);
  expect(of(store)?.name).toBe("after");
  expect(of(unarchived)).toBeUndefined();
  const tooLong = store.renameThread(threadId, "x".repeat(100_000));
  expect(of(store)?.name).toHaveLength(100_000);
  await expect(tooLong).rejects.toThrow();
  expect(of(store)?.name).toBe("after");

  // The read marker of a thread that is shown.
  await write(server, threadId);
  const thread = storesOf(client).thread(threadId);
  leaves.push(thread.subscribe(() => {}));
  const tail = () => of(store)?.tail;
  await until("the messages", () => !thread.getSnapshot().isLoading && !thread.getSnapshot().isRunning && tail());
  await until("the end of the run", () => of(store)?.activeRun === null);
  expect(of(store)?.readSeq).toBe(0);
  proxy.stall();
  const marked = thread.markRead();
  await until("the marker", () => of(store)?.readSeq === tail());
  proxy.resume();
  await marked;
  proxy.stall();
  const deleted = store.deleteThread(threadId);
  expect(of(store)).toBeUndefined();
  proxy.resume();
  await deleted;
  for (const leave of leaves) leave();
});

test("after a snapshot that replaces a long thread there are no older messages to load", async () => {
  client = connect({ url: server.url });
  const threadId = await makeThread(server);
  const said = Array.from({ length: MESSAGES_PAGE + 10 }, (_, index) => ({
    id: `m${index}`,
    role: "user" as const,
    content: "x",
  }));
  const put = (runId: string, event: NewEvent) =>
    client.thread(threadId).putRun(runId, [{ type: "RUN_STARTED", threadId, runId }, event]);
  const long = { threadId, runId: "long" };
  await client
    .thread(threadId)
    .putRun(long.runId, [{ type: "RUN_STARTED", ...long, input: { ...long, messages: said } }]);
  const store = storesOf(client).thread(threadId);
  const leave = store.subscribe(() => {});
  await until("the newest messages", () => !store.getSnapshot().isLoading);
  expect(store.getSnapshot().hasMoreMessages).toBe(true);
  // Requested at the very moment when no older messages exist any more.
  const asked: Promise<void>[] = [];
  store.subscribe(() => {
    if (store.getSnapshot().messages.length === 1) asked.push(store.fetchMoreMessages());
  });
  await put("short", { type: "MESSAGES_SNAPSHOT", messages: [{ id: "z", role: "user", content: "only" }] });
  await until("the snapshot", () => asked.length > 0 && !store.getSnapshot().hasMoreMessages);
  await Promise.all(asked);
  expect(store.getSnapshot()).toMatchObject({ error: null, messages: [{ id: "z" }] });
  leave();
});

test("a store opens with its first listener, and discards everything after its last", async () => {
  client = connect({ url: server.url });
  const threadId = await makeThread(server);
  await write(server, threadId);
  const stores = storesOf(client);
  const store = stores.thread(threadId);
  expect(stores.thread(threadId)).toBe(store);
  const [one, two] = [vi.fn(), vi.fn()];
  const leave = store.subscribe(one);
  store.subscribe(two)();
  await until("the messages", () => store.getSnapshot().messages.length === 1);
  expect(one).toHaveBeenCalled();
  expect(two).not.toHaveBeenCalled();
  leave();
  leave();
  // Unsubscribed and resubscribed at once, as in StrictMode: the store is the same one.
  store.subscribe(one)();
  const open = () => openStore(client!, THREADS, { threadId });
  expect(open()).toBe(store);
  await until("it to close", () => open() === undefined);
  expect(store.getSnapshot()).toMatchObject({ messages: [], isLoading: true });
  await until("nothing to be followed", () => client.status.state === "idle");
});

test("a key without a user has no feed, but shows threads", async () => {
  const guarded = await Server.start({ apiKey: "the-operator-of-the-tests" });
  try {
    client = connect({ url: guarded.url, apiKey: "the-operator-of-the-tests" });
    const threadId = await makeThread(guarded, undefined, "anna");
    const store = storesOf(client).thread(threadId);
    const leave = store.subscribe(() => {});
    await write(guarded, threadId, { user: "anna" });
    const shown = () => store.getSnapshot().run?.status === "finished" && !store.getSnapshot().isLoading;
    await until("the run", shown, store.getSnapshot);
    expect(store.getSnapshot().error).toBeNull();
    leave();
  } finally {
    await guarded.end();
  }
});

test("a list's window equals the server's list after any changes in any order", () => {
  client = connect({ url: server.url });
  const random = new Random();
  const make = (id: number): Thread => {
    const at = `2026-01-01T00:00:0${random.below(10)}.000Z`;
    return {
      threadId: `t${id}`,
      archived: random.chance(0.2),
      agentId: random.pick(["a", "b"]),
      updatedAt: at,
      lastRunAt: random.chance(0.5) ? at : null,
    } as Thread;
  };
  for (let round = 0; round < 200; round += 1) {
    const filter = random.pick([{}, { includeArchived: true }, { agentId: "a" }]);
    const all = new Map(random.list(30, (id) => [`t${id}`, make(id)] as [string, Thread]));
    const list = () =>
      [...all.values()]
        .filter(
          ({ archived, agentId }) => (filter.includeArchived || !archived) && (!filter.agentId || agentId === "a"),
        )
        .sort(compare);
    const first = list().slice(0, 10);
    let window = { threads: first as readonly Thread[], hasMore: list().length > 10 };
    for (let change = 0; change < 20; change += 1) {
      const threadId = `t${random.below(32)}`;
      const thread = random.chance(0.2) ? null : { ...make(0), threadId };
      // A thread that has been shown stays, wherever it moves: only threads after the last one are left out.
      if (thread && window.threads.some((shown) => shown.threadId === threadId) && isBeyond(window, filter, thread))
        continue;
      if (thread) all.set(threadId, thread);
      else all.delete(threadId);
      window = {
        ...window,
        threads: withEntry(window, filter, { cursor: change, type: thread ? "upsert" : "delete", threadId, thread }),
      };
      const last = window.threads.at(-1);
      const expected = list().filter((thread) => !window.hasMore || (last && compare(thread, last) <= 0));
      expect(window.threads, `seed ${random.seed}`).toEqual(expected);
    }
    expect(withPage(window, list())).toEqual(list());
  }
});

test("the list of a user who was erased and came back starts anew", async () => {
  client = connect({ url: proxy.url });
  const store = new ThreadListStore(client, new Feed(client), {});
  const leave = store.subscribe(() => {});
  await until("the list", () => !store.getSnapshot().isLoading);
  const { userId } = await store.createThread({ name: "of the erased" });
  proxy.stall();
  await server.request("DELETE", `/v1/users/${userId}`);
  const threadId = await makeThread(server);
  // The new feed gives more positions than the old one had.
  for (let n = 0; n < 10; n += 1) {
    await server.request("PATCH", `/v1/threads/${threadId}`, { body: { name: `renamed ${n}` } });
  }
  proxy.cut();
  proxy.resume();
  const shown = () => store.getSnapshot().threads.map(({ name }) => name);
  await until("the new list alone", () => shown().join() === "renamed 9", shown);
  leave();
});
