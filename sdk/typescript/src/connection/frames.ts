// Frames of the socket, as proto/socket.md has them. The other transports put what they read into the same frames.

import { ProtocolError } from "../errors.js";
import type { ProblemDocument } from "../problems.js";
import type { EventBatch, FeedEntry } from "../types.js";

/** Why a subscription has ended, in the server's words; there may be more of them one day. */
export type EndReason = "run-ended" | "thread-deleted" | "unsubscribed";

export interface Position {
  readonly threadId: string;
  readonly epoch: string;
  readonly seq: number;
}

interface Bodies {
  readonly welcome: { readonly heartbeatSeconds: number };
  readonly hello: {
    readonly threadId: string;
    readonly epoch: string;
    readonly tail: number;
    readonly after: number;
  };
  readonly events: { readonly threadId: string; readonly epoch: string; readonly batches: readonly EventBatch[] };
  readonly caughtUp: Position;
  readonly fellBehind: Position;
  readonly ended: { readonly threadId: string; readonly reason: EndReason; readonly seq?: number | null };
  readonly feedHello: { readonly cursor: number };
  readonly feed: { readonly entries: readonly FeedEntry[]; readonly cursor: number };
  readonly feedCaughtUp: { readonly cursor: number };
  readonly feedEnded: { readonly reason: "unsubscribed" | "user-erased" };
  readonly heartbeat: object;
  readonly pong: object;
  readonly error: ProblemDocument & { readonly threadId?: string };
  readonly closing: { readonly code: number; readonly reason: string; readonly retryAfterMs?: number | null };
}

/** What the server says. `id` is that of the request that it answers. */
export type ServerFrame = {
  readonly [N in keyof Bodies]: { readonly name: N; readonly id?: string | undefined; readonly body: Bodies[N] };
}[keyof Bodies];

/** A frame of this name. */
export type FrameOf<N extends ServerFrame["name"]> = Extract<ServerFrame, { readonly name: N }>;

/**
 * Reads a frame; `undefined` if it has none that could be known. Those of later versions are for nobody: whoever gets them
 * passes them over. Throws a `ProtocolError` if it is no JSON object.
 */
export function parseFrame(text: string): ServerFrame | undefined {
  const { id, ...frame } = parseObject(text);
  for (const name in frame) if (isObject(frame[name])) return { name, id, body: frame[name] } as unknown as ServerFrame;
  return undefined;
}

/** Reads a JSON object. Throws a `ProtocolError` if it is none. */
export function parseObject(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (!isObject(value)) throw new ProtocolError("a frame is not a JSON object. Is this a Threadline server?");
  return value;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What a subscription asks for, `after` and `epoch` being those of this moment: a thread, or the feed if there is none. */
export interface SubscribeRequest {
  readonly id: string;
  readonly after: number;
  readonly threadId?: string | undefined;
  readonly epoch?: string | undefined;
  readonly runId?: string | undefined;
  readonly userId?: string | undefined;
}

/** The frame that begins a subscription. */
export function subscribeFrame({ id, ...wanted }: SubscribeRequest): string {
  return JSON.stringify({ id, [wanted.threadId === undefined ? "subscribeFeed" : "subscribe"]: wanted });
}

/** The frame that ends it. */
export function unsubscribeFrame({ threadId }: SubscribeRequest): string {
  return JSON.stringify(threadId === undefined ? { unsubscribeFeed: {} } : { unsubscribe: { threadId } });
}
