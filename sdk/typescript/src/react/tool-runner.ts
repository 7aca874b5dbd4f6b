import { sleep, unlessAborted } from "../backoff.js";
import type { Threadline } from "../client.js";
import { isProblem, messageOf, ThreadlineError } from "../errors.js";
import { type Http, httpOf } from "../http.js";
import { newId } from "../ids.js";
import { CLAIM_LEASE_SECONDS, CLAIM_RETRY_MS } from "../limits.js";
import type { ToolClaim } from "../runs.js";
import type { ToolCall } from "../types.js";
import type { SendOptions } from "./snapshot.js";

/** Context of a call, for the tool that executes it. */
export interface ToolContext {
  /** Aborted when the result is not wanted any more: another page has answered, or this one has left the thread. */
  readonly signal: AbortSignal;
  readonly toolCallId: string;
}

/** A tool that a page executes. */
export interface PageTool {
  /**
   * Executes a call, with the arguments that the model has given. A result that is not a text is sent as JSON; of an error that
   * is thrown the model is told `{"error": message}`.
   */
  run(args: unknown, context: ToolContext): unknown;
  /** Description of the tool, for the model. */
  readonly description?: string;
  /** JSON schema of the arguments; those of an object without members by default. */
  readonly parameters?: Readonly<Record<string, unknown>>;
}

/** Tools of a page, by name. */
export type PageTools = Readonly<Record<string, PageTool>>;

/** A registered tool, and the agent to which its results go. */
export interface OwnTool extends SendOptions {
  readonly tool: PageTool;
}

/** The thread whose calls are executed, and its tools. */
export interface RunnerOwner {
  readonly find: (name: string) => OwnTool | undefined;
  /** Sends a result once the results of all calls of the message are there. Resolves when it is sent, or not needed any more. */
  readonly answer: (claim: ToolClaim, result: unknown, options: SendOptions) => Promise<unknown>;
}

/** Times of claims; tests set short ones. */
export const CLAIM_TIMES = { leaseSeconds: CLAIM_LEASE_SECONDS, retryMs: CLAIM_RETRY_MS };

/**
 * Executes the calls of a page's tools. Each call is claimed before, so that one page of several executes it; the claim is
 * renewed until the result is sent, and released if the page gives up. The call of a page that has disappeared is claimed by
 * another one when the lease is over. Only the page that holds the first call claims the others: results of one message are sent
 * together, so two pages with a part of them each would wait for each other.
 */
export class ToolRunner {
  readonly #http: Http;
  readonly #threadId: string;
  readonly #owner: RunnerOwner;
  readonly #clientId = newId();
  /** Calls that are being claimed, executed or answered, or that were and are still due. */
  readonly #calls = new Map<string, AbortController>();
  /** The calls of this page whose claims it holds. */
  readonly #held = new Set<string>();
  /** The first call that is due. */
  #first: string | undefined;
  #wake = () => {};
  #woken = new Promise<void>((resolve) => (this.#wake = resolve));

  constructor(client: Threadline, threadId: string, owner: RunnerOwner) {
    this.#http = httpOf(client);
    this.#threadId = threadId;
    this.#owner = owner;
  }

  /** Begins calls that are due, if it may, and gives up those that are not due any more. */
  look(due: readonly ToolCall[], mayBegin: boolean): void {
    for (const [id, over] of this.#calls) {
      if (due.some((call) => call.id === id)) continue;
      this.#calls.delete(id);
      this.#held.delete(id);
      over.abort();
    }
    this.#first = due[0]?.id;
    if (!mayBegin) return;
    for (const call of due) {
      if (this.#calls.has(call.id)) continue;
      const over = new AbortController();
      this.#calls.set(call.id, over);
      void this.#take(call, over.signal).catch(() => {
        // Aborted, or refused: the call stays open for `addToolResult` and for other pages.
      });
    }
  }

  /** Gives up everything. */
  close(): void {
    this.look([], false);
  }

  async #take(call: ToolCall, signal: AbortSignal): Promise<void> {
    const claim = { toolCallId: call.id, clientId: this.#clientId };
    while (!(this.#isTurn(call.id) && (await this.#claim(claim, signal).catch(unlessFinal)))) {
      await Promise.race([sleep(CLAIM_TIMES.retryMs, signal), this.#woken]);
    }
    this.#hold(call.id);
    const over = new AbortController();
    const stop = () => {
      this.#held.delete(call.id);
      over.abort();
    };
    signal.addEventListener("abort", stop, { once: true });
    const renew = () => {
      // Another page has the first call by now, and waits for this one.
      if (!this.#isTurn(call.id)) return stop();
      this.#claim(claim, signal).then(
        // Another page executes the call by now.
        (isOurs) => isOurs || stop(),
        () => {},
      );
    };
    const renewal = setInterval(renew, (CLAIM_TIMES.leaseSeconds * 1_000) / 3);
    try {
      const own = this.#owner.find(call.function.name);
      if (!own) return;
      // A tool may ignore its signal.
      const result = await unlessAborted(execute(own.tool, call, over.signal), over.signal);
      await this.#send(claim, result, own, over.signal);
      return;
    } catch (error) {
      if (signal.aborted || !over.signal.aborted) throw error;
    } finally {
      clearInterval(renewal);
      signal.removeEventListener("abort", stop);
      if (signal.aborted || over.signal.aborted) {
        await this.#request("DELETE", claim, { clientId: claim.clientId }).catch(() => {});
      }
    }
    // The page that has the claim may disappear as well.
    return this.#take(call, signal);
  }

  /** True if the page may claim a call: the first one, or any while it holds the first one. */
  #isTurn(id: string): boolean {
    return this.#first !== undefined && (id === this.#first || this.#held.has(this.#first));
  }

  #hold(id: string): void {
    this.#held.add(id);
    this.#wake();
    this.#woken = new Promise((resolve) => (this.#wake = resolve));
  }

  /** Sends the result until it is sent, not needed any more, or refused. */
  async #send(claim: ToolClaim, result: unknown, { agentId }: SendOptions, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#owner.answer(claim, result, { agentId });
        return;
      } catch (error) {
        const isLost = isProblem(error, "claim-lost");
        // The lost claim may be that on another one of several results that were sent together.
        if (isLost && !(await this.#claim(claim, signal))) {
          this.#held.delete(claim.toolCallId);
          return;
        }
        if (!isLost) unlessFinal(error);
        await sleep(CLAIM_TIMES.retryMs, signal);
      }
    }
  }

  /** Claims a call, or renews the claim; false if another page has claimed it. */
  async #claim(claim: ToolClaim, signal: AbortSignal): Promise<boolean> {
    try {
      const { clientId } = claim;
      await this.#request("POST", claim, {}, { clientId, leaseSeconds: CLAIM_TIMES.leaseSeconds }, signal);
      return true;
    } catch (error) {
      if (isProblem(error, "claimed")) return false;
      throw error;
    }
  }

  #request(
    method: "POST" | "DELETE",
    { toolCallId }: ToolClaim,
    query: { readonly clientId?: string },
    body?: object,
    signal?: AbortSignal,
  ): Promise<unknown> {
    const path = ["threads", this.#threadId, "tool-calls", toolCallId, "claim"];
    const isWorthAnotherTry = (error: ThreadlineError) => error.retryable && !isProblem(error, "claimed");
    return this.#http.call({ method, path, query, body, signal }, isWorthAnotherTry);
  }
}

/** The result of a tool, or its error. */
async function execute(tool: PageTool, call: ToolCall, signal: AbortSignal): Promise<unknown> {
  const { id, function: called } = call;
  try {
    const args: unknown = called.arguments.trim() === "" ? {} : JSON.parse(called.arguments);
    return await tool.run(args, { signal, toolCallId: id });
  } catch (error) {
    return { error: messageOf(error) };
  }
}

/** Throws an error that no other attempt can avoid; false otherwise. */
function unlessFinal(error: unknown): false {
  if (error instanceof ThreadlineError && error.retryable) return false;
  throw error;
}
