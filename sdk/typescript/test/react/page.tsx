// A page with one component. Tests read the results of its hook and the number of renders.

import { render } from "@testing-library/react";
import { type ReactNode, StrictMode } from "react";
import { WebSocket } from "ws";
import { Threadline, type ThreadlineOptions, type WebSocketClass } from "../../src/index.js";
import { ThreadlineProvider, useInbox, useThread, useThreads } from "../../src/react/index.js";
import type {
  InboxOptions,
  ThreadListOptions,
  UseInbox,
  UseThread,
  UseThreadOptions,
  UseThreads,
} from "../../src/react/index.js";
import { until } from "../harness/until.js";

/** A client, configured as in a browser. */
export function connect(options: ThreadlineOptions): Threadline {
  return new Threadline({ WebSocket: WebSocket as unknown as WebSocketClass, ...options });
}

export class Page<Props, Result> {
  /** The results of the hook, one for each change. */
  readonly seen: Result[] = [];
  readonly #rerender: (props: Props) => void;
  readonly #unmount: () => void;

  constructor(client: Threadline, use: (props: Props) => Result, props: Props, beside?: ReactNode) {
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
          {beside}
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

  /** Waits until the hook's result satisfies a condition. */
  async until(what: string, test: (now: Result) => unknown): Promise<Result> {
    await until(
      what,
      () => test(this.now),
      () => this.now,
    );
    return this.now;
  }

  /** Calls a function, and returns its result. */
  async do<T>(task: (now: Result) => Promise<T>): Promise<T> {
    const done = await task(this.now);
    // React renders the changes in the meantime.
    await new Promise(setImmediate);
    return done;
  }
}

export type ThreadPage = Page<{ threadId: string | null } & UseThreadOptions, UseThread>;
export type ListPage = Page<ThreadListOptions, UseThreads>;
export type InboxPage = Page<InboxOptions, UseInbox>;

export function threadPage(client: Threadline, threadId: string | null, options: UseThreadOptions = {}): ThreadPage {
  return new Page(client, ({ threadId, ...options }) => useThread(threadId, options), { threadId, ...options });
}

export function listPage(client: Threadline, options: ThreadListOptions = {}): ListPage {
  return new Page(client, (options: ThreadListOptions) => useThreads(options), options);
}

export function inboxPage(client: Threadline, options: InboxOptions = {}): InboxPage {
  return new Page(client, (options: InboxOptions) => useInbox(options), options);
}

/** The texts of the messages. */
export function said({ messages }: UseThread): unknown[] {
  return messages.map(({ content }) => content);
}

export function names({ threads }: UseThreads): (string | null)[] {
  return threads.map(({ name }) => name);
}
