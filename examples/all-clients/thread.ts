// The thread as a Durable Stream: its messages, and what a page has to know of runs that other clients started.

import { HttpAgent } from "@ag-ui/client";
import { stream } from "@durable-streams/client";
import { useEffect, useState } from "react";

/** Message as a person reads it. */
export type Line = { role: "user" | "assistant"; text: string };

export type Activity = {
  /** Grows with every start, takeover and end of a run, and with every connection: clients that do not follow a thread look again. */
  change: number;
  /** The run that is active. */
  runId: string | null;
};

type Event = { type: string; runId?: string; name?: string };
type Seen = { lines: Line[]; activity: Activity; error: string | undefined };

const RETRY_MS = 500;
const ENDS = ["RUN_FINISHED", "RUN_ERROR"];

/** The texts of AG-UI messages. */
export function linesOf(messages: readonly { role: string; content?: unknown }[]): Line[] {
  return messages.flatMap(({ role, content }) => {
    const text = textOf(content);
    return (role === "user" || role === "assistant") && text ? [{ role, text }] : [];
  });
}

/** The text of a content that is one, or has parts. */
export function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  return Array.isArray(content) ? content.map((part: { text?: string }) => part.text ?? "").join("") : "";
}

/** AG-UI's client as the fold of events that come from elsewhere: to the client, each run is the response to a request. */
class Fold {
  readonly #agent: HttpAgent;
  readonly #text = new TextEncoder();
  #body: ReadableStream<Uint8Array> | null = null;
  #run: WritableStreamDefaultWriter<Uint8Array> | null = null;
  /** Runs are folded one after the other, because each one continues the messages of the one before. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(shows: (lines: Line[]) => void) {
    const headers = { "Content-Type": "text/event-stream" };
    this.#agent = new HttpAgent({ url: "durable-stream:", fetch: async () => new Response(this.#body, { headers }) });
    this.#agent.subscribe({ onMessagesChanged: ({ messages }) => shows(linesOf(messages)) });
  }

  take(event: Event): void {
    if (event.type === "RUN_STARTED") this.#run ??= this.#begin(event.runId ?? "");
    void this.#run?.write(this.#text.encode(`data: ${JSON.stringify(event)}\n\n`));
    if (ENDS.includes(event.type)) {
      void this.#run?.close();
      this.#run = null;
    }
  }

  #begin(runId: string): WritableStreamDefaultWriter<Uint8Array> {
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    this.#last = this.#last.then(() => {
      this.#body = readable;
      // The error of a failed run is shown by the clients that asked for it.
      return this.#agent.runAgent({ runId }).catch(() => {});
    });
    return writable.getWriter();
  }
}

/** Reads the thread until the signal: from the last offset again after each lost connection. */
async function follow(
  url: string,
  signal: AbortSignal,
  take: (events: Event[]) => void,
  lost: (error: unknown) => void,
) {
  let offset = "-1";
  while (!signal.aborted) {
    try {
      const response = await stream<Event>({ url, offset, live: "sse", signal });
      take([]);
      response.subscribeJson(async (batch) => {
        offset = batch.offset;
        take([...batch.items]);
      });
      await response.closed;
    } catch (error) {
      if (!signal.aborted) lost(error);
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

/** The thread, followed while the page is open. */
export function useThread(server: string, threadId: string): Seen {
  const [lines, setLines] = useState<Line[]>([]);
  const [activity, setActivity] = useState<Activity>({ change: 0, runId: null });
  const [error, setError] = useState<string>();
  useEffect(() => {
    const abort = new AbortController();
    const fold = new Fold(setLines);
    let runId: string | null = null;
    const take = (events: Event[]) => {
      setError(undefined);
      // An empty batch stands for a new connection.
      let news = events.length === 0;
      for (const event of events) {
        fold.take(event);
        if (event.type === "RUN_STARTED") runId = event.runId ?? null;
        if (ENDS.includes(event.type)) runId = null;
        news ||= event.type === "RUN_STARTED" || ENDS.includes(event.type) || event.name === "threadline.attempt";
      }
      if (news) setActivity(({ change }) => ({ change: change + 1, runId }));
    };
    const url = `${server}/streams/v1/stream/threads/${encodeURIComponent(threadId)}`;
    void follow(url, abort.signal, take, (lost) => setError(String(lost)));
    return () => abort.abort();
  }, [server, threadId]);
  return { lines, activity, error };
}
