import { unlessAborted } from "./backoff.js";
import { ConfigError, ConnectionError, messageOf } from "./errors.js";
import { REFRESH_AT_SHARE, TOKEN_TIMEOUT_MS } from "./limits.js";
import { abort, now } from "./platform.js";

/**
 * A credential, or a function that returns one. The function is called again when the previous credential has expired or is
 * about to.
 */
export type TokenSource = string | (() => string | Promise<string>);

/**
 * The bearer token of every request. A token from a callback is used for four fifths of its lifetime (`exp - iat`, counted
 * from its arrival, since the clocks of this machine and of the server may differ), or until the server refuses it.
 */
export class Credentials {
  readonly #source: TokenSource | undefined;
  #current: { readonly token: string; readonly renewAt: number } | undefined;
  #asking: Promise<string> | undefined;

  constructor(source: TokenSource | undefined) {
    this.#source = source;
  }

  /** True if the source can supply another credential. */
  get renewable(): boolean {
    return typeof this.#source === "function";
  }

  /** Milliseconds until the next credential is requested, before the current one expires; infinite without an expiry time. */
  get renewInMs(): number {
    return this.#current ? this.#current.renewAt - now() : Number.POSITIVE_INFINITY;
  }

  /**
   * The bearer token; `undefined` if none was configured. A failing callback throws a `ConnectionError`, since it may
   * succeed later.
   */
  async get(): Promise<string | undefined> {
    if (typeof this.#source !== "function") return this.#source;
    const current = this.#current;
    return current && now() < current.renewAt ? current.token : this.#ask(this.#source);
  }

  /** Discards this bearer token after the server has refused it, unless it has been replaced meanwhile. */
  refused(bearer: string | undefined): void {
    if (this.#current?.token === bearer) this.#current = undefined;
  }

  /** Calls the source once, however many callers wait for the token. */
  #ask(source: () => string | Promise<string>): Promise<string> {
    this.#asking ??= this.#renew(source).finally(() => (this.#asking = undefined));
    return this.#asking;
  }

  async #renew(source: () => string | Promise<string>): Promise<string> {
    const late = new AbortController();
    const timer = setTimeout(
      () => abort(late, new Error("the token callback did not respond before the timeout")),
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
    const checked = headerValue("the result of the token callback", token);
    this.#current = { token: checked, renewAt: now() + REFRESH_AT_SHARE * lifetimeMs(checked) };
    return checked;
  }
}

/** Validates text that is sent in a header. */
export function headerValue(name: string, value: unknown): string {
  if (typeof value === "string" && /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(value)) return value;
  throw new ConfigError(`${name} is sent in a header: it must be visible ASCII`);
}

/** Lifetime of a JWT from its issue, in milliseconds; infinite for a token without an expiry time and for an opaque token. */
function lifetimeMs(token: string): number {
  try {
    const payload = token.split(".")[1] ?? "";
    const claims: unknown = JSON.parse(atob(payload.replaceAll("-", "+").replaceAll("_", "/")));
    const { iat, exp } = claims as { iat?: unknown; exp?: unknown };
    if (typeof iat === "number" && typeof exp === "number") return Math.max(0, exp - iat) * 1_000;
  } catch {
    // An opaque token: the server reports when it has expired.
  }
  return Number.POSITIVE_INFINITY;
}
