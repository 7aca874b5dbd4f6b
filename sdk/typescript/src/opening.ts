import { newId } from "./ids.js";
import type { RunOptions } from "./run-handle.js";
import type { Message, NewEvent } from "./types.js";

/** The events with which a run begins: they are in the commit that starts it. */
export function openingOf(threadId: string, runId: string, options: RunOptions): NewEvent[] {
  const { messages = [], tools = [], context = [], resume, state } = options;
  const named = messages.map((message) => ({ ...message, id: message.id ?? newId() }) as Message);
  const isGiven = named.length + tools.length + context.length > 0 || resume !== undefined;
  const input = { threadId, runId, messages: named, tools, context, ...(resume && { resume }) };
  const started: NewEvent = { type: "RUN_STARTED", threadId, runId, ...(isGiven && { input }) };
  return state === undefined ? [started] : [started, { type: "STATE_SNAPSHOT", snapshot: state }];
}
