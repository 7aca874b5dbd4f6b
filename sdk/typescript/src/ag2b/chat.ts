// One chat of an agent as a run of the thread, written while it happens.

import { newId } from "../ids.js";
import {
  type AgUiEvent,
  isProblem,
  type Run,
  type RunHandle,
  StopRequested,
  ThreadlineError,
  type ThreadRef,
  TimeoutError,
} from "../index.js";
import { AG2B_PATIENCE_MS } from "../limits.js";
import type { NewEvent } from "../types.js";
import type { AgentEvent, AssistantMessage, ToolMessage, UserMessage } from "./types.js";
import { AnswerWriter } from "./writer.js";

/** The outcome of a chat. */
export type ChatEnd = { readonly how: "done" | "aborted" } | { readonly how: "failed"; readonly error: unknown };

export class Chat {
  readonly #thread: ThreadRef;
  /** Aborted when a stop of the run is requested. */
  readonly stop: AbortController;
  readonly #runId = newId();
  readonly #ended: Promise<ChatEnd>;
  #end!: (end: ChatEnd) => void;
  /** Undefined until the run has started. If it could not be started, the binding saves the chat afterwards. */
  #producer: RunHandle | undefined;
  #run: Promise<Run> = Promise.reject(new TimeoutError("the run was not started"));
  #lost = false;
  #answer = new AnswerWriter(newId());
  /**
   * Number of answers in the history, and number of answers whose end the event stream has reached; the stream may lag
   * behind.
   */
  #answers = 0;
  #streamed = 0;

  constructor(thread: ThreadRef, stop: AbortController) {
    this.#thread = thread;
    this.stop = stop;
    this.#ended = new Promise((resolve) => (this.#end = resolve));
    this.#run.catch(() => {});
  }

  /**
   * Starts the run. Rejects if another run is active, since two concurrent chats would not see each other's messages, and
   * if the server refuses the run. While the server is unreachable, the chat continues without a run.
   */
  async begin(): Promise<void> {
    const patience = new AbortController();
    const late = new TimeoutError("the server does not respond");
    const timer = setTimeout(() => patience.abort(late), AG2B_PATIENCE_MS);
    try {
      await new Promise<void>((begun, reject) => {
        const options = { runId: this.#runId, signal: patience.signal };
        this.#run = this.#thread.run(options, (run) => this.#do(run, begun));
        this.#run.catch(reject);
      });
    } catch (error) {
      if (isProblem(error, "run-active") || !(error instanceof ThreadlineError && error.retryable)) throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  async #do(producer: RunHandle, begun: () => void): Promise<void> {
    this.#producer = producer;
    const stop = () => {
      if (producer.signal.reason instanceof StopRequested) this.stop.abort(producer.signal.reason);
    };
    producer.signal.addEventListener("abort", stop);
    begun();
    const end = await this.#ended;
    await producer.flush();
    if (end.how === "failed") throw end.error;
  }

  /** Writes the user's message; the history has it under this id. */
  said(message: UserMessage, id: string): void {
    // The run has begun before, since a chat is refused while another run is active.
    const content: NewEvent = { type: "TEXT_MESSAGE_CONTENT", messageId: id, delta: message.content };
    this.#append([
      { type: "TEXT_MESSAGE_START", messageId: id, role: "user" },
      ...(message.content === "" ? [] : [content]),
      { type: "TEXT_MESSAGE_END", messageId: id },
    ]);
  }

  /** Writes an event of the agent's loop. */
  observe(event: AgentEvent): void {
    if (event.type === "agent_content_end") this.#streamed += 1;
    // Events of a complete answer are ignored, since they were written with it.
    else if (this.#streamed === this.#answers) this.#append(this.#answer.delta(event));
  }

  /** Completes an answer; returns its id. */
  answered(message: AssistantMessage): string {
    const { id } = this.#answer;
    this.#append(this.#answer.complete(message));
    this.#answers += 1;
    this.#answer = new AnswerWriter(newId());
    return id;
  }

  /** Writes the result of a tool; the history has it under this id. */
  returned({ id: toolCallId, content }: ToolMessage, messageId: string): void {
    this.#append([{ type: "TOOL_CALL_RESULT", messageId, toolCallId, content, role: "tool" }]);
  }

  /** Ends the run. Never rejects; resolves to the last seq if the whole chat is in the log. */
  async end(end: ChatEnd): Promise<number | undefined> {
    this.#append(this.#answer.drop());
    this.#end(end);
    try {
      const run = await this.#run.catch((error: unknown) => {
        if (end.how !== "failed" || error !== end.error) throw error;
        return this.#thread.runRecord(this.#runId);
      });
      return this.#producer && !this.#lost && run.status !== "queued" ? run.lastSeq : undefined;
    } catch {
      return undefined;
    }
  }

  #append(events: readonly AgUiEvent[]): void {
    // Events that are refused or lost are saved after the end of the chat.
    if (events.length > 0) this.#producer?.append(events).catch(() => (this.#lost = true));
  }
}
