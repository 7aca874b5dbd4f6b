/**
 * Objects that no reader has seen yet, and that are referenced only once, so that they may be changed in place. All other
 * objects are copied before a change. Results of earlier reads thus never change, and a series of small changes does not
 * copy a large object repeatedly.
 */
export class Drafts {
  #own = new WeakSet<object>();

  /** Returns the value itself if it may be changed, else a copy that may. */
  of<T extends object>(value: T): T {
    if (this.#own.has(value)) return value;
    const copy = (Array.isArray(value) ? [...value] : { ...value }) as T;
    this.#own.add(copy);
    return copy;
  }

  /** Marks a value that will be referenced twice. An immutable value contains no mutable one. */
  share(value: unknown): void {
    if (typeof value !== "object" || value === null || !this.#own.delete(value)) return;
    for (const below of Object.values(value)) this.share(below);
  }

  /** Makes all drafts immutable, since readers have seen them. */
  seal(): void {
    this.#own = new WeakSet();
  }
}
