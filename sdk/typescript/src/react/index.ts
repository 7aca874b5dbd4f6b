"use client";

export type { ConnectionStatus } from "../connection/status.js";
export type {
  Agent,
  AgUiEvent,
  Interrupt,
  Message,
  NewMessage,
  OpenInterrupt,
  State,
  Thread,
  ThreadEvent,
  ToolCall,
} from "../types.js";
export type { AgentsSnapshot } from "./agents.js";
export { ThreadlineProvider, useThreadline } from "./context.js";
export type { EventListener, EventPlace, LiveEvents } from "./events.js";
export type { InboxOptions, InboxSnapshot, InboxStore } from "./inbox.js";
export type { InterruptAnswer, SendInput } from "./input.js";
export type { DeleteBranches, ThreadListOptions, ThreadListSnapshot, ThreadListStore } from "./list.js";
export type { LiveBranches } from "./branches.js";
export type { PageToolbox } from "./page-tools.js";
export type { Parting } from "./partings.js";
export type { LiveQueue, QueueSnapshot, ShownTurn } from "./queue.js";
export type { ThreadRun } from "./replay.js";
export type { Dehydrated } from "./seed.js";
export type {
  Forking,
  ForkRunOptions,
  Send,
  SendOptions,
  ShownMessage,
  ThreadSnapshot,
  TurnOptions,
} from "./snapshot.js";
export { storesOf } from "./stores.js";
export type { ThreadStore } from "./thread.js";
export type { PageTool, PageTools, ToolContext } from "./tool-runner.js";
export { useAgents } from "./use-agents.js";
export { useConnectionStatus } from "./use-connection-status.js";
export { useInbox, type UseInbox } from "./use-inbox.js";
export { useSuspenseThread } from "./use-suspense-thread.js";
export { type EventFilter, useThreadEvents } from "./use-thread-events.js";
export { useThreadValue } from "./use-thread-value.js";
export { useThread, type UseThread, type UseThreadOptions } from "./use-thread.js";
export { useThreads, type UseThreads } from "./use-threads.js";
