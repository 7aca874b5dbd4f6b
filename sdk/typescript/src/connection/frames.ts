// Frames of the socket, as described by proto/socket.md. The other transports convert their input to the same frames.

import { ProtocolError } from "../errors.js";
import type { ProblemDocument } from "../problems.js";
import type { EventBatch, FeedEntry, QueueState } from "../types.js";

/** Why a subscription has ended, as reported by the server; later versions may add reasons. */
export type EndReason = "run-ended" | "thread-deleted" | "log-replaced" | "log-damaged" | "unsubscribed";

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
  readonly rebased: {
    readonly threadId: string;
    readonly from: string;
    readonly epoch: string;
    readonly after: number;
  };
  readonly queue: QueueState & { readonly threadId: string };
  readonly ended: {
    readonly threadId: string;
    readonly reason: EndReason;
    readonly seq?: number | null;
    /** The present log, if the reason is `log-replaced`. */
    readonly epoch?: string | null;
    readonly tail?: number;
    readonly commonUpTo?: number | null;
    /** The damaged events, if the reason is `log-damaged`. */
    readonly firstSeq?: number;
    readonly lastSeq?: number;
  };
  readonly feedHello: { readonly epoch: string; readonly cursor: number };
  readonly feedRebased: { readonly epoch: string; readonly cursor: number };
  readonly feed: { readonly entries: readonly FeedEntry[]; readonly cursor: number };
  readonly feedCaughtUp: { readonly cursor: number };
  readonly feedEnded: { readonly reason: "unsubscribed" | "log-replaced" };
  readonly heartbeat: object;
  readonly pong: object;
  readonly error: ProblemDocument & { readonly threadId?: string };
  readonly closing: { readonly code: number; readonly reason: string; readonly retryAfterMs?: number | null };
}

/** Frames of the server. `id` is that of the request to which the frame responds. */
export type ServerFrame = {
  readonly [N in keyof Bodies]: { readonly name: N; readonly id?: string | undefined; readonly body: Bodies[N] };
}[keyof Bodies];

/** The frame with this name. */
export type FrameOf<N extends ServerFrame["name"]> = Extract<ServerFrame, { readonly name: N }>;

/**
 * Parses a frame; `undefined` for a frame of an unknown kind, since later versions may add kinds. Throws a `ProtocolError`
 * for anything but a JSON object.
 */
export function parseFrame(text: string): ServerFrame | undefined {
  const { id, ...frame } = parseObject(text);
  for (const name in frame) if (isObject(frame[name])) return { name, id, body: frame[name] } as unknown as ServerFrame;
  return undefined;
}

/** Parses a JSON object. Throws a `ProtocolError` for anything else. */
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

/**
 * The request of a subscription, with `after` and `epoch` at the time of the request: for a thread, or for the feed if
 * `threadId` is absent.
 */
export interface SubscribeRequest {
  readonly id: string;
  readonly after: number;
  readonly threadId?: string | undefined;
  readonly epoch?: string | undefined;
  readonly runId?: string | undefined;
  readonly userId?: string | undefined;
}

/** The frame that starts a subscription. */
export function subscribeFrame({ id, ...wanted }: SubscribeRequest): string {
  return JSON.stringify({ id, [wanted.threadId === undefined ? "subscribeFeed" : "subscribe"]: wanted });
}

/** The frame that ends a subscription. */
export function unsubscribeFrame({ threadId }: SubscribeRequest): string {
  return JSON.stringify(threadId === undefined ? { unsubscribeFeed: {} } : { unsubscribe: { threadId } });
}
