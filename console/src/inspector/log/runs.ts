// The runs of a thread, newest first: loaded up to a bound when they are shown, further on demand, and loaded again when one
// begins or ends.

import type { Run, ThreadRef } from "threadline";

/** Runs of one request. */
const PAGE = 500;
/** Runs that are loaded without being asked for. */
const FIRST_RUNS = 2_000;
/** Runs that are looked at again after a change. */
const NEWEST = 20;

export interface RunsSnapshot {
  /** Newest first. */
  readonly runs: readonly Run[];
  readonly isLoading: boolean;
  /** There are older ones. */
  readonly hasMore: boolean;
  readonly error: unknown;
}

export class RunList {
  readonly #ref: ThreadRef;
  readonly #listeners = new Set<() => void>();
  readonly #over = new AbortController();
  #byId = new Map<string, Run>();
  #cursor: string | null = null;
  #snapshot: RunsSnapshot = { runs: [], isLoading: true, hasMore: false, error: null };
  #looking: Promise<void> | undefined;
  #isChanged = false;

  constructor(ref: ThreadRef) {
    this.#ref = ref;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly getSnapshot = (): RunsSnapshot => this.#snapshot;

  get(runId: string): Run | undefined {
    return this.#byId.get(runId);
  }

  /** Loads the newest runs. */
  async open(): Promise<void> {
    await this.#loadTo(FIRST_RUNS, undefined);
  }

  /** Loads older runs. */
  readonly more = async (): Promise<void> => {
    if (this.#cursor === null || this.#snapshot.isLoading) return;
    await this.#loadTo(this.#byId.size + PAGE, this.#cursor);
  };

  /** A run has begun, ended or been asked to stop: looks again. */
  readonly refresh = (): Promise<void> => {
    this.#isChanged = true;
    this.#looking ??= this.#look().finally(() => (this.#looking = undefined));
    return this.#looking;
  };

  /** Takes in what an answer says of a run. */
  take(run: Run): void {
    this.#merge([run]);
    this.#publish({});
  }

  close(): void {
    this.#over.abort();
  }

  async #loadTo(most: number, from: string | undefined): Promise<void> {
    const { signal } = this.#over;
    this.#publish({ isLoading: true });
    try {
      let cursor = from;
      do {
        const page = await this.#ref.runs({ limit: PAGE, signal, ...(cursor !== undefined && { cursor }) });
        this.#merge(page.runs);
        this.#cursor = page.nextCursor;
        cursor = page.nextCursor ?? undefined;
        this.#publish({ hasMore: cursor !== undefined, error: null });
      } while (cursor !== undefined && this.#byId.size < most);
      this.#publish({ isLoading: false });
    } catch (error) {
      if (!signal.aborted) this.#publish({ isLoading: false, error });
    }
  }

  async #look(): Promise<void> {
    const { signal } = this.#over;
    try {
      while (this.#isChanged && !signal.aborted) {
        this.#isChanged = false;
        const { runs, nextCursor } = await this.#ref.runs({ limit: NEWEST, signal });
        const isGap = runs.length > 0 && nextCursor !== null && !runs.some(({ runId }) => this.#byId.has(runId));
        this.#merge(runs);
        this.#publish({ error: null });
        // More have come than were looked at.
        if (isGap && !this.#snapshot.isLoading) await this.#loadTo(FIRST_RUNS, undefined);
      }
    } catch (error) {
      if (!signal.aborted) this.#publish({ error });
    }
  }

  #merge(runs: readonly Run[]): void {
    for (const run of runs) this.#byId.set(run.runId, run);
  }

  #publish(change: Partial<RunsSnapshot>): void {
    const runs = [...this.#byId.values()].sort(newestFirst);
    this.#snapshot = { ...this.#snapshot, ...change, runs };
    for (const listener of this.#listeners) listener();
  }
}

function newestFirst(one: Run, other: Run): number {
  if (one.firstSeq !== other.firstSeq) return other.firstSeq - one.firstSeq;
  // Of those without events, which share their seq with the next one.
  return one.startedAt < other.startedAt ? 1 : -1;
}
