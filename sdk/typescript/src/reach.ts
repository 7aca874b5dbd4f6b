// The server's reachability, as far as the requests and connections of a client tell.

import { sleep } from "./backoff.js";
import { ConnectionError, ProblemError, type ThreadlineError } from "./errors.js";
import { SLOW_MS } from "./limits.js";
import { now, throwIfAborted } from "./platform.js";

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
interface Trial {
  /** Time at which the present attempt began, if a response is expected at once. */
  askedAt?: number | undefined;
  trouble?: Trouble | undefined;
  failedAt: number;
  wake?: () => void;
}

/**
 * Knowledge about the server from all requests and connections of a client. A success is any response of the server itself,
 * over any of them.
 */
export class Reach {
  /** Called when `trouble` or `isSlow` may have changed. */
  onChange = () => {};
  /** Called when a call has waited for a while without any success: connections are to be checked. */
  onSilence = () => {};
  /** Called with the first success after a second without any: whoever waits for the next attempt makes it now. */
  onBack = () => {};
  /** True if a call has had no response for `SLOW_MS`, and nothing else has succeeded in that time. */
  isSlow = false;
  readonly #trials = new Set<Trial>();
  #heardAt = Number.NEGATIVE_INFINITY;
  #isChecked = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Trouble of the oldest call that is retried, if nothing has succeeded since. */
  get trouble(): Trouble | undefined {
    for (const { trouble, failedAt } of this.#trials) if (trouble && failedAt > this.#heardAt) return trouble;
    return undefined;
  }

  /** Records a success. */
  heard(): void {
    const heardAt = now();
    const wasQuiet = heardAt - this.#heardAt >= SLOW_MS;
    const isNews = this.isSlow || this.trouble !== undefined;
    this.#heardAt = heardAt;
    if (isNews) this.#look();
    if (!wasQuiet) return;
    for (const { wake } of this.#trials) wake?.();
    this.onBack();
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
    const trial: Trial = { failedAt: 0 };
    this.#trials.add(trial);
    return {
      asked: () => {
        if (isPrompt) trial.askedAt = now();
        trial.trouble &&= { ...trial.trouble, nextRetryAt: null };
        this.#look();
      },
      failed: (trouble) => {
        trial.failedAt = now();
        trial.askedAt = undefined;
        trial.trouble = trouble;
        this.#look();
      },
      wait: async (ms, signal) => {
        const over = new AbortController();
        const stop = (trial.wake = () => over.abort());
        signal.addEventListener("abort", stop, { once: true });
        if (signal.aborted) stop();
        await sleep(ms, over.signal).catch(() => {});
        signal.removeEventListener("abort", stop);
        throwIfAborted(signal);
      },
      end: () => {
        this.#trials.delete(trial);
        this.#look();
      },
    };
  }

  /** Notices when calls have no response: half of the time before they are slow, connections are checked. */
  #look(): void {
    clearTimeout(this.#timer);
    const asked = Math.min(...[...this.#trials].map(({ askedAt = Number.POSITIVE_INFINITY }) => askedAt));
    const left = SLOW_MS - (now() - Math.max(asked, this.#heardAt));
    // Timers may fire a little early.
    const isSilent = left <= SLOW_MS / 2 + 1;
    this.isSlow = left <= 1;
    if (left < Number.POSITIVE_INFINITY && !this.isSlow) {
      this.#timer = setTimeout(() => this.#look(), isSilent ? left : left - SLOW_MS / 2);
    }
    const isDue = isSilent && !this.#isChecked;
    this.#isChecked = isSilent;
    if (isDue) this.onSilence();
    this.onChange();
  }
}
