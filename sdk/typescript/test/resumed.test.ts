// A run whose call died, and which another call takes up under its id.

import { describe, expect, test } from "vitest";
import { Conversation } from "../src/conversation/index.js";
import {
  type AgUiEvent,
  isProblem,
  type Message,
  NotResumed,
  type Run,
  type RunHandle,
  type RunOptions,
  StopRequested,
  Threadline,
  type ThreadEvent,
} from "../src/index.js";
import { caught } from "./harness/caught.js";
import { client, server, useServerAndClient } from "./harness/served.js";
import { until } from "./harness/until.js";
import { log } from "./harness/writer.js";

useServerAndClient();

const question = { id: "q", role: "user", content: "Count!" } as const;
const opening: RunOptions = { runId: "run", messages: [question], state: { counted: 0 }, leaseSeconds: 60 };
const words = Array.from({ length: 9 }, (_, index) => `${index} `);

async function thread(): Promise<string> {
  return (await client.threads.create()).threadId;
}

/** The events of an answer of 30 events, with the opening: reasoning, two texts, steps and state. */
function answer(tag: string): AgUiEvent[] {
  const text = (messageId: string, deltas: readonly string[]): AgUiEvent[] => [
    { type: "TEXT_MESSAGE_START", messageId, role: "assistant" },
    ...deltas.map((delta) => ({ type: "TEXT_MESSAGE_CONTENT" as const, messageId, delta })),
    { type: "TEXT_MESSAGE_END", messageId },
  ];
  const messageId = `thought-${tag}`;
  return [
    { type: "STEP_STARTED", stepName: "think" },
    { type: "REASONING_START", messageId },
    { type: "REASONING_MESSAGE_START", messageId, role: "reasoning" },
    { type: "REASONING_MESSAGE_CONTENT", messageId, delta: "One after the other." },
    { type: "REASONING_MESSAGE_END", messageId },
    { type: "REASONING_END", messageId },
    { type: "STEP_FINISHED", stepName: "think" },
    ...text(`text-${tag}`, words),
    { type: "STATE_DELTA", delta: [{ op: "replace", path: "/counted", value: 9 }] },
    ...text(`end-${tag}`, ["That is ", "all."]),
    { type: "STATE_DELTA", delta: [{ op: "replace", path: "/counted", value: 10 }] },
    { type: "CUSTOM", name: "n", value: 1 },
    { type: "CUSTOM", name: "n", value: 2 },
    { type: "CUSTOM", name: "n", value: 3 },
    { type: "CUSTOM", name: "n", value: 4 },
  ];
}

const ANSWERED = [
  ["user", "Count!"],
  ["reasoning", "One after the other."],
  ["assistant", words.join("")],
  ["assistant", "That is all."],
];

/** Produces a run like a process that dies once these events are durable. */
async function dies(threadId: string, events: readonly AgUiEvent[], options: RunOptions = opening): Promise<void> {
  const process = new Threadline({ url: server.url });
  const run = process.thread(threadId).run(options, async (run) => {
    await run.append(events);
    await run.flush();
    process.close();
    await run.flush();
  });
  await expect(run).rejects.toThrow("closed");
}

const shape = (messages: readonly Message[]) => messages.map(({ role, content }) => [role, content]);

/** The messages that the server folds, and those that the package folds from the log. */
async function folds(threadId: string): Promise<unknown[]> {
  const { messages } = await client.thread(threadId).messages();
  const fold = new Conversation();
  fold.apply((await log(server, threadId)).map(({ event }) => event as ThreadEvent));
  expect(fold.messages).toEqual(messages);
  return shape(messages);
}

/** A body that says what `run.stored` lacks. */
async function goesOn(run: RunHandle<{ counted: number }>): Promise<void> {
  const said = run.stored.messages.map(({ content }) => content);
  if (!said.includes("One after the other.")) {
    const thought = run.reasoning();
    await thought.write("One after the other.");
    await thought.end();
  }
  if (!said.includes(words.join(""))) {
    const text = run.text();
    for (const word of words) await text.write(word);
    await text.end();
  }
  if (!said.includes("That is all.")) await run.text().write("That is all.");
}

describe("a run of 30 events, killed after each of them, and begun again", () => {
  const events = answer("first");
  expect(events).toHaveLength(28);

  test("by a body that knows nothing of it: there is one answer in all folds", async () => {
    await Promise.all(
      [...events, undefined].map(async (_, count) => {
        const threadId = await thread();
        await dies(threadId, events.slice(0, count));
        let seen: unknown;
        const run = await client
          .thread(threadId)
          .run<{ counted: number }>(opening as RunOptions<{ counted: number }>, async (run) => {
            seen = [run.resumed, run.attempt];
            // What is superseded can still be read.
            const before = new Conversation();
            before.apply([{ type: "STATE_SNAPSHOT", snapshot: { counted: 0 } }, ...events.slice(0, count)]);
            expect(shape(run.stored.messages)).toEqual([["user", "Count!"], ...shape(before.messages)]);
            expect(run.stored.state).toEqual(before.state);
            expect(shape(await run.history())).toEqual([["user", "Count!"]]);
            await run.append(answer("second"));
          });
        expect([run.status, run.attempt, seen]).toEqual(["finished", 2, [true, 2]]);
        expect(await folds(threadId)).toEqual(ANSWERED);
        expect((await client.thread(threadId).state()).state).toEqual({ counted: 10 });
      }),
    );
  });

  test("by a body that continues: nothing is said twice", async () => {
    await Promise.all(
      [...events, undefined].map(async (_, count) => {
        const threadId = await thread();
        await dies(threadId, events.slice(0, count));
        const run = await client
          .thread(threadId)
          .run<{ counted: number }>(
            { ...(opening as RunOptions<{ counted: number }>), onExisting: "continue" },
            goesOn,
          );
        expect([run.status, run.attempt]).toEqual(["finished", 2]);
        const said = await folds(threadId);
        expect(said).toHaveLength(ANSWERED.length);
        expect(new Set(said.map(String))).toEqual(new Set(ANSWERED.map(String)));
      }),
    );
  });

  test("by a call that refuses: nothing is written, and the error has what was said", async () => {
    await Promise.all(
      [0, 1, 9, 17, 28].map(async (count) => {
        const threadId = await thread();
        await dies(threadId, events.slice(0, count));
        const error = (await caught(
          client.thread(threadId).run({ ...opening, onExisting: "refuse" }, () => expect.unreachable()),
        )) as NotResumed;
        expect(error).toBeInstanceOf(NotResumed);
        expect(error).toMatchObject({ name: "NotResumed", retryable: false, run: { runId: "run", attempt: 1 } });
        expect(error.message).toContain('onExisting: "restart"');
        expect(shape(error.stored.messages)[0]).toEqual(["user", "Count!"]);
        expect(await log(server, threadId)).toHaveLength(2 + count);
        // The run may be active elsewhere, so it is not ended either.
        expect((await client.thread(threadId).get()).activeRun?.runId).toBe("run");
      }),
    );
  });
});

test("a run that died again and again has one answer", async () => {
  const threadId = await thread();
  for (const [count, onExisting] of [
    [12, "restart"],
    [9, "restart"],
    [20, "continue"],
    [7, "restart"],
  ] as const) {
    await dies(threadId, answer(`try ${count}`).slice(0, count), { ...opening, onExisting });
  }
  const run = await client.thread(threadId).run(opening, (run) => {
    expect(shape(run.stored.messages)).toEqual([
      ["user", "Count!"],
      ["reasoning", "One after the other."],
    ]);
    return run.append(answer("last"));
  });
  expect(run.attempt).toBe(5);
  expect(await folds(threadId)).toEqual(ANSWERED);
});

test("of two live calls the older one is fenced: it writes nothing more, and does not end the run", async () => {
  const threadId = await thread();
  let begun = () => {};
  const started = new Promise<void>((resolve) => (begun = resolve));
  const older = caught(
    client.thread(threadId).run(opening, async (run) => {
      await run.text().write("older");
      await run.flush();
      begun();
      await until("the signal", () => run.signal.aborted);
      expect(isProblem(run.signal.reason, "run-fenced")).toBe(true);
      await run.append({ type: "CUSTOM", name: "late", value: 1 });
    }),
  );
  await started;
  const run = await client.thread(threadId).run(opening, async (run) => {
    await run.text().write("newer");
    expect(isProblem(await older, "run-fenced")).toBe(true);
    await run.text().write("goes on");
  });
  expect(run).toMatchObject({ status: "finished", attempt: 2 });
  expect(await folds(threadId)).toEqual([
    ["user", "Count!"],
    ["assistant", "newer"],
    ["assistant", "goes on"],
  ]);
  expect((await log(server, threadId)).filter(({ event }) => event["name"] === "late")).toEqual([]);
});

test("a lost answer to the start is no second attempt, of a new run as of one that is taken up", async () => {
  for (const isNew of [true, false]) {
    const threadId = await thread();
    if (!isNew) await dies(threadId, answer("first").slice(0, 12));
    let lost = 0;
    const lossy: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      if (!new URL(String(input)).pathname.endsWith("/runs") || (lost += 1) > 1) return response;
      throw new TypeError("the connection broke");
    };
    const through = new Threadline({ url: server.url, fetch: lossy });
    const seen: unknown[] = [];
    const run = await through.thread(threadId).run(opening, async (run) => {
      seen.push(run.resumed, run.attempt, run.stored.messages.length > 0);
      await run.append(answer("second"));
    });
    through.close();
    expect([run.status, lost, seen]).toEqual(["finished", 2, isNew ? [false, 1, false] : [true, 2, true]]);
    expect(await folds(threadId)).toEqual(ANSWERED);
    expect((await log(server, threadId)).filter(({ event }) => event.type === "RUN_STARTED")).toHaveLength(1);
  }
});

test("a run that was asked to stop ends as stopped, and its body is not called", async () => {
  const threadId = await thread();
  await dies(threadId, answer("first").slice(0, 10));
  await client.thread(threadId).stop("run");
  const run = await client.thread(threadId).run(opening, () => expect.unreachable());
  expect(run.status).toBe("stopped");
});

test("an ended run is not taken up: its record is returned, and its body not called", async () => {
  const threadId = await thread();
  const first = await client.thread(threadId).run(opening, (run) => run.append(answer("first")));
  for (const onExisting of ["restart", "continue", "refuse"] as const) {
    expect(await client.thread(threadId).run({ ...opening, onExisting }, () => expect.unreachable())).toEqual(first);
  }
  expect(await folds(threadId)).toEqual(ANSWERED);
});

describe("a run with effects", () => {
  const called: AgUiEvent[] = [
    { type: "TOOL_CALL_START", toolCallId: "c", toolCallName: "pay" },
    { type: "TOOL_CALL_ARGS", toolCallId: "c", delta: "{}" },
    { type: "TOOL_CALL_END", toolCallId: "c" },
  ];

  test("is not restarted in silence: it fails with the code, and the call rejects with it", async () => {
    const threadId = await thread();
    await dies(threadId, called);
    const error = await caught(client.thread(threadId).run(opening, () => expect.unreachable()));
    expect(isProblem(error, "recovery-unsafe")).toBe(true);
    expect(await client.thread(threadId).runRecord("run")).toMatchObject({
      status: "error",
      errorCode: "recovery-unsafe",
    });
    expect((await client.thread(threadId).get()).activeRun).toBeNull();
  });

  test("is restarted if its tools may be repeated", async () => {
    const threadId = await thread();
    await dies(threadId, called);
    const run = await client.thread(threadId).run({ ...opening, toolsRepeatable: true }, async (run) => {
      expect(run.stored.pendingToolCallIds).toEqual(["c"]);
      await run.append(answer("second"));
    });
    expect(run.status).toBe("finished");
    expect(await folds(threadId)).toEqual(ANSWERED);
  });
});

test("a run keeps its lease while what it has said is read", async () => {
  const threadId = await thread();
  await dies(threadId, answer("first").slice(0, 10), { ...opening, leaseSeconds: 2 });
  const before = ((await client.thread(threadId).runRecord("run")) as Run).leaseUntil!;
  let isHeld = true;
  const slow: typeof fetch = async (input, init) => {
    if (String(input).includes("/events?")) {
      const leaseUntil = async () => ((await client.thread(threadId).runRecord("run")) as Run).leaseUntil!;
      const first = await leaseUntil();
      expect(first > before).toBe(true);
      await until("a longer lease", async () => (await leaseUntil()) > first);
      isHeld = false;
    }
    return fetch(input, init);
  };
  const through = new Threadline({ url: server.url, fetch: slow });
  const run = await through
    .thread(threadId)
    .run({ ...opening, leaseSeconds: 2 }, (run) => run.append(answer("second")));
  through.close();
  expect([run.status, isHeld]).toEqual(["finished", false]);
  expect(await folds(threadId)).toEqual(ANSWERED);
});

test("what a run has said, and what was before it, are told apart in a long thread", async () => {
  const threadId = await thread();
  const to = client.thread(threadId);
  await to.putRun("before", [
    {
      type: "RUN_STARTED",
      threadId,
      runId: "before",
      input: { threadId, runId: "before", messages: [{ id: "old", role: "user", content: "before" }] },
    },
    { type: "STATE_SNAPSHOT", snapshot: { steps: [1], kept: true } },
    { type: "TEXT_MESSAGE_CHUNK", messageId: "long", role: "assistant", delta: "x".repeat(3_000_000) },
  ]);
  const input = { runId: "run", messages: [question], leaseSeconds: 60 };
  const said = Array.from({ length: 3 }, (_, index): AgUiEvent => {
    return { type: "TEXT_MESSAGE_CHUNK", messageId: `m${index}`, role: "assistant", delta: "y".repeat(2_000_000) };
  });
  await dies(threadId, [...said, { type: "STATE_DELTA", delta: [{ op: "add", path: "/steps/-", value: 2 }] }], input);
  await to.run({ ...input, onExisting: "continue" }, async ({ stored }) => {
    expect(stored.messages.map(({ id }) => id)).toEqual(["q", "m0", "m1", "m2"]);
    expect(stored.state).toEqual({ steps: [1, 2], kept: true });
  });
  await to.run({ messages: [{ role: "user", content: "And now?" }] }, async (run) => {
    const messages = await run.history();
    expect(messages.map(({ id }) => id).slice(0, -1)).toEqual(["old", "long", "q", "m0", "m1", "m2"]);
    expect(messages.at(-1)).toMatchObject({ role: "user", content: "And now?" });
    expect(await run.history()).toBe(messages);
  });
});

test("a run is shown as running, and can be stopped, in 15 of 15 tries", async () => {
  await Promise.all(
    Array.from({ length: 15 }, async () => {
      const threadId = await thread();
      const run = client.thread(threadId).run({ messages: [question] }, async (run) => {
        await run.text().write("half");
        await until("the signal", () => run.signal.aborted);
        expect(run.signal.reason).toBeInstanceOf(StopRequested);
      });
      const active = await until("the run", async () => (await client.thread(threadId).get()).activeRun);
      // Nobody sees the run without its first event.
      expect((await log(server, threadId))[0]).toMatchObject({ runId: active!.runId, event: { type: "RUN_STARTED" } });
      await client.thread(threadId).stop(active!.runId);
      expect((await run).status).toBe("stopped");
    }),
  );
});
