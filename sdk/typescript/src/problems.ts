/**
 * Problem types of a Threadline server (RFC 9457); `GET /problems/{slug}` explains each. A test compares them with the
 * server's list.
 */
export type ProblemSlug =
  | "agent-configured"
  | "agent-not-found"
  | "blob-missing"
  | "body-timeout"
  | "branch-not-found"
  | "busy"
  | "checkpoint-not-found"
  | "claim-lost"
  | "claimed"
  | "conversation-changed"
  | "conversation-diverged"
  | "conversation-too-large"
  | "cursor-ahead"
  | "development-only"
  | "draining"
  | "forbidden"
  | "forbidden-origin"
  | "forbidden-token"
  | "foreign-thread"
  | "log-damaged"
  | "internal"
  | "interrupt-expired"
  | "interrupt-not-yours"
  | "interrupt-settled"
  | "interrupts-open"
  | "invalid-agent"
  | "invalid-cursor"
  | "invalid-event"
  | "invalid-message"
  | "invalid-request"
  | "issuer-unavailable"
  | "items-changed"
  | "items-conflict"
  | "key-exists"
  | "key-not-found"
  | "kv-changed"
  | "lineage-changing"
  | "log-replaced"
  | "method-not-allowed"
  | "not-acceptable"
  | "not-found"
  | "outcome-unknown"
  | "producer-seq-conflict"
  | "producer-seq-gap"
  | "project-not-found"
  | "queue-changed"
  | "queue-full"
  | "rate-limited"
  | "recovery-too-large"
  | "recovery-unsafe"
  | "retention-not-held"
  | "run-active"
  | "run-driven"
  | "run-not-yours"
  | "message-exists"
  | "message-not-found"
  | "run-exists"
  | "run-fenced"
  | "run-not-found"
  | "storage-full"
  | "store-unavailable"
  | "thread-ambiguous"
  | "thread-deleted"
  | "thread-exists"
  | "thread-not-found"
  | "too-large"
  | "tool-call-not-pending"
  | "too-many-branches"
  | "too-many-connections"
  | "too-many-subscriptions"
  | "turn-begun"
  | "turn-not-found"
  | "unauthorized"
  | "unknown-parameter"
  | "unresponsive"
  | "unsupported-media-type";

/** A problem document, as sent by the server. Members beyond these depend on the type. */
export interface ProblemDocument {
  readonly type?: string;
  readonly title?: string;
  readonly status?: number;
  readonly detail?: string;
  readonly help?: string;
  readonly retryable?: boolean;
  readonly retryAfterMs?: number | null;
  readonly [fact: string]: unknown;
}
