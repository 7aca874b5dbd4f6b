// The turns of a thread, read from its log: those that this adapter saved, and those of other producers.

import type { AgentResult, Message, ToolResultMessage } from "@inngest/agent-kit";
import type { Members } from "../conversation/read.js";
import { HISTORY_PAGE_EVENTS } from "../limits.js";
import type { EventPosition, ThreadRef } from "../threads.js";
import type { LoggedEvent } from "../types.js";
import { ForeignRun } from "./foreign.js";
import { Records, resultOf, type ResultRecord } from "./record.js";
import { plainText } from "./view.js";
import { OURS } from "./whole.js";

/** A position in a thread's log. Events up to it never change. */
export interface Point {
  readonly epoch: string;
  readonly tail: number;
}

/**
 * Returns all turns up to a position in the log, oldest first. A user's turn is a result of an agent named `user`, as in
 * AgentKit.
 */
export async function readTurns(thread: ThreadRef, { epoch, tail }: Point): Promise<AgentResult[]> {
  const turns = new Turns();
  let position: EventPosition = { epoch };
  for (let more = tail > 0; more;) {
    const page = await thread.events({ ...position, limit: HISTORY_PAGE_EVENTS });
    for (const logged of page.events) if (logged.seq <= tail) turns.add(logged);
    position = { cursor: page.nextCursor };
    more = page.hasMore && (page.events.at(-1)?.seq ?? tail) < tail;
  }
  return turns.results();
}

/** Folds events, in the order of the log. */
export class Turns {
  readonly #turns: (ResultRecord | ForeignRun)[] = [];
  readonly #known = new Set<string>();
  readonly #records = new Records();
  readonly #foreign = new Map<string, ForeignRun>();
  /** Unfinished user messages inside a run of this adapter, by message id. */
  readonly #saying = new Map<string, { at: number; text: string }>();

  add({ runId, at, event: logged }: LoggedEvent): void {
    // Other producers may have written something else than AG-UI has.
    const event: Members = logged;
    if (event.type === "RUN_STARTED") this.#inputs(event, at);
    if (!runId.startsWith(OURS)) return this.#other(runId, at, event);
    const complete = this.#records.add(logged);
    if (complete) return this.#once(`r:${complete.key}`, complete.record);
    const id = String(event["messageId"]);
    if (event.type === "TEXT_MESSAGE_START" && event["role"] === "user") {
      this.#saying.set(id, { at: timeOf(event, at), text: "" });
    }
    const saying = this.#saying.get(id);
    if (event.type === "TEXT_MESSAGE_CONTENT" && saying) saying.text += String(event["delta"]);
    if (event.type === "TEXT_MESSAGE_END" && saying) {
      this.#saying.delete(id);
      this.#user(id, saying.text, saying.at);
    }
  }

  results(): AgentResult[] {
    return this.#turns.flatMap((turn) => (turn instanceof ForeignRun ? turn.records() : [turn])).map(resultOf);
  }

  /** A run's input contains the messages that were new when it started. */
  #inputs(event: Members, at: string): void {
    const { messages } = (event["input"] ?? {}) as { messages?: unknown };
    for (const message of Array.isArray(messages) ? (messages as Record<string, unknown>[]) : []) {
      const text = plainText(message["content"]);
      if (message["role"] === "user") this.#user(String(message["id"]), text, timeOf(event, at));
      // Results of tools executed in a page are in the input of the next run.
      if (message["role"] === "tool") {
        for (const run of this.#foreign.values()) run.answer(String(message["toolCallId"]), text);
      }
    }
  }

  #user(id: string, content: string, createdAt: number): void {
    const output: Message[] = [{ type: "text", role: "user", content, stop_reason: "stop" }];
    this.#once(`u:${id}`, { id, agentName: "user", output, toolCalls: [] as ToolResultMessage[], createdAt });
  }

  #once(key: string, turn: ResultRecord): void {
    if (this.#known.has(key)) return;
    this.#known.add(key);
    this.#turns.push(turn);
  }

  #other(runId: string, at: string, event: Members): void {
    let run = this.#foreign.get(runId);
    if (!run) {
      run = new ForeignRun(runId, timeOf(event, at));
      this.#foreign.set(runId, run);
      this.#turns.push(run);
    }
    run.add(event);
  }
}

/** AG-UI's own time of an event; by default the time at which it was stored. */
function timeOf(event: Members, at: string): number {
  return typeof event["timestamp"] === "number" ? event["timestamp"] : Date.parse(at);
}
