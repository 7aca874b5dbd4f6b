// Agents without a network. AgentKit passes their messages and results to no hook of a history.

import type { Agent, AgentResult, NetworkRun, StateData } from "@inngest/agent-kit";

type Finished<T extends StateData> = Agent.LifecycleArgs.Result<T>;

/** The runs of such agents, each with the network without agents that AgentKit creates for it. */
export class LoneAgents<T extends StateData> {
  readonly #results = new WeakMap<NetworkRun<T>, AgentResult[]>();
  /** Runs whose user message was saved. */
  readonly #asked = new WeakSet<NetworkRun<T>>();
  #hasWarned = false;

  /** Called with each response of the model, whose object later receives the results of its tools. */
  onResponse({ network, result }: Finished<T>): AgentResult {
    if (network && isAlone(network)) this.#results.set(network, [...this.results(network), result]);
    return result;
  }

  /** Called with the last response, which other hooks may have replaced. */
  onFinish({ network, result }: Finished<T>): AgentResult {
    if (network && isAlone(network)) this.#results.set(network, [...this.results(network).slice(0, -1), result]);
    return result;
  }

  /** The results of a run; empty if no hook of the lifecycle was called. */
  results(network: NetworkRun<T>): readonly AgentResult[] {
    return this.#results.get(network) ?? [];
  }

  /** True the first time, for each run: its user message has to be saved. */
  asks(network: NetworkRun<T>): boolean {
    if (this.#asked.has(network)) return false;
    this.#asked.add(network);
    return true;
  }

  /** Called when the answer of a run cannot be saved; warns once. */
  warn(): void {
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    console.warn(
      "threadline: the answers of an agent without a network are not saved, since AgentKit passes them to no hook of its" +
        " history. Create the agent with threadlineAgent(createAgent, { …, history }), or with lifecycle: history.lifecycle",
    );
  }
}

/** True if AgentKit created this network, which has no agents, for an agent without a network. */
export function isAlone<T extends StateData>(network: NetworkRun<T> | undefined): boolean {
  return network === undefined || network.agents.size === 0;
}
