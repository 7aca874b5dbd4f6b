import { type AgentResult, createAgent, createNetwork, createState, type HistoryConfig } from "@inngest/agent-kit";
import { expect, test } from "vitest";
import { threadlineHistory } from "../../src/agentkit/index.js";
import { Threadline } from "../../src/index.js";

interface Support {
  userId: string;
  plan?: string[];
}

const url = "http://localhost:1";

test("is assignable to AgentKit's own types, with and without a state type", () => {
  const plain = threadlineHistory({ url });
  const config: HistoryConfig<Record<string, unknown>> = threadlineHistory({ url });
  const agent = createAgent({ name: "a", system: "s", history: plain, lifecycle: plain.lifecycle });
  const network = createNetwork({ name: "n", agents: [agent], history: plain });
  void (() => network.run("hi", { state: createState({}, { threadId: "t" }), streaming: { publish: plain.publish } }));

  const typed = threadlineHistory<Support>({ client: new Threadline({ url }), user: ({ data }) => data.userId });
  const supporter = createAgent<Support>({ name: "b", system: "s", history: typed, lifecycle: typed.lifecycle });
  const inferred = createNetwork<Support>({ name: "m", agents: [supporter], history: threadlineHistory({ url }) });
  const state = createState<Support>({ userId: "ann" }, { threadId: "t" });
  const turns = (): Promise<AgentResult[]> =>
    typed.get({ threadId: "t", state, input: "", network: inferred as never });

  expect([config.get, network.history, inferred.history, turns].every(Boolean)).toBe(true);
});

test("invalid options are refused immediately", () => {
  expect(() => threadlineHistory({ url: "nonsense" })).toThrow("not a valid server address");
});
