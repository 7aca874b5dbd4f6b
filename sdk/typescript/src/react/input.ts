import { ConfigError } from "../errors.js";
import { newId } from "../ids.js";
import type { RunInput } from "../runs.js";
import type { NewMessage } from "../types.js";

/** Input of a run: the user's text, a message, or AG-UI's RunAgentInput with the new messages. */
export type SendInput = string | NewMessage | RunInput;

/** A person's answer to an interrupt. */
export interface InterruptAnswer {
  readonly interruptId: string;
  readonly status: "resolved" | "cancelled";
  readonly payload?: unknown;
}

/** AG-UI's input for a run. Each message is assigned an id here, so that the request can be repeated. */
export function runInput(input: SendInput): RunInput {
  if (typeof input === "string") return runInput({ role: "user", content: input });
  if (typeof input !== "object" || input === null)
    throw new ConfigError("send a string, a message or an input with messages");
  if ("role" in input) return runInput({ messages: [input] });
  const { messages = [], ...rest } = input;
  return { ...rest, messages: messages.map((message) => ({ id: newId(), ...message })) };
}

/** The result of a tool call that the page executed. */
export function toolMessage(toolCallId: string, result: unknown): NewMessage & { readonly id: string } {
  const content = typeof result === "string" ? result : (JSON.stringify(result) ?? "");
  return { id: newId(), role: "tool", toolCallId, content };
}
