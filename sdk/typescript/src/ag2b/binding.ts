// An agent's history kept in a thread: what it says is written while it happens, what others say comes in between its chats.

import { backoff, sleep } from "../backoff.js";
import { ClosedError, type Message, type Threadline, ThreadlineError, type ThreadRef } from "../index.js";
import { AG2B_PATIENCE_MS } from "../limits.js";
import { Chat, type ChatEnd } from "./chat.js";
import { RunInFlightError, type ThreadHistory } from "./history.js";
import { toMessages } from "./messages.js";
import { save } from "./save.js";
import type { Agent, AgentEvent, ChatMessage, ChatOptions } from "./types.js";

/** How what is unsaved goes into the log: beside what is there, or in its place. */
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
  /** The last chat's way into the log, while it is on it. */
  #ending: Promise<void> | undefined;
  /** While the agent's history is set from here. */
  #applying = false;
  #unsaved: Unsaved | undefined;
  #saving: Promise<void> | undefined;
  /** The log as it was before this event does not have what the agent has. */
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

  /** Gives the agent what the thread has, and keeps the two the same from then on. */
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

  /** Lets go of the agent, which keeps its history. Resolves when nothing more is asked of the client. */
  async close(): Promise<void> {
    this.#over.abort(new ClosedError("the agent was released"));
    // A chat that is under way goes on without a thread: its run must not hold that for ever.
    const ends = [this.#ending, this.#chat?.end({ how: "aborted" })];
    for (const undo of this.#undo.reverse()) undo();
    this.#remote.close();
    await Promise.allSettled(ends);
  }

  /** Takes over what the thread has, unless the agent has something that the thread does not. */
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

  /** While a chat goes on, its messages must not be taken from under it. */
  #guard(): void {
    const { history } = this.#agent;
    for (const name of ["reset", "restore"] as const) {
      const original = history[name] as (...messages: unknown[]) => void;
      const guarded = (...messages: unknown[]) => {
        if (this.#chat) throw new RunInFlightError(`a chat is under way: ${name} between chats`);
        original.apply(history, messages);
      };
      this.#undo.push(override(history, name, guarded));
    }
  }

  /** Sees what the agent streams, and ends a chat whose run is asked to stop. */
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
    // Another plugin may end a chat before it has begun, of which no hook tells.
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
      // What is not saved yet goes first, if it can.
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

  /** Waits until the chat is saved, for a while: the agent must not wait for a server that is away. */
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

  /** Saves what is unsaved; goes on until it is, or the server will not have it. */
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
        // What came meanwhile is saved in the next turn.
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

  /** Saves all messages of the agent; gives the seq from which on the log has them. */
  #store(how: Unsaved, history: readonly ChatMessage[], signal: AbortSignal): Promise<number> {
    const ours = history.flatMap((message) => toMessages(message, this.#remote.idOf(message)));
    const make = (stored: readonly Message[]) => (how === "added" ? merged(stored, ours) : ours);
    return save(this.#client, this.#thread.threadId, make, signal);
  }
}

/** Sets a method on an object; gives what takes it away again. */
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

/** What is stored, with ours where the id is the same, and what is stored nowhere behind it. */
function merged(stored: readonly Message[], ours: readonly Message[]): Message[] {
  const byId = new Map(ours.map((message) => [message.id, message]));
  const known = new Set(stored.map(({ id }) => id));
  return [...stored.map((message) => byId.get(message.id) ?? message), ...ours.filter(({ id }) => !known.has(id))];
}
