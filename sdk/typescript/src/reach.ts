// The server's reachability, as far as the requests and connections of a client tell.

import { sleep } from "./backoff.js";
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
export class Trial {
  trouble: Trouble | undefined;
  isSlow = false;
  /** Time of the last failure, and of the beginning of the present attempt. */
  failedAt = 0;
  askedAt = 0;
  timer: ReturnType<typeof setTimeout> | undefined;
  wake: (() => void) | undefined;
}

/**
 * What is known about the server from all requests and connections of a client. A success is any response of the server
 * itself, over any of them.
 */
export class Reach {
  /** Called when `trouble` or `isSlow` may have changed. */
  onChange = () => {};
  /** Called when a call has waited for a while without any success: connections are to be checked. */
  onSilence = () => {};
  /** Called with the first success after a second without any: whoever waits for the next attempt makes it now. */
  onBack = () => {};
  readonly #trials = new Set<Trial>();
  #heardAt = Number.NEGATIVE_INFINITY;

  /** Trouble of the oldest call that is retried, if nothing has succeeded since. */
  get trouble(): Trouble | undefined {
    for (const { trouble, failedAt } of this.#trials) if (trouble && failedAt > this.#heardAt) return trouble;
    return undefined;
  }

  /** True if a call has had no response for `SLOW_MS`, and nothing else has succeeded in that time. */
  get isSlow(): boolean {
    return [...this.#trials].some(({ isSlow }) => isSlow);
  }

  /** Records a success. */
  heard(): void {
    const now = performance.now();
    const wasQuiet = now - this.#heardAt >= SLOW_MS;
    this.#heardAt = now;
    if (this.#trials.size > 0) {
      let isChange = false;
      for (const trial of this.#trials) {
        isChange ||= trial.isSlow || trial.trouble !== undefined;
        if (trial.isSlow) this.#watch(trial);
        if (wasQuiet) trial.wake?.();
      }
      if (isChange) this.onChange();
    }
    if (wasQuiet) this.onBack();
  }

  /**
   * Registers a call. `isPrompt`: the server responds to it at once. Others, such as the append of a complete run, may have to
   * wait for something.
   */
  begin(isPrompt: boolean): {
    /** An attempt begins. */
    asked(): void;
    /** An attempt has failed: with `trouble` if the server is unreachable. */
    failed(trouble: Trouble | undefined): void;
    /** Waits for the next attempt, or less if the server is reachable again. */
    wait(ms: number, signal: AbortSignal): Promise<void>;
    end(): void;
  } {
    const trial = new Trial();
    this.#trials.add(trial);
    const still = () => {
      clearTimeout(trial.timer);
      trial.isSlow = false;
    };
    return {
      asked: () => {
        trial.askedAt = performance.now();
        if (isPrompt) this.#watch(trial);
        if (!trial.trouble) return;
        trial.trouble = { ...trial.trouble, nextRetryAt: null };
        this.onChange();
      },
      failed: (trouble) => {
        const isChange = trial.isSlow || trouble !== undefined || trial.trouble !== undefined;
        still();
        trial.failedAt = performance.now();
        trial.trouble = trouble;
        if (isChange) this.onChange();
      },
      wait: async (ms, signal) => {
        const over = new AbortController();
        trial.wake = () => over.abort();
        signal.addEventListener("abort", trial.wake, { once: true });
        if (signal.aborted) trial.wake();
        await sleep(ms, over.signal).catch(() => {});
        signal.removeEventListener("abort", trial.wake);
        trial.wake = undefined;
        if (signal.aborted) throw signal.reason;
      },
      end: () => {
        const isChange = trial.isSlow || trial.trouble !== undefined;
        still();
        this.#trials.delete(trial);
        if (isChange) this.onChange();
      },
    };
  }

  /** Notices when a call has no response: first the connections are checked, half of the time later the call is slow. */
  #watch(trial: Trial): void {
    clearTimeout(trial.timer);
    trial.isSlow = false;
    let isChecked = false;
    const look = () => {
      const left = SLOW_MS - (performance.now() - Math.max(trial.askedAt, this.#heardAt));
      // Timers may fire a little early.
      if (left > SLOW_MS / 2 + 1) {
        isChecked = false;
        trial.timer = setTimeout(look, left - SLOW_MS / 2);
        return;
      }
      if (left > 1) {
        trial.timer = setTimeout(look, left);
      } else {
        trial.isSlow = true;
        this.onChange();
      }
      if (!isChecked) this.onSilence();
      isChecked = true;
    };
    trial.timer = setTimeout(look, SLOW_MS / 2);
  }
}
