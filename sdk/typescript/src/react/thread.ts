import { backoff, sleep } from "../backoff.js";
import type { Threadline } from "../client.js";
import type { ConnectionStatus } from "../connection/status.js";
import { ClosedError, ConfigError, isProblem, ThreadlineError } from "../errors.js";
import { newId } from "../ids.js";
import type { RunInput } from "../runs.js";
import type { ThreadRef } from "../threads.js";
import type { FeedEntry, Interrupt, Message, Run, StartedRun, Thread, ToolCall } from "../types.js";
import type { Feed } from "./feed.js";
import { type InterruptAnswer, runInput, type SendInput } from "./input.js";
import { FOR_EVER, isUnderWay, patiently, Replay, type ThreadRun } from "./replay.js";
import { Store, troubleOf } from "./store.js";
import { pendingCalls, ToolResults } from "./tools.js";

/** What a page shows of a thread. */
export interface ThreadSnapshot {
  /** The thread itself: its name, its agent, whether it is archived. null if there is none (yet). */
  readonly thread: Thread | null;
  readonly messages: readonly Message[];
  readonly state: unknown;
  /** What waits for the answer of a person; see `resume`. */
  readonly interrupts: readonly Interrupt[];
  /** Tool calls without a result, among the messages that are loaded. Complete when no run is under way. */
  readonly pendingToolCalls: readonly ToolCall[];
  /** The newest run that was seen: how it goes, or how it ended. */
  readonly run: ThreadRun | null;
  readonly isRunning: boolean;
  /** Not everything that there was has been replayed yet. */
  readonly isLoading: boolean;
  /** What went wrong last, or keeps everything from being loaded; null again after the next success. */
  readonly error: ThreadlineError | null;
  readonly hasMoreMessages: boolean;
  readonly isFetchingMoreMessages: boolean;
  /** How the client is connected. */
  readonly status: ConnectionStatus;
}

export const EMPTY_THREAD: ThreadSnapshot = {
  thread: null,
  messages: [],
  state: {},
  interrupts: [],
  pendingToolCalls: [],
  run: null,
  isRunning: false,
  isLoading: true,
  error: null,
  hasMoreMessages: false,
  isFetchingMoreMessages: false,
  status: { state: "idle" },
};

/** Which agent does a run, if it is not the thread's own. */
export interface SendOptions {
  readonly agentId?: string | undefined;
}

/**
 * A thread, live. Whatever happens to it (runs, a stop, its deletion, a server that comes back with an older log) shows here; what is
 * sent shows when the log has it.
 */
export class ThreadStore extends Store<ThreadSnapshot> {
  readonly #client: Threadline;
  readonly #feed: Feed;
  readonly #ref: ThreadRef;
  readonly #tools = new ToolResults((messages, agentId) => this.send({ messages }, { agentId }));
  #replay: Replay | undefined;
  #thread: Thread | null = null;
  #pending = EMPTY_THREAD.pendingToolCalls;
  #isLoading = true;
  /** The feed has spoken of the thread while it was asked for. */
  #isAnnounced = false;
  #error: ThreadlineError | null = null;
  /** Why the log is followed no longer. */
  #lost: ThreadlineError | undefined;
  #more: Promise<void> | undefined;
  /** Of what is under way for the replay that is shown, or about to be. */
  #current = new AbortController();
  /** Of what is asked as long as somebody listens. */
  #open = new AbortController();
  #ends: (() => void)[] = [];

  constructor(client: Threadline, feed: Feed, threadId: string, { onClose }: { onClose?: () => void } = {}) {
    super(EMPTY_THREAD, onClose);
    this.#client = client;
    this.#feed = feed;
    this.#ref = client.thread(threadId);
  }

  /**
   * Begins a run; makes the thread if it is not there. Resolves as soon as the run has begun. A problem `run-active` if another one
   * is under way, `interrupts-open` if the thread waits for answers.
   */
  readonly send = (input: SendInput, { agentId }: SendOptions = {}): Promise<StartedRun> => {
    return this.act(async () => {
      const run = await this.#start(runInput(input), agentId);
      this.#replay?.began(run.run);
      if (!this.#replay && this.isOpen) void this.#begin();
      return run;
    });
  };

  /** Answers the interrupts that are open, all of them. */
  readonly resume = (answers: readonly InterruptAnswer[], options?: SendOptions): Promise<StartedRun> => {
    return this.send({ resume: answers }, options);
  };

  /** Asks the run that is under way to stop, whoever began it. Resolves when the server knows; undefined if there is none. */
  readonly stop = async (): Promise<Run | undefined> => {
    const shown = this.#replay?.run ?? null;
    return this.act(async () => {
      // The page may not have heard of the run yet.
      const run = isUnderWay(shown) ? shown : (await this.#existing())?.activeRun;
      if (!run) return undefined;
      const stopped = await this.#ref.stop(run.runId);
      this.#replay?.began(stopped);
      return stopped;
    });
  };

  /**
   * Gives the result of a tool call that the page has done. When all calls of a message have theirs, and the run has ended, a run is
   * begun with them. Resolves when that has begun; to undefined if the result is dropped, because the call has one already, or
   * because nobody shows the thread any more.
   */
  readonly addToolResult = (
    toolCallId: string,
    result: unknown,
    { agentId }: SendOptions = {},
  ): Promise<StartedRun | undefined> => {
    if (!this.isOpen) return Promise.resolve(undefined);
    if (this.#lost) return Promise.reject(this.#lost);
    const added = this.#tools.add(toolCallId, result, agentId);
    this.#flushTools();
    return added;
  };

  /** Loads older messages. Resolves when they are there; at once if there are none. */
  readonly fetchMoreMessages = (): Promise<void> => {
    const replay = this.#replay;
    // What lacks older messages that events speak of is about to be loaded whole.
    if (!replay?.hasMore || replay.conversation.isIncomplete) return Promise.resolve();
    const { signal } = this.#current;
    const load = async () => {
      // Another replay has taken its place meanwhile: the answer is for nobody.
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
   * Marks as read what has been replayed so far, if that is more than what was read before, here or elsewhere. It waits for
   * nothing that is under way. Resolves when the server knows, or has not taken it: that is not shown, and the next call tries again.
   */
  readonly markRead = async (): Promise<void> => {
    const replay = this.#replay;
    await replay?.markRead(this.#thread?.readSeq ?? 0, (readSeq) => {
      if (this.#replay !== replay || !this.#thread || this.#thread.readSeq >= readSeq) return;
      this.#thread = { ...this.#thread, readSeq };
      this.changed();
    });
  };

  protected override open(): void {
    this.#open = new AbortController();
    this.#ends = [
      this.#feed.join({ onEntry: (entry) => this.#take(entry), onReplaced: () => void this.#watch() }),
      this.#client.onStatus(() => this.changed()),
    ];
    void this.#begin().then(() => this.#watch());
  }

  protected override close(): void {
    for (const end of this.#ends) end();
    this.#open.abort();
    this.#current.abort();
    this.#tools.drop();
    this.#clear();
    this.#isLoading = true;
    this.#error = null;
  }

  protected override look(): ThreadSnapshot {
    const { conversation, hasMore = false, run = null } = this.#replay ?? {};
    const messages = conversation?.messages ?? EMPTY_THREAD.messages;
    this.#pending = pendingCalls(messages, conversation?.pendingToolCallIds ?? [], this.#pending);
    return {
      thread: this.#thread,
      messages,
      state: conversation ? conversation.state : EMPTY_THREAD.state,
      interrupts: conversation?.interrupts ?? EMPTY_THREAD.interrupts,
      pendingToolCalls: this.#pending,
      run,
      isRunning: isUnderWay(run),
      isLoading: this.#isLoading,
      error: this.#error ?? (this.#isLoading ? troubleOf(this.#client.status) : null),
      hasMoreMessages: hasMore,
      isFetchingMoreMessages: this.#more !== undefined,
      status: this.#client.status,
    };
  }

  protected override setError(error: ThreadlineError | null): void {
    this.#error = error;
  }

  /** Starts a run, and the thread before it if that is missing. */
  async #start(input: RunInput, agentId = this.#thread?.agentId ?? undefined): Promise<StartedRun> {
    agentId ??= (await this.#existing())?.agentId ?? undefined;
    if (agentId === undefined) throw new ConfigError("agentId is missing, and the thread has no agent of its own");
    const run = { runId: newId(), agentId, input };
    try {
      return await this.#ref.start(run);
    } catch (error) {
      if (!isProblem(error, "thread-not-found")) throw error;
    }
    await this.#client.threads.create({ threadId: this.#ref.threadId, agentId });
    return this.#ref.start(run);
  }

  async #existing(): Promise<Thread | undefined> {
    try {
      return await this.#ref.get();
    } catch (error) {
      if (isProblem(error, "thread-not-found")) return undefined;
      throw error;
    }
  }

  /**
   * Replays the thread from where no run was under way. What is shown meanwhile stays if `quietly`; else it is empty. Goes on trying
   * as long as that may help.
   */
  async #begin(quietly = false): Promise<void> {
    this.#current.abort();
    const { signal } = (this.#current = new AbortController());
    this.#isAnnounced = false;
    this.#lost = undefined;
    if (!quietly) {
      this.#clear();
      this.#isLoading = true;
      this.changed();
    }
    for (;;) {
      try {
        const load = () => Replay.load(this.#ref, quietly, signal);
        const replay = await patiently(load, signal, (error) => this.showError(error));
        if (signal.aborted) return;
        this.#show(replay, quietly, signal);
        return;
      } catch (error) {
        if (signal.aborted) return;
        const isMissing = isProblem(error, "thread-not-found");
        // Made since it was asked for.
        if (isMissing && this.#isAnnounced) {
          this.#isAnnounced = false;
          continue;
        }
        this.#isLoading = false;
        if (isMissing) return this.changed();
        this.setError(error as ThreadlineError);
        this.publish();
        // Replaced since its record was read: that is read again.
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
      // The events speak of messages that were not loaded: all of them, then.
      if (replay.conversation.isIncomplete) return void this.#begin(true);
      if (this.#replay !== replay) return;
      this.#flushTools();
      this.changed();
    };
    replay.follow(
      {
        onChange,
        onCaughtUp: () => {
          if (signal.aborted) return;
          if (this.#replay !== replay) show();
          this.#isLoading = false;
          onChange();
        },
        onDeleted: () => this.#deleted(),
        onError: (error) => {
          if (isProblem(error, "log-replaced") || isProblem(error, "cursor-ahead")) return void this.#begin();
          if (isProblem(error, "thread-not-found")) return this.#deleted();
          this.#lost = error;
          this.#tools.fail(error);
          this.#isLoading = false;
          this.setError(error);
          this.publish();
        },
      },
      signal,
    );
    this.changed();
  }

  /** Joins the feed, if nobody has yet; and sees what happened to the thread before that. */
  async #watch(): Promise<void> {
    if (!this.isOpen || this.#feed.isFollowed) return;
    try {
      const { signal } = this.#open;
      const read = { signal, ...FOR_EVER };
      const { feedCursor } = await patiently(() => this.#client.threads.list({ limit: 1, ...read }), signal);
      this.#feed.from(feedCursor);
      const thread = await patiently(() => this.#ref.get(read), signal);
      if (this.isOpen) this.#take({ cursor: feedCursor, type: "upsert", threadId: thread.threadId, thread });
    } catch {
      // A key without a user has no feed: then the log is all there is.
    }
  }

  #take({ threadId, thread }: FeedEntry): void {
    if (threadId !== this.#ref.threadId) return;
    // The end of the log says so itself, unless there is no replay.
    if (!thread) return;
    const replay = this.#replay;
    if (!replay) {
      if (this.#isLoading) this.#isAnnounced = true;
      else void this.#begin();
      return;
    }
    if (thread.epoch !== replay.thread.epoch) return;
    this.#thread = thread;
    if (thread.activeRun) replay.began(thread.activeRun);
    else if (thread.tail <= replay.cursor) replay.vanished();
    this.changed();
  }

  #flushTools(): void {
    const replay = this.#replay;
    if (!replay || isUnderWay(replay.run)) return;
    this.#tools.flush(replay.conversation.messages, replay.conversation.pendingToolCallIds);
  }

  #deleted(): void {
    this.#current.abort();
    this.#tools.drop();
    this.#clear();
    this.#isLoading = false;
    this.setError(new ClosedError("the thread was deleted"));
    this.publish();
  }

  #clear(): void {
    this.#replay = undefined;
    this.#thread = null;
  }
}
