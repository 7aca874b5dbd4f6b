import type { Threadline } from "../client.js";
import { utf8Bytes } from "../conversation/size.js";
import { ConfigError, isProblem } from "../errors.js";
import { DEHYDRATED_BYTES, DEHYDRATED_PAGE_EVENTS, DEHYDRATED_THREADS, MESSAGES_PAGE } from "../limits.js";
import { restingSeq } from "../log.js";
import type { ThreadRef } from "../threads.js";
import type { Interrupt, LoggedEvent, Message, Thread, ThreadEvent } from "../types.js";
import { type Dehydrated, embeddable, type Seed } from "./seed.js";

type Batches = Seed["batches"];

/** Size of the members of `Dehydrated`, and of a comma and a bracket for each thread, in bytes. */
const FRAME_BYTES = 32;

/** A thread without events. */
const NOTHING: { messages: readonly Message[]; hasMore: boolean; interrupts: readonly Interrupt[] } = {
  messages: [],
  hasMore: false,
  interrupts: [],
};

/**
 * Reads threads for `<ThreadlineProvider initial>`: the server's HTML then has their messages, and the page follows each thread
 * after the last event that was read. The newest messages of each thread are included, and what its active run has
 * said so far; at most 512 KiB of JSON in total, for at most 16 threads. Threads that do not exist are left out, as is a thread
 * that is too large: the page loads it.
 *
 * The client must be one of the user who gets the page: everything that it reads is sent to the browser.
 */
export async function dehydrate(client: Threadline, threadIds: readonly string[]): Promise<Dehydrated> {
  const ids = [...new Set(threadIds)];
  if (ids.length > DEHYDRATED_THREADS)
    throw new ConfigError(`${ids.length} threads are too many for one page: pass at most ${DEHYDRATED_THREADS}`);
  const room = Math.floor(DEHYDRATED_BYTES / Math.max(1, ids.length)) - FRAME_BYTES;
  const threads = await Promise.all(ids.map((threadId) => read(client.thread(threadId), room)));
  return { threads: threads.filter((text) => text !== undefined) };
}

async function read(ref: ThreadRef, room: number): Promise<string | undefined> {
  try {
    const thread = await ref.get();
    const at = restingSeq(thread);
    const where = { at, epoch: thread.epoch };
    const [{ messages, hasMore, interrupts }, { state }, run] = await Promise.all([
      at > 0 ? ref.messages({ ...where, limit: MESSAGES_PAGE }) : NOTHING,
      at > 0 ? ref.state(where) : { state: {} },
      thread.activeRun ? readRun(ref, thread, at) : undefined,
    ]);
    return fitted({ thread, at, seq: at, messages, hasMore, state, interrupts, batches: [] }, run, room);
  } catch (error) {
    // The thread was deleted, or its log replaced, between two of the reads.
    if (isProblem(error, "thread-not-found") || isProblem(error, "log-replaced")) return undefined;
    throw error;
  }
}

/** The events after `at`, up to the newest one; undefined if they do not fit into one page. */
async function readRun(ref: ThreadRef, { epoch }: Thread, at: number): Promise<readonly LoggedEvent[] | undefined> {
  const page = await ref.events({ after: at, epoch, limit: DEHYDRATED_PAGE_EVENTS });
  return page.hasMore ? undefined : page.events;
}

/** The text of a seed, with the active run if that leaves half of the room, and with the newest messages that fit. */
function fitted(seed: Seed, run: readonly LoggedEvent[] | undefined, room: number): string | undefined {
  const last = run?.at(-1);
  let base: Seed = { ...seed, messages: [] };
  if (run && last) {
    const whole = { ...base, seq: last.seq, batches: joined(run) };
    if (weight(whole) <= room / 2) base = whole;
  }
  const { messages } = seed;
  let left = room - weight(base);
  let first = messages.length;
  for (; first > 0; first -= 1) {
    left -= weight(messages[first - 1]) + 1;
    if (left < 0) break;
  }
  if (left < 0 && first === messages.length) return undefined;
  return embeddable({ ...base, messages: messages.slice(first), hasMore: seed.hasMore || first > 0 });
}

/** Size of a value within the JSON text of `Dehydrated`, in bytes. */
function weight(value: unknown): number {
  return utf8Bytes(JSON.stringify(embeddable(value)));
}

function joined(logged: readonly LoggedEvent[]): Batches {
  const batches: { seq: number; runId: string; events: ThreadEvent[] }[] = [];
  for (const { seq, runId, event } of logged) {
    const batch = batches.at(-1);
    if (batch?.runId !== runId) {
      batches.push({ seq, runId, events: [event] });
      continue;
    }
    const both = join(batch.events.at(-1)!, event);
    if (both) batch.events[batch.events.length - 1] = both;
    else batch.events.push(event);
  }
  return batches;
}

interface Delta {
  readonly type: string;
  readonly delta?: unknown;
  readonly timestamp?: unknown;
}

/** One event in place of two deltas of the same text or call; undefined if they differ in anything else. */
function join(one: ThreadEvent, next: ThreadEvent): ThreadEvent | undefined {
  const { delta, timestamp: _, ...rest } = one as Delta;
  const { delta: more, timestamp: __, ...others } = next as Delta;
  if (!/_(CONTENT|ARGS|CHUNK)$/.test(rest.type) || typeof delta !== "string" || typeof more !== "string") return;
  return JSON.stringify(rest) === JSON.stringify(others)
    ? ({ ...rest, delta: delta + more } as ThreadEvent)
    : undefined;
}
