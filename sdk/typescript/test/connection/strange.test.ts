// Responses of intermediaries, after a Threadline server has responded.

import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { WebSocket as NodeSocket, WebSocketServer } from "ws";
import { backoff } from "../../src/backoff.js";
import { isProblem, type ThreadlineError, type WebSocketClass } from "../../src/index.js";
import { POLL_PAUSE_MS, RETRY_AFTER_MAX_MS } from "../../src/limits.js";
import { server, useServer } from "../harness/served.js";
import { Server } from "../harness/server.js";
import { until } from "../harness/until.js";
import { log, makeThread, write } from "../harness/writer.js";
import { behind } from "./network.js";
import { connect, expectExactly, Reader, TRANSPORTS } from "./reader.js";

useServer();

const response = (status: string, type: string, body: string, more = "") =>
  `HTTP/1.1 ${status}\r\ncontent-type: ${type}\r\ncontent-length: ${body.length}\r\n${more}connection: close\r\n\r\n${body}`;
const PORTAL = response("302 Found", "text/html", "", "location: http://hotel.example/\r\n");
const PAGE = response("200 OK", "text/html", "<h1>We will be right back</h1>");
const EMPTY = response("200 OK", "application/json", "{}");

describe.concurrent("an intermediary responds for a while", () => {
  const cases = TRANSPORTS.flatMap((transport) =>
    Object.entries({ PORTAL, PAGE, EMPTY }).map(([name, answer]) => [transport, name, answer] as const),
  );

  test.each(cases)("%s: %s, and the subscription continues", async (transport, _, answer) => {
    const threadId = await makeThread(server);
    let end = () => {};
    const [client, proxy] = await behind(server, { transports: [transport] }, undefined, (ended) => (end = ended));
    const reader = new Reader(client, threadId);
    await until("live", () => reader.count("caughtUp") === 1);
    proxy.instead = answer;
    proxy.cut();
    const before = proxy.requests.length;
    await until("tries", () => proxy.requests.length >= before + 2);
    await write(server, threadId);
    proxy.instead = undefined;
    const all = await log(server, threadId);
    await until(
      "all of it",
      () => reader.events.length >= all.length,
      () => [reader.error, client.status],
    );
    expectExactly(reader.events, all);
    expect(reader.error).toBeUndefined();
    end();
  });

  test("a call is retried, too", async () => {
    let end = () => {};
    const [client, proxy] = await behind(server, {}, undefined, (ended) => (end = ended));
    await client.threads.list();
    for (const answer of [PORTAL, PAGE]) {
      proxy.instead = answer;
      proxy.cut();
      const before = proxy.requests.length;
      const list = client.threads.list();
      await until("tries", () => proxy.requests.length >= before + 2);
      proxy.instead = undefined;
      expect((await list).threads).toBeInstanceOf(Array);
    }
    end();
  });
});

test("empty pages that arrive immediately are followed by a pause", async () => {
  const threadId = await makeThread(server);
  const [client, proxy] = await behind(server, { transports: ["long-poll"] });
  const { epoch } = await client.thread(threadId).get();
  const empty = { threadId, epoch, tail: 0, nextCursor: "c1.n", hasMore: false, events: [] };
  proxy.instead = response("200 OK", "application/json", JSON.stringify(empty));
  proxy.cut();
  const begun = performance.now();
  const before = proxy.requests.length;
  new Reader(client, threadId);
  await until("some pages", () => proxy.requests.length >= before + 3);
  await sleep(POLL_PAUSE_MS / 2);
  // The first request has no pause before it; the one after each pause may have been sent.
  const pauses = (performance.now() - begun) / POLL_PAUSE_MS;
  expect(proxy.requests.length - before).toBeLessThanOrEqual(2 + pauses);
});

test("a requested delay is honored up to a limit", () => {
  expect(backoff(1, 0, 2_000)).toBe(2_000);
  expect(backoff(1, 0, 9_999_999_000)).toBe(RETRY_AFTER_MAX_MS);
  expect(backoff(1, 0, -5)).toBe(0);
});

test("a close code without a preceding frame is evaluated", async () => {
  const listener = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  let opened = 0;
  listener.on("connection", (socket) => {
    opened += 1;
    socket.send(JSON.stringify({ welcome: { protocol: "threadline.v1", heartbeatSeconds: 15 } }));
    socket.close(4501, "credential-over");
  });
  await new Promise((resolve) => listener.once("listening", resolve));
  const { port } = listener.address() as { port: number };
  let asked = 0;
  const token = () => `token${(asked += 1)}`;
  const client = connect({ url: `http://127.0.0.1:${port}`, token, transports: ["websocket"] });
  const error = await new Promise<ThreadlineError>((resolve) => {
    client.thread("t").follow({ onItem: () => {}, onError: resolve });
  });
  expect(isProblem(error, "unauthorized")).toBe(true);
  expect([asked, opened]).toEqual([2, 2]);
  client.close();
  listener.close();
});

test("a page whose origin is not allowed is told so", async () => {
  const apiKey = "the-operator-of-the-tests";
  const guarded = await Server.start({ apiKey, args: ["--allowed-origins", "https://listed.example"] });
  class PageSocket extends NodeSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols, { origin: "https://page.example" });
    }
  }
  const WebSocket = PageSocket as unknown as WebSocketClass;
  const client = connect({ url: guarded.url, apiKey, transports: ["websocket"], WebSocket });
  const error = await new Promise<ThreadlineError>((resolve) => {
    client.thread("t").follow({ onItem: () => {}, onError: resolve });
  });
  expect(error.message).toMatch(/4503 .*origin https:\/\/page\.example is not in --allowed-origins/);
  expect(error.retryable).toBe(false);
  client.close();
  await guarded.end();
});
