// A thread's conversation as AG2B's history: an observable list that follows the log.

import { Conversation } from "../conversation/index.js";
import { newId } from "../ids.js";
import {
  ClosedError,
  type Followed,
  isProblem,
  type Message,
  type ThreadItem,
  type Threadline,
  type ThreadRef,
} from "../index.js";
import { isTerminal, restingSeq } from "../log.js";
import { fromMessages, type Read, toMessages } from "./messages.js";
import { save } from "./save.js";
import type { ChatMessage } from "./types.js";

/**
 * Thrown by `reset` and `restore` while a run is active, since its next events would refer to messages that no longer
 * exist.
 */
export class RunInFlightError extends ClosedError {
  override readonly name = "RunInFlightError";
}

export class ThreadHistory {
  readonly #client: Threadline;
  readonly #thread: ThreadRef;
  readonly #onError: (error: unknown) => void;
  readonly #listeners = new Set<() => void>();
  readonly #ids = new WeakMap<ChatMessage, string>();
  /** Results of the last read, by stored message: unchanged messages stay the same objects. */
  readonly #reads = new WeakMap<Message, Read>();
  #conversation = new Conversation();
  #folded: readonly Message[] | undefined;
  #snapshot: ChatMessage[] = [];
  #followed: Followed | undefined;
  /** The run of the newest events, if it has not ended. */
  #active: string | undefined;
  #saving: Promise<unknown> = Promise.resolve();
  #closed = false;
  /** Why the log is no longer followed. */
  #failure: { readonly error: unknown } | undefined;

  /** Creates the history. `onError` is called when following has ended with an error: afterwards no new messages arrive. */
  constructor(client: Threadline, threadId: string, onError: (error: unknown) => void = () => {}) {
    this.#client = client;
    this.#thread = client.thread(threadId);
    this.#onError = onError;
  }

  /** Loads the messages and follows the log. Resolves when they are loaded; a thread that does not exist is created. */
  async open(agentId?: string): Promise<void> {
    const { threadId } = this.#thread;
    await this.#client.threads.create({ threadId, ...(agentId && { agentId }) });
    await this.#load();
  }

  /** Returns the messages. The same array is returned until a message changes. */
  getSnapshot = (): ChatMessage[] => {
    const messages = this.#conversation.messages;
    if (messages !== this.#folded) {
      this.#folded = messages;
      this.#snapshot = this.#read(messages);
    }
    return this.#snapshot;
  };

  /** Calls a listener after every change; returns a function that removes the listener. */
  subscribe = (listener: () => void): (() => void) => {
    const own = () => listener();
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  };

  /** True if a run is active. */
  get running(): boolean {
    return this.#active !== undefined;
  }

  /** Seq of the last event read. */
  get cursor(): number {
    return this.#followed?.cursor ?? 0;
  }

  /**
   * Removes all messages. Resolves when the log confirms it. The log keeps the removed messages, which can be read with
   * `at`.
   */
  reset(): Promise<void> {
    return this.restore([]);
  }

  /**
   * Replaces all messages. Throws a `RunInFlightError` while a run is active; rejects if the server refuses, and leaves the
   * messages unchanged then.
   */
  restore(messages: readonly ChatMessage[]): Promise<void> {
    if (this.running) throw new RunInFlightError("a run is active in this thread: restore or reset between runs");
    const list = messages.flatMap((message) => toMessages(message, this.idOf(message)));
    const saved = this.#saving.then(() => this.#replace(list));
    this.#saving = saved.catch(() => {});
    return saved;
  }

  /** Returns the id of a message in the thread; generates one for a new message. */
  idOf(message: ChatMessage): string {
    const known = this.#ids.get(message);
    if (known !== undefined) return known;
    const id = newId();
    this.#ids.set(message, id);
    return id;
  }

  /** Assigns an id to a message. */
  name(message: ChatMessage, id: string): void {
    this.#ids.set(message, id);
  }

  /** Stops following the log. */
  close(): void {
    this.#closed = true;
    this.#followed?.close();
  }

  async #load(): Promise<void> {
    const thread = await this.#thread.get();
    const { epoch } = thread;
    const at = restingSeq(thread);
    const { messages } = await this.#client.conversations.get(this.#thread.threadId, { at, epoch });
    if (this.#closed) return;
    this.#conversation = new Conversation({ messages });
    this.#active = undefined;
    this.#followed = this.#thread.follow({
      after: at,
      epoch,
      onItem: (item) => this.#take(item),
      onError: (error) => this.#lost(error),
    });
    this.#tell();
  }

  #take(item: ThreadItem): void {
    if (item.type === "ended") return this.#lost(new ClosedError("the thread was deleted"));
    if (item.type !== "events") return;
    for (const { runId, events } of item.batches) {
      this.#conversation.apply(events);
      const last = events.at(-1);
      this.#active = last && isTerminal(last) ? undefined : runId;
    }
    this.#tell();
  }

  /** The log was replaced, or cannot be followed any more. */
  #lost(error: unknown): void {
    this.#followed?.close();
    if (this.#closed) return;
    const fail = (error: unknown) => {
      this.#failure = { error };
      this.#tell();
      this.#onError(error);
    };
    if (isProblem(error, "log-replaced") || isProblem(error, "cursor-ahead")) this.#load().catch(fail);
    else fail(error);
  }

  async #replace(messages: readonly Message[]): Promise<void> {
    await this.reached(await save(this.#client, this.#thread.threadId, () => messages));
  }

  /** Resolves when the log was read up to this event; rejects if following ends before. */
  reached(seq: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const look = () => {
        if (this.cursor < seq && !this.#closed && !this.#failure) return;
        done();
        if (this.cursor < seq && this.#failure) reject(this.#failure.error);
        else resolve();
      };
      const done = this.subscribe(look);
      look();
    });
  }

  #read(messages: readonly Message[]): ChatMessage[] {
    const read = fromMessages(messages, (from) => {
      const before = this.#reads.get(from.at(-1)!);
      return before?.from.length === from.length && before.from.every((message, index) => message === from[index])
        ? before.message
        : undefined;
    });
    for (const each of read) {
      const last = each.from.at(-1)!;
      this.#reads.set(last, each);
      this.#ids.set(each.message, last.id);
    }
    return read.map(({ message }) => message);
  }

  #tell(): void {
    for (const listener of [...this.#listeners]) listener();
  }
}
