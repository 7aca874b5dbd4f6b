import { backoff, sleep } from "../backoff.js";
import type { Threadline } from "../client.js";
import { ClosedError, isProblem, ThreadlineError } from "../errors.js";
import type { ThreadRef } from "../threads.js";
import type { FeedEntry, PlacedTurn, Run, StartedRun, Thread } from "../types.js";
import { LiveBranches } from "./branches.js";
import { LiveEvents } from "./events.js";
import type { Feed } from "./feed.js";
import type { Initial } from "./initial.js";
import { type InterruptAnswer, type SendInput, toolMessage } from "./input.js";
import { PageToolbox } from "./page-tools.js";
import { LiveQueue } from "./queue.js";
import { FOR_EVER, isUnderWay, patiently, Replay } from "./replay.js";
import { Sends } from "./sends.js";
import { EMPTY_THREAD, type Send, type SendOptions, type ThreadSnapshot, type TurnOptions } from "./snapshot.js";
import { Store, troubleOf } from "./store.js";
import { pendingCalls, type ToolResult, ToolResults } from "./tools.js";

/**
 * A live thread. Every change of the thread (runs, a stop, its deletion, a server that was restored to an older log) is
 * shown here. A sent message is shown at once, and marked until it is in the log.
 */
export class ThreadStore extends Store<ThreadSnapshot> {
  /** Changes the queue, which snapshots show. */
  readonly queue: LiveQueue;
  /** The branches of the conversation, which snapshots show. */
  readonly branches: LiveBranches;
  /** The tools of the page that shows the thread. */
  readonly tools: PageToolbox;
  /** Reports the events of the log as they arrive. */
  readonly events = new LiveEvents();
  readonly #client: Threadline;
  readonly #feed: Feed;
  readonly #ref: ThreadRef;
  readonly #sends: Sends;
  readonly #results = new ToolResults((messages, how) => this.#sends.send({ messages }, how) as Promise<StartedRun>);
  #replay: Replay | undefined;
  #thread: Thread | null = null;
  #pending = EMPTY_THREAD.pendingToolCalls;
  #isLoading = true;
  /** The thread as the server has rendered it, as long as that belongs to the thread. */
  #initial: Initial | undefined;
  /** True while what the server has rendered may be older than the log. */
  #isBehind = false;
  /** True if the feed reported the thread while its record was loading. */
  #isAnnounced = false;
  /** The newest record of the thread, if it belongs to an epoch that the replay has not reached. */
  #ahead: Thread | undefined;
  #error: ThreadlineError | null = null;
  /** Why the log is no longer followed. */
  #lost: ThreadlineError | undefined;
  #more: Promise<void> | undefined;
  /** Aborts the operations of the current replay, or of the one being loaded. */
  #current = new AbortController();
  /** Aborts the operations that last as long as the store is open. */
  #open = new AbortController();
  #ends: (() => void)[] = [];

  constructor(
    client: Threadline,
    feed: Feed,
    threadId: string,
    { onClose, initial }: { readonly onClose?: () => void; readonly initial?: Initial | undefined } = {},
  ) {
    super(initial?.snapshot ?? EMPTY_THREAD, onClose);
    this.#initial = initial;
    this.#client = client;
    this.#feed = feed;
    this.#ref = client.thread(threadId);
    this.tools = new PageToolbox(client, threadId, {
      onChange: () => this.#flushTools(),
      answer: (claim, result, { agentId }) =>
        this.#answer(claim.toolCallId, { message: toolMessage(claim.toolCallId, result), agentId, claim }),
    });
    this.queue = new LiveQueue(this.#ref, {
      signal: () => this.#current.signal,
      cursor: () => this.#replay?.cursor ?? 0,
      onChange: () => this.changed(),
      onBegun: (run) => this.#replay?.began(run),
      act: (task) => this.act(task),
    });
    this.branches = new LiveBranches(this.#ref, {
      signal: () => this.#current.signal,
      onChange: () => this.changed(),
      act: (task) => this.act(task),
      fork: (fork, input, options) => this.#sends.send(input, { ...options, fork }) as Promise<StartedRun>,
      onThread: (own) => {
        this.#thread &&= { ...this.#thread, ...own };
        this.changed();
      },
    });
    this.#sends = new Sends(client, this.#ref, {
      act: (task) => this.act(task),
      publish: () => this.publish(),
      thread: () => this.#thread,
      replay: () => this.#replay,
      queue: this.queue,
      offer: (input) => this.tools.offeredIn(input),
      onAnswer: ({ fork }) => {
        if (fork) this.branches.load();
        if (!this.#replay && this.isOpen) void this.#begin();
      },
    });
  }

  /**
   * Starts a run; creates the thread if it does not exist. Messages of the user are shown at once, as `sending`. Resolves as
   * soon as the run has started. Rejects with a `run-active` problem if another run is active, and with `interrupts-open` if the
   * thread waits for answers; then the messages stay, as `failed`. With `busy`, a turn is queued in a busy thread; then it
   * resolves when the queue shows the turn.
   */
  readonly send = ((input: SendInput, options: TurnOptions = {}): Promise<StartedRun | PlacedTurn> => {
    return this.#sends.send(input, options);
  }) as Send<TurnOptions>;

  /**
   * Sends a failed message again, with the same ids: a message that has arrived nevertheless does not arrive twice. Settles
   * like the call that sent it.
   */
  readonly retry = (messageId: string): Promise<StartedRun | PlacedTurn> => this.#sends.retry(messageId);

  /** Removes a failed message. One that has arrived nevertheless is shown from the log. */
  readonly discard = (messageId: string): void => this.#sends.discard(messageId);

  /** Answers all open interrupts. */
  readonly resume = (answers: readonly InterruptAnswer[], options?: SendOptions): Promise<StartedRun> => {
    return this.send({ resume: answers }, options);
  };

  /**
   * Requests a stop of the active run, regardless of its producer. Resolves when the server has recorded the request; to
   * undefined if no run is active.
   */
  readonly stop = async (): Promise<Run | undefined> => {
    const shown = this.#replay?.run ?? null;
    return this.act(async () => {
      // The page may not know about the run yet.
      const run = isUnderWay(shown) ? shown : (await this.#sends.existing())?.activeRun;
      if (!run) return undefined;
      const stopped = await this.#ref.stop(run.runId);
      this.#replay?.began(stopped);
      return stopped;
    });
  };

  /**
   * Adds the result of a tool call that the page executed. When all calls of a message have results, and the run has ended,
   * a new run is started with them. Resolves when that run has started; to undefined if the result is dropped, because the
   * call already has one or because the thread is no longer shown.
   */
  readonly addToolResult = (
    toolCallId: string,
    result: unknown,
    { agentId }: SendOptions = {},
  ): Promise<StartedRun | undefined> => {
    return this.#answer(toolCallId, { message: toolMessage(toolCallId, result), agentId });
  };

  /** Loads older messages. Resolves when they are loaded; immediately if there are none. */
  readonly fetchMoreMessages = (): Promise<void> => {
    const replay = this.#replay;
    // An incomplete conversation is about to be loaded as a whole.
    if (!replay?.hasMore || replay.conversation.isIncomplete) return Promise.resolve();
    const { signal } = this.#current;
    const load = async () => {
      // Another replay has replaced this one meanwhile, so the response is ignored.
      await replay.loadOlder(signal).catch((error: unknown) => {
        if (!signal.aborted) throw error;
      });
    };
    this.#more ??= this.act(load).finally(() => {
      this.#more = undefined;
      this.publish();
    });
    this.changed();
    return this.#more;
  };

  /**
   * Marks as read everything replayed so far, if that is more than what was read before, here or elsewhere. Pending
   * operations do not delay the marker. Resolves when the server has recorded the marker or the request has failed; a
   * failure is not shown, and the next call tries again.
   */
  readonly markRead = async (): Promise<void> => {
    const replay = this.#replay;
    const known = this.#thread?.readSeq ?? 0;
    if (!replay || replay.cursor <= known) return;
    const { threadId } = this.#ref;
    const mark = { seq: replay.cursor, epoch: replay.epoch };
    // Lists show it at once.
    this.#feed.marked(threadId, mark);
    const marked = await replay.markRead(known, (readSeq) => {
      if (this.#replay !== replay || !this.#thread || this.#thread.readSeq >= readSeq) return;
      this.#thread = { ...this.#thread, readSeq };
      this.changed();
    });
    if (marked < mark.seq && this.#feed.readMark(threadId) === mark) this.#feed.marked(threadId, undefined);
  };

  protected override open(): void {
    this.#open = new AbortController();
    this.#sends.open();
    this.#ends = [
      this.#feed.join({ onEntry: (entry) => this.#take(entry), onReplaced: () => void this.#watch() }),
      this.#client.onStatus(() => this.changed()),
    ];
    if (this.#initial) this.#continue(this.#initial);
    else void this.#begin().then(() => this.#watch());
  }

  protected override close(): void {
    for (const end of this.#ends) end();
    this.#open.abort();
    this.#current.abort();
    this.#results.drop();
    this.tools.close();
    this.#sends.close();
    this.events.reset();
    this.#clear();
    this.#isLoading = true;
    this.#error = null;
  }

  protected override look(): ThreadSnapshot {
    const { conversation, hasMore = false, run = null } = this.#replay ?? {};
    const messages = conversation?.messages ?? EMPTY_THREAD.messages;
    // Another page may have answered what the server has rendered: a call must not be executed twice.
    const pendingIds = this.#isBehind ? undefined : conversation?.pendingToolCallIds;
    this.#pending = pendingCalls(messages, pendingIds ?? [], this.#pending);
    return {
      thread: this.#thread,
      messages: this.#sends.over(messages),
      state: conversation ? conversation.state : EMPTY_THREAD.state,
      interrupts: conversation?.interrupts ?? EMPTY_THREAD.interrupts,
      pendingToolCalls: this.#pending,
      run,
      isRunning: isUnderWay(run),
      isSending: this.#sends.isSending,
      queue: this.queue.shown,
      branches: this.branches.all,
      // The messages that follow are not there before all is loaded.
      partings: this.#isLoading ? EMPTY_THREAD.partings : this.branches.partings(messages, hasMore),
      isLoading: this.#isLoading,
      error: this.#error ?? (this.#isLoading ? troubleOf(this.#client.status) : null),
      hasMoreMessages: hasMore,
      isFetchingMoreMessages: this.#more !== undefined,
      status: this.#client.status,
    };
  }

  protected override setError(error: ThreadlineError | null): void {
    // Another page answers the call by now, which is no failure.
    this.#error = isProblem(error, "claim-lost") ? null : error;
  }

  #answer(toolCallId: string, result: ToolResult): Promise<StartedRun | undefined> {
    if (!this.isOpen) return Promise.resolve(undefined);
    if (this.#lost) return Promise.reject(this.#lost);
    const added = this.#results.add(toolCallId, result);
    this.#flushTools();
    return added;
  }

  /** Continues what the server has rendered. The feed may have reported changes of the record since. */
  #continue({ seed }: Initial): void {
    this.#current = new AbortController();
    this.#isLoading = false;
    this.#isBehind = true;
    this.#show(Replay.from(this.#ref, seed), false, this.#current.signal);
    void this.#watch();
  }

  /**
   * Replays the thread from a point where no run was active. If `quietly`, the snapshot stays visible meanwhile; otherwise
   * it is emptied. Retries as long as that may help.
   */
  async #begin(quietly = false): Promise<void> {
    this.#current.abort();
    const { signal } = (this.#current = new AbortController());
    this.#isAnnounced = false;
    this.#ahead = undefined;
    this.#lost = undefined;
    this.#forget();
    if (!quietly) {
      this.#isBehind = false;
      this.#clear();
      this.#isLoading = true;
      this.changed();
    }
    for (;;) {
      try {
        const load = () => Replay.load(this.#ref, quietly, signal, (thread) => this.events.start(thread));
        const replay = await patiently(load, signal, (error) => this.showError(error));
        if (signal.aborted) return;
        this.#show(replay, quietly, signal);
        return;
      } catch (error) {
        if (signal.aborted) return;
        const isMissing = isProblem(error, "thread-not-found");
        // The thread was created after the request.
        if (isMissing && this.#isAnnounced) {
          this.#isAnnounced = false;
          continue;
        }
        this.#isLoading = false;
        if (isMissing) {
          this.events.missing();
          return this.changed();
        }
        this.setError(error as ThreadlineError);
        this.publish();
        // The log was replaced after the thread's record was read, so the record is read again.
        if (!isProblem(error, "log-replaced") && !isProblem(error, "cursor-ahead")) return;
        await sleep(backoff(1, Math.random()), signal).catch(() => {});
        if (signal.aborted) return;
      }
    }
  }

  #show(replay: Replay, quietly: boolean, signal: AbortSignal): void {
    const show = () => {
      this.#replay = replay;
      this.#thread = replay.thread;
      this.#error = null;
    };
    if (!quietly) show();
    const onChange = () => {
      if (signal.aborted) return;
      // The events refer to messages that were not loaded, so all messages are loaded.
      if (replay.conversation.isIncomplete) return void this.#begin(true);
      if (this.#replay !== replay) return;
      this.queue.logged(replay.logged);
      this.#flushTools();
      this.changed();
    };
    replay.follow(
      {
        onEvents: (batches) => !signal.aborted && this.events.hear(batches, replay.epoch),
        onChange,
        onCaughtUp: () => {
          if (signal.aborted) return;
          if (this.#replay !== replay) show();
          this.#isLoading = false;
          this.#isBehind = false;
          this.#sends.caughtUp(replay);
          this.events.caughtUp(replay);
          onChange();
          this.queue.reconnected();
        },
        onQueue: (state) => !signal.aborted && this.queue.hear(state),
        onRebased: () => {
          const ahead = this.#ahead;
          if (!signal.aborted && ahead) this.#update(replay, ahead);
        },
        onDeleted: () => this.#deleted(),
        onError: (error) => {
          // This copy is all that is left of a thread that the server has lost as a whole: it stays, with the error.
          const isLost = isProblem(error, "log-replaced") && error.problem["epoch"] === null;
          const isOther = isProblem(error, "log-replaced") || isProblem(error, "cursor-ahead");
          if (isOther && !isLost) return void this.#begin();
          if (isProblem(error, "thread-not-found")) return this.#deleted();
          this.#lost = error;
          this.#results.fail(error);
          this.#isLoading = false;
          this.setError(error);
          this.publish();
        },
      },
      signal,
    );
    this.#hearThread(replay.thread);
    this.changed();
  }

  /** Starts to follow the feed, if no store has, and applies the changes of the thread before that. */
  async #watch(): Promise<void> {
    if (!this.isOpen || (this.#feed.isFollowed && !this.#isBehind)) return;
    try {
      const { signal } = this.#open;
      const read = { signal, ...FOR_EVER };
      const page = await patiently(() => this.#client.threads.list({ limit: 1, ...read }), signal);
      this.#feed.from(page);
      const thread = await patiently(() => this.#ref.get(read), signal);
      if (this.isOpen) this.#take({ cursor: page.feedCursor, type: "upsert", threadId: thread.threadId, thread });
    } catch {
      // An API key without a user has no feed, so only the log is followed.
    }
  }

  #take(entry: FeedEntry): void {
    const { threadId, thread } = entry;
    this.branches.hear(entry);
    if (threadId !== this.#ref.threadId) return;
    // The end of the log reports the deletion, unless there is no replay.
    if (!thread) return;
    const replay = this.#replay;
    if (!replay) {
      if (this.#isLoading) this.#isAnnounced = true;
      else void this.#begin();
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
    this.#thread = thread;
    if (thread.activeRun) replay.began(thread.activeRun);
    else if (thread.tail <= replay.cursor) replay.vanished(thread);
    if (thread.lastRun) replay.ended(thread.lastRun);
    this.#hearThread(thread);
    this.changed();
  }

  #hearThread(thread: Thread): void {
    const { status } = this.#client;
    this.queue.hearThread(thread, status.state !== "live" || status.transport !== "long-poll");
    this.branches.hearThread(thread);
  }

  #flushTools(): void {
    const replay = this.#replay;
    if (!replay || this.#isBehind) return;
    const { messages, pendingToolCallIds } = replay.conversation;
    const isIdle = !isUnderWay(replay.run);
    if (isIdle) this.#results.flush(messages, pendingToolCallIds);
    // Results may come from elsewhere before everything is replayed.
    this.tools.look(messages, pendingToolCallIds, isIdle && !this.#isLoading);
  }

  #deleted(): void {
    this.#current.abort();
    this.#forget();
    this.events.missing();
    this.#results.drop();
    this.tools.close();
    this.#sends.clear();
    this.#clear();
    this.#isLoading = false;
    this.setError(new ClosedError("the thread was deleted"));
    this.publish();
  }

  /** Drops what the server has rendered: it is no longer the beginning of this thread. */
  #forget(): void {
    this.#initial?.drop();
    this.#initial = undefined;
  }

  #clear(): void {
    this.queue.reset();
    this.branches.reset();
    this.#replay = undefined;
    this.#thread = null;
  }
}
