// What a thread shows of messages that are on their way, in any order of answers, refusals, lost answers, events of the log,
// reloads, and switches to another thread.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ConnectionError, ProblemError, type Threadline, TimeoutError } from "../../src/index.js";
import type { ThreadItem } from "../../src/connection/follow.js";
import { ANSWER_MS, FRAME_MS } from "../../src/limits.js";
import type { StartOptions } from "../../src/runs.js";
import { storesOf } from "../../src/react/stores.js";
import type { ThreadStore } from "../../src/react/thread.js";
import type { AgUiEvent, Message, PlacedTurn, Run, RunAgentInput, StartedRun, Thread } from "../../src/types.js";
import { Random } from "../harness/random.js";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance", "Date"] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** A request for a run that has not been answered. */
interface Asked {
  readonly options: StartOptions;
  readonly resolve: (answer: StartedRun | PlacedTurn) => void;
  readonly reject: (error: Error) => void;
}

interface Batch {
  readonly runId: string;
  readonly events: readonly AgUiEvent[];
}

const RUN_ACTIVE = { type: "/problems/run-active", title: "A run is active", status: 409, retryable: true };

/** A client of threads that tests play. */
class Played {
  readonly #stages = new Map<string, Stage>();
  readonly client = {
    thread: (threadId: string) => this.stage(threadId).ref,
    threads: { list: () => new Promise(() => {}) },
    onStatus: () => () => {},
    status: { state: "live", transport: "websocket" },
    followFeed: () => ({ close: () => {} }),
  } as unknown as Threadline;

  stage(threadId: string): Stage {
    let stage = this.#stages.get(threadId);
    if (!stage) this.#stages.set(threadId, (stage = new Stage(threadId, this.client)));
    return stage;
  }
}

/** A thread at a server that the test plays, and the page that shows it. */
class Stage {
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

  constructor(threadId: string, client: Threadline) {
    this.threadId = threadId;
    this.#client = client;
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

const started = (runId: string, message: Message): AgUiEvent => {
  const own = { threadId: "t", runId };
  return { type: "RUN_STARTED", ...own, input: { ...own, messages: [message] } };
};

/** Lets promises settle, and a frame pass. */
const settled = () => vi.advanceTimersByTimeAsync(FRAME_MS + 1);

/** The messages that the received part of the log has. */
function logged({ log, told }: Stage): string[] {
  return log.slice(0, told).flatMap(({ events }) => {
    return events.flatMap((event) => (event as { input: RunAgentInput }).input.messages.map(({ id }) => id));
  });
}

const ids = ({ shown }: Stage) => shown.messages.map(({ id }) => id);
const deliveries = ({ shown }: Stage) => shown.messages.map(({ delivery }) => delivery);

describe("a message", () => {
  let stage: Stage;
  let played: Played;
  beforeEach(async () => {
    played = new Played();
    stage = played.stage("t");
    stage.log.push({
      runId: "before",
      events: [started("before", { id: "first", role: "user", content: "Hi" })],
    });
    await stage.open();
    expect(ids(stage)).toEqual(["first"]);
  });

  const send = (id: string) => {
    const call = stage.store.send({ id, role: "user", content: id });
    call.catch(() => {});
    return call;
  };

  test("is shown in the same tick, and leaves for that of the log", async () => {
    const call = send("m");
    expect(stage.shown.messages.at(-1)).toEqual({ id: "m", role: "user", content: "m", delivery: "sending" });
    expect(stage.shown.isSending).toBe(true);
    await settled();
    stage.answer(stage.asked[0]!);
    await call;
    expect(stage.shown).toMatchObject({ isSending: false, isRunning: true });
    expect(deliveries(stage)).toEqual([undefined, "sending"]);
    const before = stage.shown.messages;
    await settled();
    expect(stage.shown.messages).toBe(before);
    await stage.tell();
    expect(stage.shown.messages.at(-1)).toEqual({ id: "m", role: "user", content: "m" });
  });

  test("stays as failed, with the reason, until it is sent again or discarded", async () => {
    const refused = send("m");
    await settled();
    const error = new ProblemError(RUN_ACTIVE, 409);
    const [first] = stage.asked;
    stage.fail(first!, error);
    await expect(refused).rejects.toBe(error);
    expect(stage.shown.messages.at(-1)).toMatchObject({ delivery: "failed", deliveryError: error });
    const again = stage.store.retry("m");
    expect(stage.shown.messages.at(-1)).toEqual({ id: "m", role: "user", content: "m", delivery: "sending" });
    await settled();
    // The same ids, so that the server recognizes the request.
    expect(stage.asked[0]!.options).toEqual(first!.options);
    stage.fail(stage.asked[0]!, new ConnectionError("lost"));
    await expect(again).rejects.toThrow("lost");
    stage.store.discard("m");
    expect(ids(stage)).toEqual(["first"]);
    await expect(stage.store.retry("m")).rejects.toThrow("no message");
  });

  test("is sent after the ones before it", async () => {
    for (const id of ["m", "n", "o"]) send(id);
    expect(ids(stage)).toEqual(["first", "m", "n", "o"]);
    await settled();
    expect(stage.asked.map(({ options }) => options.input.messages![0]!["id"])).toEqual(["m"]);
    stage.fail(stage.asked[0]!, new ProblemError(RUN_ACTIVE, 409));
    await settled();
    stage.answer(stage.asked[0]!);
    await settled();
    stage.answer(stage.asked[0]!);
    await stage.tell();
    expect([ids(stage), deliveries(stage)]).toEqual([
      ["first", "n", "o", "m"],
      [undefined, undefined, undefined, "failed"],
    ]);
  });

  test("that is not answered in time has failed, and arrives nevertheless", async () => {
    const call = send("m");
    await vi.advanceTimersByTimeAsync(ANSWER_MS - 2 * FRAME_MS);
    expect(deliveries(stage)).toEqual([undefined, "sending"]);
    await vi.advanceTimersByTimeAsync(3 * FRAME_MS);
    expect(stage.shown.messages.at(-1)!.deliveryError).toBeInstanceOf(TimeoutError);
    expect(stage.shown.isSending).toBe(false);
    stage.commit(stage.asked[0]!);
    await stage.tell();
    expect(deliveries(stage)).toEqual([undefined, undefined]);
    stage.answer(stage.asked[0]!);
    await call;
    expect(ids(stage)).toEqual(["first", "m"]);
  });

  test("of an edit is shown in the fork, after what it keeps, from the same tick on", async () => {
    send("m");
    await settled();
    stage.answer(stage.asked[0]!);
    await stage.tell();
    const { threadId, started } = stage.store.branches.edit("m", { id: "edited", role: "user", content: "Hello" });
    const fork = played.stage(threadId);
    const leave = fork.store.subscribe(() => {});
    const seen = () => [ids(fork), deliveries(fork)];
    expect(seen()).toEqual([
      ["first", "edited"],
      [undefined, "sending"],
    ]);
    expect(fork.shown).toMatchObject({ shownThreadId: threadId, isLoading: false, isSending: true });
    expect(ids(stage)).toEqual(["first", "m"]);
    await settled();
    // The request is that of the thread which is forked.
    const [first] = stage.asked;
    expect(first!.options.fork).toEqual({ threadId, before: "m" });
    stage.fail(first!, new ConnectionError("lost"));
    await expect(started).rejects.toThrow("lost");
    expect(seen()).toEqual([
      ["first", "edited"],
      [undefined, "failed"],
    ]);
    expect(fork.store.returnsTo).toBeUndefined();
    // What is said in the fork waits for it, and creates no other thread.
    const early = fork.store.send({ id: "early", role: "user", content: "" });
    await expect(early).rejects.toThrow("has not begun");
    fork.store.discard("early");
    const again = fork.store.retry("edited");
    await settled();
    expect(stage.asked[0]!.options).toEqual(first!.options);
    const next = fork.store.send({ id: "next", role: "user", content: "" });
    stage.answer(stage.asked[0]!);
    expect(await again).toMatchObject({ threadId });
    expect(fork.shown).toMatchObject({ isRunning: true, run: { runId: first!.options.runId } });
    await settled();
    expect(fork.asked.map(({ options }) => options.input.messages![0]!["id"])).toEqual(["next"]);
    fork.answer(fork.asked[0]!);
    await next;
    expect(ids(fork)).toEqual(["first", "edited", "next"]);
    leave();
  });

  test("of an edit that is discarded, and a refused regeneration, lead back to the thread", async () => {
    const { threadId, started } = stage.store.branches.edit("first", { id: "edited", role: "user", content: "Hello" });
    const fork = played.stage(threadId);
    const leave = fork.store.subscribe(() => {});
    await settled();
    stage.fail(stage.asked[0]!, new ConnectionError("lost"));
    await expect(started).rejects.toThrow("lost");
    fork.store.discard("edited");
    expect(fork.store.returnsTo).toBe("t");
    leave();

    const again = stage.store.branches.regenerate("first");
    const other = played.stage(again.threadId);
    const end = other.store.subscribe(() => {});
    expect(other.shown).toMatchObject({ isSending: true, messages: [] });
    expect(other.store.returnsTo).toBeUndefined();
    await settled();
    stage.fail(stage.asked[0]!, new ProblemError(RUN_ACTIVE, 409));
    await expect(again.started).rejects.toThrow("A run is active");
    expect(other.store.returnsTo).toBe("t");
    expect(stage.shown.error).toMatchObject({ slug: "run-active" });
    end();
  });

  test("of an edit of an edit is sent when its thread has begun", async () => {
    const one = stage.store.branches.edit("first", { id: "one", role: "user", content: "" });
    const fork = played.stage(one.threadId);
    const leave = fork.store.subscribe(() => {});
    const two = fork.store.branches.edit("one", { id: "two", role: "user", content: "" });
    const next = played.stage(two.threadId);
    const end = next.store.subscribe(() => {});
    expect([ids(fork), ids(next)]).toEqual([["one"], ["two"]]);
    await settled();
    expect([stage.asked.length, fork.asked.length]).toEqual([1, 0]);
    stage.answer(stage.asked[0]!);
    await one.started;
    await settled();
    expect(fork.asked[0]!.options.fork).toEqual({ threadId: two.threadId, before: "one" });
    fork.answer(fork.asked[0]!);
    expect((await two.started).threadId).toBe(two.threadId);
    leave();
    end();
  });
});

/** What the test knows of a message. */
interface Fate {
  isDiscarded: boolean;
  /** True once the page has received it from the log. */
  wasLogged: boolean;
}

test("whatever happens in whatever order, each message is shown once, in the order of the log, and no other", async () => {
  for (let round = 0; round < 60; round += 1) {
    const random = new Random();
    const played = new Played();
    const [here, there] = [played.stage("here"), played.stage("there")];
    await here.open();
    const fates = new Map<string, Fate>();
    let number = 0;
    const steps: string[] = [];

    const expectTruth = () => {
      if (!here.isOpen) return;
      const context = `seed ${random.seed}: ${steps.join(", ")}`;
      const shown = ids(here);
      expect(new Set(shown).size, context).toBe(shown.length);
      const inLog = logged(here);
      expect(shown.slice(0, inLog.length), context).toEqual(inLog);
      for (const id of inLog) if (fates.has(id)) fates.get(id)!.wasLogged = true;
      const waiting = [...fates].flatMap(([id, fate]) => (fate.isDiscarded || fate.wasLogged ? [] : id));
      expect([...shown.slice(inLog.length)].sort(), context).toEqual(waiting.sort());
      expect(
        deliveries(here).map((delivery) => delivery === undefined),
        context,
      ).toEqual(shown.map((_, at) => at < inLog.length));
    };

    const failed = () => here.shown.messages.filter(({ delivery }) => delivery === "failed");
    const acts: { readonly [name: string]: () => Promise<unknown> | void } = {
      send: () => {
        const id = `m${(number += 1)}`;
        fates.set(id, { isDiscarded: false, wasLogged: false });
        here.store.send({ id, role: "user", content: id }).catch(() => {});
        expect(ids(here), `seed ${random.seed}`).toContain(id);
      },
      answer: () => (here.asked.length > 0 ? here.answer(random.pick(here.asked)) : undefined),
      commit: () => (here.asked.length > 0 ? here.commit(random.pick(here.asked)) : undefined),
      refuse: () => {
        const refusable = here.asked.filter(({ options }) => here.log.every(({ runId }) => runId !== options.runId));
        if (refusable.length > 0) here.fail(random.pick(refusable), new ProblemError(RUN_ACTIVE, 409));
      },
      loseAnswer: () => {
        if (here.asked.length === 0) return;
        const asked = random.pick(here.asked);
        if (random.chance(0.5)) here.commit(asked);
        here.fail(asked, new ConnectionError("lost"));
      },
      tell: () => here.tell(1),
      others: () =>
        void here.log.push({
          runId: `other${(number += 1)}`,
          events: [started(`other${number}`, { id: `o${number}`, role: "user", content: "" })],
        }),
      wait: () => void vi.advanceTimersByTime(ANSWER_MS),
      retry: () => {
        const [first] = failed();
        if (first) here.store.retry(first.id).catch(() => {});
      },
      discard: () => {
        const [first] = failed();
        if (!first) return;
        fates.get(first.id)!.isDiscarded = true;
        here.store.discard(first.id);
      },
      reload: () => (here.isOpen ? here.lose(0) : undefined),
      lose: () => {
        // Events that the page has not received, so that it cannot know them from the log.
        const count = here.log.length - here.told;
        return here.isOpen && count > 0 ? here.lose(count) : undefined;
      },
      away: async () => {
        await here.leave();
        await there.open();
        there.store.send({ id: `there${(number += 1)}`, role: "user", content: "" }).catch(() => {});
        expect(ids(there).every((id) => id.startsWith("there"))).toBe(true);
        await there.leave();
        await here.open();
      },
    };

    for (let step = 0; step < 40; step += 1) {
      const name = random.pick(Object.keys(acts));
      steps.push(name);
      await acts[name]!();
      await settled();
      expectTruth();
    }
    // In the end all is answered and received.
    while (failed().length > 0 || here.asked.length > 0) {
      for (const { id } of failed()) here.store.retry(id).catch(() => {});
      await settled();
      for (const asked of [...here.asked]) here.answer(asked);
      await settled();
    }
    await here.tell();
    expectTruth();
    expect(deliveries(here), `seed ${random.seed}: ${steps.join(", ")}`).toEqual(ids(here).map(() => undefined));
    await here.leave();
  }
});
