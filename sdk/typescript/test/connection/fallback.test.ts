import { describe, expect, test } from "vitest";
import type { Threadline } from "../../src/index.js";
import { server, useServer } from "../harness/served.js";
import type { Proxy } from "../harness/proxy.js";
import { until } from "../harness/until.js";
import { log, makeThread, write } from "../harness/writer.js";
import { behind } from "./network.js";
import { expectExactly, Reader } from "./reader.js";

useServer();

async function expectAll(client: Threadline, threadId: string): Promise<Reader> {
  const reader = new Reader(client, threadId);
  await until(
    "live",
    () => reader.count("caughtUp") === 1,
    () => [reader.error, client.status],
  );
  await write(server, threadId);
  const all = await log(server, threadId);
  await until("all of it", () => reader.events.length >= all.length);
  expectExactly(reader.events, all);
  return reader;
}

describe.concurrent("a network that blocks some transports", () => {
  test("without a WebSocket in this environment events arrive over SSE", async ({ onTestFinished: finished }) => {
    const threadId = await makeThread(server);
    const [client] = await behind(server, { WebSocket: undefined as never }, undefined, finished);
    expect(globalThis.WebSocket).toBeUndefined();
    await expectAll(client, threadId);
    expect(client.status).toEqual({ state: "live", transport: "sse" });
  });

  test("a proxy that refuses WebSockets: SSE, and a WebSocket again on another network", async ({
    onTestFinished: finished,
  }) => {
    const threadId = await makeThread(server);
    const [client, proxy] = await behind(server, {}, (proxy) => (proxy.upgrade = "refuse"), finished);
    await expectAll(client, threadId);
    expect(client.status).toEqual({ state: "live", transport: "sse" });
    expect(proxy.requests.filter((request) => request === "GET /v1/socket")).toHaveLength(2);
    // The client remembers the working transport when it connects again.
    proxy.cut();
    await until("the break", () => client.status.state !== "live");
    await until("live", () => client.status.state === "live");
    expect(client.status).toEqual({ state: "live", transport: "sse" });
  });

  test("a proxy that swallows WebSockets: SSE", async ({ onTestFinished: finished }) => {
    const threadId = await makeThread(server);
    const [client] = await behind(server, {}, (proxy) => (proxy.upgrade = "swallow"), finished);
    await expectAll(client, threadId);
    expect(client.status).toEqual({ state: "live", transport: "sse" });
  });

  test("a proxy that buffers streams: long-polls", async ({ onTestFinished: finished }) => {
    const threadId = await makeThread(server);
    const [client] = await behind(
      server,
      { transports: ["sse", "long-poll"] },
      (proxy) => (proxy.bufferStreams = true),
      finished,
    );
    await expectAll(client, threadId);
    expect(client.status).toEqual({ state: "live", transport: "long-poll" });
  });

  const answer = (status: string) =>
    `HTTP/1.1 ${status}\r\ncontent-type: text/html\r\ncontent-length: 4\r\nconnection: close\r\n\r\nnone`;
  test.each<[string, Partial<Proxy>]>([
    ["answers 502", { insteadOfStreams: answer("502 Bad Gateway") }],
    ["answers 403", { insteadOfStreams: answer("403 Forbidden") }],
    ["answers with a page", { insteadOfStreams: answer("200 OK") }],
    ["buffers them", { bufferStreams: true }],
    ["cuts them after their head", { cutStreamsAt: "HTTP/1.1 200" }],
    ["cuts them after the first event", { cutStreamsAt: "event: hello" }],
    ["cuts them when they are live", { cutStreamsAt: "event: caught_up" }],
  ])("a proxy that refuses WebSockets, and %s for streams: long-polls", async (_, streams) => {
    const threadId = await makeThread(server);
    await write(server, threadId);
    let end = () => {};
    const prepare = (proxy: Proxy) => Object.assign(proxy, { upgrade: "refuse", ...streams });
    const [client, proxy] = await behind(server, {}, prepare, (ended) => (end = ended));
    const reader = new Reader(client, threadId);
    await until(
      "long-polls",
      () => client.status.state === "live" && client.status.transport === "long-poll" && reader.count("caughtUp") > 0,
      () => [reader.error, client.status, proxy.requests],
    );
    await write(server, threadId);
    const all = await log(server, threadId);
    await until("all of it", () => reader.events.length >= all.length);
    expectExactly(reader.events, all);
    expect(reader.error).toBeUndefined();
    // Neither transport is tried more often than necessary.
    expect(proxy.requests.filter((request) => request === "GET /v1/socket")).toHaveLength(2);
    end();
  });

  test("a client over SSE waits for an unreachable server", async ({ onTestFinished: finished }) => {
    const threadId = await makeThread(server);
    const [client, proxy] = await behind(server, { transports: ["sse", "long-poll"] }, undefined, finished);
    const reader = new Reader(client, threadId);
    await until("live", () => reader.count("caughtUp") === 1);
    // Like a proxy that responds to every request while its server is unreachable.
    proxy.instead = answer("502 Bad Gateway");
    proxy.cut();
    await until("some tries", () => reader.count("reconnecting") >= 3);
    proxy.instead = undefined;
    await until("live", () => client.status.state === "live");
    expect(client.status).toEqual({ state: "live", transport: "sse" });
  });

  test("a server that is not Threadline", async ({ onTestFinished: finished }) => {
    const [client] = await behind(server, { url: `${server.url}/elsewhere` }, undefined, finished);
    const reader = new Reader(client, "t");
    await until(
      "the refusal",
      () => reader.error,
      () => client.status,
    );
    expect(reader.error).toMatchObject({ status: 404 });
    expect(client.status.state).toBe("failed");
  });

  test("a client waits for an unreachable server on the best transport", async ({ onTestFinished: finished }) => {
    const threadId = await makeThread(server);
    const [client, proxy] = await behind(server, {}, (proxy) => (proxy.refuse = true), finished);
    const reader = new Reader(client, threadId);
    await until("some tries", () => reader.count("reconnecting") >= 3);
    proxy.refuse = false;
    await until("live", () => reader.count("caughtUp") === 1);
    expect(client.status).toEqual({ state: "live", transport: "websocket" });
  });

  test("only WebSockets are allowed, and none is available", async ({ onTestFinished: finished }) => {
    const [client] = await behind(
      server,
      { WebSocket: undefined as never, transports: ["websocket"] },
      undefined,
      finished,
    );
    const reader = new Reader(client, "t");
    await until("the error", () => reader.error);
    expect(reader.error).toMatchObject({ name: "ConfigError" });
  });
});
