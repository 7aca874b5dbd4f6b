// An agent that behaves like AG2B's, as far as callers, plugins and listeners can observe. AG2B itself is in no registry.
// Verified against its sources: the order of hooks, history and events, which calls are awaited, and the state after an
// abort.

import type {
  Agent,
  AgentEvent,
  AssistantMessage,
  AssistantToolCall,
  ChatMessage,
  ChatOptions,
  History,
} from "../../src/ag2b/types.js";

/** The model's output in one turn: pieces of reasoning, text and calls, in the order of arrival. */
export interface Turn {
  readonly reasoning?: readonly string[];
  readonly content?: readonly string[];
  readonly calls?: readonly AssistantToolCall[];
  readonly metadata?: Record<string, unknown>;
  /** Awaited before the content piece with this index. */
  readonly gate?: (index: number, signal: AbortSignal | undefined) => Promise<void> | void;
  readonly error?: Error;
}

type Hook = (context: never) => unknown;

class ListHistory implements History {
  #messages: ChatMessage[] = [];
  readonly #listeners = new Set<() => void>();

  getSnapshot = (): ChatMessage[] => this.#messages;

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  push(message: ChatMessage): void {
    this.#set([...this.#messages, message]);
  }

  reset(): void {
    this.#set([]);
  }

  restore(messages: ChatMessage[]): void {
    this.#set([...messages]);
  }

  #set(messages: ChatMessage[]): void {
    this.#messages = messages;
    for (const listener of this.#listeners) listener();
  }
}

export class AgentDouble implements Agent {
  readonly history = new ListHistory();
  readonly #hooks = new Map<string, Hook[]>();
  readonly #script: (messages: readonly ChatMessage[]) => Turn;
  readonly #tools: Readonly<Record<string, (given: Record<string, unknown>) => unknown>>;

  constructor(
    script: (messages: readonly ChatMessage[]) => Turn,
    tools: Readonly<Record<string, (given: Record<string, unknown>) => unknown>> = {},
  ) {
    this.#script = script;
    this.#tools = tools;
  }

  addHook(name: string, hook: Hook): () => void {
    const hooks = this.#hooks.get(name) ?? [];
    this.#hooks.set(name, hooks);
    hooks.push(hook);
    return () => void hooks.splice(hooks.indexOf(hook), 1);
  }

  async use(plugin: (agent: Agent) => unknown): Promise<(() => void) | undefined> {
    const cleanup = await plugin(this);
    return typeof cleanup === "function" ? (cleanup as () => void) : undefined;
  }

  chat(message: string, options: ChatOptions = {}): Promise<unknown> {
    return this.#chat(message, options.onEvent, options.signal);
  }

  async *chatStream(message: string, signal?: AbortSignal): AsyncGenerator<AgentEvent> {
    const queue: (AgentEvent | { readonly type: "end"; readonly error?: unknown })[] = [];
    let wake = () => {};
    const push = (event: (typeof queue)[number]) => {
      queue.push(event);
      wake();
    };
    const chat = this.#chat(message, push, signal).then(
      () => push({ type: "end" }),
      (error: unknown) => push({ type: "end", error }),
    );
    try {
      for (;;) {
        const event = queue.shift();
        if (event === undefined) await new Promise<void>((resolve) => (wake = resolve));
        else if (event.type !== "end") yield event;
        else if (event.error !== undefined) throw event.error;
        else return;
      }
    } finally {
      await chat;
    }
  }

  async #chat(message: string, emit: (event: AgentEvent) => void = () => {}, signal?: AbortSignal): Promise<unknown> {
    await this.#run("onChatStart", { message, signal });
    emit({ type: "agent_chat_start" });
    try {
      await this.#push({ role: "user", content: message });
      for (;;) {
        signal?.throwIfAborted();
        const answer = await this.#ask(emit, signal);
        await this.#push(answer);
        emit({ type: "agent_content_end" });
        if (!answer.calls?.length) {
          const response = { content: answer.content };
          await this.#run("onChatDone", { response });
          return response;
        }
        for (const call of answer.calls) await this.#execute(call);
      }
    } catch (error) {
      const [name, context] = signal?.aborted ? ["onChatAbort", { reason: signal.reason }] : ["onChatError", { error }];
      await this.#run(name as string, context).catch(() => {});
      throw error;
    }
  }

  async #ask(emit: (event: AgentEvent) => void, signal: AbortSignal | undefined): Promise<AssistantMessage> {
    const turn = this.#script(this.history.getSnapshot());
    if (turn.error) throw turn.error;
    const { reasoning = [], content = [], calls } = turn;
    for (const delta of reasoning) emit({ type: "agent_reasoning_delta", delta });
    for (const [index, delta] of content.entries()) {
      await turn.gate?.(index, signal);
      signal?.throwIfAborted();
      emit({ type: "agent_content_delta", delta });
    }
    calls?.forEach(({ id, name, arguments: given }, index) => {
      const text = JSON.stringify(given);
      emit({ type: "agent_tool_call_delta", index, id, name, argumentsDelta: text.slice(0, 3) });
      emit({ type: "agent_tool_call_delta", index, argumentsDelta: text.slice(3) });
    });
    return {
      role: "assistant",
      content: content.join("").trim() ? content.join("") : undefined,
      reasoning: reasoning.join("").trim() ? reasoning.join("") : undefined,
      metadata: turn.metadata,
      calls: calls && [...calls],
    };
  }

  async #execute(call: AssistantToolCall): Promise<void> {
    let content: string;
    try {
      const tool = this.#tools[call.name];
      if (!tool) throw new Error(`there is no tool ${call.name}`);
      content = JSON.stringify((await tool(call.arguments)) ?? null);
    } catch (error) {
      content = JSON.stringify({ error: (error as Error).message });
    }
    await this.#push({ role: "tool", id: call.id, content });
  }

  async #push(message: ChatMessage): Promise<void> {
    this.history.push(message);
    await this.#run("onMessage", { message });
  }

  async #run(name: string, context: unknown): Promise<void> {
    for (const hook of this.#hooks.get(name) ?? []) await hook(context as never);
  }
}
