// What a body writes with its run: the log, as other readers fold it.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import {
  ClosedError,
  ConfigError,
  type NewEvent,
  type RunHandle,
  type RunOptions,
  Threadline,
  type ThreadRef,
} from "../src/index.js";
import { caught } from "./harness/caught.js";
import type { LooseMessage } from "./harness/loose.js";
import { Server } from "./harness/server.js";
import { until } from "./harness/until.js";
import { log } from "./harness/writer.js";

let server: Server;
let client: Threadline;
const unhandled: unknown[] = [];
const note = (error: unknown) => void unhandled.push(error);

beforeAll(async () => {
  process.on("unhandledRejection", note);
  server = await Server.start();
  client = new Threadline({ url: server.url });
});
afterEach(() => expect(unhandled.splice(0)).toEqual([]));
afterAll(async () => {
  process.off("unhandledRejection", note);
  client?.close();
  await server?.end();
});

const thread = async () => client.thread((await client.threads.create()).threadId);
const events = async ({ threadId }: ThreadRef) => (await log(server, threadId)).map(({ event }) => event);
const types = async (of: ThreadRef) => (await events(of)).map(({ type }) => type);
const shown = async (of: ThreadRef) => (await of.messages()).messages.map(({ role, content }) => [role, content]);

describe("a run begins with one commit", () => {
  test("that has its messages, with ids, and the rest of its input, and its state", async () => {
    const to = await thread();
    const options: RunOptions = {
      runId: "r",
      messages: [
        { role: "user", content: "Where is my parcel?" },
        { id: "own", role: "user", content: "It is late." },
      ],
      tools: [{ name: "lookup", description: "Finds parcels", parameters: { type: "object" } }],
      context: [{ description: "language", value: "English" }],
      state: { parcel: null },
    };
    await to.run(options, () => {});
    const [started, state, ...rest] = await log(server, to.threadId);
    const { threadId } = to;
    const id = expect.stringMatching(/^[0-9a-f]{32}$/) as string;
    const messages = [{ ...options.messages![0], id }, options.messages![1]];
    const input = { threadId, runId: "r", messages, tools: options.tools, context: options.context };
    expect(started!.event).toEqual({ type: "RUN_STARTED", threadId, runId: "r", input });
    expect(state!.event).toEqual({ type: "STATE_SNAPSHOT", snapshot: { parcel: null } });
    expect(state!.at).toBe(started!.at);
    expect(rest.map(({ event }) => event.type)).toEqual(["RUN_FINISHED"]);
    expect((await to.messages()).messages[1]).toEqual({ id: "own", role: "user", content: "It is late." });
    expect((await to.state()).state).toEqual({ parcel: null });
    // A run that is given nothing says so.
    const bare = await thread();
    await bare.run({ runId: "b" }, () => {});
    expect((await events(bare))[0]).toEqual({ type: "RUN_STARTED", threadId: bare.threadId, runId: "b" });
  });

  test("or not at all", async () => {
    const to = await thread();
    const circular: Record<string, unknown> = { role: "user" };
    circular["content"] = circular;
    for (const wrong of [
      { leaseSeconds: 0 },
      { onExisting: "return" as never },
      { messages: [circular as never] },
      { state: 1n },
    ]) {
      expect(await caught(to.run(wrong, () => expect.unreachable()))).toBeInstanceOf(ConfigError);
    }
    expect(await caught(to.run((() => {}) as never, undefined as never))).toBeInstanceOf(ConfigError);
    expect((await to.runs()).runs).toEqual([]);
  });

  test("a RUN_STARTED of the body is dropped, and one of another run refused", async () => {
    const to = await thread();
    const { threadId } = to;
    await to.run({ runId: "mine" }, async (run) => {
      await run.append([
        { type: "RUN_STARTED", threadId, runId: "mine" },
        { type: "CUSTOM", name: "n", value: 1 },
      ]);
    });
    expect(await types(to)).toEqual(["RUN_STARTED", "CUSTOM", "RUN_FINISHED"]);
    const others = [
      () => ({ threadId, runId: "other" }),
      (runId: string) => ({ threadId: "elsewhere", runId }),
      () => ({}),
    ];
    for (const other of others) {
      const refused = to.run({}, (run) => run.append({ type: "RUN_STARTED", ...other(run.runId) } as NewEvent));
      expect(await caught(refused)).toBeInstanceOf(ConfigError);
      expect((await to.runs()).runs[0]!.status).toBe("error");
    }
  });
});

describe("writers", () => {
  test("write texts, reasoning, calls, state, steps and own events", async () => {
    const to = await thread();
    const run = await to.run<{ step: number; parcel?: string }>({ state: { step: 0 } }, async (run) => {
      const thought = run.reasoning();
      await thought.write("I look it up.");
      await thought.end();
      const text = run.text({ metadata: { model: "small" } });
      await text.write("One ");
      await text.write("");
      await text.write("moment.");
      const call = run.toolCall("lookup", { id: 7 }, { parentMessageId: text.messageId });
      await text.end();
      await call.result({ found: true });
      const pieces = run.toolCall("lookup");
      await pieces.write('{"id":');
      await pieces.write("8}");
      await pieces.result("not found");
      const found = await run.step("deliver", async () => {
        await run.state.set({ step: 1 });
        await run.state.patch([{ op: "add", path: "/parcel", value: "found" }]);
        return 5;
      });
      await run.custom("found", found);
      run.text({ role: "user", name: "ann", messageId: "own" }).write("Thanks.");
    });
    expect(run.status).toBe("finished");
    const { messages } = await to.messages();
    const calls = ({ toolCalls = [] }: LooseMessage) =>
      toolCalls.map(({ function: { name, arguments: args } }) => `${name}(${args})`);
    expect(messages.map((message) => [message.role, message.content, ...calls(message)])).toEqual([
      ["reasoning", "I look it up."],
      ["assistant", "One moment.", 'lookup({"id":7})'],
      ["tool", '{"found":true}'],
      ["assistant", undefined, 'lookup({"id":8})'],
      ["tool", "not found"],
      ["user", "Thanks."],
    ]);
    expect(messages[1]).toMatchObject({ metadata: { model: "small" } });
    expect(messages.at(-1)).toMatchObject({ id: "own", name: "ann" });
    expect((await to.state()).state).toEqual({ step: 1, parcel: "found" });
    expect((await events(to)).find(({ type }) => type === "CUSTOM")).toEqual({
      type: "CUSTOM",
      name: "found",
      value: 5,
    });
  });

  test("have a new id each, and end with the body, in order", async () => {
    const to = await thread();
    const body = async (run: RunHandle) => {
      const ids = [run.text(), run.reasoning(), run.text()].map((writer) => (void writer.write("x"), writer.messageId));
      run.toolCall("f").write("{}");
      expect(new Set(ids).size).toBe(3);
    };
    await to.run({}, body);
    await to.run({}, body);
    const all = await events(to);
    const ended = all.slice(0, all.length / 2).filter(({ type }) => type.endsWith("_END"));
    const begun = all.slice(0, all.length / 2).filter(({ type }) => type.endsWith("_START"));
    expect(ended.map(({ type }) => type)).toEqual([
      "TEXT_MESSAGE_END",
      "REASONING_MESSAGE_END",
      "REASONING_END",
      "TEXT_MESSAGE_END",
      "TOOL_CALL_END",
    ]);
    expect(ended.map((event) => event["messageId"] ?? event["toolCallId"])).toEqual(
      begun.map((event) => event["messageId"] ?? event["toolCallId"]),
    );
    expect((await to.messages()).messages).toHaveLength(8);
  });

  test("of a subagent say so in every event", async () => {
    const to = await thread();
    await to.run({}, async (run) => {
      const subagentRunId = "s";
      await run.text({ subagentRunId }).write("x");
      await run.reasoning({ subagentRunId }).write("x");
      await run.toolCall("f", {}, { subagentRunId }).result(1);
    });
    const inside = (await events(to)).filter(({ type }) => !type.startsWith("RUN_"));
    expect(inside).toHaveLength(12);
    for (const event of inside) expect(event).toMatchObject({ subagentRunId: "s" });
  });

  test.each<[string, (run: RunHandle) => unknown]>([
    [
      "a piece after the end",
      (run) => {
        const text = run.text();
        void text.end();
        void text.write("late");
      },
    ],
    ["a piece that is no string", (run) => void run.text().write(5 as never)],
    ["a name of the server's", (run) => void run.custom("threadline.attempt", 1)],
    ["arguments that are no JSON", (run) => void run.toolCall("f", { n: 1n })],
    ["a result that is no JSON", (run) => void run.toolCall("f", {}).result(1n)],
    ["pieces of whole arguments", (run) => void run.toolCall("f", {}).write("{}")],
    ["no question", (run) => void run.interrupt()],
    ["an event that is none", (run) => void run.append({} as never)],
    [
      "all of it, and its own end",
      (run) => {
        void run.append(null as never);
        void run.append({ type: "RUN_FINISHED", threadId: run.threadId, runId: run.runId });
      },
    ],
  ])("fail the run for %s, even if nobody awaits it", async (_, wrong) => {
    const to = await thread();
    expect(await caught(to.run({}, (run) => void wrong(run)))).toBeInstanceOf(ConfigError);
    expect((await to.runs()).runs[0]).toMatchObject({ status: "error", errorCode: "producer-failed" });
  });

  test("leave a step that fails", async () => {
    const to = await thread();
    const error = new Error("away");
    expect(await caught(to.run({}, (run) => run.step("s", () => Promise.reject(error))))).toBe(error);
    expect(await types(to)).toEqual(["RUN_STARTED", "STEP_STARTED", "STEP_FINISHED", "RUN_ERROR"]);
    // A body may go on without it.
    const other = await thread();
    await other.run({}, (run) => run.step("s", () => Promise.reject(error)).catch(() => run.text().write("Sorry.")));
    expect(await shown(other)).toEqual([["assistant", "Sorry."]]);
  });
});

describe("interrupt", () => {
  test("ends the run with its questions, and leaves the body; a later run answers them", async () => {
    const to = await thread();
    let left = true;
    const run = await to.run({}, async (run) => {
      const text = run.text();
      await text.write("I would send it.");
      const call = run.toolCall("mail", { to: "ann" }, { toolCallId: "c" });
      await run.step("ask", () =>
        run.interrupt({ id: "i", toolCallId: call.toolCallId, message: "Send it?" }, { message: "To whom?" }),
      );
      left = false;
    });
    expect([run.status, left]).toEqual(["finished", true]);
    expect((await types(to)).slice(-3)).toEqual(["TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_FINISHED"]);
    const { interrupts } = await to.messages();
    expect(interrupts).toEqual([
      { id: "i", reason: "tool_call", toolCallId: "c", message: "Send it?" },
      { id: expect.any(String) as string, reason: "input_required", message: "To whom?" },
    ]);
    const resume = interrupts.map(({ id }) => ({ interruptId: id!, status: "resolved" as const, payload: true }));
    await to.run({ resume }, (run) => run.text().write("Sent."));
    expect((await to.messages()).interrupts).toEqual([]);
  });

  test("that nobody awaits ends the run nevertheless, and what follows is appended in vain", async () => {
    const to = await thread();
    let late: unknown;
    const run = await to.run({}, async (run) => {
      void run.interrupt({ message: "Really?" });
      late = await caught(run.text().write("late"));
    });
    expect(run.status).toBe("finished");
    expect(late).toBeInstanceOf(ClosedError);
    expect((await to.get()).openInterrupts).toBe(1);
    expect(await types(to)).toEqual(["RUN_STARTED", "RUN_FINISHED"]);
  });

  test("of another run is an error like any other", async () => {
    const [one, other] = [await thread(), await thread()];
    let inner: unknown;
    await caught(
      one.run({}, async () => {
        await other.run({}, (run) => {
          inner = run;
          return run.interrupt({ message: "?" });
        });
        throw await caught((inner as RunHandle).interrupt({ message: "again" }));
      }),
    );
    expect((await one.runs()).runs[0]!.status).toBe("error");
  });
});

describe("pipe", () => {
  async function* chunks(...texts: string[]) {
    for (const content of texts) yield { choices: [{ index: 0, delta: { content } }] };
  }

  test("two streams at once are two messages, among what the body writes", async () => {
    const to = await thread();
    async function* agent(words: string[]) {
      yield { type: "RUN_STARTED", threadId: "a", runId: "b" };
      for (const delta of words) {
        yield { type: "TEXT_MESSAGE_CHUNK", delta };
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      yield { type: "RUN_FINISHED", threadId: "a", runId: "b" };
    }
    await to.run({}, async (run) => {
      const both = [run.pipe(agent(["a", "b", "c"])), run.pipe(agent(["x", "y", "z"]))];
      const text = run.text();
      for (const word of ["1", "2", "3"]) {
        await text.write(word);
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      await Promise.all(both);
    });
    expect((await shown(to)).map(([, content]) => content).sort()).toEqual(["123", "abc", "xyz"]);
    expect((await types(to)).filter((type) => type.startsWith("RUN_"))).toEqual(["RUN_STARTED", "RUN_FINISHED"]);
  });

  test("that nobody awaits is read to its end before the run ends; its error is the run's", async () => {
    const to = await thread();
    await to.run({}, (run) => void run.pipe(chunks("all ", "of it")));
    expect(await shown(to)).toEqual([["assistant", "all of it"]]);
    async function* failing() {
      yield* chunks("half");
      await new Promise((resolve) => setTimeout(resolve, 20));
      throw new Error("the model is away");
    }
    expect(await caught(to.run({}, (run) => void run.pipe(failing())))).toMatchObject({ message: "the model is away" });
    expect((await shown(to)).at(-1)).toEqual(["assistant", "half"]);
    // A body that knows what to do about it goes on.
    const run = await to.run({}, (run) => run.pipe(failing()).catch(() => run.pipe(chunks("another model"))));
    expect(run.status).toBe("finished");
  });

  test("ends with the body's error: its source is cancelled", async () => {
    const to = await thread();
    let isCancelled = false;
    const silent = new ReadableStream<object>({
      start: (controller) => controller.enqueue({ choices: [{ index: 0, delta: { content: "half" } }] }),
      cancel: () => void (isCancelled = true),
    });
    await caught(
      to.run({}, async (run) => {
        void run.pipe(silent);
        await until("the text", async () => (await shown(to)).length === 1);
        throw new Error("enough");
      }),
    );
    await until("the source to be cancelled", () => isCancelled);
  });
});
