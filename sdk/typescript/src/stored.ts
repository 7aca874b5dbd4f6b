// Reads of the log of a run, and of the log before it.

import { Conversation } from "./conversation/conversation.js";
import { TAKEOVER_EVENTS } from "./limits.js";
import type { TakenRun } from "./producing.js";
import type { ThreadRef } from "./threads.js";
import type { Interrupt, Message, MessagesPage } from "./types.js";

/** Name of the CUSTOM event by which the server names an attempt. */
const ATTEMPT = "threadline.attempt";

type Reading = Pick<ThreadRef, "state" | "events" | "messages">;

/** Folds what a run has said up to an event: its own messages, and the state of the thread after them. */
export async function storedOf(thread: Reading, { run, epoch }: TakenRun, at: number): Promise<Conversation> {
  const before = run.firstSeq - 1;
  if (at <= before) return new Conversation({ state: await stateAt(thread, before, epoch), hasMore: before > 0 });
  const [last] = before > 0 ? (await thread.messages({ at: before, epoch, limit: 1 })).messages : [];
  const messages: Message[] = [];
  let interrupts: readonly Interrupt[] | undefined;
  for await (const page of pagesBefore(thread, at, epoch)) {
    interrupts ??= page.interrupts;
    const end = page.messages.findLastIndex(({ id }) => id === last?.id);
    messages.unshift(...page.messages.slice(end + 1));
    if (end >= 0) break;
  }
  return new Conversation({ messages, state: await stateAt(thread, at, epoch), interrupts, hasMore: before > 0 });
}

async function stateAt(thread: Reading, at: number, epoch: string): Promise<unknown> {
  return at > 0 ? (await thread.state({ at, epoch })).state : {};
}

/** Seq of the last event that was superseded when a run was taken up to be said anew. */
export async function supersededUpTo(thread: Reading, { run, epoch, attempt }: TakenRun): Promise<number> {
  const { events } = await thread.events({ before: run.lastSeq + 1, epoch, limit: TAKEOVER_EVENTS });
  const named = events.findLast(({ event }) => event.type === "CUSTOM" && event["name"] === ATTEMPT);
  const value = (named?.event as { value?: unknown } | undefined)?.value as
    { attempt?: unknown; superseded?: readonly unknown[] } | undefined;
  const to = value?.attempt === attempt ? value.superseded?.[1] : undefined;
  // An attempt that has said nothing leaves nothing to supersede.
  return typeof to === "number" ? to : run.lastSeq;
}

/** The messages of the thread before a run, and those with which it began, oldest first. */
export async function historyOf(thread: Reading, { run, epoch }: TakenRun): Promise<readonly Message[]> {
  // The first event of the run brings its messages.
  const at = Math.min(run.firstSeq, run.lastSeq);
  const messages: Message[] = [];
  if (at <= 0) return messages;
  for await (const page of pagesBefore(thread, at, epoch)) messages.unshift(...page.messages);
  return messages;
}

/** The messages of the thread after an event, in pages, newest first. */
async function* pagesBefore(thread: Reading, at: number, epoch: string): AsyncGenerator<MessagesPage> {
  let page = await thread.messages({ at, epoch });
  for (;;) {
    yield page;
    const [first] = page.messages;
    if (!page.hasMore || !first) return;
    page = await thread.messages({ at, epoch, before: first.id });
  }
}
