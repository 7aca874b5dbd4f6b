import { type AgentResult, createAgent, createNetwork, createState, createTool } from "@inngest/agent-kit";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { type HistoryOptions, threadlineHistory } from "../../src/agentkit/index.js";
import { execute } from "./inngest.js";
import {
  API_KEY,
  client,
  type Data,
  model,
  program,
  replies,
  restored,
  server,
  stateOf,
  texts,
  useServer,
} from "./setup.js";

useServer();

const lookup = createTool({ name: "lookup", parameters: z.object({}), handler: () => ({ found: true }) });

interface Chat {
  readonly input: string;
  readonly threadId?: string;
  readonly streaming?: boolean;
  readonly options?: Partial<HistoryOptions<Data>>;
}

/** The body of an Inngest function in which two agents run one after the other. */
const chat =
  ({ input, threadId, streaming, options }: Chat) =>
  () => {
    const history = threadlineHistory<Data>({ url: server.url, apiKey: API_KEY, ...options } as HistoryOptions<Data>);
    const agents = ["first", "second"].map((name) =>
      createAgent<Data>({ name, system: name, model: model.adapter, tools: [lookup] }),
    );
    const network = createNetwork<Data>({ name: "two", agents, history, router: ({ callCount }) => agents[callCount] });
    return async () => {
      const state = stateOf(threadId);
      await network.run(input, { state, ...(streaming && { streaming: { publish: history.publish } }) });
      return { threadId: state.threadId, context: texts(state.results) };
    };
  };

async function conversation({ result }: { result: unknown }) {
  const { threadId, context } = result as { threadId: string; context: string[] };
  const thread = client().thread(threadId);
  const [turns, { messages }, { runs }] = await Promise.all([restored(threadId), thread.messages(), thread.runs()]);
  return { threadId, context, turns, runs, shown: messages.map(({ role, content }) => `${role}: ${String(content)}`) };
}

const TURNS = ["user: hello", "first: reply 1", "second: reply 2"];
const SHOWN = ["user: hello", "assistant: reply 1", "assistant: reply 2"];

describe.each([
  { everyAnswerLost: false, streaming: false },
  { everyAnswerLost: true, streaming: false },
  { everyAnswerLost: false, streaming: true },
  { everyAnswerLost: true, streaming: true },
])(
  "inside an Inngest function (every step executed again: $everyAnswerLost, streamed: $streaming)",
  ({ everyAnswerLost, streaming }) => {
    test("one thread, one message and each result once", async () => {
      const before = (await client().threads.list({ limit: 500 })).threads.length;
      const execution = await execute(chat({ input: "hello", streaming }), model, { everyAnswerLost });
      const { turns, shown, context } = await conversation(execution);
      expect(execution.calls).toBeGreaterThan(8);
      expect(context).toEqual(["first: reply 1", "second: reply 2"]);
      expect(texts(turns)).toEqual(TURNS);
      expect(shown).toEqual(SHOWN);
      expect((await client().threads.list({ limit: 500 })).threads).toHaveLength(before + 1);
    });

    test("a continued thread: no execution reads the run's own results", async () => {
      const { threadId } = await conversation(
        await execute(chat({ input: "hello", streaming }), model, { everyAnswerLost }),
      );
      model.asked.length = 0;
      const { context, turns, shown } = await conversation(
        await execute(chat({ input: "more", threadId, streaming }), model, { everyAnswerLost }),
      );
      const both = [...TURNS, "user: more", "first: reply 1", "second: reply 2"];
      expect(context).toEqual(both);
      expect(texts(turns)).toEqual(both);
      expect(shown).toEqual([...SHOWN, "user: more", "assistant: reply 1", "assistant: reply 2"]);
      expect(model.asked).toHaveLength(2);
    });
  },
);

test("tools: shown once, and restored exactly", async () => {
  model.answer = () =>
    model.asked.length === 1 ? { text: "Let me see.", calls: [{ name: "lookup", args: {} }] } : { text: "done" };
  const { turns, shown } = await conversation(await execute(chat({ input: "hello", streaming: true }), model));
  expect(shown).toEqual(["user: hello", "assistant: Let me see.", 'tool: {"found":true}', "assistant: done"]);
  expect(replies(turns)[0]!.toolCalls).toMatchObject([{ content: { data: { found: true } } }]);
});

test("an agent without a network", async () => {
  const body = () => {
    const history = threadlineHistory<Data>({ url: server.url, apiKey: API_KEY });
    const agent = createAgent<Data>({
      name: "solo",
      system: "s",
      model: model.adapter,
      history,
      lifecycle: history.lifecycle,
    });
    return async () => {
      const state = stateOf();
      await agent.run("hello", { state });
      return { threadId: state.threadId, context: [] };
    };
  };
  const { turns, shown } = await conversation(await execute(body, model, { everyAnswerLost: true }));
  expect(texts(turns)).toEqual(["user: hello", "solo: reply 1"]);
  expect(shown).toEqual(["user: hello", "assistant: reply 1"]);
});

test("the size of steps does not depend on the length of the thread", async () => {
  const threadId = "long in inngest";
  const { network } = program();
  const long = "x".repeat(100_000);
  model.answer = () => ({ text: long });
  for (let turn = 0; turn < 6; turn += 1) await network.run("go on", { state: stateOf(threadId) });
  model.answer = () => ({ text: "short" });
  const { steps, result } = await execute(chat({ input: "hello", threadId }), model);
  expect((result as { context: string[] }).context).toHaveLength(6 * 2 + 3);
  const ours = steps.filter(({ name }) => name.startsWith("threadline: "));
  expect(ours.map(({ name }) => name)).toEqual([
    "threadline: open thread",
    "threadline: message id",
    "threadline: append message",
    "threadline: history",
    "threadline: append results",
  ]);
  expect(Math.max(...ours.map(({ bytes }) => bytes))).toBeLessThan(200);
  const begun = (await execute(chat({ input: "hello" }), model)).steps.map(({ name }) => name);
  expect(begun.filter((name) => name.startsWith("threadline: "))).toEqual([
    "threadline: thread id",
    "threadline: message id",
    "threadline: append message",
    "threadline: append results",
  ]);
});

test("persisted state is the same in every execution", async () => {
  const seen: unknown[] = [];
  const body = () => {
    const history = threadlineHistory<Data>({ url: server.url, apiKey: API_KEY, persistState: true });
    const agent = createAgent<Data>({ name: "solo", system: "s", model: model.adapter });
    const router = ({ callCount }: { callCount: number }) => (callCount === 0 ? agent : undefined);
    const network = createNetwork<Data>({ name: "n", agents: [agent], history, router });
    return async () => {
      const state = createState<Data>({ userId: "ann", count: 0 }, { threadId: "state in inngest" });
      const run = network.run("hello", { state });
      const before = state.results as AgentResult[];
      await run;
      seen.push(state.data["count"], before.length);
      state.data["count"] = 99;
      return { threadId: state.threadId };
    };
  };
  await client().threads.create({ threadId: "state in inngest" });
  await client()
    .thread("state in inngest")
    .putRun("before", [
      { type: "RUN_STARTED", threadId: "state in inngest", runId: "before" },
      { type: "STATE_SNAPSHOT", snapshot: { data: { count: 7 }, kv: {} } },
      { type: "RUN_FINISHED", threadId: "state in inngest", runId: "before" },
    ]);
  await execute(body, model, { everyAnswerLost: true });
  expect(new Set(seen)).toEqual(new Set([7, 0]));
  const { state } = await client().thread("state in inngest").state();
  expect(state).toEqual({ data: { userId: "ann", count: 7 }, kv: { userId: "ann" } });
});
