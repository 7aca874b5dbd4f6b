// A run that is open while networks of this process work on a thread, so that others see what they do.

import { ClosedError } from "../errors.js";
import { STREAM_SILENCE_MS } from "../limits.js";
import type { Producer } from "../producer.js";
import type { ThreadRef } from "../threads.js";
import type { AgUiEvent, Run } from "../types.js";

/** What a run is ended with if its network failed. */
class NetworkFailed extends Error {
  override readonly name = "NetworkFailed";
}

/** One open run of a thread. Networks that begin while it is open take part in it. */
export class LiveRun {
  readonly #producer: Producer;
  readonly #done: Promise<Run>;
  readonly #end: (failure?: Error) => void;
  readonly #networks = new Set<string>();
  #failure: Error | undefined;
  #ending = false;
  #silence: ReturnType<typeof setTimeout> | undefined;

  /** Begins it; rejects if another run is active in the thread. */
  static begin(thread: ThreadRef, runId: string, agentId: string | undefined): Promise<LiveRun> {
    return new Promise((resolve, reject) => {
      let end: (failure?: Error) => void = () => {};
      const ended = new Promise<void>((finish, fail) => (end = (failure) => (failure ? fail(failure) : finish())));
      const body = (producer: Producer) => {
        void producer.append({ type: "RUN_STARTED", threadId: thread.threadId, runId });
        resolve(new LiveRun(producer, done, end));
        return ended;
      };
      const done = thread.run(body, { runId, ...(agentId !== undefined && { agentId }) });
      done.then(() => reject(new ClosedError("the run has already ended")), reject);
    });
  }

  private constructor(producer: Producer, done: Promise<Run>, end: (failure?: Error) => void) {
    this.#producer = producer;
    this.#done = done;
    this.#end = end;
    this.#heard();
    // AgentKit cannot be stopped, but nobody is shown any more of what it does.
    producer.signal.addEventListener("abort", () => this.#finish(), { once: true });
  }

  /** Whether it takes nothing any more: it ends, was asked to stop, or is lost to the server or to us. */
  get over(): boolean {
    return this.#ending || this.#producer.signal.aborted;
  }

  /** A network takes part from now on; `false` if it is over. */
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

  /** Resolves when all that was appended is durable. */
  flush(): Promise<void> {
    return this.#producer.flush();
  }

  /** Appends events that must not be lost; `false` if they have to be saved in another way. */
  async write(events: readonly AgUiEvent[]): Promise<boolean> {
    try {
      // Begun in one turn: an end of the run comes before both or after both.
      await Promise.all([this.append(events), this.flush()]);
      return true;
    } catch {
      return false;
    }
  }

  /** Said before a network leaves that has failed: the run ends badly. */
  fail(message: string): void {
    this.#failure = new NetworkFailed(message);
  }

  /** With the last network the run ends; resolves when it has. */
  async leave(network: string): Promise<void> {
    this.#networks.delete(network);
    if (this.#networks.size > 0) return;
    this.#finish(this.#failure);
    await this.ended();
  }

  /** Resolves when the run has ended; rejects if nobody knows how. */
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

  /** A network that AgentKit gives up without a word must not keep the thread for ever. */
  #heard(): void {
    clearTimeout(this.#silence);
    const why = "nothing came from AgentKit for too long";
    this.#silence = setTimeout(() => this.#finish(new NetworkFailed(why)), STREAM_SILENCE_MS);
  }
}
