import { afterAll, beforeAll, expect, test } from "vitest";
import { Proxy } from "./harness/proxy.js";
import { Server } from "./harness/server.js";
import { sign } from "./harness/token.js";
import { until } from "./harness/until.js";
import { log, makeThread, speech, write } from "./harness/writer.js";

let server: Server;
let proxy: Proxy;
beforeAll(async () => {
  server = await Server.start({ apiKey: "the-operator-of-the-tests" });
  proxy = await Proxy.start(server);
});
afterAll(async () => {
  proxy?.end();
  await server?.end();
});

test("a writer continues while the server is killed, and its events are stored once", async () => {
  const threadId = await makeThread(server, undefined, "anna");
  const writing = write(server, threadId, { user: "anna", runId: "r", deltas: 60, batch: 3, paceMs: 2 });
  await until("some events", async () => (await log(server, threadId, "anna")).length > 10);
  await server.kill();
  await server.restart();
  await writing;
  const events = await log(server, threadId, "anna");
  expect(events.map(({ event }) => event)).toEqual(speech(threadId, "r", 60));
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
});

test("a token signed with the project's secret authenticates a user", async () => {
  const secret = await server.cli("projects", "renew-secret", "default");
  const token = sign(secret, { sub: "bert", exp: Date.now() / 1_000 + 60 });
  const made = await server.request<{ userId: string }>("POST", "/v1/threads", { token, body: {} });
  expect(made.userId).toBe("bert");
});

test("the proxy refuses, stalls, throttles, buffers streams and cuts", async () => {
  const headers = { authorization: `Bearer ${server.apiKey}` };
  const get = (path: string, more = {}) => fetch(proxy.url + path, { headers: { ...headers, ...more } });
  proxy.refuse = true;
  await expect(get("/readyz")).rejects.toThrow();
  proxy.refuse = false;

  proxy.stall();
  let answered = false;
  const late = get("/readyz").then((response) => {
    answered = true;
    return response.text();
  });
  await until("the request", () => proxy.open() > 0);
  expect(answered).toBe(false);
  proxy.resume();
  await late;

  proxy.bufferStreams = true;
  const stream = get("/v1/feed?userId=carl", { accept: "text/event-stream" });
  await until("the stream", () => proxy.open("/v1/feed") === 1);
  proxy.cut("/v1/feed");
  await expect(stream).rejects.toThrow();
  proxy.bufferStreams = false;
  proxy.cutStreamsAt = "event: hello";
  const cut = await get("/v1/feed?userId=carl", { accept: "text/event-stream" });
  await expect(cut.text()).rejects.toThrow();
  proxy.cutStreamsAt = undefined;
  proxy.insteadOfStreams = "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
  expect((await get("/v1/feed?userId=carl", { accept: "text/event-stream" })).status).toBe(403);
  expect((await get("/readyz")).status).toBe(200);
  proxy.insteadOfStreams = undefined;

  proxy.upgrade = "refuse";
  const upgrade = { connection: "upgrade", upgrade: "websocket" };
  const { request } = await import("node:http");
  const status = await new Promise((resolve, reject) => {
    const sent = request(`${proxy.url}/v1/socket`, { headers: upgrade }, (response) => resolve(response.statusCode));
    sent.on("error", reject).end();
  });
  expect(status).toBe(403);
  proxy.upgrade = "pass";

  proxy.bytesPerSecond = 200_000;
  const before = performance.now();
  await (
    await get("/v1/openapi.json")
  )
    .arrayBuffer()
    .then(({ byteLength }) => expect(byteLength).toBeGreaterThan(200_000));
  expect(performance.now() - before).toBeGreaterThan(900);
  proxy.bytesPerSecond = Infinity;
});
