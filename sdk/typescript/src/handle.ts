// The run that a body is given: what it appends goes to the producer, in the order of the calls.

import type { Logger } from "./config.js";
import { Conversation } from "./conversation/conversation.js";
import { ConfigError, loaded } from "./errors.js";
import { newId } from "./ids.js";
import { RESERVED_NAMES } from "./log.js";
import type { Producer } from "./producer.js";
import type { Ask, Pipeable, RunHandle, TextInit, TextWriter, ToolCallInit, ToolCallWriter } from "./run-handle.js";
import type { JsonPatch, Message, NewEvent } from "./types.js";
import { Parts, type Sink } from "./writers.js";

/** Leaves a body whose run waits for answers. */
export class Interrupted extends Error {
  override readonly name = "Interrupted";
  readonly run: object;

  constructor(run: object) {
    super("the run waits for answers");
    this.run = run;
  }
}

/** Reads of a handle from the log. */
export interface Reader {
  /** The conversation of the attempts before. */
  readonly stored: Conversation | undefined;
  history(): Promise<readonly Message[]>;
}

export class Handle<S> implements RunHandle<S> {
  readonly resumed: boolean;
  readonly stored: Conversation<S>;
  readonly state: RunHandle<S>["state"] = {
    set: (snapshot: S) => this.append({ type: "STATE_SNAPSHOT", snapshot }),
    patch: (delta: JsonPatch) => this.append({ type: "STATE_DELTA", delta }),
  };
  readonly #producer: Producer;
  readonly #reader: Reader;
  readonly #logger: Logger | undefined;
  readonly #parts: Parts;
  readonly #sink: Sink;
  #history: Promise<readonly Message[]> | undefined;
  readonly #pipes = new Set<Promise<void>>();

  constructor(producer: Producer, reader: Reader, logger: Logger | undefined) {
    this.#producer = producer;
    this.#logger = logger;
    this.#reader = reader;
    this.#sink = { append: (events) => producer.append(events), refuse: (error) => producer.refuse(error) };
    this.#parts = new Parts(this.#sink);
    this.resumed = reader.stored !== undefined;
    this.stored = (reader.stored ?? new Conversation()) as Conversation<S>;
  }

  get threadId(): string {
    return this.#producer.threadId;
  }

  get runId(): string {
    return this.#producer.runId;
  }

  get attempt(): number {
    return this.#producer.attempt;
  }

  get signal(): AbortSignal {
    return this.#producer.signal;
  }

  get epoch(): string {
    return this.#producer.epoch;
  }

  get cursor(): number {
    return this.#producer.cursor;
  }

  history(): Promise<readonly Message[]> {
    const reading = (this.#history ??= this.#reader.history());
    reading.catch(() => (this.#history = undefined));
    return reading;
  }

  text(init: TextInit = {}): TextWriter {
    return this.#parts.text(init);
  }

  reasoning(init: TextInit = {}): TextWriter {
    return this.#parts.reasoning(init);
  }

  toolCall(name: string, args?: unknown, init: ToolCallInit = {}): ToolCallWriter {
    return this.#parts.toolCall(name, args, init);
  }

  custom(name: string, value: unknown): Promise<void> {
    if (!name.startsWith(RESERVED_NAMES)) return this.append({ type: "CUSTOM", name, value });
    return this.#producer.refuse(
      new ConfigError(`${name} is a name of the server's: choose one without ${RESERVED_NAMES}`),
    );
  }

  async step<T>(name: string, work: () => T | PromiseLike<T>): Promise<T> {
    const step = this.#parts.begin(
      [{ type: "STEP_STARTED", stepName: name }],
      [{ type: "STEP_FINISHED", stepName: name }],
    );
    let result: T;
    try {
      result = await work();
    } catch (error) {
      void step.end();
      throw error;
    }
    await step.end();
    return result;
  }

  interrupt(...asks: readonly Ask[]): Promise<never> {
    const leaving = this.#interrupt(asks);
    // A body that does not await it appends in vain, and ends as it would have.
    leaving.catch(() => {});
    return leaving;
  }

  async #interrupt(asks: readonly Ask[]): Promise<never> {
    const { threadId, runId } = this;
    if (asks.length === 0) await this.#producer.refuse(new ConfigError("interrupt needs at least one question"));
    const interrupts = asks.map((ask) => ({
      ...ask,
      id: ask.id ?? newId(),
      reason: ask.reason ?? (ask.toolCallId === undefined ? "input_required" : "tool_call"),
    }));
    this.#parts.endAll();
    await this.append({ type: "RUN_FINISHED", threadId, runId, outcome: { type: "interrupt", interrupts } });
    throw new Interrupted(this);
  }

  pipe(stream: Pipeable): Promise<void> {
    const reading = this.#pipe(stream);
    // A failure that nobody awaits is reported by the engine, or by the end of the run if that is reached before.
    const piping = reading.then();
    this.#pipes.add(piping);
    const done = () => this.#pipes.delete(piping);
    reading.then(done, done);
    return piping;
  }

  async #pipe(stream: Pipeable): Promise<void> {
    const { pipe } = await loaded(import("./pipe/pipe.js"));
    await pipe(this, stream, this.#logger);
  }

  append(events: NewEvent | readonly NewEvent[]): Promise<void> {
    return this.#producer.append(events);
  }

  flush(): Promise<void> {
    return this.#producer.flush();
  }

  /** Waits for the streams that are still read, and ends what is open, in the order in which it began. */
  async end(): Promise<void> {
    await Promise.all(this.#pipes);
    this.#parts.endAll();
  }

  /** Called when the run has ended: what is still read has failed with it. */
  release(): void {
    for (const piping of this.#pipes) piping.catch(() => {});
  }
}
