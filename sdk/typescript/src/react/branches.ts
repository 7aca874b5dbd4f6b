import { loaded } from "../errors.js";
import type { RunFork } from "../runs.js";
import type { ThreadRef } from "../threads.js";
import type { FeedEntry, Message, Thread } from "../types.js";
import type { SendInput } from "./input.js";
import type { Parting, Place } from "./partings.js";
import { FOR_EVER, patiently } from "./replay.js";
import type { Forking, ForkRunOptions, SendOptions } from "./snapshot.js";

const NO_BRANCHES: readonly Thread[] = [];
const NO_PARTINGS: readonly Parting[] = [];

/** Parts of a thread's store that its branches use. */
export interface BranchesOwner {
  /** Aborted when another replay takes the place of the present one. */
  readonly signal: () => AbortSignal;
  readonly onChange: () => void;
  /** Carries out a task of the user. */
  readonly act: <T>(task: () => Promise<T>) => Promise<T>;
  /** Starts a run in a fork. */
  readonly fork: (fork: RunFork, input: SendInput, options: SendOptions) => Forking;
  /** Handles members of the thread's own record, which the feed does not report while another branch is listed. */
  readonly onThread: (own: Pick<Thread, "branched" | "listed">) => void;
}

/**
 * The branches of a conversation, as one of them shows them. They are read when the thread says that it has others, and again
 * when the feed reports a fork of one of them, or that another one is listed.
 */
export class LiveBranches {
  readonly #ref: ThreadRef;
  readonly #owner: BranchesOwner;
  /** All branches, once they are read. A branch whose relatives were deleted is alone. */
  #branches = NO_BRANCHES;
  #places: readonly Place[] = [];
  /** Most threads have no other branches, so this code is loaded with the first ones. */
  #code: typeof import("./partings.js") | undefined;
  /** The last message before each place, by seq; null if there is none. */
  #lasts = new Map<number, string | null>();
  #partings = NO_PARTINGS;
  #loading: AbortSignal | undefined;
  /** True if the branches have changed since the last read began. */
  #isStale = false;

  constructor(ref: ThreadRef, owner: BranchesOwner) {
    this.#ref = ref;
    this.#owner = owner;
  }

  /** All branches, oldest first; empty if the thread is the only one. */
  get all(): readonly Thread[] {
    return this.#branches.length > 1 ? this.#branches : NO_BRANCHES;
  }

  /**
   * Replaces a message in a fork of the thread. The message and everything after it stay in this thread only. The fork is to be
   * shown at once, by the `threadId` of the result: its store has the messages before, and the new one. The run rejects with a
   * `message-not-found` problem if no event brings the message.
   */
  readonly edit = (messageId: string, input: SendInput, options: ForkRunOptions = {}): Forking => {
    const { stop, ...others } = options;
    return this.#owner.fork({ before: messageId, stop }, input, others);
  };

  /** Has an answer made again, in a fork of the thread: see `edit`. */
  readonly regenerate = (messageId: string, options: ForkRunOptions = {}): Forking => {
    const { stop, ...others } = options;
    return this.#owner.fork({ regenerate: messageId, stop }, {}, others);
  };

  /** Has lists show a branch of the conversation, in place of the present one. */
  readonly list = (threadId: string): Promise<Thread> => {
    return this.#owner.act(async () => {
      const listed = await this.#ref.listBranch(threadId);
      this.load();
      return listed;
    });
  };

  /** Returns the partings among these messages, as far as known. The same array is returned until one of them changes. */
  partings(messages: readonly Message[], hasMore: boolean): readonly Parting[] {
    const partings = this.#places.flatMap((place): Parting | [] => {
      const last = this.#lasts.get(place.seq);
      if (last === undefined) return [];
      const messageId = this.#code!.following(messages, last, hasMore);
      const before = this.#partings.find(({ threads }) => threads === place.threads);
      return before?.messageId === messageId ? before : { ...place, messageId };
    });
    const isSame =
      partings.length === this.#partings.length && partings.every((parting, at) => parting === this.#partings[at]);
    if (!isSame) this.#partings = partings;
    return this.#partings;
  }

  /** Those of these messages that another branch has as well; undefined if that is not known. */
  common(threadId: string, messages: readonly Message[]): readonly Message[] | undefined {
    const seq = this.#code?.commonSeq(this.#branches, this.#ref.threadId, threadId);
    const last = seq === undefined ? undefined : this.#lasts.get(seq);
    if (last === undefined) return undefined;
    return messages.slice(0, messages.findLastIndex(({ id }) => id === last) + 1);
  }

  /** Handles the thread's own record. */
  hearThread(thread: Thread): void {
    if (thread.branched) this.#hearBranch(thread);
  }

  /** Handles a change of any thread in the feed. */
  hear({ threadId, thread }: FeedEntry): void {
    const isOurs = (id: string | undefined) =>
      id === this.#ref.threadId || this.#branches.some((branch) => branch.threadId === id);
    // A branch that is not listed any more is reported as deleted.
    if (!thread) {
      if (isOurs(threadId)) this.load();
    } else if (thread.branched && (isOurs(threadId) || isOurs(thread.forkedFrom?.threadId))) this.#hearBranch(thread);
  }

  /** Reads the branches; once more if they are being read already. */
  load(): void {
    this.#isStale = true;
    const signal = this.#owner.signal();
    if (this.#loading === signal) return;
    this.#loading = signal;
    void this.#loadWhileStale(signal);
  }

  /** Forgets everything, since another replay begins. */
  reset(): void {
    this.#branches = NO_BRANCHES;
    this.#places = [];
    this.#lasts = new Map();
    this.#partings = NO_PARTINGS;
  }

  /** Handles the record of a branch: the other ones have changed if it is new, or if another one is listed. */
  #hearBranch(thread: Thread): void {
    const known = this.#branches.find(({ threadId }) => threadId === thread.threadId);
    const isComplete = this.#places.every(({ seq }) => this.#lasts.has(seq));
    if (known?.epoch !== thread.epoch || known.listed !== thread.listed || !isComplete) return this.load();
    this.#take(this.#branches.map((branch) => (branch === known ? thread : branch)));
  }

  async #loadWhileStale(signal: AbortSignal): Promise<void> {
    const read = { signal, ...FOR_EVER };
    try {
      while (this.#isStale) {
        this.#isStale = false;
        const branches = await patiently(() => this.#ref.branches(read), signal);
        this.#code ??= await loaded(import("./partings.js"));
        if (signal.aborted) return;
        this.#take(branches);
        const own = branches.find(({ threadId }) => threadId === this.#ref.threadId);
        if (!own) return;
        const { branched, listed } = own;
        this.#owner.onThread({ branched, listed });
        for (const { seq } of this.#places) {
          if (this.#lasts.has(seq)) continue;
          const where = { at: seq, epoch: own.epoch, limit: 1, ...read };
          const last = seq === 0 ? null : await patiently(() => this.#ref.messages(where), signal);
          if (signal.aborted) return;
          this.#lasts.set(seq, last?.messages.at(-1)?.id ?? null);
          this.#owner.onChange();
        }
      }
    } catch {
      // A refusal: what the thread itself gets says why.
    } finally {
      if (this.#loading === signal) this.#loading = undefined;
    }
  }

  #take(branches: readonly Thread[]): void {
    this.#branches = branches;
    this.#places = this.#code!.placesOf(branches, this.#ref.threadId);
    this.#owner.onChange();
  }
}
