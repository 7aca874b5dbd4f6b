import type { UIMessageChunk } from "ai";
import { unlessAborted } from "../backoff.js";
import { throwIfAborted } from "../platform.js";
import type { Producer } from "../producer.js";
import { Events } from "./events.js";

/** A UI message stream, as `toUIMessageStream()` of the AI SDK returns it. */
export type UIMessageStream = ReadableStream<UIMessageChunk> | AsyncIterable<UIMessageChunk>;

/**
 * Appends a UI message stream of the AI SDK to a run, as AG-UI events, so that a backend that calls the model itself keeps
 * durable threads: `thread.run((run) => pipeUIMessageStream(run, streamText({ …, abortSignal: run.signal }).toUIMessageStream()))`.
 *
 * Data parts become CUSTOM events with their name; chunks without a counterpart in AG-UI become CUSTOM events `unmapped`, with
 * the chunk as the value. Requests for approval become interrupts, which end the run. Resolves at the end of the stream.
 *
 * Rejects after an `error` chunk, with its text, so that the run ends with a RUN_ERROR; and after a stop of the run, which then
 * ends as stopped. A stream that is not read to its end is cancelled.
 */
export async function pipeUIMessageStream(run: Producer, stream: UIMessageStream): Promise<void> {
  const events = new Events();
  const chunks = iterate(stream);
  try {
    for (;;) {
      const next = await unlessAborted(chunks.next(), run.signal);
      if (next.done) break;
      if (next.value.type === "abort") {
        throwIfAborted(run.signal);
        throw new Error(`the stream was aborted${next.value.reason ? `: ${next.value.reason}` : ""}`);
      }
      await run.append(events.of(next.value));
    }
  } finally {
    // A source that takes its time to end holds nobody up.
    void Promise.resolve(chunks.return?.()).catch(() => {});
  }
  await run.append(events.last(run));
}

function iterate(stream: UIMessageStream): AsyncIterator<UIMessageChunk, unknown> {
  // The iterator of a stream would wait for the next chunk before it cancels, and not every browser has one.
  if (!("getReader" in stream)) return stream[Symbol.asyncIterator]();
  const reader = stream.getReader();
  return {
    next: async () => (await reader.read()) as IteratorResult<UIMessageChunk, unknown>,
    return: async () => {
      await reader.cancel();
      return { done: true, value: undefined };
    },
  };
}
