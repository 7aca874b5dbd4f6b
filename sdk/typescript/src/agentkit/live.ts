// A run that is open while networks of this process work on a thread, so that other readers see their progress.

import { ClosedError } from "../errors.js";
import { STREAM_SILENCE_MS } from "../limits.js";
import type { RunHandle } from "../run-handle.js";
import type { ThreadRef } from "../threads.js";
import type { AgUiEvent, Run } from "../types.js";

/** Error with which a run ends if its network has failed. */
class NetworkFailed extends Error {
  override readonly name = "NetworkFailed";
}

/** One open run of a thread. Networks that start while the run is open join it. */
export class LiveRun {
  readonly #producer: RunHandle;
  readonly #done: Promise<Run>;
  readonly #end: (failure?: Error) => void;
  readonly #networks = new Set<string>();
  #failure: Error | undefined;
  #ending = false;
  #silence: ReturnType<typeof setTimeout> | undefined;

  /** Starts the run; rejects if another run is active in the thread. */
  static begin(thread: ThreadRef, runId: string, agentId: string | undefined): Promise<LiveRun> {
    return new Promise((resolve, reject) => {
      let end: (failure?: Error) => void = () => {};
      const ended = new Promise<void>((finish, fail) => (end = (failure) => (failure ? fail(failure) : finish())));
      const body = (producer: RunHandle) => {
        resolve(new LiveRun(producer, done, end));
        return ended;
      };
      // Another process would have begun this run for another network of the same id. Networks that share the run have steps of the
      // same names open at once, which is no order of AG-UI's.
      const options = {
        runId,
        onExisting: "refuse",
        validate: false,
        ...(agentId !== undefined && { agentId }),
      } as const;
      const done = thread.run(options, body);
      done.then(() => reject(new ClosedError("the run has already ended")), reject);
    });
  }

  private constructor(producer: RunHandle, done: Promise<Run>, end: (failure?: Error) => void) {
    this.#producer = producer;
    this.#done = done;
    this.#end = end;
    this.#heard();
    // AgentKit cannot be stopped, but no further events are written.
    producer.signal.addEventListener("abort", () => this.#finish(), { once: true });
  }

  /** True if the run accepts no further events: it is ending, was stopped, or was lost. */
  get over(): boolean {
    return this.#ending || this.#producer.signal.aborted;
  }

  /** Adds a network; returns `false` if the run is over. */
  join(network: string): boolean {
    if (this.over) return false;
    this.#networks.add(network);
    return true;
  }

  has(network: string): boolean {
    return this.#networks.has(network);
  }

  /** Resolves as soon as there is room for more. */
  async append(events: readonly AgUiEvent[]): Promise<void> {
    if (this.over) throw new ClosedError("the run has ended");
    this.#heard();
    await this.#producer.append(events);
  }

  /** Resolves when all appended events are durable. */
  flush(): Promise<void> {
    return this.#producer.flush();
  }

  /** Appends events that must not be lost; returns `false` if they have to be saved in another way. */
  async write(events: readonly AgUiEvent[]): Promise<boolean> {
    try {
      // Both are started in the same turn, so that an end of the run comes either before or after both.
      await Promise.all([this.append(events), this.flush()]);
      return true;
    } catch {
      return false;
    }
  }

  /** Called before a failed network leaves: the run ends as failed. */
  fail(message: string): void {
    this.#failure = new NetworkFailed(message);
  }

  /** Removes a network. With the last one the run ends; resolves when it has ended. */
  async leave(network: string): Promise<void> {
    this.#networks.delete(network);
    if (this.#networks.size > 0) return;
    this.#finish(this.#failure);
    await this.ended();
  }

  /** Resolves when the run has ended; rejects if its outcome is unknown. */
  async ended(): Promise<void> {
    await this.#done.catch((error: unknown) => {
      if (!(error instanceof NetworkFailed)) throw error;
    });
  }

  #finish(failure?: Error): void {
    this.#ending = true;
    clearTimeout(this.#silence);
    this.#end(failure);
  }

  /** Restarts the silence timer: a network that AgentKit abandons without notice must not block the thread. */
  #heard(): void {
    clearTimeout(this.#silence);
    const why = "no event arrived from AgentKit before the timeout";
    this.#silence = setTimeout(() => this.#finish(new NetworkFailed(why)), STREAM_SILENCE_MS);
  }
}
