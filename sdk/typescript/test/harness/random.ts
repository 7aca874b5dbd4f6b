/** Random numbers from a seed (mulberry32), which is printed with a failure. */
export class Random {
  readonly seed: number;
  #state: number;

  constructor(seed = Number(process.env["THREADLINE_SEED"] ?? Math.floor(Math.random() * 2 ** 31))) {
    this.seed = seed;
    this.#state = seed;
  }

  /** A number from 0 up to, not including, 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  below(bound: number): number {
    return Math.floor(this.next() * bound);
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)]!;
  }

  list<T>(longest: number, make: (index: number) => T): T[] {
    return Array.from({ length: this.below(longest + 1) }, (_, index) => make(index));
  }

  /** The text in pieces, in order. */
  cut(text: string): string[] {
    const pieces: string[] = [];
    for (let at = 0; at < text.length;) {
      const end = at + 1 + this.below(8);
      pieces.push(text.slice(at, end));
      at = end;
    }
    return pieces;
  }
}
