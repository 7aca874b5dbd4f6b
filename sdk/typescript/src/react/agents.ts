import type { Threadline } from "../client.js";
import type { ThreadlineError } from "../errors.js";
import type { Agent } from "../types.js";
import { FOR_EVER, patiently } from "./replay.js";
import { Store, troubleOf } from "./store.js";

/** Snapshot of the agents of a project. */
export interface AgentsSnapshot {
  /** The agents to which runs can be delegated, sorted by name. */
  readonly agents: readonly Agent[];
  readonly isLoading: boolean;
  /** The reason why the agents cannot be loaded; null after the next success. */
  readonly error: ThreadlineError | null;
}

export const EMPTY_AGENTS: AgentsSnapshot = { agents: [], isLoading: true, error: null };

/** The agents of a project, read when the first component shows them. */
export class AgentsStore extends Store<AgentsSnapshot> {
  readonly #client: Threadline;
  #shown = EMPTY_AGENTS;
  #open = new AbortController();
  #end = () => {};

  constructor(client: Threadline, onClose?: () => void) {
    super(EMPTY_AGENTS, onClose);
    this.#client = client;
  }

  protected override open(): void {
    this.#open = new AbortController();
    this.#end = this.#client.onStatus(() => this.changed());
    void this.#load(this.#open.signal);
  }

  protected override close(): void {
    this.#open.abort();
    this.#end();
    this.#shown = EMPTY_AGENTS;
  }

  protected override look(): AgentsSnapshot {
    const { error, isLoading } = this.#shown;
    return { ...this.#shown, error: error ?? (isLoading ? troubleOf(this.#client.status) : null) };
  }

  protected override setError(error: ThreadlineError | null): void {
    this.#shown = { ...this.#shown, error };
  }

  async #load(signal: AbortSignal): Promise<void> {
    try {
      const read = () => this.#client.agents.list({ signal, ...FOR_EVER });
      const agents = await patiently(read, signal, (error) => this.showError(error));
      if (!signal.aborted) this.#shown = { agents, isLoading: false, error: null };
    } catch (error) {
      if (!signal.aborted) this.#shown = { ...this.#shown, isLoading: false, error: error as ThreadlineError };
    }
    if (!signal.aborted) this.publish();
  }
}
