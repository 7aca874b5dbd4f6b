/**
 * The client: threads, runs, events, and one shared connection for all subscriptions.
 *
 * @module threadline
 */
export type { Agents } from "./agents.js";
export { Threadline } from "./client.js";
export type {
  HeadersSource,
  LogFields,
  Logger,
  RequestReport,
  Retries,
  ThreadlineOptions,
  TransportName,
  WebSocketClass,
} from "./config.js";
export type { FeedItem, FeedOptions } from "./connection/feed.js";
export type { FollowOptions, ThreadItem } from "./connection/follow.js";
export type { EndReason } from "./connection/frames.js";
export type { ConnectionStatus } from "./connection/status.js";
export type { Followed, Told } from "./connection/subscription.js";
export type { ConversationDocument, Conversations, SavedConversation, SaveOptions, Version } from "./conversations.js";
export type { TokenSource } from "./credentials.js";
export {
  ClosedError,
  commonCursor,
  ConfigError,
  ConnectionError,
  isProblem,
  NotResumed,
  ProblemError,
  ProtocolError,
  StopRequested,
  ThreadlineError,
  TimeoutError,
} from "./errors.js";
export type { InterruptListOptions, OpenInterrupts } from "./interrupts.js";
export type { ProblemDocument, ProblemSlug } from "./problems.js";
export type { ThreadQueue, TurnEdit } from "./queue.js";
export type {
  Ask,
  Pipeable,
  RunHandle,
  RunOptions,
  TextInit,
  TextWriter,
  ToolCallInit,
  ToolCallWriter,
} from "./run-handle.js";
export type {
  Busy,
  Cancellable,
  ReadOptions,
  RunFork,
  RunInput,
  StartOptions,
  ToolClaim,
  WholeRunOptions,
  WriteOptions,
} from "./runs.js";
export {
  type DeleteOptions,
  type EventPosition,
  type ForkOptions,
  isUnread,
  type ListOptions,
  type NewThread,
  type ThreadEdit,
  type ThreadRef,
  type Threads,
} from "./threads.js";
export type * from "./types.js";
