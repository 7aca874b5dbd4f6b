// What a thread shows of messages that are on their way, in any order of answers, refusals, lost answers, events of the log,
// reloads, and switches to another thread.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ConnectionError, ProblemError, TimeoutError } from "../../src/index.js";
import { ANSWER_MS, FRAME_MS } from "../../src/limits.js";
import { Random } from "../harness/random.js";
import { type Asked, deliveries, ids, logged, Played, RUN_ACTIVE, settled, type Stage, started } from "./stage.js";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance", "Date"] });
});
afterEach(() => {
  vi.useRealTimers();
});

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
    // A message in the fork waits for the fork, and creates no other thread.
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
  /** True if only the log can show it: it was discarded, or its page is gone. */
  isDiscarded: boolean;
  /** True once the page has received it from the log. */
  wasLogged: boolean;
}

/** Two threads at a server, one of which a page shows, and what the page has to show of it. */
class World {
  here: Stage;
  there: Stage;
  readonly fates = new Map<string, Fate>();
  readonly steps: string[] = [];
  #number = 0;

  constructor() {
    const played = new Played();
    this.here = played.stage("here");
    this.there = played.stage("there");
  }

  next(prefix: string): string {
    return `${prefix}${(this.#number += 1)}`;
  }

  send(): string {
    const id = this.next("m");
    this.fates.set(id, { isDiscarded: false, wasLogged: false });
    this.here.store.send({ id, role: "user", content: id }).catch(() => {});
    expect(ids(this.here), this.story).toContain(id);
    return id;
  }

  /** Shows the other thread for a while. */
  async away(): Promise<void> {
    const { here, there } = this;
    await here.leave();
    await there.open();
    there.store.send({ id: this.next("there"), role: "user", content: "" }).catch(() => {});
    expect(ids(there).every((id) => id.startsWith("there"))).toBe(true);
    await there.leave();
    await here.open();
  }

  /** The page is loaded again: it knows nothing but the log, and requests on their way may still arrive. */
  async reload(): Promise<void> {
    await this.here.leave();
    for (const fate of this.fates.values()) fate.isDiscarded = true;
    const played = new Played();
    this.here = played.stage("here", this.here);
    this.there = played.stage("there");
    await this.here.open();
  }

  get story(): string {
    return this.steps.join(", ");
  }

  /** Each message is shown once: those of the log first, in its order, and then those on their way; and no other. */
  expectTruth(): void {
    const { here, fates, story } = this;
    const shown = ids(here);
    expect(new Set(shown).size, story).toBe(shown.length);
    const inLog = logged(here);
    expect(shown.slice(0, inLog.length), story).toEqual(inLog);
    for (const id of inLog) if (fates.has(id)) fates.get(id)!.wasLogged = true;
    const waiting = [...fates].flatMap(([id, fate]) => (fate.isDiscarded || fate.wasLogged ? [] : id));
    expect([...shown.slice(inLog.length)].sort(), story).toEqual(waiting.sort());
    expect(
      deliveries(here).map((delivery) => delivery === undefined),
      story,
    ).toEqual(shown.map((_, at) => at < inLog.length));
  }
}

/** All orders of some values. */
function orders<T>(values: readonly T[]): T[][] {
  if (values.length < 2) return [[...values]];
  return values.flatMap((value, at) => orders(values.toSpliced(at, 1)).map((rest) => [value, ...rest]));
}

test("one message is shown once in every order of its answer, the log, a switch of thread, and reloads", async () => {
  const ends: { readonly [name: string]: (here: Stage, asked: Asked) => void } = {
    answer: (here, asked) => here.answer(asked),
    refuse: (here, asked) => here.fail(asked, new ProblemError(RUN_ACTIVE, 409)),
    loseAnswer: (here, asked) => (here.commit(asked), here.fail(asked, new ConnectionError("lost"))),
    loseRequest: (here, asked) => here.fail(asked, new ConnectionError("lost")),
  };
  let count = 0;
  for (const end of Object.keys(ends)) {
    for (const order of orders([end, "tell", "away", "reloadThread", "reload"])) {
      const world = new World();
      await world.here.open();
      world.send();
      await settled();
      const [asked] = world.here.asked;
      for (const name of order) {
        world.steps.push(name);
        if (name === "tell") await world.here.tell();
        else if (name === "away") await world.away();
        else if (name === "reloadThread") await world.here.lose(0);
        else if (name === "reload") await world.reload();
        else ends[name]!(world.here, asked!);
        await settled();
        world.expectTruth();
      }
      // The log wins in the end, whatever was lost.
      await world.here.tell();
      world.expectTruth();
      const isInLog = end === "answer" || end === "loseAnswer";
      expect(ids(world.here), world.story).toEqual(isInLog ? ["m1"] : []);
      await world.here.leave();
      count += 1;
    }
  }
  expect(count).toBe(4 * 120);
});

test("whatever happens in whatever order, each message is shown once, in the order of the log, and no other", async () => {
  for (let round = 0; round < 60; round += 1) {
    const random = new Random();
    const world = new World();
    await world.here.open();
    world.steps.push(`seed ${random.seed}`);
    const failed = () => world.here.shown.messages.filter(({ delivery }) => delivery === "failed");
    const acts: { readonly [name: string]: (here: Stage) => Promise<unknown> | void } = {
      send: () => void world.send(),
      answer: (here) => (here.asked.length > 0 ? here.answer(random.pick(here.asked)) : undefined),
      commit: (here) => (here.asked.length > 0 ? here.commit(random.pick(here.asked)) : undefined),
      refuse: (here) => {
        const refusable = here.asked.filter(({ options }) => here.log.every(({ runId }) => runId !== options.runId));
        if (refusable.length > 0) here.fail(random.pick(refusable), new ProblemError(RUN_ACTIVE, 409));
      },
      loseAnswer: (here) => {
        if (here.asked.length === 0) return;
        const asked = random.pick(here.asked);
        if (random.chance(0.5)) here.commit(asked);
        here.fail(asked, new ConnectionError("lost"));
      },
      tell: (here) => here.tell(1),
      others: (here) => {
        const id = world.next("o");
        here.log.push({ runId: `other ${id}`, events: [started(`other ${id}`, { id, role: "user", content: "" })] });
      },
      wait: () => void vi.advanceTimersByTime(ANSWER_MS),
      retry: (here) => {
        const [first] = failed();
        if (first) here.store.retry(first.id).catch(() => {});
      },
      discard: (here) => {
        const [first] = failed();
        if (!first) return;
        world.fates.get(first.id)!.isDiscarded = true;
        here.store.discard(first.id);
      },
      reloadThread: (here) => here.lose(0),
      lose: (here) => {
        // Events that the page has not received, so that it cannot know them from the log.
        const count = here.log.length - here.told;
        return count > 0 ? here.lose(count) : undefined;
      },
      away: () => world.away(),
      reload: () => world.reload(),
    };

    for (let step = 0; step < 40; step += 1) {
      const name = random.pick(Object.keys(acts));
      world.steps.push(name);
      await acts[name]!(world.here);
      await settled();
      world.expectTruth();
    }
    // In the end all is answered and received.
    while (failed().length > 0 || world.here.asked.length > 0) {
      for (const { id } of failed()) world.here.store.retry(id).catch(() => {});
      await settled();
      for (const asked of [...world.here.asked]) world.here.answer(asked);
      await settled();
    }
    await world.here.tell();
    world.expectTruth();
    expect(deliveries(world.here), world.story).toEqual(ids(world.here).map(() => undefined));
    await world.here.leave();
  }
});
