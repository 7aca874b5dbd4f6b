import type { Threadline } from "../client.js";
import { isUnderWay, Replay } from "./replay.js";
import type { Dehydrated, Seed } from "./seed.js";
import { EMPTY_THREAD, type ThreadSnapshot } from "./snapshot.js";

/** A thread as the server has rendered it. */
export class Initial {
  readonly seed: Seed;
  /** The snapshot in the server's HTML. */
  readonly snapshot: ThreadSnapshot;
  #isDropped = false;

  constructor(client: Threadline, seed: Seed) {
    this.seed = seed;
    const { conversation, hasMore, run } = Replay.from(client.thread(seed.thread.threadId), seed);
    this.snapshot = {
      ...EMPTY_THREAD,
      shownThreadId: seed.thread.threadId,
      thread: seed.thread,
      messages: conversation.messages,
      state: conversation.state,
      interrupts: conversation.interrupts,
      run,
      isRunning: isUnderWay(run),
      isLoading: false,
      hasMoreMessages: hasMore,
    };
  }

  /** True if the thread can no longer be continued from here. */
  get isDropped(): boolean {
    return this.#isDropped;
  }

  drop(): void {
    this.#isDropped = true;
  }
}

/** The threads that the server has rendered. */
export class Initials {
  readonly client: Threadline;
  readonly #seeds: ReadonlyMap<string, Seed>;
  readonly #initials = new Map<string, Initial>();

  constructor(client: Threadline, { threads }: Dehydrated) {
    this.client = client;
    const seeds = threads.map((text) => JSON.parse(text) as Seed);
    this.#seeds = new Map(seeds.map((seed) => [seed.thread.threadId, seed]));
  }

  get(threadId: string): Initial | undefined {
    let found = this.#initials.get(threadId);
    const seed = this.#seeds.get(threadId);
    if (!found && seed) this.#initials.set(threadId, (found = new Initial(this.client, seed)));
    return found;
  }
}
