// Headers and reports of each request, and the options of a client about them.

import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  ConfigError,
  ConnectionError,
  type LogFields,
  type RequestReport,
  Threadline,
  ThreadlineError,
  type ThreadlineOptions,
} from "../src/index.js";
import { CLIENT } from "../src/version.js";
import { caught } from "./harness/caught.js";
import { Server } from "./harness/server.js";
import { until } from "./harness/until.js";

const TOKEN = "a-secret-key-of-these-tests";
const TEXT = "a text of a person";

let server: Server;
beforeAll(async () => {
  server = await Server.start({ apiKey: TOKEN });
});
afterAll(() => server?.end());

interface Sent {
  readonly headers: Headers;
  /** The request's id in the response; undefined if there was none. */
  readonly echoed: string | null | undefined;
}

/** A client whose first `failures` requests get no response, with all that it has sent. */
function watched(options: Partial<ThreadlineOptions> = {}, failures = 0) {
  const sent: Sent[] = [];
  const reports: RequestReport[] = [];
  const logged: [level: string, name: string, fields: LogFields][] = [];
  const client = new Threadline({
    url: server.url,
    apiKey: TOKEN,
    user: "ann",
    transports: ["sse"],
    fetch: async (address, init) => {
      const headers = new Headers(init?.headers);
      const isLost = sent.length < failures;
      const response = isLost ? undefined : await fetch(address, init);
      sent.push({ headers, echoed: response?.headers.get("x-request-id") });
      if (!response) throw new TypeError("the connection broke");
      return response;
    },
    onRequest: (report) => reports.push(report),
    logger: {
      debug: (name, fields) => logged.push(["debug", name, fields]),
      warn: (name, fields) => logged.push(["warn", name, fields]),
    },
    ...options,
  });
  return { client, sent, reports, logged };
}

test("the version is that of the package", () => {
  const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
    version: string;
  };
  expect(CLIENT).toBe(`js/${version}`);
});

describe("a request", () => {
  test("has an id, which the server answers with and an error names", async () => {
    const { client, sent, reports } = watched();
    await client.threads.create({ threadId: "named" });
    const error = await caught(client.thread("none").get());
    expect(sent.map(({ echoed }) => echoed)).toEqual(sent.map(({ headers }) => headers.get("x-request-id")));
    const [created, refused] = sent.map(({ headers }) => headers.get("x-request-id"));
    expect(created).toMatch(/^[0-9a-f]{32}$/);
    expect(error).toBeInstanceOf(ThreadlineError);
    expect((error as ThreadlineError).requestId).toBe(refused);
    for (const { headers } of sent) expect(headers.get("threadline-client")).toBe(CLIENT);
    expect(sent.map(({ headers }) => headers.get("idempotency-key"))).toEqual([created, null]);
    expect(reports).toMatchObject([
      { requestId: created, method: "POST", path: "/v1/threads", attempt: 1, status: 201, error: undefined },
      { requestId: refused, method: "GET", path: "/v1/threads/none", attempt: 1, status: 404, error },
    ]);
    client.close();
  });

  test("that is repeated has the same key and another id", async () => {
    const { client, sent, reports } = watched({}, 2);
    const { threadId } = await client.threads.create();
    const ids = sent.map(({ headers }) => headers.get("x-request-id"));
    expect(ids).toEqual([ids[0], `${ids[0]}.2`, `${ids[0]}.3`]);
    expect(sent.map(({ headers }) => headers.get("idempotency-key"))).toEqual([ids[0], ids[0], ids[0]]);
    expect(reports.map(({ attempt, status }) => [attempt, status])).toEqual([
      [1, null],
      [2, null],
      [3, 201],
    ]);
    for (const { error } of reports.slice(0, 2)) {
      expect(error).toBeInstanceOf(ConnectionError);
      expect(ids).toContain((error as ConnectionError).requestId);
    }
    expect((await client.thread(threadId).get()).threadId).toBe(threadId);
    client.close();
  });

  test("that takes too long ends after timeoutMs, and its error has its id", async () => {
    const { client, sent } = watched({
      timeoutMs: 50,
      retries: { reads: 0 },
      fetch: (_, init) => {
        sent.push({ headers: new Headers(init?.headers), echoed: undefined });
        return new Promise((_, reject) => init!.signal!.addEventListener("abort", () => reject(new Error("gone"))));
      },
    });
    const error = (await caught(client.threads.list())) as ConnectionError;
    expect(error).toBeInstanceOf(ConnectionError);
    expect(error.message).toContain("timed out");
    expect(error.requestId).toBe(sent[0]!.headers.get("x-request-id"));
    expect(() => watched({ timeoutMs: 0 })).toThrow(ConfigError);
    client.close();
  });
});

describe("headers of the application", () => {
  test("are sent with each request, and the package's own take precedence", async () => {
    let count = 0;
    const own = () => ({ "X-Count": String((count += 1)), Authorization: "Bearer another" });
    const { client, sent } = watched({ headers: own, trace: () => `00-${"a".repeat(32)}-${"b".repeat(16)}-01` });
    await client.threads.list();
    await client.agents.list();
    expect(sent.map(({ headers }) => headers.get("x-count"))).toEqual(["1", "2"]);
    expect(sent[0]!.headers.get("authorization")).toBe(`Bearer ${TOKEN}`);
    expect(sent[0]!.headers.get("traceparent")).toMatch(/^00-a{32}-b{16}-01$/);
    client.close();
    const fixed = watched({ headers: { "X-Fixed": "1" } });
    await fixed.client.threads.list();
    expect(fixed.sent[0]!.headers.get("x-fixed")).toBe("1");
    fixed.client.close();
    expect(() => watched({ headers: { "not a name": "1" } })).toThrow(ConfigError);
  });

  test("that are not there yet are asked for again", async () => {
    let asked = 0;
    const { client, sent } = watched({
      headers: async () => {
        asked += 1;
        if (asked === 1) throw new Error("not yet");
        return { "X-Later": "1" };
      },
    });
    await client.threads.list();
    expect([asked, sent.length, sent[0]!.headers.get("x-later")]).toEqual([2, 1, "1"]);
    client.close();
  });
});

test("the log has names and fields, and neither tokens nor texts", async () => {
  const { client, logged, reports } = watched({}, 1);
  const { threadId } = await client.threads.create({ name: TEXT, metadata: { note: TEXT } });
  await client.threads.list({ search: TEXT });
  const thread = client.thread(threadId);
  await thread.start({ agentId: "demo", input: { messages: [{ role: "user", content: TEXT }] } });
  await caught(client.thread("none").get());
  const items: string[] = [];
  const followed = thread.follow({ onItem: ({ type }) => items.push(type), onError: () => {} });
  await until("live", () => items.includes("caughtUp"));
  followed.close();
  client.close();
  expect(logged.map(([level, name, { error }]) => [level, name, error])).toEqual(
    expect.arrayContaining([
      ["warn", "request", "ConnectionError"],
      ["debug", "request", undefined],
      ["warn", "request", "thread-not-found"],
      ["debug", "connection", undefined],
    ]),
  );
  const all = JSON.stringify([logged, reports.map(({ error: _, ...report }) => report)]);
  for (const secret of [TOKEN, TEXT, encodeURIComponent(TEXT), TEXT.replaceAll(" ", "+")]) {
    expect(all).not.toContain(secret);
  }
});

test("an option that throws harms no request", async () => {
  const thrown: unknown[] = [];
  const before = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  process.on("uncaughtException", (error) => thrown.push(error.message));
  const fail = (name: string) => () => {
    throw new Error(name);
  };
  try {
    const logger = { debug: fail("debug"), warn: fail("warn") };
    const { client } = watched({ onRequest: fail("onRequest"), trace: fail("trace"), logger });
    expect((await client.threads.list()).threads).toBeInstanceOf(Array);
    // The status changes as well.
    client.close();
    await until("what was thrown", () => thrown.length >= 4);
    expect(thrown.toSorted()).toEqual(["debug", "debug", "onRequest", "trace"]);
  } finally {
    process.removeAllListeners("uncaughtException");
    for (const listener of before) process.on("uncaughtException", listener);
  }
});

test("following needs a listener for errors", () => {
  const { client } = watched();
  const onItem = () => {};
  expect(() => client.thread("t").follow({ onItem } as never)).toThrow("onError is missing");
  expect(() => client.followFeed({ onItem } as never)).toThrow(ConfigError);
  client.close();
});
