// Assigns chunks to streams.
//
// A `*_CHUNK` combines start, content and end; a chunk that continues a stream may omit the id. Each lane has one open
// stream. A lane is the subagent to which chunks are attributed, or the parent agent if there is none.

/** Kinds of streams that consist of chunks. */
export type Kind = "TEXT" | "TOOL" | "REASONING";

/** The subagent to which an event is attributed; undefined is the parent agent. */
export type Owner = string | undefined;

/** Attributes of a stream in a chunk: role and name of a message, or name and parent of a call. */
export type Said = readonly [string | undefined, string | undefined];

export interface Chunk {
  readonly kind: Kind;
  readonly id: string | undefined;
  readonly owner: Owner;
  readonly said: Said;
}

interface Stream {
  readonly kind: Kind;
  readonly id: string;
  /** Attributes in the first chunk; later chunks may only repeat them. */
  readonly said: Said;
}

/** The open streams. */
export class Lanes {
  #open = new Map<Owner, Stream>();
  /** For each kind, the lane of each stream. A stream is open in one lane at most. */
  #holders = { TEXT: new Map<string, Owner>(), TOOL: new Map<string, Owner>(), REASONING: new Map<string, Owner>() };

  get isEmpty(): boolean {
    return this.#open.size === 0;
  }

  /** Closes the open stream of a lane, after an event that is not a chunk. */
  close(owner: Owner): void {
    const stream = this.#open.get(owner);
    if (stream === undefined) return;
    this.#open.delete(owner);
    this.#holders[stream.kind].delete(stream.id);
  }

  /** Closes all streams, after an event of the whole run. */
  closeAll(): void {
    for (const owner of [...this.#open.keys()]) this.close(owner);
  }

  /** Finds or opens the stream of a chunk; undefined if the chunk is invalid. */
  take({ kind, id, owner, said }: Chunk): { readonly id: string; readonly opened: boolean } | undefined {
    const holders = this.#holders[kind];
    let lane = owner;
    if (id !== undefined && holders.has(id)) {
      lane = holders.get(id);
      if (owner !== undefined && owner !== lane) return undefined;
    } else if (id === undefined && owner === undefined && this.#open.get(undefined)?.kind !== kind) {
      // Without an id and an owner, the chunk can only belong to the single open stream of its kind.
      if (holders.size !== 1) return undefined;
      lane = [...holders.values()][0];
    }
    const stream = this.#open.get(lane);
    if (stream?.kind === kind && (id === undefined || id === stream.id)) {
      const agrees = said.every((word, at) => word === undefined || word === stream.said[at]);
      return agrees ? { id: stream.id, opened: false } : undefined;
    }
    if (id === undefined || (kind === "TOOL" && said[0] === undefined)) return undefined;
    this.close(lane);
    this.#open.set(lane, { kind, id, said: kind === "TEXT" ? [said[0] ?? "assistant", said[1]] : said });
    holders.set(id, lane);
    return { id, opened: true };
  }
}
