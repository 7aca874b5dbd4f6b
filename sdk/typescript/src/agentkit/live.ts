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
      done.then(() => reject(new ClosedError("the run has ended before")), reject);
    });
  }

  private constructor(producer: Producer, done: Promise<Run>, end: (failure?: Error) => void) {
    this.#producer = producer;
    this.#done = done;
    this.#end = end;
    this.#heard();
    // AgentKit cannot be stopped, but nobody is shown any more of what it does.
    producer.signal.addEventListener("abort", () => this.#end(), { once: true });
  }

  /** Whether it takes nothing any more: it was asked to stop, the server has ended it, or cannot be reached. */
  get lost(): boolean {
    return this.#producer.signal.aborted;
  }

  join(network: string): void {
    this.#networks.add(network);
  }

  has(network: string): boolean {
    return this.#networks.has(network);
  }

  async append(events: readonly AgUiEvent[]): Promise<void> {
    this.#heard();
    await this.#producer.append(events);
  }

  /** Resolves when all that was appended is durable. */
  flush(): Promise<void> {
    return this.#producer.flush();
  }

  /** Said before a network leaves that has failed: the run ends badly. */
  fail(message: string): void {
    this.#failure = new NetworkFailed(message);
  }

  /** Resolves to whether that was the last one: then the run has ended. */
  async leave(network: string): Promise<boolean> {
    this.#networks.delete(network);
    if (this.#networks.size > 0) return false;
    clearTimeout(this.#silence);
    this.#end(this.#failure);
    await this.#done.catch((error: unknown) => {
      if (!(error instanceof NetworkFailed)) throw error;
    });
    return true;
  }

  /** A network that AgentKit gives up without a word must not keep the thread for ever. */
  #heard(): void {
    clearTimeout(this.#silence);
    const why = "nothing came from AgentKit for too long";
    this.#silence = setTimeout(() => this.#end(new NetworkFailed(why)), STREAM_SILENCE_MS);
  }
}
