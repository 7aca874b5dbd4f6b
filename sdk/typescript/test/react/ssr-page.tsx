// A page that a server renders. The tests bundle this file for each version of React, which renders it in Node and in a
// document.

import { type ReactElement, Suspense } from "react";
import { hydrateRoot } from "react-dom/client";
import { renderToPipeableStream, renderToString } from "react-dom/server";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { WebSocket } from "ws";
import { Threadline, type ThreadlineOptions, type WebSocketClass } from "../../src/index.js";
import {
  type Dehydrated,
  ThreadlineProvider,
  useSuspenseThread,
  useThread,
  useThreadValue,
} from "../../src/react/index.js";

export { dehydrate } from "../../src/react/server.js";

export function connect(options: ThreadlineOptions): Threadline {
  return new Threadline({ WebSocket: WebSocket as unknown as WebSocketClass, ...options });
}

/** What the components of a page have rendered, in order. */
export interface Rendered {
  readonly loading: boolean[];
  /** The names of the thread, one for each render of the title. */
  readonly titles: (string | null)[];
}

export interface Shown {
  readonly client: Threadline;
  readonly threadId: string;
  readonly initial?: Dehydrated | undefined;
  readonly rendered: Rendered;
  /** The messages suspend while they are loading. */
  readonly suspends?: boolean;
}

export const nothing = (): Rendered => ({ loading: [], titles: [] });

function Title({ threadId, rendered }: Shown): ReactElement {
  const name = useThreadValue(threadId, ({ thread }) => thread?.name ?? null);
  rendered.titles.push(name);
  return <h1>{name}</h1>;
}

function Messages({ threadId, rendered }: Shown): ReactElement {
  const { messages, state, isLoading, isRunning } = useThread<{ city?: string }>(threadId);
  rendered.loading.push(isLoading);
  return (
    <ol className={isLoading ? "loading" : isRunning ? "running" : "idle"} title={state.city}>
      {messages.map(({ id, content }) => (
        <li key={id}>{String(content)}</li>
      ))}
    </ol>
  );
}

function Suspending({ threadId }: Shown): ReactElement {
  const { messages } = useSuspenseThread(threadId);
  return <p>{messages.map(({ content }) => String(content)).join()}</p>;
}

function tree(shown: Shown): ReactElement {
  return (
    <ThreadlineProvider client={shown.client} initial={shown.initial}>
      <main>
        <Title {...shown} />
        {shown.suspends ? (
          <Suspense fallback={<i>please wait</i>}>
            <Suspending {...shown} />
          </Suspense>
        ) : (
          <Messages {...shown} />
        )}
      </main>
    </ThreadlineProvider>
  );
}

export function html(shown: Shown): string {
  return renderToString(tree(shown));
}

export async function streamed(shown: Shown, onError: (error: unknown) => void): Promise<string> {
  const { pipe } = renderToPipeableStream(tree(shown), { onError: (error) => void onError(error) });
  return text(pipe(new PassThrough()));
}

/** Hydrates a container; returns a function that unmounts it. */
export function hydrate(container: Element, shown: Shown, onRecoverableError: (error: unknown) => void): () => void {
  const root = hydrateRoot(container, tree(shown), { onRecoverableError });
  return () => root.unmount();
}
