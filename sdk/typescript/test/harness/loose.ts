// Types of tests that take any member of what they read for granted.

import type { ToolCall } from "../../src/index.js";

export interface LooseEvent {
  readonly type: string;
  readonly [member: string]: unknown;
}

export interface LooseMessage {
  readonly id: string;
  readonly role: string;
  readonly content?: unknown;
  readonly toolCalls?: readonly ToolCall[];
}
