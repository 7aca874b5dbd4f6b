import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { until } from "./until.js";

/** An example that is a page: its `npm start`, on a separate port. The process runs until its input is closed. */
export class Example {
  readonly #process: ChildProcess;
  readonly #local: string;

  static async start(name: string): Promise<Example> {
    const folder = fileURLToPath(new URL(`../../../../examples/${name}/`, import.meta.url));
    if (!existsSync(join(folder, "node_modules/react"))) {
      throw new Error("scripts/setup.sh test installs the example's packages");
    }
    const { scripts } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
      scripts: { start: string };
    };
    const [command = "", ...args] = scripts.start.replace(/--serve=\S+/, "--serve=127.0.0.1:0").split(" ");
    const program = spawn(join(folder, "node_modules/.bin", command), args, {
      cwd: folder,
      stdio: ["pipe", "pipe", "pipe"],
    });
    let said = "";
    for (const stream of [program.stdout, program.stderr])
      stream.on("data", (text: Buffer) => (said += text.toString()));
    const local = () => /Local:\s+(http:\S+)/.exec(said)?.[1] ?? "";
    return new Example(program, await until("the page", local, () => said));
  }

  private constructor(process: ChildProcess, local: string) {
    this.#process = process;
    this.#local = local;
  }

  /** Address of the page, for a server. */
  at(server: { readonly url: string }): string {
    return `${this.#local}?server=${encodeURIComponent(server.url)}`;
  }

  end(): void {
    this.#process.kill();
  }
}
