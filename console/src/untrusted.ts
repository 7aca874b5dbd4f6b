// Events, messages and interrupts as a log may hold them. Producers write what they want, so the console takes no member of an event or a message for granted.

import type { ToolCall } from "threadline";

export type AnyEvent = { readonly type: string; readonly [member: string]: unknown };

export type AnyMessage = {
  readonly id: string;
  readonly role: string;
  readonly content?: unknown;
  readonly toolCalls?: readonly ToolCall[];
  readonly toolCallId?: string;
  readonly [member: string]: unknown;
};

export type AnyInterrupt = { readonly id?: string; readonly [member: string]: unknown };
