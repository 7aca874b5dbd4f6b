import type { Threadline } from "../client.js";
import { ClosedError, isProblem, loaded, type ThreadlineError } from "../errors.js";
import { newId } from "../ids.js";
import type { RunFork } from "../runs.js";
import type { ThreadRef } from "../threads.js";
import type { Message, PlacedTurn, Run, StartedRun } from "../types.js";
import { LiveBranches } from "./branches.js";
import { LiveEvents } from "./events.js";
import type { Feed } from "./feed.js";
import type { Initial } from "./initial.js";
import { type InterruptAnswer, runInput, type SendInput, toolMessage } from "./input.js";
import { LiveLog } from "./live-log.js";
import type { StartHow } from "./outbox.js";
import { PageToolbox } from "./page-tools.js";
import { LiveQueue } from "./queue.js";
import { isUnderWay } from "./replay.js";
import { Sends } from "./sends.js";
import {
  EMPTY_THREAD,
  type Forking,
  type Kept,
  type Send,
  type SendOptions,
  type ThreadSnapshot,
  type TurnOptions,
} from "./snapshot.js";
import { Store, troubleOf } from "./store.js";
import type { ToolResult, ToolResults } from "./tool-results.js";
import { pendingCalls } from "./tools.js";

export interface ThreadStoreOptions {
  readonly onClose?: () => void;
  /** What the server has rendered. */
  readonly initial?: Initial | undefined;
  /** The store of another branch. */
  readonly storeOf?: (threadId: string) => ThreadStore;
}

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
  readonly #storeOf: (threadId: string) => ThreadStore;
  readonly #log: LiveLog;
  readonly #sends: Sends;
  /** Results of tools that the page has executed. */
  #results: ToolResults | undefined;
  #pending = EMPTY_THREAD.pendingToolCalls;
  #error: ThreadlineError | null = null;
  #more: Promise<void> | undefined;
  /** The branch in which this page began this one; undefined if it did not. */
  #origin: Kept | undefined;
  #hasBegun = false;
  #ends: (() => void)[] = [];

  constructor(
    client: Threadline,
    feed: Feed,
    threadId: string,
    { onClose, initial, storeOf = (threadId) => new ThreadStore(client, feed, threadId) }: ThreadStoreOptions = {},
  ) {
    super(initial?.snapshot ?? { ...EMPTY_THREAD, shownThreadId: threadId }, onClose);
    this.#client = client;
    this.#feed = feed;
    this.#ref = client.thread(threadId);
    this.#storeOf = storeOf;
    this.tools = new PageToolbox(client, threadId, {
      onChange: () => this.#flushTools(),
      answer: (claim, result, { agentId }) =>
        this.#answer(claim.toolCallId, { message: toolMessage(claim.toolCallId, result), agentId, claim }),
    });
    const shared = {
      signal: () => this.#log.signal,
      onChange: () => this.changed(),
      onBegun: (run: Run) => this.#log.began(run),
      act: <T>(task: () => Promise<T>) => this.act(task),
      publish: () => this.publish(),
    };
    this.queue = new LiveQueue(this.#ref, { ...shared, cursor: () => this.#log.replay?.cursor ?? 0 });
    this.branches = new LiveBranches(this.#ref, {
      ...shared,
      fork: (fork, input, options) => this.#fork(fork, input, options),
      onThread: (own) => {
        this.#log.thread &&= { ...this.#log.thread, ...own };
        this.changed();
      },
    });
    this.#log = new LiveLog(
      client,
      feed,
      this.#ref,
      {
        ...shared,
        queue: this.queue,
        branches: this.branches,
        events: this.events,
        setError: (error) => this.setError(error),
        isFork: () => this.#origin !== undefined,
        onEvents: () => this.#flushTools(),
        onCaughtUp: (replay) => this.#sends.caughtUp(replay),
        onLost: (error) => this.#results?.fail(error),
        onDeleted: () => this.#deleted(),
      },
      initial,
    );
    this.#sends = new Sends(client, this.#ref, {
      ...shared,
      thread: () => this.#log.thread ?? this.#log.kept?.thread ?? null,
      replay: () => this.#log.replay,
      logged: () => this.#logged,
      queue: this.queue,
      offer: (input) => this.tools.offeredIn(input),
      onAnswer: () => {
        this.#hasBegun = true;
        if (!this.#log.replay && this.isOpen) void this.#log.begin();
      },
    });
  }

  /** The branch to be shown instead: the run that was to begin this one was refused, or discarded. */
  get returnsTo(): string | undefined {
    if (!this.#origin || this.#hasBegun || this.#log.replay || this.#sends.bud) return undefined;
    return this.#origin.threadId;
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
    const shown = this.#log.run;
    return this.act(async () => {
      // The page may not know about the run yet.
      const run = isUnderWay(shown) ? shown : (await this.#sends.existing())?.activeRun;
      if (!run) return undefined;
      const stopped = await this.#ref.stop(run.runId);
      this.#log.began(stopped);
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
    const { replay, signal } = this.#log;
    // An incomplete conversation is about to be loaded as a whole.
    if (!replay?.hasMore || replay.conversation.isIncomplete) return Promise.resolve();
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
    const { replay } = this.#log;
    const known = this.#log.thread?.readSeq ?? 0;
    if (!replay || replay.cursor <= known) return;
    const { threadId } = this.#ref;
    const mark = { seq: replay.cursor, epoch: replay.epoch };
    // Lists show it at once.
    this.#feed.marked(threadId, mark);
    const marked = await replay.markRead(known, (readSeq) => {
      const { thread } = this.#log;
      if (this.#log.replay !== replay || !thread || thread.readSeq >= readSeq) return;
      this.#log.thread = { ...thread, readSeq };
      this.changed();
    });
    if (marked < mark.seq && this.#feed.readMark(threadId) === mark) this.#feed.marked(threadId, undefined);
  };

  /** Prepares the store of another branch, which is about to be shown: it begins with the messages in common. */
  readonly leadTo = (threadId: string): void => {
    const messages = this.branches.common(threadId, this.#logged);
    if (messages && messages.length > 0) this.#storeOf(threadId).#keep(this.#kept(messages));
  };

  protected override open(): void {
    this.#sends.open();
    this.#origin ??= this.#sends.bud;
    if (this.#origin) this.#log.kept = this.#origin;
    this.#ends = [this.#log.open(this.returnsTo !== undefined || this.#sends.bud !== undefined)];
    this.#ends.push(this.#client.onStatus(() => this.changed()));
    // Content that is kept is shown in the same tick.
    if (this.#log.kept) this.publish();
  }

  protected override close(): void {
    this.#results?.drop();
    this.tools.close();
    this.#sends.close();
    this.events.reset();
    for (const end of this.#ends) end();
    this.#error = null;
  }

  protected override look(): ThreadSnapshot {
    const { replay, thread, isLoading, isBehind, run, kept } = this.#log;
    const messages = this.#logged;
    const shared = {
      shownThreadId: this.#ref.threadId,
      // Messages that the log shows are not on their way any more.
      messages: this.#sends.over(messages),
      isSending: this.#sends.isSending,
      run,
      isRunning: isUnderWay(run),
      queue: this.queue.shown,
      error: this.#error ?? (isLoading ? troubleOf(this.#client.status) : null),
      isFetchingMoreMessages: this.#more !== undefined,
      status: this.#client.status,
    };
    if (!replay && kept) {
      const { thread, state, branches, partings } = kept;
      return { ...EMPTY_THREAD, ...shared, thread, state, branches, partings, isLoading: false };
    }
    const { conversation, hasMore = false } = replay ?? {};
    // Another page may have answered what the server has rendered: a call must not be executed twice.
    const pendingIds = isBehind ? undefined : conversation?.pendingToolCallIds;
    this.#pending = pendingCalls(messages, pendingIds ?? [], this.#pending);
    return {
      ...shared,
      thread,
      state: conversation ? conversation.state : EMPTY_THREAD.state,
      interrupts: conversation?.interrupts ?? EMPTY_THREAD.interrupts,
      pendingToolCalls: this.#pending,
      branches: this.branches.all,
      // The messages that follow are not there before all is loaded.
      partings: isLoading ? EMPTY_THREAD.partings : this.branches.partings(messages, hasMore),
      isLoading,
      hasMoreMessages: hasMore,
    };
  }

  protected override setError(error: ThreadlineError | null): void {
    // Another page answers the call by now, which is no failure.
    this.#error = isProblem(error, "claim-lost") ? null : error;
  }

  /** The messages of the log that are shown. */
  get #logged(): readonly Message[] {
    return this.#log.replay?.conversation.messages ?? this.#log.kept?.messages ?? EMPTY_THREAD.messages;
  }

  /** What another branch keeps of this one, with these messages. */
  #kept(messages: readonly Message[]): Kept {
    const { thread, state, branches, partings } = this.look();
    const ids = new Set<string | null>(messages.map(({ id }) => id));
    return {
      threadId: this.#ref.threadId,
      ready: this.#sends.answered,
      messages,
      thread,
      state,
      branches,
      partings: partings.filter(({ messageId }) => ids.has(messageId)),
    };
  }

  /** Shows content of another branch until this one is loaded. */
  #keep(kept: Kept): void {
    if (!this.isOpen) this.#log.kept = kept;
  }

  /** Begins a fork of this thread with a run. The fork has a store of its own, which shows what is said there at once. */
  #fork(fork: RunFork, input: SendInput, { agentId }: SendOptions): Forking {
    let messages = this.#logged;
    const at = messages.findIndex(({ id }) => id === (fork.before ?? fork.regenerate));
    if (at >= 0) messages = messages.slice(0, at);
    const threadId = newId();
    // This thread stays open until the fork has begun, so that a refusal leads back without a pause.
    const started = this.act(async () => {
      const given = this.tools.offeredIn(runInput(input));
      const how = { agentId: agentId ?? this.#log.thread?.agentId ?? undefined, fork: { ...fork, threadId } };
      return this.#storeOf(threadId).#begin(this.#kept(messages), given, how);
    });
    started.then(
      () => this.branches.load(),
      () => {},
    );
    return { threadId, started };
  }

  /** Begins the thread, as a fork of another one. */
  #begin(origin: Kept, input: SendInput, how: StartHow): Promise<StartedRun> {
    this.#origin = origin;
    return this.#sends.send(input, { ...how, origin }) as Promise<StartedRun>;
  }

  async #answer(toolCallId: string, result: ToolResult): Promise<StartedRun | undefined> {
    // Most pages execute no tools.
    const { ToolResults } = await loaded(import("./tool-results.js"));
    if (!this.isOpen) return undefined;
    if (this.#log.lost) throw this.#log.lost;
    this.#results ??= new ToolResults((messages, how) => this.#sends.send({ messages }, how) as Promise<StartedRun>);
    const added = this.#results.add(toolCallId, result);
    this.#flushTools();
    return added;
  }

  #flushTools(): void {
    const { replay, isBehind, isLoading } = this.#log;
    if (!replay || isBehind) return;
    const { messages, pendingToolCallIds } = replay.conversation;
    const isIdle = !isUnderWay(replay.run);
    if (isIdle) this.#results?.flush(messages, pendingToolCallIds);
    // Results may come from elsewhere before everything is replayed.
    this.tools.look(messages, pendingToolCallIds, isIdle && !isLoading);
  }

  #deleted(): void {
    this.#results?.drop();
    this.tools.close();
    this.#sends.clear();
    this.setError(new ClosedError("the thread was deleted"));
    this.publish();
  }
}
