// A thread as it was after any of its events, as the server says it, but folded here: the server is asked for what there was before a
// run, and for the run's events; then each step forth is one event, and steps back are remembered.

import type { ThreadEvent, ThreadRef } from "threadline";
import type { AnyEvent, AnyMessage } from "../untrusted.ts";
import { Conversation, type ConversationStart } from "threadline/conversation";

/** Events that are folded here; where there are more since the last rest, the server does it. */
const MOST_EVENTS = 20_000;
/** Events of one request. */
const PAGE = 5_000;
/** Events that are loaded beyond what is asked for, for the steps to come. */
const AHEAD = 200;
/** Steps before the one that is asked for that are remembered. */
const BEHIND = 50;
/** Moments that are remembered. */
const MOST_KEPT = 200;
/** Rests that are remembered. */
const MOST_RESTS = 4;
/** Pages of messages (4 MiB each) that are loaded before the newest. */
const MOST_PAGES = 8;

/** What a thread was after an event. */
export interface Kept {
  readonly messages: readonly AnyMessage[];
  readonly state: unknown;
}

/** A seq at which no run was under way, and what the thread was there. */
interface Rest {
  readonly seq: number;
  readonly start: ConversationStart;
}

/** A fold from a rest on. */
interface Fold {
  readonly rest: Rest;
  /** Behind the rest, as far as they are loaded. */
  readonly events: AnyEvent[];
  conversation: Conversation;
  /** Seq of the last event that is in it. */
  cursor: number;
}

/** What is asked of a thread. */
export type Source = Pick<ThreadRef, "events" | "messages" | "state" | "runs">;

export class Moments {
  readonly #source: Source;
  readonly #epoch: string;
  /** The one that was used longest ago comes first. */
  readonly #kept = new Map<number, Kept>();
  readonly #rests = new Map<number, Rest>();
  #fold: Fold | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  #busy = 0;

  constructor(source: Source, epoch: string) {
    this.#source = source;
    this.#epoch = epoch;
  }

  /** The moment after an event, if that can be said without asking. The same object as long as it is remembered. */
  peek(at: number): Kept | undefined {
    const kept = this.#kept.get(at);
    if (kept) return kept;
    const fold = this.#fold;
    const isNear = fold && this.#busy === 0 && at > fold.cursor && at <= fold.cursor + AHEAD;
    if (!isNear || at > fold.rest.seq + fold.events.length) return undefined;
    this.#advance(fold, at);
    return this.#kept.get(at);
  }

  /** The moment after an event. */
  async load(at: number, signal: AbortSignal): Promise<Kept> {
    this.#busy += 1;
    // One after the other: they share the fold.
    const mine = this.#turn.then(() => this.#find(at, signal));
    this.#turn = mine.catch(() => {});
    try {
      return await mine;
    } finally {
      this.#busy -= 1;
    }
  }

  async #find(at: number, signal: AbortSignal): Promise<Kept> {
    signal.throwIfAborted();
    const kept = this.#kept.get(at);
    if (kept) return kept;
    const fold = await this.#foldFor(at, signal);
    if (fold) {
      await this.#read(fold, at, signal);
      this.#advance(fold, at);
      const folded = this.#kept.get(at);
      if (folded) return folded;
    }
    return this.#ask(at, signal);
  }

  /** The fold that `at` is in or soon behind; undefined if it is too far from any rest. */
  async #foldFor(at: number, signal: AbortSignal): Promise<Fold | undefined> {
    const fold = this.#fold;
    if (fold && at > fold.rest.seq && at - fold.cursor <= PAGE && at - fold.rest.seq <= MOST_EVENTS) {
      if (at < fold.cursor) this.#fold = begin(fold.rest, fold.events);
      return this.#fold;
    }
    const seq = await this.#restBefore(at, signal);
    if (at - seq > MOST_EVENTS) return undefined;
    const rest = this.#rests.get(seq) ?? (await this.#rest(seq, signal));
    remember(this.#rests, seq, rest, MOST_RESTS);
    this.#fold = begin(rest, []);
    return this.#fold;
  }

  /** The last seq before an event at which no run was under way. */
  async #restBefore(at: number, signal: AbortSignal): Promise<number> {
    const { runs } = await this.#source.runs({ at, limit: 2, signal });
    const run = runs.find(({ firstSeq }) => firstSeq <= at);
    return run ? run.firstSeq - 1 : 0;
  }

  async #rest(seq: number, signal: AbortSignal): Promise<Rest> {
    if (seq === 0) return { seq, start: {} };
    const where = { at: seq, epoch: this.#epoch, signal };
    const [page, { state }] = await Promise.all([this.#messages(seq, signal), this.#source.state(where)]);
    return { seq, start: { ...page, state } };
  }

  /** The messages after an event: all of them, unless they are very many. */
  async #messages(at: number, signal: AbortSignal): Promise<ConversationStart & Pick<Kept, "messages">> {
    const where = { at, epoch: this.#epoch, signal };
    const { interrupts, ...newest } = await this.#source.messages(where);
    let { messages, hasMore } = newest;
    for (let page = 1; hasMore && page < MOST_PAGES; page += 1) {
      const [first] = messages;
      const older = await this.#source.messages({ ...where, ...(first && { before: first.id }) });
      if (older.messages.length === 0) break;
      messages = [...older.messages, ...messages];
      hasMore = older.hasMore;
    }
    return { messages, hasMore, interrupts };
  }

  /** Loads the events of a fold up to an event, and some beyond. */
  async #read(fold: Fold, at: number, signal: AbortSignal): Promise<void> {
    const { rest, events } = fold;
    while (rest.seq + events.length < at) {
      const after = rest.seq + events.length;
      const limit = Math.min(PAGE, at + AHEAD - after);
      const page = await this.#source.events({ after, limit, epoch: this.#epoch, signal });
      if (page.events.length === 0) return;
      for (const { event } of page.events) events.push(event);
    }
  }

  /** Folds up to an event, and remembers the last steps. */
  #advance(fold: Fold, at: number): void {
    const { rest, events } = fold;
    if (rest.seq + events.length < at || at < fold.cursor) return;
    const from = Math.max(fold.cursor, at - BEHIND);
    fold.conversation.apply(trusted(events.slice(fold.cursor - rest.seq, from - rest.seq)));
    for (fold.cursor = from; ; fold.cursor += 1) {
      const { conversation, cursor } = fold;
      // The server counts some names from the first event on, and knows messages that are not here.
      if (conversation.isIncomplete || namesAnew(events, cursor - rest.seq)) return;
      const { messages, state } = conversation;
      this.#keep(cursor, { messages, state });
      if (cursor === at) return;
      conversation.apply(trusted([events[cursor - rest.seq]!]));
    }
  }

  /** What the server says. */
  async #ask(at: number, signal: AbortSignal): Promise<Kept> {
    const where = { at, epoch: this.#epoch, signal };
    const [{ messages }, { state }] = await Promise.all([this.#messages(at, signal), this.#source.state(where)]);
    return this.#keep(at, { messages, state });
  }

  #keep(at: number, moment: Kept): Kept {
    const kept = this.#kept.get(at) ?? moment;
    remember(this.#kept, at, kept, MOST_KEPT);
    return kept;
  }
}

/** Events for the fold, which ignores those that are malformed. */
function trusted(events: readonly AnyEvent[]): readonly ThreadEvent[] {
  return events as readonly ThreadEvent[];
}

function begin(rest: Rest, events: AnyEvent[]): Fold {
  return { rest, events, conversation: new Conversation(rest.start), cursor: rest.seq };
}

/** Of each list of events, how far it was looked at, and where the first event is that is named by counting. */
const named = new WeakMap<AnyEvent[], { looked: number; first: number }>();

/** Whether the first `count` of these events have one that has no id, and is named by counting. */
function namesAnew(events: AnyEvent[], count: number): boolean {
  let known = named.get(events);
  if (!known) named.set(events, (known = { looked: 0, first: Infinity }));
  for (; known.looked < count && known.first === Infinity; known.looked += 1) {
    if (/^THINKING_/.test(String(events[known.looked]?.type))) known.first = known.looked;
  }
  return known.first < count;
}

/** Puts something in as the newest, and takes the oldest out where there are too many. */
function remember<T>(all: Map<number, T>, key: number, value: T, most: number): void {
  all.delete(key);
  all.set(key, value);
  for (const oldest of all.keys()) {
    if (all.size <= most) return;
    all.delete(oldest);
  }
}
