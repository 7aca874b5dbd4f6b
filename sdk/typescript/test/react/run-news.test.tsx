// Tests which run a page shows, regardless of whether the feed or the log reports it first.

import "./dom.js";
import { request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { cleanup } from "@testing-library/react";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import type {
  AgUiEvent,
  FeedItem,
  ThreadItem,
  Threadline,
  ThreadlineOptions,
  WebSocketClass,
} from "../../src/index.js";
import { Feed } from "../../src/react/feed.js";
import { ThreadStore } from "../../src/react/thread.js";
import type { LastRun, Run, Thread } from "../../src/types.js";
import { Server } from "../harness/server.js";
import { until } from "../harness/until.js";
import { makeThread } from "../harness/writer.js";
import { connect, said, threadPage } from "./page.js";

const chunk: AgUiEvent = { type: "TEXT_MESSAGE_CHUNK", messageId: "m", role: "assistant", delta: "word " };
const FINISHED: AgUiEvent = { type: "RUN_FINISHED", threadId: "t", runId: "r" };

/** A store whose log and feed are controlled by the test, in the order of the calls. */
class Told {
  readonly store: ThreadStore;
  readonly stopped: string[] = [];
  #tail: number;
  #activeRun: Run | null = null;
  #onItem: (item: ThreadItem) => void = () => {};
  #onFeed: ((item: FeedItem) => void) | undefined;
  #cursor: number;
  /** Number of notifications, and of runs that have started or ended. */
  #told = 0;
  #times = 0;
  #lastRunAt: string | null = null;

  constructor(tail = 4) {
    this.#tail = this.#cursor = tail;
    const ref = {
      threadId: "t",
      get: async () => this.thread,
      messages: async () => ({ messages: [], hasMore: false, interrupts: [] }),
      state: async () => ({ state: {} }),
      stop: async (runId: string) => {
        this.stopped.push(runId);
        return { ...this.run(runId, this.#tail + 1), stopRequested: true };
      },
      follow: ({ onItem }: { onItem: (item: ThreadItem) => void }) => {
        this.#onItem = onItem;
        const cursor = () => this.#cursor;
        return {
          get cursor() {
            return cursor();
          },
          close: () => {},
        };
      },
    };
    const client = {
      thread: () => ref,
      threads: { list: async () => ({ feedCursor: 0, feedEpoch: "f" }) },
      onStatus: () => () => {},
      status: { state: "live", transport: "websocket" },
      followFeed: ({ onItem }: { onItem: (item: FeedItem) => void }) => {
        this.#onFeed = onItem;
        return { close: () => {} };
      },
    } as unknown as Threadline;
    this.store = new ThreadStore(client, new Feed(client), "t");
  }

  get thread(): Thread {
    const [activeRun, lastRunAt] = [this.#activeRun, this.#lastRunAt];
    return { threadId: "t", epoch: "e", tail: this.#tail, activeRun, lastRunAt, agentId: null } as Thread;
  }

  get now() {
    return this.store.getSnapshot();
  }

  run(runId: string, firstSeq: number, agentId: string | null = null): Run {
    const startedAt = this.#time();
    return { runId, agentId, firstSeq, status: "running", stopRequested: false, startedAt, endedAt: null } as Run;
  }

  /** Shows the thread, caught up. */
  async live(): Promise<void> {
    this.store.subscribe(() => {});
    await until("the log to be followed", () => this.now.thread !== null);
    this.#onItem({ type: "caughtUp", seq: this.#cursor });
    await until("the feed to be followed", () => this.#onFeed);
  }

  /** Adds these events of a run to the log, with a mark before the last one. Resolves when they are shown. */
  async events(runId: string, ...told: AgUiEvent[]): Promise<void> {
    const mark = (this.#told += 1);
    const events = told.toSpliced(-1, 0, { type: "STATE_SNAPSHOT", snapshot: mark });
    const seq = this.#cursor + 1;
    this.#cursor += events.length;
    this.#tail = Math.max(this.#tail, this.#cursor);
    this.#onItem({ type: "events", batches: [{ seq, runId, at: "", events }] });
    await until("the events", () => this.now.state === mark);
  }

  /** The next moment. */
  #time(): string {
    return `2026-01-01T00:00:00.${String((this.#times += 1)).padStart(3, "0")}Z`;
  }

  /**
   * Reports a state of the thread over the feed: the active run, the tail, and the run that ended last, now or earlier. Resolves
   * when it is shown.
   */
  async feed(activeRun: Run | null, tail = this.#tail, lastRun: Partial<LastRun> | null = null): Promise<void> {
    const name = `${(this.#told += 1)}`;
    if (lastRun) this.#lastRunAt = this.#time();
    const thread = { ...this.thread, activeRun, tail, name, lastRun } as Thread;
    this.#onFeed?.({ type: "entries", cursor: 1, entries: [{ cursor: 1, type: "upsert", threadId: "t", thread }] });
    await until("the news", () => this.now.thread?.name === name);
  }

  /** Sets the active run in the thread's record. */
  answers(activeRun: Run | null): void {
    this.#activeRun = activeRun;
  }
}

describe("the run that is shown", () => {
  const running = (runId: string) => ({ isRunning: true, run: { runId, status: "running" } });
  const finished = (runId: string) => ({ isRunning: false, run: { runId, status: "finished" } });

  test("starts with its first events, whatever they are and whenever the feed reports it", async () => {
    const told = new Told();
    await told.live();
    await told.events("r", chunk);
    expect(told.now).toMatchObject(running("r"));
    await told.feed(told.run("r", 5, "helper"));
    expect(told.now).toMatchObject({ isRunning: true, run: { runId: "r", agentId: "helper" } });
    await told.store.stop();
    expect(told.stopped).toEqual(["r"]);
    expect(told.now).toMatchObject({ isRunning: true, run: { runId: "r", status: "stopping" } });
    // The page knows why the run has finished, before the server says so.
    await told.events("r", FINISHED);
    expect(told.now).toMatchObject({ isRunning: false, run: { runId: "r", status: "stopped" } });
  });

  test("was stopped if the server says so, whoever stopped it", async () => {
    const told = new Told();
    await told.live();
    await told.events("r", chunk, FINISHED);
    expect(told.now).toMatchObject(finished("r"));
    await told.feed(null, undefined, { runId: "before", status: "stopped" });
    expect(told.now).toMatchObject(finished("r"));
    await told.feed(null, undefined, { runId: "r", status: "stopped" });
    expect(told.now).toMatchObject({ isRunning: false, run: { runId: "r", status: "stopped" } });
  });

  test("is not ended by reports from before it, nor started again by reports after its end", async () => {
    const told = new Told();
    await told.live();
    await told.events("r", chunk);
    // The thread before the run: no active run, the tail at the fourth event.
    await told.feed(null, 4);
    expect(told.now).toMatchObject(running("r"));
    await told.events("r", FINISHED);
    await told.feed(told.run("r", 5));
    expect(told.now).toMatchObject(finished("r"));
  });

  test("is the newer one of two, whichever is reported first", async () => {
    const told = new Told();
    await told.live();
    await told.events("first", chunk);
    // The feed is ahead of the log: the first run has ended, the second has started.
    await told.feed(told.run("second", 9));
    expect(told.now).toMatchObject(running("second"));
    await told.events("first", FINISHED);
    expect(told.now).toMatchObject(running("second"));
    await told.feed(told.run("first", 5));
    expect(told.now).toMatchObject(running("second"));
    await told.events("second", chunk, FINISHED);
    expect(told.now).toMatchObject(finished("second"));
  });

  test("is removed if it ends without events", async () => {
    const told = new Told();
    await told.live();
    await told.feed(told.run("silent", 5));
    expect(told.now).toMatchObject(running("silent"));
    // A report from before the run, which is late.
    await told.feed(null);
    expect(told.now).toMatchObject(running("silent"));
    await told.feed(null, undefined, { runId: "silent", status: "abandoned" });
    expect(told.now).toMatchObject({ isRunning: false, run: null });
  });

  test("can be stopped before the page knows about it", async () => {
    const told = new Told();
    await told.live();
    told.answers(told.run("unheard", 5));
    expect((await told.store.stop())?.runId).toBe("unheard");
    expect(told.stopped).toEqual(["unheard"]);
    expect(told.now).toMatchObject({ isRunning: true, run: { runId: "unheard", status: "stopping" } });
  });
});

describe("a run that is streamed in one request and starts with a chunk", () => {
  let server: Server;
  beforeAll(async () => {
    server = await Server.start();
  });
  afterAll(() => server?.end());

  const clients: Threadline[] = [];
  afterEach(() => {
    cleanup();
    for (const client of clients.splice(0)) client.close();
  });

  /** A network whose feed is late by this time. */
  function lateFeed(delayMs: number): Pick<ThreadlineOptions, "fetch" | "WebSocket"> {
    class Late extends WebSocket {
      override emit(name: string | symbol, ...said: unknown[]): boolean {
        if (name !== "message" || !/"feed(CaughtUp)?":/.test(String(said[0]))) return super.emit(name, ...said);
        setTimeout(() => super.emit(name, ...said), delayMs);
        return true;
      }
    }
    const late: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      if (String(input).includes("/v1/feed")) await sleep(delayMs);
      return response;
    };
    return { WebSocket: Late as unknown as WebSocketClass, fetch: late };
  }

  const DELAYS_MS = [0, 50, 500];

  test.each(["websocket", "sse", "long-poll"] as const)("is shown as running over %s", async (transport) => {
    // All at once, each with a client of its own.
    await Promise.all(
      DELAYS_MS.map(async (delayMs) => {
        const threadId = await makeThread(server);
        const client = connect({ url: server.url, transports: [transport], ...lateFeed(delayMs) });
        clients.push(client);
        const page = threadPage(client, threadId);
        await page.until("an empty thread", ({ isLoading, thread }) => !isLoading && thread);
        const headers = { "content-type": "application/x-ndjson" };
        const run = request(`${server.url}/v1/threads/${threadId}/runs?runId=pushed`, { method: "POST", headers });
        const answered = new Promise((resolve, reject) => run.on("response", resolve).on("error", reject));
        // A test that fails earlier must not fail twice.
        answered.catch(() => {});
        const began = performance.now();
        const write = (event: AgUiEvent) => run.write(`${JSON.stringify(event)}\n`);
        write(chunk);
        await page.until("its text", (now) => said(now)[0] === "word ");
        // The reports of the feed arrive meanwhile.
        for (let words = 2; performance.now() - began < delayMs + 100 || words < 4; words += 1) {
          write(chunk);
          await page.until("the next word", (now) => said(now)[0] === "word ".repeat(words));
          await sleep(20);
        }
        const stopped = await page.do(({ stop }) => stop());
        expect(stopped).toMatchObject({ runId: "pushed", stopRequested: true });
        const spoken = page.seen.filter(({ messages }) => messages.length > 0);
        expect(spoken.map(({ isRunning, run }) => [isRunning, run?.runId])).toEqual(spoken.map(() => [true, "pushed"]));
        run.end(`${JSON.stringify({ type: "RUN_FINISHED" })}\n`);
        await answered;
        await page.until("the end", ({ run }) => run?.status === "stopped");
      }),
    );
  });
});
