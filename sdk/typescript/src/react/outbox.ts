import { ConfigError, ConnectionError, type ThreadlineError, TimeoutError } from "../errors.js";
import { ANSWER_MS } from "../limits.js";
import type { RunFork, RunInput, ToolClaim } from "../runs.js";
import type { Message, PlacedTurn, StartedRun } from "../types.js";
import type { Kept, ShownMessage, TurnOptions } from "./snapshot.js";

/** Options of a start: the fork that the run begins, if it does, and the claims that its results fulfil. */
export interface StartHow extends TurnOptions {
  readonly fork?: RunFork | undefined;
  /** The branch that is forked. */
  readonly origin?: Kept | undefined;
  readonly claims?: readonly ToolClaim[] | undefined;
}

/** A request for a run, with all ids made: it can be repeated. */
export interface Sent {
  readonly runId: string;
  readonly input: RunInput;
  readonly how: StartHow;
}

type Answer = StartedRun | PlacedTurn;

/** The store that shows an outbox. */
export interface OutboxOwner {
  /** Makes a request, and handles its answer. */
  readonly perform: (sent: Sent) => Promise<Answer>;
  readonly onChange: () => void;
}

/** The part of a thread that its store has received. */
export interface Received {
  readonly messages: readonly Message[];
  /** Seq of the newest event, and its epoch; undefined if nothing is loaded. */
  readonly at: { readonly cursor: number; readonly epoch: string } | undefined;
  /** Ids of the runs whose turns the queue shows. */
  readonly queued: readonly string[];
}

interface Entry extends Sent {
  /** The messages of the user, as they are shown. */
  messages: readonly ShownMessage[];
  /** `answered`: the server has accepted the request, and the log is about to show the messages. */
  state: "sending" | "answered" | "failed";
  /** The first event of the run, which is that with the messages, if the answer says so. */
  landed: { readonly seq: number; readonly epoch: string } | undefined;
  attempt: number;
  timer: ReturnType<typeof setTimeout> | undefined;
}

/**
 * Requests of a page that are not in the log of a thread yet, with the messages of the user in them. A message is shown here or
 * from the log, never both: the log wins.
 */
export class Outbox {
  #owner: OutboxOwner | undefined;
  #entries: readonly Entry[] = [];
  /** Settles after the last request: requests are made one after the other, so that messages keep their order. */
  #last: Promise<unknown> = Promise.resolve();
  /** The last result of `over`, and what it was made of. */
  #shown: { readonly messages: readonly Message[]; readonly all: readonly ShownMessage[] } | undefined;

  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  /** True while a request has not been answered. */
  get isSending(): boolean {
    return this.#entries.some(({ state }) => state === "sending");
  }

  /** The branch that a request forks in order to begin this thread; undefined if there is no such request, or it was answered. */
  get bud(): Kept | undefined {
    return this.#entries.find(({ how, state }) => how.origin && state !== "answered")?.how.origin;
  }

  /** Settles when the requests so far have been answered. */
  get answered(): Promise<unknown> {
    return this.#last;
  }

  /** The store that shows the outbox from now on. */
  join(owner: OutboxOwner): void {
    this.#owner = owner;
  }

  /** Shows the messages of a request, and makes it. Settles like the request. */
  send(sent: Sent, shown: readonly Message[]): Promise<Answer> {
    const known = new Set(shown.map(({ id }) => id));
    // A complete input repeats messages of the log.
    const messages = ((sent.input.messages ?? []) as readonly Message[]).filter(
      ({ role, id }) => role === "user" && !known.has(id),
    );
    const entry: Entry = { ...sent, messages, state: "sending", landed: undefined, attempt: 0, timer: undefined };
    this.#entries = [...this.#entries, entry];
    return this.#make(entry);
  }

  /** Makes the request of a failed message again. */
  async retry(messageId: string): Promise<Answer> {
    return this.#make(this.#failed(messageId));
  }

  /** Removes a failed message, and what was sent with it. */
  discard(messageId: string): void {
    this.#drop(this.#failed(messageId));
  }

  /** The server has accepted a request whose run begins with this event. */
  landed(runId: string, landed: { readonly seq: number; readonly epoch: string }): void {
    for (const entry of this.#entries) if (entry.runId === runId) entry.landed = landed;
  }

  /** Forgets a request whose messages will not come. */
  drop(runId: string): void {
    for (const entry of this.#entries) if (entry.runId === runId) this.#drop(entry);
  }

  /** Forgets everything. */
  clear(): void {
    for (const entry of this.#entries) this.#drop(entry);
  }

  /** Removes what the log or the queue shows. */
  settle({ messages, at, queued }: Received): void {
    if (this.isEmpty) return;
    const ids = new Set(messages.map(({ id }) => id));
    const left = this.#entries.filter(({ runId, landed, messages, timer }) => {
      const isReached = landed !== undefined && at?.epoch === landed.epoch && at.cursor >= landed.seq;
      const isShown = isReached || queued.includes(runId) || messages.some(({ id }) => ids.has(id));
      if (!isShown) return true;
      clearTimeout(timer);
      return false;
    });
    if (left.length === this.#entries.length) return;
    this.#entries = left;
    this.#shown = undefined;
  }

  /** Everything in the log of this epoch is known: what was accepted in another one is lost. */
  caughtUp(epoch: string): void {
    for (const entry of this.#entries) {
      if (entry.state !== "answered" || entry.landed?.epoch === epoch) continue;
      this.#fail(entry, new ConnectionError("the server has lost the message"));
    }
  }

  /** Returns the messages of the log, and those on their way. The same array is returned until one of them changes. */
  over(messages: readonly Message[]): readonly ShownMessage[] {
    if (this.#shown?.messages === messages) return this.#shown.all;
    const waiting = this.#entries.flatMap((entry) => entry.messages);
    const all = waiting.length === 0 ? messages : [...messages, ...waiting];
    this.#shown = { messages, all };
    return all;
  }

  #failed(messageId: string): Entry {
    const entry = this.#entries.find(
      ({ state, messages }) => state === "failed" && messages.some(({ id }) => id === messageId),
    );
    if (!entry) throw new ConfigError(`no message ${JSON.stringify(messageId)} has failed`);
    return entry;
  }

  async #make(entry: Entry): Promise<Answer> {
    const attempt = (entry.attempt += 1);
    const isNow = () => this.#entries.includes(entry);
    this.#set(entry, "sending");
    // A regeneration shows no message that could be sent again: only its refusal leads back.
    if (entry.messages.length > 0)
      entry.timer = setTimeout(() => {
        this.#fail(entry, lateness());
      }, ANSWER_MS);
    try {
      const request = this.#last.then(() => this.#perform(entry, attempt));
      this.#last = request.catch(() => {});
      const answer = await request;
      if (!isNow()) return answer;
      if (entry.messages.length === 0) this.#drop(entry);
      else {
        if (answer.run) entry.landed ??= { seq: answer.run.firstSeq, epoch: answer.epoch };
        this.#set(entry, "answered");
      }
      return answer;
    } catch (error) {
      if (isNow() && entry.attempt === attempt && entry.state !== "answered")
        this.#fail(entry, error as ThreadlineError);
      throw error;
    }
  }

  async #perform(entry: Entry, attempt: number): Promise<Answer> {
    if (!this.#owner) throw new ConfigError("the thread is not shown");
    // The message has failed while it waited for its turn, and perhaps the user has discarded it.
    if (entry.state !== "sending" || entry.attempt !== attempt) throw lateness();
    return this.#owner.perform(entry);
  }

  #fail(entry: Entry, error: ThreadlineError): void {
    // A request without messages shows nothing.
    if (entry.messages.length === 0) this.#drop(entry);
    else this.#set(entry, "failed", error);
  }

  #set(entry: Entry, state: Entry["state"], deliveryError?: ThreadlineError): void {
    clearTimeout(entry.timer);
    entry.state = state;
    const delivery = state === "failed" ? "failed" : "sending";
    entry.messages = entry.messages.map(({ deliveryError: _, ...message }) => ({
      ...(message as Message),
      delivery,
      ...(deliveryError && { deliveryError }),
    }));
    this.#changed();
  }

  #drop(entry: Entry): void {
    clearTimeout(entry.timer);
    this.#entries = this.#entries.filter((other) => other !== entry);
    this.#changed();
  }

  #changed(): void {
    this.#shown = undefined;
    this.#owner?.onChange();
  }
}

function lateness(): TimeoutError {
  return new TimeoutError("the server has not answered in time; the message may still arrive");
}

/** The outboxes of each client, by thread: a failed message stays while its thread is not shown. */
const OUTBOXES = new WeakMap<object, Map<string, Outbox>>();

/** The outbox of a thread. */
export function outboxOf(client: object, threadId: string): Outbox {
  let all = OUTBOXES.get(client);
  if (!all) OUTBOXES.set(client, (all = new Map()));
  let outbox = all.get(threadId);
  if (!outbox) all.set(threadId, (outbox = new Outbox()));
  return outbox;
}

/** True if a thread is yet to begin, as a fork. */
export function isBud(client: object, threadId: string): boolean {
  return OUTBOXES.get(client)?.get(threadId)?.bud !== undefined;
}

/** A thread is no longer shown: an empty outbox is forgotten. */
export function leaveOutbox(client: object, threadId: string): void {
  const all = OUTBOXES.get(client);
  if (all?.get(threadId)?.isEmpty) all.delete(threadId);
}
