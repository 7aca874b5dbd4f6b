import { Threadline } from "threadline";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { Server } from "../../../sdk/typescript/test/harness/server.js";
import { until } from "../../../sdk/typescript/test/harness/until.js";
import { log as events, makeThread, write } from "../../../sdk/typescript/test/harness/writer.js";
import { ThreadLog } from "../../src/inspector/log/thread-log.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let server: Server;
let client: Threadline;
beforeAll(async () => {
  server = await Server.start();
  client = new Threadline({ url: server.url });
});
afterAll(async () => {
  client?.close();
  await server?.end();
});

async function opened(threadId: string): Promise<ThreadLog> {
  const log = new ThreadLog(client, threadId);
  log.subscribe(() => {});
  await until("the log", () => log.getSnapshot().state !== "loading", log.getSnapshot);
  return log;
}

test("appended events and their runs are available", async () => {
  const threadId = await makeThread(server);
  await write(server, threadId, { runId: "a", deltas: 5 });
  const log = await opened(threadId);
  const { tail } = log.getSnapshot();
  expect(tail).toBe(9);
  const seqs: number[] = [];
  log.onBatches((batches) => batches.forEach(({ seq, events }) => events.forEach((_, at) => seqs.push(seq + at))));
  await write(server, threadId, { runId: "b", deltas: 500, batch: 25 });
  await until("the end", () => log.getSnapshot().tail === 513, log.getSnapshot);
  expect(seqs).toEqual(Array.from({ length: 504 }, (_, at) => at + 10));
  const all = await events(server, threadId);
  expect(log.pages.peek(513)).toEqual(all[512]);
  await until("the second run’s end", () => log.runs.get("b")?.status === "finished");
  expect(log.runs.getSnapshot().runs.map(({ runId }) => runId)).toEqual(["b", "a"]);
});

test("a deleted thread is reported as deleted; a missing one is found once it exists", async () => {
  const threadId = await makeThread(server);
  await write(server, threadId, { deltas: 5 });
  const log = await opened(threadId);
  await client.thread(threadId).delete();
  await until("the end", () => log.getSnapshot().state === "deleted", log.getSnapshot);
  log.again();
  await until("nothing", () => log.getSnapshot().state === "missing", log.getSnapshot);
  await makeThread(server, threadId);
  log.again();
  await until("the new one", () => log.getSnapshot().state === "ready", log.getSnapshot);
  expect(log.getSnapshot()).toMatchObject({ tail: 0, error: null });
});

test("another log that replaces the shown one is shown, and reported", async () => {
  const threadId = await makeThread(server);
  await write(server, threadId, { deltas: 500, batch: 100 });
  let refusals = 1;
  const answering: typeof fetch = async (input, init) => {
    const isPage = /\/events\?.*limit=/.test(String(input));
    if (!isPage || refusals === 0) return fetch(input, init);
    refusals -= 1;
    const type = `${server.url}/problems/log-replaced`;
    return new Response(JSON.stringify({ type, title: "Replaced", status: 410 }), { status: 410 });
  };
  const failing = new Threadline({ url: server.url, fetch: answering });
  const log = new ThreadLog(failing, threadId);
  log.subscribe(() => {});
  await until("the log", () => log.getSnapshot().state === "ready", log.getSnapshot);
  const { pages, moments } = log;
  pages.want(1);
  await until("the other log", () => log.getSnapshot().replaced === 1 && log.getSnapshot().state === "ready");
  expect(log.pages).not.toBe(pages);
  expect(log.moments).not.toBe(moments);
  log.pages.want(1);
  await until("its events", () => log.pages.peek(1));
  expect(log.getSnapshot()).toMatchObject({ replaced: 1, error: null, tail: 504 });
  failing.close();
});

test("events that cannot be read are reported, and read on the next request", async () => {
  const threadId = await makeThread(server);
  await write(server, threadId, { deltas: 20 });
  let isBroken = true;
  const answering: typeof fetch = async (input, init) => {
    const isPage = /\/events\?.*limit=/.test(String(input));
    if (!isPage || !isBroken) return fetch(input, init);
    return new Response(JSON.stringify({ type: "x/internal", title: "Broken", status: 500 }), { status: 500 });
  };
  const failing = new Threadline({ url: server.url, fetch: answering });
  const log = new ThreadLog(failing, threadId);
  log.subscribe(() => {});
  await until("the log", () => log.getSnapshot().state === "ready", log.getSnapshot);
  log.pages.want(1);
  await until("the failure", () => log.getSnapshot().error !== null);
  expect(log.getSnapshot()).toMatchObject({ state: "ready", error: { slug: "internal" } });
  isBroken = false;
  log.retry();
  await until("its events", () => log.pages.peek(1));
  expect(log.getSnapshot().error).toBeNull();
  failing.close();
});
