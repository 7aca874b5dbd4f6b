import { ConnectionError, messageOf } from "../errors.js";
import { HOOKS_PAUSE_MS } from "../limits.js";
import { isAway } from "../reach.js";

/** What the hooks of one history know of their server: after one has waited in vain, the others do not wait for a while. */
export class Availability {
  #lost: unknown;
  #pausedUntil = 0;

  /** Executes requests of a hook; rejects at once during a pause. */
  async use<R>(requests: () => Promise<R>): Promise<R> {
    if (performance.now() < this.#pausedUntil) {
      throw new ConnectionError(`${messageOf(this.#lost)}, and no other request is made for a while`, {
        cause: this.#lost,
      });
    }
    try {
      return await requests();
    } catch (error) {
      // An error that was thrown during a pause does not extend it.
      if (isAway(error) && (error as Error).cause !== this.#lost) {
        this.#lost = error;
        this.#pausedUntil = performance.now() + HOOKS_PAUSE_MS;
      }
      throw error;
    }
  }
}
