import type { Http } from "./http.js";
import type { ReadOptions } from "./runs.js";
import type { Agent } from "./types.js";

/** The agents of a project, to which runs can be delegated. */
export class Agents {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  /** Lists all agents, sorted by name. */
  async list(options?: ReadOptions): Promise<readonly Agent[]> {
    const { agents } = await this.#http.read<{ agents: readonly Agent[] }>(["agents"], options);
    return agents;
  }
}
