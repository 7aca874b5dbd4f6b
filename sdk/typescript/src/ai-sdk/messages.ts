import type { UIMessage } from "ai";
import type { Threadline } from "../client.js";
import { isProblem } from "../errors.js";
import { httpOf } from "../http.js";
import type { ReadOptions } from "../runs.js";
import { addressOf } from "./address.js";

/** A chat, as a page loads it. */
export interface ChatMessages<M extends UIMessage = UIMessage> {
  /** The messages of the newest 1,000 runs, oldest first, at most 16 MiB. */
  readonly messages: M[];
  /** The active run, whose message may be incomplete: `resume: true` of `useChat` follows it. Null if no run is active. */
  readonly activeRunId: string | null;
  /** True if older messages are left out. */
  readonly hasMore: boolean;
}

/**
 * Loads the messages of a chat, in a page or on a server: `useChat({ id, messages, transport, resume: true })`. A chat that does
 * not exist has none. Rejects with a `ProblemError` if the agent does not exist, or the chat cannot be read.
 */
export async function toUIMessages<M extends UIMessage = UIMessage>(
  client: Threadline,
  agentId: string,
  chatId: string,
  options?: ReadOptions,
): Promise<ChatMessages<M>> {
  const http = httpOf(client);
  try {
    const path = addressOf(http, agentId, chatId);
    const { messages, activeRunId, hasMore } = await http.call<ChatMessages<M>>({ path, ...options });
    return { messages, activeRunId, hasMore };
  } catch (error) {
    if (isProblem(error, "thread-not-found")) return { messages: [], activeRunId: null, hasMore: false };
    throw error;
  }
}
