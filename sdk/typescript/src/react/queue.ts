import { isProblem } from "../errors.js";
import type { ThreadRef } from "../threads.js";
import type { Hold, Queue, QueuedTurn, QueueState, Run, Thread } from "../types.js";
import { runInput, type SendInput } from "./input.js";
import { FOR_EVER, patiently } from "./replay.js";

/** A turn, as a thread shows it. */
export interface ShownTurn extends QueuedTurn {
  /** True if its run has begun, and its messages are not in the log yet: it cannot be changed any more. */
  readonly hasBegun: boolean;
}

/** Snapshot of a queue. */
export interface QueueSnapshot {
  /** A number that grows with every change of the queue. */
  readonly version: number;
  /** Reason for which the queue rests until it is released; null if it does not. A queue also rests while interrupts are open. */
  readonly held: Hold | null;
  /** The turns, the next one first. A turn stays until the messages of its run are shown. */
  readonly items: readonly ShownTurn[];
}

export const EMPTY_QUEUE: QueueSnapshot = { version: 0, held: null, items: [] };

/** Parts of a thread's store that its queue uses. */
export interface QueueOwner {
  /** Aborted when another replay takes the place of the present one. */
  readonly signal: () => AbortSignal;
  /** Seq of the newest event that is shown. */
  readonly cursor: () => number;
  readonly onChange: () => void;
  /** The run of a turn has begun, which the log does not show yet. */
  readonly onBegun: (run: Run) => void;
  /** Carries out a task of the user. */
  readonly act: <T>(task: () => Promise<T>) => Promise<T>;
}

/**
 * The queue of a thread, read again whenever followers or the feed tell of a change. Changes resolve when they are shown, and
 * reject if the server refuses them (`turn-begun`, `turn-not-found`).
 */
export class LiveQueue {
  readonly #ref: ThreadRef;
  readonly #owner: QueueOwner;
  #queue: Queue | undefined;
  #shown = EMPTY_QUEUE;
  /** Turns that are in the queue no more, and perhaps not in the log yet. */
  #leaving: readonly ShownTurn[] = [];
  /** The newest run with events in the log. */
  #logged: string | undefined;
  #loading: { readonly signal: AbortSignal; readonly done: Promise<void> } | undefined;
  /** True if the queue has changed since the last read began. */
  #isStale = false;

  constructor(ref: ThreadRef, owner: QueueOwner) {
    this.#ref = ref;
    this.#owner = owner;
  }

  /** The same object is returned until the queue changes. */
  get shown(): QueueSnapshot {
    return this.#shown;
  }

  /** Replaces the messages of a turn. */
  readonly edit = (runId: string, input: SendInput): Promise<void> => {
    return this.#change(() => this.#ref.queue.edit(runId, { input: runInput(input) }));
  };

  /** Moves a turn before another one; to the end if `before` is null. */
  readonly move = (runId: string, before: string | null): Promise<void> => {
    return this.#change(() => this.#ref.queue.edit(runId, { before }));
  };

  /** Removes a turn. */
  readonly remove = (runId: string): Promise<void> => {
    return this.#owner.act(async () => {
      await this.#ref.queue.remove(runId);
      const others = <T extends QueuedTurn>(turns: readonly T[]) => turns.filter((turn) => turn.runId !== runId);
      this.#queue &&= { ...this.#queue, items: others(this.#queue.items) };
      this.#leaving = others(this.#leaving);
      this.#show();
      void this.load();
    });
  };

  /** Begins a turn as soon as possible, and stops the active run. */
  readonly start = (runId: string): Promise<void> => {
    return this.#change(() =>
      this.#ref.queue.start(runId).catch((error: unknown) => {
        if (!isProblem(error, "turn-begun")) throw error;
        return this.#ref.queue.get();
      }),
    );
  };

  /** Holds the queue until it is released. */
  readonly hold = (): Promise<void> => this.#change(() => this.#ref.queue.hold());

  /** Releases the queue, whatever holds it. */
  readonly release = (): Promise<void> => this.#change(() => this.#ref.queue.release());

  /** Handles the state of the queue that a follower receives. */
  hear({ epoch, version, queued, held }: QueueState): void {
    if (this.#queue?.epoch === epoch && version <= this.#queue.version) return;
    if (queued > 0) void this.load();
    else this.#take({ threadId: this.#ref.threadId, epoch, version, held, items: [] });
  }

  /**
   * Handles the record of the thread, which has no version. Records matter where a follower is not told of the queue: over long-polls.
   */
  hearThread({ queued, held, activeRun }: Thread, isTold: boolean): void {
    const { items = [], held: known = null } = this.#queue ?? {};
    const isKnown = items.length === queued && known === held;
    if (!isKnown || (!isTold && queued > 0)) void this.load();
    for (const { runId } of this.#leaving) if (runId !== activeRun?.runId) void this.#look(runId);
  }

  /** The connection was lost and is live again. Long-polls do not tell of a queue that is empty by now. */
  reconnected(): void {
    if (this.#shown.items.length > 0 || this.#shown.held !== null) void this.load();
  }

  /** Handles the newest run with events in the log: its messages are shown, and its turn is not. */
  logged(runId: string | undefined): void {
    this.#logged = runId;
    if (this.#shown.items.some((turn) => turn.runId === runId)) this.#show();
  }

  /** Reads the queue; once more if it is being read already. Never rejects. */
  load(): Promise<void> {
    this.#isStale = true;
    const signal = this.#owner.signal();
    if (this.#loading?.signal !== signal) this.#loading = { signal, done: this.#loadWhileStale(signal) };
    return this.#loading.done;
  }

  /** Reads the queue for a turn that was queued just now. Gives up when an ordinary read would. Never rejects. */
  async refresh(): Promise<void> {
    const signal = this.#owner.signal();
    try {
      const queue = await this.#ref.queue.get({ signal });
      if (!signal.aborted) this.#take(queue);
    } catch {
      void this.load();
    }
  }

  /** Forgets everything, since another replay begins. */
  reset(): void {
    this.#queue = this.#logged = undefined;
    this.#leaving = [];
    this.#shown = EMPTY_QUEUE;
  }

  #change(change: () => Promise<Queue>): Promise<void> {
    return this.#owner.act(async () => this.#take(await change()));
  }

  async #loadWhileStale(signal: AbortSignal): Promise<void> {
    try {
      while (this.#isStale) {
        this.#isStale = false;
        const queue = await patiently(() => this.#ref.queue.get({ signal, ...FOR_EVER }), signal);
        if (!signal.aborted) this.#take(queue);
      }
    } catch {
      // A refusal: what the thread itself gets says why.
    } finally {
      if (this.#loading?.signal === signal) this.#loading = undefined;
    }
  }

  #take(queue: Queue): void {
    const before = this.#queue;
    if (before?.epoch === queue.epoch && queue.version <= before.version) return;
    this.#queue = queue;
    const gone = (before?.items ?? []).filter((turn) => !queue.items.some(({ runId }) => runId === turn.runId));
    this.#leaving = [...this.#leaving, ...gone.map((turn) => ({ ...turn, hasBegun: false }))];
    this.#show();
    for (const { runId } of gone) void this.#look(runId);
  }

  /** Finds out whether a turn that has left the queue has become a run that the log does not show yet. */
  async #look(runId: string): Promise<void> {
    const signal = this.#owner.signal();
    let run: Run | undefined;
    try {
      const record = await patiently(() => this.#ref.runRecord(runId, { signal, ...FOR_EVER }), signal);
      if (record.status !== "queued" && record.endedAt === null) run = record;
    } catch {
      // The turn was removed.
    }
    if (signal.aborted) return;
    const hasBegun = run !== undefined && run.firstSeq > this.#owner.cursor();
    if (run && hasBegun) this.#owner.onBegun(run);
    this.#leaving = this.#leaving.flatMap((turn) => {
      if (turn.runId !== runId) return [turn];
      return hasBegun ? [{ ...turn, hasBegun }] : [];
    });
    this.#show();
  }

  #show(): void {
    const { version, held, items: queued } = this.#queue ?? { ...EMPTY_QUEUE, items: [] };
    const isShown = ({ runId }: QueuedTurn) => runId !== this.#logged;
    this.#leaving = this.#leaving.filter(isShown);
    const items = [...this.#leaving, ...queued.filter(isShown).map((turn) => ({ ...turn, hasBegun: false }))];
    this.#shown = { version, held, items };
    this.#owner.onChange();
  }
}
