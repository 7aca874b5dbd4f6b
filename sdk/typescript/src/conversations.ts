import type { Http } from "./http.js";
import type { Cancellable, ReadOptions } from "./runs.js";
import type { Message } from "./types.js";

/** One version of a conversation. */
export interface Version {
  readonly epoch: string;
  readonly seq: number;
}

/** A conversation as a document: all of its messages. Its name is the id of its thread. */
export interface ConversationDocument extends Version {
  readonly name: string;
  readonly messages: readonly Message[];
}

/** A message to be saved: as AG-UI has it. Without an `id` it gets one. */
export type MessageToSave = Omit<Message, "id"> & { readonly id?: string };

export interface SaveOptions extends Cancellable {
  /** Saves only what was made of this version: else a problem `conversation-changed`. Without it only additions are taken. */
  readonly version?: Version;
  /** The agent that a new thread, and what is appended, are of. */
  readonly agentId?: string;
}

/** The version that has exactly what was saved. */
export interface SavedConversation extends Version {
  readonly name: string;
  readonly outcome: "appended" | "unchanged" | "repeated" | "replaced";
  /** How many messages were put into the log. */
  readonly appended: number;
}

/** Conversations read and saved whole. */
export class Conversations {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  /** All messages, now or as they were after the event with seq `at`. */
  get(name: string, options: ReadOptions & { at?: number; epoch?: string } = {}): Promise<ConversationDocument> {
    const { signal, retryFor, ...query } = options;
    return this.#http.call({ path: ["conversations", name], query, signal, retryFor });
  }

  /**
   * Saves all messages: what the log does not have yet is appended. A list that is shorter, or differs in what is stored, is
   * refused (`conversation-diverged`), unless `version` is the newest one: then it takes the place of what was there.
   */
  put(name: string, messages: readonly MessageToSave[], options: SaveOptions = {}): Promise<SavedConversation> {
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

  /** Deletes a conversation, and the thread that it is. */
  async delete(name: string, { signal }: Cancellable = {}): Promise<void> {
    await this.#http.call({ method: "DELETE", path: ["conversations", name], signal });
  }
}
