// A page with threads at a server that a test plays: it answers, refuses and loses requests in any order, and tells of the log.

import { vi } from "vitest";
import { ProblemError, type Threadline } from "../../src/index.js";
import type { ThreadItem } from "../../src/connection/follow.js";
import { FRAME_MS } from "../../src/limits.js";
import { storesOf } from "../../src/react/stores.js";
import type { ThreadStore } from "../../src/react/thread.js";
import type { StartOptions } from "../../src/runs.js";
import type { AgUiEvent, Message, PlacedTurn, Run, RunAgentInput, StartedRun, Thread } from "../../src/types.js";

/** A request for a run that has not been answered. */
export interface Asked {
  readonly options: StartOptions;
  readonly resolve: (answer: StartedRun | PlacedTurn) => void;
  readonly reject: (error: Error) => void;
}

interface Batch {
  readonly runId: string;
  readonly events: readonly AgUiEvent[];
}

export const RUN_ACTIVE = { type: "/problems/run-active", title: "A run is active", status: 409, retryable: true };

/** A client of threads that tests play. */
export class Played {
  readonly #stages = new Map<string, Stage>();
  readonly client = {
    thread: (threadId: string) => this.stage(threadId).ref,
    threads: { list: () => new Promise(() => {}) },
    onStatus: () => () => {},
    status: { state: "live", transport: "websocket" },
    followFeed: () => ({ close: () => {} }),
  } as unknown as Threadline;

  /** A thread; the server of `before` has it already. */
  stage(threadId: string, before?: Stage): Stage {
    let stage = this.#stages.get(threadId);
    if (!stage) this.#stages.set(threadId, (stage = new Stage(threadId, this.client, before)));
    return stage;
  }
}

/** A thread at a server that the test plays, and the page that shows it. */
export class Stage {
  readonly threadId: string;
  readonly #client: Threadline;
  asked: Asked[] = [];
  /** The log, one batch for each entry, all with one event. */
  log: Batch[] = [];
  epoch = 1;
  readonly ref = this.#ref();
  #follower: { onItem: (item: ThreadItem) => void; onError: (error: Error) => void } | undefined;
  /** Number of batches that the page has received. */
  told = 0;
  #leave: (() => void) | undefined;

  constructor(threadId: string, client: Threadline, before?: Stage) {
    this.threadId = threadId;
    this.#client = client;
    if (!before) return;
    this.log = before.log;
    this.epoch = before.epoch;
    // Requests on their way arrive, or are lost, though nobody waits for their answers.
    this.asked = before.asked;
  }

  get store(): ThreadStore {
    return storesOf(this.#client).thread(this.threadId);
  }

  get shown() {
    return this.store.getSnapshot();
  }

  get isOpen(): boolean {
    return this.#leave !== undefined;
  }

  /** Shows the thread, and everything in its log. */
  async open(): Promise<void> {
    this.#leave = this.store.subscribe(() => {});
    await settled();
    await this.tell();
    this.#follower?.onItem({ type: "caughtUp", seq: this.told });
    await settled();
  }

  /** Shows another thread. */
  async leave(): Promise<void> {
    this.#leave?.();
    this.#leave = undefined;
    await settled();
  }

  /** The server commits a run with the messages of a request. */
  commit({ options }: Asked): void {
    const { runId, input, fork } = options;
    if (fork || this.log.some((batch) => batch.runId === runId)) return;
    this.log.push({
      runId: runId!,
      events: [{ type: "RUN_STARTED", threadId: "t", runId: runId!, input: input as RunAgentInput }],
    });
  }

  answer(asked: Asked): void {
    this.commit(asked);
    this.asked = this.asked.filter((other) => other !== asked);
    const { runId = "", fork } = asked.options;
    const firstSeq = this.log.findIndex((batch) => batch.runId === runId) + 1;
    const run = { runId, firstSeq, agentId: "a", stopRequested: false, startedAt: "", endedAt: null } as unknown as Run;
    const threadId = fork?.threadId ?? this.threadId;
    asked.resolve({ threadId, run, epoch: fork ? "of the fork" : `${this.epoch}`, cursor: firstSeq - 1 });
  }

  fail(asked: Asked, error: Error): void {
    this.asked = this.asked.filter((other) => other !== asked);
    asked.reject(error);
  }

  /** The page receives the next events, all by default. */
  async tell(count = this.log.length - this.told): Promise<void> {
    const batches = this.log.slice(this.told, this.told + count).map(({ runId, events }, at) => {
      return { seq: this.told + at + 1, runId, at: "", events };
    });
    if (batches.length === 0 || !this.#follower) return;
    this.told += batches.length;
    this.#follower.onItem({ type: "events", batches });
    await settled();
  }

  /** The server has lost the newest events, and the page loads the thread again. */
  async lose(count: number): Promise<void> {
    this.log.splice(this.log.length - count, count);
    this.epoch += 1;
    this.told = 0;
    const problem = { type: "/problems/log-replaced", title: "Replaced", status: 410, epoch: `${this.epoch}` };
    this.#follower?.onError(new ProblemError(problem, 410));
    await settled();
    await this.tell();
    this.#follower?.onItem({ type: "caughtUp", seq: this.told });
    await settled();
  }

  #ref(): unknown {
    const stage = this;
    return {
      get threadId() {
        return stage.threadId;
      },
      get: async () => {
        const { threadId, epoch } = this;
        return { threadId, epoch: `${epoch}`, tail: 0, activeRun: null, agentId: "a", queued: 0, held: null } as Thread;
      },
      branches: async () => [],
      start: (options: StartOptions) => new Promise((resolve, reject) => this.asked.push({ options, resolve, reject })),
      follow: (told: { onItem: (item: ThreadItem) => void; onError: (error: Error) => void; epoch: string }) => {
        this.told = 0;
        this.#follower = told;
        return {
          get cursor() {
            return stage.told;
          },
          epoch: told.epoch,
          close: () => {},
        };
      },
    };
  }
}

export const started = (runId: string, message: Message): AgUiEvent => {
  const own = { threadId: "t", runId };
  return { type: "RUN_STARTED", ...own, input: { ...own, messages: [message] } };
};

/** Lets promises settle, and a frame pass. */
export const settled = () => vi.advanceTimersByTimeAsync(FRAME_MS + 1);

/** The messages that the received part of the log has. */
export function logged({ log, told }: Stage): string[] {
  return log.slice(0, told).flatMap(({ events }) => {
    return events.flatMap((event) => (event as { input: RunAgentInput }).input.messages.map(({ id }) => id));
  });
}

export const ids = ({ shown }: Stage) => shown.messages.map(({ id }) => id);
export const deliveries = ({ shown }: Stage) => shown.messages.map(({ delivery }) => delivery);
