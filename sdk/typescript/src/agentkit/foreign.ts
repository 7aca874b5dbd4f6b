// Runs of other producers in the thread, converted to AgentKit's results, so that AgentKit's models see them as turns.

import type { Message, ToolCallMessage, ToolResultMessage, ToolMessage } from "@inngest/agent-kit";
import type { Members } from "../conversation/read.js";
import type { ResultRecord } from "./record.js";

type Part =
  | { readonly kind: "text"; readonly id: string; text: string }
  | { readonly kind: "call"; readonly id: string; readonly name: string; args: string };

/** Name of agents without a name. */
const SOME_AGENT = "assistant";

/** One run. Only events of messages and tool calls are relevant to a model; others are ignored. */
export class ForeignRun {
  readonly #runId: string;
  readonly #createdAt: number;
  readonly #parts: Part[] = [];
  readonly #answers = new Map<string, string>();
  /** Ids of messages that are not the agent's. */
  readonly #others = new Set<unknown>();
  #agentName = SOME_AGENT;

  constructor(runId: string, createdAt: number) {
    this.#runId = runId;
    this.#createdAt = createdAt;
  }

  add(event: Members): void {
    const delta = typeof event["delta"] === "string" ? event["delta"] : "";
    switch (event.type) {
      case "STEP_STARTED":
        if (this.#parts.length === 0) this.#agentName = String(event["stepName"]);
        return;
      case "TEXT_MESSAGE_START":
      case "TEXT_MESSAGE_CONTENT":
      case "TEXT_MESSAGE_CHUNK":
        if ((event["role"] ?? "assistant") !== "assistant") this.#others.add(event["messageId"]);
        else if (!this.#others.has(event["messageId"])) this.#text(event["messageId"]).text += delta;
        return;
      case "TOOL_CALL_START":
      case "TOOL_CALL_ARGS":
      case "TOOL_CALL_CHUNK":
        this.#call(event["toolCallId"], event["toolCallName"]).args += delta;
        return;
      case "TOOL_CALL_RESULT":
        this.answer(String(event["toolCallId"]), String(event["content"]));
    }
  }

  /** Adds the result of a tool call; a call of another run is ignored. */
  answer(toolCallId: string, content: string): void {
    if (this.#parts.some(({ kind, id }) => kind === "call" && id === toolCallId))
      this.#answers.set(toolCallId, content);
  }

  /**
   * Returns one result for each answer of the agent after its tools. Calls without a result are left out, since models
   * refuse them.
   */
  records(): ResultRecord[] {
    const records: ResultRecord[] = [];
    let output: Message[] = [];
    let toolCalls: ToolResultMessage[] = [];
    const end = () => {
      if (output.length === 0) return;
      const id = records.length === 0 ? this.#runId : `${this.#runId}:${records.length}`;
      records.push({ id, agentName: this.#agentName, output, toolCalls, createdAt: this.#createdAt });
      output = [];
      toolCalls = [];
    };
    for (const part of this.#parts) {
      if (part.kind === "text") {
        if (toolCalls.length > 0) end();
        if (part.text !== "") output.push({ type: "text", role: "assistant", content: part.text, stop_reason: "stop" });
        continue;
      }
      const content = this.#answers.get(part.id);
      if (content === undefined) continue;
      const tool: ToolMessage = { type: "tool", id: part.id, name: part.name, input: inputOf(part.args) };
      const call: ToolCallMessage = { type: "tool_call", role: "assistant", tools: [tool], stop_reason: "tool" };
      const before = output.at(-1);
      if (before?.type === "tool_call") before.tools.push(tool);
      else output.push(call);
      toolCalls.push({ type: "tool_result", role: "tool_result", tool, content, stop_reason: "tool" });
    }
    end();
    return records;
  }

  #text(messageId: unknown): { text: string } {
    // A chunk without an id continues the previous message.
    const known = this.#parts.findLast(
      (part) => part.kind === "text" && (messageId === undefined || part.id === messageId),
    );
    if (known?.kind === "text") return known;
    const part: Part = { kind: "text", id: String(messageId), text: "" };
    this.#parts.push(part);
    return part;
  }

  #call(toolCallId: unknown, name: unknown): { args: string } {
    const known = this.#parts.findLast(
      (part) => part.kind === "call" && (toolCallId === undefined || part.id === toolCallId),
    );
    if (known?.kind === "call") return known;
    const part: Part = { kind: "call", id: String(toolCallId), name: String(name), args: "" };
    this.#parts.push(part);
    return part;
  }
}

function inputOf(args: string): Record<string, unknown> {
  try {
    const input: unknown = JSON.parse(args || "{}");
    return typeof input === "object" && input !== null ? (input as Record<string, unknown>) : { input };
  } catch {
    return { input: args };
  }
}
