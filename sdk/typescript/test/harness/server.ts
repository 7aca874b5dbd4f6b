import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Program, run } from "./program.js";

/** The server's program. */
export const BINARY =
  process.env.THREADLINE ?? fileURLToPath(new URL("../../../../target/debug/threadline", import.meta.url));

export interface ServerOptions {
  /** The operator's key; without one the server runs in development mode, where everybody is the default user. */
  readonly apiKey?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** More arguments of `threadline serve`. */
  readonly args?: readonly string[];
}

export interface RequestOptions {
  readonly body?: unknown;
  readonly user?: string;
  /** In place of the operator's key. */
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The real server, with a data directory and a port that it keeps over restarts. */
export class Server {
  readonly apiKey: string | undefined;
  readonly port: number;
  readonly url: string;
  readonly #data = mkdtempSync(join(tmpdir(), "threadline-sdk-"));
  readonly #options: ServerOptions;
  #program: Program | undefined;

  static async start(options: ServerOptions = {}): Promise<Server> {
    if (!existsSync(BINARY))
      throw new Error(`there is no ${BINARY}: cargo build, or name the server's program by THREADLINE`);
    for (;;) {
      const server = new Server(options, await freePort());
      try {
        await server.restart();
        return server;
      } catch (error) {
        await server.end();
        // Another suite was given the same one in the same moment.
        if (!String(error).includes("Address already in use")) throw error;
      }
    }
  }

  private constructor(options: ServerOptions, port: number) {
    this.#options = options;
    this.apiKey = options.apiKey;
    this.port = port;
    this.url = `http://127.0.0.1:${port}`;
  }

  /** What it has logged since it was last started. */
  get said(): string {
    return this.#program?.said ?? "";
  }

  /** Starts it where it is not running; kills it first where it is. */
  async restart(): Promise<void> {
    await this.kill();
    const args = ["serve", "--listen", `127.0.0.1:${this.port}`, "--data", this.#data, ...(this.#options.args ?? [])];
    [this.#program] = await Program.start("the server", BINARY, args, this.#env());
  }

  /** SIGKILL. */
  async kill(): Promise<void> {
    await this.#program?.end("SIGKILL");
    this.#program = undefined;
  }

  /** SIGTERM: it says goodbye to everybody (4000) and ends. */
  async drain(): Promise<void> {
    await this.#program?.end("SIGTERM");
    this.#program = undefined;
  }

  /** Kills it, and forgets its data. */
  async end(): Promise<void> {
    await this.kill();
    rmSync(this.#data, { recursive: true, force: true });
  }

  /** A command of the program, against this server, with the operator's key. */
  cli(...args: string[]): Promise<string> {
    return run(BINARY, ["--url", this.url, ...args], this.#env());
  }

  /** A request of the native API, by its raw form. Throws if it is refused. */
  async request<T = unknown>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
    const { body, user, token = this.apiKey, headers } = options;
    const response = await fetch(this.url + path, {
      method,
      headers: {
        ...(token && { authorization: `Bearer ${token}` }),
        ...(user && { "threadline-user": user }),
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Refused(`${method} ${path}: ${response.status} ${text}`, response.status);
    return (text ? JSON.parse(text) : undefined) as T;
  }

  #env(): Record<string, string> {
    const { apiKey, env } = this.#options;
    const { PATH = "", HOME = "" } = process.env;
    return { PATH, HOME, NO_COLOR: "1", RUST_BACKTRACE: "0", ...(apiKey && { THREADLINE_API_KEY: apiKey }), ...env };
  }
}

/** The server answered, and not with success. */
export class Refused extends Error {
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

// Below the range that outgoing connections are given theirs from: a client that tries in vain while the server is down could
// otherwise be connected to itself.
async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    const probe = createServer();
    const free = await new Promise<boolean>((resolve) => {
      probe.once("error", () => resolve(false)).listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
    });
    if (free) return port;
  }
}
