import { unlessAborted } from "./backoff.js";
import { ConfigError, ConnectionError, messageOf } from "./errors.js";
import { REFRESH_AT_SHARE, TOKEN_TIMEOUT_MS } from "./limits.js";

/** A credential, or how to get one: called again whenever the last one is not, or soon not, valid any more. */
export type TokenSource = string | (() => string | Promise<string>);

/**
 * The bearer that goes with every request. A token from a callback is kept until it has lived four fifths of the time that
 * it says it has (`exp - iat`, counted from when it came: the clocks of this machine and of the server may differ), or
 * until the server refuses it.
 */
export class Credentials {
  readonly #source: TokenSource | undefined;
  #current: { readonly token: string; readonly renewAt: number } | undefined;
  #asking: Promise<string> | undefined;

  constructor(source: TokenSource | undefined) {
    this.#source = source;
  }

  /** Whether asking again may give another one. */
  get renewable(): boolean {
    return typeof this.#source === "function";
  }

  /** In how many milliseconds the next one is asked for, ahead of the end of this one; infinite if there is no such time. */
  get renewInMs(): number {
    return this.#current ? this.#current.renewAt - performance.now() : Number.POSITIVE_INFINITY;
  }

  /** The bearer; `undefined` if none was given. A callback that fails is a `ConnectionError`: it may succeed later. */
  async get(): Promise<string | undefined> {
    if (typeof this.#source !== "function") return this.#source;
    const current = this.#current;
    return current && performance.now() < current.renewAt ? current.token : this.#ask(this.#source);
  }

  /** The server has refused this bearer: forgets it, unless another one has taken its place meanwhile. */
  refused(bearer: string | undefined): void {
    if (this.#current?.token === bearer) this.#current = undefined;
  }

  /** Asks once, however many wait for the answer. */
  #ask(source: () => string | Promise<string>): Promise<string> {
    this.#asking ??= this.#renew(source).finally(() => (this.#asking = undefined));
    return this.#asking;
  }

  async #renew(source: () => string | Promise<string>): Promise<string> {
    const late = new AbortController();
    const timer = setTimeout(
      () => late.abort(new Error("the token callback did not respond before the timeout")),
      TOKEN_TIMEOUT_MS,
    );
    let token: unknown;
    try {
      token = await unlessAborted(Promise.resolve(source()), late.signal);
    } catch (error) {
      throw new ConnectionError(`no token (${messageOf(error)})`, { cause: error });
    } finally {
      clearTimeout(timer);
    }
    const checked = headerValue("what the token callback gives", token);
    this.#current = { token: checked, renewAt: performance.now() + REFRESH_AT_SHARE * lifetimeMs(checked) };
    return checked;
  }
}

/** A text that can travel in a header. */
export function headerValue(name: string, value: unknown): string {
  if (typeof value === "string" && /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(value)) return value;
  throw new ConfigError(`${name} travels in a header: it must be visible ASCII`);
}

/** How long a JWT is valid from its making on; for ever if it does not say, or is none. */
function lifetimeMs(token: string): number {
  try {
    const payload = token.split(".")[1] ?? "";
    const claims: unknown = JSON.parse(atob(payload.replaceAll("-", "+").replaceAll("_", "/")));
    const { iat, exp } = claims as { iat?: unknown; exp?: unknown };
    if (typeof iat === "number" && typeof exp === "number") return Math.max(0, exp - iat) * 1_000;
  } catch {
    // An opaque token: the server says when it is over.
  }
  return Number.POSITIVE_INFINITY;
}
