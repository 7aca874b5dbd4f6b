import { backoff, sleep } from "../backoff.js";
import type { Threadline } from "../client.js";
import { isProblem, type ThreadlineError } from "../errors.js";
import type { ThreadRef } from "../threads.js";
import type { FeedEntry, Run, Thread } from "../types.js";
import type { LiveBranches } from "./branches.js";
import type { LiveEvents } from "./events.js";
import type { Feed } from "./feed.js";
import type { Initial } from "./initial.js";
import type { LiveQueue } from "./queue.js";
import { FOR_EVER, patiently, Replay, type ThreadRun } from "./replay.js";
import type { Kept } from "./snapshot.js";

/** Parts of a thread's store that are told of its log. */
export interface LogOwner {
  readonly queue: LiveQueue;
  readonly branches: LiveBranches;
  readonly events: LiveEvents;
  readonly onChange: () => void;
  readonly publish: () => void;
  /** Sets the most recent error, which the next success clears. */
  readonly setError: (error: ThreadlineError | null) => void;
  /** True for a fork that this page has begun: all of its own events are new. */
  readonly isFork: () => boolean;
  /** Events were applied, or everything is known. */
  readonly onEvents: () => void;
  readonly onCaughtUp: (replay: Replay) => void;
  /** The log is no longer followed, for this reason. */
  readonly onLost: (error: ThreadlineError) => void;
  readonly onDeleted: () => void;
}

/**
 * The log of a thread as a page follows it: one replay after the other, each from a point at which no run was active. Another one
 * begins when the log was replaced, or needs messages that were not loaded.
 */
export class LiveLog {
  replay: Replay | undefined;
  /** The record of the thread, if it is loaded. */
  thread: Thread | null = null;
  isLoading = true;
  /** True while what the server has rendered may be older than the log. */
  isBehind = false;
  /** Why the log is no longer followed. */
  lost: ThreadlineError | undefined;
  /** Content of another branch, shown until this one is loaded. */
  kept: Kept | undefined;
  readonly #client: Threadline;
  readonly #feed: Feed;
  readonly #ref: ThreadRef;
  readonly #owner: LogOwner;
  /** The thread as the server has rendered it, as long as that belongs to the thread. */
  #initial: Initial | undefined;
  /** The run that the server has begun, as long as nothing is loaded. */
  #early: ThreadRun | null = null;
  /** True if the feed reported the thread while its record was loading. */
  #isAnnounced = false;
  /** The newest record of the thread, if it belongs to an epoch that the replay has not reached. */
  #ahead: Thread | undefined;
  /** Aborts the operations of the current replay, or of the one being loaded. */
  #current = new AbortController();
  /** Aborts the operations that last as long as the store is open. */
  #open = new AbortController();

  constructor(client: Threadline, feed: Feed, ref: ThreadRef, owner: LogOwner, initial: Initial | undefined) {
    this.#client = client;
    this.#feed = feed;
    this.#ref = ref;
    this.#owner = owner;
    this.#initial = initial;
  }

  /** Aborted when another replay takes the place of the present one. */
  get signal(): AbortSignal {
    return this.#current.signal;
  }

  /** The newest run. */
  get run(): ThreadRun | null {
    return this.replay ? this.replay.run : this.#early;
  }

  /** Follows the log; with `isUnbegun`, as soon as the thread exists. Returns a function that ends it. */
  open(isUnbegun: boolean): () => void {
    const { signal } = (this.#open = new AbortController());
    const leave = this.#feed.join({
      onEntry: (entry) => this.#take(entry),
      onReplaced: () => void this.#watch(signal),
    });
    if (this.#initial) this.#continue(this.#initial);
    else if (isUnbegun) {
      this.isLoading = false;
      void this.#watch(signal);
    } else void this.begin().then(() => this.#watch(signal));
    return () => {
      leave();
      this.#open.abort();
      this.#current.abort();
      this.clear();
      this.kept = undefined;
      this.isLoading = true;
    };
  }

  /** Handles the server's report of an active run. */
  began(run: Run): void {
    if (this.replay) return this.replay.began(run);
    if (!this.kept || run.endedAt !== null) return;
    const { runId, agentId, stopRequested } = run;
    this.#early = { runId, agentId, status: stopRequested ? "stopping" : "running", error: null };
    this.#owner.onChange();
  }

  /**
   * Replays the thread from a point where no run was active; with `all` of its messages, or the newest ones. What is shown stays visible
   * meanwhile if it is of this log, or kept of another branch; otherwise it is emptied. Retries as long as that may help.
   */
  async begin(all = false): Promise<void> {
    this.#current.abort();
    const { signal } = (this.#current = new AbortController());
    const isQuiet = all || this.kept !== undefined;
    this.#isAnnounced = false;
    this.#ahead = undefined;
    this.lost = undefined;
    this.#forget();
    if (!all) {
      this.isBehind = false;
      this.clear();
      this.isLoading = true;
      this.#owner.onChange();
    }
    for (;;) {
      try {
        const start = (thread: Thread) => this.#owner.events.start(thread, this.#owner.isFork());
        const load = () => Replay.load(this.#ref, all, signal, start);
        const replay = await patiently(load, signal, (error) => this.#showError(error));
        if (signal.aborted) return;
        this.#show(replay, isQuiet, signal);
        return;
      } catch (error) {
        if (signal.aborted) return;
        const isMissing = isProblem(error, "thread-not-found");
        // The thread was created after the request.
        if (isMissing && this.#isAnnounced) {
          this.#isAnnounced = false;
          continue;
        }
        this.isLoading = false;
        if (isMissing) {
          if (!this.#owner.isFork()) this.kept = undefined;
          this.#owner.events.missing();
          return this.#owner.onChange();
        }
        this.#owner.setError(error as ThreadlineError);
        this.#owner.publish();
        // The log was replaced after the thread's record was read, so the record is read again.
        if (!isProblem(error, "log-replaced") && !isProblem(error, "cursor-ahead")) return;
        await sleep(backoff(1, Math.random()), signal).catch(() => {});
        if (signal.aborted) return;
      }
    }
  }

  /** Forgets what is loaded. */
  clear(): void {
    this.#owner.queue.reset();
    this.#owner.branches.reset();
    this.replay = undefined;
    this.thread = null;
  }

  #showError(error: ThreadlineError): void {
    this.#owner.setError(error);
    this.#owner.onChange();
  }

  /** Continues what the server has rendered. The feed may have reported changes of the record since. */
  #continue({ seed }: Initial): void {
    this.#current = new AbortController();
    this.isLoading = false;
    this.isBehind = true;
    this.#show(Replay.from(this.#ref, seed), false, this.#current.signal);
    void this.#watch(this.#open.signal);
  }

  /** Shows a replay: at once, or, if what is shown stays visible, as soon as everything is known. */
  #show(replay: Replay, isQuiet: boolean, signal: AbortSignal): void {
    const show = () => {
      this.replay = replay;
      this.thread = replay.thread;
      this.kept = undefined;
      this.#early = null;
      this.#owner.setError(null);
    };
    if (!isQuiet) show();
    const onChange = () => {
      if (signal.aborted) return;
      // The events refer to messages that were not loaded, so all messages are loaded.
      if (replay.conversation.isIncomplete) return void this.begin(true);
      if (this.replay !== replay) return;
      this.#owner.queue.logged(replay.logged);
      this.#owner.onEvents();
      this.#owner.onChange();
    };
    replay.follow(
      {
        onEvents: (batches) => !signal.aborted && this.#owner.events.hear(batches, replay.epoch),
        onChange,
        onCaughtUp: () => {
          if (signal.aborted) return;
          if (this.replay !== replay) show();
          this.isLoading = false;
          this.isBehind = false;
          this.#owner.onCaughtUp(replay);
          this.#owner.events.caughtUp(replay);
          onChange();
          this.#owner.queue.reconnected();
        },
        onQueue: (state) => !signal.aborted && this.#owner.queue.hear(state),
        onRebased: () => {
          const ahead = this.#ahead;
          if (!signal.aborted && ahead) this.#update(replay, ahead);
        },
        onDeleted: () => this.#deleted(),
        onError: (error) => {
          // This copy is all that is left of a thread that the server has lost as a whole: it stays, with the error.
          const isLost = isProblem(error, "log-replaced") && error.problem["epoch"] === null;
          const isOther = isProblem(error, "log-replaced") || isProblem(error, "cursor-ahead");
          if (isOther && !isLost) return void this.begin();
          if (isProblem(error, "thread-not-found")) return this.#deleted();
          this.lost = error;
          this.#owner.onLost(error);
          this.isLoading = false;
          this.#owner.setError(error);
          this.#owner.publish();
        },
      },
      signal,
    );
    this.#hearThread(replay.thread);
    this.#owner.onChange();
  }

  /** Starts to follow the feed, if no store has, and applies the changes of the thread before that. */
  async #watch(signal: AbortSignal): Promise<void> {
    if (signal.aborted || (this.#feed.isFollowed && !this.isBehind)) return;
    try {
      const read = { signal, ...FOR_EVER };
      const page = await patiently(() => this.#client.threads.list({ limit: 1, ...read }), signal);
      this.#feed.from(page);
      const thread = await patiently(() => this.#ref.get(read), signal);
      if (!signal.aborted) this.#take({ cursor: page.feedCursor, type: "upsert", threadId: thread.threadId, thread });
    } catch {
      // An API key without a user has no feed, so only the log is followed.
    }
  }

  #take(entry: FeedEntry): void {
    const { threadId, thread } = entry;
    this.#owner.branches.hear(entry);
    if (threadId !== this.#ref.threadId) return;
    // The end of the log reports the deletion, unless there is no replay.
    if (!thread) return;
    const { replay } = this;
    if (!replay) {
      if (this.isLoading) this.#isAnnounced = true;
      else void this.begin();
      return;
    }
    this.#update(replay, thread);
  }

  #update(replay: Replay, thread: Thread): void {
    this.#ahead = undefined;
    if (thread.epoch !== replay.epoch) {
      this.#ahead = thread;
      return;
    }
    this.thread = thread;
    if (thread.activeRun) replay.began(thread.activeRun);
    else if (thread.tail <= replay.cursor) replay.vanished(thread);
    if (thread.lastRun) replay.ended(thread.lastRun);
    this.#hearThread(thread);
    this.#owner.onChange();
  }

  #hearThread(thread: Thread): void {
    const { status } = this.#client;
    this.#owner.queue.hearThread(thread, status.state !== "live" || status.transport !== "long-poll");
    this.#owner.branches.hearThread(thread);
  }

  #deleted(): void {
    this.#current.abort();
    this.#forget();
    this.#owner.events.missing();
    this.clear();
    this.kept = undefined;
    this.isLoading = false;
    this.#owner.onDeleted();
  }

  /** Drops what the server has rendered: it is no longer the beginning of this thread. */
  #forget(): void {
    this.#initial?.drop();
    this.#initial = undefined;
  }
}
