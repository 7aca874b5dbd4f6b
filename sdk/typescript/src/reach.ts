// The server's reachability, for callers that want to see it before a call has failed.

import { ConnectionError, ProblemError, type ThreadlineError } from "./errors.js";
import { SLOW_MS } from "./limits.js";

/** A call that goes on trying: why, and when the next try is due by the clock of this machine; null while it is under way. */
export interface Trouble {
  readonly error: ThreadlineError;
  readonly nextRetryAt: number | null;
}

/** Whether an error says that the server is away, or not ready. */
export function isAway(error: unknown): boolean {
  return error instanceof ConnectionError || (error instanceof ProblemError && [502, 503, 504].includes(error.status));
}

/** One call, with all of its tries. */
export interface Trial {
  trouble: Trouble | undefined;
  isSlow: boolean;
}

/** The calls of a client that are under way. */
export class Reach {
  /** Called when `trouble` or `isSlow` may have changed. */
  onChange = () => {};
  readonly #trials = new Set<Trial>();

  /** Of the oldest call that goes on trying because the server is away. */
  get trouble(): Trouble | undefined {
    for (const { trouble } of this.#trials) if (trouble) return trouble;
    return undefined;
  }

  /** Whether a read has had no answer for `SLOW_MS`. Writes may have to wait for other runs. */
  get isSlow(): boolean {
    return [...this.#trials].some(({ isSlow }) => isSlow);
  }

  /** A call begins. `set` tells how it goes, `end` that it is over. */
  begin(isRead: boolean): { set(trouble: Trouble | undefined): void; end(): void } {
    const trial: Trial = { trouble: undefined, isSlow: false };
    this.#trials.add(trial);
    const slow = () => {
      trial.isSlow = true;
      this.onChange();
    };
    const timer = isRead ? setTimeout(slow, SLOW_MS) : undefined;
    return {
      set: (trouble) => {
        if (!trouble && !trial.trouble) return;
        trial.trouble = trouble;
        this.onChange();
      },
      end: () => {
        clearTimeout(timer);
        this.#trials.delete(trial);
        if (trial.trouble || trial.isSlow) this.onChange();
      },
    };
  }
}
