import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Program, run } from "./program.js";

/** The server's program. */
export const BINARY =
  process.env.THREADLINE ?? fileURLToPath(new URL("../../../../target/debug/threadline", import.meta.url));

export interface ServerOptions {
  /** The operator's key; without one the server runs in development mode, where every client is the default user. */
  readonly apiKey?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Additional arguments of the command that starts the server. */
  readonly args?: readonly string[];
}

export interface RequestOptions {
  readonly body?: unknown;
  readonly user?: string;
  /** A credential in place of the operator's key. */
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The real server, with a data directory and a port that are kept over restarts. */
export class Server {
  readonly apiKey: string | undefined;
  readonly port: number;
  readonly url: string;
  readonly #data = mkdtempSync(join(tmpdir(), "threadline-sdk-"));
  readonly #saved = `${this.#data}-saved`;
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
        // Another suite received the same port at the same moment.
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

  /** The log output since the last start. */
  get said(): string {
    return this.#program?.said ?? "";
  }

  /** Starts the server; kills it first if it is running. */
  async restart(): Promise<void> {
    await this.kill();
    const command = this.apiKey === undefined ? "dev" : "serve";
    const args = [command, "--listen", `127.0.0.1:${this.port}`, "--data", this.#data, ...(this.#options.args ?? [])];
    [this.#program] = await Program.start("the server", BINARY, args, this.#env());
  }

  /** Sends SIGKILL. */
  async kill(): Promise<void> {
    await this.#program?.end("SIGKILL");
    this.#program = undefined;
  }

  /** Sends SIGTERM: the server closes all connections (4000) and exits. */
  async drain(): Promise<void> {
    await this.#program?.end("SIGTERM");
    this.#program = undefined;
  }

  /** Kills the server, copies its database, and starts the server again. */
  async save(): Promise<void> {
    await this.kill();
    rmSync(this.#saved, { recursive: true, force: true });
    mkdirSync(this.#saved);
    for (const name of databaseIn(this.#data)) copyFileSync(join(this.#data, name), join(this.#saved, name));
    await this.restart();
  }

  /**
   * Kills the server, puts the copy in the place of its database, and starts the server again: what was committed since the copy
   * is lost.
   */
  async lose(): Promise<void> {
    await this.kill();
    for (const name of databaseIn(this.#data)) rmSync(join(this.#data, name));
    for (const name of databaseIn(this.#saved)) copyFileSync(join(this.#saved, name), join(this.#data, name));
    await this.restart();
  }

  /** Kills the server, and deletes its data. */
  async end(): Promise<void> {
    await this.kill();
    rmSync(this.#saved, { recursive: true, force: true });
    rmSync(this.#data, { recursive: true, force: true });
  }

  /** Runs a command of the program against this server, with the operator's key. */
  cli(...args: string[]): Promise<string> {
    return run(BINARY, ["--url", this.url, ...args], this.#env());
  }

  /** Sends a raw request to the native API. Throws if it is refused. */
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

/** Names of the files of a database: the database itself, and its log. */
function databaseIn(directory: string): string[] {
  return readdirSync(directory).filter((name) => name.startsWith("threadline.db"));
}

/** The server responded with an error. */
export class Refused extends Error {
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

// Below the range of ephemeral ports: a client that retries while the server is down could otherwise connect to itself.
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
