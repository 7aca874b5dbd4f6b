import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  ConfigError,
  ConnectionError,
  isProblem,
  isUnread,
  type NewEvent,
  ProblemError,
  Threadline,
  ThreadlineError,
  type ThreadStatus,
} from "../src/index.js";
import { caught } from "./harness/caught.js";
import { Proxy } from "./harness/proxy.js";
import { Server } from "./harness/server.js";
import { until } from "./harness/until.js";

let server: Server;
let client: Threadline;

beforeAll(async () => {
  server = await Server.start();
  client = new Threadline({ url: server.url });
});
afterAll(() => server.end());

test("the agents to which runs can be delegated", async () => {
  expect(await client.agents.list()).toEqual([
    {
      agentId: "demo",
      kind: "demo",
      onDisconnect: "continue",
      idleTimeoutSeconds: 120,
      namesThreads: false,
      approvals: "user",
      clientMay: {
        for: "untrusted",
        history: "reference",
        system: "context",
        state: true,
        tools: true,
        results: "own",
      },
      reservedTools: [],
      record: "digest",
      recovery: "retry",
      toolsRepeatable: false,
      busy: "reject",
      origin: "built-in",
    },
  ]);
});

describe("threads", () => {
  test("a thread from its creation to its deletion", async () => {
    const made = await client.threads.create({ name: "Trips", agentId: "demo", metadata: { a: 1, b: { c: 2 } } });
    const thread = client.thread(made.threadId);
    expect(await thread.get()).toEqual(made);
    expect(made).toMatchObject({ name: "Trips", agentId: "demo", archived: false, tail: 0, activeRun: null });
    expect((await thread.rename("Journeys")).name).toBe("Journeys");
    expect((await thread.rename(null)).name).toBeNull();
    expect((await thread.update({ metadata: { b: { c: null }, d: "é" } })).metadata).toEqual({ a: 1, b: {}, d: "é" });
    expect((await thread.archive()).archived).toBe(true);
    const ids = async (includeArchived: boolean) =>
      (await client.threads.list({ includeArchived })).threads.map(({ threadId }) => threadId);
    expect(await ids(false)).not.toContain(made.threadId);
    expect(await ids(true)).toContain(made.threadId);
    expect((await thread.unarchive()).archived).toBe(false);
    await thread.delete();
    expect(isProblem(await caught(thread.get()), "thread-not-found")).toBe(true);
  });

  test("a write that names an epoch does not reach the thread that was created since", async () => {
    const old = await client.threads.create();
    const thread = client.thread(old.threadId);
    const known = { epoch: old.epoch };
    expect((await thread.rename("First", known)).name).toBe("First");
    await thread.delete(known);
    const { epoch } = await client.threads.create({ threadId: old.threadId });
    const run = { agentId: "demo", input: { messages: [{ role: "user", content: "Hello" } as const] }, ...known };
    for (const late of [() => thread.rename("Late", known), () => thread.markRead(0, known), () => thread.start(run)]) {
      const error = await caught(late());
      expect(isProblem(error, "log-replaced") && error.problem["epoch"]).toBe(epoch);
    }
    // The thread that is meant is deleted already.
    await thread.delete(known);
    await client.conversations.delete(old.threadId, known);
    expect(await thread.get()).toMatchObject({ epoch, name: null, tail: 0 });
  });

  test("a thread has a read marker", async () => {
    const { threadId, readSeq } = await client.threads.create({ agentId: "demo" });
    const thread = client.thread(threadId);
    expect(readSeq).toBe(0);
    expect(isUnread(await thread.get())).toBe(false);
    await thread.putRun("r", [{ type: "own.a" }, { type: "RUN_FINISHED", threadId, runId: "r" }]);
    expect(isUnread(await thread.get())).toBe(true);
    const marked = await thread.markRead(1);
    expect(marked).toMatchObject({ threadId, readSeq: 1, tail: 2 });
    expect(isUnread(marked)).toBe(true);
    expect(isUnread(await thread.markRead(2))).toBe(false);
    expect((await thread.markRead(1)).readSeq).toBe(2);
    expect(isProblem(await caught(thread.markRead(3)), "cursor-ahead")).toBe(true);
    // Events of an active run do not count as unread.
    await thread.run({}, async (run) => {
      await run.append([{ type: "CUSTOM", name: "own.b", value: 0 }]);
      await run.flush();
      const now = await thread.get();
      expect(now.tail).toBeGreaterThan(now.readSeq);
      expect(isUnread(now)).toBe(false);
    });
    expect(isUnread(await thread.get())).toBe(true);
  });

  test.each(["a/b?c#d%20é", "dots.", "a+b&c=d", "日本 語", "'\"`<>"])(
    "any id is sent unchanged: %s",
    async (threadId) => {
      await client.threads.create({ threadId });
      expect((await client.thread(threadId).get()).threadId).toBe(threadId);
    },
  );

  test("pages of the list", async () => {
    const user = new Threadline({ url: server.url, user: "pages" });
    for (let at = 0; at < 5; at += 1) await user.threads.create({ threadId: `page-${at}` });
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await user.threads.list({ limit: 2, ...(cursor && { cursor }), order: "created" });
      seen.push(...page.threads.map(({ threadId }) => threadId));
      cursor = page.nextCursor ?? undefined;
    } while (cursor);
    expect(seen).toEqual(["page-0", "page-1", "page-2", "page-3", "page-4"]);
  });

  test("threads by the state of their newest run", async () => {
    const user = new Threadline({ url: server.url, user: "states" });
    for (const threadId of ["idle", "runs", "failed"]) await user.threads.create({ threadId });
    const failure: NewEvent[] = [{ type: "own.a" }, { type: "RUN_ERROR", message: "no", code: "broken" }];
    await user.thread("failed").putRun("r", failure);
    const lastRuns = async (status: ThreadStatus) =>
      (await user.threads.list({ status })).threads.map(({ threadId, lastRun }) => ({ threadId, ...lastRun }));
    await user.thread("runs").run({}, async (run) => {
      await run.append([{ type: "CUSTOM", name: "own.a", value: 0 }]);
      await run.flush();
      const running = { threadId: "runs", runId: run.runId, status: "running", errorCode: null, endedAt: null };
      expect(await lastRuns("running")).toEqual([running]);
    });
    expect(await lastRuns("failed")).toMatchObject([
      { threadId: "failed", runId: "r", status: "error", errorCode: "broken" },
    ]);
    expect(await lastRuns("running")).toEqual([]);
    expect(await lastRuns("idle")).toMatchObject([{ threadId: "runs", status: "finished" }, { threadId: "idle" }]);
    const unknown = await caught(user.threads.list({ status: "busy" as ThreadStatus }));
    expect(isProblem(unknown, "invalid-request")).toBe(true);
  });

  test("the demo agent's output can be read at every seq", async () => {
    await client.threads.create({ threadId: "said" });
    const thread = client.thread("said");
    const { run } = await thread.start({
      agentId: "demo",
      input: { messages: [{ id: "q", role: "user", content: "Hi" }] },
    });
    await until("its end", async () => (await thread.runRecord(run.runId)).status === "finished");
    const { messages, seq, epoch } = await thread.messages();
    expect(messages.map(({ role }) => role).slice(0, 1)).toEqual(["user"]);
    expect(messages.at(-1)!.role).toBe("assistant");
    const { events } = await thread.events({ epoch });
    expect(events.map((event) => event.seq)).toEqual(Array.from({ length: seq }, (_, index) => index + 1));
    expect((await thread.messages({ at: 1 })).messages).toHaveLength(1);
    expect((await thread.state()).state).toBeTypeOf("object");
    expect((await thread.runs()).runs).toHaveLength(1);
  });
});

describe("errors", () => {
  test("a refusal contains the problem and the suggested fix", async () => {
    const error = (await caught(client.thread("nowhere").get())) as ProblemError;
    expect(error).toBeInstanceOf(ProblemError);
    expect(error).toBeInstanceOf(ThreadlineError);
    expect(error).toMatchObject({ slug: "thread-not-found", status: 404, retryable: false, name: "ProblemError" });
    expect(error.message).toMatch(/^Thread not found \(404 thread-not-found\).*POST \/v1\/threads/);
  });

  test("a value that cannot be sent is reported immediately", async () => {
    for (const url of ["", "localhost:7420", "ws://h", "/path"]) {
      expect(() => new Threadline({ url })).toThrow(ConfigError);
    }
    expect(() => new Threadline({ url: server.url, apiKey: "a\nb" })).toThrow(ConfigError);
    expect(() => new Threadline({ url: server.url, user: "ä" })).toThrow(ConfigError);
    expect(() => new Threadline({ url: server.url, apiKey: "k", token: "t" })).toThrow(ConfigError);
    for (const id of ["", ".", "..", "\ud800"]) {
      expect(await caught(client.thread(id).get())).toBeInstanceOf(ConfigError);
    }
  });

  test("no server", async () => {
    const nobody = new Threadline({ url: "http://127.0.0.1:9", retries: { reads: 0, writes: 0, producers: 0 } });
    const error = (await caught(nobody.threads.list())) as ConnectionError;
    expect(error).toBeInstanceOf(ConnectionError);
    expect(error.retryable).toBe(true);
    expect(error.message).toContain("127.0.0.1:9");
  });

  test("a request with a lost response is repeated, and takes effect once", async () => {
    const proxy = await Proxy.start(server);
    try {
      // The request gets through immediately, but its response takes too long.
      proxy.bytesPerSecond = 1;
      const made = new Threadline({ url: proxy.url }).threads.create({ name: "once" });
      const stored = async () =>
        (await client.threads.list({ limit: 500 })).threads.filter(({ name }) => name === "once");
      await until("the thread", async () => (await stored()).length > 0);
      proxy.bytesPerSecond = Infinity;
      expect(proxy.cut()).toBe(1);
      const { threadId } = await made;
      expect((await stored()).map((thread) => thread.threadId)).toEqual([threadId]);
      expect(proxy.requests).toHaveLength(2);
    } finally {
      proxy.end();
    }
  });

  test("an abort ends a call with its reason, also while it waits for the next attempt", async () => {
    const nobody = new Threadline({ url: "http://127.0.0.1:9" });
    const reason = new Error("enough");
    const abort = new AbortController();
    const calls = [
      nobody.threads.list({ signal: abort.signal }),
      nobody.thread("t").get({ signal: AbortSignal.abort(reason) }),
    ];
    const ended = Promise.all(calls.map(caught));
    abort.abort(reason);
    expect(await ended).toEqual([reason, reason]);
  });

  test("a redirect is not followed", async () => {
    const { createServer } = await import("node:http");
    const moved = createServer((_, response) => response.writeHead(301, { location: server.url }).end()).listen(
      0,
      "127.0.0.1",
    );
    await new Promise((resolve) => moved.once("listening", resolve));
    const { port } = moved.address() as { port: number };
    const error = await caught(new Threadline({ url: `http://127.0.0.1:${port}`, apiKey: "secret" }).threads.list());
    expect(error).toBeInstanceOf(ConfigError);
    moved.close();
  });

  test("a server that is not Threadline is recognized", async () => {
    const { createServer } = await import("node:http");
    const status = { code: 502, body: "<html>bad gateway</html>" };
    const proxy = createServer((_, response) =>
      response.writeHead(status.code, { "retry-after": "2" }).end(status.body),
    );
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    const { port } = proxy.address() as { port: number };
    const other = new Threadline({ url: `http://127.0.0.1:${port}`, retries: { reads: 0, writes: 0, producers: 0 } });
    expect(await caught(other.threads.list())).toMatchObject({
      slug: "http-502",
      retryable: true,
      retryAfterMs: 2_000,
    });
    Object.assign(status, { code: 200 });
    expect(await caught(other.threads.list())).toMatchObject({ name: "ProtocolError", retryable: false });
    proxy.close();
  });
});

describe("tokens", () => {
  test("a token is requested once, kept, and renewed when the server refuses it", async () => {
    const guarded = await Server.start({ apiKey: "the-operator-of-the-tests" });
    try {
      const { token } = await guarded.request<{ token: string }>("POST", "/v1/tokens", { body: { userId: "alice" } });
      const given = ["stale", token];
      let asked = 0;
      const alice = new Threadline({ url: guarded.url, token: async () => given[asked++] ?? token });
      const [first, second] = await Promise.all([alice.threads.list(), alice.threads.create({ name: "hers" })]);
      expect([first.threads.length >= 0, second.userId]).toEqual([true, "alice"]);
      expect(asked).toBe(2);
      await alice.threads.list();
      expect(asked).toBe(2);
      const refused = new Threadline({ url: guarded.url, token: () => "never good" });
      expect(isProblem(await caught(refused.threads.list()), "unauthorized")).toBe(true);
    } finally {
      await guarded.end();
    }
  });

  test("a failing callback is retried until the retry time is over", async () => {
    let asked = 0;
    const token = () => {
      asked += 1;
      throw new Error("the session is over");
    };
    const error = (await caught(
      new Threadline({ url: server.url, token, retries: { reads: 600 } }).threads.list(),
    )) as Error;
    expect(error).toBeInstanceOf(ConnectionError);
    expect(error.message).toContain("the session is over");
    expect(asked).toBeGreaterThan(1);
  });
});

describe("lines", () => {
  const odd = String.raw`{"type":"CUSTOM","name":"n\u00e9","value":[9007199254740993,1e400,-0,1.0],"twice":1,"twice":2,"half":"\ud83d"}`;

  test("a line contains the event byte for byte", async () => {
    const thread = client.thread((await client.threads.create()).threadId);
    const url = `${server.url}/v1/threads/${thread.threadId}/runs/r`;
    const body = `${odd}\n{"type":"B"}\n`;
    const headers = { "Content-Type": "application/x-ndjson" };
    expect((await fetch(url, { method: "PUT", body, headers })).ok).toBe(true);
    const lines: string[] = [];
    for await (const line of thread.lines()) lines.push(line);
    expect(lines.filter((line) => line.endsWith(`"event":${odd}}`))).toHaveLength(1);
    expect(lines.map((line) => (JSON.parse(line) as { seq: number }).seq)).toEqual(lines.map((_, index) => index + 1));
    const behind: string[] = [];
    const { epoch } = await thread.get();
    for await (const line of thread.lines({ after: 1, epoch, runId: "r" })) behind.push(line);
    expect(behind).toEqual(lines.slice(1));
  });

  test("leaving the iterator ends the request, and an interrupted read throws", async () => {
    const thread = client.thread((await client.threads.create()).threadId);
    const large = Array.from({ length: 64 }, (_, n) => ({ type: "own.a" as const, n, pad: "x".repeat(64 * 1024) }));
    await thread.putRun("r", large);
    const proxy = await Proxy.start(server);
    // Throttled, so that the data to be cut has not arrived yet: intermediate buffers hold megabytes.
    proxy.bytesPerSecond = 2_000_000;
    const through = new Threadline({ url: proxy.url, retries: { reads: 0, writes: 0, producers: 0 } }).thread(
      thread.threadId,
    );
    for await (const line of through.lines()) {
      expect(line).toContain('"seq":1,');
      break;
    }
    const cut = async () => {
      for await (const line of through.lines()) if (line.includes('"seq":2,')) proxy.cut();
    };
    expect(await caught(cut())).toBeInstanceOf(ConnectionError);
    proxy.end();
    const leave = new AbortController();
    leave.abort(new Error("enough"));
    const left = async () => {
      for await (const _ of thread.lines({ signal: leave.signal })) expect.unreachable();
    };
    expect(await caught(left())).toMatchObject({ message: "enough" });
    expect(isProblem(await caught(client.thread("none").lines().next()), "thread-not-found")).toBe(true);
  });
});
