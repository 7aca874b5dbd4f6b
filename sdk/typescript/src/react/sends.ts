import type { Threadline } from "../client.js";
import { ConfigError, isProblem } from "../errors.js";
import { newId } from "../ids.js";
import type { RunInput } from "../runs.js";
import type { ThreadRef } from "../threads.js";
import type { Message, PlacedTurn, Run, StartedRun, Thread } from "../types.js";
import { runInput, type SendInput } from "./input.js";
import { leaveOutbox, Outbox, outboxOf, type Sent, type StartHow } from "./outbox.js";
import type { LiveQueue } from "./queue.js";
import type { Replay } from "./replay.js";
import { EMPTY_THREAD, type Kept, type SendOptions, type ShownMessage } from "./snapshot.js";

/** Parts of a thread's store that its requests use. */
export interface SendsOwner {
  /** Carries out a task of the user. */
  readonly act: <T>(task: () => Promise<T>) => Promise<T>;
  /** Publishes a change at once. */
  readonly publish: () => void;
  /** The thread's record, if it is loaded. */
  readonly thread: () => Thread | null;
  readonly replay: () => Replay | undefined;
  /** The messages of the log that are shown. */
  readonly logged: () => readonly Message[];
  /** The server has begun a run. */
  readonly onBegun: (run: Run) => void;
  readonly queue: LiveQueue;
  /** The input, with the tools of the page. */
  readonly offer: (input: RunInput) => RunInput;
  /** A request has been answered. */
  readonly onAnswer: () => void;
}

/** Starts runs in one thread, and shows the messages on their way. */
export class Sends {
  readonly #client: Threadline;
  readonly #ref: ThreadRef;
  readonly #owner: SendsOwner;
  #outbox = new Outbox();

  constructor(client: Threadline, ref: ThreadRef, owner: SendsOwner) {
    this.#client = client;
    this.#ref = ref;
    this.#owner = owner;
  }

  get isSending(): boolean {
    return this.#outbox.isSending;
  }

  /** The branch that is about to begin this one as a fork; undefined if this one exists. */
  get bud(): Kept | undefined {
    return this.#outbox.bud;
  }

  /** Settles when the requests so far have been answered. */
  get answered(): Promise<unknown> {
    return this.#outbox.answered;
  }

  /** The thread is shown: takes over what another store has left. */
  open(): void {
    this.#outbox = outboxOf(this.#client, this.#ref.threadId);
    this.#outbox.join({ perform: (sent) => this.#perform(sent), onChange: this.#owner.publish });
  }

  close(): void {
    leaveOutbox(this.#client, this.#ref.threadId);
  }

  /** Starts a run. */
  send(input: SendInput, how: StartHow): Promise<StartedRun | PlacedTurn> {
    return this.#owner.act(async () => {
      const sent = { runId: newId(), input: runInput(input), how };
      return this.#outbox.send(sent, this.#owner.logged());
    });
  }

  /** Makes the request of a failed message again. */
  retry(messageId: string): Promise<StartedRun | PlacedTurn> {
    return this.#owner.act(() => this.#outbox.retry(messageId));
  }

  /** Removes a failed message. */
  discard(messageId: string): void {
    this.#outbox.discard(messageId);
  }

  /** The thread was deleted. */
  clear(): void {
    this.#outbox.clear();
  }

  /** Returns the messages to show: those of the log, and those that neither the log nor the queue shows. */
  over(messages: readonly Message[]): readonly ShownMessage[] {
    this.#settle();
    return this.#outbox.over(messages);
  }

  /** Everything in the log is known. */
  caughtUp({ epoch }: Replay): void {
    this.#settle();
    this.#outbox.caughtUp(epoch);
  }

  /** The thread's record at the server; undefined if the thread does not exist. */
  async existing(): Promise<Thread | undefined> {
    try {
      return await this.#ref.get();
    } catch (error) {
      if (isProblem(error, "thread-not-found")) return undefined;
      throw error;
    }
  }

  #settle(): void {
    const replay = this.#owner.replay();
    this.#outbox.settle({
      messages: replay?.conversation.messages ?? EMPTY_THREAD.messages,
      at: replay && { cursor: replay.cursor, epoch: replay.epoch },
      queued: this.#owner.queue.shown.items.map(({ runId }) => runId),
    });
  }

  async #perform({ runId, input, how }: Sent): Promise<StartedRun | PlacedTurn> {
    const answer = await (how.origin ? this.#fork(runId, input, how.origin, how) : this.#start(runId, input, how));
    if (!answer.run) await this.#placed(runId);
    else this.#owner.onBegun(answer.run);
    this.#owner.onAnswer();
    return answer;
  }

  /** Starts the run that begins this thread, as a fork of another one. The tools of the page are in the input. */
  async #fork(runId: string, input: RunInput, origin: Kept, how: StartHow): Promise<StartedRun | PlacedTurn> {
    await origin.ready;
    const agentId = await this.#agent(how);
    return this.#client.thread(origin.threadId).start({ runId, agentId, input, ...(how.fork && { fork: how.fork }) });
  }

  /** Starts a run, and creates the thread before it if necessary. */
  async #start(runId: string, given: RunInput, how: StartHow): Promise<StartedRun | PlacedTurn> {
    if (this.bud) throw new ConfigError("the branch has not begun: retry its first message");
    const { busy, claims } = how;
    const input = this.#owner.offer(given);
    const agentId = await this.#agent(how);
    const run = { runId, agentId, input, ...(busy && { busy }), ...(claims && { claims }) };
    try {
      return await this.#ref.start(run);
    } catch (error) {
      if (!isProblem(error, "thread-not-found")) throw error;
    }
    await this.#client.threads.create({ threadId: this.#ref.threadId, agentId });
    return this.#ref.start(run);
  }

  /** The agent of a new run. */
  async #agent({ agentId }: SendOptions): Promise<string> {
    agentId ??= this.#owner.thread()?.agentId ?? (await this.existing())?.agentId ?? undefined;
    if (agentId === undefined) throw new ConfigError("agentId is missing, and the thread has no agent of its own");
    return agentId;
  }

  /** A turn was queued: the queue shows its messages, or the log, if its run has begun meanwhile. */
  async #placed(runId: string): Promise<void> {
    await this.#owner.queue.refresh();
    if (this.#owner.queue.shown.items.some((turn) => turn.runId === runId)) return;
    const record = await this.#ref.runRecord(runId).catch(() => undefined);
    const replay = this.#owner.replay();
    if (!record || !replay) return this.#outbox.drop(runId);
    if (record.status !== "queued") replay.began(record);
    const seq = record.status === "queued" ? Number.POSITIVE_INFINITY : record.firstSeq;
    this.#outbox.landed(runId, { seq, epoch: replay.epoch });
  }
}
