import type { Threadline } from "../client.js";
import type { RunInput } from "../runs.js";
import type { Message, Tool } from "../types.js";
import type { SendOptions } from "./snapshot.js";
import type { OwnTool, PageTools, RunnerOwner, ToolRunner } from "./tool-runner.js";
import { callsOf } from "./tools.js";

/** The thread whose calls are answered. */
export interface ToolboxOwner extends Pick<RunnerOwner, "answer"> {
  /** The tools have changed. */
  readonly onChange: () => void;
}

/** The tools that the components of a page register for a thread, and the calls of them that are executed here. */
export class PageToolbox {
  readonly #client: Threadline;
  readonly #threadId: string;
  readonly #owner: ToolboxOwner;
  readonly #sources = new Set<() => readonly [string, OwnTool][]>();
  #runner: Promise<ToolRunner> | undefined;

  constructor(client: Threadline, threadId: string, owner: ToolboxOwner) {
    this.#client = client;
    this.#threadId = threadId;
    this.#owner = owner;
  }

  /**
   * Registers tools; returns a function that removes them. `source` is called whenever they are needed. Results go to this
   * agent, or else to the thread's own.
   */
  readonly register = (source: () => PageTools, { agentId }: SendOptions = {}): (() => void) => {
    const own = () => Object.entries(source()).map(([name, tool]): [string, OwnTool] => [name, { tool, agentId }]);
    this.#sources.add(own);
    this.#owner.onChange();
    return () => {
      this.#sources.delete(own);
      this.#owner.onChange();
    };
  };

  #find(name: string): OwnTool | undefined {
    return this.#all().get(name);
  }

  /** The input of a run, with these tools. Tools that the input itself has stay as they are. */
  offeredIn(input: RunInput): RunInput {
    const given = Array.isArray(input.tools) ? (input.tools as readonly Tool[]) : [];
    const own = [...this.#all()].flatMap(([name, { tool }]) => {
      const { description = "", parameters = NO_PARAMETERS } = tool;
      return given.some((other) => other.name === name) ? [] : { name, description, parameters };
    });
    return own.length === 0 ? input : { ...input, tools: [...given, ...own] };
  }

  /**
   * Executes what is due: the calls of registered tools without a result, after the last message of the user. Calls that are
   * not due any more are aborted. `mayBegin`: no run is active, so that no more calls or results are to be expected.
   */
  look(messages: readonly Message[], pendingIds: readonly string[], mayBegin: boolean): void {
    if (this.#sources.size === 0 && !this.#runner) return;
    const pending = new Set(pendingIds);
    const calls = messages.slice(messages.findLastIndex(({ role }) => role === "user") + 1).flatMap(callsOf);
    const due = calls.filter(({ id, function: { name } }) => pending.has(id) && this.#find(name) !== undefined);
    if (due.length === 0 && !this.#runner) return;
    void this.#with((runner) => runner.look(due, mayBegin));
  }

  /** Gives up everything: the page has left the thread. */
  close(): void {
    if (!this.#runner) return;
    const runner = this.#runner;
    this.#runner = undefined;
    void runner.then(
      (runner) => runner.close(),
      () => {},
    );
  }

  #all(): ReadonlyMap<string, OwnTool> {
    return new Map([...this.#sources].flatMap((source) => source()));
  }

  /** Most pages have no tools, so the code that executes them is loaded on demand. */
  async #with(task: (runner: ToolRunner) => void): Promise<void> {
    this.#runner ??= import("./tool-runner.js").then(
      ({ ToolRunner }) =>
        new ToolRunner(this.#client, this.#threadId, {
          find: (name) => this.#find(name),
          answer: this.#owner.answer,
        }),
    );
    const loading = this.#runner;
    try {
      const runner = await loading;
      if (loading === this.#runner) task(runner);
    } catch {
      // The code could not be loaded: the next change tries again.
      if (loading === this.#runner) this.#runner = undefined;
    }
  }
}

const NO_PARAMETERS = { type: "object", properties: {} };
