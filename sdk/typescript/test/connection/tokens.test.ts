import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import type { Threadline, ThreadlineOptions } from "../../src/index.js";
import { Proxy } from "../harness/proxy.js";
import { Server } from "../harness/server.js";
import { sign } from "../harness/token.js";
import { until } from "../harness/until.js";
import { log, makeThread, write } from "../harness/writer.js";
import { connect, expectExactly, Reader, statuses, TRANSPORTS } from "./reader.js";

const HOURS = 3_600;
/** What the server grants for clocks that differ, in seconds. */
const LEEWAY = 10;

let server: Server;
let secret: string;
let proxy: Proxy;
beforeAll(async () => {
  server = await Server.start({ apiKey: "the-operator-of-the-tests" });
  secret = await server.cli("projects", "renew-secret", "default");
  proxy = await Proxy.start(server);
});
afterAll(async () => {
  proxy?.end();
  await server?.end();
});

afterEach(() => void vi.useRealTimers());

const clients: Threadline[] = [];
function open(options: Omit<ThreadlineOptions, "url">): Threadline {
  const client = connect({ url: proxy.url, ...options });
  clients.push(client);
  return client;
}
afterEach(() => {
  for (const client of clients.splice(0)) client.close();
});

/** The true time in seconds, whatever `Date` says. */
const now = () => (performance.timeOrigin + performance.now()) / 1_000;

/** A callback that gets a fresh token, and how often it was called. */
function source(make: () => { iat?: number; exp: number }) {
  const token = vi.fn(async () => sign(secret, { sub: "anna", ...make() }));
  return token;
}

async function written(): Promise<string> {
  const threadId = await makeThread(server, undefined, "anna");
  await write(server, threadId, { user: "anna" });
  return threadId;
}

/** Follows until so many tokens have been used; ends with exactly the log. */
async function expectThrough(
  client: Threadline,
  token: { mock: { calls: unknown[] } },
  tokens: number,
): Promise<Reader> {
  const threadId = await written();
  const reader = new Reader(client, threadId);
  let done = false;
  const writing = write(server, threadId, { user: "anna", deltas: 1_000, batch: 1, paceMs: 20, stop: () => done });
  await until(
    "the last token",
    () => token.mock.calls.length >= tokens,
    () => [reader.error, client.status],
  );
  done = true;
  await writing;
  const all = await log(server, threadId, "anna");
  await until(
    "all of it",
    () => reader.events.length >= all.length,
    () => [reader.error, reader.events.length, all.length],
  );
  expectExactly(reader.events, all);
  expect(reader.error).toBeUndefined();
  return reader;
}

test.each([0, -2 * HOURS, 2 * HOURS])("tokens of 2 s are renewed ahead; the clock here is %i s off", async (skew) => {
  vi.useFakeTimers({ toFake: ["Date"], now: (now() + skew) * 1_000 });
  const each = TRANSPORTS.map(async (transport) => {
    // The backend's clock is off as well.
    const token = source(() => ({ iat: Math.floor(now() + 2 * HOURS), exp: Math.floor(now() + 2 * HOURS) + 2 }));
    const client = open({ token, transports: [transport] });
    const seen = statuses(client);
    const reader = await expectThrough(client, token, skew === 0 ? 3 : 2);
    // Nothing was lost, nothing waited for.
    expect(reader.count("reconnecting"), transport).toBe(0);
    expect(seen.map(({ state }) => state)).not.toContain("reconnecting");
  });
  await Promise.all(each);
});

test("a token that is over is asked for again", async () => {
  const each = TRANSPORTS.map(async (transport) => {
    // Without iat it cannot be known when it ends. Long enough that a busy machine uses each before its end.
    const token = source(() => ({ exp: now() - LEEWAY + 3 }));
    await expectThrough(open({ token, transports: [transport] }), token, 3);
  });
  await Promise.all(each);
});

describe.each(TRANSPORTS)("over %s", (transport) => {
  test("a token that stays wrong is asked for once more, and then that is final", async () => {
    const threadId = await written();
    const token = vi.fn(() => sign("another secret", { sub: "anna", exp: now() + HOURS }));
    const client = open({ token, transports: [transport] });
    const reader = new Reader(client, threadId);
    await until(
      "the refusal",
      () => reader.error,
      () => client.status,
    );
    expect(reader.error).toMatchObject({ slug: "unauthorized", status: 401 });
    expect(client.status).toMatchObject({ state: "failed", error: { slug: "unauthorized" } });
    expect(token).toHaveBeenCalledTimes(2);
    // Whoever follows afterwards tries again.
    token.mockImplementation(() => sign(secret, { sub: "anna", exp: now() + HOURS }));
    const again = new Reader(client, threadId);
    await until(
      "live",
      () => again.count("caughtUp") === 1,
      () => [again.error, client.status],
    );
    expect(token).toHaveBeenCalledTimes(3);
  });

  test("a token that cannot be renewed is final at once", async () => {
    const threadId = await written();
    const client = open({ token: sign(secret, { sub: "anna", exp: now() - LEEWAY + 1 }), transports: [transport] });
    const reader = new Reader(client, threadId);
    await until(
      "the end of it",
      () => reader.error,
      () => client.status,
    );
    expect(reader.error).toMatchObject({ slug: "unauthorized", status: 401 });
  });

  test("a callback that fails is called again", async () => {
    const threadId = await written();
    const token = vi.fn(() => sign(secret, { sub: "anna", exp: now() + HOURS }));
    token.mockImplementationOnce(() => {
      throw new Error("no network");
    });
    const client = open({ token, transports: [transport] });
    const reader = new Reader(client, threadId);
    await until(
      "live",
      () => reader.count("caughtUp") === 1,
      () => [reader.error, client.status],
    );
    expect(reader.items[0]).toMatchObject({ type: "reconnecting" });
  });
});

test("a key with a user, which no WebSocket of a browser can say, opens a socket by a ticket", async () => {
  const threadId = await written();
  const client = open({ apiKey: server.apiKey!, user: "anna", transports: ["websocket"] });
  const reader = new Reader(client, threadId);
  await until(
    "live",
    () => reader.count("caughtUp") === 1,
    () => [reader.error, client.status],
  );
  expectExactly(reader.events, await log(server, threadId, "anna"));
  expect(proxy.requests.some((request) => /^GET \/v1\/socket\?ticket=/.test(request))).toBe(true);
  const other = open({ apiKey: server.apiKey!, user: "bert", transports: ["websocket"] });
  const stranger = new Reader(other, threadId);
  await until("the refusal", () => stranger.error);
  expect(stranger.error).toMatchObject({ slug: "thread-not-found" });
});
