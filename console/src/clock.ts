// The server's time. What the server says began or ends at a moment of its own clock, and a browser's clock may be hours off: every
// answer says when it was given, to the second, and so within which bounds the two clocks differ. Each answer narrows them.

/** What the server's `Date` leaves out. */
const SECOND_MS = 1_000;

export class ServerClock {
  readonly #local: () => number;
  readonly #listeners = new Set<() => void>();
  /** What has to be added to the local time is between these. */
  #least = Number.NEGATIVE_INFINITY;
  #most = Number.POSITIVE_INFINITY;
  #offset = 0;

  constructor(local: () => number = Date.now) {
    this.#local = local;
  }

  /** The server's time, as well as it is known; the local one until it has spoken. */
  readonly now = (): number => this.#local() + this.#offset;

  /** Calls when the clock has been put right, or the browser's was changed; gives what ends that. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** A `fetch` that hears when answers were given. */
  hearing(send: typeof fetch): typeof fetch {
    return async (input, init) => {
      const asked = this.#local();
      const response = await send(input, init);
      // Absent where another origin does not show it.
      this.hear(Date.parse(response.headers.get("Date") ?? ""), asked, this.#local());
      return response;
    };
  }

  /** An answer was given at `date`, between the local times at which it was asked for and came. */
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
    // A clock that may be right is taken to be right.
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
