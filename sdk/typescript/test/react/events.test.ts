// Tests which events useThreadEvents passes on.

import "./dom.js";
import { cleanup } from "@testing-library/react";
import { expect, test } from "vitest";
import type { ThreadEvent } from "../../src/index.js";
import { type EventFilter, useThread, useThreadEvents, type UseThread } from "../../src/react/index.js";
import { closedAfterEach } from "../harness/served.js";
import { proxy, server, useProxiedServer } from "../harness/proxied.js";
import { until } from "../harness/until.js";
import { log, makeThread, write } from "../harness/writer.js";
import { connect, Page } from "./page.js";

useProxiedServer();

const clients = closedAfterEach(cleanup);

interface Heard {
  readonly seq: number;
  readonly event: ThreadEvent;
}

/** A page, with the events that its listener has received. */
class Listening extends Page<{ threadId: string; filter: EventFilter }, UseThread> {
  readonly heard: Heard[];

  constructor(threadId: string, filter: EventFilter = {}) {
    const client = connect({ url: proxy.url });
    clients.push(client);
    const heard: Heard[] = [];
    const use = (props: { threadId: string; filter: EventFilter }) => {
      // New objects in each render do not subscribe again.
      useThreadEvents(props.threadId, { ...props.filter }, (event, { seq }) => heard.push({ seq, event }));
      return useThread(props.threadId, { agentId: "demo" });
    };
    super(client, use, { threadId, filter });
    this.heard = heard;
  }

  live(): Promise<UseThread> {
    return this.until("everything that is stored", ({ isLoading, status }) => !isLoading && status.state === "live");
  }
}

/** The events of the log after `seq`. */
async function logged(threadId: string, seq: number): Promise<Heard[]> {
  return (await log(server, threadId))
    .filter((event) => event.seq > seq)
    .map(({ seq, event }) => ({ seq, event: event as ThreadEvent }));
}

test("each event is passed once, in order, across reconnects, and none of those that were stored before", async () => {
  const threadId = await makeThread(server);
  await write(server, threadId, { deltas: 5 });
  const before = (await log(server, threadId)).length;
  const page = new Listening(threadId);
  await page.live();
  let cuts = 0;
  const cut = () => {
    if ((cuts += 1) % 8 === 0) proxy.cut();
    return false;
  };
  await write(server, threadId, { deltas: 200, batch: 5, paceMs: 5, stop: cut });
  const events = await logged(threadId, before);
  await until("the last event", () => page.heard.at(-1)?.seq === events.at(-1)?.seq);
  expect(cuts).toBeGreaterThan(30);
  expect(page.heard).toEqual(events);
});

test("a thread that begins while it is shown is passed from its first event, however fast its run ends", async () => {
  const threadId = crypto.randomUUID();
  const page = new Listening(threadId);
  await page.until("an empty thread", ({ isLoading }) => !isLoading);
  await makeThread(server, threadId);
  const events = [{ type: "RUN_STARTED" }, { type: "CUSTOM", name: "a", value: 1 }, { type: "RUN_FINISHED" }];
  await server.request("PUT", `/v1/threads/${threadId}/runs/fast`, { body: events });
  await until(
    "its events",
    () => page.heard.length === 3,
    () => page.heard,
  );
  expect(page.heard).toEqual(await logged(threadId, 0));
});

test("events that are read again, because older messages are needed, are not passed again", async () => {
  const threadId = await makeThread(server);
  // More messages than a page loads.
  const messages = Array.from({ length: 600 }, (_, at) => ({ id: `m${at}`, role: "user", content: `said ${at}` }));
  const put = (runId: string, events: object[]) =>
    server.request("PUT", `/v1/threads/${threadId}/runs/${runId}`, { body: events });
  await put("old", [{ type: "MESSAGES_SNAPSHOT", messages }]);
  const before = (await log(server, threadId)).length;
  const page = new Listening(threadId);
  await page.live();
  expect(page.now.hasMoreMessages).toBe(true);
  await put("one", [{ type: "CUSTOM", name: "a", value: 1 }]);
  await put("two", [{ type: "MESSAGES_SNAPSHOT", messages: [...messages, { id: "new", role: "user", content: "!" }] }]);
  await put("three", [{ type: "CUSTOM", name: "b", value: 2 }]);
  await page.until("all messages", ({ messages }) => messages.length === 601);
  const events = await logged(threadId, before);
  await until("the last event", () => page.heard.at(-1)?.seq === events.at(-1)?.seq);
  expect(page.heard).toEqual(events);
});

test("a filter passes the types and names that it has; after a change, others", async () => {
  const threadId = await makeThread(server);
  const page = new Listening(threadId, { types: ["RUN_FINISHED"], names: ["progress"] });
  await page.live();
  const run = async (runId: string) => {
    const customs = ["progress", "other"].map((name) => ({ type: "CUSTOM", name, value: runId }));
    await server.request("PUT", `/v1/threads/${threadId}/runs/${runId}`, {
      body: [{ type: "RUN_STARTED" }, ...customs, { type: "RUN_FINISHED" }],
    });
    await page.until("its end", (now) => now.run?.runId === runId && now.run.status === "finished");
    return page.heard.splice(0).map(({ event }) => ("name" in event ? event.name : event.type));
  };
  expect(await run("one")).toEqual(["progress", "RUN_FINISHED"]);
  page.show({ threadId, filter: { names: ["other"] } });
  await new Promise(setImmediate);
  expect(await run("two")).toEqual(["other"]);
  page.leave();
  await until("nothing to be followed", () => clients[0]!.status.state === "idle");
});
