import type { Http } from "./http.js";
import type { Cancellable, ReadOptions, WriteOptions } from "./runs.js";
import type { Message, NewMessage } from "./types.js";

/** One version of a conversation. */
export interface Version {
  readonly epoch: string;
  readonly seq: number;
}

/** A conversation as a document: all of its messages. The name of a conversation is the id of its thread. */
export interface ConversationDocument extends Version {
  readonly name: string;
  readonly messages: readonly Message[];
}

export interface SaveOptions extends Cancellable {
  /**
   * The version on which the saved messages are based. The request fails with a `conversation-changed` problem if the
   * conversation has changed since. Without a version, messages can only be added.
   */
  readonly version?: Version;
  /** The agent of a newly created thread and of the appended messages. */
  readonly agentId?: string;
}

/** The version that contains exactly the saved messages. */
export interface SavedConversation extends Version {
  readonly name: string;
  readonly outcome: "appended" | "unchanged" | "repeated" | "replaced";
  /** Number of messages that were appended to the log. */
  readonly appended: number;
}

/** Conversations that are read and saved as a whole. */
export class Conversations {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  /** Returns all messages, as of the event with seq `at`; the current ones by default. */
  get(name: string, options?: ReadOptions & { at?: number; epoch?: string }): Promise<ConversationDocument> {
    return this.#http.read(["conversations", name], options);
  }

  /**
   * Saves all messages: those that the log does not contain yet are appended. A list that is shorter than the stored one,
   * or differs from it, is refused (`conversation-diverged`), unless `version` is the newest one: then the list replaces
   * the stored messages.
   */
  put(name: string, messages: readonly NewMessage[], options: SaveOptions = {}): Promise<SavedConversation> {
    const { signal, version, agentId } = options;
    const headers: Record<string, string> = version ? { "If-Match": `"${version.epoch}-${version.seq}"` } : {};
    return this.#http.call({
      method: "PUT",
      path: ["conversations", name],
      body: { messages, ...(agentId && { agentId }) },
      headers,
      kind: "producers",
      signal,
    });
  }

  /** Deletes a conversation and its thread; with `epoch`, only if it is still the one that was read. */
  delete(name: string, options?: WriteOptions): Promise<void> {
    return this.#http.remove(["conversations", name], options);
  }
}
