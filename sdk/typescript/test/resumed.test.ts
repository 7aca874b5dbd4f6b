// A run whose producer died, and which is resumed by another one under its id.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type AgUiEvent, NotResumed, type RunHandle, type Run, type RunOptions, Threadline } from "../src/index.js";
import { Server } from "./harness/server.js";
import { until } from "./harness/until.js";
import { log } from "./harness/writer.js";

let server: Server;
let client: Threadline;

beforeAll(async () => {
  server = await Server.start();
  client = new Threadline({ url: server.url });
});
afterAll(async () => {
  client?.close();
  await server?.end();
});

const words = Array.from({ length: 20 }, (_, index) => `${index} `);
const text = words.join("");

async function thread(): Promise<string> {
  return (await client.threads.create()).threadId;
}

/** Produces a run like a process that exits abruptly once its events are durable. */
async function dies(threadId: string, events: readonly AgUiEvent[], options: RunOptions = {}): Promise<void> {
  const process = new Threadline({ url: server.url });
  const run = process.thread(threadId).run({ runId: "run", leaseSeconds: 60, ...options }, async (run) => {
    await run.append(events);
    await run.flush();
    process.close();
    await run.flush();
  });
  await expect(run).rejects.toThrow("closed");
}

const say = (delta: string): AgUiEvent => ({ type: "TEXT_MESSAGE_CHUNK", messageId: "m", role: "assistant", delta });

/** A body that ignores earlier attempts. */
const unaware = async (run: RunHandle) => {
  for (const word of words) await run.append(say(word));
};

/** A body that continues after the stored events. */
const aware = async (run: RunHandle) => {
  const said = String(run.stored?.messages.find(({ id }) => id === "m")?.content ?? "");
  for (const word of words.slice(said.split(" ").length - 1)) await run.append(say(word));
};

async function shown(threadId: string): Promise<unknown[]> {
  return (await client.thread(threadId).messages()).messages.map(({ content }) => content);
}

const caught = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.unreachable(),
    (error: unknown) => error,
  );

describe("a resumed run", () => {
  test("does not repeat its output: its body is not called, and the error has the stored events", async () => {
    const threadId = await thread();
    await dies(threadId, words.slice(0, 10).map(say));
    let calls = 0;
    const again = client.thread(threadId).run({ runId: "run" }, (run) => ((calls += 1), unaware(run)));
    const error = (await caught(again)) as NotResumed;
    expect(error).toBeInstanceOf(NotResumed);
    expect(error).toMatchObject({ name: "NotResumed", retryable: false, run: { runId: "run", producerSeq: 10 } });
    expect(error.message).toContain('onResume: "continue"');
    expect(error.stored.messages).toEqual([{ id: "m", role: "assistant", content: words.slice(0, 10).join("") }]);
    expect(calls).toBe(0);
    expect(await log(server, threadId)).toHaveLength(10);
    // The run may be active elsewhere, so it is not ended either.
    expect((await client.thread(threadId).get()).activeRun?.runId).toBe("run");
  });

  test.each(Array.from({ length: 20 }, (_, index) => index + 1))(
    "after %i events is written once by a body that reads the stored events",
    async (count) => {
      const threadId = await thread();
      await dies(threadId, words.slice(0, count).map(say));
      const run = await client.thread(threadId).run({ runId: "run", onResume: "continue" }, async (run) => {
        expect(run.resumed).toBe(true);
        await aware(run);
      });
      expect(run.status).toBe("finished");
      expect(await shown(threadId)).toEqual([text]);
    },
  );

  test("is the same if its body repeats the same events from the first one on", async () => {
    const threadId = await thread();
    await dies(threadId, words.slice(0, 7).map(say));
    await client.thread(threadId).run({ runId: "run", producerSeq: 1 }, unaware);
    expect(await shown(threadId)).toEqual([text]);
  });

  test("is stopped if a stop was requested, and its body not called", async () => {
    const threadId = await thread();
    await dies(threadId, [say("0 ")]);
    await client.thread(threadId).stop("run");
    let calls = 0;
    const run = await client.thread(threadId).run({ runId: "run" }, () => void (calls += 1));
    expect([run.status, calls]).toEqual(["stopped", 0]);
    expect(await shown(threadId)).toEqual(["0 "]);
  });

  test("keeps its lease while its stored events are read", async () => {
    const threadId = await thread();
    await dies(threadId, words.slice(0, 10).map(say), { leaseSeconds: 2 });
    const before = ((await client.thread(threadId).runRecord("run")) as Run).leaseUntil!;
    let isHeld = true;
    const slow: typeof fetch = async (input, init) => {
      if (String(input).includes("/events?")) {
        await until(
          "a longer lease",
          async () => ((await client.thread(threadId).runRecord("run")) as Run).leaseUntil! > before,
        );
        isHeld = false;
      }
      return fetch(input, init);
    };
    const through = new Threadline({ url: server.url, fetch: slow });
    const run = await through.thread(threadId).run({ runId: "run", onResume: "continue" }, aware);
    through.close();
    expect([run.status, isHeld]).toEqual(["finished", false]);
    expect(await shown(threadId)).toEqual([text]);
  });
});

describe("the stored conversation", () => {
  test("has the run's messages, on the state with which it started", async () => {
    const threadId = await thread();
    const before = { messages: [{ id: "old", role: "user", content: "before" }] };
    await client.thread(threadId).putRun("before", [
      { type: "RUN_STARTED", threadId, runId: "before", input: before },
      { type: "STATE_SNAPSHOT", snapshot: { steps: [1], kept: true } },
    ]);
    const input = { messages: [{ id: "u", role: "user", content: "go on" }] };
    await dies(threadId, [
      { type: "RUN_STARTED", threadId, runId: "run", input },
      { type: "STATE_DELTA", delta: [{ op: "add", path: "/steps/-", value: 2 }] },
      { type: "TOOL_CALL_START", toolCallId: "c", toolCallName: "f", parentMessageId: "m" },
    ]);
    await client.thread(threadId).run({ runId: "run", onResume: "continue" }, ({ stored }) => {
      expect(stored?.state).toEqual({ steps: [1, 2], kept: true });
      expect(stored?.messages.map(({ id }) => id)).toEqual(["u", "m"]);
      expect(stored?.pendingToolCallIds).toEqual(["c"]);
    });
  });

  test("is empty for a new run, also if the first response to its start was lost", async () => {
    let lost = 0;
    const lossy: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      if (!String(input).endsWith("/runs") || (lost += 1) > 1) return response;
      throw new TypeError("the connection broke");
    };
    const through = new Threadline({ url: server.url, fetch: lossy });
    const seen: unknown[] = [];
    const run = await through
      .thread(await thread())
      .run({ runId: "run" }, (run) => void seen.push(run.resumed, run.stored));
    through.close();
    expect([run.status, lost, seen]).toEqual(["finished", 2, [false, undefined]]);
  });
});
