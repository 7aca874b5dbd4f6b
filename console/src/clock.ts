// The server's time. The times in responses are those of the server's clock, and a browser's clock may be hours off. The `Date` of
// every response, in whole seconds, bounds the difference between the two clocks. Each response narrows the bounds.

/** Precision of the server's `Date`, in milliseconds. */
const SECOND_MS = 1_000;

export class ServerClock {
  readonly #local: () => number;
  readonly #listeners = new Set<() => void>();
  /** Bounds of the offset from the local time, in milliseconds. */
  #least = Number.NEGATIVE_INFINITY;
  #most = Number.POSITIVE_INFINITY;
  #offset = 0;

  constructor(local: () => number = Date.now) {
    this.#local = local;
  }

  /** The server's time, as precisely as it is known; the local time before the first response. */
  readonly now = (): number => this.#local() + this.#offset;

  /** Calls `listener` when the clock was corrected, or the browser's clock was changed. Returns a function that unsubscribes. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** A `fetch` that reads the `Date` of every response. */
  hearing(send: typeof fetch): typeof fetch {
    return async (input, init) => {
      const asked = this.#local();
      const response = await send(input, init);
      // Absent where another origin does not show it.
      this.hear(Date.parse(response.headers.get("Date") ?? ""), asked, this.#local());
      return response;
    };
  }

  /** Takes a response's `date`, and the local times of its request and arrival. */
  hear(date: number, asked: number, came: number): void {
    // Clocks were changed meanwhile.
    if (Number.isNaN(date) || came < asked) return;
    const [least, most] = [date - came, date + SECOND_MS - asked];
    const isOther = least > this.#most || most < this.#least;
    this.#least = isOther ? least : Math.max(least, this.#least);
    this.#most = isOther ? most : Math.min(most, this.#most);
    this.#put();
  }

  #put(): void {
    // A clock within the bounds is treated as right.
    const isRight = this.#least <= 0 && this.#most >= 0;
    const isKnown = this.#offset >= this.#least && this.#offset <= this.#most;
    const offset = isRight ? 0 : isKnown ? this.#offset : (this.#least + this.#most) / 2;
    if (offset === this.#offset) return;
    this.#offset = offset;
    for (const listener of this.#listeners) listener();
  }
}

/** The clock of the server that the console belongs to. */
export const serverClock = new ServerClock();
