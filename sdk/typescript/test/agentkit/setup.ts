// A user's program with a network, a server and a model, for the tests of this folder.

import { type AgentResult, createAgent, createNetwork, createState, createTool, type State } from "@inngest/agent-kit";
import { afterAll, beforeAll, beforeEach } from "vitest";
import { z } from "zod";
import { type HistoryOptions, threadlineHistory } from "../../src/agentkit/index.js";
import { Threadline } from "../../src/index.js";
import { Server } from "../harness/server.js";
import { Model } from "./model.js";

export const API_KEY = "the-operator-of-the-agentkit-tests";
export type Data = Record<string, unknown>;

export let server: Server;
export let model: Model;

/** Starts a server and a model for the tests of a file. */
export function useServer(): void {
  beforeAll(async () => {
    [server, model] = await Promise.all([Server.start({ apiKey: API_KEY }), Model.start()]);
  });
  beforeEach(() => {
    model.asked.length = 0;
    model.answer = () => ({ text: `reply ${model.asked.length}` });
  });
  afterAll(async () => {
    model?.end();
    await server?.end();
  });
}

export const weather = createTool({
  name: "weather",
  description: "says how the weather is",
  parameters: z.object({ city: z.string() }),
  handler: ({ city }) => ({ city, sunny: true, degrees: 0.1 + 0.2 }),
});

const broken = createTool({
  name: "broken",
  parameters: z.object({}),
  handler: async (): Promise<string> => {
    throw new Error("no such luck");
  },
});

const rude = createTool({
  name: "rude",
  parameters: z.object({}),
  // AgentKit only catches rejections.
  handler: (): string => {
    throw new Error("it is over");
  },
});

const echo = createTool({ name: "echo", parameters: z.object({ large: z.string() }), handler: ({ large }) => large });

/** Sets a value in both stores of the network's state. */
const remember = createTool({
  name: "remember",
  parameters: z.object({ key: z.string(), value: z.any() }),
  handler: ({ key, value }, { network }) => {
    network.state.data[key] = value;
    if (value === null) network.state.kv.delete(key);
    else network.state.kv.set(key, value);
    return "remembered";
  },
});

/** The program after a restart, without any state. Its agent continues until it has called no tool. */
export function program(options: Partial<HistoryOptions<Data>> = {}) {
  const history = threadlineHistory<Data>({ url: server.url, apiKey: API_KEY, ...options } as HistoryOptions<Data>);
  const agent = createAgent<Data>({
    name: "helper",
    system: "You help.",
    model: model.adapter,
    tools: [weather, broken, rude, remember, echo],
  });
  const network = createNetwork<Data>({
    name: "support",
    agents: [agent],
    history,
    router: ({ callCount, lastResult }) =>
      callCount === 0 || (callCount < 5 && (lastResult?.toolCalls.length ?? 0) > 0) ? agent : undefined,
  });
  return { history, network };
}

export function stateOf(threadId?: string, data: Data = { userId: "ann" }): State<Data> {
  return createState<Data>(data, threadId === undefined ? {} : { threadId });
}

export function client(user = "ann"): Threadline {
  return new Threadline({ url: server.url, apiKey: API_KEY, user });
}

/** The turns that a newly started program reads from a thread. */
export function restored(threadId: string, user = "ann"): Promise<AgentResult[]> {
  const { history, network } = program();
  return history.get({ threadId, state: stateOf(threadId, { userId: user }), input: "", network: network as never });
}

/** The stored parts of a result. Its history is what precedes it in the thread; results of tools are JSON. */
export function kept({ history: _, toolCalls, ...result }: AgentResult): object {
  return { ...result, toolCalls: asJson(toolCalls) };
}

export function asJson(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value)) as unknown;
}

export function replies(turns: readonly AgentResult[]): AgentResult[] {
  return turns.filter(({ agentName }) => agentName !== "user");
}

/** `agent: text`, for each turn. */
export function texts(turns: readonly AgentResult[]): string[] {
  const said = ({ output }: AgentResult) =>
    output.map((each) => (each.type === "text" ? String(each.content) : each.type));
  return turns.map((turn) => `${turn.agentName}: ${said(turn).join("|")}`);
}
