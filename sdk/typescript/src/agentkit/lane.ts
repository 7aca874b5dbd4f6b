// Converts AgentKit's stream of one agent's reply, chunk by chunk, to AG-UI's events.

import type { AgentMessageChunk } from "@inngest/agent-kit";
import type { AgUiEvent } from "../types.js";
import { answerEvent } from "./view.js";

/** One reply. Its id is that of the AgentResult, and of its first text message. */
export class Lane {
  readonly messageId: string;
  /** Number of text messages so far. An agent without a network may stream several, one for each request to its model. */
  #texts = 0;
  readonly #stepName: string;
  /** The call whose tool is running, since tool results do not name their call. */
  #toolCallId: string | undefined;

  constructor(messageId: string, stepName: string) {
    this.messageId = messageId;
    this.#stepName = stepName;
  }

  begin(): AgUiEvent[] {
    return [{ type: "STEP_STARTED", stepName: this.#stepName }];
  }

  end(): AgUiEvent[] {
    return [{ type: "STEP_FINISHED", stepName: this.#stepName }];
  }

  /** The events for a chunk; none for most kinds. */
  events({ event, data }: AgentMessageChunk): AgUiEvent[] {
    const partId = String(data["partId"]);
    const delta = String(data["delta"]);
    switch (`${event} ${String(data["type"] ?? "")}`) {
      case "part.created text":
        this.#texts += 1;
        return [{ type: "TEXT_MESSAGE_START", messageId: this.#textId, role: "assistant" }];
      case "text.delta ":
        return delta === "" ? [] : [{ type: "TEXT_MESSAGE_CONTENT", messageId: this.#textId, delta }];
      case "part.completed text":
        return [{ type: "TEXT_MESSAGE_END", messageId: this.#textId }];
      case "part.created tool-call": {
        this.#toolCallId = partId;
        const { toolName } = (data["metadata"] ?? {}) as { toolName?: string };
        const call = { toolCallId: partId, toolCallName: toolName ?? "", parentMessageId: this.#textId };
        return [{ type: "TOOL_CALL_START", ...call }];
      }
      case "tool_call.arguments.delta ":
        return delta === "" ? [] : [{ type: "TOOL_CALL_ARGS", toolCallId: partId, delta }];
      case "part.completed tool-call":
        return [{ type: "TOOL_CALL_END", toolCallId: partId }];
      case "part.completed tool-output":
        return this.#toolCallId === undefined ? [] : [answerEvent(this.#toolCallId, data["finalContent"])];
      default:
        return [];
    }
  }

  get #textId(): string {
    return this.#texts > 1 ? `${this.messageId}:text:${this.#texts}` : this.messageId;
  }
}
