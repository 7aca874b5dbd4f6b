// A reader for tests: follows a thread with a client, and records the items.

import { expect } from "vitest";
import { WebSocket } from "ws";
import type {
  ConnectionStatus,
  Followed,
  FollowOptions,
  ThreadItem,
  ThreadlineOptions,
  TransportName,
} from "../../src/index.js";
import { ClosedError, Threadline, type ThreadlineError, type WebSocketClass } from "../../src/index.js";
import type { Logged } from "../harness/writer.js";

export const TRANSPORTS: readonly TransportName[] = ["websocket", "sse", "long-poll"];

/** A client, configured as in a Node application. */
export function connect(options: ThreadlineOptions): Threadline {
  return new Threadline({ WebSocket: WebSocket as unknown as WebSocketClass, ...options });
}

export class Reader {
  readonly items: ThreadItem[] = [];
  readonly events: Logged[] = [];
  error: ThreadlineError | undefined;
  readonly followed: Followed;

  constructor(client: Threadline, threadId: string, options: FollowOptions = {}) {
    this.followed = client.thread(threadId).follow({
      ...options,
      onItem: (item) => this.#take(item),
      onError: (error) => void (this.error = error),
    });
  }

  /** Number of items of this type. */
  count(type: ThreadItem["type"]): number {
    return this.items.filter((item) => item.type === type).length;
  }

  #take(item: ThreadItem): void {
    this.items.push(item);
    if (item.type !== "events") return;
    for (const { seq, runId, at, events } of item.batches) {
      events.forEach((event, index) => this.events.push({ seq: seq + index, runId, at, event }));
    }
  }
}

/** Expects each event once, in order, and exactly as in the log. */
export function expectExactly(events: readonly Logged[], log: readonly Logged[]): void {
  expect(events.map(({ seq }) => seq)).toEqual(log.map(({ seq }) => seq));
  expect(JSON.stringify(events)).toBe(
    JSON.stringify(log.map(({ seq, runId, at, event }) => ({ seq, runId, at, event }))),
  );
}

/** Records every status of a client from now on. */
export function statuses(client: Threadline): ConnectionStatus[] {
  const seen = [client.status];
  client.onStatus((status) => seen.push(status));
  return seen;
}

/** Listener of a subscription that ends with its client. */
export function unexpected(error: ThreadlineError): void {
  if (!(error instanceof ClosedError)) throw error;
}
