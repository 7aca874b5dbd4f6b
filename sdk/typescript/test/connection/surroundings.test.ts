import { afterEach, expect, test, vi } from "vitest";
import { server, useServer } from "../harness/served.js";
import { until } from "../harness/until.js";
import { log, makeThread, write } from "../harness/writer.js";
import { behind } from "./network.js";
import { expectExactly, Reader, statuses } from "./reader.js";

useServer();
afterEach(() => void vi.unstubAllGlobals());

/** Globals of a page. */
function page(onLine = true) {
  const target = new EventTarget();
  const document = Object.assign(new EventTarget(), { visibilityState: "visible" });
  const navigator = { onLine };
  vi.stubGlobal("document", document);
  vi.stubGlobal("navigator", navigator);
  vi.stubGlobal("addEventListener", target.addEventListener.bind(target));
  return {
    tell: (online: boolean) => {
      navigator.onLine = online;
      target.dispatchEvent(new Event(online ? "online" : "offline"));
    },
    look: () => document.dispatchEvent(new Event("visibilitychange")),
  };
}

test("offline and online again: reconnects immediately, and no event is missing", async () => {
  const { tell } = page();
  const threadId = await makeThread(server);
  await write(server, threadId);
  const [client, proxy] = await behind(server);
  const seen = statuses(client);
  const reader = new Reader(client, threadId);
  await until("live", () => reader.count("caughtUp") === 1);
  tell(false);
  expect(client.status).toEqual({ state: "offline" });
  await until("no connection", () => proxy.open() === 0);
  await write(server, threadId);
  tell(true);
  const all = await log(server, threadId);
  await until("all of it", () => reader.events.length >= all.length);
  expectExactly(reader.events, all);
  expect(seen.map(({ state }) => state)).toEqual(["idle", "connecting", "live", "offline", "connecting", "live"]);
});

test("on another network with fewer restrictions, the best transport is used again", async () => {
  const { tell } = page();
  const threadId = await makeThread(server);
  const [client, proxy] = await behind(server, {}, (proxy) => {
    proxy.upgrade = "refuse";
    proxy.cutStreamsAt = "event: hello";
  });
  const reader = new Reader(client, threadId);
  const connected = (transport: string) =>
    until(
      transport,
      () => client.status.state === "live" && client.status.transport === transport,
      () => [client.status, proxy.requests],
    );
  await connected("long-poll");
  tell(false);
  proxy.cutStreamsAt = undefined;
  tell(true);
  await connected("sse");
  tell(false);
  proxy.upgrade = "pass";
  tell(true);
  await connected("websocket");
  await write(server, threadId);
  const all = await log(server, threadId);
  await until("all of it", () => reader.events.length >= all.length);
  expectExactly(reader.events, all);
});

test("offline from the start: no attempt is made before a network is available", async () => {
  const { tell } = page(false);
  const threadId = await makeThread(server);
  const [client, proxy] = await behind(server);
  const reader = new Reader(client, threadId);
  await until("offline", () => client.status.state === "offline");
  expect(proxy.requests).toEqual([]);
  tell(true);
  await until("live", () => reader.count("caughtUp") === 1);
});

test("a page that becomes visible reconnects immediately, or checks its connection", async () => {
  const { look } = page();
  const threadId = await makeThread(server);
  const [client, proxy] = await behind(server);
  const reader = new Reader(client, threadId);
  await until("live", () => reader.count("caughtUp") === 1);
  proxy.refuse = true;
  proxy.cut();
  await until("a wait", () => client.status.state === "reconnecting" && client.status.nextRetryAt !== null);
  proxy.refuse = false;
  look();
  // In progress, without waiting.
  expect(client.status).toMatchObject({ state: "reconnecting", nextRetryAt: null });
  await until("live", () => client.status.state === "live");
  // A working connection is kept; one that does not respond is replaced long before its heartbeats count as missed.
  look();
  await write(server, threadId);
  const all = await log(server, threadId);
  await until("what comes behind its answer", () => reader.events.length === all.length);
  const before = reader.count("reconnecting");
  proxy.stall();
  look();
  await until("the end of it", () => reader.count("reconnecting") > before);
  proxy.cut();
  proxy.resume();
  await until("live", () => client.status.state === "live");
});
