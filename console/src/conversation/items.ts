// Messages as a conversation shows them: each tool result within the call that it answers. Pure.

import type { AnyMessage } from "../untrusted.ts";

/** A message, and the results of its tool calls. */
export interface Item {
  readonly message: AnyMessage;
  readonly results: readonly AnyMessage[];
  /** The first thing that an agent says or does after a person, or at all. */
  readonly beginsTurn: boolean;
}

const NONE: readonly AnyMessage[] = [];

/** Makes items out of messages; those of which nothing has changed are the same objects again. */
export function itemMaker(): (messages: readonly AnyMessage[]) => readonly Item[] {
  const known = new WeakMap<AnyMessage, Item>();
  return (messages) => {
    const results = resultsByCall(messages);
    const items: Item[] = [];
    let isTurn = false;
    for (const message of messages) {
      if (message.role === "tool" && results.get(message.toolCallId ?? "")?.isCalled) continue;
      const own = callsOf(message).flatMap(({ id }) => results.get(id)?.message ?? []);
      const beginsTurn = isAgents(message) && !isTurn;
      isTurn = isAgents(message);
      const before = known.get(message);
      const isKnown = before?.beginsTurn === beginsTurn && isSame(before.results, own);
      const item = isKnown ? before : { message, results: own.length > 0 ? own : NONE, beginsTurn };
      known.set(message, item);
      items.push(item);
    }
    return items;
  };
}

/** Whether it is an agent's, not a person's or an instruction. */
function isAgents({ role }: AnyMessage): boolean {
  return !["user", "system", "developer"].includes(role);
}

/** The calls of an assistant's message. */
export function callsOf({ role, toolCalls }: AnyMessage): NonNullable<AnyMessage["toolCalls"]> {
  return role === "assistant" && Array.isArray(toolCalls) ? toolCalls : [];
}

/** The newest result of each call, and whether the call is there as well. */
function resultsByCall(messages: readonly AnyMessage[]): Map<string, { message: AnyMessage; isCalled: boolean }> {
  const results = new Map<string, { message: AnyMessage; isCalled: boolean }>();
  for (const message of messages) {
    if (message.role === "tool" && message.toolCallId) results.set(message.toolCallId, { message, isCalled: false });
  }
  if (results.size === 0) return results;
  for (const message of messages) {
    for (const { id } of callsOf(message)) {
      const result = results.get(id);
      if (result) result.isCalled = true;
    }
  }
  return results;
}

function isSame(one: readonly AnyMessage[], other: readonly AnyMessage[]): boolean {
  return one.length === other.length && one.every((message, at) => message === other[at]);
}
