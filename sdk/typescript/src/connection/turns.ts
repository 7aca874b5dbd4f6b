/** A request's place among those that may be under way. */
export interface Place {
  /** Called when others begin to wait. */
  onCrowded: () => void;
  leave(): void;
}

/** Gives a bounded number of places in the order they are asked for, so that everybody has a turn. */
export class Turns {
  readonly #places: number;
  readonly #taken = new Set<Place>();
  readonly #queue = new Set<(place: Place) => void>();

  constructor(places: number) {
    this.#places = places;
  }

  /** Whether somebody waits. */
  get crowded(): boolean {
    return this.#queue.size > 0;
  }

  /** A place, as soon as there is one; rejects with the signal's reason. */
  take(signal: AbortSignal): Promise<Place> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      if (this.#taken.size < this.#places) return resolve(this.#place());
      const give = (place: Place) => {
        signal.removeEventListener("abort", stop);
        resolve(place);
      };
      const stop = () => {
        this.#queue.delete(give);
        reject(signal.reason);
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
