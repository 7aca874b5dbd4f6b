// The required subset of AG2B's types. The package is in no registry, so it cannot be imported.

/** A message of the user. */
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
  /** Data of the provider, such as the signature of a reasoning: it must be preserved exactly. */
  readonly metadata?: Record<string, unknown> | undefined;
}

/** The result of a tool, as JSON text. */
export interface ToolMessage {
  readonly role: "tool";
  /** The id of the tool call. */
  readonly id: string;
  readonly content: string;
}

export type ChatMessage = UserMessage | AssistantMessage | ToolMessage;

/** Events of an agent's loop; other types are ignored. */
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

/** An observable list of messages. */
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

/** The required subset of AG2B's `Agent`. */
export interface Agent {
  readonly history: History;
  addHook<Name extends keyof Hooks>(name: Name, hook: Hooks[Name]): () => void;
  chat(message: string, options?: ChatOptions): Promise<unknown>;
  chatStream(message: string, signal?: AbortSignal): AsyncGenerator<AgentEvent>;
}
