// Tests of agents that run without a network.

import { type Agent, createAgent, createNetwork } from "@inngest/agent-kit";
import { afterEach, describe, expect, test, vi } from "vitest";
import { threadlineAgent } from "../../src/agentkit/index.js";
import {
  client,
  type Data,
  kept,
  model,
  program,
  replies,
  restored,
  stateOf,
  texts,
  useServer,
  weather,
} from "./setup.js";

useServer();

afterEach(() => void vi.restoreAllMocks());

const solo = { name: "solo", system: "You are alone." };

/** An agent as AgentKit creates it, with the lifecycle of its history or without. */
function alone(lifecycle: boolean) {
  const { history } = program();
  return createAgent<Data>({
    ...solo,
    model: model.adapter,
    history,
    ...(lifecycle && { lifecycle: history.lifecycle }),
  });
}

/** One that cannot be without. */
const wrapped = (options: Partial<Agent.Constructor<Data>> = {}, { history } = program()) =>
  threadlineAgent<Data>(createAgent, { ...solo, model: model.adapter, ...options, history });

describe("an agent without a network", () => {
  test("without the lifecycle of its history warns once, naming the fix, and keeps the user's messages", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const agent = alone(false);
    const state = stateOf();
    expect((await agent.run("hello", { state })).output).toMatchObject([{ content: "reply 1" }]);
    expect(texts(await restored(state.threadId!))).toEqual(["user: hello"]);
    await agent.run("again", { state: stateOf(state.threadId!) });
    expect(warn).toHaveBeenCalledOnce();
    expect(warn.mock.calls[0]![0]).toMatch(/not saved.*threadlineAgent\(createAgent.*lifecycle: history\.lifecycle/s);
  });

  test("with it never warns, not even if its model fails", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const agent = wrapped();
    model.answer = () => ({ error: "out of order" });
    const state = stateOf();
    await expect(agent.run("hello?", { state })).rejects.toThrow("out of order");
    model.answer = () => ({ text: "back" });
    await agent.run("and now?", { state: stateOf(state.threadId!) });
    expect(texts(await restored(state.threadId!))).toEqual(["user: hello?", "user: and now?", "solo: back"]);
    expect(warn).not.toHaveBeenCalled();
  });

  test("in a network without history is refused before a model is called", async () => {
    const agent = alone(true);
    const network = createNetwork<Data>({
      name: "forgetful",
      agents: [agent],
      router: ({ callCount }) => (callCount === 0 ? agent : undefined),
    });
    await expect(network.run("hello", { state: stateOf() })).rejects.toThrow("pass the history to the network");
    expect(model.asked).toHaveLength(0);
  });

  test.each([
    ["created by AgentKit", () => alone(true)],
    ["wrapped", () => wrapped()],
    [
      "wrapped, with another model",
      () => wrapped({ model: { ...model.adapter, url: "http://127.0.0.1:9" } }).withModel(model.adapter),
    ],
  ])("saves through the history's lifecycle: %s", async (_, make) => {
    const state = stateOf();
    const result = await make().run("hello", { state });
    const found = await restored(state.threadId!);
    expect(texts(found)).toEqual(["user: hello", "solo: reply 1"]);
    expect(kept(replies(found)[0]!)).toEqual(kept(result));
    await make().run("again", { state: stateOf(state.threadId!) });
    expect(texts(await restored(state.threadId!))).toEqual([
      "user: hello",
      "solo: reply 1",
      "user: again",
      "solo: reply 2",
    ]);
  });

  test("is saved once inside a network with the same history", async () => {
    const { history } = program();
    const agent = wrapped({ name: "in" }, { history } as ReturnType<typeof program>);
    const router = ({ callCount }: { callCount: number }) => (callCount < 2 ? agent : undefined);
    const network = createNetwork<Data>({ name: "both", agents: [agent], history, router });
    const { state } = await network.run("hello", { state: stateOf() });
    expect(texts(await restored(state.threadId!))).toEqual(["user: hello", "in: reply 1", "in: reply 2"]);
  });

  test.each([false, true])(
    "that asks its model again after its tools: all answers are saved (streamed: %s)",
    async (streamed) => {
      model.answer = () =>
        model.asked.length === 1
          ? { text: "Let me see.", calls: [{ name: "weather", args: { city: "Rom" } }] }
          : { text: "Sunny." };
      const own = program();
      const threadId = `twice, streamed: ${streamed}`;
      const streaming = { publish: own.history.publish };
      await wrapped({ tools: [weather] }, own).run("How is it?", {
        state: stateOf(threadId),
        maxIter: 3,
        ...(streamed && { streaming }),
      });
      const found = await restored(threadId);
      expect(texts(found)).toEqual(["user: How is it?", "solo: Let me see.|tool_call", "solo: Sunny."]);
      expect(found[1]!.toolCalls).toMatchObject([{ content: { data: { city: "Rom", sunny: true } } }]);
      const { messages, pendingToolCallIds } = await client().thread(threadId).messages();
      expect(messages.map(({ role, content }) => `${role}: ${String(content)}`)).toEqual([
        "user: How is it?",
        "assistant: Let me see.",
        expect.stringContaining('tool: {"city":"Rom","sunny":true'),
        "assistant: Sunny.",
      ]);
      expect(pendingToolCallIds).toEqual([]);
    },
  );
});

describe("threadlineAgent", () => {
  test("stores what the agent's own hooks return, and calls all of them", async () => {
    const called: string[] = [];
    const agent = wrapped({
      lifecycle: {
        onStart: ({ prompt, history = [] }) => (called.push("onStart"), { prompt, history, stop: false }),
        onResponse: ({ result }) => (called.push("onResponse"), result),
        onFinish: ({ result }) => {
          called.push("onFinish");
          result.output = [{ type: "text", role: "assistant", content: "changed", stop_reason: "stop" }];
          return result;
        },
      },
    });
    const state = stateOf();
    await agent.run("hello", { state });
    expect(called).toEqual(["onStart", "onResponse", "onFinish"]);
    expect(texts(await restored(state.threadId!))).toEqual(["user: hello", "solo: changed"]);
  });

  test("is refused without a history of Threadline", () => {
    expect(() => threadlineAgent(createAgent, solo as never)).toThrow("pass history: threadlineHistory");
    expect(() => threadlineAgent(createAgent, { ...solo, history: {} as never })).toThrow("threadlineHistory");
  });
});
