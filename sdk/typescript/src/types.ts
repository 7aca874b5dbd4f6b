// What travels over the wire, as proto/openapi.json and proto/socket.md describe it. Times are ISO 8601 in UTC.

/** An event as it was appended: a JSON object with a `type`, as AG-UI defines them or of your own. */
export interface AgUiEvent {
  readonly type: string;
  readonly [member: string]: unknown;
}

/** An event to be appended: the same, or of a type of your own. */
export type NewEvent = AgUiEvent | { readonly type: string };

/** A message as AG-UI has it. */
export interface Message {
  readonly id: string;
  readonly role: string;
  readonly content?: unknown;
  readonly toolCalls?: readonly ToolCall[];
  readonly toolCallId?: string;
  readonly [member: string]: unknown;
}

/** A tool call of an assistant's message. */
export interface ToolCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
  readonly [member: string]: unknown;
}

/** What a run waits for: the answer of a person. */
export interface Interrupt {
  readonly id?: string;
  readonly [member: string]: unknown;
}

export type NameSource = "auto" | "title" | "person";

/** A thread: the durable container of a conversation. */
export interface Thread {
  readonly threadId: string;
  readonly name: string | null;
  readonly nameSource: NameSource | null;
  readonly agentId: string | null;
  readonly userId: string;
  readonly archived: boolean;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly createdAt: string;
  /** Last edit; appends do not count. */
  readonly updatedAt: string;
  /** When a run of it last began or ended. */
  readonly lastRunAt: string | null;
  /** Seq of the newest event, 0 if there is none. */
  readonly tail: number;
  /** Up to which event its user has read it, 0 if never; see `isUnread`. */
  readonly readSeq: number;
  /** The incarnation of the log; cursors belong to it. */
  readonly epoch: string;
  readonly activeRun: Run | null;
}

export type RunStatus = "running" | "finishing" | "finished" | "error" | "stopped" | "abandoned";

/** One execution of an agent in a thread. */
export interface Run {
  readonly runId: string;
  readonly agentId: string | null;
  readonly status: RunStatus;
  readonly errorCode: string | null;
  readonly errorMessage: string | null;
  readonly usage: readonly unknown[] | null;
  /** Seq of the event with producerSeq 1. */
  readonly firstSeq: number;
  /** Seq of its newest event; `firstSeq - 1` if it has none. */
  readonly lastSeq: number;
  /** The newest stored producerSeq, 0 if none. */
  readonly producerSeq: number;
  readonly startedAt: string;
  readonly endedAt: string | null;
  /** Until when the run may be silent; null once it has ended. */
  readonly leaseUntil: string | null;
  readonly stopRequested: boolean;
}

export interface StartedRun {
  readonly run: Run;
  readonly epoch: string;
  /** Follow from here to see the whole run. */
  readonly cursor: number;
}

/** The answer to an append: the events are durable. */
export interface Appended {
  readonly firstSeq: number;
  readonly lastSeq: number;
  /** producerSeq of the last event of this append. */
  readonly producerSeq: number;
  readonly epoch: string;
  readonly stopRequested: boolean;
  readonly leaseUntil: string | null;
}

/** An agent that runs can be handed to. */
export interface Agent {
  readonly agentId: string;
  readonly kind: "ag-ui" | "openai" | "demo";
  /** What becomes of a run whose requester leaves. */
  readonly onDisconnect: "continue" | "stop";
  readonly idleTimeoutSeconds: number;
  /** Whether it is asked for the names of its threads, where the server has no endpoint for that. */
  readonly namesThreads: boolean;
  /** Where it was written down. */
  readonly origin: "built-in" | "configuration" | "api";
  /** Where runs are sent; only shown to the project. */
  readonly url?: string;
  /** Names of the header fields sent with runs; only shown to the project. */
  readonly headerNames?: readonly string[];
  /** Only shown to the project. */
  readonly model?: string;
}

/** An event with its place in the log. */
export interface LoggedEvent {
  readonly seq: number;
  readonly runId: string;
  /** When it was committed. */
  readonly at: string;
  readonly event: AgUiEvent;
}

/** Events of one run that were committed at one moment. Event `i` has the seq `seq + i`. */
export interface EventBatch {
  readonly seq: number;
  readonly runId: string;
  readonly at: string;
  readonly events: readonly AgUiEvent[];
}

export interface EventPage {
  readonly threadId: string;
  readonly epoch: string;
  readonly tail: number;
  /** Read on from here. */
  readonly cursor: number;
  readonly hasMore: boolean;
  readonly events: readonly LoggedEvent[];
}

/** The messages after the event with seq `seq`. */
export interface MessagesPage {
  readonly threadId: string;
  readonly epoch: string;
  readonly seq: number;
  readonly messages: readonly Message[];
  /** Whether there are older ones: ask for them by `before`. */
  readonly hasMore: boolean;
  readonly interrupts: readonly Interrupt[];
  readonly pendingToolCallIds: readonly string[];
  /** Numbers beyond a double, in messages and state: each reads as null. */
  readonly skippedNumbers: number;
}

/** The state after the event with seq `seq`. */
export interface ThreadState {
  readonly threadId: string;
  readonly epoch: string;
  readonly seq: number;
  readonly state: unknown;
  /** Deltas that could not be applied; nothing of them was. */
  readonly skippedDeltas: number;
  /** Numbers beyond a double, in messages and state: each reads as null. */
  readonly skippedNumbers: number;
}

export interface ThreadPage {
  readonly threads: readonly Thread[];
  readonly nextCursor: string | null;
  /** The list and the feed after this cursor are complete together. */
  readonly feedCursor: number;
}

/** Somebody who follows a thread at this moment. */
export interface ThreadSubscription {
  /** The node that serves it. */
  readonly nodeId: string;
  /** On which way: `socket`, `sse`, `long-poll`, … */
  readonly transport: string;
  /** null: an API key without a user. */
  readonly userId: string | null;
  /** What it was let in with: `development`, `operator`, `key:ID` or `user`. */
  readonly credential: string;
  /** The run that it is bounded to, if it follows only one. */
  readonly runId: string | null;
  /** The seq that it has been given last. */
  readonly cursor: number;
  /** When it began. */
  readonly since: string;
}

/** Who follows a thread, as far as the nodes that answered know. */
export interface ThreadSubscriptions {
  /** How many nodes answered. */
  readonly nodes: number;
  /** How many there are on these nodes. */
  readonly count: number;
  /** Of each node the first 200, in the order in which they came. */
  readonly subscriptions: readonly ThreadSubscription[];
}

export interface RunPage {
  readonly runs: readonly Run[];
  readonly nextCursor: number | null;
}

/** A change of a thread in a user's feed. */
export interface FeedEntry {
  readonly cursor: number;
  readonly type: "upsert" | "delete";
  readonly threadId: string;
  /** The thread as it is now; not there if it was deleted. */
  readonly thread: Thread | null;
}

export interface FeedPage {
  readonly entries: readonly FeedEntry[];
  readonly cursor: number;
  readonly hasMore: boolean;
}
