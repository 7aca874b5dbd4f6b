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

/** What must be there for a frame to make sense. */
const MEMBERS: { readonly [N in keyof Bodies]: readonly string[] } = {
  welcome: ["heartbeatSeconds"],
  hello: ["threadId", "epoch", "tail", "after"],
  events: ["threadId", "epoch", "batches"],
  caughtUp: ["threadId", "seq"],
  fellBehind: ["threadId", "seq"],
  ended: ["threadId", "reason"],
  feedHello: ["cursor"],
  feed: ["entries", "cursor"],
  feedCaughtUp: ["cursor"],
  heartbeat: [],
  pong: [],
  error: [],
  closing: ["code"],
};

/** Reads a frame; `undefined` if it is one that this client does not know. Throws a `ProtocolError` if it is none. */
export function parseFrame(text: string): ServerFrame | undefined {
  const frame = parseObject(text);
  for (const name in frame) {
    if (!Object.hasOwn(MEMBERS, name)) continue;
    const body = frame[name];
    if (!isObject(body) || MEMBERS[name as keyof Bodies].some((member) => body[member] === undefined)) {
      throw new ProtocolError(`a frame "${name}" lacks what belongs into it. Is this a Threadline server?`);
    }
    return { name, id: frame["id"], body } as unknown as ServerFrame;
  }
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
  if (!isObject(value)) throw new ProtocolError("what arrives is no JSON object. Is this a Threadline server?");
  return value;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What a subscription asks for. `after` and `epoch` are those of this moment. */
export type SubscribeRequest =
  | {
      readonly id: string;
      readonly threadId: string;
      readonly after: number;
      readonly epoch: string | undefined;
      readonly runId: string | undefined;
    }
  | { readonly id: string; readonly threadId: undefined; readonly after: number; readonly userId: string | undefined };

/** The frame that begins a subscription. */
export function subscribeFrame({ id, threadId, ...rest }: SubscribeRequest): string {
  return JSON.stringify(
    threadId === undefined ? { id, subscribeFeed: rest } : { id, subscribe: { threadId, ...rest } },
  );
}

/** The frame that ends it. */
export function unsubscribeFrame({ threadId }: SubscribeRequest): string {
  return JSON.stringify(threadId === undefined ? { unsubscribeFeed: {} } : { unsubscribe: { threadId } });
}
