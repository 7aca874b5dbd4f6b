// Chats of the AI SDK as a page has them, without a page.

import { randomUUID } from "node:crypto";
import type { AbstractChat, ChatInit, ChatStatus, UIMessage } from "ai";
import { until } from "../harness/until.js";
import { textOf } from "./text.js";

export type Ai = typeof import("ai");

/** Opens a chat, with the smallest state that the SDK takes. */
export function open(
  ai: Ai,
  { id = randomUUID(), messages = [], ...init }: ChatInit<UIMessage>,
): AbstractChat<UIMessage> {
  const state = {
    messages,
    status: "ready" as ChatStatus,
    error: undefined as Error | undefined,
    pushMessage: (message: UIMessage) => void (state.messages = state.messages.concat(message)),
    popMessage: () => void (state.messages = state.messages.slice(0, -1)),
    replaceMessage: (at: number, message: UIMessage) => {
      state.messages = state.messages.with(at, structuredClone(message));
    },
    snapshot: <T>(value: T) => structuredClone(value),
  };
  class Chat extends ai.AbstractChat<UIMessage> {}
  return new Chat({ id, state, ...init });
}

/** The messages of a chat, as `role: text`. */
export function shown({ messages }: { readonly messages: readonly UIMessage[] }): string[] {
  return messages.map((message) => `${message.role}: ${textOf(message)}`);
}

/** Waits until the last message of a chat is this text. */
export function says(chat: AbstractChat<UIMessage>, text: string): Promise<unknown> {
  return until(
    text,
    () => textOf(chat.lastMessage) === text,
    () => [shown(chat), chat.status, String(chat.error)],
  );
}
