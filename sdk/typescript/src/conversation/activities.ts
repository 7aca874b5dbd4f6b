import { MAX_STATE_BYTES } from "../limits.js";
import type { Drafts } from "./drafts.js";
import type { Draft } from "./list.js";
import { patch, type Purse } from "./patch.js";
import {
  type FoldedMessage,
  isObject,
  json,
  Malformed,
  type Members,
  mergeMetadata,
  metadataOf,
  ownerOf,
  word,
} from "./read.js";
import { owned, type Transcript } from "./transcript.js";

/** Activities: structured progress that has a place among the messages. */
export class Activities {
  readonly #transcript: Transcript;
  readonly #drafts: Drafts;
  readonly #purse: Purse;
  /** Bytes copied by deltas. */
  #copied = 0;

  constructor(transcript: Transcript, drafts: Drafts, purse: Purse) {
    this.#transcript = transcript;
    this.#drafts = drafts;
    this.#purse = purse;
  }

  /** An activity that replaces another one brings its own owner; metadata is merged in any case. */
  snapshot(event: Members): void {
    const [id, activityType, content] = [word(event.messageId), word(event.activityType), json(event.content)];
    if (!isObject(content)) throw new Malformed();
    const [owner, metadata] = [ownerOf(event), metadataOf(event.metadata)];
    const replace = event.replace ?? (event.replace === undefined ? true : undefined);
    if (typeof replace !== "boolean") throw new Malformed();
    const { list } = this.#transcript;
    const place = list.find(id);
    if (place?.message.role === "activity") {
      const message = list.edit(place);
      if (replace) {
        Object.assign(message, { content, activityType });
        if (owner === undefined) delete message.subagentRunId;
        else message.subagentRunId = owner;
      }
      return mergeMetadata(message, metadata);
    }
    if (place !== undefined && !replace) return;
    const message: Draft<FoldedMessage> = owned({ id, role: "activity", content, activityType }, owner);
    mergeMetadata(message, metadata);
    if (place === undefined) list.push(message);
    else list.replace(place, message);
  }

  delta(event: Members): void {
    const [id, activityType, metadata] = [word(event.messageId), word(event.activityType), metadataOf(event.metadata)];
    const { list } = this.#transcript;
    const place = this.#transcript.find(id);
    if (place?.message.role !== "activity") {
      this.#purse.skipped += 1;
      return;
    }
    // Metadata is merged even if the patch fails.
    if (metadata) mergeMetadata(list.edit(place), metadata);
    const holder = { document: place.message.content };
    const operations = holder.document === undefined ? undefined : event.patch;
    const mayCopy = MAX_STATE_BYTES - this.#copied;
    const done = patch(holder, operations, this.#drafts, this.#purse, mayCopy, (bytes) => (this.#copied += bytes));
    if (done) Object.assign(list.edit(place), { content: holder.document, activityType });
  }
}
