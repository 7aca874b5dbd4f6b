import type { Conversation } from "./conversation/conversation.js";
import type { ProblemDocument, ProblemSlug } from "./problems.js";
import type { Run } from "./types.js";

/** Base class of all errors that this package throws, except for the reason of a caller's `AbortSignal`. */
export abstract class ThreadlineError extends Error {
  /** True if the same call, or a new connection from the cursor, can succeed later. */
  abstract readonly retryable: boolean;
  /** Delay before the next attempt that the server requests, in milliseconds. */
  readonly retryAfterMs: number | undefined = undefined;
  /** The id of the request that failed, by which the server's log has it; undefined if none was sent. */
  requestId: string | undefined = undefined;
}

/** The client is misconfigured, or a value cannot be sent. No request was sent. */
export class ConfigError extends ThreadlineError {
  override readonly name = "ConfigError";
  readonly retryable = false;
}

/**
 * No connection could be established, the connection broke, or no response arrived in time. The request may have taken
 * effect.
 */
export class ConnectionError extends ThreadlineError {
  override readonly name = "ConnectionError";
  override readonly retryAfterMs: number | undefined;
  readonly retryable = true;

  constructor(message: string, options: ErrorOptions & { readonly retryAfterMs?: number | undefined } = {}) {
    super(message, options);
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** The peer does not follow Threadline's protocol. */
export class ProtocolError extends ThreadlineError {
  override readonly name = "ProtocolError";
  readonly retryable = false;
}

/** The operation did not complete in time. It may still complete later. */
export class TimeoutError extends ThreadlineError {
  override readonly name = "TimeoutError";
  readonly retryable = true;
}

/** The client, the run or the subscription is closed and cannot be used any more. */
export class ClosedError extends ThreadlineError {
  override readonly name: string = "ClosedError";
  readonly retryable = false;
}

/** Abort reason of a producer's signal after a stop of its run was requested. */
export class StopRequested extends ClosedError {
  override readonly name = "StopRequested";
}

/** An active run of another call is not taken up, as `onExisting: "refuse"` demands. Nothing was written. */
export class NotResumed extends ThreadlineError {
  override readonly name = "NotResumed";
  readonly retryable = false;
  readonly run: Run;
  /** The run so far as a conversation: its messages, and the state of the thread after them. */
  readonly stored: Conversation;

  constructor(message: string, run: Run, stored: Conversation) {
    super(message);
    this.run = run;
    this.stored = stored;
  }
}

/** The server refused the request. */
export class ProblemError extends ThreadlineError {
  override readonly name = "ProblemError";
  override readonly retryAfterMs: number | undefined;
  readonly retryable: boolean;
  /** The stable name of the problem type; `http-502` and the like if the response did not come from Threadline. */
  readonly slug: ProblemSlug | `http-${number}`;
  readonly status: number;
  /** Explanation of this occurrence of the problem. */
  readonly detail: string;
  /** Suggested fix, as written by the server. */
  readonly help: string | undefined;
  /** The complete problem document, with members that depend on the type, such as the active `run` of `run-active`. */
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

  /** Parses the body of an error response, which may come from a proxy instead of Threadline. */
  static read(status: number, body: string, retryAfterMs?: number): ProblemError {
    let document: unknown;
    try {
      document = JSON.parse(body);
    } catch {
      // Not Threadline's.
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

/** True if an error is a problem of this type. */
export function isProblem(error: unknown, slug: ProblemSlug): error is ProblemError {
  return error instanceof ProblemError && error.slug === slug;
}

/**
 * The cursor from which a reader can continue after a `log-replaced` problem: of its events, those up to the seq `after` belong
 * to the present log, and the later ones have to be discarded. `undefined` for other errors, and if no event is known to be
 * common to both logs.
 */
export function commonCursor(error: unknown): { readonly after: number; readonly epoch: string } | undefined {
  if (!isProblem(error, "log-replaced")) return undefined;
  const { commonUpTo, epoch } = error.problem;
  return typeof commonUpTo === "number" ? { after: commonUpTo, epoch: epoch as string } : undefined;
}

/** True if a response did not come from Threadline but from an intermediary, so that the condition may be temporary. */
export function isForeign(error: unknown): error is ProblemError | ProtocolError {
  if (!(error instanceof ProblemError)) return error instanceof ProtocolError;
  const { type } = error.problem;
  return !(typeof type === "string" && /(^|\/)problems\/[^/]+$/.test(type));
}

/** The name of an error for logs: the slug of a problem, else the name of its class. */
export function nameOf(error: unknown): string {
  return error instanceof ProblemError ? error.slug : error instanceof Error ? error.name : typeof error;
}

/** A module that is loaded on demand. A failure to load it can be temporary, like that of a request. */
export function loaded<T>(module: Promise<T>): Promise<T> {
  return module.catch((cause: unknown) => {
    throw new ConnectionError("cannot load a part of the package", { cause });
  });
}

/** The message of an error of unknown type. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
