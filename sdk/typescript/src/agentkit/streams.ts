// Handling of AgentKit's stream by `publish`: it is written into the open run of its thread, or, inside an Inngest
// function, as one complete run for each agent's reply.

import type { AgentMessageChunk } from "@inngest/agent-kit";
import { isProblem } from "../errors.js";
import { STREAMED_REPLIES, STREAMED_THREADS } from "../limits.js";
import type { ThreadRef } from "../threads.js";
import type { AgUiEvent } from "../types.js";
import { Lane } from "./lane.js";
import { LiveRun } from "./live.js";
import { put, runIdOf, whole } from "./whole.js";

/** A thread on which networks of this process work. */
export interface Session {
  readonly thread: ThreadRef;
  readonly agentId: string | undefined;
  /** True inside an Inngest function, whose executions end at every step, so that no run can be held open. */
  readonly durable: boolean;
  /** Creates the thread, unless it is known to exist. */
  readonly make: () => Promise<void>;
}

interface Stream {
  session: Session;
  live: Promise<LiveRun | undefined> | undefined;
  /** Unfinished replies, by message id. */
  readonly lanes: Map<string, Reply>;
  /** Ids of replies that are in the log. */
  readonly streamed: Set<string>;
}

interface Reply {
  readonly lane: Lane;
  /** The run into which the reply is written as it arrives. */
  readonly live: LiveRun | undefined;
  /** Events that are collected for a complete run. */
  readonly kept: AgUiEvent[];
}

/** The streams of one history. */
export class Streams {
  /** Streams by thread id, in the order in which they were last opened. */
  readonly #streams = new Map<string, Stream>();

  /** Called when a network or an agent starts to work on a thread. */
  open(session: Session): void {
    const { threadId } = session.thread;
    const stream = this.#streams.get(threadId) ?? newStream(session);
    stream.session = session;
    this.#streams.delete(threadId);
    this.#streams.set(threadId, stream);
    for (const [id, { live }] of this.#streams) {
      if (this.#streams.size <= STREAMED_THREADS) break;
      if (!live) this.#streams.delete(id);
    }
  }

  /** The open run of a thread, if it accepts events. */
  async live(threadId: string): Promise<LiveRun | undefined> {
    const live = await this.#streams.get(threadId)?.live;
    return live?.over ? undefined : live;
  }

  /** Those of the given ids of results whose messages are already in the log. */
  async streamed(threadId: string, ids: readonly string[]): Promise<ReadonlySet<string>> {
    const stream = this.#streams.get(threadId);
    if (!stream) return new Set();
    for (const id of ids) {
      // An agent without a network reports the end of its reply only after its result is saved.
      const reply = stream.lanes.get(id);
      if (reply) await this.#end(stream, reply).catch(() => {});
    }
    return new Set(ids.filter((id) => stream.streamed.has(id)));
  }

  /** Forgets saved results, which will not be requested again. */
  forget(threadId: string, ids: readonly string[]): void {
    for (const id of ids) this.#streams.get(threadId)?.streamed.delete(id);
  }

  /** Handles a chunk of AgentKit's stream. */
  async take(chunk: AgentMessageChunk): Promise<void> {
    const { event, data } = chunk;
    // For an agent without a network and without a given thread, the chunk does not contain the thread's id.
    const stream = this.#streams.get(String(data["threadId"]));
    if (!stream) return;
    const runId = String(data["runId"]);
    const messageId = String(data["messageId"]);
    const isNetwork = data["scope"] === "network";
    const reply = stream.lanes.get(messageId);
    switch (event) {
      case "run.started":
        if (isNetwork) return this.#join(stream, runId);
        // An agent without a network starts before its thread exists, so its reply is started with its first part.
        if (data["parentRunId"] !== undefined) await this.#begin(stream, messageId, data["name"]);
        return;
      case "run.failed":
        return (await stream.live)?.fail(String(data["error"]));
      case "run.completed":
        if (reply) return this.#end(stream, reply);
        return this.#leave(stream, runId);
      case "part.created":
        if (!reply) {
          await this.#join(stream, runId);
          const { agentName } = (data["metadata"] ?? {}) as { agentName?: string };
          await this.#begin(stream, messageId, agentName);
        }
    }
    const open = stream.lanes.get(messageId);
    if (open) await this.#append(stream, open, open.lane.events(chunk));
  }

  async #begin(stream: Stream, messageId: string, name: unknown): Promise<void> {
    const reply = { lane: new Lane(messageId, String(name)), live: await stream.live, kept: [] };
    stream.lanes.set(messageId, reply);
    if (stream.lanes.size > STREAMED_REPLIES) dropFirst(stream.lanes);
    await this.#append(stream, reply, reply.lane.begin());
  }

  async #end(stream: Stream, reply: Reply): Promise<void> {
    const { messageId } = reply.lane;
    stream.lanes.delete(messageId);
    await this.#append(stream, reply, reply.lane.end());
    const { thread, agentId, durable, make } = stream.session;
    if (durable) {
      await make();
      await put(thread, whole(thread.threadId, await runIdOf("l", [messageId]), reply.kept), agentId);
    } else {
      if (!reply.live || reply.live.over) return;
      await reply.live.flush();
    }
    stream.streamed.add(messageId);
    if (stream.streamed.size > STREAMED_REPLIES) dropFirst(stream.streamed);
  }

  async #append(stream: Stream, reply: Reply, events: AgUiEvent[]): Promise<void> {
    if (events.length === 0) return;
    if (stream.session.durable) reply.kept.push(...events);
    // After the end of a run its stream is no longer shown; the result is saved later.
    else if (!reply.live?.over) await reply.live?.append(events);
  }

  async #join(stream: Stream, network: string): Promise<void> {
    while (!stream.session.durable) {
      const begun = (stream.live ??= begin(stream.session, network));
      try {
        const live = await begun;
        if (!live || live.join(network)) return;
        // The previous run is about to end.
        await live.ended();
        forget(stream, begun);
      } catch (error) {
        forget(stream, begun);
        throw error;
      }
    }
  }

  async #leave(stream: Stream, network: string): Promise<void> {
    const begun = stream.live;
    const live = await begun;
    // AgentKit reports the completion of some networks twice.
    if (live && !live.has(network)) return;
    try {
      await live?.leave(network);
    } finally {
      if (!live || live.over) forget(stream, begun);
    }
  }
}

/** Removes the stream's run, unless another one has been started meanwhile. */
function forget(stream: Stream, begun: Stream["live"]): void {
  if (stream.live === begun) stream.live = undefined;
}

async function begin({ thread, agentId, make }: Session, network: string): Promise<LiveRun | undefined> {
  try {
    await make();
    return await LiveRun.begin(thread, await runIdOf("n", [network]), agentId);
  } catch (error) {
    // Another producer works on the thread, so the output of this network is saved when it has finished.
    if (isProblem(error, "run-active")) return undefined;
    throw error;
  }
}

function newStream(session: Session): Stream {
  return { session, live: undefined, lanes: new Map(), streamed: new Set() };
}

function dropFirst(collection: { keys(): Iterable<string>; delete(key: string): boolean }): void {
  for (const first of collection.keys()) return void collection.delete(first);
}
