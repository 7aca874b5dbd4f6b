// The server's reachability, for callers that need it before a call has failed.

import { ConnectionError, ProblemError, type ThreadlineError } from "./errors.js";
import { SLOW_MS } from "./limits.js";

/**
 * A call that is being retried: the error, and the time of the next attempt by the clock of this machine; null during an
 * attempt.
 */
export interface Trouble {
  readonly error: ThreadlineError;
  readonly nextRetryAt: number | null;
}

/** True if an error means that the server is unreachable or not ready. */
export function isAway(error: unknown): boolean {
  return error instanceof ConnectionError || (error instanceof ProblemError && [502, 503, 504].includes(error.status));
}

/** One call, with all of its attempts. */
export interface Trial {
  trouble: Trouble | undefined;
  isSlow: boolean;
}

/** The pending calls of a client. */
export class Reach {
  /** Called when `trouble` or `isSlow` may have changed. */
  onChange = () => {};
  readonly #trials = new Set<Trial>();

  /** Trouble of the oldest call that is retried because the server is unreachable. */
  get trouble(): Trouble | undefined {
    for (const { trouble } of this.#trials) if (trouble) return trouble;
    return undefined;
  }

  /** True if a read has had no response for `SLOW_MS`. Writes may have to wait for other runs. */
  get isSlow(): boolean {
    return [...this.#trials].some(({ isSlow }) => isSlow);
  }

  /** Registers a call. `set` reports its trouble, `end` its completion. */
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
