// Which stream a chunk continues.
//
// A `*_CHUNK` stands for start, content and end; one that continues a stream may leave its id out. There is one open
// stream a lane, a lane being the subagent that chunks are attributed to, or none: the parent agent.

/** What chunks build. */
export type Kind = "TEXT" | "TOOL" | "REASONING";

/** The subagent that an event is attributed to; undefined is the parent agent. */
export type Owner = string | undefined;

/** What a chunk says of its stream: role and name of a message, name and parent of a call. */
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
  /** What its first chunk said; others may only repeat it. */
  readonly said: Said;
}

/** The open streams. */
export class Lanes {
  #open = new Map<Owner, Stream>();
  /** Per kind: stream → lane. A stream is open in one lane at most. */
  #holders = { TEXT: new Map<string, Owner>(), TOOL: new Map<string, Owner>(), REASONING: new Map<string, Owner>() };

  get isEmpty(): boolean {
    return this.#open.size === 0;
  }

  /** An event that stands for itself ends what its lane had open. */
  close(owner: Owner): void {
    const stream = this.#open.get(owner);
    if (stream === undefined) return;
    this.#open.delete(owner);
    this.#holders[stream.kind].delete(stream.id);
  }

  /** An event of the whole run ends everything. */
  closeAll(): void {
    for (const owner of [...this.#open.keys()]) this.close(owner);
  }

  /** Finds or opens the stream of a chunk; undefined if it can mean none. */
  take({ kind, id, owner, said }: Chunk): { readonly id: string; readonly opened: boolean } | undefined {
    const holders = this.#holders[kind];
    let lane = owner;
    if (id !== undefined && holders.has(id)) {
      lane = holders.get(id);
      if (owner !== undefined && owner !== lane) return undefined;
    } else if (id === undefined && owner === undefined && this.#open.get(undefined)?.kind !== kind) {
      // Without id and owner it can only mean the one stream of its kind, if there is one.
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
