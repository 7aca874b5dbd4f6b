// A page with one component, whose hook's results a test reads, and how often it was rendered.

import { render } from "@testing-library/react";
import { StrictMode } from "react";
import { WebSocket } from "ws";
import { Threadline, type ThreadlineOptions, type WebSocketClass } from "../../src/index.js";
import { ThreadlineProvider, useThread, type UseThread, useThreads, type UseThreads } from "../../src/react/index.js";
import type { ThreadListOptions, UseThreadOptions } from "../../src/react/index.js";
import { until } from "../harness/until.js";

/** A client as a browser has it. */
export function connect(options: ThreadlineOptions): Threadline {
  return new Threadline({ WebSocket: WebSocket as unknown as WebSocketClass, ...options });
}

export class Page<Props, Result> {
  /** What the hook gave, each time that something was new. */
  readonly seen: Result[] = [];
  readonly #rerender: (props: Props) => void;
  readonly #unmount: () => void;

  constructor(client: Threadline, use: (props: Props) => Result, props: Props) {
    const Component = ({ given }: { given: Props }) => {
      const result = use(given);
      // StrictMode renders everything twice.
      if (result !== this.seen.at(-1)) this.seen.push(result);
      return null;
    };
    const tree = (given: Props) => (
      <StrictMode>
        <ThreadlineProvider client={client}>
          <Component given={given} />
        </ThreadlineProvider>
      </StrictMode>
    );
    const { rerender, unmount } = render(tree(props));
    this.#rerender = (given) => rerender(tree(given));
    this.#unmount = unmount;
  }

  get now(): Result {
    return this.seen.at(-1)!;
  }

  show(props: Props): void {
    this.#rerender(props);
  }

  leave(): void {
    this.#unmount();
  }

  /** Waits until what the hook gives is so. */
  async until(what: string, test: (now: Result) => unknown): Promise<Result> {
    await until(
      what,
      () => test(this.now),
      () => this.now,
    );
    return this.now;
  }

  /** Does something, and gives what came of it. */
  async do<T>(task: (now: Result) => Promise<T>): Promise<T> {
    const done = await task(this.now);
    // React renders what has changed by then.
    await new Promise(setImmediate);
    return done;
  }
}

export type ThreadPage = Page<{ threadId: string | null } & UseThreadOptions, UseThread>;
export type ListPage = Page<ThreadListOptions, UseThreads>;

export function threadPage(client: Threadline, threadId: string | null, options: UseThreadOptions = {}): ThreadPage {
  return new Page(client, ({ threadId, ...options }) => useThread(threadId, options), { threadId, ...options });
}

export function listPage(client: Threadline, options: ThreadListOptions = {}): ListPage {
  return new Page(client, (options: ThreadListOptions) => useThreads(options), options);
}

/** What the messages say. */
export function said({ messages }: UseThread): unknown[] {
  return messages.map(({ content }) => content);
}

export function names({ threads }: UseThreads): (string | null)[] {
  return threads.map(({ name }) => name);
}
