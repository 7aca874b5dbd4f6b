import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import type { Threadline, ThreadlineOptions } from "../../src/index.js";
import { Proxy } from "../harness/proxy.js";
import { Server } from "../harness/server.js";
import { sign } from "../harness/token.js";
import { until } from "../harness/until.js";
import { log, makeThread, write } from "../harness/writer.js";
import { connect, expectExactly, Reader, statuses, TRANSPORTS } from "./reader.js";

const HOURS = 3_600;
/** The server's tolerance for clock differences, in seconds. */
const LEEWAY = 30;

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

/** The true time in seconds, independent of a mocked `Date`. */
const now = () => (performance.timeOrigin + performance.now()) / 1_000;

/** A callback that returns a fresh token and counts its calls. */
function source(make: () => { iat?: number; exp: number }) {
  const token = vi.fn(async () => sign(secret, { sub: "anna", ...make() }));
  return token;
}

async function written(): Promise<string> {
  const threadId = await makeThread(server, undefined, "anna");
  await write(server, threadId, { user: "anna" });
  return threadId;
}

/** Follows until this number of tokens has been used, and expects exactly the log. */
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

test.each([0, -2 * HOURS, 2 * HOURS])("tokens of 2 s are renewed early; the local clock is %i s off", async (skew) => {
  vi.useFakeTimers({ toFake: ["Date"], now: (now() + skew) * 1_000 });
  const each = TRANSPORTS.map(async (transport) => {
    // The backend's clock is off as well, as far as the server accepts it: a later `iat` would escape a sign-out.
    const token = source(() => ({ iat: Math.floor(now()) + 8, exp: Math.floor(now()) + 10 }));
    const client = open({ token, transports: [transport] });
    const seen = statuses(client);
    const reader = await expectThrough(client, token, skew === 0 ? 3 : 2);
    // No event was lost, and there was no delay.
    expect(reader.count("reconnecting"), transport).toBe(0);
    expect(seen.map(({ state }) => state)).not.toContain("reconnecting");
  });
  await Promise.all(each);
});

test("an expired token is renewed", async () => {
  const each = TRANSPORTS.map(async (transport) => {
    // Without iat the expiry is unknown. The lifetime is long enough for a busy machine to use each token before its
    // expiry.
    const token = source(() => ({ exp: now() - LEEWAY + 3 }));
    await expectThrough(open({ token, transports: [transport] }), token, 3);
  });
  await Promise.all(each);
});

describe.each(TRANSPORTS)("over %s", (transport) => {
  test("an invalid token is renewed once, and a second refusal is final", async () => {
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
    // A later subscription tries again.
    token.mockImplementation(() => sign(secret, { sub: "anna", exp: now() + HOURS }));
    const again = new Reader(client, threadId);
    await until(
      "live",
      () => again.count("caughtUp") === 1,
      () => [again.error, client.status],
    );
    expect(token).toHaveBeenCalledTimes(3);
  });

  test("the refusal of a token that cannot be renewed is final", async () => {
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

  test("a failing callback is called again", async () => {
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

test("a key with a user, which a browser's WebSocket cannot send, opens a socket with a ticket", async () => {
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
