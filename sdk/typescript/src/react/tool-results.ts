import type { ToolClaim } from "../runs.js";
import type { Message, NewMessage, StartedRun } from "../types.js";
import { callsOf } from "./tools.js";

/** The result of a tool call that the page executed. */
export interface ToolResult {
  readonly message: NewMessage;
  readonly agentId?: string | undefined;
  /** The claim on the call, if the page has one. */
  readonly claim?: ToolClaim | undefined;
}

/** Starts a run with results. */
export type SendResults = (
  messages: readonly NewMessage[],
  how: { readonly agentId: string | undefined; readonly claims: readonly ToolClaim[] | undefined },
) => Promise<StartedRun>;

interface Waiting extends ToolResult {
  readonly resolve: (run: StartedRun | undefined) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Results of tools executed in the page, kept until they can be sent: a model requires the results of all calls of a
 * message at once, and a run can start only when the one that made the calls has ended.
 */
export class ToolResults {
  readonly #waiting = new Map<string, Waiting>();
  readonly #send: SendResults;

  constructor(send: SendResults) {
    this.#send = send;
  }

  /** Adds a result. Resolves when the run that includes it has started; to undefined if the result is dropped. */
  add(toolCallId: string, result: ToolResult): Promise<StartedRun | undefined> {
    return new Promise((resolve, reject) => {
      this.#waiting.get(toolCallId)?.resolve(undefined);
      this.#waiting.set(toolCallId, { ...result, resolve, reject });
    });
  }

  /** Sends all complete sets of results, when no run is active, and drops results of calls that already have one. */
  flush(messages: readonly Message[], pendingIds: readonly string[]): void {
    if (this.#waiting.size === 0) return;
    const pending = new Set(pendingIds);
    for (const [id, { resolve }] of this.#waiting) {
      if (pending.has(id)) continue;
      this.#waiting.delete(id);
      resolve(undefined);
    }
    for (const message of messages) {
      const open = callsOf(message).filter(({ id }) => pending.has(id));
      const results = open.flatMap(({ id }) => this.#waiting.get(id) ?? []);
      if (open.length === 0 || results.length < open.length) continue;
      for (const { id } of open) this.#waiting.delete(id);
      const claims = results.flatMap(({ claim }) => claim ?? []);
      this.#send(
        results.map((result) => result.message),
        { agentId: results[0]?.agentId, claims: claims.length > 0 ? claims : undefined },
      ).then(
        (run) => results.forEach(({ resolve }) => resolve(run)),
        (error: unknown) => results.forEach(({ reject }) => reject(error)),
      );
      return;
    }
  }

  /** Rejects all results, since no run can be started with them. */
  fail(error: unknown): void {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  /** Drops all results, since the page has left the thread. */
  drop(): void {
    for (const { resolve } of this.#waiting.values()) resolve(undefined);
    this.#waiting.clear();
  }
}
