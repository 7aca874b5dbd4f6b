// Keeps an agent's history in a thread: the agent's output is written while it is produced, and messages of other producers
// are applied between its chats.

import { backoff, sleep } from "../backoff.js";
import { ClosedError, type Message, type Threadline, ThreadlineError, type ThreadRef } from "../index.js";
import { AG2B_PATIENCE_MS } from "../limits.js";
import { Chat, type ChatEnd } from "./chat.js";
import { RunInFlightError, type ThreadHistory } from "./history.js";
import { toMessages } from "./messages.js";
import { save } from "./save.js";
import type { Agent, AgentEvent, ChatMessage, ChatOptions } from "./types.js";

/** How unsaved messages are written: in addition to the stored ones, or in their place. */
type Unsaved = "added" | "replaced";

export class Binding {
  readonly #agent: Agent;
  readonly #client: Threadline;
  readonly #thread: ThreadRef;
  readonly #remote: ThreadHistory;
  readonly #onError: (error: unknown) => void;
  readonly #undo: (() => void)[] = [];
  readonly #over = new AbortController();
  #stop = new AbortController();
  #chat: Chat | undefined;
  /** The end of the last chat, until it is saved. */
  #ending: Promise<void> | undefined;
  /** True while this class sets the agent's history. */
  #applying = false;
  #unsaved: Unsaved | undefined;
  #saving: Promise<void> | undefined;
  /** The seq from which on the log contains the agent's messages. */
  #since = 0;

  constructor(
    agent: Agent,
    client: Threadline,
    threadId: string,
    remote: ThreadHistory,
    onError: (error: unknown) => void,
  ) {
    this.#agent = agent;
    this.#client = client;
    this.#thread = client.thread(threadId);
    this.#remote = remote;
    this.#onError = onError;
  }

  /** Applies the thread's messages to the agent, and keeps both in sync from then on. */
  bind(): void {
    const agent = this.#agent;
    this.#apply();
    this.#guard();
    this.#listen();
    this.#undo.push(
      this.#remote.subscribe(() => this.#apply()),
      agent.history.subscribe(() => this.#changed()),
      agent.addHook("onChatStart", () => this.#begin()),
      agent.addHook("onMessage", ({ message }) => this.#said(message)),
      agent.addHook("onChatDone", () => this.#end({ how: "done" })),
      agent.addHook("onChatAbort", () => this.#end({ how: "aborted" })),
      agent.addHook("onChatError", ({ error }) => this.#end({ how: "failed", error })),
    );
  }

  /** Releases the agent, which keeps its history. Resolves when no request is pending any more. */
  async close(): Promise<void> {
    this.#over.abort(new ClosedError("the agent was released"));
    // An active chat continues without a thread: its run must not block the thread.
    const ends = [this.#ending, this.#chat?.end({ how: "aborted" })];
    for (const undo of this.#undo.reverse()) undo();
    this.#remote.close();
    await Promise.allSettled(ends);
  }

  /** Applies the thread's messages, unless the agent has unsaved ones. */
  #apply(): void {
    if (this.#chat || this.#ending || this.#unsaved) return;
    if (this.#remote.running || this.#remote.cursor < this.#since) return;
    const messages = this.#remote.getSnapshot();
    if (JSON.stringify(messages) === JSON.stringify(this.#agent.history.getSnapshot())) return;
    this.#applying = true;
    try {
      this.#agent.history.restore([...messages]);
    } finally {
      this.#applying = false;
    }
  }

  /** The application has reset or restored the history. */
  #changed(): void {
    if (this.#applying || this.#chat) return;
    this.#unsaved = "replaced";
    void this.#save();
  }

  /** Prevents changes of the history while a chat is active. */
  #guard(): void {
    const { history } = this.#agent;
    for (const name of ["reset", "restore"] as const) {
      const original = history[name] as (...messages: unknown[]) => void;
      const guarded = (...messages: unknown[]) => {
        if (this.#chat) throw new RunInFlightError(`a chat is active: call ${name} between chats`);
        original.apply(history, messages);
      };
      this.#undo.push(override(history, name, guarded));
    }
  }

  /** Observes the agent's stream, and ends a chat when a stop of its run is requested. */
  #listen(): void {
    const agent = this.#agent;
    const { chat, chatStream } = agent;
    const observe = (event: AgentEvent) => this.#chat?.observe(event);
    const stoppedBy = (stop: AbortController, signal?: AbortSignal): AbortSignal => {
      this.#stop = stop;
      if (signal?.aborted) stop.abort(signal.reason);
      signal?.addEventListener("abort", () => stop.abort(signal.reason), { once: true, signal: stop.signal });
      return stop.signal;
    };
    // Another plugin may end a chat before it has started, which no hook reports.
    const over = async (stop: AbortController) => {
      const error = new ClosedError("the chat did not start");
      if (this.#chat?.stop === stop) await this.#end({ how: "failed", error });
    };
    const observedChat = (message: string, options: ChatOptions = {}) => {
      const onEvent = (event: AgentEvent) => {
        observe(event);
        options.onEvent?.(event);
      };
      const stop = new AbortController();
      const signal = stoppedBy(stop, options.signal);
      return chat.call(agent, message, { ...options, onEvent, signal }).finally(() => over(stop));
    };
    const observedStream = async function* (message: string, signal?: AbortSignal) {
      const stop = new AbortController();
      try {
        for await (const event of chatStream.call(agent, message, stoppedBy(stop, signal))) {
          observe(event);
          yield event;
        }
      } finally {
        await over(stop);
      }
    };
    this.#undo.push(override(agent, "chat", observedChat), override(agent, "chatStream", observedStream));
  }

  async #begin(): Promise<void> {
    if (this.#chat) throw new RunInFlightError("a chat is active: wait until it ends");
    const chat = new Chat(this.#thread, this.#stop);
    this.#chat = chat;
    try {
      // Unsaved messages are saved first, if possible.
      await withPatience(Promise.all([this.#ending, this.#save()]));
      await chat.begin();
    } catch (error) {
      this.#chat = undefined;
      throw error;
    }
  }

  #said(message: ChatMessage): void {
    const chat = this.#chat;
    if (!chat) return;
    if (message.role === "assistant") this.#remote.name(message, chat.answered(message));
    else if (message.role === "tool") chat.returned(message, this.#remote.idOf(message));
    else chat.said(message, this.#remote.idOf(message));
  }

  /** Waits a limited time until the chat is saved: the agent must not wait for an unreachable server. */
  async #end(end: ChatEnd): Promise<void> {
    const chat = this.#chat;
    if (!chat) return;
    this.#chat = undefined;
    this.#ending = chat.end(end).then((seq) => {
      this.#ending = undefined;
      if (seq === undefined) this.#unsaved ??= "added";
      else this.#since = seq;
      this.#apply();
      return this.#save();
    });
    await withPatience(this.#ending);
  }

  /** Saves unsaved messages; retries until they are saved or the server refuses them. */
  #save(): Promise<void> {
    if (this.#unsaved === undefined) return Promise.resolve();
    this.#saving ??= this.#trySaving().finally(() => (this.#saving = undefined));
    return this.#saving;
  }

  async #trySaving(): Promise<void> {
    const { signal } = this.#over;
    let failures = 0;
    for (let how = this.#unsaved; how && !signal.aborted; how = this.#unsaved) {
      const before = this.#agent.history.getSnapshot();
      try {
        this.#since = await this.#store(how, before, signal);
        // Messages that were added meanwhile are saved in the next iteration.
        if (this.#agent.history.getSnapshot() === before || this.#chat) this.#unsaved = undefined;
      } catch (error) {
        if (signal.aborted) return;
        this.#onError(error);
        if (!(error instanceof ThreadlineError && error.retryable)) return;
        failures += 1;
        await sleep(backoff(failures, Math.random(), error.retryAfterMs), signal).catch(() => {});
      }
    }
    this.#apply();
  }

  /** Saves all messages of the agent; returns the seq from which on the log contains them. */
  #store(how: Unsaved, history: readonly ChatMessage[], signal: AbortSignal): Promise<number> {
    const ours = history.flatMap((message) => toMessages(message, this.#remote.idOf(message)));
    const make = (stored: readonly Message[]) => (how === "added" ? merged(stored, ours) : ours);
    return save(this.#client, this.#thread.threadId, make, signal);
  }
}

/** Overrides a method of an object; returns a function that restores it. */
function override<T extends object, Name extends keyof T>(target: T, name: Name, method: T[Name]): () => void {
  const own = Object.getOwnPropertyDescriptor(target, name);
  Object.defineProperty(target, name, { value: method, configurable: true, writable: true });
  return () => {
    if (own) Object.defineProperty(target, name, own);
    else delete target[name];
  };
}

function withPatience(promise: Promise<unknown>): Promise<unknown> {
  const patience = new AbortController();
  const waiting = sleep(AG2B_PATIENCE_MS, patience.signal).catch(() => {});
  return Promise.race([promise, waiting]).finally(() => patience.abort());
}

/** The stored messages, replaced by ours where the ids are equal, followed by those of ours that are not stored. */
function merged(stored: readonly Message[], ours: readonly Message[]): Message[] {
  const byId = new Map(ours.map((message) => [message.id, message]));
  const known = new Set(stored.map(({ id }) => id));
  return [...stored.map((message) => byId.get(message.id) ?? message), ...ours.filter(({ id }) => !known.has(id))];
}
