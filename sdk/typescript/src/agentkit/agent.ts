import type { Agent, createAgent as CreateAgent, StateData } from "@inngest/agent-kit";
import { ConfigError } from "../errors.js";
import type { ThreadlineHistory } from "./options.js";

/** Options of AgentKit's `createAgent`, with the history in which the agent's conversations are stored. */
export interface ThreadlineAgentOptions<T extends StateData> extends Omit<Agent.Constructor<T>, "history"> {
  readonly history: ThreadlineHistory<T>;
}

/**
 * Creates an agent that runs without a network, and whose messages and answers are stored. `create` is AgentKit's
 * `createAgent`. The hooks of `lifecycle` are called before those of the history, and what they return is stored. Unlike
 * other agents, it keeps its history with `withModel`.
 */
export function threadlineAgent<T extends StateData = StateData>(
  create: typeof CreateAgent,
  options: ThreadlineAgentOptions<T>,
): Agent<T> {
  const { history, lifecycle = {} } = options;
  // JavaScript's callers may pass one of AgentKit's own histories, or none.
  if (typeof history?.lifecycle?.onFinish !== "function") {
    throw new ConfigError(
      "an agent without a network has no history of Threadline: pass history: threadlineHistory({ … })",
    );
  }
  const { onResponse, onFinish } = lifecycle;
  const agent = create<T>({
    ...options,
    lifecycle: {
      ...lifecycle,
      onResponse: async (args) =>
        history.lifecycle.onResponse({ ...args, result: onResponse ? await onResponse(args) : args.result }),
      onFinish: async (args) =>
        history.lifecycle.onFinish({ ...args, result: onFinish ? await onFinish(args) : args.result }),
    },
  });
  agent.withModel = (model) => threadlineAgent(create, { ...options, model });
  return agent;
}
