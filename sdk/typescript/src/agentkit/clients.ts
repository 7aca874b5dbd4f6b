import type { NetworkRun, State, StateData } from "@inngest/agent-kit";
import { Threadline } from "../client.js";
import { HOOKS_TIMEOUT_MS } from "../limits.js";
import type { HistoryOptions } from "./options.js";

/** The clients of one history: one for each run, since all hooks of a run share one retry time. */
export class Clients<T extends StateData> {
  readonly #options: HistoryOptions<T>;
  readonly #owners = new WeakMap<State<T>, { readonly user: string | undefined }>();
  readonly #clients = new WeakMap<State<T>, Threadline>();
  /** The newest run of each state. */
  readonly #runs = new WeakMap<State<T>, NetworkRun<T>>();

  /** Throws a `ConfigError` if the options are invalid. */
  constructor(options: HistoryOptions<T>) {
    this.#options = options;
    this.#create(undefined);
  }

  /** Called with the first hook of a run, and possibly with further ones. */
  begin(state: State<T>, run: NetworkRun<T> | undefined): void {
    if (run && this.#runs.get(state) === run) return;
    this.#clients.delete(state);
    if (run) this.#runs.set(state, run);
  }

  /** The client of a run. */
  of(state: State<T>): Threadline {
    let client = this.#clients.get(state);
    if (!client) {
      client = this.#create(this.owner(state));
      this.#clients.set(state, client);
    }
    return client;
  }

  /** The user that the state named when its first run started, even if the state changes. */
  owner(state: State<T>): string | undefined {
    let owner = this.#owners.get(state);
    if (!owner) {
      const { user } = this.#options;
      const { userId } = state.data as { userId?: unknown };
      owner = { user: user ? user(state) : typeof userId === "string" ? userId : undefined };
      this.#owners.set(state, owner);
    }
    return owner.user;
  }

  #create(user: string | undefined): Threadline {
    const options = this.#options;
    if (options.client) return options.client;
    const { url, apiKey, project, timeout = HOOKS_TIMEOUT_MS, fetch } = options;
    return new Threadline({
      url,
      ...(apiKey !== undefined && { apiKey }),
      ...(project !== undefined && { project }),
      retries: { reads: timeout, writes: timeout, producers: timeout, together: "once" },
      ...(fetch && { fetch }),
      ...(user !== undefined && { user }),
    });
  }
}
