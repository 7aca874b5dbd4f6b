"use client";

import { useMemo } from "react";
import { ConfigError } from "../errors.js";
import { type Provided, useProvided } from "./context.js";
import { type Initial, Initials } from "./initial.js";
import { THREADS } from "./kinds.js";
import type { Dehydrated } from "./seed.js";
import { openStore, sharedStore } from "./shared.js";
import { joinBranch, showBranch, shownBranch } from "./shown-branch.js";
import { EMPTY_THREAD, type ThreadSnapshot } from "./snapshot.js";
import type { ThreadStore } from "./thread.js";

/** The store of the branch that is shown, as hooks use it. */
export interface ShownThread {
  /** Returns the store; throws if no thread is selected. */
  store(): ThreadStore;
  /** Returns the store if it is open: methods about the shown content, such as late tool results, must not create one. */
  open(): ThreadStore | undefined;
  /** Shows another branch in its place. */
  show(branch: string): void;
  /** Connects something with the store, and again with the store of each branch that is shown later. */
  attach(connect: (store: ThreadStore) => () => void): () => void;
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

/** Returns the thread that a component shows, or the branch in its place; null if none is selected. */
export function useShownThread(threadId: string | null): ShownThread {
  const provided = useProvided();
  return useMemo(() => (threadId === null ? NOTHING : shownThread(provided, threadId)), [provided, threadId]);
}

const NOTHING: ShownThread = {
  store: () => {
    throw new ConfigError("no thread is selected");
  },
  open: () => undefined,
  show: () => {},
  attach: () => () => {},
  subscribe: () => () => {},
  getSnapshot: () => NO_THREAD,
  getServerSnapshot: () => NO_THREAD,
};

function shownThread(provided: Provided, threadId: string): ShownThread {
  const { client } = provided;
  const loading: ThreadSnapshot = { ...EMPTY_THREAD, shownThreadId: threadId };
  let attached = 0;
  /** The branch that was shown when the component left the thread: late calls are about it. */
  let left: string | undefined;
  const shown = () => left ?? shownBranch(client, threadId);
  const given = () => initialOf(provided, threadId);
  const initial = () => {
    const found = shown() === threadId ? given() : undefined;
    return found?.isDropped ? undefined : found;
  };
  const store = () => sharedStore(client, THREADS, { threadId: shown(), initial: initial() });
  const open = () => openStore(client, THREADS, { threadId: shown() });
  const show = (branch: string) => showBranch(client, threadId, branch);
  const attach = (connect: (store: ThreadStore) => () => void, onMove = () => {}) => {
    attached += 1;
    left = undefined;
    let leave = () => {};
    const end = joinBranch(client, threadId, () => {
      const before = leave;
      leave = connect(store());
      before();
      onMove();
    });
    leave = connect(store());
    return () => {
      attached -= 1;
      if (attached === 0) left = shown();
      end();
      leave();
    };
  };
  const subscribe = (listener: () => void) => {
    const connect = (store: ThreadStore) =>
      store.subscribe(() => {
        const back = store.returnsTo;
        if (back === undefined) listener();
        else show(back);
      });
    return attach(connect, listener);
  };
  return {
    store,
    open,
    show,
    attach: (connect) => attach(connect),
    subscribe,
    getSnapshot: () => open()?.getSnapshot() ?? initial()?.snapshot ?? loading,
    // A page hydrates what is in the HTML, also if that has been replaced meanwhile.
    getServerSnapshot: () => given()?.snapshot ?? loading,
  };
}
