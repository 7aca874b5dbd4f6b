import type { Threadline } from "../client.js";
import { type ThreadlineError, TimeoutError } from "../errors.js";
import { newId } from "../ids.js";
import { MUTATION_TIMEOUT_MS } from "../limits.js";
import { abort, reasonOf, throwIfAborted } from "../platform.js";
import type { WriteOptions } from "../runs.js";
import { trimmed } from "../search.js";
import type { DeleteOptions, NewThread } from "../threads.js";
import type { FeedEntry, Thread } from "../types.js";
import { type Change, Changes } from "./changes.js";
import type { Feed } from "./feed.js";
import { FOR_EVER, patiently } from "./replay.js";
import { Store, troubleOf } from "./store.js";
import { isBeyond, isShownBy, type ThreadFilter, type Window, withEntry, withPage } from "./window.js";

/** Options of a thread list: a filter and the page size. */
export interface ThreadListOptions extends ThreadFilter {
  /** Threads per page, 1 to 500; 50 by default. */
  readonly limit?: number;
}

/** The branches that a deletion concerns. */
export type DeleteBranches = Pick<DeleteOptions, "branches">;

/** Snapshot of a thread list. */
export interface ThreadListSnapshot {
  /** Sorted by last run, or last edit if there was none, newest first. */
  readonly threads: readonly Thread[];
  /** True until the first page is loaded. */
  readonly isLoading: boolean;
  /** The most recent error, or the reason why nothing can be loaded; null after the next success. */
  readonly error: ThreadlineError | null;
  /**
   * True if older threads may exist. A search may have more even if it has no result yet, since each request checks 10,000
   * names.
   */
  readonly hasMoreThreads: boolean;
  readonly isFetchingMoreThreads: boolean;
}

export const EMPTY_LIST: ThreadListSnapshot = {
  threads: [],
  isLoading: true,
  error: null,
  hasMoreThreads: false,
  isFetchingMoreThreads: false,
};

/** A method that waits until its change is confirmed. */
interface Waiter {
  readonly threadId: string;
  readonly epoch: string | undefined;
  newest: FeedEntry | undefined;
  check: () => void;
  /** Rejects the method, since the change will not be confirmed. */
  readonly fail: (error: ThreadlineError) => void;
}

/**
 * A live list of threads. New names, the archive and deletions are shown at once, and taken back if they are refused. The
 * promises of all methods resolve when the server has confirmed the change and the list shows it, and reject if it is refused or
 * not confirmed within 15 s.
 */
export class ThreadListStore extends Store<ThreadListSnapshot> {
  readonly #client: Threadline;
  readonly #feed: Feed;
  readonly #options: ThreadListOptions;
  readonly #timeoutMs: number;
  #window: Window = { threads: [], hasMore: false };
  #cursor: string | null = null;
  #isLoading = true;
  #error: ThreadlineError | null = null;
  /** The permanent reason why nothing is loaded. */
  #refused: ThreadlineError | null = null;
  #more: Promise<void> | undefined;
  #loads = new AbortController();
  /** Changes that arrived while a page was loading, and may be newer than it. */
  readonly #meanwhile = new Map<string, FeedEntry>();
  /** True while a first page is loading. */
  #isAsking = false;
  readonly #waiters = new Set<Waiter>();
  /** Changes that are shown before they are confirmed. */
  readonly #changes: Changes;
  #ends: (() => void)[] = [];

  constructor(
    client: Threadline,
    feed: Feed,
    options: ThreadListOptions = {},
    { timeoutMs = MUTATION_TIMEOUT_MS, onClose }: { timeoutMs?: number; onClose?: () => void } = {},
  ) {
    super(EMPTY_LIST, onClose);
    this.#client = client;
    this.#feed = feed;
    const { search = "", ...others } = options;
    const text = trimmed(search);
    this.#options = text === "" ? others : { ...others, search: text };
    this.#changes = new Changes(this.#options);
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Loads the next older threads. Resolves when they are loaded; immediately if there are none. In a search, a page may add
   * none.
   */
  readonly fetchMoreThreads = (): Promise<void> => {
    if (this.#cursor === null || this.#isLoading) return Promise.resolve();
    this.#more ??= this.act(() => this.#fetchMore(this.#loads.signal)).finally(() => {
      this.#more = undefined;
      this.publish();
    });
    this.changed();
    return this.#more;
  };

  /** Creates a thread, with the list's agent by default. */
  readonly createThread = (options: Omit<NewThread, "signal"> = {}): Promise<Thread> => {
    const { agentId } = this.#options;
    const thread = { threadId: newId() as string, ...(agentId !== undefined && { agentId }), ...options };
    return this.#confirmed(thread.threadId, ({ signal }) => this.#client.threads.create({ ...thread, signal }));
  };

  /** Renames a thread; null removes the name. */
  readonly renameThread = async (threadId: string, name: string | null): Promise<void> => {
    const renamed: Change = (thread) => ({ ...thread, name });
    await this.#confirmed(threadId, (options) => this.#client.thread(threadId).rename(name, options), renamed);
  };

  readonly archiveThread = async (threadId: string): Promise<void> => {
    const archived: Change = (thread) => ({ ...thread, archived: true });
    await this.#confirmed(threadId, (options) => this.#client.thread(threadId).archive(options), archived);
  };

  readonly unarchiveThread = async (threadId: string): Promise<void> => {
    const unarchived: Change = (thread) => ({ ...thread, archived: false });
    await this.#confirmed(threadId, (options) => this.#client.thread(threadId).unarchive(options), unarchived);
  };

  /** Deletes a thread and all of its log, permanently; with `branches` all branches of its conversation. */
  readonly deleteThread = async (threadId: string, branches?: DeleteBranches): Promise<void> => {
    const request = (options: WriteOptions) => this.#client.thread(threadId).delete({ ...options, ...branches });
    await this.#confirmed(threadId, request, () => null);
  };

  protected override open(): void {
    this.#ends = [
      this.#feed.join({
        onEntry: (entry) => this.#take(entry),
        onReplaced: () => void this.#load(),
        onRead: () => {
          this.#changes.reset();
          this.changed();
        },
        onError: (error) => this.#lost(error),
      }),
      this.#client.onStatus(() => this.changed()),
    ];
    void this.#load();
  }

  protected override close(): void {
    for (const end of this.#ends) end();
    this.#loads.abort();
    this.#window = { threads: [], hasMore: false };
    this.#cursor = null;
    this.#isLoading = true;
    this.#error = this.#refused = null;
    this.#meanwhile.clear();
  }

  protected override look(): ThreadListSnapshot {
    return {
      threads: this.#changes.over(this.#window.threads, this.#feed.readMark),
      isLoading: this.#isLoading && this.#refused === null,
      error: this.#error ?? this.#refused ?? (this.#isLoading ? troubleOf(this.#client.status) : null),
      hasMoreThreads: this.#window.hasMore,
      isFetchingMoreThreads: this.#more !== undefined,
    };
  }

  protected override setError(error: ThreadlineError | null): void {
    this.#error = error;
  }

  /** Loads the first page. */
  async #load(): Promise<void> {
    this.#loads.abort();
    const { signal } = (this.#loads = new AbortController());
    this.#isAsking = true;
    this.#refused = null;
    const read = () => this.#client.threads.list({ ...this.#options, signal, ...FOR_EVER });
    try {
      this.#meanwhile.clear();
      const page = await patiently(read, signal, (error) => this.showError(error));
      this.#cursor = page.nextCursor;
      this.#window = { threads: page.threads, hasMore: page.nextCursor !== null };
      this.#isLoading = this.#isAsking = false;
      this.#error = null;
      this.#catchUp();
      this.#feed.from(page);
      this.publish();
    } catch (error) {
      if (signal.aborted) return;
      // Threads that are already loaded stay.
      if (this.#isLoading) this.#refused = error as ThreadlineError;
      this.#isAsking = false;
      this.#lost(error as ThreadlineError);
    }
  }

  /** Handles the end of the feed. */
  #lost(error: ThreadlineError): void {
    this.showError(error);
    for (const waiter of [...this.#waiters]) waiter.fail(error);
  }

  async #fetchMore(signal: AbortSignal): Promise<void> {
    this.#meanwhile.clear();
    try {
      const page = await this.#client.threads.list({ ...this.#options, cursor: this.#cursor ?? "", signal });
      this.#cursor = page.nextCursor;
      this.#window = { threads: withPage(this.#window, page.threads), hasMore: page.nextCursor !== null };
      this.#catchUp();
    } catch (error) {
      // The list was reloaded, or is no longer shown.
      if (!signal.aborted) throw error;
    }
  }

  /** Applies the changes that arrived while the page was loading, since they are newer. */
  #catchUp(): void {
    for (const entry of this.#meanwhile.values()) this.#show(entry);
    this.#meanwhile.clear();
  }

  #take(entry: FeedEntry): void {
    if (this.#isAsking || this.#more) this.#meanwhile.set(entry.threadId, entry);
    if (!this.#isLoading) this.#show(entry);
    const waiters = [...this.#waiters].filter(({ threadId }) => threadId === entry.threadId);
    for (const waiter of waiters) waiter.newest = entry;
    // Published before the waiting methods resolve, so that their callers see the change.
    if (waiters.length > 0) this.publish();
    for (const waiter of waiters) waiter.check();
  }

  #show(entry: FeedEntry): void {
    const threads = withEntry(this.#window, this.#options, entry);
    if (threads === this.#window.threads) return;
    this.#window = { ...this.#window, threads };
    this.changed();
  }

  /** Sends a change, which is shown meanwhile, and waits until the list shows that it has taken effect. */
  #confirmed<T extends Thread | void>(
    threadId: string,
    request: (options: WriteOptions) => Promise<T>,
    change?: Change,
  ): Promise<T> {
    return this.act(async () => {
      const end = change && this.#changes.add(threadId, change);
      this.publish();
      const late = new AbortController();
      const fail = (error: ThreadlineError) => abort(late, error);
      const epoch = this.#shown(threadId)?.epoch;
      const waiter: Waiter = { threadId, epoch, newest: undefined, check: () => {}, fail };
      const timer = setTimeout(() => {
        fail(new TimeoutError("the server did not confirm the change before the timeout; it may still be applied"));
      }, this.#timeoutMs);
      this.#waiters.add(waiter);
      try {
        const answer = await request({ signal: late.signal, epoch });
        await new Promise<void>((resolve, reject) => {
          throwIfAborted(late.signal);
          late.signal.addEventListener("abort", () => reject(reasonOf(late.signal)));
          waiter.check = () => this.#hasCome(waiter, answer) && resolve();
          waiter.check();
        });
        return answer;
      } finally {
        clearTimeout(timer);
        this.#waiters.delete(waiter);
        end?.();
      }
    });
  }

  #shown(threadId: string): Thread | undefined {
    return this.#window.threads.find((thread) => thread.threadId === threadId);
  }

  /** True if the list shows the change, or never will: a request that changes nothing produces no feed entry. */
  #hasCome({ threadId, epoch, newest }: Waiter, answer: Thread | void): boolean {
    if (newest?.type === "delete") return true;
    if (answer && newest?.thread && newest.thread.updatedAt >= answer.updatedAt) return true;
    if (this.#isLoading) return false;
    const shown = this.#shown(threadId);
    // Another thread under this id is not the one that was deleted.
    if (!answer) return shown?.epoch !== epoch || epoch === undefined;
    if (!isShownBy(this.#options, answer)) return shown === undefined;
    return shown ? shown.updatedAt >= answer.updatedAt : isBeyond(this.#window, this.#options, answer);
  }
}
