// Programs of a test, each of which ends with the process of the test.

import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";

const TO_START_MS = 30_000;

const running = new Set<ChildProcess>();
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => process.exit(1));

export class Program {
  /** The output of the program. */
  said = "";
  readonly #name: string;
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;

  /** Starts a program, and waits until it prints `listening on <address>`. */
  static async start(
    name: string,
    command: string,
    args: string[],
    env: Record<string, string>,
  ): Promise<[Program, string]> {
    const program = new Program(name, spawn(command, args, { env, stdio: ["ignore", "pipe", "pipe"] }));
    const late = new AbortController();
    try {
      const url = await Promise.race([program.#address(), sleep(TO_START_MS, undefined, { signal: late.signal })]);
      if (url) return [program, url];
    } finally {
      late.abort();
    }
    await program.end();
    throw new Error(`${name} does not say where it listens:\n${program.said}`);
  }

  private constructor(name: string, child: ChildProcess) {
    this.#name = name;
    this.#child = child;
    this.#ended = once(child, "exit");
    running.add(child);
    this.#ended.then(
      () => running.delete(child),
      () => running.delete(child),
    );
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding("utf8").on("data", (text: string) => void (this.said += text));
    }
  }

  async #address(): Promise<string> {
    for (;;) {
      const found = /listening on (http:\S+)/.exec(this.said)?.[1];
      if (found) return found;
      const spoke = once(this.#child.stdout!, "data").then(() => true);
      if (!(await Promise.race([spoke, this.#ended.then(() => false)]))) {
        throw new Error(`${this.#name} ended at once:\n${this.said}`);
      }
    }
  }

  /** Stops the program, and waits until it has exited. */
  async end(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) this.#child.kill(signal);
    await this.#ended;
  }
}

/** Runs a program to its end; returns its output. */
export async function run(command: string, args: string[], env: Record<string, string>): Promise<string> {
  return (await promisify(execFile)(command, args, { env })).stdout.trim();
}
