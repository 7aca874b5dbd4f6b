// The queue of a thread in hooks: what waits is shown by every page, and never twice or not at all.

import "./dom.js";
import { cleanup } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import { isProblem, type TransportName } from "../../src/index.js";
import type { UseThread } from "../../src/react/index.js";
import { closedAfterEach } from "../harness/served.js";
import { proxy, server, useProxiedServer } from "../harness/proxied.js";
import { until } from "../harness/until.js";
import { makeThread } from "../harness/writer.js";
import { connect, type ThreadPage, threadPage } from "./page.js";

useProxiedServer();

const clients = closedAfterEach(cleanup);

/** A page of its own, as on another device. */
async function open(threadId: string, transport: TransportName = "websocket", url = server.url): Promise<ThreadPage> {
  const client = connect({ url, transports: [transport] });
  clients.push(client);
  const page = threadPage(client, threadId, { agentId: "demo" });
  await page.until("the thread", ({ isLoading, status }) => !isLoading && status.state === "live");
  return page;
}

/** A thread with an active run, which the test ends. */
async function busy(): Promise<[threadId: string, end: () => Promise<unknown>]> {
  const threadId = await makeThread(server);
  const runs = `/v1/threads/${threadId}/runs`;
  await server.request("POST", runs, { body: { runId: "active", leaseSeconds: 60 } });
  return [threadId, () => server.request("POST", `${runs}/active/finish`)];
}

const waiting = ({ queue }: UseThread) => queue.items.map(({ messages }) => String(messages[0]?.content));
const asked = ({ messages }: UseThread) =>
  messages.filter(({ role }) => role === "user").map(({ content }) => String(content));

/** Waits until a page shows these turns. */
const shows = (page: ThreadPage, ...texts: string[]) =>
  page.until(`the turns ${texts.join(", ")}`, (now) => JSON.stringify(waiting(now)) === JSON.stringify(texts));

const turn = ({ queue }: UseThread, text: string) =>
  queue.items.find(({ messages }) => messages[0]?.content === text)!.runId;

describe.each<TransportName>(["websocket", "sse", "long-poll"])("over %s", (transport) => {
  test("every page shows what waits, and any of them may change it", async () => {
    const [threadId] = await busy();
    const [one, other] = [await open(threadId, transport), await open(threadId, transport)];
    expect(one.now.queue).toEqual({ version: 0, held: null, items: [] });
    for (const text of ["a", "b", "c"]) {
      const { run, queued } = await one.now.send(text, { busy: "enqueue" });
      expect(run).toBeUndefined();
      // A page shows its own turn as soon as it is queued.
      await one.do(async () => {});
      expect(one.now.queue.items.at(-1)?.runId).toBe(queued?.runId);
    }
    await shows(other, "a", "b", "c");
    await other.do((now) => now.moveTurn(turn(now, "c"), turn(now, "a")));
    expect(waiting(other.now)).toEqual(["c", "a", "b"]);
    await shows(one, "c", "a", "b");
    await one.do((now) => now.editTurn(turn(now, "a"), "a, but better"));
    expect(waiting(one.now)).toEqual(["c", "a, but better", "b"]);
    await shows(other, "c", "a, but better", "b");
    await other.do((now) => now.removeTurn(turn(now, "c")));
    expect(waiting(other.now)).toEqual(["a, but better", "b"]);
    await shows(one, "a, but better", "b");
    await one.do((now) => now.holdQueue());
    expect(one.now.queue.held).toBe("hand");
    await other.until("the hold", ({ queue }) => queue.held === "hand");
    await other.do((now) => now.releaseQueue());
    await one.until("the release", ({ queue }) => queue.held === null);
    for (const page of [one, other]) expect(page.now.queue.version).toBeGreaterThan(6);
    await one.do((now) => now.startTurn(turn(now, "b")));
    await other.until("the stop", ({ run }) => run?.status === "stopping");
    await shows(other, "b", "a, but better");
  });

  test("a turn is in the queue or in the conversation, at every moment", async () => {
    const [threadId, end] = await busy();
    const pages = [await open(threadId, transport), await open(threadId, transport)];
    const texts = ["one", "two"];
    for (const text of texts) await pages[0]!.do((now) => now.send(text, { busy: "enqueue" }));
    for (const page of pages) await shows(page, ...texts);
    const from = pages.map(({ seen }) => seen.length);
    await end();
    for (const page of pages) await page.until("all of it", (now) => asked(now).length === 2);
    for (const [index, page] of pages.entries()) {
      const counts = page.seen.slice(from[index]).map((now) => [...asked(now), ...waiting(now)].sort().join());
      expect(new Set(counts)).toEqual(new Set([[...texts].sort().join()]));
    }
  });
});

test("a turn that has begun is shown so, and cannot be changed", async () => {
  const [threadId, end] = await busy();
  const page = await open(threadId);
  await page.do((now) => now.send("soon", { busy: "enqueue" }));
  const runId = turn(page.now, "soon");
  await end();
  await page.until("the run", ({ run }) => run?.runId === runId);
  const { editTurn, removeTurn } = page.now;
  for (const change of [() => editTurn(runId, "later"), () => removeTurn(runId)]) {
    const refused = await change().catch((error: unknown) => error);
    expect(isProblem(refused, "turn-begun")).toBe(true);
  }
  // The run has begun, as the user wants.
  await page.do((now) => now.startTurn(runId));
  expect(page.now.error).toBeNull();
});

test("a message to a busy thread is refused by default, and comes first if it interrupts", async () => {
  const [threadId] = await busy();
  const page = await open(threadId);
  expect(isProblem(await page.now.send("now").catch((error: unknown) => error), "run-active")).toBe(true);
  await page.do((now) => now.send("then", { busy: "enqueue" }));
  await page.do((now) => now.send("now", { busy: "interrupt" }));
  expect(waiting(page.now)).toEqual(["now", "then"]);
  await page.until("the stop", ({ run }) => run?.status === "stopping");
});

test("a queue that became empty while the page was away is not shown any more", async () => {
  const [threadId] = await busy();
  const page = await open(threadId, "websocket", proxy.url);
  await page.do((now) => now.send("gone", { busy: "enqueue" }));
  const runId = turn(page.now, "gone");
  proxy.refuse = true;
  proxy.cut();
  await page.until("the break", ({ status }) => status.state !== "live");
  await server.request("DELETE", `/v1/threads/${threadId}/queue/${runId}`);
  proxy.refuse = false;
  await shows(page);
});

test("a thread that is created again has another queue", async () => {
  const [threadId] = await busy();
  const page = await open(threadId);
  await page.do((now) => now.send("old", { busy: "enqueue" }));
  await server.request("DELETE", `/v1/threads/${threadId}`);
  await page.until("the deletion", ({ thread, queue }) => thread === null && queue.items.length === 0);
  await makeThread(server, threadId);
  await page.until("the new thread", ({ thread }) => thread !== null);
  await until("nothing to wait", () => page.now.queue.items.length === 0);
});
