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
  async list({ signal, retryFor }: ReadOptions = {}): Promise<readonly Agent[]> {
    const { agents } = await this.#http.call<{ agents: readonly Agent[] }>({ path: ["agents"], signal, retryFor });
    return agents;
  }
}
