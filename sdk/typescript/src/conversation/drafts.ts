/**
 * Objects that no reader has seen yet, and that stand in one place only: they may be changed in place. Everything else is
 * copied before it is changed. So what a reader has never changes, and a row of small changes does not copy a large object
 * again and again.
 */
export class Drafts {
  #own = new WeakSet<object>();

  /** The value itself if it may be changed, else a copy that may. */
  of<T extends object>(value: T): T {
    if (this.#own.has(value)) return value;
    const copy = (Array.isArray(value) ? [...value] : { ...value }) as T;
    this.#own.add(copy);
    return copy;
  }

  /** The value will stand in two places. What may not be changed has nothing below it that may. */
  share(value: unknown): void {
    if (typeof value !== "object" || value === null || !this.#own.delete(value)) return;
    for (const below of Object.values(value)) this.share(below);
  }

  /** Readers have seen all of it. */
  seal(): void {
    this.#own = new WeakSet();
  }
}
