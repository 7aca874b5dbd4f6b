// The queue of a thread, against the real server: what waits, how it is changed, and what followers receive.

import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import {
  isProblem,
  type PlacedTurn,
  type Queue,
  type QueueState,
  type StartedRun,
  type ThreadlineOptions,
  type ThreadRef,
} from "../src/index.js";
import { connect, Reader, TRANSPORTS } from "./connection/reader.js";
import { caught } from "./harness/caught.js";
import { closedAfterEach, server, useServer } from "./harness/served.js";
import { until } from "./harness/until.js";
import { epochOf, makeThread } from "./harness/writer.js";

useServer();

const clients = closedAfterEach();

const client = (options: Partial<ThreadlineOptions> = {}) => {
  const made = connect({ url: server.url, ...options });
  clients.push(made);
  return made;
};

/** A thread with an active run, which the test ends. */
async function busy(options: Partial<ThreadlineOptions> = {}): Promise<[thread: ThreadRef, end: () => Promise<void>]> {
  const threadId = await makeThread(server);
  const runs = `/v1/threads/${threadId}/runs`;
  await server.request("POST", runs, { body: { runId: "active", leaseSeconds: 60 } });
  const end = () => server.request<void>("POST", `${runs}/active/finish`);
  return [client(options).thread(threadId), end];
}

const said = (content: string) => ({ messages: [{ id: `m-${content}`, role: "user", content } as const] });
const asks = (thread: ThreadRef, runId: string, busy: "enqueue" | "interrupt" = "enqueue") =>
  thread.start({ runId, agentId: "demo", input: said(runId), busy });
const ids = ({ items }: Queue) => items.map(({ runId }) => runId);

/** A network that loses the response to the first request of this kind. */
function losing(method: string, path: RegExp): { fetch: typeof fetch; sent: () => number } {
  let sent = 0;
  const lossy: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    if (init?.method !== method || !path.test(String(input))) return response;
    sent += 1;
    if (sent > 1) return response;
    await response.arrayBuffer();
    throw new TypeError("the connection broke");
  };
  return { fetch: lossy, sent: () => sent };
}

describe("a request for a run", () => {
  test("in a free thread begins it, whatever it says of a busy one", async () => {
    const thread = client().thread(await makeThread(server));
    const { run, queued }: StartedRun | PlacedTurn = await asks(thread, "r");
    expect(run).toMatchObject({ runId: "r", status: "running" });
    expect(queued).toBeUndefined();
    expect((await thread.queue.get()).items).toEqual([]);
  });

  test("in a busy thread is refused, waits, or comes first and stops the active run", async () => {
    const [thread] = await busy();
    const refused = await caught(thread.start({ agentId: "demo", input: said("a"), busy: "reject" }));
    expect(isProblem(refused, "run-active") && refused.problem["run"]).toMatchObject({ runId: "active" });
    expect(await asks(thread, "a")).toEqual({ queued: { runId: "a", place: 1, version: 1 } });
    expect(await asks(thread, "b")).toEqual({ queued: { runId: "b", place: 2, version: 2 } });
    expect((await thread.get()).activeRun?.stopRequested).toBe(false);
    expect(await asks(thread, "c", "interrupt")).toMatchObject({ queued: { runId: "c", place: 1 } });
    expect((await thread.get()).activeRun?.stopRequested).toBe(true);

    const queue = await thread.queue.get();
    expect(ids(queue)).toEqual(["c", "a", "b"]);
    expect(queue.items[1]).toEqual({
      runId: "a",
      agentId: "demo",
      askedBy: "development",
      at: queue.items[1]?.at,
      messages: said("a").messages,
    });
    expect(await thread.runRecord("b")).toMatchObject({ runId: "b", status: "queued", place: 3 });
    expect(await thread.get()).toMatchObject({ queued: 3, held: null });
  });

  test("finds its turn, and then its run, if it is repeated; another one with its id is refused", async () => {
    const [thread, end] = await busy();
    const first = await asks(thread, "a");
    expect(await asks(thread, "a")).toEqual(first);
    const other = thread.start({ runId: "a", agentId: "demo", input: said("other"), busy: "enqueue" });
    expect(isProblem(await caught(other), "run-exists")).toBe(true);
    await end();
    await until("its first event", async () => (await thread.events({ runId: "a" }).catch(() => null))?.events.length);
    expect((await asks(thread, "a")).run).toMatchObject({ runId: "a" });
  });

  test("that is repeated after a lost response waits once", async () => {
    const network = losing("POST", /\/runs(\?|$)/);
    const [thread] = await busy({ fetch: network.fetch });
    expect(await asks(thread, "a")).toMatchObject({ queued: { runId: "a", place: 1 } });
    expect(network.sent()).toBe(2);
    expect(ids(await thread.queue.get())).toEqual(["a"]);
  });

  test("for which there is no room is refused at once", async () => {
    let sent = 0;
    const counting: typeof fetch = (input, init) => {
      sent += 1;
      return fetch(input, init);
    };
    const [thread] = await busy({ fetch: counting });
    for (let turn = 0; turn < 32; turn += 1) await asks(thread, `t${turn}`);
    sent = 0;
    expect(isProblem(await caught(asks(thread, "one-more")), "queue-full")).toBe(true);
    expect(sent).toBe(1);
  });
});

describe("the queue", () => {
  test("is edited, ordered and emptied", async () => {
    const [thread, end] = await busy();
    for (const runId of ["a", "b", "c"]) await asks(thread, runId);
    expect(ids(await thread.queue.edit("c", { before: "a" }))).toEqual(["c", "a", "b"]);
    expect(ids(await thread.queue.edit("c", { before: null }))).toEqual(["a", "b", "c"]);
    const { version } = await thread.queue.get();
    const edited = await thread.queue.edit("b", { input: said("changed"), version });
    expect(edited.items[1]?.messages).toEqual(said("changed").messages);
    const stale = await caught(thread.queue.edit("b", { input: said("again"), version }));
    expect(isProblem(stale, "queue-changed") && stale.problem["version"]).toBe(version + 1);
    await thread.queue.remove("a");
    // A turn that is not there is removed already.
    await thread.queue.remove("a");
    expect(isProblem(await caught(thread.queue.edit("a", { before: null })), "turn-not-found")).toBe(true);
    await end();
    await until("the first run", async () => (await thread.runRecord("b")).status !== "queued");
    const { queue } = thread;
    for (const change of [() => queue.remove("b"), () => queue.start("b"), () => queue.edit("b", { before: null })]) {
      const begun = await caught(change());
      expect(isProblem(begun, "turn-begun") && begun.problem["run"]).toMatchObject({ runId: "b" });
    }
  });

  test("rests after a stop or when it is held, until it is released", async () => {
    const [thread, end] = await busy();
    await asks(thread, "a");
    await asks(thread, "b");
    expect(await thread.queue.hold()).toMatchObject({ held: "hand" });
    await end();
    expect(await thread.get()).toMatchObject({ activeRun: null, queued: 2, held: "hand" });
    expect(await thread.queue.release()).toMatchObject({ held: null, items: [{ runId: "b" }] });
    await thread.stop("a");
    expect(await thread.queue.get()).toMatchObject({ held: "stop", items: [{ runId: "b" }] });
    // A turn that is started releases the queue.
    expect(await thread.queue.start("b")).toMatchObject({ held: null });
    await until("the run", async () => (await thread.runRecord("b")).status !== "queued");
  });

  test("is changed by the same call again after a lost response, unless that names a version", async () => {
    const threadId = (await busy())[0].threadId;
    const lossy = (method: string, path: RegExp) => client({ fetch: losing(method, path).fetch }).thread(threadId);
    const thread = client().thread(threadId);
    for (const runId of ["a", "b", "c"]) await asks(thread, runId);
    await lossy("DELETE", /queue/).queue.remove("a");
    expect(ids(await lossy("PATCH", /queue/).queue.edit("c", { before: "b" }))).toEqual(["c", "b"]);
    const { version } = await thread.queue.get();
    const unsure = await caught(lossy("PATCH", /queue/).queue.edit("c", { before: null, version }));
    expect(isProblem(unsure, "queue-changed")).toBe(true);
    expect(ids(await thread.queue.get())).toEqual(["b", "c"]);
  });

  test("of a thread that was created again since is not changed", async () => {
    const [thread] = await busy();
    const epoch = await epochOf(server, thread.threadId);
    await thread.delete();
    await makeThread(server, thread.threadId);
    expect(isProblem(await caught(thread.queue.hold({ epoch })), "log-replaced")).toBe(true);
    expect(isProblem(await caught(thread.queue.edit("a", { before: null, epoch })), "log-replaced")).toBe(true);
  });
});

describe("followers", () => {
  const states = (reader: Reader): QueueState[] =>
    reader.items.flatMap((item) => (item.type === "queue" ? [item] : [])).map(({ type: _, ...state }) => state);

  test.each(["websocket", "sse"] as const)("are told of the queue over %s", async (transport) => {
    const [thread, end] = await busy({ transports: [transport] });
    const epoch = await epochOf(server, thread.threadId);
    await asks(thread, "a");
    const reader = new Reader(clients[0]!, thread.threadId);
    const newest = (state: Omit<QueueState, "epoch">) =>
      until(
        JSON.stringify(state),
        () => JSON.stringify(states(reader).at(-1)) === JSON.stringify({ epoch, ...state }),
        () => states(reader),
      );
    await newest({ version: 1, queued: 1, held: null });
    await asks(thread, "b");
    await newest({ version: 2, queued: 2, held: null });
    await thread.queue.hold();
    await newest({ version: 3, queued: 2, held: "hand" });
    await thread.queue.release();
    await thread.queue.remove("b");
    await newest({ version: 5, queued: 1, held: null });
    await end();
    await newest({ version: 6, queued: 0, held: null });
    await until("the run", () => reader.events.some(({ runId }) => runId === "a"));
    expect(reader.items.find(({ type }) => type === "queue")).toBe(
      reader.items[reader.items.findIndex(({ type }) => type === "caughtUp") + 1],
    );
  });

  test("receive no queue over long-polls: the feed has its size", async () => {
    const [thread] = await busy({ transports: ["long-poll"] });
    const { feedCursor: after, feedEpoch: epoch } = await clients[0]!.threads.list();
    const reader = new Reader(clients[0]!, thread.threadId);
    await until("live", () => reader.count("caughtUp") === 1);
    await asks(thread, "a");
    await thread.queue.hold();
    for await (const item of clients[0]!.feed({ after, epoch })) {
      // The user has other threads, whose changes may come with this one.
      const changes = item.type === "entries" ? item.entries.map((entry) => entry.thread) : [];
      const held = changes.find((change) => change?.threadId === thread.threadId && change.held === "hand");
      if (!held) continue;
      expect(held.queued).toBe(1);
      break;
    }
    expect(reader.count("queue")).toBe(0);
  });

  test.each(TRANSPORTS)("of a run that has not begun are refused over %s", async (transport) => {
    const [thread] = await busy({ transports: [transport] });
    await asks(thread, "a");
    const reader = new Reader(clients[0]!, thread.threadId, { runId: "a" });
    await until("the refusal", () => reader.error);
    expect(isProblem(reader.error, "run-not-found")).toBe(true);
  });
});

test("lists show what waits", async () => {
  const user = randomUUID();
  const threadline = client({ user });
  const { threadId } = await threadline.threads.create();
  await server.request("POST", `/v1/threads/${threadId}/runs`, { body: { runId: "active" }, user });
  await asks(threadline.thread(threadId), "a");
  const { threads } = await threadline.threads.list();
  expect(threads).toMatchObject([{ threadId, queued: 1, held: null }]);
});
