import { ConfigError } from "../errors.js";
import { newId } from "../ids.js";
import type { RunInput } from "../runs.js";
import type { Message } from "../types.js";

/** A message to be sent; an id is made up if it has none. */
export type NewMessage = Omit<Message, "id"> & { readonly role: string; readonly id?: string };

/** What a run is begun with: what the user says, a message, or AG-UI's RunAgentInput with what is new. */
export type SendInput = string | NewMessage | RunInput;

/** The answer of a person to an interrupt. */
export interface InterruptAnswer {
  readonly interruptId: string;
  readonly status: "resolved" | "cancelled";
  readonly payload?: unknown;
}

/** AG-UI's input for a run. Each message gets its id here, so that the request can be repeated. */
export function runInput(input: SendInput): RunInput {
  if (typeof input === "string") return runInput({ role: "user", content: input });
  if (typeof input !== "object" || input === null)
    throw new ConfigError("send a string, a message or an input with messages");
  if (typeof input.role === "string") return runInput({ messages: [input as NewMessage] });
  const { messages = [], ...rest } = input as RunInput;
  return { ...rest, messages: messages.map((message) => ({ id: newId(), ...message })) };
}

/** The result of a tool call of the page's own. */
export function toolMessage(toolCallId: string, result: unknown): NewMessage & { readonly id: string } {
  const content = typeof result === "string" ? result : (JSON.stringify(result) ?? "");
  return { id: newId(), role: "tool", toolCallId, content };
}
