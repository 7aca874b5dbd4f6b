// The events of one answer, while it is streamed and when it is complete.

import type { AgUiEvent, ToolCall } from "../types.js";
import { DROPPED, KEPT, keptOf, reasoningId, toolCallOf } from "./messages.js";
import type { AgentEvent, AssistantMessage } from "./types.js";

/** Writes one assistant message. Every event is returned once, in an order that AG-UI's clients accept. */
export class AnswerWriter {
  readonly id: string;
  #reasoning = "";
  #content = "";
  /** The open part; at most one at a time. */
  #open: "reasoning" | "content" | ToolCall | undefined;
  /** Calls by their index in the answer. */
  readonly #calls = new Map<number, ToolCall>();

  constructor(id: string) {
    this.id = id;
  }

  /** True if any part of the answer was written. */
  get begun(): boolean {
    return this.#reasoning !== "" || this.#content !== "" || this.#calls.size > 0;
  }

  /** The events for a delta of the agent's loop. */
  delta(event: AgentEvent): AgUiEvent[] {
    if (event.type === "agent_reasoning_delta") return this.#reason(event.delta);
    if (event.type === "agent_content_delta") return this.#say(event.delta);
    if (event.type === "agent_tool_call_delta") return this.#call(event);
    return [];
  }

  /** The remaining events, once the answer is complete. A hook of the agent may have changed it. */
  complete(message: AssistantMessage): AgUiEvent[] {
    const { reasoning = "", content = "", calls = [] } = message;
    const events: AgUiEvent[] = [];
    if (this.#content === "" && this.#calls.size === 0)
      events.push(...this.#reason(missing(this.#reasoning, reasoning)));
    events.push(...this.#say(missing(this.#content, content)));
    calls.forEach((call, index) => {
      const whole = toolCallOf(call);
      const begun = this.#calls.get(index);
      if (begun && begun.id !== whole.id) return;
      const argumentsDelta = missing(begun?.function.arguments ?? "", whole.function.arguments);
      if (!begun || argumentsDelta) events.push(...this.#call({ index, id: call.id, name: call.name, argumentsDelta }));
    });
    events.push(...this.#close());
    const said = { content: this.#content, reasoning: this.#reasoning, calls: [...this.#calls.values()] };
    const kept = keptOf(message, said);
    // Reasoning alone does not create an assistant message.
    const exists = this.#content !== "" || this.#calls.size > 0;
    return kept === undefined && exists ? events : [...events, ...this.#note(kept)];
  }

  /** The chat was interrupted: AG2B discards the partial answer, while the log keeps what was streamed. */
  drop(): AgUiEvent[] {
    return this.begun ? [...this.#close(), ...this.#note(DROPPED)] : [];
  }

  #reason(delta: string): AgUiEvent[] {
    if (delta === "") return [];
    const messageId = reasoningId(this.id);
    const events: AgUiEvent[] = [];
    if (this.#open !== "reasoning") {
      events.push(...this.#close(), { type: "REASONING_START", messageId });
      events.push({ type: "REASONING_MESSAGE_START", messageId, role: "reasoning" });
    }
    this.#open = "reasoning";
    this.#reasoning += delta;
    return [...events, { type: "REASONING_MESSAGE_CONTENT", messageId, delta }];
  }

  #say(delta: string): AgUiEvent[] {
    if (delta === "") return [];
    const events: AgUiEvent[] = [];
    if (this.#open !== "content") {
      events.push(...this.#close(), { type: "TEXT_MESSAGE_START", messageId: this.id, role: "assistant" });
    }
    this.#open = "content";
    this.#content += delta;
    return [...events, { type: "TEXT_MESSAGE_CONTENT", messageId: this.id, delta }];
  }

  #call(event: { index: number; id?: string; name?: string; argumentsDelta: string }): AgUiEvent[] {
    const { index, argumentsDelta } = event;
    const events: AgUiEvent[] = [];
    const begun = this.#calls.get(index);
    const call: ToolCall = begun ?? {
      id: event.id ?? `${this.id}:${index}`,
      type: "function",
      function: { name: event.name ?? "", arguments: "" },
    };
    // Deltas of parallel calls are interleaved: a closed call is started again, which appends to it.
    if (!begun || (this.#open !== begun && argumentsDelta)) {
      const { id: toolCallId, function: called } = call;
      events.push(...this.#close());
      events.push({ type: "TOOL_CALL_START", toolCallId, toolCallName: called.name, parentMessageId: this.id });
    }
    if (events.length > 0) this.#open = call;
    const grown = { ...call, function: { ...call.function, arguments: call.function.arguments + argumentsDelta } };
    this.#calls.set(index, grown);
    if (this.#open === call) this.#open = grown;
    if (argumentsDelta) events.push({ type: "TOOL_CALL_ARGS", toolCallId: call.id, delta: argumentsDelta });
    return events;
  }

  #close(): AgUiEvent[] {
    const open = this.#open;
    this.#open = undefined;
    if (open === undefined) return [];
    if (open === "content") return [{ type: "TEXT_MESSAGE_END", messageId: this.id }];
    if (open !== "reasoning") return [{ type: "TOOL_CALL_END", toolCallId: open.id }];
    const messageId = reasoningId(this.id);
    return [
      { type: "REASONING_MESSAGE_END", messageId },
      { type: "REASONING_END", messageId },
    ];
  }

  /** Starts the message again without a text, which only adds the metadata. */
  #note(kept: string | undefined): AgUiEvent[] {
    const metadata = kept === undefined ? {} : { metadata: { [KEPT]: kept } };
    return [
      { type: "TEXT_MESSAGE_START", messageId: this.id, role: "assistant", ...metadata },
      { type: "TEXT_MESSAGE_END", messageId: this.id },
    ];
  }
}

/** The part of `whole` that is missing in `said`; empty if `whole` does not start with `said`. */
function missing(said: string, whole: string): string {
  return whole.startsWith(said) ? whole.slice(said.length) : "";
}
