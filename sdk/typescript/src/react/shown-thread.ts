"use client";

import { useMemo } from "react";
import { ConfigError } from "../errors.js";
import { type Provided, useProvided } from "./context.js";
import { type Initial, Initials } from "./initial.js";
import { THREADS } from "./kinds.js";
import type { Dehydrated } from "./seed.js";
import { openStore, sharedStore } from "./shared.js";
import { EMPTY_THREAD, type ThreadSnapshot } from "./snapshot.js";
import type { ThreadStore } from "./thread.js";

/** The store of a thread, as hooks use it. */
export interface ShownThread {
  /** Returns the store; throws if no thread is selected. */
  store(): ThreadStore;
  /** Returns the store if it is open: methods about the shown content, such as late tool results, must not create one. */
  open(): ThreadStore | undefined;
  subscribe(listener: () => void): () => void;
  getSnapshot(): ThreadSnapshot;
  getServerSnapshot(): ThreadSnapshot;
}

const NO_THREAD: ThreadSnapshot = { ...EMPTY_THREAD, isLoading: false };

const rendered = new WeakMap<Dehydrated, Initials>();

/** The thread as the server has rendered it, if it has. */
function initialOf({ client, initial }: Provided, threadId: string): Initial | undefined {
  if (!initial) return undefined;
  let initials = rendered.get(initial);
  if (initials?.client !== client) rendered.set(initial, (initials = new Initials(client, initial)));
  return initials.get(threadId);
}

/** Returns the thread that a component shows; null if none is selected. */
export function useShownThread(threadId: string | null): ShownThread {
  const provided = useProvided();
  return useMemo(() => {
    const { client } = provided;
    const given = () => (threadId === null ? undefined : initialOf(provided, threadId));
    const initial = () => {
      const found = given();
      return found?.isDropped ? undefined : found;
    };
    const store = () => {
      if (threadId === null) throw new ConfigError("no thread is selected");
      return sharedStore(client, THREADS, { threadId, initial: initial() });
    };
    const open = () => (threadId === null ? undefined : openStore(client, THREADS, { threadId }));
    return {
      store,
      open,
      subscribe: (listener) => (threadId === null ? () => {} : store().subscribe(listener)),
      getSnapshot: () =>
        threadId === null ? NO_THREAD : (open()?.getSnapshot() ?? initial()?.snapshot ?? EMPTY_THREAD),
      // A page hydrates what is in the HTML, also if that has been replaced meanwhile.
      getServerSnapshot: () => (threadId === null ? NO_THREAD : (given()?.snapshot ?? EMPTY_THREAD)),
    };
  }, [provided, threadId]);
}
