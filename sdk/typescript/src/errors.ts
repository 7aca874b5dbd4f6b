import type { Conversation } from "./conversation/conversation.js";
import type { ProblemDocument, ProblemSlug } from "./problems.js";
import type { Run } from "./types.js";

/** Everything that this package throws, except for what a caller's `AbortSignal` gives as its reason. */
export abstract class ThreadlineError extends Error {
  /** Whether the same call, or a new connection from the cursor, can succeed later. */
  abstract readonly retryable: boolean;
  /** How long the server asks to wait before that, in milliseconds. */
  readonly retryAfterMs: number | undefined = undefined;
}

/** The client was set up wrongly, or a value cannot be sent. Nothing was sent. */
export class ConfigError extends ThreadlineError {
  override readonly name = "ConfigError";
  readonly retryable = false;
}

/** There was no connection, it broke, or no answer came in time. The request may have had its effect. */
export class ConnectionError extends ThreadlineError {
  override readonly name = "ConnectionError";
  override readonly retryAfterMs: number | undefined;
  readonly retryable = true;

  constructor(message: string, options: ErrorOptions & { readonly retryAfterMs?: number | undefined } = {}) {
    super(message, options);
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** The other side does not speak as Threadline does. */
export class ProtocolError extends ThreadlineError {
  override readonly name = "ProtocolError";
  readonly retryable = false;
}

/** What was asked for did not come to its end in time. It may do so later. */
export class TimeoutError extends ThreadlineError {
  override readonly name = "TimeoutError";
  readonly retryable = true;
}

/** The client, the run or the subscription is over: nothing can be asked of it any more. */
export class ClosedError extends ThreadlineError {
  override readonly name: string = "ClosedError";
  readonly retryable = false;
}

/** Why a producer's signal is aborted if somebody has asked its run to stop. */
export class StopRequested extends ClosedError {
  override readonly name = "StopRequested";
}

/** A run that was begun before, and has stored events, is not done by a body that may not know of them. Nothing was written. */
export class NotResumed extends ThreadlineError {
  override readonly name = "NotResumed";
  readonly retryable = false;
  readonly run: Run;
  /** What the run has said so far: its messages, and the thread's state after them. */
  readonly stored: Conversation;

  constructor(run: Run, stored: Conversation) {
    super(
      `the run ${run.runId} has ${run.producerSeq} stored events already, so nothing was written. To resume it,` +
        ` pass onResume: "continue" and continue after run.stored; or start a run under another id once this one has ended`,
    );
    this.run = run;
    this.stored = stored;
  }
}

/** The server refused, and says why. */
export class ProblemError extends ThreadlineError {
  override readonly name = "ProblemError";
  override readonly retryAfterMs: number | undefined;
  readonly retryable: boolean;
  /** The stable name of its kind; `http-502` and the like where something else than Threadline answered. */
  readonly slug: ProblemSlug | `http-${number}`;
  readonly status: number;
  /** What exactly was wrong. */
  readonly detail: string;
  /** What to do, in the server's words. */
  readonly help: string | undefined;
  /** The whole document: further facts, as the active `run` of a `run-active`. */
  readonly problem: ProblemDocument;

  constructor(problem: ProblemDocument, status: number, retryAfterMs?: number) {
    const slug = slugOf(problem) ?? `http-${status}`;
    const title = problem.title ?? slug;
    const detail = problem.detail ?? "";
    const help = problem.help;
    super(`${title} (${status} ${slug})${detail && detail !== title ? `: ${detail}` : ""}${help ? `. ${help}` : ""}`);
    this.slug = slug as ProblemError["slug"];
    this.status = status;
    this.detail = detail;
    this.help = help;
    this.problem = problem;
    this.retryable = problem.retryable ?? [429, 502, 503, 504].includes(status);
    this.retryAfterMs = problem.retryAfterMs ?? retryAfterMs;
  }

  /** Reads the body of a refusal, which need not come from Threadline: a proxy may have answered. */
  static read(status: number, body: string, retryAfterMs?: number): ProblemError {
    let document: unknown;
    try {
      document = JSON.parse(body);
    } catch {
      document = undefined;
    }
    const isObject = typeof document === "object" && document !== null && !Array.isArray(document);
    const problem = isObject
      ? (document as ProblemDocument)
      : { title: `HTTP status ${status}`, detail: body.slice(0, 200).trim() };
    return new ProblemError(problem, status, retryAfterMs);
  }
}

function slugOf({ type }: ProblemDocument): string | undefined {
  const slug = typeof type === "string" ? type.split("/").at(-1) : undefined;
  return slug && slug !== "about:blank" ? slug : undefined;
}

/** Whether an error is a problem of this kind. */
export function isProblem(error: unknown, slug: ProblemSlug): error is ProblemError {
  return error instanceof ProblemError && error.slug === slug;
}

/** Whether an answer is none of Threadline's own: something in between has given it, and may go away as it came. */
export function isForeign(error: unknown): error is ProblemError | ProtocolError {
  if (!(error instanceof ProblemError)) return error instanceof ProtocolError;
  const { type } = error.problem;
  return !(typeof type === "string" && /(^|\/)problems\/[^/]+$/.test(type));
}

/** What somebody else's error says. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
