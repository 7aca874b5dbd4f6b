// Pages whose requests are answered by an intermediary, or refused by the server itself.

import "./dom.js";
import { setTimeout as sleep } from "node:timers/promises";
import { cleanup } from "@testing-library/react";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { ProblemError, Threadline, type ThreadlineOptions } from "../../src/index.js";
import { Proxy } from "../harness/proxy.js";
import { Server } from "../harness/server.js";
import { until } from "../harness/until.js";
import { makeThread, write } from "../harness/writer.js";
import { connect, listPage, names, said, threadPage } from "./page.js";

const API_KEY = "the-operator-of-the-tests";
const HTML = "<html>Something went wrong</html>";

let server: Server;
let proxy: Proxy;
beforeAll(async () => {
  server = await Server.start({ apiKey: API_KEY });
});
afterAll(async () => {
  await server?.end();
});

let user: string;
let number = 0;
const clients: Threadline[] = [];
beforeEach(async () => {
  user = `user-${(number += 1)}`;
  proxy = await Proxy.start(server);
});
afterEach(() => {
  cleanup();
  for (const client of clients.splice(0)) client.close();
  proxy.end();
});

function client(options: Partial<ThreadlineOptions> = {}): Threadline {
  const made = connect({ url: proxy.url, apiKey: API_KEY, user, ...options });
  clients.push(made);
  return made;
}

function answer(status: number, body = HTML, type = "text/html"): string {
  return `HTTP/1.1 ${status} Whatever\r\ncontent-type: ${type}\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`;
}

/** Waits until further requests were made. */
async function tries(): Promise<void> {
  const before = proxy.requests.length;
  await until("more tries", () => proxy.requests.length >= before + 3);
}

/** A thread with a message in it. */
async function thread(): Promise<string> {
  const threadId = `thread-of-${user}`;
  await makeThread(server, threadId, user);
  await new Threadline({ url: server.url, apiKey: API_KEY, user }).thread(threadId).rename("one");
  await write(server, threadId, { user, deltas: 3 });
  return threadId;
}

describe("a response that is not Threadline's", () => {
  test.each([
    ["500", answer(500)],
    ["404", answer(404)],
    ["403", answer(403)],
    ["401", answer(401)],
    ["200", answer(200)],
    ["500 with foreign JSON", answer(500, '{"type":"error","title":"Oh"}', "application/json")],
  ])("keeps a page loading only while it lasts: %s", async (_, instead) => {
    const threadId = await thread();
    proxy.instead = instead;
    const one = client();
    const [list, page] = [listPage(one), threadPage(one, threadId)];
    await list.until("the error", ({ error }) => error);
    await page.until("the error", ({ error }) => error);
    await tries();
    for (const { now } of [list, page]) expect(now).toMatchObject({ isLoading: true, error: expect.any(Error) });
    expect(proxy.requests.length).toBeLessThan(40);
    proxy.instead = undefined;
    await list.until("the list", ({ isLoading }) => !isLoading);
    await page.until("the thread", ({ isLoading }) => !isLoading);
    expect(list.now).toMatchObject({ error: null });
    expect(names(list.now)).toEqual(["one"]);
    expect(page.now).toMatchObject({ error: null, thread: { name: "one" } });
    expect(said(page.now)).toHaveLength(1);
    // Both continue live.
    await list.do(({ renameThread }) => renameThread(threadId, "two"));
    await page.until("the name", (now) => now.thread?.name === "two");
  });

  test.each([["websocket"], ["sse"], ["long-poll"]] as const)("does not end a subscription over %s", async (way) => {
    const threadId = await thread();
    const one = client({ transports: [way] });
    const [list, page] = [listPage(one), threadPage(one, threadId)];
    await list.until("the list", ({ isLoading }) => !isLoading);
    await page.until("the thread", ({ isLoading, status }) => !isLoading && status.state === "live");
    proxy.instead = answer(500);
    proxy.cut();
    await page.until("the trouble", ({ status }) => status.state === "reconnecting");
    await tries();
    proxy.instead = undefined;
    await write(server, threadId, { user, deltas: 3 });
    await page.until("what was said", (now) => said(now).length === 2 && now.status.state === "live");
    await list.do(({ renameThread }) => renameThread(threadId, "two"));
    expect(names(list.now)).toEqual(["two"]);
  });

  test("is retried only for mounted pages", async () => {
    proxy.instead = answer(500);
    const one = client();
    const [list, page] = [listPage(one), threadPage(one, "t")];
    await list.until("the error", ({ error }) => error);
    await page.until("the error", ({ error }) => error);
    list.leave();
    page.leave();
    await sleep(100);
    const { length } = proxy.requests;
    await sleep(1_000);
    expect(proxy.requests).toHaveLength(length);
  });
});

describe("a refusal by Threadline", () => {
  test("is final: the page stops loading, and the error stays", async () => {
    const one = client({ apiKey: "another key" });
    const [list, page] = [listPage(one), threadPage(one, "t")];
    for (const each of [list, page]) {
      await each.until("the end", ({ isLoading }: { isLoading: boolean }) => !isLoading);
      expect(each.now).toMatchObject({ isLoading: false, error: expect.any(ProblemError) });
      expect(each.now.error).toMatchObject({ slug: "unauthorized" });
    }
    // The thread's page has one more request to make.
    await sleep(300);
    const { length } = proxy.requests;
    await sleep(1_000);
    expect(proxy.requests).toHaveLength(length);
    expect(list.now).toMatchObject({ threads: [], isLoading: false, hasMoreThreads: false });
  });
});
