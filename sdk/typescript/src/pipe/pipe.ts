// A stream of another package, appended to a run as AG-UI's events.

import { unlessAborted } from "../backoff.js";
import type { Logger } from "../config.js";
import { ConfigError, loaded } from "../errors.js";
import { toJson } from "../json.js";
import { MAX_LOGGED_CHARS, MAX_WAITING_ITEMS } from "../limits.js";
import { guarded, throwIfAborted } from "../platform.js";
import type { Pipeable, RunHandle } from "../run-handle.js";
import type { NewEvent } from "../types.js";
import { type Kind, kindOf } from "./shape.js";
import { custom, isItem, type Item, kept, type Source, StreamFailed, textOf } from "./source.js";

type Run = Pick<RunHandle, "threadId" | "runId" | "signal" | "append" | "interrupt">;

/** See `RunHandle.pipe`. */
export async function pipe(run: Run, stream: Pipeable, logger?: Logger): Promise<void> {
  const items = iterate(stream);
  let source: Source | undefined;
  /** Items from the beginning of the stream that do not tell its kind. */
  let waiting: Item[] = [];
  const unknown = new Unknown(run, logger);
  try {
    for (;;) {
      const next = await unlessAborted(items.next(), run.signal);
      if (!next.done) waiting.push(itemOf(next.value, !source && waiting.length === 0));
      if (!source) {
        const kind = next.done && waiting.length > 0 ? "ui-chunks" : decided(waiting);
        source = kind && (await load(kind));
      }
      if (source) for (const item of waiting.splice(0)) await run.append(eventsOf(source, item, unknown, run.signal));
      if (next.done) break;
    }
  } finally {
    // A source that takes its time to end holds nobody up.
    void Promise.resolve(items.return?.()).catch(() => {});
  }
  if (!source) return;
  await run.append(source.last());
  if (source.interrupts.length > 0) await run.interrupt(...source.interrupts);
}

/** The kind of the stream that begins with these items; undefined if more have to be seen. */
function decided(items: readonly Item[]): Kind | undefined {
  const item = items.at(-1);
  if (item === undefined) return undefined;
  const kind = kindOf(item);
  if (kind !== undefined && kind !== "either") return kind;
  if (items.length > MAX_WAITING_ITEMS) return "ui-chunks";
  if (items.length > 1 || kind === "either") return undefined;
  throw new ConfigError(
    `pipe does not know the stream that begins with ${toJson(kept(item)).slice(0, 200)}: pass AG-UI's events, a stream of the AI` +
      " SDK (fullStream, toUIMessageStream()), chunks of OpenAI's chat completions, or events of its Responses API",
  );
}

function eventsOf(source: Source, item: Item, unknown: Unknown, signal: AbortSignal): NewEvent[] {
  try {
    const events = source.of(item);
    if (events) return events;
  } catch (error) {
    // A stream that was made with the run's signal reports the stop as an error of its own.
    throwIfAborted(signal);
    if (error instanceof StreamFailed) throw error.cause instanceof Error ? error.cause : error;
    // A shape that the mapping did not expect is a later version's.
  }
  return unknown.isFirst(item) ? [custom("unmapped", item)] : [];
}

/** The types of a stream's items that are not known. */
class Unknown {
  readonly #run: Run;
  readonly #logger: Logger | undefined;
  readonly #seen = new Set<string>();

  constructor(run: Run, logger: Logger | undefined) {
    this.#run = run;
    this.#logger = logger;
  }

  /** True for the first item of its type, which is logged without its content. */
  isFirst(item: Item): boolean {
    const [type, name] = [item["type"], item["name"]].map((word) => textOf(word).slice(0, MAX_LOGGED_CHARS));
    const key = `${type} ${name}`;
    if (this.#seen.has(key)) return false;
    this.#seen.add(key);
    const { threadId, runId } = this.#run;
    guarded(() => this.#logger?.warn("unmapped", { threadId, runId, type: type || null, name: name || null }));
    return true;
  }
}

/** Each mapping is loaded when the first stream of its kind is piped. */
async function load(kind: Kind): Promise<Source> {
  switch (kind) {
    case "ag-ui":
      return new (await loaded(import("./ag-ui.js"))).AgUiEvents();
    case "ui-chunks":
      return new (await loaded(import("./ui-chunks.js"))).UiChunks();
    case "text-parts":
      return new (await loaded(import("./text-parts.js"))).TextParts();
    case "openai-chat":
      return new (await loaded(import("./openai-chat.js"))).ChatChunks();
    case "openai-responses":
      return new (await loaded(import("./openai-responses.js"))).ResponseEvents();
  }
}

function itemOf(value: unknown, isFirst: boolean): Item {
  if (isItem(value) && !ArrayBuffer.isView(value)) return value;
  if (!isFirst) return { value };
  throw new ConfigError(`pipe takes streams of objects, and this one has ${describe(value)}: parse its items before`);
}

function describe(value: unknown): string {
  return ArrayBuffer.isView(value)
    ? "bytes"
    : Array.isArray(value)
      ? "a list"
      : `a ${value === null ? "null" : typeof value}`;
}

function iterate(stream: Pipeable): AsyncIterator<unknown, unknown> {
  // The iterator of a stream would wait for the next item before it cancels, and not every browser has one.
  if (isItem(stream) && "getReader" in stream) {
    const reader = (stream as ReadableStream<object>).getReader();
    return {
      next: async () => (await reader.read()) as IteratorResult<unknown, unknown>,
      return: async () => {
        await reader.cancel();
        return { done: true, value: undefined };
      },
    };
  }
  const iterable = stream as Partial<AsyncIterable<unknown>> | null | undefined;
  if (typeof iterable?.[Symbol.asyncIterator] === "function") return iterable[Symbol.asyncIterator]!();
  throw new ConfigError("pipe takes a ReadableStream or an AsyncIterable");
}
