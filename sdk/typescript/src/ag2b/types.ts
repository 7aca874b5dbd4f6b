// AG2B's types, as far as they are needed here: the package is on no registry, so nothing is imported from it.

/** What the user said. */
export interface UserMessage {
  readonly role: "user";
  readonly content: string;
}

export interface AssistantToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: Record<string, unknown>;
}

/** One answer of the model. */
export interface AssistantMessage {
  readonly role: "assistant";
  readonly content?: string | undefined;
  readonly reasoning?: string | undefined;
  readonly calls?: AssistantToolCall[] | undefined;
  /** The provider's own, as the signature of a reasoning: it must come back as it was. */
  readonly metadata?: Record<string, unknown> | undefined;
}

/** What a tool returned, as JSON text. */
export interface ToolMessage {
  readonly role: "tool";
  /** That of the call. */
  readonly id: string;
  readonly content: string;
}

export type ChatMessage = UserMessage | AssistantMessage | ToolMessage;

/** What the loop of an agent tells while it runs; other types are passed over. */
export type AgentEvent =
  | { readonly type: "agent_content_delta" | "agent_reasoning_delta"; readonly delta: string }
  | {
      readonly type: "agent_tool_call_delta";
      readonly index: number;
      readonly id?: string;
      readonly name?: string;
      readonly argumentsDelta: string;
    }
  | { readonly type: "agent_content_end" }
  | { readonly type: "agent_chat_start" };

/** A list of messages that can be watched. */
export interface History {
  getSnapshot(): ChatMessage[];
  subscribe(listener: () => void): () => void;
  reset(): void;
  restore(messages: ChatMessage[]): void;
}

interface Hooks {
  onChatStart: (context: { readonly message: string }) => unknown;
  onMessage: (context: { readonly message: ChatMessage }) => unknown;
  onChatDone: (context: object) => unknown;
  onChatAbort: (context: { readonly reason?: unknown }) => unknown;
  onChatError: (context: { readonly error: unknown }) => unknown;
}

export interface ChatOptions {
  readonly signal?: AbortSignal;
  readonly onEvent?: (event: AgentEvent) => void;
}

/** What is needed of AG2B's `Agent`. */
export interface Agent {
  readonly history: History;
  addHook<Name extends keyof Hooks>(name: Name, hook: Hooks[Name]): () => void;
  chat(message: string, options?: ChatOptions): Promise<unknown>;
  chatStream(message: string, signal?: AbortSignal): AsyncGenerator<AgentEvent>;
}
