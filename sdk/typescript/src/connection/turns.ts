import { reasonOf } from "../platform.js";

/** A place of a request among the concurrent ones. */
export interface Place {
  /** Called when other requests start to wait. */
  onCrowded: () => void;
  leave(): void;
}

/** Grants a bounded number of places in the order of the requests, so that every request has a turn. */
export class Turns {
  readonly #places: number;
  readonly #taken = new Set<Place>();
  readonly #queue = new Set<(place: Place) => void>();

  constructor(places: number) {
    this.#places = places;
  }

  /** True if a request is waiting. */
  get crowded(): boolean {
    return this.#queue.size > 0;
  }

  /** Resolves to a place as soon as one is free; rejects with the signal's reason. */
  take(signal: AbortSignal): Promise<Place> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(reasonOf(signal));
      if (this.#taken.size < this.#places) return resolve(this.#place());
      const give = (place: Place) => {
        signal.removeEventListener("abort", stop);
        resolve(place);
      };
      const stop = () => {
        this.#queue.delete(give);
        reject(reasonOf(signal));
      };
      signal.addEventListener("abort", stop, { once: true });
      this.#queue.add(give);
      for (const place of [...this.#taken]) place.onCrowded();
    });
  }

  #place(): Place {
    const place: Place = { onCrowded: () => {}, leave: () => this.#leave(place) };
    this.#taken.add(place);
    return place;
  }

  #leave(place: Place): void {
    if (!this.#taken.delete(place)) return;
    for (const give of this.#queue) {
      this.#queue.delete(give);
      return give(this.#place());
    }
  }
}
