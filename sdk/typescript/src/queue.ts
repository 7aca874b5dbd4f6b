import type { Call, Http } from "./http.js";
import type { ReadOptions, RunInput, WriteOptions } from "./runs.js";
import type { Queue } from "./types.js";

/** The members to change. Absent members stay unchanged. */
export interface TurnEdit extends WriteOptions {
  /** Another input, in place of the whole input of the turn. */
  readonly input?: RunInput;
  /** The turn before which this one is placed; null places it last. */
  readonly before?: string | null;
  /**
   * The version that the queue must have, else the call fails with `queue-changed`. So does a call that is repeated because its
   * response was lost: read the queue again.
   */
  readonly version?: number;
}

/**
 * The queue of one thread. A turn that has begun meanwhile is refused with `turn-begun`, and its run is `problem.run`; one that
 * is not there with `turn-not-found`.
 */
export class ThreadQueue {
  readonly #http: Http;
  readonly #path: readonly string[];

  constructor(http: Http, threadId: string) {
    this.#http = http;
    this.#path = ["threads", threadId, "queue"];
  }

  /** Returns the turns that wait, with their messages. */
  get(options?: ReadOptions): Promise<Queue> {
    return this.#http.read(this.#path, options);
  }

  /** Changes the input of a turn, or its place. Returns the queue after the change. */
  edit(runId: string, edit: TurnEdit): Promise<Queue> {
    const { signal, epoch, ...body } = edit;
    return this.#change("PATCH", [runId], { signal, epoch }, body);
  }

  /** Removes a turn; it leaves no run. A turn that is not there is removed already. */
  remove(runId: string, options?: WriteOptions): Promise<void> {
    return this.#change("DELETE", [runId], options);
  }

  /** Holds the queue: no turn begins until it is released. The active run continues. */
  hold(options?: WriteOptions): Promise<Queue> {
    return this.#change("POST", ["hold"], options);
  }

  /** Releases the queue, whatever holds it. If no run is active, the next turn begins. */
  release(options?: WriteOptions): Promise<Queue> {
    return this.#change("POST", ["release"], options);
  }

  /** Begins a turn as soon as possible: it becomes the first, the queue is released, and the active run is stopped. */
  start(runId: string, options?: WriteOptions): Promise<Queue> {
    return this.#change("POST", [runId, "start"], options);
  }

  #change<T>(
    method: "PATCH" | "DELETE" | "POST",
    path: readonly string[],
    { signal, epoch }: WriteOptions = {},
    body?: Call["body"],
  ): Promise<T> {
    return this.#http.call({ method, path: [...this.#path, ...path], query: { epoch }, body, signal });
  }
}
