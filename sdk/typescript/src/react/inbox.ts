import type { Threadline } from "../client.js";
import { ConfigError, type ThreadlineError } from "../errors.js";
import type { FeedEntry, InterruptPage, OpenInterrupt, StartedRun } from "../types.js";
import type { Feed } from "./feed.js";
import { type InterruptAnswer, runInput } from "./input.js";
import { FOR_EVER, patiently } from "./replay.js";
import { Store, troubleOf } from "./store.js";
import type { SendOptions } from "./snapshot.js";

/** Options of an inbox: a filter and the page size. */
export interface InboxOptions {
  /** Only threads of this agent. */
  readonly agentId?: string;
  /** Threads per page, 1 to 100; 50 by default. */
  readonly limit?: number;
}

/** Snapshot of an inbox. */
export interface InboxSnapshot {
  /** Interrupts of the thread whose run ended last come first; those of one thread follow each other, oldest first. */
  readonly interrupts: readonly OpenInterrupt[];
  /** Threads whose answers are on their way: until they are refused, or the inbox shows that a run has taken them. */
  readonly answering: readonly string[];
  /** True until the first page is loaded. */
  readonly isLoading: boolean;
  /** The most recent error, or the reason why nothing can be loaded; null after the next success. */
  readonly error: ThreadlineError | null;
  /** True if further threads wait. */
  readonly hasMoreInterrupts: boolean;
  readonly isFetchingMoreInterrupts: boolean;
}

export const EMPTY_INBOX: InboxSnapshot = {
  interrupts: [],
  answering: [],
  isLoading: true,
  error: null,
  hasMoreInterrupts: false,
  isFetchingMoreInterrupts: false,
};

/**
 * A live inbox: the open interrupts of all threads without an active run. The feed tells which threads wait, and the inbox is
 * read again when one begins to wait or is edited while it waits.
 */
export class InboxStore extends Store<InboxSnapshot> {
  readonly #client: Threadline;
  readonly #feed: Feed;
  readonly #options: InboxOptions;
  #interrupts = EMPTY_INBOX.interrupts;
  #answering = EMPTY_INBOX.answering;
  /** Threads of `answering` whose answers a run has taken. */
  readonly #answered = new Set<string>();
  #hasMore = false;
  /** Number of pages to show. */
  #pages = 1;
  #isLoading = true;
  #error: ThreadlineError | null = null;
  /** The permanent reason why nothing is loaded. */
  #refused: ThreadlineError | null = null;
  #more: Promise<void> | undefined;
  #loading: Promise<void> | undefined;
  /** True if the inbox has changed since the last read began. */
  #isStale = false;
  /** Threads that stopped waiting since the present read began, which may still return them. */
  readonly #gone = new Set<string>();
  #open = new AbortController();
  #ends: (() => void)[] = [];

  constructor(client: Threadline, feed: Feed, options: InboxOptions = {}, { onClose }: { onClose?: () => void } = {}) {
    super(EMPTY_INBOX, onClose);
    this.#client = client;
    this.#feed = feed;
    this.#options = options;
  }

  /**
   * Answers all open interrupts of a thread with a run of the agent that requested them. Resolves as soon as the run has
   * started. Rejects with `interrupt-settled` or `run-active` if another client was first, and with `interrupts-open` if an
   * answer is missing.
   */
  readonly answer = (
    threadId: string,
    answers: readonly InterruptAnswer[],
    options: SendOptions = {},
  ): Promise<StartedRun> => {
    return this.act(async () => {
      this.#answering = [...this.#answering, threadId];
      this.changed();
      try {
        const started = await this.#start(threadId, answers, options);
        this.#answered.add(threadId);
        void this.#load();
        return started;
      } catch (error) {
        this.#answering = this.#answering.filter((_, at, all) => at !== all.indexOf(threadId));
        throw error;
      }
    });
  };

  /** Loads the interrupts of further threads. Resolves when they are loaded or refused; immediately if there are none. */
  readonly fetchMoreInterrupts = (): Promise<void> => {
    if (!this.#hasMore) return Promise.resolve();
    if (!this.#more) {
      this.#pages += 1;
      this.#more = this.#load().finally(() => {
        this.#more = undefined;
        this.publish();
      });
      this.changed();
    }
    return this.#more;
  };

  protected override open(): void {
    this.#open = new AbortController();
    this.#ends = [
      this.#feed.join({
        onEntry: (entry) => this.#take(entry),
        onReplaced: () => void this.#load(),
        onError: (error) => this.showError(error),
      }),
      this.#client.onStatus(() => this.changed()),
    ];
    void this.#load();
  }

  protected override close(): void {
    for (const end of this.#ends) end();
    this.#open.abort();
    this.#loading = undefined;
    this.#interrupts = EMPTY_INBOX.interrupts;
    this.#forget(this.#answering);
    this.#hasMore = false;
    this.#pages = 1;
    this.#isLoading = true;
    this.#error = this.#refused = null;
  }

  protected override look(): InboxSnapshot {
    return {
      interrupts: this.#interrupts,
      answering: this.#answering,
      isLoading: this.#isLoading && this.#refused === null,
      error: this.#error ?? this.#refused ?? (this.#isLoading ? troubleOf(this.#client.status) : null),
      hasMoreInterrupts: this.#hasMore,
      isFetchingMoreInterrupts: this.#more !== undefined,
    };
  }

  protected override setError(error: ThreadlineError | null): void {
    this.#error = error;
  }

  async #start(threadId: string, answers: readonly InterruptAnswer[], { agentId }: SendOptions): Promise<StartedRun> {
    const thread = this.#client.thread(threadId);
    // Interrupts that are no longer shown were probably answered elsewhere: then the server says so.
    const shown = this.#interrupts.find((open) => open.threadId === threadId) ?? (await thread.get());
    const agent = agentId ?? shown.agentId;
    if (agent === null)
      throw new ConfigError(
        "agentId is missing, and neither the interrupts nor their thread have an agent: pass { agentId }",
      );
    return thread.start({ agentId: agent, input: runInput({ resume: answers }), epoch: shown.epoch });
  }

  /** Reads the inbox; once more if it is being read already. Never rejects. */
  #load(): Promise<void> {
    this.#isStale = true;
    this.#loading ??= this.#loadWhileStale(this.#open.signal);
    return this.#loading;
  }

  async #loadWhileStale(signal: AbortSignal): Promise<void> {
    this.#refused = null;
    try {
      while (this.#isStale) {
        this.#isStale = false;
        this.#gone.clear();
        const answered = [...this.#answered];
        await this.#read(signal);
        this.#isLoading = false;
        this.#error = null;
        this.#forget(answered);
        this.publish();
      }
    } catch (error) {
      if (signal.aborted) return;
      // Interrupts that are already loaded stay.
      if (this.#isLoading) this.#refused = error as ThreadlineError;
      this.showError(error as ThreadlineError);
    } finally {
      if (!signal.aborted) this.#loading = undefined;
    }
  }

  /** Reads as many pages as are shown, since a page has no meaning without those before it. */
  async #read(signal: AbortSignal): Promise<void> {
    let first: InterruptPage | undefined;
    let interrupts: readonly OpenInterrupt[] = [];
    let cursor: string | null = null;
    let pages = 0;
    do {
      const query = { ...this.#options, ...(cursor !== null && { cursor }), signal, ...FOR_EVER };
      const read = () => this.#client.interrupts.list(query);
      const page: InterruptPage = await patiently(read, signal, (error) => this.showError(error));
      first ??= page;
      // A thread whose run has ended meanwhile may be on two pages.
      interrupts = [
        ...interrupts,
        ...without(
          page.interrupts,
          interrupts.map(({ threadId }) => threadId),
        ),
      ];
      cursor = page.nextCursor;
      pages += 1;
    } while (cursor !== null && pages < this.#pages);
    this.#interrupts = without(interrupts, [...this.#gone]);
    this.#hasMore = cursor !== null;
    this.#feed.from(first);
  }

  #take({ threadId, thread }: FeedEntry): void {
    const { agentId } = this.#options;
    const isOfAgent = agentId === undefined || thread?.agentId === agentId;
    if (thread && isOfAgent && !thread.archived && !thread.activeRun && thread.openInterrupts > 0) {
      void this.#load();
      return;
    }
    if (this.#loading) this.#gone.add(threadId);
    const left = without(this.#interrupts, [threadId]);
    if (left.length === this.#interrupts.length) return;
    this.#interrupts = left;
    this.changed();
    // Further threads take its place on the page.
    if (this.#hasMore) void this.#load();
  }

  /** Ends the mark of threads whose present interrupts are shown. */
  #forget(threadIds: readonly string[]): void {
    for (const threadId of threadIds) this.#answered.delete(threadId);
    const left = this.#answering.filter((threadId) => !threadIds.includes(threadId));
    if (left.length < this.#answering.length) this.#answering = left;
  }
}

function without(interrupts: readonly OpenInterrupt[], threadIds: readonly string[]): readonly OpenInterrupt[] {
  return interrupts.filter(({ threadId }) => !threadIds.includes(threadId));
}
