// Writes runs over the raw API, so that tests of the package do not depend on the package.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Refused, type Server } from "./server.js";

export interface Event {
  readonly type: string;
  readonly [member: string]: unknown;
}

export interface Logged {
  readonly seq: number;
  readonly runId: string;
  readonly at: string;
  readonly event: Event;
}

export interface WriteOptions {
  readonly runId?: string;
  readonly user?: string;
  /** Number of text deltas in the run. Default 10. */
  readonly deltas?: number;
  /** Number of events per append. Default 5. */
  readonly batch?: number;
  /** Milliseconds between appends. Default 0. */
  readonly paceMs?: number;
  /** Called before each append; if it returns true, writing stops and the run stays open. */
  readonly stop?: () => boolean;
}

const PATIENCE_MS = 30_000;
const RETRY_MS = 20;

/** The events of a run from RUN_STARTED to RUN_FINISHED: `deltas + 4` of them. */
export function speech(threadId: string, runId: string, deltas: number): Event[] {
  const messageId = `${runId}-text`;
  const words = Array.from({ length: deltas }, (_, index) => `wörd ${index} 💬 of ${runId}\n`);
  return [
    { type: "RUN_STARTED", threadId, runId },
    { type: "TEXT_MESSAGE_START", messageId, role: "assistant" },
    ...words.map((delta) => ({ type: "TEXT_MESSAGE_CONTENT", messageId, delta })),
    { type: "TEXT_MESSAGE_END", messageId },
    { type: "RUN_FINISHED", threadId, runId },
  ];
}

/** Creates a thread, if it does not exist. */
export async function makeThread(server: Server, threadId: string = randomUUID(), user?: string): Promise<string> {
  await persist(() => server.request("POST", "/v1/threads", { body: { threadId }, ...(user && { user }) }));
  return threadId;
}

/** The epoch of a thread's log. */
export async function epochOf(server: Server, threadId: string, user?: string): Promise<string> {
  const path = `/v1/threads/${encodeURIComponent(threadId)}`;
  return (await server.request<{ epoch: string }>("GET", path, { ...(user && { user }) })).epoch;
}

/** Writes a run into a thread; retries through cuts and restarts of the server until it is written. Returns the run's id. */
export async function write(server: Server, threadId: string, options: WriteOptions = {}): Promise<string> {
  const { runId = randomUUID(), user, deltas = 10, batch = 5, paceMs = 0, stop = () => false } = options;
  const path = `/v1/threads/${encodeURIComponent(threadId)}/runs`;
  const post = (path: string, body: unknown) =>
    persist(() => server.request("POST", path, { body, ...(user && { user }) }));
  await post(path, { runId, leaseSeconds: 60 });
  const events = speech(threadId, runId, deltas);
  for (let at = 0; at < events.length; at += batch) {
    if (stop()) return runId;
    await post(`${path}/${encodeURIComponent(runId)}/events?producerSeq=${at + 1}`, events.slice(at, at + batch));
    if (paceMs) await sleep(paceMs);
  }
  return runId;
}

/** The thread's log, from the first event to its tail. */
export async function log(server: Server, threadId: string, user?: string): Promise<Logged[]> {
  const events: Logged[] = [];
  let cursor = "";
  for (;;) {
    const path = `/v1/threads/${encodeURIComponent(threadId)}/events?limit=10000${cursor}`;
    type Page = { events: Logged[]; hasMore: boolean; nextCursor: string };
    const page = await persist(() => server.request<Page>("GET", path, { ...(user && { user }) }));
    events.push(...page.events);
    if (!page.hasMore) return events;
    cursor = `&cursor=${page.nextCursor}`;
  }
}

/** Repeats a request until it is answered: an unreachable server refuses connections or responds with 503. */
async function persist<T>(request: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await request();
    } catch (error) {
      const busy = !(error instanceof Refused) || error.status === 503 || error.status === 429;
      if (!busy || performance.now() > deadline) throw error;
      await sleep(RETRY_MS);
    }
  }
}
