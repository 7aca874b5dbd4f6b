// Programs of a case, each ended with the process that started it.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

const TO_START_MS = 60_000;

const running = new Set();
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

export class Program {
  /** Starts the program and waits for the address that it prints. */
  static async start(name, command, parameters, env = {}) {
    const child = spawn(command, parameters, { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
    const program = new Program(name, child);
    const late = sleep(TO_START_MS, null, { ref: false });
    program.url = await Promise.race([program.#address(), late]);
    if (program.url) return program;
    await program.end();
    throw new Error(`${name} does not say where it listens:\n${program.said}`);
  }

  constructor(name, child) {
    this.name = name;
    this.child = child;
    this.said = "";
    this.ended = once(child, "exit");
    running.add(child);
    this.ended.then(() => running.delete(child));
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => void (this.said += text));
    }
  }

  async #address() {
    for (;;) {
      const found = this.said.match(/listening on (http:\S+)/);
      if (found) return found[1];
      const ended = await Promise.race([once(this.child.stdout, "data"), this.ended.then(() => true)]);
      if (ended === true) throw new Error(`${this.name} ended at once:\n${this.said}`);
    }
  }

  /** Ends the program, and waits for its exit. */
  async end(signal = "SIGKILL") {
    if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill(signal);
    await this.ended;
  }
}
