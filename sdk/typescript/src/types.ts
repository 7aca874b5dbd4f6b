// Wire types, as described by proto/openapi.json and proto/socket.md. Times are ISO 8601 strings in UTC.

import type { ThreadEvent } from "./events.js";
import type { Interrupt, Message } from "./generated/agui.js";
import type { State, ThreadMetadata } from "./register.js";

export type * from "./events.js";
export type * from "./generated/agui.js";
export type * from "./register.js";

/** An interrupt that waits for an answer, with the thread that waits. */
export interface OpenInterrupt {
  readonly threadId: string;
  readonly threadName: string | null;
  readonly userId: string;
  /** The agent that requested it, else the agent of the thread: a run with the answer goes to it. */
  readonly agentId: string | null;
  /** The run that ended with the request. */
  readonly runId: string;
  /** Author of that run, such as `agent:helper`. */
  readonly author: string | null;
  /** Seq of the RUN_FINISHED with the request. */
  readonly seq: number;
  /** The epoch of `seq`. */
  readonly epoch: string;
  readonly openedAt: string;
  /**
   * The interrupt. One of more than 8 KiB has only `id`, `reason`, `message` and `toolCallId`, each cut, and `truncated`: true;
   * `ThreadRef.messages` returns the whole.
   */
  readonly interrupt: Interrupt & { readonly truncated?: true };
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
  readonly metadata: ThreadMetadata;
  readonly createdAt: string;
  /** Time of the last edit; appends do not count. */
  readonly updatedAt: string;
  /** Time at which a run of this thread last started or ended. */
  readonly lastRunAt: string | null;
  /** Seq of the newest event; 0 if there is none. */
  readonly tail: number;
  /** Seq of the last event that the user has read; 0 if none. See `isUnread`. */
  readonly readSeq: number;
  /** The incarnation of the log. Cursors are valid only within their epoch. */
  readonly epoch: string;
  readonly activeRun: Run | null;
  /** The newest run, active or not; null if there was none. */
  readonly lastRun: LastRun | null;
  /** Number of interrupts that wait for an answer. */
  readonly openInterrupts: number;
  /** Number of turns that wait in the queue. */
  readonly queued: number;
  /** Reason for which the queue rests until it is released; null if it does not. */
  readonly held: Hold | null;
  /** The origin of the first events, if the thread is a fork. */
  readonly forkedFrom: ForkedFrom | null;
  /** True if the thread is one of several branches, or was before the others were deleted; see `ThreadRef.branches`. */
  readonly branched: boolean;
  /** False of a branch that lists and feeds leave out, because they show another one of its conversation. */
  readonly listed: boolean;
}

/** The origin of a fork. Forks of one place name the same origin. */
export interface ForkedFrom {
  /** The thread that was forked, which may have been deleted since. */
  readonly threadId: string;
  /** The epoch of its log at that time. */
  readonly epoch: string;
  /** Seq of the last event that both have. */
  readonly seq: number;
}

/** Reason for which a queue rests until it is released: a stop, a failed run, or a request to hold it. */
export type Hold = "stop" | "error" | "hand";

/** The queue of a thread: turns that begin one after the other, each when the run before has ended. */
export interface Queue {
  readonly threadId: string;
  /** The epoch of the log. */
  readonly epoch: string;
  /** A number that grows with every change of the queue, within an epoch. */
  readonly version: number;
  /** Reason for which the queue rests until it is released; null if it does not. A queue also rests while interrupts are open. */
  readonly held: Hold | null;
  /** The turns, the next one first. */
  readonly items: readonly QueuedTurn[];
}

/** A turn that waits. */
export interface QueuedTurn {
  /** The id of the run that it becomes. */
  readonly runId: string;
  readonly agentId: string;
  /** Caller that asked, in the form of a run's `askedBy`. */
  readonly askedBy: string | null;
  /** Time of the request. */
  readonly at: string;
  /** The messages of the request. */
  readonly messages: readonly Message[];
}

/** State of a queue, without its turns. */
export interface QueueState {
  /** The epoch of the log. */
  readonly epoch: string;
  readonly version: number;
  /** Number of turns that wait. */
  readonly queued: number;
  readonly held: Hold | null;
}

/** The record of a run that has not begun: its turn is queued. */
export interface QueuedRun {
  readonly runId: string;
  readonly agentId: string;
  readonly status: "queued";
  readonly askedBy: string | null;
  /** Place in the queue; 1 is the next. */
  readonly place: number;
  /** Version of the queue. */
  readonly version: number;
  readonly driven: true;
}

/**
 * State of a thread, the first that applies: a run is active; interrupts wait for an answer; the last run ended with the
 * status `error` or `abandoned`; none of these.
 */
export type ThreadStatus = "running" | "waiting" | "failed" | "idle";

/** State of a thread's newest run. */
export interface LastRun {
  readonly runId: string;
  readonly status: RunStatus;
  /** `code` of its RUN_ERROR, if it has one. */
  readonly errorCode: string | null;
  /** Time at which it ended; null while it is active. */
  readonly endedAt: string | null;
}

export type RunStatus = "running" | "finishing" | "finished" | "error" | "stopped" | "abandoned";

/** One execution of an agent in a thread. */
export interface Run {
  readonly runId: string;
  readonly agentId: string | null;
  /** Author of the run, such as `agent:helper` or `user:ann`; null for a run from before authors were stored. */
  readonly author: string | null;
  /** Caller that asked for the run, in the same form. */
  readonly askedBy: string | null;
  /** Number of the present attempt, from 1: a run that the server drives gets a new one when another node takes it over. */
  readonly attempt: number;
  /** True if the server drives the run: then nobody else writes into it. */
  readonly driven: boolean;
  readonly status: RunStatus;
  readonly errorCode: string | null;
  readonly errorMessage: string | null;
  readonly usage: readonly unknown[] | null;
  /** Seq of the event with producerSeq 1. */
  readonly firstSeq: number;
  /** Seq of the newest event of the run; `firstSeq - 1` if there is none. */
  readonly lastSeq: number;
  /** The newest stored producerSeq; 0 if there is none. */
  readonly producerSeq: number;
  readonly startedAt: string;
  readonly endedAt: string | null;
  /** Time until which the run may be silent; null once it has ended, and for a run that the server drives. */
  readonly leaseUntil: string | null;
  readonly stopRequested: boolean;
}

/** The response to a request for a run that has begun. */
export interface StartedRun {
  /** The thread of the run: the fork, if the request has one. */
  readonly threadId: string;
  readonly run: Run;
  readonly epoch: string;
  /** The cursor from which a follower receives the whole run. */
  readonly cursor: number;
  readonly queued?: undefined;
}

/** The response to a request for a run that waits: a turn of the queue. */
export interface PlacedTurn {
  readonly queued: {
    /** The id of the run that the turn becomes. */
    readonly runId: string;
    /** Place in the queue; 1 is the next. */
    readonly place: number;
    /** Version of the queue. */
    readonly version: number;
  };
  readonly run?: undefined;
}

/** The response to an append. The events are durable. */
export interface Appended {
  readonly firstSeq: number;
  readonly lastSeq: number;
  /** producerSeq of the last event of this append. */
  readonly producerSeq: number;
  readonly epoch: string;
  readonly stopRequested: boolean;
  readonly leaseUntil: string | null;
}

/** Input that untrusted clients may supply to a run of an agent. Other input is ignored. */
export interface ClientMay {
  /** Clients that the rules concern: untrusted ones, or keys as well. */
  readonly for: "untrusted" | "all";
  /** Source of the messages that the agent is given: the log, or the client. */
  readonly history: "reference" | "replace";
  /** Place of new messages of role `system` or `developer`. */
  readonly system: "context" | "keep" | "ignore";
  /** True if the client's state replaces the thread's. */
  readonly state: boolean;
  /** Tools of the front end that are handed to the agent: all, none, or those of these names. */
  readonly tools: boolean | readonly string[];
  /** Calls whose results are accepted: those of the client's own tools, or all open ones. */
  readonly results: "own" | "any";
}

/** An agent to which runs can be delegated. */
export interface Agent {
  readonly agentId: string;
  readonly kind: "ag-ui" | "openai" | "demo";
  /** What happens to a run whose requester disconnects. */
  readonly onDisconnect: "continue" | "stop";
  readonly idleTimeoutSeconds: number;
  /** True if the agent itself is asked to name its threads, where the server has no endpoint for titles. */
  readonly namesThreads: boolean;
  /** Clients that may answer the agent's interrupts: all with the scope `approve`, or only keys. */
  readonly approvals: "user" | "backend";
  /** Input that untrusted clients may supply to a run. */
  readonly clientMay: ClientMay;
  /** Names of the agent's own tools, which no untrusted client may supply. */
  readonly reservedTools: readonly string[];
  /** Parts of a run's input that are kept with the run. */
  readonly record: "digest" | "full";
  /** What happens to a run whose server is lost while the agent answers. */
  readonly recovery: "retry" | "continue" | "none";
  /** True if the agent's tool calls may be carried out twice. */
  readonly toolsRepeatable: boolean;
  /** What happens to a request that meets an active run and does not say so itself. */
  readonly busy: "reject" | "enqueue" | "interrupt";
  /** Where the agent was defined. */
  readonly origin: "built-in" | "configuration" | "api";
  /** The URL to which runs are sent; visible only to the project. */
  readonly url?: string;
  /** Names of the header fields that are sent with runs; visible only to the project. */
  readonly headerNames?: readonly string[];
  /** Name of the model; visible only to the project. */
  readonly model?: string;
}

/** An event with its position in the log. */
export interface LoggedEvent {
  readonly seq: number;
  readonly runId: string;
  /** Time of the commit. */
  readonly at: string;
  readonly event: ThreadEvent;
}

/** Events of one run that were committed together. Event `i` has the seq `seq + i`. */
export interface EventBatch {
  readonly seq: number;
  readonly runId: string;
  readonly at: string;
  readonly events: readonly ThreadEvent[];
}

export interface EventPage {
  readonly threadId: string;
  readonly epoch: string;
  readonly tail: number;
  /** The cursor of the next page in the same direction. */
  readonly nextCursor: string;
  readonly hasMore: boolean;
  readonly events: readonly LoggedEvent[];
}

/** The messages after the event with seq `seq`. */
export interface MessagesPage {
  readonly threadId: string;
  readonly epoch: string;
  readonly seq: number;
  readonly messages: readonly Message[];
  /** True if there are older messages; request them with `before`. */
  readonly hasMore: boolean;
  readonly interrupts: readonly Interrupt[];
  readonly pendingToolCallIds: readonly string[];
  /** Count of numbers in messages and state that are out of the range of a double; each reads as null. */
  readonly skippedNumbers: number;
}

/** The state after the event with seq `seq`. */
export interface ThreadState {
  readonly threadId: string;
  readonly epoch: string;
  readonly seq: number;
  readonly state: State;
  /** Count of deltas that could not be applied. Such a delta has no effect at all. */
  readonly skippedDeltas: number;
  /** Count of numbers in messages and state that are out of the range of a double; each reads as null. */
  readonly skippedNumbers: number;
}

export interface ThreadPage {
  readonly threads: readonly Thread[];
  readonly nextCursor: string | null;
  /** The feed cursor at which this list was read. The list and the feed after this cursor are complete together. */
  readonly feedCursor: number;
  /** The epoch of `feedCursor`: the feed is read with both. */
  readonly feedEpoch: string;
}

/** A current subscription to a thread. */
export interface ThreadSubscription {
  /** The node that serves the subscription. */
  readonly nodeId: string;
  /** The transport: `socket`, `sse`, `long-poll`, … */
  readonly transport: string;
  /** The user of the subscription; null for an API key without a user. */
  readonly userId: string | null;
  /** The credential of the subscription: `development`, `operator`, `key:ID` or `user`. */
  readonly credential: string;
  /** The run to which the subscription is limited; null for the whole thread. */
  readonly runId: string | null;
  /** The seq of the last event that was sent. */
  readonly cursor: number;
  /** Time at which the subscription started. */
  readonly since: string;
}

/** Subscriptions to a thread, as reported by the nodes that responded. */
export interface ThreadSubscriptions {
  /** Number of nodes that responded. */
  readonly nodes: number;
  /** Number of subscriptions on these nodes. */
  readonly count: number;
  /** The first 200 subscriptions of each node, oldest first. */
  readonly subscriptions: readonly ThreadSubscription[];
}

/** A page of open interrupts. */
export interface InterruptPage {
  readonly interrupts: readonly OpenInterrupt[];
  readonly nextCursor: string | null;
  /** The feed cursor at which this page was read: `openInterrupts` and `activeRun` of later entries tell what has changed. */
  readonly feedCursor: number;
  /** The epoch of `feedCursor`. */
  readonly feedEpoch: string;
}

export interface RunPage {
  readonly runs: readonly Run[];
  readonly nextCursor: string | null;
}

/** A change of a thread in a user's feed. */
export interface FeedEntry {
  readonly cursor: number;
  readonly type: "upsert" | "delete";
  readonly threadId: string;
  /** The thread as it is now; null if it was deleted. */
  readonly thread: Thread | null;
}

export interface FeedPage {
  readonly epoch: string;
  readonly entries: readonly FeedEntry[];
  readonly cursor: number;
  /** The cursor of the next page. */
  readonly nextCursor: string;
  readonly hasMore: boolean;
}
